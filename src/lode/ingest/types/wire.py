"""Schemas as the Storage APIs write them: the protobuf messages ``TableSchema`` and ``TableFieldSchema``."""

from __future__ import annotations

from typing import Any, Final, cast, get_args

from google.cloud.bigquery_storage_v1 import types

from lode.ingest.status import invalid
from lode.ingest.types.check import check_schema
from lode.ingest.types.columns import Column, Mode, TableSchema

# The raw messages: the wrappers of proto-plus are slow. The classes are made at run time and have no types.
WireSchema: Final[Any] = types.TableSchema.pb()
WireField: Final[Any] = types.TableFieldSchema.pb()

_MODES: Final = get_args(Mode)
_TO_NUMBER: Final = {
    "STRING": 1,
    "INT64": 2,
    "FLOAT64": 3,
    "STRUCT": 4,
    "BYTES": 5,
    "BOOL": 6,
    "TIMESTAMP": 7,
    "DATE": 8,
    "TIME": 9,
    "DATETIME": 10,
    "GEOGRAPHY": 11,
    "NUMERIC": 12,
    "BIGNUMERIC": 13,
    "INTERVAL": 14,
    "JSON": 15,
    "RANGE": 16,
}
_FROM_NUMBER: Final = {number: name for name, number in _TO_NUMBER.items()}


def to_wire(schema: TableSchema) -> Any:
    """The schema as a raw protobuf ``TableSchema``."""
    return WireSchema(fields=[_to_field(column) for column in schema])


def from_wire(message: Any) -> TableSchema:
    """Read and check a raw protobuf ``TableSchema``."""
    return check_schema(TableSchema(tuple(_column(field) for field in message.fields)))


def _to_field(column: Column) -> Any:
    field = WireField(
        name=column.name,
        type_=_TO_NUMBER[column.type],
        mode=_MODES.index(column.mode) + 1,
        fields=[_to_field(child) for child in column.fields],
        description=column.description,
        max_length=column.max_length,
        precision=column.precision,
        scale=column.scale,
        default_value_expression=column.default,
    )
    if column.range_element:
        field.range_element_type.type_ = _TO_NUMBER[column.range_element]
    return field


def _column(field: Any) -> Column:
    number = field.range_element_type.type_
    return Column(
        field.name,
        _type(field.type_, field.name),
        # An unset mode is NULLABLE; the checks refuse modes that do not exist.
        cast("Mode", _MODES[field.mode - 1] if 0 < field.mode <= len(_MODES) else _unset(field)),
        tuple(_column(child) for child in field.fields),
        description=field.description,
        default=field.default_value_expression,
        max_length=field.max_length,
        precision=field.precision,
        scale=field.scale,
        range_element=_type(number, field.name) if number else "",
    )


def _unset(field: Any) -> str:
    return str(field.mode) if field.mode else "NULLABLE"


def _type(number: int, name: str) -> str:
    try:
        return _FROM_NUMBER[number]
    except KeyError:
        raise invalid(f"Column {name!r} has the unknown type number {number}.") from None
