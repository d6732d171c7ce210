"""Partitioning of tables, by time or by ranges of integers, as Hive partitions.

Partitioning by DAY of a column uses that column itself: Lode puts a timestamp into the partition of its day.
All other kinds use a separate column ``_PARTITIONID``, computed from the rows or from their time of arrival.
BigQuery reserves that name, so no column of a user can have it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from urllib.parse import quote

import msgspec

from lode.errors import InvalidOptionError
from lode.format.ids import shortened
from lode.format.paths import DefaultLayout, HiveLayout, Layout
from lode.ingest.status import invalid
from lode.lazy import pa, pc

if TYPE_CHECKING:
    from pyarrow.compute import Expression

    from lode.ingest.types.columns import Column, TableSchema

PARTITION_ID: Final = "_PARTITIONID"
NULL_ID: Final = "__NULL__"
OUTSIDE_ID: Final = "__UNPARTITIONED__"
MAX_RANGES: Final = 10_000
# A column's name and a day form one segment of a path, which file systems limit to 255 bytes.
MAX_KEY_BYTES: Final = 240

Unit: TypeAlias = Literal["HOUR", "DAY", "MONTH", "YEAR"]

_UNITS_OF: Final[dict[str, tuple[Unit, ...]]] = {
    "TIMESTAMP": ("HOUR", "DAY", "MONTH", "YEAR"),
    "DATETIME": ("HOUR", "DAY", "MONTH", "YEAR"),
    "DATE": ("DAY", "MONTH", "YEAR"),
}
# The parts of a time that form an id, and its number of digits.
_PARTS_OF: Final[dict[Unit, tuple[tuple[str, ...], int]]] = {
    "HOUR": (("year", "month", "day", "hour"), 10),
    "DAY": (("year", "month", "day"), 8),
    "MONTH": (("year", "month"), 6),
    "YEAR": (("year",), 4),
}


class TimePartitioning(msgspec.Struct, frozen=True, tag="time", omit_defaults=True):
    """One partition for each ``unit`` of a column, or of the time of arrival if ``column`` is empty."""

    unit: Unit
    column: str = ""
    # How long after its beginning a partition is removed; 0 for never.
    expiration_ms: int = 0


class RangePartitioning(msgspec.Struct, frozen=True, tag="range"):
    """One partition for each ``interval`` integers from ``start`` up to but not including ``end``."""

    column: str
    start: int
    end: int
    interval: int


Partitioning: TypeAlias = TimePartitioning | RangePartitioning


def check_partitioning(partitioning: Partitioning, schema: TableSchema) -> Partitioning:
    """Return it with its column spelled as in the schema, or refuse it."""
    if isinstance(partitioning, TimePartitioning) and not partitioning.column:
        return partitioning
    column = _column(partitioning, schema)
    if isinstance(partitioning, TimePartitioning):
        _check_time(partitioning, column)
    else:
        _check_range(partitioning, column)
    checked = msgspec.structs.replace(partitioning, column=column.name)
    if not is_derived(checked) and len(quote(column.name, safe="")) > MAX_KEY_BYTES:
        raise invalid(
            f"The table cannot be partitioned by DAY of {shortened(column.name)}: the name is part of a "
            f"path, where it may have {MAX_KEY_BYTES} bytes, percent-escaped."
        )
    try:
        layout_of(checked)
    except InvalidOptionError as error:
        raise invalid(f"The table cannot be partitioned by {column.name!r}: {error}.") from None
    return checked


def is_derived(partitioning: Partitioning | None) -> bool:
    """Whether the partitions need the column ``_PARTITIONID``."""
    match partitioning:
        case None:
            return False
        case TimePartitioning(unit="DAY", column=column) if column:
            return False
    return True


def layout_of(partitioning: Partitioning | None) -> Layout:
    """The layout with separate files for each partition."""
    if partitioning is None:
        return DefaultLayout()
    return HiveLayout(PARTITION_ID if is_derived(partitioning) else partitioning.column)


def partition_ids(partitioning: Partitioning, batch: pa.RecordBatch, *, now_ms: int | None = None) -> Any:
    """The ``_PARTITIONID`` of every row; ``now_ms`` is the time of arrival, by default now."""
    if isinstance(partitioning, RangePartitioning):
        return _range_ids(batch.column(partitioning.column), partitioning)
    if partitioning.column:
        return _time_ids(batch.column(partitioning.column), partitioning.unit)
    arrived = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    own = _time_ids(pa.array([arrived], pa.timestamp("ms")), partitioning.unit)[0]
    return pa.repeat(own, batch.num_rows)


def expired_rows(partitioning: TimePartitioning, schema: TableSchema, now_ms: int) -> Expression:
    """The rows of the partitions that began ``expiration_ms`` ago or earlier."""
    before: Expression
    limit = pa.scalar(now_ms - partitioning.expiration_ms, pa.timestamp("ms"))
    if is_derived(partitioning):
        # Ids have the same number of digits, and those that are no times begin with "_", after all digits.
        newest: Any = _time_ids(pa.array([limit]), partitioning.unit)[0]
        before = pc.field(PARTITION_ID) <= newest
        return before
    next_day = pc.add(pc.floor_temporal(limit, unit="day"), pa.scalar(86_400_000, pa.duration("ms")))
    kind = schema.arrow.field(partitioning.column).type
    if pa.types.is_timestamp(kind):
        # The zone is UTC, which a cast would look up.
        next_day = pa.scalar(next_day.value, pa.timestamp("ms", kind.tz))
    before = pc.field(partitioning.column) < next_day.cast(kind)
    return before


def _column(partitioning: Partitioning, schema: TableSchema) -> Column:
    wanted = partitioning.column.lower()
    for column in schema:
        if column.name.lower() == wanted:
            if column.mode == "REPEATED":
                raise invalid(f"The table cannot be partitioned by {column.name!r}: it is REPEATED.")
            return column
    raise invalid(
        f"The table cannot be partitioned by {partitioning.column!r}: there is no column of that name."
    )


def _check_time(partitioning: TimePartitioning, column: Column) -> None:
    if partitioning.unit not in _UNITS_OF.get(column.type, ()):
        raise invalid(
            f"The table cannot be partitioned by {partitioning.unit} of {column.name!r}, a {column.type}: "
            "use a TIMESTAMP or DATETIME column, or a DATE column by DAY, MONTH or YEAR."
        )


def _check_range(partitioning: RangePartitioning, column: Column) -> None:
    start, end, interval = partitioning.start, partitioning.end, partitioning.interval
    if column.type != "INT64":
        raise invalid(
            f"The table cannot be partitioned by ranges of {column.name!r}, a {column.type}: use INT64."
        )
    if interval < 1 or start >= end or not all(-(2**63) <= n < 2**63 for n in (start, end, end - start)):
        raise invalid(
            f"The ranges from {start} to {end} by {interval} are not valid: start must be less than end and "
            "interval at least 1, all within 64 bits."
        )
    if -(-(end - start) // interval) > MAX_RANGES:
        raise invalid(
            f"The ranges from {start} to {end} by {interval} are more than {MAX_RANGES}: "
            "use a larger interval."
        )


def _time_ids(column: Any, unit: Unit) -> Any:
    # The zone is always UTC. Without it, no time zone database is needed.
    moments = column.cast(pa.timestamp("us")) if pa.types.is_timestamp(column.type) else column
    parts, digits = _PARTS_OF[unit]
    number: Any = pa.scalar(0, pa.int64())
    for part in parts:
        number = pc.add(pc.multiply(number, 100), getattr(pc, part)(moments))
    return _without_nulls(pc.utf8_lpad(pc.cast(number, pa.string()), digits, "0"))


def _range_ids(column: Any, ranges: RangePartitioning) -> Any:
    start = pa.scalar(ranges.start, pa.int64())
    inside = pc.and_(pc.greater_equal(column, start), pc.less(column, pa.scalar(ranges.end, pa.int64())))
    # Values outside could overflow the subtraction, so they count as ``start`` until they are replaced.
    steps = pc.divide(pc.subtract(pc.if_else(inside, column, start), start), ranges.interval)
    number = pc.add(start, pc.multiply(steps, ranges.interval))
    return _without_nulls(pc.if_else(inside, pc.cast(number, pa.string()), OUTSIDE_ID))


def _without_nulls(ids: Any) -> Any:
    return pc.fill_null(ids, NULL_ID)
