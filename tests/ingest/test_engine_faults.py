"""Whichever call to the store fails, before or after it took effect: clients that try again store each row once."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Literal

import pytest

from ingest.engines import (
    PLAIN,
    TABLES,
    append,
    die,
    engine_on,
    ids_in,
    is_one_line,
    lake,
    rows,
    until_done,
    until_stored,
)
from lode.errors import OutcomeUnknownError, StoreError
from lode.ingest.position import StreamType
from lode.ingest.status import Refused, StorageCode
from lode.store.memory import MemoryStore
from lode.store.wrappers import CountingStore, Fault, FaultStore, SimulatedCrash

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lode.ingest.engine import Engine
    from lode.ingest.names import StreamName, TableName

When = Literal["before", "after"]
COMMITTED, PENDING, BUFFERED = StreamType.COMMITTED, StreamType.PENDING, StreamType.BUFFERED


class Job:
    """Something that makes rows visible with a commit, in the hands of a client that tries it again.

    ``prepare`` runs on a good store. ``begin`` asks once and waits for no more than it must; ``insist`` asks
    until it is sure.
    """

    ids: tuple[int, ...]

    def __init__(self, table: TableName) -> None:
        self.table = table

    def prepare(self, engine: Engine) -> None:
        raise NotImplementedError

    def begin(self, engine: Engine) -> None:
        raise NotImplementedError

    def insist(self, engine: Engine) -> None:
        raise NotImplementedError


class Appends(Job):
    """Appends of two streams, all under way at once, so that they share commits."""

    ids = (*range(5), *range(100, 106))

    def prepare(self, engine: Engine) -> None:
        self.names = [engine.create_stream(self.table, COMMITTED).name for _ in range(2)]

    def begin(self, engine: Engine) -> None:
        first, second = (engine.stream(name) for name in self.names)
        self.under_way = [
            first.append(rows(range(2)), 0),
            second.append(rows(range(100, 103)), 0),
            first.append(rows(range(2, 5)), 2),
            second.append(rows(range(103, 106)), 3),
        ]

    def insist(self, engine: Engine) -> None:
        first, second = self.names
        until_stored(lambda: engine.stream(first), range(2), 0)
        until_stored(lambda: engine.stream(first), range(2, 5), 2)
        until_stored(lambda: engine.stream(second), range(100, 103), 0)
        until_stored(lambda: engine.stream(second), range(103, 106), 3)


class Flush(Job):
    ids = tuple(range(15))

    def prepare(self, engine: Engine) -> None:
        stream = engine.create_stream(self.table, BUFFERED)
        self.name = stream.name
        append(stream, range(20))

    def begin(self, engine: Engine) -> None:
        engine.flush(self.name, 14)

    def insist(self, engine: Engine) -> None:
        until_done(lambda: engine.flush(self.name, 14))


class BatchOfStreams(Job):
    ids = (*range(15), *range(100, 105))

    def prepare(self, engine: Engine) -> None:
        self.names: list[StreamName] = []
        for ids in (range(15), range(100, 105)):
            stream = engine.create_stream(self.table, PENDING)
            append(stream, ids)
            engine.finalize(stream.name)
            self.names.append(stream.name)

    def begin(self, engine: Engine) -> None:
        problems = engine.batch_commit(self.table, self.names).problems
        # Told so after an answer was lost: then it had landed, all of it.
        assert {problem.storage for problem in problems} <= {StorageCode.STREAM_ALREADY_COMMITTED}
        assert len(problems) in (0, len(self.names))

    def insist(self, engine: Engine) -> None:
        until_done(lambda: self.begin(engine))


JOBS = [Appends, Flush, BatchOfStreams]


def calls_of(job: Job, state: Path) -> int:
    """How many calls to the store the job makes when none fails."""
    store = CountingStore(lake())
    engine = engine_on(store, state)
    job.prepare(engine)
    before = store.total
    job.begin(engine)
    job.insist(engine)
    engine.close()
    return store.total - before


def check(store: MemoryStore, job: Job) -> None:
    found = ids_in(store, job.table)
    assert sorted(found) == sorted(job.ids)
    if job.table == PLAIN:
        for first in (0, 100):
            mine = [id for id in found if id // 100 == first // 100]
            assert mine == sorted(mine), "rows of a stream are not in order"
    assert is_one_line(store, job.table)


@pytest.mark.parametrize("make", JOBS)
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.table)
@pytest.mark.parametrize(
    ("when", "error"),
    [("before", StoreError), ("after", OutcomeUnknownError), ("before", OutcomeUnknownError)],
)
@pytest.mark.parametrize("times", [1, 3, 8])
def test_a_failing_call_is_made_up_for_by_trying_again(
    make: Callable[[TableName], Job],
    table: TableName,
    when: When,
    error: type[StoreError],
    times: int,
    tmp_path: Path,
) -> None:
    for call in range(1, calls_of(make(table), tmp_path / "state") + 1):
        inner = lake()
        store = FaultStore(inner)
        engine = engine_on(store, tmp_path / f"state-{call}")
        job = make(table)
        job.prepare(engine)
        store.add(Fault(nth=call, times=times, when=when, error=error("a fault")))
        with suppress(Refused):
            job.begin(engine)
        job.insist(engine)
        engine.close()
        check(inner, job)


@pytest.mark.parametrize("make", JOBS)
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.table)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_server_that_dies_at_any_call_leaves_nothing_lost_or_doubled(
    make: Callable[[TableName], Job], table: TableName, when: When, tmp_path: Path
) -> None:
    for call in range(1, calls_of(make(table), tmp_path / "state") + 1):
        inner = lake()
        store = FaultStore(inner)
        state = tmp_path / f"state-{call}"
        engine = engine_on(store, state)
        job = make(table)
        job.prepare(engine)
        store.add(Fault(nth=call, when=when))
        with suppress(SimulatedCrash):
            job.begin(engine)
        die(engine, store)

        engine = engine_on(inner, state)
        job.insist(engine)
        engine.close()
        check(inner, job)
