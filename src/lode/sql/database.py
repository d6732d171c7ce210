"""The database of one query: DuckDB in memory, which reads only the files of the query's tables."""

from __future__ import annotations

import functools
import re
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lode.lazy import pa, pt
from lode.sql import macros
from lode.sql.errors import QueryError
from lode.sql.numbered import NumberedRows
from lode.sql.rows import ScanRows, duckdb_type
from lode.sql.statement import check_change, check_command, check_query, check_view
from lode.sql.types import arrow_field, outward, quoted, text
from lode.sql.udfs import GIVES_NULL, TAKES_NULL, UDFS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import duckdb

_BATCH_ROWS: Final = 65_536
# DuckDB computes so many rows at a time.
_VECTOR_ROWS: Final = 2048
# Smaller batches are put together, since each costs some time.
_MIN_BATCH_BYTES: Final = 1 << 20
# The first and last day, and the first and last microsecond, since 1970. DuckDB computes others, too.
_DAYS: Final = (-719_162, 2_932_896)
_MICROS: Final = (_DAYS[0] * 86_400_000_000, (_DAYS[1] + 1) * 86_400_000_000 - 1)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a query may use."""

    memory_bytes: int = 1 << 30
    seconds: float = 600.0
    threads: int = 1
    result_bytes: int = 10 << 30
    # The most that one statement may read.
    billed_bytes: int | None = None


class DatabaseError(Exception):
    """An error of DuckDB.

    Attributes:
        kind: The name of DuckDB's class of errors.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class Database:
    """One DuckDB for the statements of one query, in this process.

    Tables are registered before the first statement is planned. From then on the database opens no file but
    theirs. Tables that are registered later are read through Arrow.

    Args:
        limits: What the query may use; its time and its result are not limited here.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._connection: Any = _connect(limits)
        self._parser: Any = self._connection.cursor()
        self._made: set[tuple[str, str]] = set()
        # The views and temporary tables that statements may name.
        self._tables: set[str] = set()
        self._files: list[str] = []
        self._is_locked = False

    def close(self) -> None:
        self._connection.close()

    def interrupt(self) -> None:
        """Stop the statement that runs. Called by another thread."""
        with suppress(Exception):  # it may have ended meanwhile
            self._connection.interrupt()

    # -- tables --------------------------------------------------------------------------------

    def view(self, name: str, rows: Any, columns: str) -> None:
        """Register the rows of a table.

        Args:
            name: The name of the view.
            rows: ``ScanRows``, or what DuckDB reads: a table, a dataset or a reader.
            columns: The expressions of its columns. They are not of the query.
        """
        with _errors():
            if isinstance(rows, NumberedRows):
                # The rows of a statement that changes them: joins are computed as they are written.
                self._lock()
            native = self._native(rows) if isinstance(rows, ScanRows) else ""
            if not native:
                opened = rows.open() if isinstance(rows, ScanRows) else rows
                self._connection.register(f"rows${name}", opened)
            self._make(columns)
            source = native or quoted(f"rows${name}")
            written = f"CREATE TEMP VIEW {quoted(name)} AS SELECT {columns} FROM {source}"
            check_view(self._parser, written)
            self._connection.execute(written)
            self._tables.add(name)

    def replace(self, name: str, rows: pa.Table) -> None:
        """Give a view that reads Arrow other rows of the same columns."""
        with _errors():
            self._connection.register(f"rows${name}", rows)

    def _native(self, rows: ScanRows) -> str:
        """The query with which DuckDB reads files of this machine itself; empty if it cannot."""
        import duckdb

        paths = [] if self._is_locked else rows.local_files()
        if not paths:
            return ""
        several = "true" if len(paths) > 1 else "false"
        listed = ", ".join(map(text, paths))
        call = f"read_parquet([{listed}], hive_partitioning = false, union_by_name = {several})"
        try:
            found = self._connection.sql(f"SELECT * FROM {call}")
        except duckdb.Error:
            return ""  # the reader of Arrow says what is wrong with the file
        kinds = dict(zip(found.columns, map(str, found.types), strict=True))
        if any(kinds.get(each.name) != duckdb_type(each.type) for each in rows.schema):
            return ""
        self._files += paths
        # Statistics of files leave out NaN, so DuckDB would skip its rows. TRY hides the column from them.
        values = [
            f"TRY({name}) AS {name}" if pt.is_floating(each.type) else name
            for each in rows.schema
            for name in [quoted(each.name)]
        ]
        return f"(SELECT {', '.join(values)} FROM {call})"

    def _lock(self) -> None:
        """Allow no other files from now on, and no settings."""
        if not self._is_locked:
            self._is_locked = True
            self._connection.execute(f"SET allowed_paths = [{', '.join(map(text, self._files))}]")
            self._connection.execute("SET enable_external_access = false")
            self._connection.execute("SET lock_configuration = true")

    # -- statements ----------------------------------------------------------------------------

    def execute(self, written: str) -> None:
        """Create a view or a temporary table of a query, or drop one. Other statements are refused."""
        with _errors():
            self._prepare(written)
            self._tables.add(check_command(self._parser, written, self._tables))
            self._connection.execute(written)

    def changed(self, written: str) -> dict[str, int]:
        """Run INSERT, UPDATE or DELETE, or a MERGE that returns what it does to each row.

        Returns:
            The numbers of rows, by what a MERGE did to them.
        """
        with _errors():
            self._prepare(written)
            check_change(self._parser, written, self._tables)
            found = self._connection.execute(written)
            counts: dict[str, int] = {}
            while rows := found.fetchmany(_BATCH_ROWS):
                for (value,) in rows:
                    action, count = (value.upper(), 1) if isinstance(value, str) else ("", int(value))
                    counts[action] = counts.get(action, 0) + count
            return counts

    def schema(self, written: str) -> pa.Schema:
        """The columns of a query, without running it."""
        with _errors():
            return _schema(self._relation(written))

    def result(
        self, written: str, schema: pa.Schema | None = None
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Run a query.

        Args:
            written: The query.
            schema: Its columns; as DuckDB's types have them if not given.

        Returns:
            The columns, and the rows, which are computed while they are read.
        """
        with _errors():
            found = self._relation(written)
            shown = _schema(found) if schema is None else schema
            places = [f"c{number}" for number in range(len(found.columns))]
            values = [outward(kind, place) for kind, place in zip(found.types, places, strict=True)]
            if values != places:
                listed = ", ".join(f"{value} AS {place}" for value, place in zip(values, places, strict=True))
                # The query itself is checked.
                self._make(listed)
                found = self._connection.sql(f"SELECT {listed} FROM ({written}) AS q({', '.join(places)})")
        return shown, self._batches(found, shown)

    def _batches(self, found: Any, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        with _errors():
            # A batch is made as a whole: of values of any size it may have only as many rows as a vector.
            count = _BATCH_ROWS if all(map(_has_fixed_size, schema.types)) else _VECTOR_ROWS
            for batch in _combined(found.to_arrow_reader(count)):
                yield fitted(batch, schema)

    def _relation(self, written: str) -> Any:
        self._prepare(written)
        # DuckDB would run any other statement at once.
        return self._connection.sql(check_query(self._parser, written, self._tables))

    def _prepare(self, written: str) -> None:
        self._lock()
        self._make(written)

    def _make(self, written: str) -> None:
        """Create the macros and functions that SQL uses."""
        for prefix, name in _ordered(written):
            if (prefix, name) in self._made:
                continue
            self._made.add((prefix, name))
            if name in UDFS:
                function, parameters, result = UDFS[name]
                special = name in TAKES_NULL or name in GIVES_NULL
                required = len(parameters) if name in GIVES_NULL else 1
                self._connection.create_function(
                    f"{prefix}_{name}",
                    _null_first(function, required) if special else function,
                    list(parameters),
                    result,
                    null_handling="special" if special else "default",
                    side_effects=False,
                )
            elif found := _overloads(prefix, name):
                self._connection.execute(f"CREATE MACRO {prefix}_{name}{', '.join(found)}")


def _has_fixed_size(kind: Any) -> bool:
    return not pt.is_nested(kind) and bool(getattr(kind, "bit_width", 0) if pt.is_primitive(kind) else False)


def _combined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Put small batches together."""
    waiting: list[pa.RecordBatch] = []
    size = rows = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        rows += batch.num_rows
        if size >= _MIN_BATCH_BYTES or rows >= _BATCH_ROWS:
            yield from _one(waiting)
            waiting, size, rows = [], 0, 0
    yield from _one(waiting)


def _one(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if len(batches) < 2:
        yield from batches
        return
    yield from pa.Table.from_batches(batches).combine_chunks().to_batches()


@contextmanager
def _errors() -> Iterator[None]:
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        raise DatabaseError(type(error).__name__, str(error)) from error
    except OSError as error:
        # Of the second batch and later ones, through Arrow: the name of the class is in the text.
        if (named := re.match(r"([A-Za-z ]+) Error: ", str(error))) is None:
            raise
        raise DatabaseError(f"{named[1].title().replace(' ', '')}Exception", str(error)) from error


def _schema(found: Any) -> pa.Schema:
    names = distinct_names(found.columns)
    return pa.schema([arrow_field(*each) for each in zip(names, found.types, strict=True)])


def _connect(limits: Limits) -> duckdb.DuckDBPyConnection:
    """An empty database. It can open files until ``Database`` locks it."""
    import duckdb

    connection = duckdb.connect(
        ":memory:",
        config={
            "threads": limits.threads,
            "memory_limit": f"{limits.memory_bytes // (1 << 20)}MiB",
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_community_extensions": False,
            "temp_directory": "",
            "preserve_insertion_order": True,
        },
    )
    # Tables of a lake have no estimated number of rows. So the right side of a join is the one in memory, as
    # the query is written, and not one that is chosen by chance.
    connection.execute("SET disabled_optimizers = 'build_side_probe_side'")
    # Otherwise the name of a Python variable would be a table.
    connection.execute("SET python_enable_replacements = false")
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET arrow_lossless_conversion = false")
    return connection


@functools.lru_cache(maxsize=2048)
def _overloads(prefix: str, name: str) -> tuple[str, ...]:
    """The overloads of a macro that calls others with its own prefix."""
    kind = prefix.rstrip("s")
    found = macros.overloads_of(name, big=kind != macros.PLAIN)
    functions = {macros.BIG: "bq_bignumeric_", macros.MIXED: "bq_mixed_"}.get(kind, "bq_numeric_")
    made = [each.replace("bq_numeric_", functions).replace("bq_", f"{prefix}_") for each in found]
    if prefix.endswith("s"):
        made = [re.sub(r"\berror\(", f"{prefix}_error(", each) for each in made]
    return tuple(made)


@functools.lru_cache(maxsize=2048)
def _uses_of(prefix: str, name: str) -> tuple[str, ...]:
    return tuple(sorted(set(re.findall(rf"\b{prefix}_(\w+)", " ".join(_overloads(prefix, name))))))


def _ordered(written: str) -> list[tuple[str, str]]:
    """The macros and functions that SQL uses, each after those that it uses itself, with their prefix."""
    found: dict[tuple[str, str], None] = {}

    def visit(prefix: str, name: str, path: tuple[str, ...]) -> None:
        if (prefix, name) in found or name in path:
            return
        for other in _uses_of(prefix, name):
            visit(prefix, other, (*path, name))
        found[prefix, name] = None

    for prefix, name in re.findall(r"\b(bq[bm]?s?)_(\w+)\(", written):
        visit(prefix, name, ())
    return list(found)


def _null_first(function: Any, required: int) -> Any:
    """A function that is NULL if one of its first arguments is."""

    # DuckDB takes the number of parameters from the signature.
    @functools.wraps(function)
    def call(*values: Any) -> Any:
        return None if None in values[:required] else function(*values)

    return call


def distinct_names(names: Sequence[str]) -> list[str]:
    """Names of columns, each once: the second ``x`` is ``x_1``."""
    seen: dict[str, int] = {}
    made = []
    for name in names:
        count = seen.get(name.lower(), 0)
        seen[name.lower()] = count + 1
        made.append(f"{name}_{count}" if count else name)
    return made


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows of DuckDB in the types of a schema."""
    for column in batch.columns:
        _check_times(column)
    arrays = [_fitted(column, each.type) for column, each in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _check_times(array: Any) -> None:
    """Refuse times that BigQuery does not have: no client could read them."""
    kind = array.type
    if pt.is_nested(kind) and not pt.is_map(kind):
        for part in array.flatten() if pt.is_struct(kind) else [array.flatten()]:
            _check_times(part)
    elif pt.is_date32(kind) or pt.is_timestamp(kind):
        import pyarrow.compute as pc

        first, last = _DAYS if pt.is_date32(kind) else _MICROS
        number = pa.int32() if pt.is_date32(kind) else pa.int64()
        ends: Any = pc.min_max(array.view(number)).as_py()
        if ends["min"] is not None and (ends["min"] < first or ends["max"] > last):
            name = "DATE" if pt.is_date32(kind) else "TIMESTAMP" if kind.tz else "DATETIME"
            raise QueryError(f"{name} value is out of range: it is before year 1 or after year 9999")


def _fitted(array: Any, kind: Any) -> Any:
    if array.type == kind:
        return array
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    if pt.is_list(kind):
        values = _fitted(array.values, kind.value_type)
        return pa.ListArray.from_arrays(
            array.offsets, values, type=kind, mask=array.is_null() if array.null_count else None
        )
    if pt.is_struct(kind):
        members = [_fitted(array.field(number), child.type) for number, child in enumerate(kind)]
        return pa.StructArray.from_arrays(
            members, fields=list(kind), mask=array.is_null() if array.null_count else None
        )
    return array.cast(kind)
