"""The columns that a job may add to a table, or relax."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from lode.ingest.catalog.paths import display_name
from lode.ingest.status import Refused, invalid

if TYPE_CHECKING:
    from lode.ingest.catalog.table import TableDefinition
    from lode.ingest.types.columns import Column, TableSchema

UPDATES: Final = ("ALLOW_FIELD_ADDITION", "ALLOW_FIELD_RELAXATION")


class SchemaUpdate:
    """The change of a table's schema by a job that appends.

    Args:
        current: The table.
        declared: The client wrote the columns down, so their types must be those of the table. Columns of a
            file, or detected ones, are read by the table's types.
        updates: The permitted changes, of ``UPDATES``.
        ignore: Leave out columns that the table does not have.
    """

    def __init__(self, current: TableDefinition, *, declared: bool, updates: list[str], ignore: bool) -> None:
        self._current = current
        self._declared = declared
        self._adds = UPDATES[0] in updates
        self._relaxes = UPDATES[1] in updates
        self._ignore = ignore

    def schema(self, sent: TableSchema) -> TableSchema:
        """The table's schema after the job, or a refusal in the words of the service."""
        columns = self._columns(self._current.schema.columns, sent.columns, "")
        return msgspec.structs.replace(self._current.schema, columns=columns)

    def _columns(self, old: tuple[Column, ...], new: tuple[Column, ...], path: str) -> tuple[Column, ...]:
        by_name = {column.name.lower(): column for column in new}
        kept = [self._column(column, by_name.pop(column.name.lower(), None), path) for column in old]
        for column in by_name.values():
            if self._adds:
                mode = "NULLABLE" if column.mode == "REQUIRED" else column.mode
                kept.append(msgspec.structs.replace(column, mode=mode))
            elif not self._ignore:
                raise self._mismatch(f"Cannot add fields (field: {path}{column.name})")
        return tuple(kept)

    def _column(self, old: Column, new: Column | None, path: str) -> Column:
        where = path + old.name
        if new is None:
            relaxes = self._relaxes and old.mode == "REQUIRED"
            return msgspec.structs.replace(old, mode="NULLABLE") if relaxes else old
        if self._declared and old.type != new.type:
            raise self._mismatch(f"Field {where} has changed type from {old.type} to {new.type}")
        mode = old.mode
        if old.mode != new.mode and self._declared:
            if old.mode == "REQUIRED" and new.mode == "NULLABLE" and self._relaxes:
                mode = new.mode
            elif (old.mode, new.mode) != ("NULLABLE", "REQUIRED"):
                raise self._mismatch(f"Field {where} has changed mode from {old.mode} to {new.mode}")
        elif self._relaxes and old.mode == "REQUIRED" and new.mode == "NULLABLE":
            mode = "NULLABLE"
        fields = (
            self._columns(old.fields, new.fields, f"{where}.") if old.fields and new.fields else old.fields
        )
        return msgspec.structs.replace(old, mode=mode, fields=fields)

    def _mismatch(self, reason: str) -> Refused:
        return invalid(f"Provided Schema does not match Table {display_name(self._current.name)}. {reason}")
