"""The file of a group is written while the group before it is committed, and each row is stored once."""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import pytest

from lode.errors import OutcomeUnknownError, StoreError
from lode.ingest.core import table_writer
from lode.ingest.core.strategies import StreamType
from lode.ingest.status import Code, Refused
from lode.store.wrappers import Fault, FaultStore, SimulatedCrash
from support.ingest.engines import (
    PLAIN,
    append,
    die,
    engine_on,
    ids_in,
    is_one_line,
    lake,
    refusal_of,
    rows,
    until_stored,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future
    from pathlib import Path

    from lode.ingest.core.engine import Engine
    from lode.ingest.core.streams import Stream
    from lode.store.memory import MemoryStore

When = Literal["before", "after"]


class SlowSwap(FaultStore):
    """Holds the first swap of a table's pointer back until the next data file has been put, or has failed."""

    nearby = False

    def __init__(self, inner: MemoryStore) -> None:
        super().__init__(inner)
        self.swapping = threading.Event()
        self.staged = threading.Event()
        self.slow = False

    def around(self, method: str, path: str, call: Callable[[], Any]) -> Any:
        if method == "compare_and_swap" and path.endswith("/latest") and self.slow:
            self.slow = False
            self.swapping.set()
            assert self.staged.wait(timeout=120), "nothing was staged during the commit"
        try:
            return super().around(method, path, call)
        finally:
            if method == "put" and path.endswith(".parquet") and self.swapping.is_set():
                self.staged.set()


@pytest.fixture(autouse=True)
def _no_group_is_light(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let rows as few as these be staged during a commit."""
    monkeypatch.setattr(table_writer, "_LIGHT_BYTES", 0)


@pytest.fixture
def inner() -> MemoryStore:
    return lake()


@pytest.fixture
def store(inner: MemoryStore) -> SlowSwap:
    return SlowSwap(inner)


@pytest.fixture
def engine(store: SlowSwap, tmp_path: Path) -> Iterator[Engine]:
    engine = engine_on(store, tmp_path)
    # The dataset exists, and its first rows are there.
    append(engine.stream(PLAIN.default_stream), [0])
    yield engine
    engine.close()


def send_two(store: SlowSwap, stream: Stream) -> tuple[Future[int | None], Future[int | None]]:
    """Two appends: the second is staged while the first is committed."""
    store.slow = True
    first = stream.append(rows([1, 2]), None)
    assert store.swapping.wait(timeout=120)
    return first, stream.append(rows([3, 4]), None)


def files(store: MemoryStore) -> int:
    return sum(entry.path.endswith(".parquet") for entry in store.list())


@pytest.mark.parametrize("kind", [StreamType.DEFAULT, StreamType.COMMITTED])
def test_rows_are_staged_during_a_commit_and_visible_in_order(
    engine: Engine, store: SlowSwap, inner: MemoryStore, kind: StreamType
) -> None:
    first, second = send_two(store, open_stream(engine, kind))
    assert refusal_of(first) is None
    assert refusal_of(second) is None
    assert ids_in(inner, PLAIN) == [0, 1, 2, 3, 4]
    assert is_one_line(inner, PLAIN)


def open_stream(engine: Engine, kind: StreamType) -> Stream:
    if kind is StreamType.DEFAULT:
        return engine.stream(PLAIN.default_stream)
    return engine.create_stream(PLAIN, kind)


def test_rows_staged_behind_a_failed_commit_of_their_stream_are_refused_and_their_file_is_removed(
    engine: Engine, store: SlowSwap, inner: MemoryStore
) -> None:
    stream = engine.create_stream(PLAIN, StreamType.COMMITTED)
    store.add(Fault("compare_and_swap", "*/latest", error=StoreError("a fault")))
    before = files(inner)
    first, second = send_two(store, stream)
    refused, aborted = refusal_of(first), refusal_of(second)
    assert refused is not None
    assert refused.code is Code.UNAVAILABLE
    assert aborted is not None
    assert aborted.code is Code.ABORTED
    assert "expected offset 0, received 2" in aborted.message
    stream.writer.appends.wait()
    assert files(inner) == before
    until_stored(lambda: stream, [1, 2], 0)
    until_stored(lambda: stream, [3, 4], 2)
    assert ids_in(inner, PLAIN) == [0, 1, 2, 3, 4]


def test_rows_of_the_default_stream_staged_behind_a_failed_commit_are_stored(
    engine: Engine, store: SlowSwap, inner: MemoryStore
) -> None:
    store.add(Fault("compare_and_swap", "*/latest", error=StoreError("a fault")))
    first, second = send_two(store, engine.stream(PLAIN.default_stream))
    assert refusal_of(first) is not None
    assert refusal_of(second) is None
    assert ids_in(inner, PLAIN) == [0, 3, 4]


def test_rows_that_cannot_be_staged_ahead_are_refused_without_the_group_before_them(
    engine: Engine, store: SlowSwap, inner: MemoryStore
) -> None:
    stream = engine.create_stream(PLAIN, StreamType.COMMITTED)
    store.add(Fault("put", "*.parquet", nth=2, error=StoreError("the disk is full")))
    first, second = send_two(store, stream)
    assert refusal_of(first) is None
    refused = refusal_of(second)
    assert refused is not None
    assert refused.code is Code.UNAVAILABLE
    assert "the disk is full" in refused.message
    until_stored(lambda: stream, [3, 4], 2)
    assert ids_in(inner, PLAIN) == [0, 1, 2, 3, 4]


def test_a_commit_whose_answer_was_lost_is_not_repeated_by_the_group_after_it(
    engine: Engine, store: SlowSwap, inner: MemoryStore
) -> None:
    stream = engine.create_stream(PLAIN, StreamType.COMMITTED)
    store.add(Fault("compare_and_swap", "*/latest", when="after", error=OutcomeUnknownError("lost")))
    for answer in send_two(store, stream):
        refusal_of(answer)
    until_stored(lambda: stream, [1, 2], 0)
    until_stored(lambda: stream, [3, 4], 2)
    assert ids_in(inner, PLAIN) == [0, 1, 2, 3, 4]
    assert is_one_line(inner, PLAIN)


@pytest.mark.parametrize("when", ["before", "after"])
def test_no_row_is_lost_or_doubled_if_a_server_dies_with_rows_staged_ahead(
    when: When, tmp_path: Path
) -> None:
    """The calls of both threads interleave, so a crash at each call in turn is a crash at any moment."""
    for call in range(1, 16):
        inner = lake()
        store = FaultStore(inner)
        state = tmp_path / str(call)
        engine = engine_on(store, state)
        append(engine.stream(PLAIN.default_stream), [0])
        stream = engine.create_stream(PLAIN, StreamType.COMMITTED)
        store.add(Fault(nth=call, when=when))
        with suppress(SimulatedCrash, Refused, StoreError):
            for number in range(4):
                stream.append(rows([2 * number + 1, 2 * number + 2]), 2 * number)
        die(engine, store)

        engine = engine_on(inner, state)
        find = partial(engine.stream, stream.name)
        for number in range(4):
            until_stored(find, [2 * number + 1, 2 * number + 2], 2 * number)
        engine.close()
        assert sorted(ids_in(inner, PLAIN)) == list(range(9))
        assert is_one_line(inner, PLAIN)
