"""The tables that jobs read and write, as their configuration names them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from lode.format.ids import shortened
from lode.format.paths import partition_path
from lode.ingest.catalog.partitioning import (
    NULL_ID,
    OUTSIDE_ID,
    PARTITION_ID,
    RangePartitioning,
    TimePartitioning,
    is_derived,
)
from lode.ingest.names import TableName, parse_table
from lode.ingest.status import invalid
from lode.lazy import pa

if TYPE_CHECKING:
    import pyarrow.compute as pc

    from lode.ingest.catalog.partitioning import Partitioning
    from lode.ingest.catalog.table import TableDefinition

_SPECIAL_IDS: Final = (NULL_ID, OUTSIDE_ID)
_FORMATS: Final = {"YEAR": "%Y", "MONTH": "%Y%m", "DAY": "%Y%m%d", "HOUR": "%Y%m%d%H"}
_DIGITS: Final = {"YEAR": 4, "MONTH": 6, "DAY": 8, "HOUR": 10}
_INTEGER: Final = re.compile(r"-?[0-9]{1,19}")


class TableRef(NamedTuple):
    """A table, perhaps one partition of it (``t$20240131``), perhaps of the past (``t@1700000000000``)."""

    name: TableName
    partition: str = ""
    moment: str = ""


def parse_reference(reference: Any, project: str, what: str) -> TableRef:
    """Read a reference such as ``destinationTable``, or refuse it.

    Args:
        reference: As the client sent it.
        project: The project of a reference without one.
        what: The name of the property, for messages.
    """
    if not isinstance(reference, dict) or not reference.get("tableId") or not reference.get("datasetId"):
        raise invalid(f"Required parameter is missing: {what}, with a datasetId and a tableId.")
    parts = (reference.get("projectId") or project, reference["datasetId"], reference["tableId"])
    if not all(isinstance(part, str) for part in parts):
        raise invalid(f"Invalid value for {what}: projectId, datasetId and tableId must be text.")
    table, dollar, partition = parts[2].partition("$")
    moment = ""
    if not dollar:
        table, _, moment = table.partition("@")
    elif not partition:
        raise invalid(f"Invalid table ID {shortened(parts[2])}: name a partition after $, or leave it out.")
    return TableRef(parse_table(str(TableName(parts[0], parts[1], table))), partition, moment)


def parse_destination(reference: Any, project: str, what: str) -> TableRef:
    """Read a reference to a table that a job writes, or refuse it."""
    found = parse_reference(reference, project, what)
    if found.moment:
        raise invalid(
            f"Invalid value for {what}: @{shortened(found.moment)[1:-1]} is a moment of the past, which "
            "cannot be written: leave it out."
        )
    return found


def moment_of(ref: TableRef, now: datetime) -> datetime | None:
    """The moment of a snapshot decorator: milliseconds since 1970, or before now if negative."""
    if not ref.moment:
        return None
    if _INTEGER.fullmatch(ref.moment) is None:
        raise invalid(
            f"Invalid snapshot time {shortened(ref.moment)} for table {ref.name.short}: write milliseconds "
            "since 1970 after @, or a negative number of them before now."
        )
    millis = int(ref.moment)
    if millis <= 0:
        millis += int(now.timestamp() * 1000)
    try:
        return datetime.fromtimestamp(millis / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        raise invalid(f"Invalid snapshot time {shortened(ref.moment)}: it is out of range.") from None


def check_partition(ref: TableRef, partitioning: Partitioning | None) -> None:
    """Refuse a partition that the table cannot have."""
    id = ref.partition
    if partitioning is None:
        raise invalid(
            f"Partition ${shortened(id)[1:-1]} of table {ref.name.short} does not exist: the table is not "
            "partitioned, leave the decorator out."
        )
    if id in _SPECIAL_IDS:
        return
    if isinstance(partitioning, RangePartitioning):
        first, interval = partitioning.start, partitioning.interval
        valid = _INTEGER.fullmatch(id) is not None and str(int(id)) == id
        if valid and partitioning.start <= int(id) < partitioning.end and (int(id) - first) % interval == 0:
            return
        form = f"the start of one of its ranges, such as {first}"
    else:
        if _moment(id, partitioning) is not None:
            return
        form = f"{_DIGITS[partitioning.unit]} digits for its {partitioning.unit}"
    raise invalid(f"Invalid partition ${shortened(id)[1:-1]} of table {ref.name.short}: write {form}.")


def arrival_ms(ref: TableRef, partitioning: Partitioning | None) -> int | None:
    """The time of arrival that puts rows into the partition, for tables that are partitioned by it."""
    if not ref.partition or not isinstance(partitioning, TimePartitioning) or partitioning.column:
        return None
    moment = _moment(ref.partition, partitioning)
    if moment is None:
        raise invalid(
            f"Rows cannot be written to ${ref.partition} of {ref.name.short}: name a {partitioning.unit}."
        )
    return int(moment.timestamp() * 1000)


def path_of(ref: TableRef, partitioning: Partitioning) -> str:
    """The path of the partition in the table's dataset."""
    if is_derived(partitioning):
        return partition_path((PARTITION_ID,), [ref.partition])
    if ref.partition in _SPECIAL_IDS:
        return partition_path((partitioning.column,), [None])
    moment = _moment(ref.partition, cast("TimePartitioning", partitioning))
    assert moment is not None
    return partition_path((partitioning.column,), [moment.date()])


def rows_of_partition(ref: TableRef, table: TableDefinition) -> pc.Expression:
    """The condition that is true for the rows of the partition."""
    import pyarrow.compute as pc

    partitioning = table.partitioning
    check_partition(ref, partitioning)
    assert partitioning is not None
    compute: Any = pc
    found: pc.Expression
    if is_derived(partitioning):
        found = compute.field(PARTITION_ID) == ref.partition
        return found
    column = compute.field(partitioning.column)
    if ref.partition in _SPECIAL_IDS:
        found = column.is_null()
        return found
    moment = _moment(ref.partition, cast("TimePartitioning", partitioning))
    assert moment is not None
    kind = table.schema.arrow.field(partitioning.column).type
    ends: list[Any] = [pa.scalar(day.date(), pa.date32()) for day in (moment, moment + timedelta(days=1))]
    if pa.types.is_timestamp(kind):
        # The zone is UTC, which a cast would look up.
        ends = [pa.scalar(day.cast(pa.timestamp("us")).value, kind) for day in ends]
    found = (column >= ends[0]) & (column < ends[1])
    return found


def _moment(id: str, partitioning: TimePartitioning) -> datetime | None:
    """The beginning of a partition; None if the id is not one."""
    if len(id) != _DIGITS[partitioning.unit] or not (id.isascii() and id.isdigit()):
        return None
    try:
        return datetime.strptime(id, _FORMATS[partitioning.unit]).replace(tzinfo=UTC)
    except ValueError:
        return None
