"""SQL of clients in processes with limits: whole queries, conditions on rows, signatures of routines."""

from __future__ import annotations

import pickle
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lode.ingest.jobs.failures import as_error, describe, lost, restore
from lode.ingest.jobs.sql.outcome import Outcome
from lode.ingest.jobs.sql.remote import calls_of
from lode.ingest.names import TableName
from lode.ingest.types.columns import Column
from lode.lazy import pa
from lode.sandbox.peer import PeerError, Rows
from lode.sandbox.processes import ProcessLostError, Profile
from lode.sql.database import Limits
from lode.sql.errors import QueryError
from lode.store.protocol import SupportsLocalPath, is_in_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lode.ingest.jobs.queue import WorkQueue
    from lode.ingest.jobs.sql.host import Done, ServerHost
    from lode.ingest.jobs.sql.process import Request
    from lode.ingest.types.columns import TableSchema
    from lode.sandbox.processes import Process, Processes
    from lode.store.protocol import Store

_MODULE: Final = "lode.ingest.jobs.sql.process"
# The time of a condition on a batch of rows, and of signatures.
_CHECK_SECONDS: Final = 30.0


class Signature(msgspec.Struct):
    """A routine: its arguments with their modes and types, what it returns, and its body."""

    arguments: list[tuple[str, str, Column | None]]
    returns: Column | None
    body: str


class SqlApart:
    """Runs SQL in processes.

    Args:
        processes: The processes of the server.
        queue: Where signatures wait.
        store: The lake.
        location: The location of datasets that are created without one.
        limits: What a query may use.
    """

    def __init__(
        self, processes: Processes, queue: WorkQueue, store: Store, location: str, limits: Limits
    ) -> None:
        self._processes = processes
        self._queue = queue
        self._location = location
        self._limits = limits
        self._store = _shared(store)
        local = isinstance(store, SupportsLocalPath)
        self._profile = Profile(_MODULE, limits.memory_bytes, network=not local, threads=limits.threads)

    @property
    def can_query(self) -> bool:
        """Whether a process can open the lake. One in memory is known to this process only."""
        return self._store is not None

    @contextmanager
    def query(
        self,
        request: Request,
        host: ServerHost,
        is_cancelled: Callable[[], bool],
    ) -> Iterator[tuple[Outcome, Callable[[], Rows]]]:
        """Run a query; gives its outcome, and a function that reads its rows, once.

        Args:
            request: The query.
            host: What it may ask the server for.
            is_cancelled: Whether it was asked to stop.
        """
        with self._errors(request.limits), self._open(request.limits.seconds, is_cancelled) as process:
            process.handlers = calls_of(host, process)
            try:
                found = process.call("run", request, self._store, self._location)
            except ProcessLostError as error:
                yield _committed(error, host.done), lambda: Rows(host.done.schema, ())
                return
            yield _outcome(found), lambda: Rows(*process.rows("result"))
            process.call("end")

    def split(self, text: str, schema: TableSchema, now_micros: int | None) -> dict[str, Any]:
        """The part of a condition that is a filter, and what the rest needs. The caller has a slot."""
        with self._check() as process:
            found: dict[str, Any] = process.call("split", text, schema, now_micros)
            return found

    def passes(
        self, text: str, schema: TableSchema, now_micros: int | None, batch: pa.RecordBatch
    ) -> pa.Array[Any]:
        """Whether the rest of a condition is true for each row. The caller has a slot."""
        sent = pa.BufferOutputStream()
        with pa.ipc.new_stream(sent, batch.schema) as writer:
            writer.write_batch(batch)
        with self._check() as process:
            _, masks = process.rows("passes", text, schema, now_micros, sent.getvalue().to_pybytes())
            return pa.concat_arrays([each.column(0) for each in masks])

    def signatures(self, texts: list[str], client: str) -> list[Signature]:
        """The signatures of routines."""
        with self._queue.slot("check", client), self._check() as process:
            return msgspec.convert(process.call("signatures", texts), list[Signature])

    @contextmanager
    def _check(self) -> Iterator[Process]:
        limits = Limits(self._limits.memory_bytes, min(self._limits.seconds, _CHECK_SECONDS))
        with self._errors(limits), self._open(limits.seconds) as process:
            yield process

    def _open(self, seconds: float, is_cancelled: Callable[[], bool] = lambda: False) -> Process:
        return self._processes.open(
            self._profile, {}, seconds=seconds, is_cancelled=is_cancelled, describe=describe
        )

    @contextmanager
    def _errors(self, limits: Limits) -> Iterator[None]:
        try:
            yield
        except PeerError as error:
            raise as_error(restore(error.description), limits) from None
        except ProcessLostError as error:
            raise lost(error, limits) from None


def _committed(error: ProcessLostError, done: Done) -> Outcome:
    """What a query has committed whose process has ended, if it was all of the query; otherwise the error.

    A job that has failed may not have changed a table, and one that a client sends again may not do it twice.
    """
    if not done.count:
        raise error
    if done.count == 1 and done.last is not None and done.is_alone:
        return done.last
    raise QueryError(
        f"{error}. Statements of the query that had ended before are committed: look at their tables before "
        "you send the others again.",
        reason="invalidQuery",
    )


def _outcome(found: dict[str, Any]) -> Outcome:
    children, has_schema = found.pop("children"), found.pop("has_schema")
    made = Outcome(**found)
    made.table = None if made.table is None else TableName(*made.table)
    made.exported = None if made.exported is None else (made.exported[0], made.exported[1])
    made.children = [Outcome("")] * int(children)
    made.schema = pa.schema([]) if has_schema else None
    return made


def _shared(store: Store) -> bytes | None:
    """A store as another process opens it; None if it cannot."""
    if is_in_memory(store):
        return None
    try:
        return pickle.dumps(store)
    except Exception:  # of the caller's own store
        return None
