"""Columns of a read session: selected fields, also inside structs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from lode.format.ids import shortened
from lode.ingest.api.grpc_read.session import Outline
from lode.ingest.status import Code, Refused, invalid
from lode.ingest.types.arrow import is_list
from lode.ingest.types.columns import Column, TableSchema
from lode.lazy import pa, pt

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lode.ingest.catalog.table import TableDefinition


def select(table: TableDefinition, fields: Iterable[str]) -> TableSchema:
    """Return these columns in the table's order, or all if none is named. ``a.b`` is a field of a struct.

    The times of partitions must be named.
    """
    paths = [tuple(field.lower().split(".")) for field in fields]
    return TableSchema(_selected(table.readable.columns, paths, inside="")) if paths else table.schema


def _selected(columns: Sequence[Column], paths: list[tuple[str, ...]], inside: str) -> tuple[Column, ...]:
    by_name: dict[str, list[tuple[str, ...]]] = {column.name.lower(): [] for column in columns}
    for path in paths:
        if path[0] not in by_name:
            raise invalid(f"Selected field {shortened(inside + path[0])} is not a field of the table.")
        by_name[path[0]].append(path[1:])
    found = []
    for column in columns:
        tails = by_name[column.name.lower()]
        if not tails:
            continue
        if () not in tails:
            if column.type != "STRUCT":
                where = inside + ".".join((column.name, *tails[0]))
                raise invalid(
                    f"Selected field {shortened(where)} is inside {column.name!r}, which is no STRUCT."
                )
            inner = _selected(column.fields, tails, f"{inside}{column.name}.")
            column = msgspec.structs.replace(column, fields=inner)
        found.append(column)
    return tuple(found)


def outline(columns: Iterable[Column]) -> tuple[Outline, ...]:
    """Return the names of the columns. A session keeps its own columns when the table gets more."""
    return tuple(Outline(column.name, outline(column.fields)) for column in columns)


def follow(schema: TableSchema, outlines: Iterable[Outline]) -> TableSchema:
    """Return the outlined columns with their current definitions in the table."""
    return TableSchema(_followed(schema.columns, outlines))


def _followed(columns: Iterable[Column], outlines: Iterable[Outline]) -> tuple[Column, ...]:
    known = {column.name: column for column in columns}
    found = []
    for part in outlines:
        column = known.get(part.name)
        if column is None or bool(part.fields) != bool(column.fields):
            raise Refused(Code.NOT_FOUND, f"The session's column {shortened(part.name)} is not in the table.")
        found.append(msgspec.structs.replace(column, fields=_followed(column.fields, part.fields)))
    return tuple(found)


def column_paths(columns: Iterable[Column], inside: str = "") -> Iterator[str]:
    """Yield the path of every column that is not a struct."""
    for column in columns:
        if column.fields:
            yield from column_paths(column.fields, f"{inside}{column.name}.")
        else:
            yield inside + column.name


def stored_columns(wanted: TableSchema, stored: pa.Schema) -> list[int]:
    """Return the numbers of the columns of a Parquet file that hold ``wanted``."""
    return _leaves(stored, wanted.columns, _Counter())


class _Counter:
    def __init__(self) -> None:
        self.next = 0


def _leaves(fields: Iterable[Any], wanted: Sequence[Column], counter: _Counter) -> list[int]:
    by_name = {column.name: column for column in wanted}
    found: list[int] = []
    for field in fields:
        found += _leaves_of(field.type, by_name.get(field.name), counter)
    return found


def _leaves_of(kind: Any, column: Column | None, counter: _Counter) -> list[int]:
    """Return the needed leaves of one field. All leaves are counted, also those of other writers' types."""
    first = counter.next
    if isinstance(kind, pa.BaseExtensionType):
        return _leaves_of(kind.storage_type, column, counter)
    if is_list(kind):
        return _leaves_of(kind.value_type, column, counter)
    if pt.is_struct(kind) or pt.is_map(kind):
        members = [kind.key_field, kind.item_field] if pt.is_map(kind) else kind
        found = _leaves(members, column.children if column else (), counter)
        # Any field shows whether the struct is null. The first is read if the file has no selected field.
        return found if found or column is None else [first]
    counter.next += 1
    return [first] if column else []
