"""One query on DuckDB: an empty database of its own, without files and network, with limits."""

from __future__ import annotations

import functools
import re
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from lode.lazy import pa, pt
from lode.sql import macros
from lode.sql.dialect import Generator, LakeSql, position
from lode.sql.dml import TARGET
from lode.sql.errors import LimitError, QueryError
from lode.sql.rewrite import (
    MAX_DEPTH,
    expand_arrays,
    inlined,
    name_columns,
    replace_table,
    sources,
    unnest_sql,
)
from lode.sql.types import arrow_field, inner_type, inward, outward, quoted
from lode.sql.udfs import GIVES_NULL, TAKES_NULL, UDFS

if TYPE_CHECKING:
    import datetime
    from collections.abc import Callable, Iterator, Sequence

    import duckdb

    from lode.sql.dml import Changes

MAX_QUERY_CHARS: Final = 1 << 20
_BATCH_ROWS: Final = 65_536
_MAX_VIEWS: Final = 200
_WATCH_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class Limits:
    """What a query may use."""

    memory_bytes: int = 1 << 30
    seconds: float = 600.0
    threads: int = 1
    result_bytes: int = 10 << 30


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
    """

    rows: Any
    schema: pa.Schema
    bytes: int = 0
    pseudo: dict[str, str] = field(default_factory=dict)
    query: str = ""


@dataclass(slots=True)
class Result:
    """The rows of a query, which are computed while they are read."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    bytes_processed: int = 0


def parse(query: str) -> list[exp.Expression]:
    """The statements of a query."""
    if len(query) > MAX_QUERY_CHARS:
        raise QueryError(
            f"The query is too large: {len(query):,} characters, the most is {MAX_QUERY_CHARS:,}."
        )
    try:
        made: list[Any] = [each for each in LakeSql().parse(query) if each is not None]
    except TokenError as error:
        raise QueryError(_token_message(query, error)) from None
    except ParseError as error:
        raise QueryError(_parse_message(query, error)) from None
    except RecursionError:
        raise QueryError("The query is nested too deep: write it with fewer levels.") from None
    for each in made:
        _check_depth(each)
    return made


def _check_depth(tree: exp.Expression) -> None:
    level = [tree]
    for _ in range(MAX_DEPTH * 3):
        level = [child for node in level for child in node.iter_expressions()]
        if not level:
            return
    raise QueryError("The query is nested too deep: write it with fewer levels.")


def _token_message(query: str, error: Exception) -> str:
    at = re.search(r"(\d+):(\d+)", str(error))
    where = f"[{at[1]}:{at[2]}]" if at else "[1:1]"
    if (
        re.search(r"Missing\s+['\"`]|string|quot", str(error.__cause__ or error))
        or query.count("'") % 2
        or query.count('"') % 2
    ):
        return f"Syntax error: Unclosed string literal at {where}"
    return f"Syntax error: Illegal input at {where}"


def _parse_message(query: str, error: ParseError) -> str:
    found = error.errors[0] if error.errors else {}
    line, column = found.get("line") or 1, found.get("col") or 1
    token = str(found.get("highlight") or "")
    column = max(1, column - len(token) + 1)
    where = f" at [{line}:{column}]"
    first = re.match(r"\s*(?:--[^\n]*\n\s*)*([A-Za-z_]\w*)", query)
    if first is not None and first[1].upper() not in _STATEMENTS:
        line = 1 + query[: first.start(1)].count("\n")
        return f'Syntax error: Unexpected identifier "{first[1]}" at [{line}:1]'
    before = str(found.get("start_context") or "").split()
    if "Expecting )" in str(error):
        keyword = token.upper() if token.upper() in _KEYWORDS else before[-1].upper() if before else ""
        if keyword in _KEYWORDS:
            return f'Syntax error: Expected "," but got keyword {keyword}{where}'
        return f'Syntax error: Expected ")" but got {_described(token)}{where}'
    if not token:
        return f"Syntax error: Unexpected end of script{where}"
    return f"Syntax error: Unexpected {_described(token)}{where}"


_STATEMENTS: Final = frozenset(
    [
        "SELECT",
        "WITH",
        "FROM",
        "INSERT",
        "UPDATE",
        "DELETE",
        "MERGE",
        "CREATE",
        "DROP",
        "ALTER",
        "TRUNCATE",
        "DECLARE",
        "SET",
        "BEGIN",
        "IF",
        "WHILE",
        "LOOP",
        "FOR",
        "REPEAT",
        "CASE",
        "CALL",
        "EXECUTE",
        "EXPORT",
        "LOAD",
        "ASSERT",
        "RAISE",
        "RETURN",
        "BREAK",
        "LEAVE",
        "CONTINUE",
        "ITERATE",
        "COMMIT",
        "ROLLBACK",
        "GRANT",
        "REVOKE",
        "EXPLAIN",
    ]
)
_KEYWORDS: Final = frozenset(
    [
        "SELECT",
        "FROM",
        "WHERE",
        "GROUP",
        "ORDER",
        "BY",
        "HAVING",
        "LIMIT",
        "AS",
        "ON",
        "JOIN",
        "AND",
        "OR",
        "NOT",
        "IN",
        "UNION",
        "ALL",
        "WITH",
        "END",
    ]
)


def _described(token: str) -> str:
    if token.upper() in _KEYWORDS:
        return f"keyword {token.upper()}"
    if re.fullmatch(r"[A-Za-z_]\w*", token):
        return f'identifier "{token}"'
    if token.isdigit():
        return f'integer literal "{token}"'
    return f'"{token}"'


class Engine:
    """Runs statements of one query, with the tables that a resolver finds."""

    def __init__(
        self, resolver: Resolver, limits: Limits | None = None, cancelled: Callable[[], bool] = lambda: False
    ) -> None:
        self._resolver = resolver
        self.limits = limits or Limits()
        self._connection: Any = None
        self._made: set[tuple[str, str]] = {("bq", "error")}
        self._tables = 0
        self.bytes_processed = 0
        # Tables and functions that the query itself has created, by their names in lower case.
        self.local: dict[str, tuple[str, pa.Schema]] = {}
        self.functions: dict[str, exp.Create] = {}
        # Finds the statement that created a function of a dataset by the parts of its name.
        self.stored: Callable[[tuple[str, ...]], exp.Create | None] = lambda _parts: None
        self._cancelled = cancelled
        self._ended = threading.Event()
        self._late = False

    def __enter__(self) -> Engine:
        self._connection = connect(self.limits)
        threading.Thread(target=self._watch, name="lode-query-watch", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._connection.close()

    def _watch(self) -> None:
        """Interrupt the query when its time is over, or when it was cancelled."""
        end = time.monotonic() + self.limits.seconds
        while not self._ended.wait(_WATCH_SECONDS):
            self._late = time.monotonic() > end
            if self._late or self._cancelled():
                with suppress(Exception):  # it may have ended meanwhile
                    self._connection.interrupt()

    def write(self, tree: exp.Expression) -> str:
        """A query as SQL of DuckDB. Its tables are registered."""
        tree = tree.copy()
        name_columns(tree)
        schemas: dict[str, pa.Schema] = {}
        arrays = {id(table) for table in tree.find_all(exp.Table) if _is_array(table)}
        for table in sources(tree):
            if id(table) not in arrays:
                self._bind(table, schemas)
        expand_arrays(tree, lambda value: _is_struct_array(value, schemas, tree))
        try:
            return _Writer().generate(inlined(tree, self.functions, self.stored), copy=False)
        except RecursionError:
            raise QueryError("The query is nested too deep: write it with fewer levels.") from None

    def run(self, tree: exp.Expression) -> Result:
        """Run a query."""
        written = self.write(tree)
        relation = self._relation(written, tree)
        columns = list(zip(distinct_names(relation.columns), relation.types, strict=True))
        schema = pa.schema([arrow_field(name, kind) for name, kind in columns])
        places = [f"c{number}" for number in range(len(columns))]
        converted = ", ".join(
            f"{outward(kind, place)} AS {place}" for place, (_, kind) in zip(places, columns, strict=True)
        )
        self._make(converted)
        with self._errors(tree):
            made = self._connection.sql(f"SELECT {converted} FROM ({written}) AS q({', '.join(places)})")
        return Result(schema, self._batches(made, schema, tree), self.bytes_processed)

    def schema(self, tree: exp.Expression) -> pa.Schema:
        """The columns of a query, without running it."""
        relation = self._relation(self.write(tree), tree)
        names = distinct_names(relation.columns)
        return pa.schema([arrow_field(*each) for each in zip(names, relation.types, strict=True)])

    def value(self, tree: exp.Expression) -> tuple[Any, Any]:
        """The type and the value of an expression, as DuckDB's text of it."""
        relation = self._relation(self.write(exp.select(tree)), tree)
        with self._errors(tree):
            rows = relation.limit(1).fetchall()
        return relation.types[0], rows[0][0] if rows else None

    def _relation(self, written: str, tree: exp.Expression) -> Any:
        self._make(written)
        with self._errors(tree):
            return self._connection.sql(written)

    def _batches(
        self, relation: Any, schema: pa.Schema, tree: exp.Expression | None, *, returned: bool = True
    ) -> Iterator[pa.RecordBatch]:
        with self._errors(tree):
            size = 0
            for batch in relation.to_arrow_reader(_BATCH_ROWS):
                size += batch.nbytes
                if returned and size > self.limits.result_bytes:
                    raise LimitError(
                        f"Response too large to return: more than {self.limits.result_bytes:,} bytes; "
                        "add a LIMIT or select fewer columns",
                        reason="responseTooLarge",
                    )
                yield fitted(batch, schema)

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
            elif (found := macros.INTERNAL.get(name) or macros.MACROS.get(name)) is not None:
                made = ", ".join(found)
                if prefix == "bqs":
                    made = re.sub(r"\berror\(", "bqs_error(", made.replace("bq_", "bqs_"))
                self._connection.execute(f"CREATE MACRO {prefix}_{name}{made}")

    def _bind(self, table: exp.Table, schemas: dict[str, pa.Schema]) -> None:
        """Replace a table of the query by a view of its rows."""
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
            name, schema = self.view(source, hidden=_uses(table, source.pseudo)), source.schema
        alias = table.args.get("alias")
        shown = alias.name if alias is not None and alias.name else table.name
        schemas[shown.lower()] = schema
        replace_table(table, name, shown)

    def view(self, source: Source, *, hidden: bool = False, rows: bool = True) -> str:
        """Register the rows of a table; returns the name of its view."""
        name = f"table${self._tables}"
        self._tables += 1
        if source.query:
            if self._tables > _MAX_VIEWS:
                raise QueryError("The query has too many nested views.")
            self._execute(f'CREATE TEMP VIEW "{name}" AS {self.write(parse(source.query)[0])}')
            return name
        self.bytes_processed += source.bytes
        self._connection.register(f"rows${name}", source.rows)
        chosen = self._columns(source, hidden=hidden)
        self._execute(f'CREATE TEMP VIEW "{name}" AS SELECT {chosen} FROM "rows${name}"')
        return name

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

    def _execute(self, written: str, tree: exp.Expression | None = None) -> Any:
        self._make(written)
        with self._errors(tree):
            return self._connection.execute(written)

    # -- changes -------------------------------------------------------------------------------

    def keep(self, name: str, tree: exp.Expression) -> pa.Schema:
        """Create a temporary table with the rows of a query, under a name of the query."""
        written = self.write(tree)
        relation = self._relation(written, tree)
        schema = pa.schema(
            [arrow_field(*each) for each in zip(relation.columns, relation.types, strict=True)]
        )
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
        replace_table(table, name, alias.name if alias is not None and alias.name else table.name)
        schemas: dict[str, pa.Schema] = {}
        for each in sources(tree):
            if each is not table and not _is_array(each):
                self._bind(each, schemas)
        expand_arrays(tree, lambda value: _is_struct_array(value, schemas, tree))
        generator = _Writer()
        written = generator.generate(inlined(tree, self.functions, self.stored), copy=False)
        if isinstance(tree, exp.Merge):
            found = self._execute(f"{written} RETURNING merge_action", tree).fetchall()
            counts: dict[str, int] = {}
            for (action,) in found:
                counts[str(action).upper()] = counts.get(str(action).upper(), 0) + 1
            return counts
        row = self._execute(written, tree).fetchone()
        return {type(tree).__name__.upper(): int(row[0]) if row else 0}

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
        relation = self._relation(written, tree)
        if len(relation.columns) != len(columns):
            raise QueryError(
                f"Inserted row has wrong column count; Has {len(relation.columns)}, expected {len(columns)}"
                f"{position(tree)}"
            )
        names = [f"c{number}" for number in range(len(columns))]
        casts = ", ".join(
            f"CAST({name} AS {inner_type(each)}) AS {name}" for name, each in zip(names, columns, strict=True)
        )
        with self._errors(tree):
            made = self._connection.sql(f"SELECT {casts} FROM ({written}) AS q({', '.join(names)})")
            kinds = made.types
            outer = ", ".join(
                f"{outward(kind, name)} AS {name}" for name, kind in zip(names, kinds, strict=True)
            )
            self._make(outer)
            made = self._connection.sql(
                f"SELECT {outer} FROM (SELECT {casts} FROM ({written}) AS q({', '.join(names)}))"
            )
        return self._batches(made, pa.schema(list(columns)), tree, returned=False)

    def _moment(self, version: exp.Version) -> Any:
        import datetime

        _, value = self.value(exp.cast(version.expression.copy(), "TIMESTAMP", dialect="bigquery"))
        if not isinstance(value, datetime.datetime):
            raise QueryError("FOR SYSTEM_TIME AS OF needs a TIMESTAMP that is not NULL")
        return value if value.tzinfo else value.replace(tzinfo=datetime.UTC)

    @contextmanager
    def _errors(self, tree: exp.Expression | None) -> Iterator[None]:
        import duckdb

        try:
            yield
        except duckdb.InterruptException:
            if self._late:
                raise LimitError(
                    f"Query exceeded the time limit of {self.limits.seconds:g} seconds", reason="timeout"
                ) from None
            raise QueryError(
                "Job execution was cancelled: User requested cancellation", reason="stopped"
            ) from None
        except duckdb.OutOfMemoryException:
            raise LimitError(
                "Resources exceeded during query execution: the query could not be executed in the allotted "
                f"memory of {self.limits.memory_bytes:,} bytes"
            ) from None
        except duckdb.Error as error:
            raise as_query_error(error, tree) from error


class _Writer(Generator):
    """Writes arrays in FROM, too."""

    def subquery_sql(self, expression: exp.Subquery, sep: str = " AS ") -> str:
        if "unnest" in expression.meta:
            made = unnest_sql(expression, self.sql(expression.args["array$"]))
            joins = "".join(self.sql(each) for each in expression.args.get("joins") or ())
            return made + joins
        return str(super().subquery_sql(expression, sep))


def _missing(field: pa.Field[Any]) -> str:
    return "[]" if pt.is_list(field.type) else "NULL"


def connect(limits: Limits) -> duckdb.DuckDBPyConnection:
    """An empty database that cannot leave this process."""
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
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


@functools.lru_cache(maxsize=1024)
def _uses_of(name: str) -> tuple[str, ...]:
    overloads = " ".join(macros.INTERNAL.get(name) or macros.MACROS.get(name) or ())
    more = ["error"] if re.search(r"\berror\(", overloads) else []
    return tuple(sorted({*re.findall(r"\bbq_(\w+)", overloads), *more}))


def _ordered(written: str) -> list[tuple[str, str]]:
    """The macros and functions that SQL uses, each after those that it uses itself, with their prefix."""
    found: dict[tuple[str, str], None] = {}

    def visit(prefix: str, name: str, path: tuple[str, ...]) -> None:
        if (prefix, name) in found or name in path:
            return
        for other in _uses_of(name):
            visit(prefix, other, (*path, name))
        found[prefix, name] = None

    for prefix, name in re.findall(r"\b(bqs?)_(\w+)", written):
        visit(prefix, name, ())
    return list(found)


def _null_first(function: Any, required: int) -> Any:
    """A function that is NULL if one of its first arguments is."""

    # DuckDB takes the number of parameters from the signature.
    @functools.wraps(function)
    def call(*values: Any) -> Any:
        return None if None in values[:required] else function(*values)

    return call


def _uses(table: exp.Table, pseudo: dict[str, str]) -> bool:
    root = table.root()
    names = {name.lower() for name in pseudo}
    return any(column.name.lower() in names for column in root.find_all(exp.Column))


def _is_array(table: exp.Table) -> bool:
    from lode.sql.rewrite import _aliases_before

    return (
        bool(table.args.get("db"))
        and isinstance(table.this, exp.Identifier)
        and table.parts[0].name.lower() in _aliases_before(table)
    )


def _is_struct_array(value: exp.Expression, schemas: dict[str, pa.Schema], tree: exp.Expression) -> bool:
    """Whether the elements of an array are structs, as far as the tree and the tables show."""
    unwrapped: Any = value.unnest() if isinstance(value, exp.Paren) else value
    value = unwrapped
    if isinstance(value, exp.Array):
        first = value.expressions[0] if value.expressions else None
        if isinstance(first, exp.Select):
            return first.args.get("kind") == "STRUCT"
        return isinstance(first, exp.Struct | exp.Tuple) or (
            isinstance(first, exp.Cast) and first.to.this == exp.DType.STRUCT
        )
    if isinstance(value, exp.Cast):
        kind = value.to
        return (
            kind.this == exp.DType.ARRAY
            and bool(kind.expressions)
            and kind.expressions[0].this == exp.DType.STRUCT
        )
    if isinstance(value, exp.ArrayAgg):
        inner = value.this
        while isinstance(inner, exp.IgnoreNulls | exp.RespectNulls | exp.Order | exp.Limit | exp.Distinct):
            inner = inner.this if not isinstance(inner, exp.Distinct) else inner.expressions[0]
        return isinstance(inner, exp.Struct)
    if isinstance(value, exp.Anonymous) and value.expressions:
        if value.name.upper() in ("ARRAY_CONCAT", "ARRAY_REVERSE", "ARRAY_SLICE"):
            return _is_struct_array(value.expressions[0], schemas, tree)
        return False
    if isinstance(value, exp.Column | exp.Dot):
        path = [part.name.lower() for part in value.parts]
        for schema in [schemas[path[0]]] if path[0] in schemas else list(schemas.values()):
            kind = _kind_at(schema, path[1:] if path[0] in schemas else path)
            if kind is not None and pt.is_list(kind):
                return bool(pt.is_struct(kind.value_type))
        for alias in tree.find_all(exp.Alias):
            if alias.alias.lower() == path[-1] and not isinstance(alias.this, exp.Column):
                return _is_struct_array(alias.this, schemas, tree)
    return False


def _kind_at(schema: Any, path: Sequence[str]) -> Any:
    kind: Any = None
    fields: Any = schema
    for name in path:
        found = next((each for each in fields if each.name.lower() == name), None)
        if found is None:
            return None
        kind = found.type
        fields = kind if pt.is_struct(kind) else ()
    return kind


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
    arrays = [_fitted(column, each.type) for column, each in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


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


# -- errors -------------------------------------------------------------------------------------------------

_COLUMN: Final = re.compile(
    r'(?:Referenced column|column named|Referenced table) "?([^"]+?)"? (?:not found|was not found|does not)',
    re.IGNORECASE,
)
_VALUES: Final = re.compile(
    r"Values list \"(\w+)\" does not have a column named \"(\w+)\""
    r"|Table \"(\w+)\" does not have a column named \"(\w+)\""
)


def as_query_error(error: Exception, tree: exp.Expression | None) -> QueryError:
    """An error of DuckDB in the words of BigQuery, as far as there are any."""
    import duckdb

    whole = str(error)
    sentence = whole.split("\n\n")[0]
    if (ours := re.findall(r"(?:ValueError|error): (.+)", whole)) and "Python exception" in whole:
        return QueryError(ours[-1].strip())
    if isinstance(error, duckdb.BinderException):
        if (match := _VALUES.search(whole)) is not None:
            name = match[2] or match[4]
            return QueryError(f"Name {name} not found inside {match[1] or match[3]}{_place(tree, name)}")
        if (match := re.search(r'Column "([^"]+)" referenced that exists in the SELECT', whole)) is not None:
            return QueryError(f"Unrecognized name: {match[1]}{_place(tree, match[1])}")
        if (match := _COLUMN.search(whole)) is not None:
            return QueryError(f"Unrecognized name: {match[1]}{_place(tree, match[1])}")
    if isinstance(error, duckdb.OutOfRangeException) and ("INT64" in whole or "Overflow in" in whole):
        return QueryError("Integer Overflow" if "INT64" not in whole else "int64 overflow: Integer Overflow")
    sentence = re.sub(r"^[A-Z][A-Za-z ]+ Error: ", "", sentence)
    if (match := re.match(r"Unknown TimeZone '(.+)'", sentence)) is not None:
        return QueryError(f"Invalid time zone: {match[1]}")
    return QueryError(" ".join(sentence.split()) if "\n  " not in sentence else sentence)


def _place(tree: exp.Expression | None, name: str) -> str:
    if tree is not None:
        for column in tree.find_all(exp.Column, exp.Identifier):
            if column.name.lower() == name.lower():
                return position(column)
    return " at [1:1]"
