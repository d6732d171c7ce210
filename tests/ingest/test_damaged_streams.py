"""A log that is damaged costs its own stream, and no other: the server starts and says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ingest.engines import PARTS, PLAIN, append, engine_on, ids_in, lake, rows
from lode.ingest.position import StreamType
from lode.ingest.status import Code, Refused

if TYPE_CHECKING:
    from pathlib import Path

    from lode.ingest.names import StreamName
    from lode.store.memory import MemoryStore


@pytest.fixture
def store() -> MemoryStore:
    return lake()


def newest_segment(state: Path, name: StreamName) -> Path:
    return max((state / "streams" / name.stream).iterdir())


def damage(state: Path, name: StreamName) -> bytes:
    """Spoil the head of a stream's log; returns what its file was."""
    file = newest_segment(state, name)
    before = file.read_bytes()
    file.write_bytes(b"spoilt" + before[6:])
    return before


def two_streams(store: MemoryStore, state: Path, kind: StreamType) -> tuple[StreamName, StreamName]:
    """Streams of two rows each, left by a server that has stopped."""
    engine = engine_on(store, state)
    bad, good = engine.create_stream(PLAIN, kind), engine.create_stream(PLAIN, kind)
    append(bad, [0, 1], 0)
    append(good, [2, 3], 0)
    engine.close()
    return bad.name, good.name


def test_the_other_streams_go_on(store: MemoryStore, tmp_path: Path) -> None:
    bad, good = two_streams(store, tmp_path, StreamType.PENDING)
    damage(tmp_path, bad)
    engine = engine_on(store, tmp_path)
    assert append(engine.stream(good), [4], 2) == 2
    engine.finalize(good)
    assert engine.batch_commit(PLAIN, [good]).at is not None
    assert ids_in(store, PLAIN) == [2, 3, 4]
    engine.close()


def test_the_damaged_one_is_refused_with_the_file_and_the_remedy(store: MemoryStore, tmp_path: Path) -> None:
    bad, _ = two_streams(store, tmp_path, StreamType.PENDING)
    damage(tmp_path, bad)
    engine = engine_on(store, tmp_path)
    with pytest.raises(Refused, match="restore the file from a copy") as refused:
        engine.stream(bad)
    assert refused.value.code is Code.DATA_LOSS
    assert str(newest_segment(tmp_path, bad)) in refused.value.message
    engine.close()


def test_it_is_counted_and_logged(
    store: MemoryStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bad, _ = two_streams(store, tmp_path, StreamType.BUFFERED)
    damage(tmp_path, bad)
    engine = engine_on(store, tmp_path)
    assert b"lode_write_streams_damaged 1.0" in engine.metrics.text()
    assert bad.stream in caplog.text
    engine.close()


def test_a_commit_that_names_it_shows_nothing(store: MemoryStore, tmp_path: Path) -> None:
    bad, good = two_streams(store, tmp_path, StreamType.PENDING)
    damage(tmp_path, bad)
    engine = engine_on(store, tmp_path)
    engine.finalize(good)
    outcome = engine.batch_commit(PLAIN, [bad, good])
    assert [problem.code for problem in outcome.problems] == [Code.DATA_LOSS]
    assert ids_in(store, PLAIN) == []
    engine.close()


@pytest.mark.parametrize("checkpoints", ["kept", "lost"])
def test_once_its_log_is_back_it_goes_on_where_it_was(
    store: MemoryStore, tmp_path: Path, checkpoints: str
) -> None:
    bad, good = two_streams(store, tmp_path, StreamType.COMMITTED)
    whole = damage(tmp_path, bad)
    if checkpoints == "lost":
        for file in (tmp_path / "tables").iterdir():
            file.unlink()
    # While it is away others commit, to its table and elsewhere, and move the checkpoint beyond its rows.
    engine = engine_on(store, tmp_path)
    append(engine.stream(good), [4], 2)
    engine.append(PARTS, rows([7])).result(timeout=30)
    engine.close()
    newest_segment(tmp_path, bad).write_bytes(whole)
    engine = engine_on(store, tmp_path)
    with pytest.raises(Refused, match="expected offset 2, received 0") as refused:
        append(engine.stream(bad), [0, 1], 0)
    assert refused.value.code is Code.ALREADY_EXISTS
    assert append(engine.stream(bad), [5], 2) == 2
    assert sorted(ids_in(store, PLAIN)) == [0, 1, 2, 3, 4, 5]
    engine.close()
