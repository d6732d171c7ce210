"""One query on DuckDB: an empty database of its own, without files and network, with limits."""

from __future__ import annotations

import functools
import re
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from lode.lazy import pa, pt
from lode.sql import macros
from lode.sql.dialect import Generator, LakeSql, position
from lode.sql.errors import LimitError, QueryError, UnsupportedError
from lode.sql.rewrite import MAX_DEPTH, expand_arrays, name_columns, sources, unnest_sql
from lode.sql.types import arrow_field, inward, needs_text, outward, quoted, text
from lode.sql.udfs import GIVES_NULL, TAKES_NULL, UDFS

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterator, Sequence

    import duckdb

MAX_QUERY_CHARS: Final = 1 << 20
_BATCH_ROWS: Final = 65_536


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
    """

    rows: Any
    schema: pa.Schema
    bytes: int = 0
    pseudo: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Result:
    """The rows of a query, which are computed while they are read."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    bytes_processed: int = 0


def parse(query: str) -> list[exp.Expression]:
    """The statements of a query."""
    if len(query) > MAX_QUERY_CHARS:
        raise QueryError(f"The query is too large: {len(query):,} characters, the most is {MAX_QUERY_CHARS:,}.")
    try:
        made = [each for each in LakeSql().parse(query) if each is not None]
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
    if "quot" in str(error) or "Missing" in str(error):
        at = re.search(r"from (\d+):(\d+)", str(error))
        where = f"[{at[1]}:{at[2]}]" if at else "[1:1]"
        return f"Syntax error: Unclosed string literal at {where}"
    return "Syntax error: Illegal input at [1:1]"


def _parse_message(query: str, error: ParseError) -> str:
    found = error.errors[0] if error.errors else {}
    line, column = found.get("line") or 1, found.get("col") or 1
    token = str(found.get("highlight") or "")
    column = max(1, column - len(token) + 1)
    where = f" at [{line}:{column}]"
    if "Expecting )" in str(error):
        if token.upper() == "AS" or token.upper() in _KEYWORDS:
            return f'Syntax error: Expected "," but got keyword {token.upper()}{where}'
        return f'Syntax error: Expected ")" but got {_described(token)}{where}'
    if not token:
        return f"Syntax error: Unexpected end of script{where}"
    return f"Syntax error: Unexpected {_described(token)}{where}"


_KEYWORDS: Final = frozenset("SELECT FROM WHERE GROUP ORDER BY HAVING LIMIT AS ON JOIN AND OR NOT IN UNION ALL WITH END".split())


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

    def __init__(self, resolver: Resolver, limits: Limits | None = None) -> None:
        self._resolver = resolver
        self.limits = limits or Limits()
        self._connection: Any = None
        self._made: set[tuple[str, str]] = {("bq", "error")}
        self._tables = 0
        self.bytes_processed = 0
        self.functions: dict[str, tuple[list[str], str]] = {}
        self._timer: threading.Timer | None = None
        self._late = False

    def __enter__(self) -> Engine:
        self._connection = connect(self.limits)
        if self.limits.seconds:
            self._timer = threading.Timer(self.limits.seconds, self._interrupt)
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._connection.close()

    def _interrupt(self) -> None:
        self._late = True
        self._connection.interrupt()

    def cancel(self) -> None:
        """End the query from another thread."""
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
        generator = _Writer(self.functions)
        try:
            return generator.generate(tree)
        except RecursionError:
            raise QueryError("The query is nested too deep: write it with fewer levels.") from None

    def run(self, tree: exp.Expression) -> Result:
        """Run a query."""
        written = self.write(tree)
        relation = self._relation(written, tree)
        columns = list(zip(relation.columns, relation.types, strict=True))
        _check_names([name for name, _ in columns])
        schema = pa.schema([arrow_field(name, kind) for name, kind in columns])
        converted = ", ".join(f"{outward(kind, quoted(name))} AS {quoted(name)}" for name, kind in columns)
        self._make(converted)
        with self._errors(tree):
            made = self._connection.sql(f"SELECT {converted} FROM ({written})")
        return Result(schema, self._batches(made, schema, tree), self.bytes_processed)

    def schema(self, tree: exp.Expression) -> pa.Schema:
        """The columns of a query, without running it."""
        relation = self._relation(self.write(tree), tree)
        _check_names(relation.columns)
        return pa.schema([arrow_field(*each) for each in zip(relation.columns, relation.types, strict=True)])

    def value(self, tree: exp.Expression) -> tuple[Any, Any]:
        """The type and the value of an expression, as DuckDB's text of it."""
        relation = self._relation(self.write(exp.select(tree)), tree)
        with self._errors(tree):
            row = relation.fetchone()
        return relation.types[0], None if row is None else row[0]

    def execute(self, statement: str) -> None:
        """Run a statement of DuckDB, such as the creation of a temporary table."""
        self._make(statement)
        with self._errors(None):
            self._connection.execute(statement)

    def _relation(self, written: str, tree: exp.Expression) -> Any:
        self._make(written)
        with self._errors(tree):
            return self._connection.sql(written)

    def _batches(self, relation: Any, schema: pa.Schema, tree: exp.Expression) -> Iterator[pa.RecordBatch]:
        with self._errors(tree):
            size = 0
            for batch in relation.to_arrow_reader(_BATCH_ROWS):
                size += batch.nbytes
                if size > self.limits.result_bytes:
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
        parts = tuple(part.name for part in table.parts)
        source = self._resolver.table(parts, moment)
        name = f"table${self._tables}"
        self._tables += 1
        self.bytes_processed += source.bytes
        self._connection.register(f"rows${name}", source.rows)
        columns = [f"{inward(each, quoted(each.name))} AS {quoted(each.name)}" for each in source.schema if each.name not in source.pseudo]
        hidden = [f"{made} AS {quoted(pseudo)}" for pseudo, made in source.pseudo.items()] if _uses(table, source.pseudo) else []
        chosen = ", ".join(columns + hidden)
        self._make(chosen)
        self._connection.execute(f'CREATE TEMP VIEW "{name}" AS SELECT {chosen} FROM "rows${name}"')
        alias = table.args.get("alias")
        shown = alias.name if alias is not None and alias.name else table.name
        schemas[shown.lower()] = source.schema
        table.set("catalog", None)
        table.set("db", None)
        table.set("this", exp.to_identifier(name, quoted=True))
        table.set("alias", exp.TableAlias(this=exp.to_identifier(shown, quoted=True)))

    def _moment(self, version: exp.Version) -> Any:
        import datetime

        kind, value = self.value(exp.cast(version.expression.copy(), "TIMESTAMP", dialect="bigquery"))
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
            raise QueryError("Job execution was cancelled: User requested cancellation", reason="stopped") from None
        except duckdb.OutOfMemoryException:
            raise LimitError(
                "Resources exceeded during query execution: the query could not be executed in the allotted "
                f"memory of {self.limits.memory_bytes:,} bytes"
            ) from None
        except duckdb.Error as error:
            raise as_query_error(error, tree) from error


class _Writer(Generator):
    """Writes arrays in FROM, too."""

    def __init__(self, functions: dict[str, tuple[list[str], str]]) -> None:
        super().__init__()
        self.macros = set(functions)

    def subquery_sql(self, expression: exp.Subquery, sep: str = " AS ") -> str:
        if "unnest" in expression.meta:
            made = unnest_sql(expression, self.sql(expression.args["array$"]))
            joins = "".join(self.sql(each) for each in expression.args.get("joins") or ())
            return made + joins
        return str(super().subquery_sql(expression, sep))


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

    return bool(table.args.get("db")) and isinstance(table.this, exp.Identifier) and table.parts[0].name.lower() in _aliases_before(table)


def _is_struct_array(value: exp.Expression, schemas: dict[str, pa.Schema], tree: exp.Expression) -> bool:
    """Whether the elements of an array are structs, as far as the tree and the tables show."""
    value = value.unnest() if isinstance(value, exp.Paren) else value
    if isinstance(value, exp.Array):
        first = value.expressions[0] if value.expressions else None
        if isinstance(first, exp.Select):
            return first.args.get("kind") == "STRUCT"
        return isinstance(first, exp.Struct | exp.Tuple) or (isinstance(first, exp.Cast) and first.to.this == exp.DType.STRUCT)
    if isinstance(value, exp.Cast):
        kind = value.to
        return kind.this == exp.DType.ARRAY and bool(kind.expressions) and kind.expressions[0].this == exp.DType.STRUCT
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


def _check_names(names: Sequence[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise QueryError(f"Duplicate column names in the result are not supported when a destination table is present. Found duplicate(s): {name}")
        seen.add(name.lower())


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
        return pa.ListArray.from_arrays(array.offsets, values, type=kind, mask=array.is_null() if array.null_count else None)
    if pt.is_struct(kind):
        members = [_fitted(array.field(number), child.type) for number, child in enumerate(kind)]
        return pa.StructArray.from_arrays(members, fields=list(kind), mask=array.is_null() if array.null_count else None)
    return array.cast(kind)


# -- errors -------------------------------------------------------------------------------------------------

_COLUMN: Final = re.compile(r'(?:Referenced column|column named|Referenced table) "?([^"]+?)"? (?:not found|was not found|does not)', re.IGNORECASE)
_VALUES: Final = re.compile(r"Values list \"(\w+)\" does not have a column named \"(\w+)\"|Table \"(\w+)\" does not have a column named \"(\w+)\"")


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
        if (match := _COLUMN.search(whole)) is not None:
            return QueryError(f"Unrecognized name: {match[1]}{_place(tree, match[1])}")
    if isinstance(error, duckdb.OutOfRangeException):
        if "INT64" in whole or "Overflow in" in whole:
            return QueryError("Integer Overflow" if "INT64" not in whole else "int64 overflow: Integer Overflow")
    sentence = re.sub(r"^(?:[A-Z][A-Za-z]+ )+Error: ", "", sentence)
    if (match := re.match(r"Unknown TimeZone '(.+)'", sentence)) is not None:
        return QueryError(f"Invalid time zone: {match[1]}")
    return QueryError(" ".join(sentence.split()) if "\n  " not in sentence else sentence)


def _place(tree: exp.Expression | None, name: str) -> str:
    if tree is not None:
        for column in tree.find_all(exp.Column, exp.Identifier):
            if column.name.lower() == name.lower():
                return position(column)
    return " at [1:1]"
