"""The ids of columns and of the fields inside them: in definitions, and in Parquet files.

A definition has the id of each column, and inside its type the ids of the members of structs, the elements of
lists, and the keys and values of maps. A Parquet file has them as field ids: of all columns, or of none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from lode.lazy import pa, pt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

KEY: Final = b"PARQUET:field_id"

_LISTS: Final = ("list", "large_list", "list_view", "large_list_view")
_ELEMENT: Final = "element"
# Field ids of Parquet have 32 bits.
_MAX_ID: Final = 2**31 - 1

Json: TypeAlias = "dict[str, Any]"


class FieldId(NamedTuple):
    """The id of a column or of a field inside one, and those of the fields inside of it, by their places."""

    id: int
    inside: dict[str, FieldId]


FieldIds: TypeAlias = "dict[str, FieldId]"
"""The ids of columns, by their names."""


def with_ids(kind: Any, before: Any, take: Callable[[], int]) -> Any:
    """A type of a definition in which every field has an id.

    Args:
        kind: The type as JSON.
        before: The type of the same column so far, whose fields keep their ids; None if there is none.
        take: Returns the next id.
    """
    known = dict(_children(before))

    def numbered(place: str, field: Json) -> Json:
        old = known.get(place, {})
        id = _id(old) or take()
        return _renumbered({**field, "type": with_ids(field["type"], old.get("type"), take)}, id)

    match kind:
        case {"struct": list()}:
            return {"struct": [numbered(place, member) for place, member in _children(kind)]}
        case {"map": dict() as inner}:
            return {"map": {**inner, **{place: numbered(place, field) for place, field in _children(kind)}}}
        case {"fixed_size_list": dict() as inner}:
            return {"fixed_size_list": {**inner, "item": numbered(_ELEMENT, inner["item"])}}
        case dict() if (name := next(iter(kind), "")) in _LISTS:
            return {name: numbered(_ELEMENT, kind[name])}
    return kind


def _renumbered(field: Json, id: int) -> Json:
    return {"id": id, **{name: value for name, value in field.items() if name != "id"}}


def ids_inside(kind: Any) -> Iterator[object]:
    """What a type of a definition has as ids of fields, at every depth; None for a field without one."""
    for _, field in _children(kind):
        yield field.get("id")
        yield from ids_inside(field.get("type"))


def ids_of(columns: Iterable[tuple[str, int, Any]]) -> FieldIds | None:
    """The ids of columns, given as (name, id, type); None if a field has none."""
    found: FieldIds = {}
    for name, id, kind in columns:
        inside = _inside(kind)
        if inside is None or not 0 < id <= _MAX_ID:
            return None
        found[name] = FieldId(id, inside)
    return found


def _inside(kind: Any) -> FieldIds | None:
    found: FieldIds = {}
    for place, field in _children(kind):
        id, inside = _id(field), _inside(field["type"])
        if id is None or inside is None:
            return None
        found[place] = FieldId(id, inside)
    return found


def _id(field: Json) -> int | None:
    id = field.get("id")
    return id if type(id) is int and 0 < id <= _MAX_ID else None


def _children(kind: Any) -> Iterator[tuple[str, Json]]:
    """The fields directly inside a type, with their places: a name, or what the field is of a list or map."""
    match kind:
        case {"struct": list() as members}:
            yield from _placed((str(member.get("name")), member) for member in members)
        case {"map": {"key": dict() as key, "value": dict() as value}}:
            yield from (("key", key), ("value", value))
        case {"fixed_size_list": {"item": dict() as item}}:
            yield _ELEMENT, item
        case dict() if (name := next(iter(kind), "")) in _LISTS and isinstance(kind[name], dict):
            yield _ELEMENT, kind[name]


def _placed(members: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Give each of several members with one name a place of its own. Arrow allows them."""
    seen: set[str] = set()
    for name, member in members:
        while name in seen:
            name += "\0"
        seen.add(name)
        yield name, member


def disagreement(staged: Mapping[str, FieldId], ids: Mapping[str, FieldId]) -> str | None:
    """The first column of a file whose ids are others than those of the dataset; None if there is none.

    A column or field that the dataset does not have any more is not looked at: no reader finds it.
    """
    for name, field in staged.items():
        now = ids.get(name)
        if now is None:
            continue
        if now.id != field.id or disagreement(field.inside, now.inside) is not None:
            return name
    return None


def identified(schema: pa.Schema, ids: FieldIds) -> pa.Schema | None:
    """The schema with the ids as Parquet writers take them; None if it has a field without one."""
    fields = [_identified(field, ids.get(field.name)) for field in schema]
    if any(field is None for field in fields):
        return None
    metadata: Any = schema.metadata
    return pa.schema([field for field in fields if field is not None], metadata=metadata)


def _identified(field: pa.Field[Any], id: FieldId | None) -> pa.Field[Any] | None:
    if id is None:
        return None
    kind = _rebuilt(field.type, lambda place, inner: _identified(inner, id.inside.get(place)))
    if kind is None:
        return None
    metadata: Any = {**(field.metadata or {}), KEY: str(id.id).encode()}
    return field.with_type(kind).with_metadata(metadata)


def unidentified(schema: pa.Schema) -> pa.Schema:
    """The schema without the ids that a Parquet file has; the same object if it has none."""
    fields = [unidentified_field(field) for field in schema]
    if all(new is old for new, old in zip(fields, schema, strict=True)):
        return schema
    metadata: Any = schema.metadata
    return pa.schema(fields, metadata=metadata)


def unidentified_field(field: pa.Field[Any]) -> pa.Field[Any]:
    """The field without ids; the same object if it has none."""
    if not _has_id(field):
        return field
    kind = _rebuilt(field.type, lambda _, inner: unidentified_field(inner))
    assert kind is not None
    kept = {name: value for name, value in (field.metadata or {}).items() if name != KEY}
    metadata: Any = kept or None
    return field.with_type(kind).with_metadata(metadata)


def _has_id(field: pa.Field[Any]) -> bool:
    return KEY in (field.metadata or {}) or any(_has_id(inner) for _, inner in _fields(field.type))


def _fields(kind: Any) -> list[tuple[str, Any]]:
    """The fields directly inside an Arrow type, with their places as in a definition."""
    if not pt.is_nested(kind) or isinstance(kind, pa.BaseExtensionType):
        return []
    if pt.is_struct(kind):
        return list(_placed((member.name, member) for member in kind))
    if pt.is_map(kind):
        return [("key", kind.key_field), ("value", kind.item_field)]
    # Unions and run-end encoded arrays, which have other fields, are in no Parquet file.
    return [(_ELEMENT, kind.value_field)] if hasattr(kind, "value_field") else []


def _rebuilt(kind: Any, change: Callable[[str, Any], Any]) -> Any:
    """The type with other fields inside; None if one of them is None."""
    inner = [change(place, field) for place, field in _fields(kind)]
    if not inner:
        return kind
    if any(field is None for field in inner):
        return None
    if pt.is_struct(kind):
        return pa.struct(inner)
    if pt.is_map(kind):
        make_map: Any = pa.map_  # the stubs do not know fields as keys and values
        return make_map(*inner, keys_sorted=kind.keys_sorted)
    if pt.is_fixed_size_list(kind):
        return pa.list_(inner[0], kind.list_size)
    for name in _LISTS:
        if getattr(pt, f"is_{name}")(kind):
            return getattr(pa, "list_" if name == "list" else name)(inner[0])
    return kind
