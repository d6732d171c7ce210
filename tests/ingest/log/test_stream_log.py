"""A stream's log: rows by offset, marks, segments, and concurrent reads."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from lode.errors import UsageError
from lode.ingest.log.record import LogDamaged, LogIncomplete, LogUnusable
from lode.ingest.log.stream_log import StreamLog
from support.ingest.logs import FACTS, batch, holds_its_rows, numbers, segments

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def log(tmp_path: Path) -> Iterator[StreamLog]:
    log = StreamLog.create(tmp_path / "log", FACTS)
    yield log
    log.close()


@pytest.fixture
def small(tmp_path: Path) -> Iterator[StreamLog]:
    """A log with a few appends in each segment."""
    log = StreamLog.create(tmp_path / "log", FACTS, segment_bytes=2000)
    yield log
    log.close()


def open_files() -> set[str]:
    links = Path("/proc/self/fd").iterdir()
    return {str(link.readlink()) for link in links if link.is_symlink()}


def test_a_new_log_is_empty_and_has_its_facts(log: StreamLog) -> None:
    assert (log.start, log.end, log.facts, log.marks) == (0, 0, FACTS, {})
    assert list(log.read(0, 0)) == []


def test_rows_get_the_next_offsets(log: StreamLog) -> None:
    assert log.append([batch(0, 3)]) == 0
    assert log.append([batch(3, 2), batch(5, 4)]) == 3
    assert log.end == 9
    assert holds_its_rows(log)


def test_an_append_without_rows_writes_nothing(log: StreamLog) -> None:
    log.append([batch(0, 3)])
    before = log.bytes
    assert log.append([]) == log.append([batch(0, 0)]) == 3
    assert log.bytes == before


def test_any_range_of_rows_can_be_read(small: StreamLog) -> None:
    for first in range(0, 60, 3):
        small.append([batch(first, 3)])
    for start in range(0, 61, 4):
        for stop in range(start, 61, 5):
            assert numbers(small, start, stop) == list(range(start, stop))


def test_any_range_of_rows_can_be_read_from_segments_of_many_records(tmp_path: Path) -> None:
    log = StreamLog.create(tmp_path, FACTS, durable=False, segment_bytes=1 << 20)
    while len(segments(tmp_path)) < 4:
        log.append([batch(log.end, 300)])
    for opened in (log, StreamLog.open(tmp_path)):
        for start in range(0, log.end, 20_011):
            for stop in (start + 1, min(start + 1000, log.end), log.end):
                assert numbers(opened, start, stop) == list(range(start, stop))


@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (0, 4), (3, 2), (4, 4)])
def test_rows_outside_the_log_cannot_be_read(log: StreamLog, start: int, stop: int) -> None:
    log.append([batch(0, 3)])
    with pytest.raises(UsageError, match="has rows 0 to 2"):
        log.read(start, stop)


def test_rows_facts_and_marks_survive_reopening(small: StreamLog) -> None:
    for first in range(0, 60, 3):
        small.append([batch(first, 3)])
    small.mark("finalized", True)
    small.mark("progress", {"rows": [1, 2, None]})
    again = StreamLog.open(small.directory)
    assert (again.start, again.end, again.bytes) == (small.start, small.end, small.bytes)
    assert (again.facts, again.marks) == (FACTS, {"finalized": True, "progress": {"rows": [1, 2, None]}})
    assert holds_its_rows(again)


def test_bytes_are_those_of_the_files(small: StreamLog) -> None:
    for first in range(0, 60, 3):
        small.append([batch(first, 3)])
    assert small.bytes == sum(path.stat().st_size for path in segments(small.directory))


def test_the_schema_may_change_between_appends(log: StreamLog) -> None:
    wider = pa.record_batch([pa.array([2]), pa.array(["new"])], ["number", "name"])
    metadata = batch(3, 1).replace_schema_metadata({"key": "value"})
    log.append([batch(0, 2), wider, metadata])
    again = list(StreamLog.open(log.directory).read(0, 4))
    assert [read.schema.names for read in again] == [
        ["number", "text"],
        ["number", "name"],
        ["number", "text"],
    ]
    assert again[2].schema.metadata == {b"key": b"value"}


def test_nested_and_dictionary_columns_survive_a_round_trip(log: StreamLog) -> None:
    words = pa.array(["a", None, "a", "b"]).dictionary_encode()
    first = pa.record_batch(
        {
            "lists": pa.array([[1], [], None, [2, 3]], pa.list_(pa.int32())),
            "structs": pa.StructArray.from_arrays(
                [words, pa.array([1.5, None, 2.5, 3.5])], ["word", "number"]
            ),
        }
    )
    log.append([first, first.slice(1, 2)])
    assert list(log.read(0, 6)) == [first, first.slice(1, 2)]


def test_a_slice_of_a_big_batch_costs_only_its_own_bytes(log: StreamLog) -> None:
    before = log.bytes
    log.append([batch(0, 100_000).slice(0, 10)])
    assert log.bytes - before < 2000
    assert holds_its_rows(log)


def test_an_append_may_have_more_batches_than_one_system_call_writes(log: StreamLog) -> None:
    assert log.append([batch(first, 1) for first in range(2000)]) == 0
    assert log.end == 2000
    assert holds_its_rows(StreamLog.open(log.directory))


def test_the_latest_mark_of_a_kind_is_valid(log: StreamLog) -> None:
    log.mark("flushed", 3)
    log.mark("other", [1])
    log.mark("flushed", 7)
    assert log.marks == StreamLog.open(log.directory).marks == {"flushed": 7, "other": [1]}


def test_a_mark_must_be_a_json_value(log: StreamLog) -> None:
    with pytest.raises(TypeError):
        log.mark("thing", object())
    assert log.marks == {}
    log.append([batch(0, 1)])
    assert holds_its_rows(StreamLog.open(log.directory))


def test_a_log_with_only_marks_stays_small(small: StreamLog) -> None:
    for number in range(200):
        small.mark("progress", number)
    assert len(segments(small.directory)) == 1
    assert small.bytes == segments(small.directory)[0].stat().st_size < 3000
    assert StreamLog.open(small.directory).marks == {"progress": 199}


def test_segments_are_named_by_their_first_row(small: StreamLog) -> None:
    for first in range(20):
        small.append([batch(first, 1)])
    firsts = [int(path.stem) for path in segments(small.directory)]
    assert len(firsts) > 3
    for first, following in zip(firsts, [*firsts[1:], 20], strict=True):
        assert numbers(small, first, following) == list(range(first, following))


def test_trimming_deletes_only_segments_without_needed_rows(small: StreamLog) -> None:
    for first in range(40):
        small.append([batch(first, 1)])
    names = [int(path.stem) for path in segments(small.directory)]
    small.trim(names[2] - 1)
    assert small.start == names[1]
    small.trim(names[2])
    assert small.start == names[2]
    assert [int(path.stem) for path in segments(small.directory)] == names[2:]
    again = StreamLog.open(small.directory)
    assert again.start == names[2]
    assert holds_its_rows(again)
    with pytest.raises(UsageError, match="has rows"):
        again.read(names[2] - 1, 40)


def test_marks_and_facts_survive_trimming(small: StreamLog) -> None:
    small.mark("early", "kept")
    for first in range(40):
        small.append([batch(first, 1)])
    small.trim(40)
    assert StreamLog.open(small.directory).marks == {"early": "kept"}
    assert StreamLog.open(small.directory).facts == FACTS


def test_trimming_all_rows_frees_their_space(small: StreamLog) -> None:
    for first in range(40):
        small.append([batch(first, 1)])
    small.trim(40)
    assert (small.start, small.end) == (40, 40)
    assert small.bytes < 400
    assert small.append([batch(40, 2)]) == 40
    assert holds_its_rows(StreamLog.open(small.directory))


def test_trimming_a_few_rows_at_a_time_creates_no_segments(log: StreamLog) -> None:
    for first in range(20):
        log.append([batch(first, 1)])
        log.trim(first + 1)
    assert [path.stem for path in segments(log.directory)] == [f"{0:020}"]


def test_rows_after_the_end_cannot_be_trimmed(log: StreamLog) -> None:
    with pytest.raises(UsageError, match="ends at 0"):
        log.trim(1)


def test_a_reader_continues_in_a_segment_that_is_trimmed(small: StreamLog) -> None:
    for first in range(40):
        small.append([batch(first, 1)])
    second = int(segments(small.directory)[1].stem)
    reader = small.read(0, 40)
    found = next(reader)["number"].to_pylist()
    small.trim(40)
    for _ in range(second - 1):
        found += next(reader)["number"].to_pylist()
    assert found == list(range(second))
    with pytest.raises(UsageError, match="were trimmed"):
        next(reader)


def test_a_file_is_open_only_from_an_append_to_close(log: StreamLog) -> None:
    path = str(segments(log.directory)[0])
    assert path not in open_files()
    log.append([batch(0, 5)])
    assert path in open_files()
    log.close()
    assert holds_its_rows(log)
    assert path not in open_files()
    log.append([batch(5, 5)])
    log.close()
    assert holds_its_rows(StreamLog.open(log.directory))
    assert path not in open_files()


def test_an_abandoned_reader_closes_its_file(log: StreamLog) -> None:
    log.append([batch(0, 5), batch(5, 5)])
    log.close()
    reader = log.read(0, 10)
    next(reader)
    assert str(segments(log.directory)[0]) in open_files()
    del reader
    assert str(segments(log.directory)[0]) not in open_files()


def test_a_removed_log_is_deleted_and_accepts_no_records(small: StreamLog) -> None:
    for first in range(40):
        small.append([batch(first, 1)])
    small.remove()
    small.remove()
    assert not small.directory.exists()
    with pytest.raises(LogUnusable, match="was removed"):
        small.append([batch(40, 1)])
    with pytest.raises(LogUnusable, match="was removed"):
        small.mark("finalized", True)


def test_a_log_is_not_created_over_another(log: StreamLog) -> None:
    log.append([batch(0, 1)])
    with pytest.raises(UsageError, match="already"):
        StreamLog.create(log.directory, FACTS)
    assert holds_its_rows(StreamLog.open(log.directory))


def test_parent_directories_are_created(tmp_path: Path) -> None:
    directory = tmp_path / "one" / "two" / "three"
    StreamLog.create(directory, FACTS)
    assert StreamLog.open(directory).facts == FACTS


def test_an_incomplete_log_is_reported_and_can_be_created_again(tmp_path: Path) -> None:
    (tmp_path / "new.tmp").write_bytes(b"half a head")
    with pytest.raises(LogIncomplete, match="did not finish"):
        StreamLog.open(tmp_path)
    StreamLog.create(tmp_path, FACTS).append([batch(0, 2)])
    assert holds_its_rows(StreamLog.open(tmp_path))


def test_a_log_of_a_later_version_is_refused(log: StreamLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lode.ingest.log.stream_log.VERSION", 2)
    StreamLog.create(log.directory.with_name("later"), FACTS)
    with pytest.raises(LogDamaged, match="version 2"):
        StreamLog.open(log.directory.with_name("later"))


def test_rows_can_be_read_while_more_are_appended(small: StreamLog) -> None:
    problems: list[str] = []
    appended = threading.Event()

    def read_along() -> None:
        done = False
        while not done:
            done = appended.is_set()
            start, end = max(small.end - 50, 0), small.end
            if numbers(small, start, end) != list(range(start, end)):
                problems.append(f"{start} to {end}")

    readers = [threading.Thread(target=read_along) for _ in range(3)]
    for reader in readers:
        reader.start()
    for first in range(0, 900, 3):
        small.append([batch(first, 1), batch(first + 1, 2)])
    appended.set()
    for reader in readers:
        reader.join()
    assert not problems
    assert holds_its_rows(small)


def test_appends_of_many_threads_get_distinct_offsets(small: StreamLog) -> None:
    got: list[tuple[int, int]] = []

    def append(size: int) -> None:
        got.extend((small.append([batch(0, size)]), size) for _ in range(20))

    threads = [threading.Thread(target=append, args=(size,)) for size in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = 0
    for first, size in sorted(got):
        assert first == expected
        assert [read.num_rows for read in small.read(first, first + size)] == [size]
        expected += size
    assert small.end == expected == 120
