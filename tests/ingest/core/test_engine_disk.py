"""The disk of the streams' logs fails: the rows are refused, and streams continue."""

from __future__ import annotations

import errno
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest

from lode.ingest.core.strategies import State, StreamType
from lode.ingest.core.streams import AppendInFlight
from lode.ingest.log.stream_log import StreamLog
from lode.ingest.status import Code, Refused, StorageCode
from support.ingest.engines import PLAIN, append, engine_on, ids_in, lake, refusal_of, rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lode.ingest.core.engine import Engine
    from lode.store.memory import MemoryStore

STAGED = [StreamType.PENDING, StreamType.BUFFERED]


@pytest.fixture
def store() -> MemoryStore:
    return lake()


@pytest.fixture
def engine(store: MemoryStore, tmp_path: Path) -> Iterator[Engine]:
    engine = engine_on(store, tmp_path)
    yield engine
    engine.close()


class Disk:
    """A disk whose writes fail while ``full``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = False
        self._write = os.pwritev
        monkeypatch.setattr(os, "pwritev", self._write_unless_full)

    def _write_unless_full(self, descriptor: int, pieces: Any, position: int) -> int:
        if self.full:
            # A part is written, as on a disk that gets full.
            self._write(descriptor, [bytes(pieces[0])[:7]], position)
            raise OSError(errno.ENOSPC, "No space left on device")
        return self._write(descriptor, pieces, position)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def show_all(engine: Engine, stream: Any) -> None:
    if stream.type is StreamType.BUFFERED:
        engine.flush(stream.name, stream.position.durable - 1)
    else:
        engine.finalize(stream.name)
        assert not engine.batch_commit(PLAIN, [stream.name]).problems


@pytest.mark.parametrize("kind", STAGED)
def test_an_append_on_a_full_disk_is_refused_and_can_be_repeated(
    engine: Engine, store: MemoryStore, disk: Disk, kind: StreamType
) -> None:
    stream = engine.create_stream(PLAIN, kind)
    append(stream, [0, 1], 0)
    disk.full = True
    with pytest.raises(Refused, match="No space left") as refused:
        append(stream, [90, 91, 92], 2)
    assert refused.value.code is Code.UNAVAILABLE
    disk.full = False
    assert append(stream, [2], 2) == 2
    show_all(engine, stream)
    assert ids_in(store, PLAIN) == [0, 1, 2]


@pytest.mark.parametrize("kind", STAGED)
def test_appends_after_a_failed_one_are_not_stored_in_its_place(
    engine: Engine, store: MemoryStore, disk: Disk, kind: StreamType
) -> None:
    stream = engine.create_stream(PLAIN, kind)
    append(stream, [0], 0)
    disk.full = True
    sent = []
    for id in range(90, 99):
        try:
            sent.append(stream.append(rows([id]), None))
        except Refused:
            break
    assert all(refusal_of(answer) is not None for answer in sent)
    disk.full = False
    assert append(stream, [1, 2], 1) == 1
    show_all(engine, stream)
    assert ids_in(store, PLAIN) == [0, 1, 2]


@pytest.mark.parametrize("kind", STAGED)
def test_refused_rows_do_not_reappear_after_a_restart(
    store: MemoryStore, disk: Disk, tmp_path: Path, kind: StreamType
) -> None:
    engine = engine_on(store, tmp_path)
    name = engine.create_stream(PLAIN, kind).name
    append(engine.stream(name), [0, 1], 0)
    disk.full = True
    with pytest.raises(Refused):
        append(engine.stream(name), [90], 2)
    disk.full = False
    engine.close()
    engine = engine_on(store, tmp_path)
    assert append(engine.stream(name), [2], 2) == 2
    show_all(engine, engine.stream(name))
    engine.close()
    assert ids_in(store, PLAIN) == [0, 1, 2]


@pytest.mark.parametrize("kind", [StreamType.COMMITTED, *STAGED])
def test_a_stream_that_could_not_be_finalized_stays_open(
    engine: Engine, disk: Disk, kind: StreamType
) -> None:
    stream = engine.create_stream(PLAIN, kind)
    append(stream, [0], 0)
    disk.full = True
    with pytest.raises(Refused, match="could not be finalized") as refused:
        engine.finalize(stream.name)
    assert refused.value.code is Code.UNAVAILABLE
    disk.full = False
    append(stream, [1], 1)
    assert engine.finalize(stream.name) == 2
    assert stream.position.state is State.FINALIZED


def test_a_commit_succeeds_if_its_log_cannot_be_trimmed(
    engine: Engine, store: MemoryStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    streams = [engine.create_stream(PLAIN, StreamType.PENDING) for _ in range(2)]
    for id, stream in enumerate(streams):
        append(stream, [id])
        engine.finalize(stream.name)

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(StreamLog, "trim", fail)
    assert not engine.batch_commit(PLAIN, [stream.name for stream in streams]).problems
    assert [stream.position.state for stream in streams] == [State.COMMITTED] * 2
    assert ids_in(store, PLAIN) == [0, 1]
    assert "could not be trimmed" in caplog.text


class SlowDisk:
    """A disk whose writes block until the test lets them succeed or fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, fails: bool = False) -> None:
        self.writing, self.may_write = threading.Event(), threading.Event()
        self.fails = fails
        self._write = os.pwritev
        monkeypatch.setattr(os, "pwritev", self._write_slowly)

    def _write_slowly(self, descriptor: int, pieces: Any, position: int) -> int:
        self.writing.set()
        assert self.may_write.wait(timeout=120)
        if self.fails:
            raise OSError(errno.EIO, "Input/output error")
        return self._write(descriptor, pieces, position)


@pytest.mark.parametrize("kind", STAGED)
def test_an_offset_does_not_exist_while_its_rows_may_still_fail(
    engine: Engine, store: MemoryStore, monkeypatch: pytest.MonkeyPatch, kind: StreamType
) -> None:
    """A client that lost its connection sends its rows again, and ALREADY_EXISTS means stored."""
    stream = engine.create_stream(PLAIN, kind)
    disk = SlowDisk(monkeypatch, fails=True)
    lost = stream.append(rows([0, 1]), 0)
    assert disk.writing.wait(timeout=120)
    with pytest.raises(AppendInFlight) as underway:
        stream.append(rows([0, 1]), 0)
    disk.may_write.set()
    assert refusal_of(lost) is not None
    assert underway.value.until.done()
    disk.fails = False
    assert append(stream, [0, 1], 0) == 0
    show_all(engine, stream)
    assert ids_in(store, PLAIN) == [0, 1]


def test_a_batch_commit_waits_for_a_finalize_and_the_rows_before_it(
    engine: Engine, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is slow: rows and a finalize are in progress when the batch commit arrives."""
    stream = engine.create_stream(PLAIN, StreamType.PENDING)
    disk = SlowDisk(monkeypatch)
    answer = stream.append(rows([0, 1]), None)
    assert disk.writing.wait(timeout=120)
    outcomes: list[Any] = []
    finalizing = threading.Thread(target=lambda: outcomes.append(engine.finalize(stream.name)))
    finalizing.start()
    while stream.position.state is State.OPEN:
        assert finalizing.is_alive()
    committing = threading.Thread(
        target=lambda: outcomes.append(engine.batch_commit(PLAIN, [stream.name]).problems)
    )
    committing.start()
    disk.may_write.set()
    finalizing.join(timeout=120)
    committing.join(timeout=120)
    assert outcomes == [2, ()]
    assert answer.result() == 0
    assert ids_in(store, PLAIN) == [0, 1]
    again = engine.batch_commit(PLAIN, [stream.name]).problems
    assert [problem.storage for problem in again] == [StorageCode.STREAM_ALREADY_COMMITTED]


def test_rows_are_kept_during_a_finalize_that_fails(
    engine: Engine, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = engine.create_stream(PLAIN, StreamType.BUFFERED)
    append(stream, [0, 1])
    expiring = threading.Thread(target=engine.expire)

    def fail(*_: object) -> None:
        expiring.start()
        expiring.join(timeout=0.1)  # it waits for the finalize
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as failing:
        failing.setattr(StreamLog, "mark", fail)
        with pytest.raises(Refused, match="could not be finalized"):
            engine.finalize(stream.name)
    expiring.join(timeout=120)
    show_all(engine, stream)
    assert ids_in(store, PLAIN) == [0, 1]


def test_rows_are_kept_while_a_flush_from_before_the_finalize_reads_them(
    engine: Engine, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = engine.create_stream(PLAIN, StreamType.BUFFERED)
    append(stream, [0, 1])
    reading, may_read = threading.Event(), threading.Event()
    read = StreamLog.read

    def slow(log: StreamLog, start: int, end: int) -> Any:
        reading.set()
        may_read.wait(timeout=120)
        return read(log, start, end)

    monkeypatch.setattr(StreamLog, "read", slow)
    flushing = threading.Thread(target=engine.flush, args=(stream.name, 1))
    flushing.start()
    assert reading.wait(timeout=120)
    engine.finalize(stream.name)
    expiring = threading.Thread(target=engine.expire)
    expiring.start()
    expiring.join(timeout=0.1)  # it waits for the flush
    may_read.set()
    flushing.join(timeout=120)
    expiring.join(timeout=120)
    assert ids_in(store, PLAIN) == [0, 1]
