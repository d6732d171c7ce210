"""A swap is reported as lost and lands later: no row becomes visible twice, whenever that is."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from lode.ingest.core.strategies import StreamType
from lode.ingest.status import Code, Refused
from lode.store.wrappers import FaultStore
from support.ingest.engines import PARTS, TABLES, append, die, engine_on, ids_in, lake, until_stored
from support.ingest.jobs import JOBS, Job, check
from support.ingest.late import LateStore, lost

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lode.ingest.names import TableName


def before_the_retry(store: LateStore, job: Job, state: Path) -> None:
    engine = lost(store, job, state)
    assert store.land()
    job.insist(engine)
    engine.close()


def during_the_retry(store: LateStore, job: Job, state: Path) -> None:
    engine = lost(store, job, state)
    store.landing = True
    job.insist(engine)
    engine.close()


def after_the_retry(store: LateStore, job: Job, state: Path) -> None:
    engine = lost(store, job, state)
    job.insist(engine)
    assert not store.land()
    engine.close()


def before_a_restart(store: LateStore, job: Job, state: Path) -> None:
    lost(store, job, state).close()
    assert store.land()
    engine = engine_on(store, state)
    job.insist(engine)
    engine.close()


def after_a_restart(store: LateStore, job: Job, state: Path) -> None:
    lost(store, job, state).close()
    engine = engine_on(store, state)
    assert store.land()
    job.insist(engine)
    engine.close()


def after_a_death(store: LateStore, job: Job, state: Path) -> None:
    mortal = FaultStore(store)
    engine = engine_on(mortal, state)
    job.prepare(engine)
    store.holding = True
    with suppress(Refused):
        job.begin(engine)
    die(engine, mortal)
    store.holding = False
    engine = engine_on(store, state)
    store.landing = True
    job.insist(engine)
    engine.close()


MOMENTS = [
    before_the_retry,
    during_the_retry,
    after_the_retry,
    before_a_restart,
    after_a_restart,
    after_a_death,
]


@pytest.mark.parametrize("make", JOBS)
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.table)
@pytest.mark.parametrize("happens", MOMENTS)
def test_a_commit_that_lands_late_is_not_doubled(
    make: Callable[[TableName], Job],
    table: TableName,
    happens: Callable[[LateStore, Job, Path], None],
    tmp_path: Path,
) -> None:
    store = LateStore(lake())
    job = make(table)
    happens(store, job, tmp_path)
    check(store, job)


def test_a_late_commit_to_other_partitions_is_detected(tmp_path: Path) -> None:
    """Partitions by time of arrival differ in the second attempt. Still only one of them is visible."""
    store = LateStore(lake())
    engine = engine_on(store, tmp_path)
    stream = engine.create_stream(PARTS, StreamType.COMMITTED)
    append(engine.stream(stream.name), [1], 0)
    store.holding = True
    with pytest.raises(Refused) as refused:
        append(stream, [12, 13], 1)
    assert refused.value.code is Code.UNAVAILABLE
    store.holding, store.landing = False, True
    until_stored(lambda: stream, [25, 26], 1)
    assert stream.position.durable == 3
    assert sorted(ids_in(store, PARTS)) == [1, 12, 13]
    append(stream, [40], 3)
    engine.close()
    assert sorted(ids_in(store, PARTS)) == [1, 12, 13, 40]
