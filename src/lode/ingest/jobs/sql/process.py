"""What a process for SQL does: whole queries, conditions on rows, and the signatures of routines."""

from __future__ import annotations

import pickle
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lode.ingest.jobs.failures import describe, restore
from lode.ingest.jobs.sql import parameters
from lode.ingest.jobs.sql.condition import RowConditions
from lode.ingest.jobs.sql.outcome import Outcome
from lode.ingest.jobs.sql.remote import RemoteHost
from lode.ingest.jobs.sql.script import Script
from lode.ingest.jobs.sql.session import Session
from lode.lazy import pa
from lode.sandbox.peer import Rows
from lode.sql.database import Database

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.ingest.jobs.sql.host import Host
    from lode.ingest.types.columns import TableSchema
    from lode.sandbox.child import Child
    from lode.sql.database import Limits
    from lode.store.protocol import Store

__all__ = ["describe", "handlers", "restore"]


@dataclass(frozen=True, slots=True)
class Request:
    """A query.

    Attributes:
        text: The query.
        parameters: Its parameters as REST has them.
        project: The project of names without one.
        dataset: The dataset of names without one.
        key: The idempotency key of what it writes.
        limits: What it may use.
        dry: Only check it.
        requires_filters: Whether tables that require a filter on their partitions refuse a query without one.
    """

    text: str
    parameters: Any
    project: str
    dataset: str | None
    key: tuple[str, str]
    limits: Limits
    dry: bool = False
    requires_filters: bool = True


def run(
    request: Request,
    host: Host,
    cancelled: Callable[[], bool],
    open_database: Callable[[Limits], Database] = Database,
) -> tuple[Session, Outcome]:
    """Run a query. Its session has to be closed when the rows of the outcome are read."""
    named, positional = parameters.read(request.parameters)
    session = Session(
        host,
        request.project,
        request.dataset,
        key=request.key,
        limits=request.limits,
        cancelled=cancelled,
        open_database=open_database,
    )
    session.names.requires_filters = request.requires_filters
    session.__enter__()
    try:
        return session, Script(session, request.text, named, positional, dry=request.dry).run()
    except BaseException:
        session.__exit__()
        raise


class _Queries:
    """Runs the queries of this process, one after the other."""

    def __init__(self, child: Child) -> None:
        self._child = child
        self._session: Session | None = None
        self._outcome: Outcome | None = None
        self._host: RemoteHost | None = None
        self._store: tuple[bytes, Store] | None = None
        # Opens the database of the next query beside the one that runs, and closes those of the past.
        self._beside = ThreadPoolExecutor(1)
        self._spare: Future[Database] | None = None

    def run(self, request: Request, store: bytes, location: str) -> dict[str, Any]:
        """Run a query; returns the outcome without its rows."""
        self.end()
        if self._store is None or self._store[0] != store:
            self._store = store, pickle.loads(store)
        self._host = RemoteHost(self._child, self._store[1], location)
        self._session, outcome = run(request, self._host, lambda: self._child.is_interrupted, self._open)
        self._outcome = outcome
        found = asdict(
            Outcome(
                **{
                    **{name: getattr(outcome, name) for name in outcome.__slots__},
                    "schema": None,
                    "batches": None,
                    "children": [],
                }
            )
        )
        return {**found, "has_schema": outcome.schema is not None, "children": len(outcome.children)}

    def _open(self, limits: Limits) -> Database:
        spare, self._spare = self._spare, None
        found = None if spare is None else spare.result()
        if found is not None and found.limits != limits:
            found.close()
            found = None
        found = Database(limits) if found is None else found
        self._spare = self._beside.submit(Database, limits)
        return found

    def result(self) -> Rows:
        """The rows of the query that was run."""
        assert self._outcome is not None
        assert self._outcome.schema is not None
        return Rows(self._outcome.schema, self._outcome.batches or ())

    def end(self) -> None:
        """Drop the query that was run."""
        ended, self._session = self._session, None
        self._outcome = self._host = None
        if ended is not None:
            self._beside.submit(ended.__exit__)

    def call_back(self, number: int, *arguments: Any) -> Any:
        """Run a function that the server was given."""
        assert self._host is not None
        return self._host.call_back(number, *arguments)


def signatures(texts: list[str]) -> list[dict[str, Any]]:
    """The arguments, the type and the body of routines."""
    from lode.ingest.jobs.sql.declared import column_of
    from lode.ingest.jobs.sql.routines import read_routine

    found = []
    for text in texts:
        made = read_routine(text)
        arguments = [
            (each.name, each.mode, None if each.kind is None else column_of("", each.kind))
            for each in made.arguments
        ]
        returns = None if made.returns is None else column_of("", made.returns)
        found.append({"arguments": arguments, "returns": returns, "body": made.body})
    return found


def handlers(child: Child) -> dict[str, Callable[..., Any]]:
    """The functions that a server calls."""
    queries, conditions = _Queries(child), RowConditions()

    def passes(text: str, schema: TableSchema, now_micros: int | None, batch: bytes) -> Rows:
        with pa.ipc.open_stream(batch) as reader:
            rows = reader.read_next_batch()
        masks = pa.record_batch([conditions.passes(text, schema, now_micros, rows)], names=["passes"])
        return Rows(masks.schema, [masks])

    own = (queries.run, queries.result, queries.end, queries.call_back, conditions.split, passes, signatures)
    return {each.__name__: each for each in own}
