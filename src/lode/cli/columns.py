"""The columns of definitions for people and scripts, and the changes between two definitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from lode.cli.terminal import TextTable

if TYPE_CHECKING:
    from lode.definition import Column, Definition


class ColumnChange(NamedTuple):
    """One column that differs. ``was`` or ``now`` is None if the column does not exist on that side."""

    name: str
    was: str | None
    now: str | None
    renamed_from: str | None = None


def type_text(column: Column) -> str:
    """The type as in a schema: ``int64``, and ``int64!`` for a required column."""
    return column.type_text if column.nullable else f"{column.type_text}!"


def changes_between(before: Definition, after: Definition, *, by_id: bool = True) -> list[ColumnChange]:
    """The columns that differ.

    Args:
        before: The older definition.
        after: The newer definition.
        by_id: Whether to match columns by id, which renames keep. The ids of definitions that are derived
            from files are not comparable.
    """
    old = {(column.id if by_id else column.name): column for column in before.columns or ()}
    new = {(column.id if by_id else column.name): column for column in after.columns or ()}
    found = []
    for key, column in new.items():
        then = old.get(key)
        if then is None:
            found.append(ColumnChange(column.name, None, type_text(column)))
        elif then.name != column.name or type_text(then) != type_text(column):
            renamed = then.name if then.name != column.name else None
            found.append(ColumnChange(column.name, type_text(then), type_text(column), renamed))
    gone = [
        ColumnChange(column.name, type_text(column), None) for key, column in old.items() if key not in new
    ]
    return gone + found


def changes_as_json(changes: list[ColumnChange]) -> dict[str, Any]:
    """The old and new types by present name, and the renames.

    A column that was dropped and added again under its name is one entry with both types.
    """
    columns: dict[str, list[str | None]] = {}
    for change in changes:
        was = columns.get(change.name, [None, None])[0]
        columns[change.name] = [change.was or was, change.now]
    return {
        "columns": columns,
        "renamed": {change.renamed_from: change.name for change in changes if change.renamed_from},
    }


def changes_table(changes: list[ColumnChange]) -> TextTable:
    table = TextTable("column", "was", "is")
    for change in changes:
        was = change.was or "not there"
        if change.renamed_from:
            was = f"{change.renamed_from} {was}"
        table.add(change.name, was, change.now or "not there")
    return table


def columns_table(definition: Definition) -> TextTable:
    table = TextTable("column", "type")
    for column in definition.columns or ():
        table.add(column.name, type_text(column))
    return table


def definition_as_json(definition: Definition) -> dict[str, Any]:
    """The definition as it is stored."""
    found: dict[str, Any] = msgspec.json.decode(definition.data)
    return found
