"""What the statements of a query ask the server for: the catalog, commits, and files of buckets.

A query runs in a process that cannot write. It computes rows, and the server commits them. ``remote.py`` has
the same methods for that process.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from lode.change.result import Change
from lode.ingest.jobs.destination import CREATE, Commit, Destination, written_by
from lode.ingest.jobs.sql.fit import fitted
from lode.ingest.jobs.sql.outcome import Outcome
from lode.ingest.jobs.sql.replacing import Replacing
from lode.ingest.jobs.tables import TableRef
from lode.ingest.status import Code, Refused
from lode.lazy import pa
from lode.sql.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.ingest.catalog.catalog import Catalog
    from lode.ingest.catalog.table import TableDefinition
    from lode.ingest.core.engine import Engine
    from lode.ingest.jobs.buckets import Buckets
    from lode.ingest.jobs.sql.replacing import Statement
    from lode.ingest.names import TableName
    from lode.sandbox.peer import Rows
    from lode.store.protocol import Store

    Key = tuple[str, str]


class Host(Protocol):
    """The server of a query."""

    @property
    def catalog(self) -> Catalog:
        """The datasets and tables."""

    @property
    def store(self) -> Store:
        """The lake, for reading."""

    def write(
        self,
        name: TableName,
        disposition: str,
        key: Key,
        decide: Callable[[TableDefinition | None], TableDefinition],
        rows: Callable[[], Rows],
    ) -> int | None:
        """Write rows to a table in one snapshot; returns their number, or None if there are none to append.

        Args:
            name: The table.
            disposition: What happens to the rows that it has: one of ``WRITE``.
            key: The idempotency key of the snapshot.
            decide: The table as it is to be, from the current one.
            rows: Runs the query. Called again if another writer changes the table.
        """

    def is_written(self, key: Key, table: TableDefinition) -> bool:
        """Whether a table has the snapshot of a key."""

    def change(self, table: TableDefinition, key: Key, statement: Statement) -> dict[str, int]:
        """Run UPDATE, DELETE or MERGE; returns the numbers of rows by what happened to them."""

    def truncate(self, table: TableDefinition, key: Key) -> int:
        """Remove all rows; returns their number."""

    def drop_columns(self, table: TableDefinition, names: list[str]) -> None:
        """Drop columns from the rows of a table."""

    def export(
        self, uri: str, settings: dict[str, Any], rows: Callable[[], Rows], *, overwrite: bool
    ) -> tuple[int, int]:
        """Write rows as files of a bucket; returns the numbers of files and rows."""

    def job_rows(self, project: str) -> pa.Table:
        """The jobs of a project."""

    def keep(self, rows: Rows) -> None:
        """Keep the rows of a statement on disk, in the place of those that were kept before."""

    def note_alone(self) -> None:
        """The query is one statement, and not a script."""


@dataclass(slots=True)
class Done:
    """What a query has changed, in case that its process ends before it answers.

    Attributes:
        count: The number of changes that were begun.
        last: The outcome of the last one, if it has ended.
        is_alone: Whether the query is one statement, and not a script.
    """

    count: int = 0
    last: Outcome | None = None
    is_alone: bool = False

    @property
    def schema(self) -> pa.Schema:
        """The columns of the last outcome."""
        found = None if self.last is None else self.last.schema
        return pa.schema([]) if found is None else found

    def begin(self) -> None:
        self.count += 1
        self.last = None

    def end(self, outcome: Outcome) -> None:
        self.last = outcome


@dataclass(frozen=True, slots=True)
class ServerHost:
    """The server itself.

    Attributes:
        engine: The tables.
        buckets: Where EXPORT DATA writes.
        jobs: The jobs of a project as a table.
        keep: Keeps the rows of a statement of a script.
        check_cancelled: Raises if the job was asked to stop.
        done: What the query has changed.
    """

    engine: Engine
    buckets: Buckets
    jobs: Callable[[str], pa.Table]
    keep: Callable[[Rows], None]
    check_cancelled: Callable[[], None] = lambda: None
    done: Done = field(default_factory=Done)

    @property
    def catalog(self) -> Catalog:
        return self.engine.catalog

    @property
    def store(self) -> Store:
        return self.engine.store

    def write(
        self,
        name: TableName,
        disposition: str,
        key: Key,
        decide: Callable[[TableDefinition | None], TableDefinition],
        rows: Callable[[], Rows],
    ) -> int | None:
        self.done.begin()
        target = Destination(
            self.engine, TableRef(name), CREATE[0], disposition, anew=disposition == "WRITE_TRUNCATE"
        )
        try:
            snapshot = target.load(
                Commit(key, "query", self.check_cancelled),
                decide,
                lambda wanted: (fitted(batch, wanted.schema) for batch in rows().batches),
                empty=disposition != "WRITE_APPEND",
            )
        except Refused as refused:
            if refused.code is not Code.FAILED_PRECONDITION:
                raise
            raise QueryError(refused.message, reason="invalid") from refused
        count = 0 if snapshot is None else snapshot.row_count
        if disposition == "WRITE_APPEND":
            self.done.end(Outcome("INSERT", is_dml=True, inserted=count, table=name))
        else:
            schema = self.catalog.table(name, fresh=True).schema.arrow
            made = Outcome("CREATE_TABLE_AS_SELECT", schema, ddl_operation="CREATE", table=name)
            self.done.end(made)
        return None if snapshot is None else count

    def is_written(self, key: Key, table: TableDefinition) -> bool:
        return written_by(self.engine, key, table) is not None

    def change(self, table: TableDefinition, key: Key, statement: Statement) -> dict[str, int]:
        self.done.begin()
        counts = Replacing(self.engine, statement, self.check_cancelled).run(table, key)
        inserted, updated, deleted = (counts.get(each, 0) for each in ("INSERT", "UPDATE", "DELETE"))
        kind = statement.kind.upper()
        self.done.end(Outcome(kind, None, None, inserted, updated, deleted, is_dml=True, table=table.name))
        return counts

    def truncate(self, table: TableDefinition, key: Key) -> int:
        self.done.begin()
        dataset = table.open(self.store)
        if not dataset.exists:
            return 0
        with dataset.transaction(
            {"job": {"id": key[1], "type": "query"}},
            idempotency_key=key,
            on_conflict="append",
            replaces=[""],
        ) as transaction:
            snapshot = transaction.replayed
            if snapshot is None:
                snapshot = self.engine.writer(table).publish(dataset, transaction)
        deleted = Change.of(snapshot).removed.rows
        self.done.end(Outcome("TRUNCATE_TABLE", is_dml=True, deleted=deleted, table=table.name))
        return deleted

    def drop_columns(self, table: TableDefinition, names: list[str]) -> None:
        self.done.begin()
        dataset = table.open(self.store)
        if not dataset.exists:
            return
        stored = dataset.schema
        present = [each for each in names if stored is not None and each in stored.names]
        if present:
            dataset.evolve(drop=present)

    def export(
        self, uri: str, settings: dict[str, Any], rows: Callable[[], Rows], *, overwrite: bool
    ) -> tuple[int, int]:
        from lode.ingest.types.arrow import from_arrow

        found = rows()
        batches = iter(found.batches)
        return self.buckets.write(
            uri, from_arrow(found.schema), batches, settings, self.check_cancelled, overwrite=overwrite
        )

    def job_rows(self, project: str) -> pa.Table:
        return self.jobs(project)

    def note_alone(self) -> None:
        self.done.is_alone = True
