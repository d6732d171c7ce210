"""Types: BigQuery's in DuckDB, and both in Arrow.

DuckDB has most of them. Three have a form of their own inside of a query, so that DuckDB's type inference
carries them: GEOGRAPHY is a struct with the member ``geo$``, RANGE one with ``range$start`` and
``range$end``, and BIGNUMERIC a DECIMAL with more than 9 digits after the point. In Arrow they are as the
tables have them: text or a struct, with the name of the type in the field's metadata.
"""

from __future__ import annotations

from typing import Any, Final

from lode.codec.bigquery_types import SQL_TYPE, SQL_TYPE_PREFIX, marked, scalar_type
from lode.lazy import pa, pt
from lode.sql.errors import QueryError

NUMERIC: Final = "DECIMAL(38, 9)"
# DuckDB has 38 digits for both sides of the point.
BIGNUMERIC: Final = "DECIMAL(38, 18)"
GEOGRAPHY: Final = 'STRUCT("geo$" VARCHAR)'
_GEO: Final = "geo$"
_START, _END = "range$start", "range$end"
_INTEGERS: Final = frozenset(
    [
        "tinyint",
        "smallint",
        "integer",
        "bigint",
        "hugeint",
        "utinyint",
        "usmallint",
        "uinteger",
        "ubigint",
        "uhugeint",
    ]
)
_ARROW: Final = (
    ("is_boolean", "BOOLEAN"),
    ("is_integer", "BIGINT"),
    ("is_floating", "DOUBLE"),
    ("is_binary", "BLOB"),
    ("is_large_binary", "BLOB"),
    ("is_fixed_size_binary", "BLOB"),
    ("is_date", "DATE"),
    ("is_time", "TIME"),
)
_NAMES: Final = {
    "varchar": "STRING",
    "blob": "BYTES",
    "double": "FLOAT64",
    "float": "FLOAT64",
    "boolean": "BOOL",
    "date": "DATE",
    "time": "TIME",
    "timestamp": "DATETIME",
    "timestamp with time zone": "TIMESTAMP",
    "interval": "INTERVAL",
    "json": "JSON",
}


def type_name(kind: Any) -> str:
    """BigQuery's name of a DuckDB type, such as ARRAY<INT64>."""
    match shape(kind):
        case "ARRAY":
            return f"ARRAY<{type_name(kind.children[0][1])}>"
        case "STRUCT":
            inner = ", ".join(f"{name} {type_name(child)}" for name, child in kind.children)
            return f"STRUCT<{inner}>"
        case "RANGE":
            return f"RANGE<{type_name(kind.children[0][1])}>"
        case name:
            return name


def shape(kind: Any) -> str:
    """BigQuery's name of a DuckDB type without its parameters."""
    if str(kind) == "JSON":
        return "JSON"
    found = kind.id
    if found in ("list", "array"):
        return "ARRAY"
    if found == "struct":
        names = [name for name, _ in kind.children]
        return "GEOGRAPHY" if names == [_GEO] else "RANGE" if names == [_START, _END] else "STRUCT"
    if found == "decimal":
        digits = dict(kind.children)
        if digits["scale"] == 0 and digits["precision"] > 29:
            return "BIGNUMERIC"
        return "NUMERIC" if digits["scale"] <= 9 else "BIGNUMERIC"
    if found in _INTEGERS:
        return "INT64"
    return _NAMES.get(found) or _NAMES.get(str(kind).lower(), "STRING" if str(kind) == '"NULL"' else "")


# What a column takes besides its own type and texts. DuckDB would cast all types, and round or cut.
_WIDER: Final = {
    "FLOAT64": ("INT64", "NUMERIC"),
    "NUMERIC": ("INT64", "FLOAT64"),
    "DATETIME": ("DATE",),
    "TIMESTAMP": ("DATE", "DATETIME"),
}
_PREDICATES: Final = (
    ("is_integer", "INT64"),
    ("is_floating", "FLOAT64"),
    ("is_decimal", "NUMERIC"),
    ("is_boolean", "BOOL"),
    ("is_binary", "BYTES"),
    ("is_date", "DATE"),
    ("is_time", "TIME"),
)


def arrow_name(kind: Any) -> str:
    """BigQuery's name of the Arrow type of a result, for messages and comparisons."""
    if pt.is_list(kind):
        return f"ARRAY<{arrow_name(kind.value_type)}>"
    if pt.is_struct(kind):
        return f"STRUCT<{', '.join(f'{each.name} {arrow_name(each.type)}' for each in kind)}>"
    if pt.is_timestamp(kind):
        return "TIMESTAMP" if kind.tz else "DATETIME"
    return next((name for question, name in _PREDICATES if getattr(pt, question)(kind)), "STRING")


def assignable(given: Any, wanted: Any, *, element: bool = False) -> bool:
    """Whether a column takes values of another type without loss.

    NULL has the type of texts here, and ``[]`` that of integers.
    """
    if pt.is_list(wanted) and pt.is_list(given):
        return assignable(given.value_type, wanted.value_type, element=True)
    if pt.is_struct(wanted) and pt.is_struct(given):
        return [each.name.lower() for each in given] == [each.name.lower() for each in wanted] and all(
            assignable(one.type, other.type) for one, other in zip(given, wanted, strict=True)
        )
    one, other = arrow_name(given), arrow_name(wanted)
    return one in (other, "STRING", *_WIDER.get(other, ())) or (element and one == "INT64")


def outward(kind: Any, value: str) -> str:
    """An expression with a value in the form that Arrow results have."""
    match shape(kind):
        case "ARRAY":
            element = kind.children[0][1]
            inner = outward(element, "e")
            return value if inner == "e" else f"list_transform({value}, lambda e: {inner})"
        case "STRUCT":
            members = [
                (name, outward(child, f"({value}).{quoted(name)}"), child) for name, child in kind.children
            ]
            if all(made == f"({value}).{quoted(name)}" for name, made, _ in members):
                return value
            packed = ", ".join(f"{quoted(name)} := {made}" for name, made, _ in members)
            return f"CASE WHEN {value} IS NULL THEN NULL ELSE struct_pack({packed}) END"
        case "RANGE":
            return (
                f"CASE WHEN {value} IS NULL THEN NULL ELSE struct_pack("
                f'"start" := ({value})."{_START}", "end" := ({value})."{_END}") END'
            )
        case "GEOGRAPHY":
            return f'({value})."{_GEO}"'
        case "INTERVAL":
            return f"bq_string({value})"
        case "JSON":
            return f"CAST({value} AS VARCHAR)"
        case "INT64" if kind.id != "bigint":
            return f"CAST({value} AS BIGINT)"
        case "NUMERIC":
            return f"CAST({value} AS {NUMERIC})"
        case "FLOAT64" if kind.id != "double":
            return f"CAST({value} AS DOUBLE)"
        case "STRING" if kind.id != "varchar":
            return f"CAST({value} AS VARCHAR)"
        case "":
            raise QueryError(f"A result of the type {kind} has no type in BigQuery: cast it.")
    return value


def arrow_field(name: str, kind: Any) -> pa.Field[Any]:
    """The Arrow field of a result, with its type in the metadata."""
    named = shape(kind)
    if named == "ARRAY":
        element = arrow_field("item", kind.children[0][1])
        return pa.field(name, pa.list_(element.type), metadata=element.metadata)
    return pa.field(name, _arrow_type(named, kind), metadata=marked(named))


def _arrow_type(named: str, kind: Any) -> pa.DataType:
    scalar = scalar_type(named)
    if scalar is not None:
        return scalar
    if named == "RANGE":
        ends = zip(("start", "end"), kind.children, strict=True)
        return pa.struct([arrow_field(name, child) for name, (_, child) in ends])
    return pa.struct([arrow_field(name, child) for name, child in kind.children])


def inward(field: pa.Field[Any], value: str) -> str:
    """An expression with a value of a table in the form that it has inside of a query."""
    kind: Any = field.type
    if pt.is_list(kind) or pt.is_large_list(kind):
        element: Any = kind.value_field
        inner = inward(element.with_metadata(element.metadata or field.metadata or {}), "e")
        return value if inner == "e" else f"list_transform({value}, lambda e: {inner})"
    marked = (field.metadata or {}).get(SQL_TYPE, b"").removeprefix(SQL_TYPE_PREFIX).decode()
    match marked:
        case "json":
            return f"CAST({value} AS JSON)"
        case "geography":
            return f'CASE WHEN {value} IS NOT NULL THEN struct_pack("{_GEO}" := {value}) END'
        case "interval":
            return f"bq_to_interval({value})"
        case "range":
            return (
                f"CASE WHEN {value} IS NOT NULL THEN struct_pack("
                f'"{_START}" := ({value})."start", "{_END}" := ({value})."end") END'
            )
    if pt.is_struct(kind):
        members = [(child.name, inward(child, f"({value}).{quoted(child.name)}")) for child in kind]
        if all(made == f"({value}).{quoted(name)}" for name, made in members):
            return value
        packed = ", ".join(f"{quoted(name)} := {made}" for name, made in members)
        return f"CASE WHEN {value} IS NOT NULL THEN struct_pack({packed}) END"
    return value


def inner_type(field: pa.Field[Any]) -> str:
    """The type that the values of a column have inside of a query."""
    kind: Any = field.type
    if pt.is_list(kind) or pt.is_large_list(kind):
        element: Any = kind.value_field
        return f"{inner_type(element.with_metadata(element.metadata or field.metadata or {}))}[]"
    match (field.metadata or {}).get(SQL_TYPE, b"").removeprefix(SQL_TYPE_PREFIX).decode():
        case "json":
            return "JSON"
        case "geography":
            return GEOGRAPHY
        case "interval":
            return "INTERVAL"
        case "range":
            end = inner_type(kind.field(0))
            return f'STRUCT("{_START}" {end}, "{_END}" {end})'
    if pt.is_struct(kind):
        return f"STRUCT({', '.join(f'{quoted(child.name)} {inner_type(child)}' for child in kind)})"
    if pt.is_decimal256(kind):
        return BIGNUMERIC
    if pt.is_decimal(kind):
        return NUMERIC if kind.scale <= 9 else BIGNUMERIC
    if pt.is_timestamp(kind):
        return "TIMESTAMPTZ" if kind.tz else "TIMESTAMP"
    for question, name in _ARROW:
        if getattr(pt, question)(kind):
            return name
    return "VARCHAR"


def quoted(name: str) -> str:
    """A name in DuckDB's quotes."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """A text as a literal of DuckDB."""
    return "'" + value.replace("'", "''") + "'"
