"""The rules for a table's keys. Keys are not enforced; changes find their rows by the primary key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lode.format.ids import shortened
from lode.ingest.status import invalid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lode.ingest.types.columns import TableSchema

MAX_KEY_COLUMNS: Final = 16
_KEY_TYPES: Final = ("BIGNUMERIC", "BOOL", "DATE", "DATETIME", "INT64", "NUMERIC", "STRING", "TIMESTAMP")


def check_keys(constraints: Mapping[str, Any], schema: TableSchema) -> None:
    """Refuse keys of columns that do not exist or cannot be keys; ``constraints`` as REST writes them."""
    primary = constraints.get("primaryKey")
    if primary is not None:
        _check_columns("primaryKey", primary["columns"], schema)
    for key in constraints.get("foreignKeys", ()):
        columns = [pair["referencingColumn"] for pair in key["columnReferences"]]
        _check_columns("foreignKeys", columns, schema)


def _check_columns(what: str, names: Sequence[str], schema: TableSchema) -> None:
    if not 0 < len(names) <= MAX_KEY_COLUMNS:
        raise invalid(f"The {what} has {len(names)} columns: a key has 1 to {MAX_KEY_COLUMNS}.")
    seen: set[str] = set()
    for name in names:
        position = schema.positions.get(name.lower())
        if position is None:
            raise invalid(
                f"The {what} names {shortened(name)}, which is no column of the table: add it to the schema."
            )
        if name.lower() in seen:
            raise invalid(f"The {what} names {shortened(name)} twice: name each column once.")
        seen.add(name.lower())
        column = schema.columns[position]
        if column.mode == "REPEATED" or column.type not in _KEY_TYPES:
            kind = "REPEATED" if column.mode == "REPEATED" else column.type
            raise invalid(
                f"The {what} names {column.name!r}, which is {kind}: a key has columns of the types "
                f"{', '.join(_KEY_TYPES)}."
            )
