"""What the statements of one query share: names, the database, and what each of them answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from sqlglot import exp

from lode.ingest.jobs.buckets import Buckets
from lode.ingest.jobs.destination import CREATE, Commit, Destination
from lode.ingest.jobs.sql.fit import fitted
from lode.ingest.jobs.sql.names import CatalogTables
from lode.ingest.jobs.sql.routines import routine_rows
from lode.ingest.jobs.tables import TableRef
from lode.ingest.status import Code, Refused
from lode.sql.database import Database
from lode.sql.engine import Engine
from lode.sql.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

    import lode
    from lode.ingest.catalog.table import TableDefinition
    from lode.ingest.core.engine import Engine as Tables
    from lode.ingest.names import TableName
    from lode.sql.database import Limits
    from lode.sql.workers import RemoteDatabase


@dataclass(slots=True)
class Outcome:
    """What a statement did. A query has a schema and rows."""

    statement: str
    schema: pa.Schema | None = None
    batches: Iterator[pa.RecordBatch] | None = None
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    is_dml: bool = False
    ddl_operation: str = ""
    table: TableName | None = None
    bytes: int = 0
    # The number of files and rows of EXPORT DATA.
    exported: tuple[int, int] | None = None
    children: list[Outcome] = field(default_factory=list)

    @property
    def affected(self) -> int:
        return self.inserted + self.updated + self.deleted


class Context:
    """One query on the tables of a server. Use it in ``with``: leaving ends its database.

    Args:
        tables: The tables.
        project: The project of names without one.
        dataset: The dataset of names without one.
        key: The idempotency key of what it writes.
        limits: What it may use.
        cancelled: Whether it was asked to stop.
        buckets: Where EXPORT DATA writes; nowhere if not given.
        open_database: Opens the database that computes it.
    """

    def __init__(
        self,
        tables: Tables,
        project: str,
        dataset: str | None,
        *,
        key: tuple[str, str],
        limits: Limits,
        cancelled: Callable[[], bool] = lambda: False,
        buckets: Buckets | None = None,
        open_database: Callable[[Limits], Database | RemoteDatabase] = Database,
    ) -> None:
        self.buckets = buckets or Buckets(None)
        self.tables = tables
        self.names = CatalogTables(tables.catalog, project, dataset)
        self.names.views["ROUTINES"] = partial(routine_rows, tables.catalog)
        self.sql = Engine(self.names, limits, cancelled, open_database=open_database)
        self.sql.stored = self.names.function
        self._key = key
        self.number = 0

    def __enter__(self) -> Self:
        self.sql.__enter__()
        return self

    def __exit__(self, *details: object) -> None:
        self.sql.__exit__(*details)

    def evaluate(self, value: exp.Expression, kind: str) -> Any:
        """The value of an expression of a statement, cast to a type."""
        return self.sql.value(exp.cast(value.copy(), kind, dialect="bigquery"))[1]

    def write(
        self,
        name: TableName,
        disposition: str,
        decide: Callable[[TableDefinition | None], TableDefinition],
        rows: Callable[[], Iterable[pa.RecordBatch]],
    ) -> lode.Snapshot | None:
        """Write the rows of a query to a table in one snapshot; None if there are none to append.

        Args:
            name: The table.
            disposition: What happens to the rows that it has: one of ``WRITE``.
            decide: The table as it is to be, from the current one.
            rows: Runs the query. Called again if another writer changes the table.
        """
        target = Destination(
            self.tables, TableRef(name), CREATE[0], disposition, anew=disposition == "WRITE_TRUNCATE"
        )
        try:
            return target.load(
                Commit(self.key, "query"),
                decide,
                lambda wanted: (fitted(batch, wanted.schema) for batch in rows()),
                empty=disposition != "WRITE_APPEND",
            )
        except Refused as refused:
            if refused.code is not Code.FAILED_PRECONDITION:
                raise
            raise QueryError(refused.message, reason="invalid") from refused

    @property
    def key(self) -> tuple[str, str]:
        """The key of the statement that runs: a job may have several."""
        return self._key if self.number <= 1 else (self._key[0], f"{self._key[1]}#{self.number}")
