"""Schemas as the Storage APIs write them: the protobuf messages ``TableSchema`` and ``TableFieldSchema``."""

from __future__ import annotations

from typing import Any, Final, get_args

from google.cloud.bigquery_storage_v1 import types

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


def to_wire(schema: TableSchema) -> Any:
    """The schema as a raw protobuf ``TableSchema``."""
    return WireSchema(fields=[_to_field(column) for column in schema])


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
