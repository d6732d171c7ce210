"""Transactions: staged from many places, committed once, never twice."""

from __future__ import annotations

import multiprocessing
import pickle
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import lode
from lode.store import Fault, FaultStore, LocalStore, MemoryStore
from lode.write.open_files import MAX_OPEN_FILES
from lode.write.stage import MIN_PARALLEL_ROWS
from support.stores import contents, data_files, manifests

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lode.store import CountingStore


def stage_in_a_process(stager: lode.Stager, part: int) -> lode.Staged:
    return stager.stage([{"part": part, "row": row} for row in range(3)], task=str(part))


def test_threads_stage_at_once(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store, codec="jsonl")
    with dataset.transaction({"job": 7}) as transaction, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda part: transaction.stage([{"part": part}] * 2), range(16)))
        snapshot = transaction.commit()
    assert (snapshot.row_count, len(snapshot.files), snapshot.metadata) == (32, 16, {"job": 7})
    assert sorted(row["part"] for row in dataset.read(snapshot)) == sorted([*range(16)] * 2)
    assert dataset.snapshots() == [snapshot]


def test_processes_stage_with_a_pickled_stager(tmp_path: Path) -> None:
    dataset = lode.Dataset(
        "events", LocalStore(tmp_path / "lake", durable=False), codec="jsonl", checksum="md5"
    )
    with dataset.transaction() as transaction:
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(2, mp_context=spawn) as pool:
            parts = list(pool.map(stage_in_a_process, [transaction.stager] * 3, range(3)))
        transaction.add(*parts)
        snapshot = transaction.commit()
    assert snapshot.row_count == 9
    assert sorted((row["part"], row["row"]) for row in dataset.read(snapshot, verify=True)) == [
        (part, row) for part in range(3) for row in range(3)
    ]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"codec": "jsonl", "compressor": "zstd", "checksum": "xxh3-128"},
        {"codec": lode.Parquet({"id": "int64!"}), "layout": lode.HiveLayout("id")},
        {"codec": lode.ArrowIPC({"id": "int64"}), "layout": lode.FlatLayout(), "timestamp_column": "at"},
    ],
)
def test_a_stager_survives_pickling(tmp_path: Path, options: dict[str, Any]) -> None:
    stager = lode.Dataset("events", tmp_path, **options).transaction().stager
    copy = pickle.loads(pickle.dumps(stager))
    for field in ("dataset_id", "layout", "components", "snapshot_id", "timestamp_column"):
        assert getattr(copy, field) == getattr(stager, field)
    assert copy.store.url == stager.store.url


def test_what_a_stager_returns_survives_pickling(tmp_path: Path) -> None:
    dataset = lode.Dataset("events", tmp_path, codec="parquet", timestamp_column=None)
    staged = dataset.transaction().stager.stage(pa.table({"id": [1]}), task="a")
    assert pickle.loads(pickle.dumps(staged)) == staged
    assert (staged.row_count, staged.task) == (1, "a")


def test_a_task_that_ran_twice_counts_once_and_its_second_files_go(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store, codec="jsonl")
    with dataset.transaction() as transaction:
        kept = transaction.stage([{"try": 1}], task="part-0")
        transaction.stage([{"try": 2}], task="part-0")
        transaction.stage([{"try": 1}], task="part-1")
        snapshot = transaction.commit()
    assert snapshot.row_count == 2
    assert kept.files[0] in snapshot.files
    assert dataset.read(snapshot) == [{"try": 1}, {"try": 1}]
    assert data_files(store) == sorted(file.path for file in snapshot.files)


def test_adding_one_result_twice_counts_once_and_keeps_its_file(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store, codec="jsonl")
    with dataset.transaction() as transaction:
        staged = transaction.stager.stage([{"id": 1}])
        transaction.add(staged, staged)
        transaction.add(pickle.loads(pickle.dumps(staged)))
        snapshot = transaction.commit()
    assert snapshot.row_count == 1
    assert dataset.read(snapshot) == [{"id": 1}]


def test_equal_data_staged_twice_without_a_task_is_there_twice(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store, codec="jsonl")
    with dataset.transaction() as transaction:
        transaction.stage([{"id": 1}])
        transaction.stage([{"id": 1}])
        assert transaction.commit().row_count == 2


@pytest.mark.parametrize("how", ["abort", "leaving the block", "an exception"])
def test_giving_up_removes_the_staged_files(store: CountingStore, how: str) -> None:
    dataset = lode.Dataset("events", store, codec="jsonl", layout=lode.HiveLayout("k"))

    def give_up() -> None:
        with dataset.transaction() as transaction:
            transaction.stage([{"k": 1}, {"k": 2}])
            transaction.write_records([{"k": 3}])
            assert len(data_files(store)) == 3
            if how == "abort":
                transaction.abort()
            if how == "an exception":
                raise RuntimeError

    if how == "an exception":
        with pytest.raises(RuntimeError):
            give_up()
    else:
        give_up()
    assert contents(store) == {}


@pytest.mark.parametrize("ending", ["commit", "abort"])
def test_a_finished_transaction_takes_nothing_more(memory: CountingStore, ending: str) -> None:
    transaction = lode.Dataset("events", memory, codec="jsonl").transaction()
    getattr(transaction, ending)()
    for call in (lambda: transaction.stage([]), transaction.commit, lambda: transaction.write_records([])):
        with pytest.raises(lode.TransactionClosedError, match=r"begin another one with dataset\.transaction"):
            call()
    transaction.abort()


def test_a_transaction_without_files_is_an_empty_snapshot(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store, codec="jsonl")
    snapshot = dataset.transaction({"note": "nothing today"}).commit()
    assert (snapshot.files, snapshot.row_count, dataset.read(snapshot)) == ((), 0, [])


def test_more_partitions_than_open_files_are_written_and_all_rows_are_there(memory: CountingStore) -> None:
    dataset = lode.Dataset("events", memory, codec="jsonl", layout=lode.HiveLayout("k"))
    partitions = MAX_OPEN_FILES + 9

    def records() -> Iterator[dict[str, int]]:
        for row in range(30_000):
            yield {"k": row % partitions, "row": row}

    with dataset.transaction() as transaction:
        staged = transaction.write_records(records())
        snapshot = transaction.commit()
    assert len(staged.files) > partitions, "a partition that came back got another file"
    assert snapshot.row_count == 30_000
    assert sorted(row["row"] for row in dataset.read(snapshot)) == list(range(30_000))
    for file in snapshot.files:
        key = int(dataset.layout.partition_of("events", file.path).removeprefix("k="))
        assert all(b'"k":%d,' % key in line for line in memory.get(file.path).splitlines())


def test_an_error_in_the_middle_of_a_stream_removes_finished_and_open_files(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store, codec="jsonl", layout=lode.HiveLayout("k"))

    def records() -> Iterator[dict[str, int]]:
        for row in range(20_000):
            yield {"k": row % 40}
        raise OSError("the source broke")

    transaction = dataset.transaction()
    with pytest.raises(OSError, match="the source broke"):
        transaction.write_records(records())
    assert data_files(store) == []


def test_a_staged_partition_that_finishes_late_is_removed_with_the_others() -> None:
    """One partition fails while another is still on its way: neither may stay behind."""
    begun, failed, late = threading.Event(), threading.Event(), threading.Event()

    class Slow(FaultStore):
        def put(self, path: str, data: Any) -> None:
            if "k=slow" in path:
                begun.set()
                assert failed.wait(60)
                super().put(path, data)
                late.set()
                return
            try:
                assert begun.wait(60)
                super().put(path, data)
            finally:
                failed.set()

    inner = MemoryStore()
    store = Slow(inner, Fault("put", "*k=bad*", error=lode.StoreError("disk full")))
    dataset = lode.Dataset("events", store, codec="jsonl", layout=lode.HiveLayout("k"))
    # Few rows would be written one file after the other.
    rows = [{"k": key} for key in ("bad", "slow") for _ in range(MIN_PARALLEL_ROWS)]
    with pytest.raises(lode.StoreError, match="disk full"):
        dataset.write(rows)
    assert late.is_set()
    assert data_files(inner) == []


def test_one_commit_of_many_parts_costs_one_intent_one_swap_and_one_manifest(memory: CountingStore) -> None:
    dataset = lode.Dataset("events", memory, codec="jsonl")
    dataset.write([])
    transaction = dataset.transaction()
    for part in range(5):
        transaction.stage([{"part": part}])
    memory.reset()
    transaction.commit()
    assert memory.total == 3


@pytest.mark.parametrize("blobs", [0, 2])
def test_a_snapshot_without_codec_is_exactly_one_blob(memory: CountingStore, blobs: int) -> None:
    dataset = lode.Dataset("events", memory)
    transaction = dataset.transaction()
    for _ in range(blobs):
        transaction.stage(b"x")
    with pytest.raises(lode.InvalidOptionError, match=f"exactly one blob, and {blobs} are staged"):
        transaction.commit()
    assert not [path for path in contents(memory) if "/data/" not in path]
    transaction.abort()
    assert contents(memory) == {}


def test_a_blob_that_was_missing_can_be_staged_after_the_refusal(memory: CountingStore) -> None:
    dataset = lode.Dataset("events", memory)
    transaction = dataset.transaction()
    with pytest.raises(lode.InvalidOptionError):
        transaction.commit()
    transaction.stage(b"x")
    assert transaction.commit().row_count == 1


def test_a_task_that_staged_its_blob_twice_has_staged_one(memory: CountingStore) -> None:
    transaction = lode.Dataset("events", memory).transaction()
    for _ in range(2):
        transaction.stage(b"x", task="a")
    assert transaction.commit().row_count == 1


def test_a_failed_commit_before_the_swap_can_be_repeated() -> None:
    inner = MemoryStore()
    store = FaultStore(inner, Fault("put", "*/intent.json", error=lode.StoreError("try later")))
    dataset = lode.Dataset("events", store)
    transaction = dataset.transaction()
    transaction.stage(b"x")
    with pytest.raises(lode.StoreError, match="try later"):
        transaction.commit()
    assert manifests(inner) == []
    assert dataset.read(transaction.commit()) == b"x"
