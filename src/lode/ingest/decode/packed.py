"""Rows before they are unpacked, and the memory that they will take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lode.ingest.status import invalid
from lode.ingest.types.columns import arrow_type
from lode.lazy import pt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pyarrow as pa

    from lode.ingest.types.columns import Column

# The limit for requests of 20 MiB; see ``Settings.unpacked_bytes``.
MAX_UNPACKED_BYTES: Final = 160 << 20
# A row may repeat a value any number of times.
REPEATED_VALUES_ESTIMATE: Final = 1 << 20
# Types whose values are parsed or checked one by one if they are sent as text, and how many each counts for.
# Checking one GEOGRAPHY of a few kilobytes can take longer than all other work on a request.
SLOW_TYPES: Final = {
    "NUMERIC": 1,
    "BIGNUMERIC": 1,
    "INTERVAL": 1,
    "JSON": 1,
    "GEOGRAPHY": REPEATED_VALUES_ESTIMATE,
}
# The offset of a text's bytes, or of a list's values.
OFFSET_BYTES: Final = 4
# A null takes a bit. Counting a byte is accurate enough.
VALIDITY_BYTES: Final = 1


class PackedRows(NamedTuple):
    """The rows of one request.

    Attributes:
        unpacked_bytes: The most memory that they take when they are decoded.
        slow_values: The most values that are checked one by one.
        decode: Decodes them; refuses bad rows.
        rows: How many they are.
    """

    unpacked_bytes: int
    slow_values: int
    decode: Callable[[], pa.RecordBatch]
    rows: int = 0


def check_unpacked(size: int, limit: int) -> None:
    """Refuse rows that take more memory than a request may."""
    if size > limit:
        raise invalid(
            f"The rows are {size:,} bytes or more when unpacked, the limit is {limit:,}: "
            "send fewer rows at a time."
        )


def count_columns(columns: Iterable[Column]) -> int:
    """The number of columns, nested ones included."""
    return sum(1 + count_columns(column.children) for column in columns)


def value_bytes(column: Column) -> int:
    """The bytes of one value in the column's Arrow type, with nulls in all columns below, without text."""
    if column.mode == "REPEATED":
        return OFFSET_BYTES
    if column.children:
        return VALIDITY_BYTES + sum(value_bytes(child) for child in column.children)
    return VALIDITY_BYTES + fixed_bytes(arrow_type(column))


def fixed_bytes(kind: pa.DataType) -> int:
    """The bytes of one value of an Arrow type without children; of text, those of its offset."""
    width: Any = kind.bit_width if pt.is_primitive(kind) or pt.is_decimal(kind) else 8 * OFFSET_BYTES
    return -(-int(width) // 8)
