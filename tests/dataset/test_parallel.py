"""One large table is encoded as several files at the same time, and nobody can tell from the rows."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import repeat
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import lode
from contract.stores import contents
from lode.store.memory import MemoryStore
from lode.store.wrappers import Fault, FaultStore
from lode.write.parallel import MOST_PARTS, FileJob, write_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("at", pa.timestamp("us", "UTC"))])
START = datetime(2026, 1, 1, tzinfo=UTC)
CORES = 4


@pytest.fixture(autouse=True)
def _cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(CORES)), raising=False)


def table(rows: int) -> pa.Table:
    times = [START + timedelta(seconds=number) for number in range(rows)]
    return pa.table({"id": range(rows), "at": times}, schema=SCHEMA)


def dataset(store: Any, **options: Any) -> lode.Dataset:
    # 16 bytes a row: a file of its own is worth 100 of them.
    return lode.Dataset("events", store, codec=lode.Parquet(SCHEMA, row_group_bytes=800), **options)


def names(snapshot: lode.Snapshot) -> list[str]:
    return [file.path.rpartition("/")[2] for file in snapshot.manifest.files]


def test_a_large_table_becomes_a_file_for_every_core(memory: MemoryStore) -> None:
    snapshot = dataset(memory).write(table(10_000))
    assert names(snapshot) == ["data-p000", "data-p001", "data-p002", "data-p003"]
    assert snapshot.row_count == 10_000
    assert [file.stats.row_count for file in snapshot.manifest.files if file.stats] == [2500] * 4


def test_its_rows_are_read_in_the_order_they_were_written_in(memory: MemoryStore) -> None:
    events = dataset(memory)
    snapshot = events.write(table(10_001))
    assert events.read(snapshot).equals(table(10_001))
    assert events.scan().read_all().equals(table(10_001))


@pytest.mark.parametrize(("rows", "files"), [(0, 1), (199, 1), (250, 2), (350, 3), (10_000, 4)])
def test_there_are_no_more_files_than_there_is_data_for(memory: MemoryStore, rows: int, files: int) -> None:
    assert len(dataset(memory).write(table(rows)).manifest.files) == files


def test_many_cores_do_not_make_ever_more_files(memory: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(1000)))
    assert len(dataset(memory).write(table(10_000)).manifest.files) == MOST_PARTS


def test_a_slice_is_weighed_by_its_own_rows(memory: MemoryStore) -> None:
    assert len(dataset(memory).write(table(10_000).slice(5000, 150)).manifest.files) == 1


def test_a_stream_stays_one_file_because_its_later_rows_are_not_here_yet(memory: MemoryStore) -> None:
    snapshot = dataset(memory).write(table(10_000).to_reader())
    assert names(snapshot) == ["data"]


def test_a_codec_that_encodes_in_python_writes_one_file(memory: MemoryStore) -> None:
    snapshot = lode.Dataset("events", memory, codec="jsonl").write(table(10_000))
    assert names(snapshot) == ["data"]


def test_the_time_range_is_that_of_all_files(memory: MemoryStore) -> None:
    snapshot = dataset(memory, timestamp_column="at").write(table(10_000))
    assert snapshot.manifest.min_timestamp == "2026-01-01T00:00:00Z"
    assert snapshot.manifest.max_timestamp == "2026-01-01T02:46:39Z"


def test_a_row_that_does_not_fit_is_named_by_its_place_in_the_table_and_nothing_remains(
    memory: MemoryStore,
) -> None:
    ids = pa.array([*range(9_000), None, *range(999)], pa.int64())
    loose = table(10_000).set_column(0, "id", ids)
    with pytest.raises(lode.SchemaViolationError, match="row 9000, column 'id'"):
        dataset(memory).write(loose)
    assert contents(memory) == {}


@pytest.mark.parametrize("file", range(CORES))
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_file_that_cannot_be_stored_takes_the_others_with_it(file: int, when: Any) -> None:
    inner = MemoryStore()
    full = lode.StoreError("disk full")
    store = FaultStore(inner, Fault("put", f"*/data-p00{file}", when=when, error=full))
    with pytest.raises(lode.StoreError, match="disk full"):
        dataset(store).write(table(10_000))
    assert contents(inner) == {}


def test_partitions_are_written_at_the_same_time_and_fall_together() -> None:
    inner = MemoryStore()
    store = FaultStore(inner, Fault("put", "*/id=7/*", error=lode.StoreError("disk full")))
    events = lode.Dataset("events", store, codec=lode.Parquet(SCHEMA), layout=lode.HiveLayout("id"))
    ids = pa.array([number % 10 for number in range(30_000)])
    parted = table(30_000).set_column(0, SCHEMA.field("id"), ids)
    with pytest.raises(lode.StoreError, match="disk full"):
        events.write(parted)
    assert contents(inner) == {}


def in_threads(task: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
    with ThreadPoolExecutor(4) as threads:
        return list(threads.map(task, items))


def test_the_other_files_stop_when_one_fails(memory: MemoryStore) -> None:
    stager = dataset(memory).stager()
    chunk = table(10).to_batches()[0]
    under_way = threading.Event()

    def endless() -> Iterator[pa.RecordBatch]:
        for part in repeat(chunk):
            yield part
            under_way.set()

    def broken(_: pa.RecordBatch) -> pa.RecordBatch:
        under_way.wait()
        raise KeyError("the source broke")

    jobs = [FileJob("", "-a", endless()), FileJob("", "-b", map(broken, [chunk]))]
    with pytest.raises(KeyError, match="the source broke"):
        write_files(jobs, stager.record_file, stager.discard, in_threads)
    assert contents(memory) == {}


def test_files_that_are_finished_after_an_interrupt_do_not_remain(memory: MemoryStore) -> None:
    stager = dataset(memory).stager()
    chunk = table(10).to_batches()[0]
    late: list[Callable[[], Any]] = []

    def interrupted(task: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        first, second = items
        task(first)
        late.append(lambda: task(second))
        raise KeyboardInterrupt

    jobs = [FileJob("", "-a", [chunk]), FileJob("", "-b", [])]
    with pytest.raises(KeyboardInterrupt):
        write_files(jobs, stager.record_file, stager.discard, interrupted)
    assert contents(memory) == {}
    late[0]()
    assert contents(memory) == {}
