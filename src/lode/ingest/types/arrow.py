"""The BigQuery columns of an Arrow schema, for datasets that other programs have written."""

from __future__ import annotations

from typing import Any, Final

from lode.codec.bigquery_types import SQL_TYPE, SQL_TYPE_PREFIX
from lode.ingest.status import invalid
from lode.ingest.types.columns import RANGE_ELEMENTS, Column, TableSchema
from lode.lazy import pa, pt


def from_arrow(schema: pa.Schema) -> TableSchema:
    """The columns that hold the same values; a type that BigQuery lacks is refused by the column's name.

    Names stay as they are. Lists are REPEATED, maps REPEATED structs of key and value, unsigned 64-bit
    integers NUMERIC, durations INT64 in their own unit.
    """
    return TableSchema(tuple(_column(field, field.name) for field in schema))


def _column(field: pa.Field[Any], where: str) -> Column:
    value: pa.DataType = field.type
    mark = (field.metadata or {}).get(SQL_TYPE, b"")
    repeated = is_list(value) or pt.is_map(value)
    if repeated:
        item = element_of(value)
        mark = mark or (item.metadata or {}).get(SQL_TYPE, b"")
        value = item.type
        if is_list(value) or pt.is_map(value):
            raise invalid(f"Column {where!r} is a list of lists, which BigQuery has no type for.")
    if isinstance(value, pa.BaseExtensionType):
        mark = mark or (b"google:sqlType:json" if value.extension_name == "arrow.json" else b"")
        value = value.storage_type
    name = _type(value, mark, where)
    inner = value if isinstance(value, pa.StructType) else ()
    return Column(
        field.name,
        name,
        "REPEATED" if repeated else "NULLABLE" if field.nullable else "REQUIRED",
        () if name == "RANGE" else tuple(_column(child, f"{where}.{child.name}") for child in inner),
        range_element=_column(value.field(0), where).type if name == "RANGE" else "",
    )


def is_list(kind: pa.DataType) -> bool:
    """Return whether values of a type are lists, in any form; maps are not."""
    return bool(
        pt.is_list(kind)
        or pt.is_large_list(kind)
        or pt.is_fixed_size_list(kind)
        or pt.is_list_view(kind)
        or pt.is_large_list_view(kind)
    )


def element_of(kind: Any) -> pa.Field[Any]:
    """The field of a list's elements, or of a map's entries."""
    if pt.is_map(kind):
        return pa.field("entries", pa.struct([kind.key_field, kind.item_field]), nullable=False)
    element: pa.Field[Any] = kind.value_field
    return element


_MARKED_TEXT: Final = ("GEOGRAPHY", "JSON", "INTERVAL")
# In order; the first match counts.
_SIMPLE: Final = (
    ("is_boolean", "BOOL"),
    ("is_uint64", "NUMERIC"),
    ("is_integer", "INT64"),
    ("is_floating", "FLOAT64"),
    ("is_string", "STRING"),
    ("is_large_string", "STRING"),
    ("is_string_view", "STRING"),
    ("is_null", "STRING"),
    ("is_binary", "BYTES"),
    ("is_large_binary", "BYTES"),
    ("is_binary_view", "BYTES"),
    ("is_fixed_size_binary", "BYTES"),
    ("is_date", "DATE"),
    ("is_time", "TIME"),
    ("is_duration", "INT64"),
    ("is_interval", "INTERVAL"),
)


def _type(kind: Any, mark: bytes, where: str) -> str:
    """The name of the type; ``mark`` is the SQL type in the field's metadata."""
    marked = mark.removeprefix(SQL_TYPE_PREFIX).decode(errors="replace").upper()
    if pt.is_dictionary(kind) or pt.is_run_end_encoded(kind):
        return _type(kind.value_type, mark, where)
    if pt.is_struct(kind):
        return "RANGE" if marked == "RANGE" and _is_range(kind, where) else "STRUCT"
    if pt.is_timestamp(kind):
        return "TIMESTAMP" if kind.tz is not None else "DATETIME"
    if pt.is_decimal(kind):
        return _decimal(kind, where)
    for question, name in _SIMPLE:
        if getattr(pt, question)(kind):
            return marked if name == "STRING" and marked in _MARKED_TEXT else name
    raise invalid(f"Column {where!r} is of the Arrow type {kind}, which BigQuery has no type for.")


def _is_range(kind: Any, where: str) -> bool:
    ends = [_column(child, where) for child in kind]
    return [end.name for end in ends] == ["start", "end"] and all(
        end.type == ends[0].type and end.type in RANGE_ELEMENTS for end in ends
    )


def _decimal(kind: Any, where: str) -> str:
    whole = kind.precision - kind.scale
    if whole <= 29 and kind.scale <= 9:
        return "NUMERIC"
    if whole <= 38 and kind.scale <= 38:
        return "BIGNUMERIC"
    raise invalid(f"Column {where!r} is of the Arrow type {kind}, which has more digits than a BIGNUMERIC.")
