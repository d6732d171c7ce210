"""SQL on an engine, without a server."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from lode.ingest.jobs.sql.script import Script
from lode.ingest.jobs.sql.session import Session
from lode.sql.database import Limits

if TYPE_CHECKING:
    from lode.ingest.core.engine import Engine
    from lode.ingest.jobs.sql.context import Outcome

_keys = count(1)


def run(
    engine: Engine, query: str, *, limits: Limits | None = None, key: str = "", dry: bool = False
) -> Outcome:
    """Run a query on the dataset ``p.d``, as a job of its own."""
    own = ("jobs", key or f"job {next(_keys)}")
    with Session(engine, "p", "d", key=own, limits=limits or Limits()) as session:
        outcome = Script(session, query, {}, [], dry=dry).run()
        if outcome.batches is not None:
            outcome.batches = iter(list(outcome.batches))
        return outcome


def select(engine: Engine, query: str) -> list[dict[str, Any]]:
    """The rows of a query."""
    outcome = run(engine, query)
    assert outcome.batches is not None
    return [row for batch in outcome.batches for row in batch.to_pylist()]


def counts(outcome: Outcome) -> tuple[int, int, int]:
    """How many rows a statement has inserted, updated and deleted."""
    return outcome.inserted, outcome.updated, outcome.deleted
