"""SQL on an engine, without a server."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from lode.ingest.jobs.buckets import Buckets
from lode.ingest.jobs.sql.host import ServerHost
from lode.ingest.jobs.sql.job_rows import job_rows
from lode.ingest.jobs.sql.script import Script
from lode.ingest.jobs.sql.session import Session
from lode.ingest.jobs.sql.spool import Spool
from lode.sql.database import Limits

if TYPE_CHECKING:
    from lode.ingest.core.engine import Engine
    from lode.ingest.jobs.sql.outcome import Outcome

_keys = count(1)


def run(
    engine: Engine, query: str, *, limits: Limits | None = None, key: str = "", dry: bool = False
) -> Outcome:
    """Run a query on the dataset ``p.d``, as a job of its own."""
    own = ("jobs", key or f"job {next(_keys)}")
    with (
        Spool(engine.results, engine.staged, 1 << 30) as spool,
        Session(host_of(engine, spool), "p", "d", key=own, limits=limits or Limits()) as session,
    ):
        outcome = Script(session, query, {}, [], dry=dry).run()
        batches = spool.rows().batches if outcome.is_kept else outcome.batches
        if batches is not None:
            outcome.batches = iter(list(batches))
        return outcome


def host_of(engine: Engine, spool: Spool | None = None) -> ServerHost:
    """The server of queries in this process."""
    kept = spool or Spool(engine.results, engine.staged, 1 << 30)
    return ServerHost(engine, Buckets(None), lambda _project: job_rows([]), kept.keep)


def select(engine: Engine, query: str) -> list[dict[str, Any]]:
    """The rows of a query."""
    outcome = run(engine, query)
    assert outcome.batches is not None
    return [row for batch in outcome.batches for row in batch.to_pylist()]


def counts(outcome: Outcome) -> tuple[int, int, int]:
    """How many rows a statement has inserted, updated and deleted."""
    return outcome.inserted, outcome.updated, outcome.deleted
