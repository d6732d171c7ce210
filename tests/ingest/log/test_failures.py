"""A disk that is full or fails: what was not stored does not count, and the log goes on."""

from __future__ import annotations

import errno
import os
import resource
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lode.ingest.log.record import LogUnusable
from lode.ingest.log.stream_log import StreamLog
from support.ingest.logs import FACTS, batch, holds_its_rows, segments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


@pytest.fixture
def log(tmp_path: Path) -> Iterator[StreamLog]:
    log = StreamLog.create(tmp_path / "log", FACTS, segment_bytes=20_000)
    log.append([batch(0, 5)])
    yield log
    log.close()


@contextmanager
def no_file_above(size: int) -> Iterator[None]:
    """The kernel writes up to this size of any file and then fails, as when a disk gets full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def every_write_to(path: Path, leads_to: str | Path, flags: int) -> Iterator[None]:
    """The open file of a segment is another one for a while; closing it ends that too."""
    links = Path("/proc/self/fd").iterdir()
    descriptor = next(int(link.name) for link in links if link.is_symlink() and link.readlink() == path)
    other = os.open(leads_to, flags)
    os.dup2(other, descriptor)
    os.close(other)
    yield


def unchanged(log: StreamLog, end: int, size: int) -> bool:
    return (log.end, log.bytes) == (end, size) and holds_its_rows(log)


def test_nothing_counts_of_an_append_for_which_there_is_no_room(log: StreamLog) -> None:
    size = log.bytes
    for room in (0, 1, 55, 56, 57, 500, 1500):
        with no_file_above(size + room), pytest.raises(OSError) as caught:
            log.append([batch(5, 10), batch(15, 30)])
        assert caught.value.errno == errno.EFBIG
        assert unchanged(log, 5, size)
        assert segments(log.directory)[0].stat().st_size == size, "the room is given back"
    assert log.append([batch(5, 10)]) == 5
    assert StreamLog.open(log.directory).end == 15
    assert holds_its_rows(StreamLog.open(log.directory))


@pytest.mark.parametrize("most", [1, 7, 56, 100])
def test_a_kernel_that_takes_few_bytes_at_once_gets_them_all(
    log: StreamLog, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    real = os.pwritev

    def write(descriptor: int, pieces: Sequence[memoryview], position: int) -> int:
        return real(descriptor, [b"".join(pieces)[:most]], position)

    monkeypatch.setattr(os, "pwritev", write)
    log.append([batch(5, 10), batch(15, 30)])
    assert holds_its_rows(log)
    assert StreamLog.open(log.directory).end == 45


def test_nothing_counts_of_a_mark_for_which_there_is_no_room(log: StreamLog) -> None:
    with no_file_above(log.bytes + 10), pytest.raises(OSError):
        log.mark("finalized", True)
    assert log.marks == StreamLog.open(log.directory).marks == {}
    log.mark("finalized", True)
    assert StreamLog.open(log.directory).marks == {"finalized": True}


def test_nothing_counts_of_an_append_that_could_not_be_synced(
    log: StreamLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = log.bytes
    fails_once(monkeypatch, OSError(errno.EIO, "the disk is gone"))
    with pytest.raises(OSError, match="the disk is gone"):
        log.append([batch(5, 10)])
    assert unchanged(log, 5, size)
    assert unchanged(StreamLog.open(log.directory), 5, size)
    assert log.append([batch(5, 1)]) == 5
    assert holds_its_rows(StreamLog.open(log.directory))


def test_an_append_that_was_interrupted_does_not_come_back_behind_a_shorter_one(
    log: StreamLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails_once(monkeypatch, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        log.append([batch(5, 10), batch(15, 10)])
    assert log.end == 5
    log.append([batch(5, 10)])
    assert StreamLog.open(log.directory).end == 15


def test_a_log_that_cannot_undo_a_failed_write_refuses_until_it_can(log: StreamLog) -> None:
    size, path = log.bytes, segments(log.directory)[0]
    # It can be written to, but neither synced nor cut.
    with every_write_to(path, "/dev/null", os.O_RDWR), pytest.raises(OSError):
        log.append([batch(5, 10)])
    assert unchanged(log, 5, size)
    path.rename(path.with_suffix(".away"))
    os.mkfifo(path)
    with pytest.raises(LogUnusable, match="cannot be undone"):
        log.append([batch(5, 10)])
    path.unlink()
    path.with_suffix(".away").rename(path)
    assert log.append([batch(5, 10)]) == 5
    assert holds_its_rows(StreamLog.open(log.directory))


def test_a_log_goes_on_after_its_file_could_not_be_written(log: StreamLog) -> None:
    size, path = log.bytes, segments(log.directory)[0]
    with every_write_to(path, path, os.O_RDONLY), pytest.raises(OSError):
        log.append([batch(5, 10)])
    assert unchanged(log, 5, size)
    assert log.append([batch(5, 10)]) == 5
    assert holds_its_rows(StreamLog.open(log.directory))


def test_a_log_goes_on_after_a_segment_could_not_be_begun(log: StreamLog) -> None:
    while log.bytes < 20_000:
        log.append([batch(log.end, 100)])
    end = log.end
    in_the_way = log.directory / "new.tmp"
    in_the_way.mkdir()
    sizes = set()
    for _ in range(2):
        with pytest.raises(IsADirectoryError):
            log.append([batch(end, 5)])
        assert holds_its_rows(log)
        assert StreamLog.open(log.directory).end == end
        sizes.add(log.bytes)
    assert len(sizes) == 1, "trying again leaves nothing behind"
    in_the_way.rmdir()
    assert log.append([batch(end, 5)]) == end
    assert len(segments(log.directory)) == 2
    assert holds_its_rows(StreamLog.open(log.directory))


def test_a_log_that_was_left_without_its_next_segment_begins_it(log: StreamLog) -> None:
    while log.bytes < 20_000:
        log.append([batch(log.end, 100)])
    (log.directory / "new.tmp").mkdir()
    with pytest.raises(IsADirectoryError):
        log.append([batch(log.end, 5)])
    (log.directory / "new.tmp").rmdir()
    again = StreamLog.open(log.directory)
    again.append([batch(again.end, 5)])
    again.close()
    assert len(segments(log.directory)) == 2
    assert holds_its_rows(StreamLog.open(log.directory))


def test_trimming_gives_back_what_it_can_when_there_is_no_room_for_a_new_segment(log: StreamLog) -> None:
    while len(segments(log.directory)) < 3:
        log.append([batch(log.end, 100)])
    log.append([batch(log.end, 200)])
    newest = int(segments(log.directory)[-1].stem)
    with no_file_above(20):
        log.trim(log.end)
    assert log.start == newest
    assert log.append([batch(log.end, 5)])
    assert holds_its_rows(StreamLog.open(log.directory))


def fails_once(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """The next sync fails, with what was written in the kernel's hands."""
    real: Callable[[int], None] = os.fdatasync

    def fail(_: int) -> None:
        monkeypatch.setattr(os, "fdatasync", real)
        raise error

    monkeypatch.setattr(os, "fdatasync", fail)
