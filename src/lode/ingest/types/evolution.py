"""How a table's schema may change: what is there stays readable, and writers of before keep working."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lode.ingest.status import invalid

if TYPE_CHECKING:
    from lode.ingest.types.columns import Column, TableSchema


def check_evolution(old: TableSchema, new: TableSchema) -> None:
    """Refuse a change other than added NULLABLE or REPEATED columns and REQUIRED made NULLABLE.

    Descriptions and defaults may change, and lengths and precisions may grow. Columns may not be renamed,
    not even in their case, since stored files know them by name.
    """
    _check_level(old.columns, new.columns, path="")


def _check_level(old: tuple[Column, ...], new: tuple[Column, ...], path: str) -> None:
    after = {column.name: column for column in new}
    before = {column.name for column in old}
    for column in old:
        if column.name not in after:
            raise invalid(
                f"Column {path + column.name!r} is missing in the new schema: columns cannot be removed."
            )
        _check_column(column, after[column.name], path + column.name)
    for column in new:
        if column.name not in before and column.mode == "REQUIRED":
            raise invalid(
                f"Column {path + column.name!r} is new and REQUIRED: older rows lack it, make it NULLABLE."
            )


def _check_column(old: Column, new: Column, where: str) -> None:
    if (old.type, old.range_element) != (new.type, new.range_element):
        raise invalid(
            f"Column {where!r} cannot change from {old.type} to {new.type}: add a new column instead."
        )
    if old.mode != new.mode and (old.mode, new.mode) != ("REQUIRED", "NULLABLE"):
        raise invalid(
            f"Column {where!r} cannot change from {old.mode} to {new.mode}: "
            "only REQUIRED can change, and only to NULLABLE."
        )
    if new.max_length and not 0 < old.max_length <= new.max_length:
        raise invalid(
            f"Column {where!r} cannot have a shorter length than before: longer values may be stored."
        )
    if (new.precision or new.scale) and not _contains(new, old):
        raise invalid(f"Column {where!r} cannot have fewer digits than before: longer values may be stored.")
    _check_level(old.fields, new.fields, where + ".")


def _contains(new: Column, old: Column) -> bool:
    """Whether every number of the old precision and scale is one of the new."""
    if not old.precision:
        return False
    return new.scale >= old.scale and new.precision - new.scale >= old.precision - old.scale
