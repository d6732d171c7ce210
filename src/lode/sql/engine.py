"""One query: its statements are translated, its tables found, and a database of its own computes it."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from sqlglot import exp

from lode.lazy import pa, pt
from lode.sql.arrays import expand_arrays, is_array, unnest_sql
from lode.sql.database import Database, DatabaseError, Limits
from lode.sql.decimals import prefix_of, widen, with_prefix
from lode.sql.dialect import Generator, position
from lode.sql.dml import TARGET
from lode.sql.errors import LimitError, QueryError
from lode.sql.messages import as_query_error
from lode.sql.parser import view_query
from lode.sql.partition_filter import check_partition_filter
from lode.sql.rewrite import Functions, hide, name_columns, rename_queries, replace_table, sources
from lode.sql.structs import name_members
from lode.sql.types import arrow_name, assignable, inner_type, inward, quoted, text

if TYPE_CHECKING:
    import datetime
    from collections.abc import Callable, Iterator, Sequence

    from lode.sql.dml import Changes

_MAX_VIEWS: Final = 200
# The rest of a table's name, in queries of all tables whose names begin alike.
WILDCARD: Final = "_TABLE_SUFFIX"
_WATCH_SECONDS: Final = 0.1


class Resolver(Protocol):
    """Finds the tables that a query names."""

    def table(self, parts: tuple[str, ...], as_of: datetime.datetime | None) -> Source:
        """Return a table, or raise ``QueryError`` with the reason ``notFound``.

        Args:
            parts: The name as the query writes it: table; dataset and table; or all three.
            as_of: A time in the past, of FOR SYSTEM_TIME AS OF.
        """


@dataclass(frozen=True, slots=True)
class Source:
    """The rows of a table: a dataset of pyarrow, a table or a reader.

    Attributes:
        rows: What DuckDB reads; its fields have the SQL type in their metadata.
        bytes: The estimated size of the rows by column, for the bytes that a query processes.
        pseudo: Expressions of columns that ``SELECT *`` does not have, by name.
        query: The query of a view; it has no rows of its own.
        filtered: Columns of which a query must filter one, as the table requires it.
        name: The name of the table, for messages.
        parts: The tables that a wildcard means, by the rest of their names; it has no rows of its own.
    """

    rows: Any
    schema: pa.Schema
    bytes: int = 0
    pseudo: dict[str, str] = field(default_factory=dict)
    query: str = ""
    filtered: tuple[str, ...] = ()
    name: str = ""
    parts: tuple[tuple[str, Source], ...] = ()


@dataclass(slots=True)
class Result:
    """The rows of a query, which are computed while they are read."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    bytes_processed: int = 0


class Engine:
    """Runs statements of one query, with the tables that a resolver finds."""

    def __init__(
        self,
        resolver: Resolver,
        limits: Limits | None = None,
        cancelled: Callable[[], bool] = lambda: False,
        *,
        open_database: Callable[[Limits], Database] = Database,
    ) -> None:
        self._resolver = resolver
        self.limits = limits or Limits()
        self._open_database = open_database
        self._database: Any = None
        self._tables = self._views = 0
        # The tables that are bound now: views, and a table in the query of the last.
        self._around: list[exp.Table] = []
        self.bytes_processed = 0
        # Tables and functions that the query itself has created, by their names in lower case.
        self.local: dict[str, tuple[str, pa.Schema]] = {}
        self.functions: dict[str, exp.Create] = {}
        # Finds the statement that created a function of a dataset by the parts of its name.
        self.stored: Callable[[tuple[str, ...]], exp.Create | None] = lambda _parts: None
        self._cancelled = cancelled
        self._watch: _Watch | None = None

    def __enter__(self) -> Engine:
        with self._errors(None):
            self._database = self._open_database(self.limits)
        self.start_clock()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_clock()
        self._database.close()

    def start_clock(self) -> None:
        """Count the time of the query from now on."""
        self._watch = _Watch(self._database, self.limits.seconds, self._cancelled)

    def stop_clock(self) -> None:
        """Count no time until the next ``start_clock``."""
        if self._watch is not None:
            self._watch.ended.set()

    def check_time(self) -> None:
        """Raise if the time of the query is over, or if it was cancelled."""
        if self._watch is not None and self._watch.is_late:
            raise self._late()
        if self._cancelled():
            raise _stopped()

    def _late(self) -> LimitError:
        return LimitError(
            f"Query exceeded the time limit of {self.limits.seconds:g} seconds", reason="timeout"
        )

    def write(self, tree: exp.Expression) -> str:
        """A query as SQL of DuckDB. Its tables are registered."""
        tree = tree.copy()
        name_columns(tree)
        return self._written(tree)

    def _written(
        self, tree: exp.Expression, changed: exp.Table | None = None, columns: pa.Schema | None = None
    ) -> str:
        """A tree as SQL of DuckDB. The table that it changes is registered, and its columns are given."""
        schemas: dict[str, pa.Schema] = {}
        arrays = {id(table) for table in tree.find_all(exp.Table) if is_array(table)}
        named = [each for each in sources(tree) if each is not changed and id(each) not in arrays]
        try:
            bound = [self._bind(each, schemas) for each in named]
            rename_queries(tree)
            expand_arrays(tree, schemas)
            tree = Functions(self.functions, self.stored).inlined(tree)
            name_members(tree)
            prefix = prefix_of(tree, bound if columns is None else [*bound, columns])
            widen(tree, prefix)
            return with_prefix(_Writer().generate(tree, copy=False), prefix)
        except RecursionError:
            raise QueryError("The query is nested too deep: write it with fewer levels.") from None

    def run(self, tree: exp.Expression) -> Result:
        """Run a query."""
        return self.run_written(self.write(tree), tree)

    def run_written(self, written: str, tree: exp.Expression) -> Result:
        """Run a query that ``write`` has returned."""
        with self._errors(tree):
            schema, batches = self._database.result(written)
        return Result(schema, self._batches(batches, tree), self.bytes_processed)

    def schema(self, tree: exp.Expression) -> pa.Schema:
        """The columns of a query, without running it."""
        written = self.write(tree)
        with self._errors(tree):
            found: pa.Schema = self._database.schema(written)
        return found

    def value(self, tree: exp.Expression) -> tuple[Any, Any]:
        """The type and the value of an expression."""
        result = self.run(exp.select(tree))
        rows = [value for batch in result.batches for value in batch.column(0).to_pylist()]
        return result.schema.field(0).type, rows[0] if rows else None

    def _batches(
        self,
        batches: Iterator[pa.RecordBatch],
        tree: exp.Expression | None,
        *,
        returned: bool = True,
    ) -> Iterator[pa.RecordBatch]:
        with self._errors(tree):
            size = 0
            for batch in batches:
                size += batch.nbytes
                if returned and size > self.limits.result_bytes:
                    raise LimitError(
                        f"Response too large to return: more than {self.limits.result_bytes:,} bytes; "
                        "add a LIMIT or select fewer columns",
                        reason="responseTooLarge",
                    )
                yield batch

    def _bind(self, table: exp.Table, schemas: dict[str, pa.Schema]) -> pa.Schema:
        """Replace a table of the query by a view of its rows; returns its columns."""
        version = table.args.get("version") or table.args.get("when")
        moment = None
        if isinstance(version, exp.Version):
            moment = self._moment(version)
            table.set("version", None)
            table.set("when", None)
        parts = tuple(part.name for part in table.parts)
        if len(parts) == 1 and parts[0].lower() in self.local:
            name, schema = self.local[parts[0].lower()]
        else:
            source = self._resolver.table(parts, moment)
            schema = source.schema
            self._around.append(table)
            try:
                check_partition_filter(self._around, source.filtered, source.name)
                hidden = _uses(table, source.pseudo)
                name = self.view(source, hidden=hidden)
                if hidden:
                    hide(table, source.pseudo)
            finally:
                self._around.pop()
        alias = table.args.get("alias")
        shown = alias.name if alias is not None and alias.name else table.name
        schemas[shown.lower()] = schema
        replace_table(table, name, shown)
        return schema

    def view(self, source: Source, *, hidden: bool = False, rows: bool = True) -> str:
        """Register the rows of a table; returns the name of its view."""
        name = f"table${self._tables}"
        self._tables += 1
        if source.parts:
            selects = [
                f"SELECT {text(rest)} AS {quoted(WILDCARD)}, * FROM {quoted(self.view(part))}"
                if hidden
                else f"SELECT * FROM {quoted(self.view(part))}"
                for rest, part in source.parts
            ]
            self._execute(f'CREATE TEMP VIEW "{name}" AS {" UNION ALL ".join(selects)}')
            return name
        if source.query:
            self._views += 1
            if self._views > _MAX_VIEWS:
                raise QueryError("The query has too many nested views.")
            self._execute(f'CREATE TEMP VIEW "{name}" AS {self.write(view_query(source.query))}')
            return name
        self.charge(source.bytes)
        with self._errors(None):
            self._database.view(name, source.rows, self._columns(source, hidden=hidden))
        return name

    def charge(self, size: int) -> None:
        """Count what a statement reads, before it changes anything."""
        self.bytes_processed += size
        most = self.limits.billed_bytes
        if most is not None and self.bytes_processed > most:
            raise QueryError(
                f"Query exceeded limit for bytes billed: {most}. {self.bytes_processed} or higher required.",
                reason="bytesBilledLimitExceeded",
                location="",
            )

    def _columns(self, source: Source, *, hidden: bool) -> str:
        """The columns of a table, in the form that they have inside of a query."""
        present = {each.name.lower(): each.name for each in source.rows.schema}
        columns = [
            f"{inward(each, quoted(present[each.name.lower()]))} AS {quoted(each.name)}"
            if each.name.lower() in present
            # Added to the table after the rows were written.
            else f"CAST({_missing(each)} AS {inner_type(each)}) AS {quoted(each.name)}"
            for each in source.schema
        ]
        if hidden:
            columns += [f"{made} AS {quoted(name)}" for name, made in source.pseudo.items()]
        return ", ".join(columns)

    def _execute(self, written: str, tree: exp.Expression | None = None) -> None:
        with self._errors(tree):
            self._database.execute(written)

    # -- changes -------------------------------------------------------------------------------

    def keep(self, name: str, tree: exp.Expression) -> pa.Schema:
        """Create a temporary table with the rows of a query, under a name of the query."""
        written = self.write(tree)
        with self._errors(tree):
            schema: pa.Schema = self._database.schema(written)
        own = f"local${self._tables}"
        self._tables += 1
        self._execute(f'CREATE TEMP TABLE "{own}" AS {written}', tree)
        self.local[name.lower()] = (own, schema)
        return schema

    def forget(self, name: str) -> None:
        """Drop a temporary table."""
        self._execute(f'DROP TABLE "{self.local.pop(name.lower())[0]}"')

    def declare(self, name: str, schema: pa.Schema) -> None:
        """Create an empty temporary table."""
        own = f"local${self._tables}"
        self._tables += 1
        columns = ", ".join(f"{quoted(each.name)} {inner_type(each)}" for each in schema)
        self._execute(f'CREATE TEMP TABLE "{own}" ({columns})')
        self.local[name.lower()] = (own, schema)

    def change(self, tree: exp.Expression, table: exp.Table, name: str) -> dict[str, int]:
        """Run INSERT, UPDATE, DELETE or MERGE on a temporary table; returns the numbers of rows by action.

        Args:
            tree: The statement.
            table: The table in it that is changed.
            name: The temporary table.
        """
        alias = table.args.get("alias")
        shown = alias.name if alias is not None and alias.name else table.name
        columns = next(schema for own, schema in self.local.values() if own == name)
        replace_table(table, name, shown)
        written = self._written(tree, table, columns)
        returning = " RETURNING merge_action" if isinstance(tree, exp.Merge) else ""
        with self._errors(tree):
            counts: dict[str, int] = self._database.changed(written + returning)
        return counts if returning else {type(tree).__name__.upper(): sum(counts.values())}

    def changes(
        self, changes: Changes, source: Source, columns: Sequence[pa.Field[Any]]
    ) -> Iterator[pa.RecordBatch]:
        """The rows that a statement changes.

        Args:
            changes: The statement as a query.
            source: The rows of the table that it changes, with their numbers.
            columns: The columns of that query.
        """
        self.local[TARGET] = (self.view(source, hidden=True), source.schema)
        try:
            return self.converted(changes.query, columns)
        finally:
            del self.local[TARGET]

    def converted(self, tree: exp.Expression, columns: Sequence[pa.Field[Any]]) -> Iterator[pa.RecordBatch]:
        """The rows of a query, cast to columns in their order."""
        written = self.write(tree)
        with self._errors(tree):
            found = self._database.schema(written)
        if len(found) != len(columns):
            raise QueryError(
                f"Inserted row has wrong column count; Has {len(found)}, expected {len(columns)}"
                f"{position(tree)}"
            )
        for given, wanted in zip(found, columns, strict=True):
            if not assignable(given.type, wanted.type):
                raise QueryError(
                    f"Value of type {arrow_name(given.type)} cannot be assigned to {wanted.name}, which has "
                    f"type {arrow_name(wanted.type)}{position(tree)}"
                )
        names = [f"c{number}" for number in range(len(columns))]
        casts = ", ".join(
            f"{_cast(name, given.type, each)} AS {name}"
            for name, given, each in zip(names, found, columns, strict=True)
        )
        with self._errors(tree):
            _, batches = self._database.result(
                f"SELECT {casts} FROM ({written}) AS q({', '.join(names)})", pa.schema(list(columns))
            )
        return self._batches(batches, tree, returned=False)

    def _moment(self, version: exp.Version) -> Any:
        import datetime

        _, value = self.value(exp.cast(version.expression.copy(), "TIMESTAMP", dialect="bigquery"))
        if not isinstance(value, datetime.datetime):
            raise QueryError("FOR SYSTEM_TIME AS OF needs a TIMESTAMP that is not NULL")
        return value if value.tzinfo else value.replace(tzinfo=datetime.UTC)

    @contextmanager
    def _errors(self, tree: exp.Expression | None) -> Iterator[None]:
        try:
            yield
        except DatabaseError as error:
            if error.kind == "InterruptException":
                is_late = self._watch is not None and self._watch.is_late
                raise (self._late() if is_late else _stopped()) from None
            if error.kind == "OutOfMemoryException":
                raise LimitError(
                    "Resources exceeded during query execution: the query could not be executed in the "
                    f"allotted memory of {self.limits.memory_bytes:,} bytes"
                ) from None
            raise as_query_error(error, tree) from error


class _Watch:
    """A thread that interrupts a query when its time is over or it was cancelled, until it has ended."""

    def __init__(self, database: Database, seconds: float, cancelled: Callable[[], bool]) -> None:
        self._database = database
        self._end = time.monotonic() + seconds
        self._cancelled = cancelled
        self.is_late = False
        self.ended = threading.Event()
        threading.Thread(target=self._run, name="lode-query-watch", daemon=True).start()

    def _run(self) -> None:
        while not self.ended.wait(_WATCH_SECONDS):
            self.is_late = time.monotonic() > self._end
            if self.is_late or self._cancelled():
                # Again and again: DuckDB forgets what comes before a statement runs.
                self._database.interrupt()


class _Writer(Generator):
    """Writes arrays in FROM, too."""

    def subquery_sql(self, expression: exp.Subquery, sep: str = " AS ") -> str:
        if "unnest" in expression.meta:
            made = unnest_sql(expression, self.sql(expression.args["array$"]))
            joins = "".join(self.sql(each) for each in expression.args.get("joins") or ())
            return made + joins
        return str(super().subquery_sql(expression, sep))


def _stopped() -> QueryError:
    return QueryError("Job execution was cancelled: User requested cancellation", reason="stopped")


def _cast(name: str, given: Any, wanted: pa.Field[Any]) -> str:
    if pt.is_decimal256(given) and pt.is_decimal128(wanted.type):
        return f"bq_fits_numeric({name})"  # which a cast would round
    return f"CAST({name} AS {inner_type(wanted)})"


def _missing(field: pa.Field[Any]) -> str:
    return "[]" if pt.is_list(field.type) else "NULL"


def _uses(table: exp.Table, pseudo: dict[str, str]) -> bool:
    root = table.root()
    names = {name.lower() for name in pseudo}
    return any(column.name.lower() in names for column in root.find_all(exp.Column))
