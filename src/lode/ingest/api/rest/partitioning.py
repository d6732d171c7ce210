"""Partitioning as REST v2 writes it: ``timePartitioning`` and ``rangePartitioning`` of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from lode.format.ids import shortened
from lode.ingest.api.errors import not_implemented
from lode.ingest.catalog.partitioning import Partitioning, RangePartitioning, TimePartitioning
from lode.ingest.status import invalid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lode.ingest.catalog.partitioning import Unit


def partitioning_from(table: Mapping[str, Any]) -> Partitioning | None:
    """Read the partitioning of a table resource, None if it has none."""
    time, ranges = table.get("timePartitioning"), table.get("rangePartitioning")
    if time and ranges:
        raise invalid("A table is partitioned by time or by ranges: leave out one of the two.")
    if time:
        return _time(time)
    return _range(ranges) if ranges else None


def partitioning_to(partitioning: Partitioning | None) -> dict[str, Any]:
    """The properties of a table resource that say how it is partitioned."""
    match partitioning:
        case TimePartitioning(unit=unit, column=column):
            return {"timePartitioning": {"type": unit} | ({"field": column} if column else {})}
        case RangePartitioning(column=column, start=start, end=end, interval=interval):
            ranges = {"start": str(start), "end": str(end), "interval": str(interval)}
            return {"rangePartitioning": {"field": column, "range": ranges}}
    return {}


def _time(value: Any) -> TimePartitioning:
    if not isinstance(value, dict):
        raise invalid("Invalid value for timePartitioning: it must be an object.")
    unit, column = value.get("type") or "DAY", value.get("field") or ""
    if unit not in ("HOUR", "DAY", "MONTH", "YEAR"):
        raise invalid(
            f"Invalid value for timePartitioning.type: {shortened(unit)} is not HOUR, DAY, MONTH or YEAR."
        )
    if not isinstance(column, str):
        raise invalid("Invalid value for timePartitioning.field: it must name a column.")
    if value.get("expirationMs") not in (None, 0, "0"):
        raise not_implemented(
            "Partitions that expire are not supported: nothing is deleted by itself in Lode."
        )
    return TimePartitioning(cast("Unit", unit), column)


def _range(value: Any) -> RangePartitioning:
    if not isinstance(value, dict) or not isinstance(value.get("range"), dict):
        raise invalid("Invalid value for rangePartitioning: it must be an object with field and range.")
    column = value.get("field")
    if not isinstance(column, str) or not column:
        raise invalid("Invalid value for rangePartitioning.field: it must name a column.")
    start, end, interval = (_number(value["range"], key) for key in ("start", "end", "interval"))
    return RangePartitioning(column, start, end, interval)


def _number(holder: Mapping[str, Any], key: str) -> int:
    value = holder.get(key)
    try:
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise ValueError(value)
        return int(value)
    except ValueError:
        raise invalid(
            f"Invalid value for rangePartitioning.range.{key}: it must be a whole number."
        ) from None
