"""When tables and partitions expire: by their own setting, or by the default of their dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from lode.ingest.catalog.partitioning import Partitioning, TimePartitioning
from lode.ingest.status import invalid

if TYPE_CHECKING:
    from collections.abc import Mapping

# The service's least time of a dataset's default for tables.
MIN_TABLE_EXPIRATION_MS: Final = 3_600_000
# Beyond the year 9999, which is the last that times are shown in.
MAX_MS: Final = 253_402_300_800_000


def milliseconds(value: Any, name: str, *, least: int = 1) -> int:
    """A number of milliseconds as REST sends it, 0 for none; refuses others."""
    try:
        number = int(value or 0)
    except (TypeError, ValueError):
        number = -1
    if number and not least <= number < MAX_MS:
        raise invalid(
            f"Invalid value for {name}: {str(value)[:40]!r} is not a number of milliseconds from {least}."
        )
    return number


def check_expiry(info: Mapping[str, Any], now_ms: int) -> None:
    """Refuse a table that expires before it is there."""
    expires = info.get("expirationTime")
    if expires is not None and milliseconds(expires, "expirationTime") <= now_ms:
        raise invalid(
            f"Invalid value for expirationTime: {expires} is not in the future. To remove a table, delete it."
        )


def with_default_expiry(
    partitioning: Partitioning | None, info: Mapping[str, Any], defaults: Mapping[str, Any], now_ms: int
) -> tuple[Partitioning | None, dict[str, Any]]:
    """A new table's partitioning and info, with the expirations that its dataset gives to tables.

    A default for partitions comes before one for tables.
    """
    wanted = dict(info)
    by_partition = int(defaults.get("defaultPartitionExpirationMs", 0))
    by_table = int(defaults.get("defaultTableExpirationMs", 0))
    if isinstance(partitioning, TimePartitioning) and (partitioning.expiration_ms or by_partition):
        chosen = partitioning.expiration_ms or by_partition
        return msgspec.structs.replace(partitioning, expiration_ms=chosen), wanted
    if by_table and "expirationTime" not in wanted:
        wanted["expirationTime"] = str(now_ms + by_table)
    return partitioning, wanted


def without_expiry(partitioning: Partitioning | None) -> Partitioning | None:
    """The partitioning itself, which cannot change."""
    if isinstance(partitioning, TimePartitioning):
        return msgspec.structs.replace(partitioning, expiration_ms=0)
    return partitioning
