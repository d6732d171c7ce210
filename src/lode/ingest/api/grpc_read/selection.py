"""Which columns a read session shows: chosen by name, inside structs too, and kept in the session's name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from lode.ingest.status import Code, Refused, invalid
from lode.ingest.types.arrow import is_list
from lode.ingest.types.columns import Column, TableSchema
from lode.lazy import pa, pt

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class Outline(msgspec.Struct, frozen=True, array_like=True):
    """A column by name, with the fields of it that are shown if it is a struct."""

    name: str
    fields: tuple[Outline, ...] = ()


def select(schema: TableSchema, fields: Iterable[str]) -> TableSchema:
    """Only these columns, ``a.b`` being a field of a struct, in the table's order; all if none is named."""
    paths = [tuple(field.lower().split(".")) for field in fields]
    if not paths:
        return schema
    return TableSchema(_chosen(schema.columns, paths, inside=""))


def _chosen(columns: Sequence[Column], paths: list[tuple[str, ...]], inside: str) -> tuple[Column, ...]:
    by_name: dict[str, list[tuple[str, ...]]] = {column.name.lower(): [] for column in columns}
    for path in paths:
        if path[0] not in by_name:
            raise invalid(f"Selected field {shown(inside + path[0])} is not a field of the table.")
        by_name[path[0]].append(path[1:])
    found = []
    for column in columns:
        tails = by_name[column.name.lower()]
        if not tails:
            continue
        if () not in tails:
            if column.type != "STRUCT":
                where = inside + ".".join((column.name, *tails[0]))
                raise invalid(f"Selected field {shown(where)} is inside {column.name!r}, which is no STRUCT.")
            inner = _chosen(column.fields, tails, f"{inside}{column.name}.")
            column = msgspec.structs.replace(column, fields=inner)
        found.append(column)
    return tuple(found)


def outline(schema: TableSchema) -> tuple[Outline, ...]:
    """The columns by name, so that a session keeps its own when the table gets more."""
    return _outlined(schema.columns)


def _outlined(columns: Iterable[Column]) -> tuple[Outline, ...]:
    return tuple(Outline(column.name, _outlined(column.fields)) for column in columns)


def follow(schema: TableSchema, shape: Iterable[Outline]) -> TableSchema:
    """The columns that an outline names, as the table has them today."""
    return TableSchema(_followed(schema.columns, shape))


def _followed(columns: Iterable[Column], shape: Iterable[Outline]) -> tuple[Column, ...]:
    known = {column.name: column for column in columns}
    found = []
    for part in shape:
        column = known.get(part.name)
        if column is None or bool(part.fields) != bool(column.fields):
            raise Refused(Code.NOT_FOUND, f"The session's column {shown(part.name)} is not in the table.")
        found.append(msgspec.structs.replace(column, fields=_followed(column.fields, part.fields)))
    return tuple(found)


def paths(schema: TableSchema) -> Iterator[str]:
    """Every column that is no struct, by its path."""
    return _paths(schema.columns, "")


def _paths(columns: Iterable[Column], inside: str) -> Iterator[str]:
    for column in columns:
        if column.fields:
            yield from _paths(column.fields, f"{inside}{column.name}.")
        else:
            yield inside + column.name


def stored_columns(wanted: TableSchema, stored: pa.Schema) -> list[int]:
    """The columns of a Parquet file, by their numbers, that are needed to read ``wanted`` from it."""
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
    """The leaves of one field that are needed; all are counted, also those of other writers' types."""
    first = counter.next
    if isinstance(kind, pa.BaseExtensionType):
        return _leaves_of(kind.storage_type, column, counter)
    if is_list(kind):
        return _leaves_of(kind.value_type, column, counter)
    if pt.is_struct(kind) or pt.is_map(kind):
        members = [kind.key_field, kind.item_field] if pt.is_map(kind) else kind
        found = _leaves(members, column.children if column else (), counter)
        # Whether the struct is null is told by any of its fields, also when all the wanted ones came later.
        return found if found or column is None else [first]
    counter.next += 1
    return [first] if column else []


def shown(text: str) -> str:
    """A client's text as a message can carry it."""
    return repr(text if len(text) <= 120 else text[:117] + "…")
