"""``lode sql``: DuckDB over the datasets of a store. Every dataset is a view under its name."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, Final

import typer

from lode.cli.output import Format, choose_format, print_rows
from lode.cli.parameters import AS_OF, FORMAT, JSON_LINES, LIMIT, ROOT, STORE_OPTION, open_root
from lode.cli.terminal import printable
from lode.errors import InvalidFormatError, InvalidOptionError, LodeError, NotFoundError, StoreError
from lode.extras import needs

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow as pa

    from lode.dataset import Dataset
    from lode.read.scan import Scan
    from lode.store.protocol import Store

_QUERY: Final[Any] = typer.Argument(..., metavar="QUERY", help="The query; - reads it from stdin.")
_DIALECT: Final[Any] = typer.Option(
    "duckdb", "--dialect", metavar="NAME", help="The dialect of the query: duckdb, or bigquery."
)
_ALSO: Final[Any] = typer.Option(
    [],
    "--dataset",
    "-d",
    metavar="NAME",
    help="A dataset that lode ls cannot list (a flat layout). May be repeated.",
)
# DuckDB quotes a name that contains a schema.
_MISSING: Final = re.compile(r'Table with name (?:"([^"]+)"|(.+?)) does not exist')
# Queries that list tables, for which all datasets are registered.
_LISTING: Final = re.compile(
    r"\b(show|information_schema|sqlite_master|duckdb_(tables|views|columns)|pg_(tables|views|class))\b",
    re.IGNORECASE,
)
# Statements that change data. They work only on tables that the query itself creates.
_WRITES: Final = frozenset({"ALTER", "CREATE", "DELETE", "DROP", "INSERT", "MERGE_INTO", "UPDATE"})
# An error of ours in a traceback.
_RAISED: Final = re.compile(r"lode\.errors\.(\w+): (.+)")
_OF_FILES: Final = (InvalidFormatError, NotFoundError, StoreError)
_COLUMNS: Final = re.compile(r"\b(show\s+all|columns|duckdb_\w+|pg_\w+|sqlite_master)\b", re.IGNORECASE)


def sql(
    query: str = _QUERY,
    root: str = ROOT,
    as_of: str | None = AS_OF,
    dataset: list[str] = _ALSO,
    dialect: str = _DIALECT,
    limit: int | None = LIMIT,
    form: Format | None = FORMAT,
    json: bool = JSON_LINES,
    store_option: list[str] = STORE_OPTION,
) -> None:
    """Query datasets in SQL, with DuckDB.

    Each dataset is a view under its name: all of its rows, or those up to --as-of. In double quotes,
    "events@3" has the rows that snapshot 3 added. SHOW TABLES lists the datasets. Queries only read.
    With --dialect bigquery a query is written as for BigQuery, `a.b.c` names the dataset a.b.c, and FOR
    SYSTEM_TIME AS OF reads it as it was.
    """
    with needs("lode sql", "sql"):
        import duckdb
    form = choose_format(form, json=json)
    text = sys.stdin.read() if query == "-" else query
    if dialect not in ("duckdb", "bigquery"):
        raise InvalidOptionError(f"--dialect is {dialect!r}: it must be duckdb or bigquery")
    if dialect == "bigquery":
        _run_bigquery(text, _Sources(open_root(root, store_option), as_of), form, limit)
        return
    with duckdb.connect(":memory:") as connection:
        # Otherwise the name of a Python variable would be a table.
        connection.execute("SET python_enable_replacements = false")
        views = _Views(connection, open_root(root, store_option), as_of)
        try:
            for name in dataset:
                views.add(name)
            if _LISTING.search(text):
                views.list_all(columns=_COLUMNS.search(text) is not None)
            answer: Any = None
            statements = connection.extract_statements(text)
            for statement in statements:
                answer = views.answer(statement)
            if statements and statements[-1].type.name == "CREATE":
                raise _only_reads("CREATE")  # the table ends with this process
            if answer is None:  # a statement without rows
                return
            reader = answer.to_arrow_reader(65_536)
            print_rows(reader, form, limit=limit, schema=reader.schema)
        except duckdb.Error as error:
            raise _as_lode_error(error) from error
        except OSError as error:  # of the reader, while rows are printed
            raised = _raised_inside(error)
            if raised is None:
                raise
            raise raised from error


def _run_bigquery(text: str, sources: _Sources, form: Format, limit: int | None) -> None:
    """Run a query in BigQuery's dialect, without access to anything but the datasets."""
    from sqlglot import exp

    from lode.lazy import pa
    from lode.sql import Engine, QueryError, parse

    try:
        statements = parse(text)
        if len(statements) != 1 or not isinstance(statements[0], exp.Query):
            raise InvalidOptionError("lode sql --dialect bigquery takes one query, and it only reads")
        with Engine(sources) as engine:
            result = engine.run(statements[0])
            reader = pa.RecordBatchReader.from_batches(result.schema, result.batches)
            print_rows(reader, form, limit=limit, schema=result.schema)
    except QueryError as error:
        if error.reason == "notFound":
            raise NotFoundError(str(error)) from error
        raise InvalidOptionError(str(error)) from error


class _Sources:
    """The rows of the datasets of a store, by name."""

    def __init__(self, store: Store, as_of: str | None) -> None:
        self._store = store
        self._as_of = as_of

    def table(self, parts: tuple[str, ...], as_of: datetime | None) -> Any:
        """Return the rows of a dataset for a query in BigQuery's dialect: ``Resolver`` of ``lode.sql``."""
        from lode.sql import Source

        rows = self.rows(".".join(parts), as_of)
        return Source(rows, rows.schema)

    def rows(self, name: str, moment: datetime | None = None) -> Any:
        """Return the rows of a dataset, or those that one snapshot added: ``name@snapshot``."""
        snapshot: str | None = None
        try:
            dataset = self._open(name)
        except NotFoundError:
            owner, _, snapshot = name.rpartition("@")
            if not owner:
                raise
            dataset = self._open(owner)
        if dataset.components.codec is None:
            raise InvalidOptionError(f"dataset {dataset.id!r} holds blobs: it has no rows to query")
        as_of = self._as_of if moment is None else moment
        plan = dataset.plan(as_of=as_of) if snapshot is None else dataset.plan_snapshot(snapshot)
        source = _source(plan)
        if not len(source.schema):
            raise InvalidOptionError(f"dataset {dataset.id!r} has no columns yet: write its first rows")
        return source

    def _open(self, name: str) -> Dataset:
        from lode.discover import dataset_names, open_dataset

        try:
            return open_dataset(name, self._store)
        except NotFoundError:
            # Names are case-insensitive in DuckDB and case-sensitive in a store.
            same = [each for each in dataset_names(self._store) if each.lower() == name.lower()]
            if len(same) != 1:
                raise
            return open_dataset(same[0], self._store)


class _Views:
    """The datasets of a store as views of a connection, each opened when a query first names it."""

    def __init__(self, connection: Any, store: Store, as_of: str | None) -> None:
        self._connection = connection
        self._store = store
        self._sources = _Sources(store, as_of)
        self._added: set[str] = set()

    def answer(self, statement: Any) -> Any:
        """Run a statement; refuse one that would change a dataset."""
        import duckdb

        kind = statement.type.name
        try:
            return self._run(statement)
        except (duckdb.CatalogException, duckdb.BinderException, NotFoundError) as error:
            if kind not in _WRITES:
                raise
            # DuckDB would only report that a dataset is a view, or that there is no such table.
            raise _only_reads(kind) from error

    def _run(self, statement: Any) -> Any:
        """Run a statement. If it names a dataset that is not registered, register it and run it again."""
        import duckdb

        tried: set[str] = set()
        while True:
            try:
                # Safe to repeat: a statement with a missing table fails before it has an effect.
                return self._connection.sql(statement)
            except duckdb.CatalogException as error:
                match = _MISSING.search(str(error))
                name = match and (match[1] or match[2])
                if not name:
                    raise
                if name in tried:
                    raise _quoted(name) from error
                tried.add(name)
                self.add(name)

    def add(self, name: str) -> None:
        """Register a dataset, or one snapshot of it: ``name@snapshot``."""
        self._register(name, self._sources.rows(name))

    def list_all(self, *, columns: bool) -> None:
        """Register an empty view of every dataset, for a query that lists tables.

        Args:
            columns: Whether the query also lists columns. Without a schema they are read from the files.
        """
        from lode.discover import dataset_names, open_dataset

        for name in dataset_names(self._store):
            try:
                dataset = open_dataset(name, self._store)
                table = None if name in self._added else _without_rows(dataset, columns=columns)
                if table is not None:
                    self._register(name, table)
            except LodeError as error:  # a damaged dataset does not hide the others
                print(f"lode: {printable(str(error))}", file=sys.stderr)

    def _register(self, name: str, source: Any) -> None:
        self._connection.register(name, source)
        self._added.add(name)


def _without_rows(dataset: Dataset, *, columns: bool) -> pa.Table | None:
    """An empty table with the columns of a dataset; None for blobs, and if there is no column to list."""
    import pyarrow as pa

    definition = dataset.definition
    if definition.codec is None:
        return None
    schema = definition.schema
    if schema is None and columns:
        schema = dataset.plan().schema()
    if not schema:  # DuckDB has no table without columns
        schema = None if columns else pa.schema([("record", pa.string())])
    return None if schema is None else schema.empty_table()


def _only_reads(kind: str) -> Exception:
    return InvalidOptionError(
        f"{kind} changes data, and lode sql only reads: use lode write, overwrite, delete or merge"
    )


def _quoted(name: str) -> Exception:
    return InvalidOptionError(f'dataset {name!r} has a dot in its name: write it in double quotes, "{name}"')


def _source(scan: Scan) -> Any:
    """A source that DuckDB reads: Parquet in place, as far as needed; everything else from memory."""
    return scan.dataset() if scan.is_plain_parquet else scan.read().read_all()


def _raised_inside(error: Exception) -> LodeError | None:
    """The error of ours that ended a query: DuckDB and Arrow pass on its text."""
    found = _RAISED.findall(str(error))
    if not found:
        return None
    name, text = found[-1]
    return next((kind for kind in _OF_FILES if kind.__name__ == name), LodeError)(text)


def _as_lode_error(error: Exception) -> Exception:
    import duckdb

    if (raised := _raised_inside(error)) is not None:
        return raised
    sentence = " ".join(str(error).split("\n\n")[0].split())
    if isinstance(error, duckdb.CatalogException):
        return NotFoundError(sentence)
    if isinstance(error, duckdb.ProgrammingError):
        return InvalidOptionError(sentence)
    return LodeError(sentence)
