"""``_PARTITIONTIME`` and ``_PARTITIONDATE``: when the partition of a row began, by its time of arrival.

Tables that are partitioned by time of arrival have them for readers. They are computed from ``_PARTITIONID``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lode.format.paths import partition_values
from lode.ingest.catalog.partitioning import PARTITION_ID, TimePartitioning
from lode.ingest.types.columns import Column, TableSchema
from lode.lazy import pa, pc

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lode.ingest.catalog.partitioning import Partitioning, Unit

PARTITION_TIME: Final = "_PARTITIONTIME"
PARTITION_DATE: Final = "_PARTITIONDATE"
COLUMNS: Final = (Column(PARTITION_TIME, "TIMESTAMP"), Column(PARTITION_DATE, "DATE"))
_NAMES: Final = frozenset(column.name for column in COLUMNS)
_ID: Final = Column(PARTITION_ID, "STRING")
# What completes an id to a day, and the form of that.
_FORMS: Final[dict[Unit, tuple[str, str]]] = {
    "YEAR": ("0101", "%Y%m%d"),
    "MONTH": ("01", "%Y%m%d"),
    "DAY": ("", "%Y%m%d"),
    "HOUR": ("", "%Y%m%d%H"),
}


def by_arrival(partitioning: Partitioning | None) -> TimePartitioning | None:
    """The partitioning, if it is by time of arrival."""
    if isinstance(partitioning, TimePartitioning) and not partitioning.column:
        return partitioning
    return None


def is_partition_time(name: str) -> bool:
    return name in _NAMES


def stored(columns: Iterable[Column]) -> TableSchema:
    """The columns of files that these are made of."""
    given = tuple(columns)
    kept = tuple(column for column in given if column.name not in _NAMES)
    return TableSchema(kept if len(kept) == len(given) else (*kept, _ID))


def with_partition_times(
    batch: pa.RecordBatch, columns: Iterable[Column], partitioning: Partitioning | None
) -> pa.RecordBatch:
    """Add those of the two columns that are wanted."""
    wanted = [column.name for column in columns if column.name in _NAMES]
    by = by_arrival(partitioning)
    if not wanted or by is None or PARTITION_ID not in batch.schema.names:
        return batch
    ending, form = _FORMS[by.unit]
    ids = pc.binary_join_element_wise(batch.column(PARTITION_ID).cast(pa.string()), ending, "")
    times = pc.strptime(ids, format=form, unit="us", error_is_null=True)
    for name in wanted:
        # The zone is UTC. A view instead of a cast needs no time zone database.
        made = times.cast(pa.date32()) if name == PARTITION_DATE else times.view(pa.timestamp("us", "UTC"))
        batch = batch.append_column(name, made)
    return batch


def with_day(partition: str) -> str:
    """The path of a partition with the day on which it began, so that files can be left out by it."""
    id = partition_values(partition).get(PARTITION_ID)
    if id is None or not id.isascii() or not id.isdigit() or len(id) not in (4, 6, 8, 10):
        return partition
    day = f"{id[:4]}-{id[4:6] or '01'}-{id[6:8] or '01'}"
    return f"{partition}/{PARTITION_TIME}={day}/{PARTITION_DATE}={day}"
