"""A disk that is full or fails: a failed append stores nothing, and the log continues."""

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
    """Let writes beyond this size of a file fail, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def every_write_to(path: Path, leads_to: str | Path, flags: int) -> Iterator[None]:
    """Replace the open file of a segment for a while; closing it ends that too."""
    links = Path("/proc/self/fd").iterdir()
    descriptor = next(int(link.name) for link in links if link.is_symlink() and link.readlink() == path)
    other = os.open(leads_to, flags)
    os.dup2(other, descriptor)
    os.close(other)
    yield


def unchanged(log: StreamLog, end: int, size: int) -> bool:
    return (log.end, log.bytes) == (end, size) and holds_its_rows(log)


def test_an_append_on_a_full_disk_stores_nothing(log: StreamLog) -> None:
    size = log.bytes
    for room in (0, 1, 55, 56, 57, 500, 1500):
        with no_file_above(size + room), pytest.raises(OSError) as caught:
            log.append([batch(5, 10), batch(15, 30)])
        assert caught.value.errno == errno.EFBIG
        assert unchanged(log, 5, size)
        assert segments(log.directory)[0].stat().st_size == size, "the space is freed"
    assert log.append([batch(5, 10)]) == 5
    assert StreamLog.open(log.directory).end == 15
    assert holds_its_rows(StreamLog.open(log.directory))


@pytest.mark.parametrize("most", [1, 7, 56, 100])
def test_short_writes_are_continued(log: StreamLog, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    real = os.pwritev

    def write(descriptor: int, pieces: Sequence[memoryview], position: int) -> int:
        return real(descriptor, [b"".join(pieces)[:most]], position)

    monkeypatch.setattr(os, "pwritev", write)
    log.append([batch(5, 10), batch(15, 30)])
    assert holds_its_rows(log)
    assert StreamLog.open(log.directory).end == 45


def test_a_mark_on_a_full_disk_stores_nothing(log: StreamLog) -> None:
    with no_file_above(log.bytes + 10), pytest.raises(OSError):
        log.mark("finalized", True)
    assert log.marks == StreamLog.open(log.directory).marks == {}
    log.mark("finalized", True)
    assert StreamLog.open(log.directory).marks == {"finalized": True}


def test_an_append_whose_sync_fails_stores_nothing(log: StreamLog, monkeypatch: pytest.MonkeyPatch) -> None:
    size = log.bytes
    fails_once(monkeypatch, OSError(errno.EIO, "the disk is gone"))
    with pytest.raises(OSError, match="the disk is gone"):
        log.append([batch(5, 10)])
    assert unchanged(log, 5, size)
    assert unchanged(StreamLog.open(log.directory), 5, size)
    assert log.append([batch(5, 1)]) == 5
    assert holds_its_rows(StreamLog.open(log.directory))


def test_an_interrupted_append_does_not_reappear_after_a_shorter_one(
    log: StreamLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails_once(monkeypatch, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        log.append([batch(5, 10), batch(15, 10)])
    assert log.end == 5
    log.append([batch(5, 10)])
    assert StreamLog.open(log.directory).end == 15


def test_a_log_refuses_appends_until_a_failed_write_is_undone(log: StreamLog) -> None:
    size, path = log.bytes, segments(log.directory)[0]
    # It can be written, but neither synced nor truncated.
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


def test_a_log_continues_after_a_failed_write(log: StreamLog) -> None:
    size, path = log.bytes, segments(log.directory)[0]
    with every_write_to(path, path, os.O_RDONLY), pytest.raises(OSError):
        log.append([batch(5, 10)])
    assert unchanged(log, 5, size)
    assert log.append([batch(5, 10)]) == 5
    assert holds_its_rows(StreamLog.open(log.directory))


def test_a_log_continues_after_a_segment_could_not_be_created(log: StreamLog) -> None:
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
    assert len(sizes) == 1, "retries leave no bytes behind"
    in_the_way.rmdir()
    assert log.append([batch(end, 5)]) == end
    assert len(segments(log.directory)) == 2
    assert holds_its_rows(StreamLog.open(log.directory))


def test_a_sealed_log_without_a_next_segment_creates_it(log: StreamLog) -> None:
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


def test_trimming_on_a_full_disk_deletes_the_older_segments(log: StreamLog) -> None:
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
    """Let the next sync fail, with the written bytes in the kernel's cache."""
    real: Callable[[int], None] = os.fdatasync

    def fail(_: int) -> None:
        monkeypatch.setattr(os, "fdatasync", real)
        raise error

    monkeypatch.setattr(os, "fdatasync", fail)
