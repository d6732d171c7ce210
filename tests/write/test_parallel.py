"""A large table or stream is encoded as several files at the same time, and its rows do not show it."""

from __future__ import annotations

import os
import signal
import threading
import weakref
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import repeat
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import lode
from lode.codec.parquet import ParquetEncoder
from lode.store.memory import MemoryStore
from lode.store.wrappers import CountingStore, Fault, FaultStore
from lode.write.parallel import MAX_TABLE_PARTS, FileJob, drain, pipelined, read_ahead, write_files
from support.stores import contents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

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
    assert names(snapshot) == [f"data-p00{number}.parquet" for number in range(4)]
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
    assert len(dataset(memory).write(table(10_000)).manifest.files) == MAX_TABLE_PARTS


def test_a_slice_is_weighed_by_its_own_rows(memory: MemoryStore) -> None:
    assert len(dataset(memory).write(table(10_000).slice(5000, 150)).manifest.files) == 1


# A part of a stream is at least 100 rows: so many go into a batch here.
BATCH = 60
STREAMS: dict[str, Callable[[pa.Table], Any]] = {
    "reader": lambda data: pa.RecordBatchReader.from_batches(SCHEMA, data.to_batches(BATCH)),
    "batches": lambda data: iter(data.to_batches(BATCH)),
    "tables": lambda data: (data.slice(start, BATCH) for start in range(0, data.num_rows, BATCH)),
    "records": lambda data: iter(data.to_pylist()),
}
EVERY_STREAM = pytest.mark.parametrize("kind", STREAMS)


@EVERY_STREAM
def test_a_large_stream_becomes_several_files_in_the_order_of_its_rows(
    memory: MemoryStore, kind: str
) -> None:
    events = dataset(memory, timestamp_column="at")
    snapshot = events.write(STREAMS[kind](table(20_001)))
    assert names(snapshot) == [f"data-p{number:06d}.parquet" for number in range(len(snapshot.files))]
    assert len(snapshot.files) > 1
    assert (snapshot.row_count, events.read(snapshot)) == (20_001, table(20_001))
    assert snapshot.manifest.min_timestamp == "2026-01-01T00:00:00Z"
    assert snapshot.manifest.max_timestamp == "2026-01-01T05:33:20Z"


@EVERY_STREAM
def test_stream_write_records_and_a_transaction_cut_a_stream_alike(memory: MemoryStore, kind: str) -> None:
    events = dataset(memory)
    streamed = events.stream_write_records(STREAMS[kind](table(20_000)))
    with events.transaction() as transaction:
        transaction.add(transaction.stager.write_records(STREAMS[kind](table(20_000))))
        staged = transaction.commit()
    assert len(streamed.files) == len(staged.files) > 1
    assert events.read(staged).equals(events.read(streamed))


@EVERY_STREAM
def test_a_small_stream_is_one_file_and_one_put(kind: str) -> None:
    store = CountingStore(MemoryStore())
    snapshot = dataset(store).write(STREAMS[kind](table(100)))
    assert names(snapshot) == ["data.parquet"]
    assert [method for method, path in store.events if "/data/" in path] == ["put"]


def test_a_stream_without_rows_is_one_file(memory: MemoryStore) -> None:
    snapshot = dataset(memory).write(iter([]))
    assert (names(snapshot), snapshot.row_count) == (["data.parquet"], 0)


def test_on_one_core_a_stream_is_one_file(memory: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    assert names(dataset(memory).write(table(10_000).to_reader())) == ["data.parquet"]


@pytest.mark.parametrize("after", [0, 1, 2, 7, 40])
def test_an_error_of_the_callers_iterator_passes_through_and_nothing_remains(
    memory: MemoryStore, after: int
) -> None:
    error = KeyError("the source broke")

    def broken() -> Iterator[pa.RecordBatch]:
        yield from table(BATCH * after).to_batches(BATCH)
        raise error

    with pytest.raises(KeyError) as caught:
        dataset(memory).write(broken())
    assert caught.value is error
    assert contents(memory) == {}


@pytest.mark.parametrize("file", [0, 1, 3, 9])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_part_of_a_stream_that_cannot_be_stored_takes_the_others_with_it(file: int, when: Any) -> None:
    inner = MemoryStore()
    full = lode.StoreError("disk full")
    store = FaultStore(inner, Fault("put", f"*/data-p00000{file}.parquet", when=when, error=full))
    with pytest.raises(lode.StoreError, match="disk full"):
        dataset(store).write(STREAMS["reader"](table(10_000)))
    assert contents(inner) == {}


@EVERY_STREAM
def test_a_row_of_a_stream_that_does_not_fit_is_named_by_its_place_in_it(
    memory: MemoryStore, kind: str
) -> None:
    ids = pa.array([*range(9_000), None, *range(999)], pa.int64())
    loose = table(10_000).set_column(0, "id", ids)
    with pytest.raises(lode.SchemaViolationError, match="row 9000, column 'id'"):
        dataset(memory).write(loose.to_reader(BATCH) if kind == "reader" else STREAMS[kind](loose))
    assert contents(memory) == {}


def test_the_files_of_a_stream_have_the_schema_of_its_first_batch(memory: MemoryStore) -> None:
    events = lode.Dataset("events", memory, codec=lode.Parquet(row_group_bytes=800))
    wide = table(1_000).set_column(0, "id", pa.array(range(1_000), pa.int32()))
    snapshot = events.write(iter([table(1_000), wide]))
    assert len(snapshot.files) > 1
    assert {events.scan().schema.field("id").type} == {pa.int64()}
    with pytest.raises(lode.SchemaViolationError, match="column 'when'"):
        events.write(iter([table(1_000), table(1_000).rename_columns(["id", "when"])]))


def test_no_more_parts_of_a_stream_are_in_memory_than_there_are_threads() -> None:
    lock, second = threading.Lock(), threading.Event()
    there = most = 0

    def make() -> Iterator[int]:
        nonlocal there, most
        for number in range(50):
            with lock:
                there += 1
                most = max(most, there)
            if number == 1:
                second.set()
            yield number

    def encode(number: int) -> int:
        nonlocal there
        assert second.wait(60), "the second part waits for the first"
        with lock:
            there -= 1
        return number

    assert sorted(pipelined(encode, make())) == list(range(50))
    assert 2 <= most <= CORES


class Source(bytearray):
    """Bytes of a column. Unlike plain ones they can be watched until the last batch lets go of them."""


@pytest.mark.parametrize("batches", [19, 600])
def test_the_bytes_in_flight_do_not_grow_with_the_stream(tmp_path: Path, batches: int) -> None:
    size, group = 4_096, 32_768
    live = most = 0
    lock = threading.RLock()

    def freed() -> None:
        nonlocal live
        with lock:
            live -= size

    def stream() -> Iterator[pa.RecordBatch]:
        nonlocal live, most
        for _ in range(batches):
            source = Source(os.urandom(size))
            weakref.finalize(source, freed)
            with lock:
                live += size
                most = max(most, live)
            yield pa.record_batch(
                [pa.Array.from_buffers(pa.int64(), size // 8, [None, pa.py_buffer(source)])], names=["n"]
            )
            del source

    codec = lode.Parquet(row_group_bytes=group)
    events = lode.Dataset("events", lode.open_store(tmp_path, durable=False), codec=codec)
    assert events.write(stream()).row_count == batches * size // 8
    assert live == 0
    # A part for each core, and the batches that are on their way into and out of them.
    assert most <= (CORES + 1) * codec.bytes_per_file
    assert not encoders()


def encoders() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("lode-encode")]


@pytest.mark.parametrize("kind", [*STREAMS, "table"])
def test_the_row_groups_of_a_single_file_are_encoded_at_the_same_time(
    memory: MemoryStore, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each of the two waits for the other.
    together = threading.Barrier(2, timeout=60)
    encode = ParquetEncoder._encode

    def meeting(encoder: ParquetEncoder, rows: pa.Table) -> Any:
        together.wait()
        return encode(encoder, rows)

    monkeypatch.setattr(ParquetEncoder, "_encode", meeting)
    codec = lode.Parquet(SCHEMA, row_group_rows=50, row_group_bytes=800)
    events = lode.Dataset("events", memory, codec=codec)
    rows = table(90)
    snapshot = events.write(rows if kind == "table" else STREAMS[kind](rows))
    assert names(snapshot) == ["data.parquet"]
    assert events.read(snapshot).equals(rows)
    assert not encoders()


def test_a_write_below_a_row_group_starts_no_thread(
    memory: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = dataset(memory)
    events.write(table(1))

    def started(*_: Any, **__: Any) -> None:
        raise AssertionError("a thread was started")

    monkeypatch.setattr(threading.Thread, "start", started)
    assert events.write(table(40)).row_count == 40
    assert events.write(table(40).to_reader()).row_count == 40
    assert events.stream_write_records(iter(table(40).to_pylist())).row_count == 40


@pytest.mark.parametrize("error", [lode.StoreError("disk full"), KeyboardInterrupt()])
def test_an_error_in_a_row_group_is_raised_once_and_nothing_remains(
    memory: MemoryStore, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(ParquetEncoder, "_encode", broken)
    for data in (table(190), table(90).to_reader(), table(5_000).to_reader()):
        with pytest.raises(type(error)) as caught:
            dataset(memory).write(data)
        assert caught.value is error
        assert contents(memory) == {}
        assert not encoders()


@pytest.mark.parametrize("rows", [90, 5_000])
def test_an_interrupt_leaves_no_file_and_no_thread(
    memory: MemoryStore, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived = threading.Event()
    encode, write_row_group = ParquetEncoder._encode, ParquetEncoder._write_row_group

    def interrupted(*_: Any) -> None:
        arrived.set()
        raise KeyboardInterrupt

    def interrupt() -> None:
        if not arrived.is_set():
            signal.raise_signal(signal.SIGINT)
            assert arrived.wait(60)

    def in_group(encoder: ParquetEncoder, part: pa.Table) -> Any:
        interrupt()
        return encode(encoder, part)

    def in_file(encoder: ParquetEncoder, *, last: bool = False) -> None:
        interrupt()
        write_row_group(encoder, last=last)

    monkeypatch.setattr(ParquetEncoder, "_encode", in_group)
    monkeypatch.setattr(ParquetEncoder, "_write_row_group", in_file)
    before = signal.signal(signal.SIGINT, interrupted)
    try:
        with pytest.raises(KeyboardInterrupt):
            dataset(memory).write(table(rows).to_reader(BATCH))
    finally:
        signal.signal(signal.SIGINT, before)
    # An interrupt while a thread starts leaves that one to end by itself.
    for thread in threading.enumerate():
        if thread.name.startswith("lode-encode"):
            thread.join(60)
    assert contents(memory) == {}
    assert not encoders()


def test_a_part_gives_back_its_chunks_while_it_is_encoded() -> None:
    chunks = deque[Any]([[1], [2], [3]])
    for left, chunk in zip((2, 1, 0), drain(chunks), strict=True):
        assert (len(chunks), chunk) == (left, [3 - left])


def test_a_codec_that_encodes_in_python_writes_one_file(memory: MemoryStore) -> None:
    snapshot = lode.Dataset("events", memory, codec="jsonl").write(table(10_000))
    assert names(snapshot) == ["data.jsonl"]


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
    store = FaultStore(inner, Fault("put", f"*/data-p00{file}.parquet", when=when, error=full))
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
        write_files(jobs, stager._rolling_file, stager.discard, in_threads)
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
        write_files(jobs, stager._rolling_file, stager.discard, interrupted)
    assert contents(memory) == {}
    late[0]()
    assert contents(memory) == {}


# -- reading ahead -----------------------------------------------------------------------------


def numbered(count: int, rows: int = 1_000) -> Iterator[pa.RecordBatch]:
    for number in range(count):
        yield pa.record_batch([pa.array([number] * rows)], names=["n"])


def test_batches_that_are_read_ahead_come_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lode.write.parallel.MIN_AHEAD_BYTES", 10_000)
    found = [batch.column(0)[0].as_py() for batch in read_ahead(numbered(50))]
    assert found == list(range(50))


def test_an_error_of_the_stream_comes_where_its_batch_would_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lode.write.parallel.MIN_AHEAD_BYTES", 10_000)

    def breaking() -> Iterator[pa.RecordBatch]:
        yield from numbered(20)
        raise RuntimeError("broken")

    stream = read_ahead(breaking())
    assert [next(stream).num_rows for _ in range(20)] == [1_000] * 20
    with pytest.raises(RuntimeError, match="broken"):
        next(stream)


def test_no_more_is_read_ahead_than_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lode.write.parallel.MIN_AHEAD_BYTES", 8_000)
    monkeypatch.setattr("lode.write.parallel.MAX_AHEAD_BYTES", 1 << 20)
    pulled = 0

    def counted() -> Iterator[pa.RecordBatch]:
        nonlocal pulled
        for batch in numbered(200, rows=1 << 14):  # 128 KiB
            pulled += 1
            yield batch

    for taken, _ in enumerate(read_ahead(counted()), 1):
        assert pulled - taken <= 10


def test_the_thread_ends_when_the_caller_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lode.write.parallel.MIN_AHEAD_BYTES", 8_000)
    others = set(threading.enumerate())
    stream = read_ahead(numbered(1_000))
    for _ in range(5):
        next(stream)
    (reader,) = set(threading.enumerate()) - others
    assert reader.name.startswith("lode-read")
    stream.close()  # type: ignore[attr-defined]  # it is a generator
    assert not reader.is_alive()


def test_records_are_pulled_on_the_callers_thread() -> None:
    def records() -> Iterator[dict[str, str]]:
        for _ in range(10):
            yield {"thread": threading.current_thread().name}

    assert {record["thread"] for record in read_ahead(records())} == {threading.current_thread().name}
