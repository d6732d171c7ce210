"""Rows in the JSON of ``tabledata.list``: ``{"f": [{"v": …}]}``, with every scalar as text."""

from __future__ import annotations

import math
from base64 import b64encode
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from lode.ingest.types.intervals import shown_interval
from lode.lazy import pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lode.ingest.types.columns import Column, TableSchema

MAX_PAGE_BYTES: Final = 8 << 20
TimestampFormat: TypeAlias = Literal["INT64", "FLOAT64", "ISO8601_STRING"]


def cells(
    batch: pa.RecordBatch, schema: TableSchema, *, timestamps: TimestampFormat = "FLOAT64"
) -> list[dict[str, Any]]:
    """Return the rows of a batch as JSON.

    Args:
        batch: The rows, in ``schema.arrow``.
        schema: The table's schema, or its selected columns.
        timestamps: The format of timestamps: microseconds or seconds since 1970, or ISO 8601.
    """
    columns = [
        _column(array, column, timestamps) for array, column in zip(batch.columns, schema, strict=True)
    ]
    return [_record(values) for values in zip(*columns, strict=True)]


def page_of_cells(
    batches: Iterable[pa.RecordBatch], schema: TableSchema, *, timestamps: TimestampFormat
) -> list[dict[str, Any]]:
    """Return the rows of batches as JSON, up to the first batch that exceeds ``MAX_PAGE_BYTES``."""
    rows: list[dict[str, Any]] = []
    size = 0
    for batch in batches:
        rows += cells(batch, schema, timestamps=timestamps)
        size += batch.nbytes
        if size > MAX_PAGE_BYTES:
            break
    return rows


def _record(values: Any) -> dict[str, Any]:
    return {"f": [{"v": value} for value in values]}


def _column(array: Any, column: Column, timestamps: TimestampFormat) -> list[Any]:
    if column.mode != "REPEATED":
        return _values(array, column, timestamps)
    items = [{"v": value} for value in _values(array.flatten(), column, timestamps)]
    cells: list[Any] = []
    start = 0
    for length in array.value_lengths().to_pylist():
        cells.append(items[start : start + (length or 0)])
        start += length or 0
    return cells


def _values(array: Any, column: Column, timestamps: TimestampFormat) -> list[Any]:
    match column.type:
        case "STRUCT":
            children = [
                _column(child, field, timestamps)
                for child, field in zip(array.flatten(), column.fields, strict=True)
            ]
            return _where_valid(array, [_record(values) for values in zip(*children, strict=True)])
        case "RANGE":
            starts, ends = (
                _values(child, field, timestamps)
                for child, field in zip(array.flatten(), column.children, strict=True)
            )
            ranges = [
                f"[{start or 'UNBOUNDED'}, {end or 'UNBOUNDED'})"
                for start, end in zip(starts, ends, strict=True)
            ]
            return _where_valid(array, ranges)
        case "TIMESTAMP":
            return _each(array.view(pa.int64()), _TIMESTAMPS[timestamps])
        case "STRING" | "GEOGRAPHY" | "JSON":
            texts: list[Any] = array.to_pylist()
            return texts
    return _each(array, _TEXTS[column.type])


def _where_valid(array: Any, values: list[Any]) -> list[Any]:
    if not array.null_count:
        return values
    return [
        value if valid else None for value, valid in zip(values, array.is_valid().to_pylist(), strict=True)
    ]


def _each(array: Any, text: Callable[[Any], str]) -> list[Any]:
    return [None if value is None else text(value) for value in array.to_pylist()]


def _float(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


def _decimal(value: Any) -> str:
    text = format(value, "f")
    return (text.rstrip("0").rstrip(".") if "." in text else text) or "0"


def _seconds(micros: int) -> str:
    whole, fraction = divmod(abs(micros), 1_000_000)
    return f"{'-' if micros < 0 else ''}{whole}.{fraction:06d}"


def _iso(micros: int) -> str:
    import datetime

    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=micros)
    return moment.isoformat(timespec="microseconds") + "Z"


_TIMESTAMPS: dict[TimestampFormat, Callable[[int], str]] = {
    "INT64": str,
    "FLOAT64": _seconds,
    "ISO8601_STRING": _iso,
}
_TEXTS: dict[str, Callable[[Any], str]] = {
    "INT64": str,
    "FLOAT64": _float,
    "BOOL": lambda value: "true" if value else "false",
    "BYTES": lambda value: b64encode(value).decode(),
    "DATE": lambda value: str(value.isoformat()),
    "TIME": lambda value: str(value.isoformat()),
    "DATETIME": lambda value: str(value.isoformat()),
    "INTERVAL": shown_interval,
    "NUMERIC": _decimal,
    "BIGNUMERIC": _decimal,
}
