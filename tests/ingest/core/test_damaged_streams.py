"""A damaged log affects only its own stream: the server starts and reports it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from lode.ingest.core.strategies import StreamType
from lode.ingest.status import Code, Refused
from support.ingest.engines import PARTS, PLAIN, append, engine_on, ids_in, lake, rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lode.ingest.names import StreamName
    from lode.store.memory import MemoryStore


@pytest.fixture
def store() -> MemoryStore:
    return lake()


def newest_segment(state: Path, name: StreamName) -> Path:
    return max((state / "streams" / name.stream).iterdir())


def damage(state: Path, name: StreamName) -> bytes:
    """Damage the head of a stream's log; returns the original content of the file."""
    file = newest_segment(state, name)
    before = file.read_bytes()
    file.write_bytes(b"spoilt" + before[6:])
    return before


def two_streams(store: MemoryStore, state: Path, kind: StreamType) -> tuple[StreamName, StreamName]:
    """Streams of two rows each, of a server that has stopped."""
    engine = engine_on(store, state)
    bad, good = engine.create_stream(PLAIN, kind), engine.create_stream(PLAIN, kind)
    append(bad, [0, 1], 0)
    append(good, [2, 3], 0)
    engine.close()
    return bad.name, good.name


def test_the_other_streams_continue(store: MemoryStore, tmp_path: Path) -> None:
    bad, good = two_streams(store, tmp_path, StreamType.PENDING)
    damage(tmp_path, bad)
    engine = engine_on(store, tmp_path)
    assert append(engine.stream(good), [4], 2) == 2
    engine.finalize(good)
    assert engine.batch_commit(PLAIN, [good]).at is not None
    assert ids_in(store, PLAIN) == [2, 3, 4]
    engine.close()


def test_a_damaged_stream_is_refused_with_the_file_and_the_remedy(store: MemoryStore, tmp_path: Path) -> None:
    bad, _ = two_streams(store, tmp_path, StreamType.PENDING)
    damage(tmp_path, bad)
    engine = engine_on(store, tmp_path)
    with pytest.raises(Refused, match="restore the file from a copy") as refused:
        engine.stream(bad)
    assert refused.value.code is Code.DATA_LOSS
    assert str(newest_segment(tmp_path, bad)) in refused.value.message
    engine.close()


def test_a_damaged_stream_is_counted_and_logged(
    store: MemoryStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bad, _ = two_streams(store, tmp_path, StreamType.BUFFERED)
    damage(tmp_path, bad)
    engine = engine_on(store, tmp_path)
    assert b"lode_write_streams_damaged 1.0" in engine.metrics.text()
    assert bad.stream in caplog.text
    engine.close()


def test_a_batch_commit_with_a_damaged_stream_shows_nothing(store: MemoryStore, tmp_path: Path) -> None:
    bad, good = two_streams(store, tmp_path, StreamType.PENDING)
    damage(tmp_path, bad)
    engine = engine_on(store, tmp_path)
    engine.finalize(good)
    outcome = engine.batch_commit(PLAIN, [bad, good])
    assert [problem.code for problem in outcome.problems] == [Code.DATA_LOSS]
    assert ids_in(store, PLAIN) == []
    engine.close()


@pytest.mark.parametrize("checkpoints", ["kept", "lost"])
def test_a_stream_resumes_after_its_log_is_restored(
    store: MemoryStore, tmp_path: Path, checkpoints: str
) -> None:
    bad, good = two_streams(store, tmp_path, StreamType.COMMITTED)
    whole = damage(tmp_path, bad)
    if checkpoints == "lost":
        for file in (tmp_path / "tables").iterdir():
            file.unlink()
    # Meanwhile other streams commit, to its table and others, and the checkpoint moves past its rows.
    engine = engine_on(store, tmp_path)
    append(engine.stream(good), [4], 2)
    engine.append(PARTS, rows([7])).result(timeout=120)
    engine.close()
    newest_segment(tmp_path, bad).write_bytes(whole)
    engine = engine_on(store, tmp_path)
    with pytest.raises(Refused, match="expected offset 2, received 0") as refused:
        append(engine.stream(bad), [0, 1], 0)
    assert refused.value.code is Code.ALREADY_EXISTS
    assert append(engine.stream(bad), [5], 2) == 2
    assert sorted(ids_in(store, PLAIN)) == [0, 1, 2, 3, 4, 5]
    engine.close()


def cut_to_half(log: Path) -> None:
    file = max(log.iterdir())
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def cut_the_last_byte(log: Path) -> None:
    file = max(log.iterdir())
    file.write_bytes(file.read_bytes()[:-1])


def empty(log: Path) -> None:
    max(log.iterdir()).write_bytes(b"")


def delete_the_segments(log: Path) -> None:
    for file in log.iterdir():
        file.unlink()


def delete_the_directory(log: Path) -> None:
    shutil.rmtree(log)


@pytest.mark.parametrize("kind", [StreamType.PENDING, StreamType.BUFFERED])
@pytest.mark.parametrize(
    "harm", [cut_to_half, cut_the_last_byte, empty, delete_the_segments, delete_the_directory]
)
def test_a_log_that_lost_acknowledged_rows_is_refused_and_the_others_continue(
    store: MemoryStore, tmp_path: Path, kind: StreamType, harm: Callable[[Path], None]
) -> None:
    bad, good = two_streams(store, tmp_path, kind)
    log = tmp_path / "streams" / bad.stream
    harm(log)
    engine = engine_on(store, tmp_path)
    with pytest.raises(Refused, match="acknowledged") as refused:
        engine.stream(bad)
    assert refused.value.code is Code.DATA_LOSS
    assert str(log) in refused.value.message
    assert b"lode_write_streams_damaged 1.0" in engine.metrics.text()
    assert append(engine.stream(good), [4], 2) == 2
    engine.close()


def test_an_older_copy_of_a_log_is_refused(store: MemoryStore, tmp_path: Path) -> None:
    engine = engine_on(store, tmp_path / "state")
    stream = engine.create_stream(PLAIN, StreamType.PENDING)
    append(stream, [0, 1], 0)
    log = tmp_path / "state" / "streams" / stream.id
    shutil.copytree(log, tmp_path / "copy")
    append(stream, [2], 2)
    engine.close()
    shutil.rmtree(log)
    shutil.copytree(tmp_path / "copy", log)
    engine = engine_on(store, tmp_path / "state")
    with pytest.raises(Refused, match="before row 2, but the log was acknowledged up to row 3"):
        engine.stream(stream.name)
    engine.close()


@pytest.mark.parametrize("rows", [1, 3], ids=["shorter", "longer"])
def test_a_log_that_does_not_continue_the_visible_rows_is_refused(
    store: MemoryStore, tmp_path: Path, rows: int
) -> None:
    """Its length was restored with it, so only the snapshots show the difference."""
    engine = engine_on(store, tmp_path / "state")
    stream = engine.create_stream(PLAIN, StreamType.BUFFERED)
    append(stream, [0], 0)
    if rows == 1:
        engine.close()
        shutil.copytree(tmp_path / "state", tmp_path / "copy")
        engine = engine_on(store, tmp_path / "state")
        stream = engine.stream(stream.name)
    append(stream, [1, 2], 1)
    engine.flush(stream.name, 2)
    assert stream.log is not None
    stream.log.trim(3, to_nothing=True)
    engine.close()
    if rows == 1:
        shutil.rmtree(tmp_path / "state")
        shutil.copytree(tmp_path / "copy", tmp_path / "state")
    else:
        store = lake()
    engine = engine_on(store, tmp_path / "state")
    with pytest.raises(Refused, match="the next row to show is") as refused:
        engine.stream(stream.name)
    assert refused.value.code is Code.DATA_LOSS
    engine.close()


def test_a_damaged_stream_is_given_up_by_removing_its_files(store: MemoryStore, tmp_path: Path) -> None:
    bad, good = two_streams(store, tmp_path, StreamType.PENDING)
    shutil.rmtree(tmp_path / "streams" / bad.stream)
    (tmp_path / "acknowledged" / bad.stream).unlink()
    engine = engine_on(store, tmp_path)
    with pytest.raises(Refused) as refused:
        engine.stream(bad)
    assert refused.value.code is Code.NOT_FOUND
    assert b"lode_write_streams_damaged 0.0" in engine.metrics.text()
    engine.stream(good)
    engine.close()


def test_streams_without_acknowledged_lengths_continue(store: MemoryStore, tmp_path: Path) -> None:
    first, second = two_streams(store, tmp_path, StreamType.PENDING)
    shutil.rmtree(tmp_path / "acknowledged")
    engine = engine_on(store, tmp_path)
    assert append(engine.stream(first), [4], 2) == 2
    engine.close()
    # From now on each has a length, whether it was written to or not.
    for name in (first, second):
        cut_the_last_byte(tmp_path / "streams" / name.stream)
    engine = engine_on(store, tmp_path)
    assert len(engine.quarantine) == 2
    engine.close()


def test_damage_that_a_commit_finds_is_data_loss(store: MemoryStore, tmp_path: Path) -> None:
    engine = engine_on(store, tmp_path)
    stream = engine.create_stream(PLAIN, StreamType.PENDING)
    append(stream, [0, 1], 0)
    cut_to_half(tmp_path / "streams" / stream.id)
    engine.finalize(stream.name)
    with pytest.raises(Refused, match="is damaged at byte") as refused:
        engine.batch_commit(PLAIN, [stream.name])
    assert refused.value.code is Code.DATA_LOSS
    engine.close()
