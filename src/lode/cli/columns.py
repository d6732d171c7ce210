"""Columns of definitions as people and scripts see them, and what changed between two definitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from lode.cli.listing import Listing

if TYPE_CHECKING:
    from lode.definition import Column, Definition


class Change(NamedTuple):
    """One column that differs; ``was`` or ``now`` is None where there is no such column."""

    name: str
    was: str | None
    now: str | None
    renamed_from: str | None = None


def type_text(column: Column) -> str:
    """The type as in a schema: ``int64``, and ``int64!`` for a required column."""
    return column.type_text if column.nullable else f"{column.type_text}!"


def changes_between(before: Definition, after: Definition, *, by_id: bool = True) -> list[Change]:
    """The columns that differ.

    Args:
        before: The older definition.
        after: The newer definition.
        by_id: Whether a column is found by its id, which it keeps when it is renamed. Ids of definitions that
            were derived from files say nothing about each other.
    """
    old = {(column.id if by_id else column.name): column for column in before.columns or ()}
    new = {(column.id if by_id else column.name): column for column in after.columns or ()}
    found = []
    for key, column in new.items():
        then = old.get(key)
        if then is None:
            found.append(Change(column.name, None, type_text(column)))
        elif then.name != column.name or type_text(then) != type_text(column):
            renamed = then.name if then.name != column.name else None
            found.append(Change(column.name, type_text(then), type_text(column), renamed))
    gone = [Change(column.name, type_text(column), None) for key, column in old.items() if key not in new]
    return gone + found


def changes_as_json(changes: list[Change]) -> dict[str, Any]:
    """What changed, for scripts: the types by the present name, and the renames.

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


def changes_listing(changes: list[Change]) -> Listing:
    """What changed, for people."""
    listing = Listing("column", "was", "is")
    for change in changes:
        was = change.was or "not there"
        if change.renamed_from:
            was = f"{change.renamed_from} {was}"
        listing.add(change.name, was, change.now or "not there")
    return listing


def columns_listing(definition: Definition) -> Listing:
    """The columns of a definition."""
    listing = Listing("column", "type")
    for column in definition.columns or ():
        listing.add(column.name, type_text(column))
    return listing


def definition_as_json(definition: Definition) -> dict[str, Any]:
    """The definition as it is stored."""
    found: dict[str, Any] = msgspec.json.decode(definition.data)
    return found
