"""Each row is stored once, whichever store call fails, before or after it took effect."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Literal

import pytest

from lode.errors import OutcomeUnknownError, StoreError
from lode.ingest.core.strategies import StreamType
from lode.ingest.status import Refused
from lode.store.wrappers import CountingStore, Fault, FaultStore, SimulatedCrash
from support.ingest.engines import PLAIN, TABLES, append, die, engine_on, lake
from support.ingest.jobs import JOBS, Job, check

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lode.ingest.names import TableName
    from lode.store.protocol import Store

When = Literal["before", "after"]


def calls_of(job: Job, state: Path) -> int:
    """The number of store calls of the job if none fails."""
    store = CountingStore(lake())
    engine = engine_on(store, state)
    job.prepare(engine)
    before = store.total
    job.begin(engine)
    job.insist(engine)
    engine.close()
    return store.total - before


@pytest.mark.parametrize("make", JOBS)
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.table)
@pytest.mark.parametrize(
    ("when", "error"),
    [("before", StoreError), ("after", OutcomeUnknownError), ("before", OutcomeUnknownError)],
)
@pytest.mark.parametrize("times", [1, 8])
def test_a_job_succeeds_by_retries_after_any_failing_call(
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
        with suppress(Refused, StoreError):
            job.begin(engine)
        job.insist(engine)
        engine.close()
        check(inner, job)


@pytest.mark.parametrize("make", JOBS)
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.table)
@pytest.mark.parametrize("when", ["before", "after"])
def test_no_row_is_lost_or_doubled_if_a_server_dies_at_any_call(
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


def test_a_server_that_cannot_read_its_lake_unlocks_its_state(tmp_path: Path) -> None:
    inner = lake()
    engine = engine_on(inner, tmp_path)
    stream = engine.create_stream(PLAIN, StreamType.COMMITTED)
    append(stream, range(3))
    engine.close()
    calls = calls_to_start(inner, tmp_path)
    for call in range(1, calls + 1):
        with pytest.raises(StoreError):
            engine_on(FaultStore(inner, Fault(nth=call, error=StoreError("a fault"))), tmp_path)
    engine = engine_on(inner, tmp_path)
    assert engine.stream(stream.name).position.durable == 3
    engine.close()


def calls_to_start(inner: Store, state: Path) -> int:
    store = CountingStore(inner)
    engine_on(store, state).close()
    return store.total
