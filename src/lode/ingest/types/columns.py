"""A table's schema: BigQuery's types, and the Arrow and Parquet types that hold them without loss.

``rest.py``, ``wire.py`` and ``arrow.py`` convert schemas; ``check.py`` has the rules for schemas and changes.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

from lode.codec.bigquery_types import marked, scalar_type
from lode.lazy import pa

if TYPE_CHECKING:
    from collections.abc import Iterator

Mode: TypeAlias = Literal["NULLABLE", "REQUIRED", "REPEATED"]

TYPES: Final = (
    "STRING",
    "BYTES",
    "INT64",
    "FLOAT64",
    "BOOL",
    "TIMESTAMP",
    "DATE",
    "TIME",
    "DATETIME",
    "NUMERIC",
    "BIGNUMERIC",
    "GEOGRAPHY",
    "JSON",
    "INTERVAL",
    "RANGE",
    "STRUCT",
)
# Other names of the same types in REST.
ALIASES: Final = {
    "INTEGER": "INT64",
    "FLOAT": "FLOAT64",
    "BOOLEAN": "BOOL",
    "RECORD": "STRUCT",
    "DECIMAL": "NUMERIC",
    "BIGDECIMAL": "BIGNUMERIC",
}
ROUNDING_MODES: Final = ("ROUND_HALF_AWAY_FROM_ZERO", "ROUND_HALF_EVEN")
RANGE_ELEMENTS: Final = ("DATE", "DATETIME", "TIMESTAMP")


class Column(msgspec.Struct, frozen=True, omit_defaults=True):
    """One column; ``type`` is the standard SQL name (INT64, not INTEGER; STRUCT, not RECORD)."""

    name: str
    type: str
    mode: Mode = "NULLABLE"
    fields: tuple[Column, ...] = ()
    description: str = ""
    # A SQL expression: a literal, CURRENT_TIMESTAMP(), GENERATE_UUID() and the like.
    default: str = ""
    max_length: int = 0
    precision: int = 0
    scale: int = 0
    range_element: str = ""
    # How numbers are rounded to the scale, one of ROUNDING_MODES; empty means the first.
    rounding: str = ""

    @property
    def children(self) -> tuple[Column, ...]:
        """The columns inside: a STRUCT's fields, or the two ends of a RANGE; a null end is unbounded."""
        if self.type == "RANGE":
            return (Column("start", self.range_element), Column("end", self.range_element))
        return self.fields


class TableSchema(msgspec.Struct, frozen=True, dict=True):
    """The columns of a table."""

    columns: tuple[Column, ...]

    @cached_property
    def arrow(self) -> pa.Schema:
        """The Arrow schema of the rows, which is also that of Parquet files."""
        return pa.schema([arrow_field(column) for column in self.columns])

    @cached_property
    def positions(self) -> dict[str, int]:
        """The position of each column by its name in lower case: names match regardless of case."""
        return {column.name.lower(): position for position, column in enumerate(self.columns)}

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)


def arrow_field(column: Column) -> pa.Field[Any]:
    """The Arrow field that holds the column, its mode included."""
    value = arrow_type(column)
    return pa.field(
        column.name,
        pa.list_(value) if column.mode == "REPEATED" else value,
        nullable=column.mode != "REQUIRED",
        metadata=marked(column.type),
    )


def arrow_type(column: Column) -> pa.DataType:
    """The Arrow type of one value; of one element if the column is REPEATED."""
    scalar = scalar_type(column.type)
    if scalar is not None:
        return scalar
    if column.type in ("STRUCT", "RANGE"):
        return pa.struct([arrow_field(child) for child in column.children])
    raise ValueError(f"column {column.name!r} is of the unknown type {column.type!r}")
