"""Small files are read whole and several at once: the same rows, in the same order, in bounded memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lode
from lode.read import scan, small
from lode.store import CountingStore, LocalStore, MemoryStore

if TYPE_CHECKING:
    from pathlib import Path


def numbers(store: lode.Store, files: int, rows: int = 10) -> lode.Dataset:
    dataset = lode.Dataset("d", store, codec="parquet")
    with dataset.transaction(schema={"n": "int64", "x": "float64", "s": "string"}) as transaction:
        for number in range(files):
            first = number * rows
            table = pa.table(
                {
                    "n": range(first, first + rows),
                    "x": [float("nan") if n % 3 == 0 else n / 2 for n in range(first, first + rows)],
                    "s": [f"{n}" for n in range(first, first + rows)],
                }
            )
            transaction.add(transaction.stager.stage_named(table, f"-{number:05d}"))
        transaction.commit()
    return dataset


def read_files(store: CountingStore) -> list[str]:
    reading = ("get", "get_range", "head", "open_reader")
    return [path for method, path in store.events if method in reading and "/data/" in path]


def test_each_file_is_read_once_and_in_order(store: CountingStore) -> None:
    dataset = numbers(store, 300)
    store.reset()
    assert dataset.scan(columns=["n"]).read_all()["n"].to_pylist() == list(range(3000))
    assert sorted(read_files(store)) == dataset.plan().paths


def test_small_and_large_files_keep_their_order(
    store: CountingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small, "MAX_SMALL_ROWS", 50)
    dataset = lode.Dataset("d", store, codec="parquet")
    first = 0
    for rows in (10, 100, 10, 10, 100, 100, 10):
        dataset.write(pa.table({"n": range(first, first + rows)}))
        first += rows
    assert dataset.scan().read_all()["n"].to_pylist() == list(range(first))
    assert dataset.scan(where="n > 50").read_all()["n"].to_pylist() == list(range(51, first))


CONDITIONS: list[Any] = [
    None,
    "n >= 95 AND n < 105",
    "x > 10",
    "NOT x > 10",
    "s LIKE '%7'",
    pc.field("x") != 5.0,
    pc.field("s").isin(["3", "44"]),
]


@pytest.mark.parametrize("where", CONDITIONS, ids=str)
@pytest.mark.parametrize("columns", [None, ["s"], ["x", "n"], []], ids=str)
def test_a_small_file_gives_the_rows_that_the_scanner_gives(
    monkeypatch: pytest.MonkeyPatch, where: Any, columns: list[str] | None
) -> None:
    dataset = numbers(MemoryStore(), 20)
    whole = dataset.scan(columns=columns, where=where).read_all()
    monkeypatch.setattr(scan, "is_small", lambda _: False)
    scanned = dataset.scan(columns=columns, where=where).read_all()
    assert whole.schema.equals(scanned.schema, check_metadata=True)
    assert whole.num_rows == scanned.num_rows > 0
    assert str(whole.to_pylist()) == str(scanned.to_pylist())  # NaN is not equal to itself


def test_columns_with_dots_in_their_names_are_told_apart(store: CountingStore) -> None:
    dataset = lode.Dataset("d", store, codec="parquet")
    table = pa.table({"s": [{"x": 1, "y": 2}], "s.x": [3], "y": [4]})
    dataset.write(table)
    assert dataset.scan().read_all().equals(table)
    for names in (["s"], ["s.x"], ["y", "s"]):
        assert dataset.scan(columns=names).read_all().equals(table.select(names))


def test_a_scan_of_an_opened_dataset_costs_what_it_costs_with_a_schema(store: CountingStore) -> None:
    schema = numbers(store, 30).schema
    store.reset()
    assert lode.Dataset("d", store, codec=lode.Parquet(schema)).scan().read_all().num_rows == 300
    given = store.total
    store.reset()
    assert lode.open_dataset("d", store).scan().read_all().num_rows == 300
    assert store.total <= given + 2  # the definition, and the pointer once more


def test_files_are_shared_among_threads_and_opened_apart_from_decoding(
    store: CountingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small, "is_nearby", lambda _: True)
    monkeypatch.setattr(small, "MIN_THREAD_BYTES", 1)
    monkeypatch.setattr(pa, "cpu_count", lambda: 4)
    dataset = numbers(store, 300)
    store.reset()
    assert dataset.scan().read_all()["n"].to_pylist() == list(range(3000))
    assert sorted(read_files(store)) == dataset.plan().paths


@pytest.mark.parametrize(("share", "threads"), [(1.0, 2), (0.5, 2), (0.1, 1), (0.0, 1)])
def test_a_thread_has_enough_to_decode(share: float, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pa, "cpu_count", lambda: 2)
    files = [lode.FileRef("f", 25_000)] * 3
    assert small._threads(MemoryStore(), files, share) == (threads, small.MAX_OPEN_FILES)


@pytest.mark.parametrize(
    ("threads", "size", "counts"),
    [
        (1, 1_000, [32, 32, 16]),
        (2, 1_000, [20, 15, 12, 9, 6, 5, 4, 3, 2, 1, 1, 1, 1]),
        (1, 256 << 10, [4] * 20),  # a megabyte at a time
    ],
)
def test_files_are_taken_in_batches_that_shrink_if_threads_share_them(
    threads: int, size: int, counts: list[int]
) -> None:
    files = [lode.FileRef(f"{number}", size) for number in range(80)]
    codec = lode.Parquet()
    round_ = small._Round(MemoryStore(), codec, files, pa.schema([]), threads, small.MAX_OPEN_FILES)
    taken = []
    while (batch := round_._take())[1]:
        taken.append(batch)
    assert [len(some) for _, some in taken] == counts
    assert [file for _, some in taken for file in some] == files
    assert [some[0].path for _, some in taken] == [f"{first}" for first, _ in taken]


def test_a_limit_reads_few_files(store: CountingStore) -> None:
    dataset = numbers(store, 300)
    store.reset()
    assert dataset.scan(limit=5).read_all().num_rows == 5
    assert len(read_files(store)) <= small.FIRST_ROUND_FILES


def test_files_that_decode_to_much_are_held_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small, "MAX_ROUND_BYTES", 100_000)
    store = CountingStore(MemoryStore())
    dataset = lode.Dataset("d", store, codec="parquet")
    with dataset.transaction(schema={"text": "string"}) as transaction:
        for number in range(200):
            table = pa.table({"text": ["x" * 10_000] * 50})  # half a megabyte, in a file of a kilobyte
            transaction.add(transaction.stager.stage_named(table, f"-{number:05d}"))
        transaction.commit()
    assert dataset.plan().size_bytes < 200 * 2_000
    store.reset()
    for number, _ in enumerate(dataset.scan()):
        assert len(read_files(store)) <= number + max(small.FIRST_ROUND_FILES, small.REMOTE_THREADS) + 1
    assert number == 199


def test_rows_written_under_earlier_columns_are_the_same_either_way(
    store: CountingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns: dict[str, Any] = {"a": "int32!", "b": "string", "c": pa.struct([("x", pa.int64())])}
    dataset = lode.Dataset.create("d", store, schema=columns)
    dataset.write([{"a": 1, "b": "x", "c": {"x": 1}}])
    dataset.evolve(add={"d": "int64"}, widen={"a": "int64"}, relax=["a"], rename={"b": "e"})
    dataset.write([{"a": None, "e": "y", "c": None, "d": 3}])
    whole = dataset.scan().read_all()
    monkeypatch.setattr(scan, "is_small", lambda _: False)
    assert whole.equals(dataset.scan().read_all())
    assert whole.to_pylist()[0] == {"a": 1, "e": "x", "c": {"x": 1}, "d": None}


@pytest.mark.parametrize("number", [0, 150, 299])
def test_a_damaged_file_is_named(tmp_path: Path, number: int) -> None:
    dataset = numbers(LocalStore(tmp_path, durable=False), 300)
    path = dataset.plan().paths[number]
    damaged = tmp_path / path
    damaged.write_bytes(b"PAR1" + bytes(damaged.stat().st_size - 4))
    with pytest.raises(lode.InvalidFormatError, match=rf"-{number:05d}\.parquet cannot be read"):
        dataset.scan().read_all()
    damaged.write_bytes(b"PAR1")
    with pytest.raises(lode.InvalidFormatError, match=rf"-{number:05d}\.parquet has 4 bytes, its manifest"):
        dataset.scan().read_all()
    damaged.unlink()
    with pytest.raises(lode.NotFoundError, match=rf"-{number:05d}\.parquet"):
        dataset.scan().read_all()


def test_a_larger_object_is_not_read_to_its_end(memory: CountingStore) -> None:
    dataset = numbers(memory, 2)
    path = dataset.plan().paths[0]
    memory.delete(path)
    memory.put(path, bytes(1_000_000))
    memory.reset()
    with pytest.raises(lode.InvalidFormatError, match="has 1000000 bytes, its manifest says"):
        dataset.scan().read_all()
    assert memory.bytes_out < 100_000
