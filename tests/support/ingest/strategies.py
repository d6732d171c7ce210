"""Any table schema, and any rows for it, as Hypothesis strategies.

A row is a dict by column name with every column in it. Values are in one canonical form: int, float (never
NaN), bool, str (STRING, JSON, GEOGRAPHY, INTERVAL), bytes, ``datetime.date``, ``datetime.time``,
``datetime.datetime`` (aware, UTC, for TIMESTAMP; naive for DATETIME), ``Decimal``; a dict for STRUCT, and for
RANGE with ``start`` and ``end`` of which None is unbounded; a list for REPEATED, never None; None for null.
What a dataset gives back by ``to_pylist`` equals it.
"""

from __future__ import annotations

import datetime as dt
import json
import string
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt
from hypothesis import strategies as st

from lode.ingest.types.check import RESERVED_PREFIXES
from lode.ingest.types.columns import RANGE_ELEMENTS, TYPES, Column, TableSchema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lode.ingest.types.columns import Mode

SCALARS = tuple(name for name in TYPES if name != "STRUCT")
MODES: tuple[Mode, ...] = ("NULLABLE", "REQUIRED", "REPEATED")
_LETTERS = string.ascii_letters + string.digits + "_"


def names() -> st.SearchStrategy[str]:
    """Names of columns, some of other scripts, none reserved."""
    plain = st.builds(str.__add__, st.sampled_from(string.ascii_letters + "_"), st.text(_LETTERS, max_size=8))
    flexible = st.text(_LETTERS + "éß中日 -&", min_size=1, max_size=6)
    return (plain | flexible).filter(lambda name: not name.lower().startswith(RESERVED_PREFIXES))


def schemas(
    *, max_columns: int = 5, max_depth: int = 3, types: Sequence[str] = TYPES
) -> st.SearchStrategy[TableSchema]:
    """Schemas of at least one column, of the types, nested up to the depth."""
    return _levels(max_columns, max_depth, tuple(types)).map(TableSchema)


def _levels(most: int, depth: int, types: tuple[str, ...]) -> st.SearchStrategy[tuple[Column, ...]]:
    return st.lists(
        columns(depth, most, types), min_size=1, max_size=most, unique_by=lambda column: column.name.lower()
    ).map(tuple)


@st.composite
def columns(draw: st.DrawFn, depth: int = 2, most: int = 3, types: tuple[str, ...] = TYPES) -> Column:
    """One column; a STRUCT has up to so many fields, nested up to the depth."""
    kind = draw(st.sampled_from([name for name in types if depth > 0 or name != "STRUCT"]))
    mode = draw(st.sampled_from(MODES))
    name = draw(names())
    match kind:
        case "STRUCT":
            return Column(name, kind, mode, draw(_levels(most, depth - 1, types)))
        case "RANGE":
            return Column(name, kind, mode, range_element=draw(st.sampled_from(RANGE_ELEMENTS)))
        case "STRING" | "BYTES":
            return Column(name, kind, mode, max_length=draw(st.sampled_from([0, 0, 1, 5])))
        case "NUMERIC" | "BIGNUMERIC":
            precision, scale = draw(_digits(kind))
            return Column(name, kind, mode, precision=precision, scale=scale)
        case _:
            return Column(name, kind, mode)


@st.composite
def _digits(draw: st.DrawFn, kind: str) -> tuple[int, int]:
    if draw(st.booleans()):
        return 0, 0
    whole, fraction = (29, 9) if kind == "NUMERIC" else (38, 38)
    scale = draw(st.integers(0, fraction))
    return draw(st.integers(max(1, scale), whole + scale)), scale


def rows_for(
    schema: TableSchema, *, min_size: int = 1, max_size: int = 5
) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Rows of the schema, in the canonical form."""
    row = st.fixed_dictionaries({column.name: values_for(column) for column in schema})
    return st.lists(row, min_size=min_size, max_size=max_size)


def values_for(column: Column) -> st.SearchStrategy[Any]:
    """Values of a column, with its mode."""
    one = _one(column)
    match column.mode:
        case "REPEATED":
            return st.lists(one, max_size=3)
        case "NULLABLE":
            return st.none() | one
        case _:
            return one


def _one(column: Column) -> st.SearchStrategy[Any]:
    longest = column.max_length or 12
    match column.type:
        case "STRING":
            return st.text(max_size=longest)
        case "BYTES":
            return st.binary(max_size=longest)
        case "INT64":
            return st.integers(-(2**63), 2**63 - 1)
        case "FLOAT64":
            return st.floats(allow_nan=False)
        case "BOOL":
            return st.booleans()
        case "TIMESTAMP":
            return st.datetimes(timezones=st.just(dt.UTC))
        case "DATETIME":
            return st.datetimes()
        case "DATE":
            return st.dates()
        case "TIME":
            return st.times()
        case "NUMERIC":
            return _decimals(column.precision or 38, column.scale if column.precision else 9)
        case "BIGNUMERIC":
            # Without the 77 digits at the ends, which pyarrow makes no arrays of.
            return _decimals(column.precision or 76, column.scale if column.precision else 38)
        case "GEOGRAPHY":
            return st.builds("POINT({} {})".format, st.integers(-180, 180), st.integers(-90, 90))
        case "JSON":
            return _documents().map(json.dumps)
        case "INTERVAL":
            return st.builds(
                "{}-{} {} {}:{}:{}".format,
                st.integers(-9999, 9999),
                st.integers(0, 11),
                st.integers(-3_660_000, 3_660_000),
                st.integers(-87_839_999, 87_839_999),
                st.integers(0, 59),
                st.integers(0, 59),
            )
        case "RANGE":
            return _ranges(Column("end", column.range_element, "REQUIRED"))
        case _:
            return st.fixed_dictionaries({child.name: values_for(child) for child in column.fields})


def _decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    # From text: arithmetic would round to Python's 28 digits.
    most = 10**precision - 1
    return st.integers(-most, most).map(lambda number: Decimal(f"{number}e-{scale}"))


def _documents() -> st.SearchStrategy[Any]:
    leaves = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5)
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=5,
    )


@st.composite
def _ranges(draw: st.DrawFn, end: Column) -> dict[str, Any]:
    first, second = sorted(draw(st.lists(values_for(end), min_size=2, max_size=2, unique=True)))
    return {"start": draw(st.sampled_from([None, first])), "end": draw(st.sampled_from([None, second]))}


@st.composite
def writer_schemas(draw: st.DrawFn, schema: TableSchema) -> pa.Schema:
    """Arrow schemas that another writer might use for the same rows: other types, order, and nullability."""
    fields = [_disguise(draw, field) for field in schema.arrow]
    return pa.schema(draw(st.permutations(fields)))


def _disguise(draw: st.DrawFn, field: pa.Field[Any]) -> pa.Field[Any]:
    return pa.field(field.name, draw(st.sampled_from(_disguises(draw, field.type))))


def _disguises(draw: st.DrawFn, kind: Any) -> list[Any]:
    """Types that hold every value of this one."""
    if pt.is_struct(kind):
        return [pa.struct([_disguise(draw, child) for child in kind])]
    if pt.is_list(kind):
        item = draw(st.sampled_from(_disguises(draw, kind.value_type)))
        return [pa.list_(item), pa.large_list(item), pa.list_(pa.field("element", item, nullable=False))]
    if pt.is_string(kind):
        return [kind, pa.large_string(), pa.string_view()]
    if pt.is_binary(kind):
        return [kind, pa.large_binary(), pa.binary_view()]
    if pt.is_timestamp(kind):
        return [kind, pa.timestamp("us", "Europe/Paris")] if kind.tz else [kind]
    if pt.is_date(kind):
        return [kind, pa.date64()]
    if pt.is_decimal(kind):
        return [kind, pa.decimal256(76, kind.scale)]
    return [kind]
