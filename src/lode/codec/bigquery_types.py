"""BigQuery's types in Arrow, for tables and for results of queries."""

from __future__ import annotations

from typing import Final

from lode.lazy import pa

# The name of a type that Arrow does not have is in the field's metadata, as the Storage Read API writes it.
SQL_TYPE: Final = b"ARROW:extension:name"
SQL_TYPE_PREFIX: Final = b"google:sqlType:"
MARKED_TYPES: Final = frozenset({"GEOGRAPHY", "JSON", "INTERVAL", "DATETIME", "RANGE"})


def marked(name: str) -> dict[bytes, bytes] | None:
    """The metadata of a field of this type; None if Arrow has the type."""
    return {SQL_TYPE: SQL_TYPE_PREFIX + name.lower().encode()} if name in MARKED_TYPES else None


def scalar_type(name: str) -> pa.DataType | None:
    """The Arrow type that holds a type without loss; None for STRUCT, RANGE and unknown names."""
    match name:
        case "STRING" | "GEOGRAPHY" | "JSON" | "INTERVAL":
            return pa.string()
        case "BYTES":
            return pa.binary()
        case "INT64":
            return pa.int64()
        case "FLOAT64":
            return pa.float64()
        case "BOOL":
            return pa.bool_()
        case "TIMESTAMP":
            return pa.timestamp("us", "UTC")
        case "DATETIME":
            return pa.timestamp("us")
        case "DATE":
            return pa.date32()
        case "TIME":
            return pa.time64("us")
        case "NUMERIC":
            return pa.decimal128(38, 9)
        case "BIGNUMERIC":
            return pa.decimal256(76, 38)
    return None
