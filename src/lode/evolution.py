"""The rules by which the columns of a dataset may change, and by which data must fit them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from lode.codec.components import codec_named
from lode.codec.protocol import takes_first_schema
from lode.codec.schema import to_schema
from lode.errors import InvalidOptionError, SchemaViolationError
from lode.format.ids import is_utf8
from lode.lazy import pa, pt
from lode.near import column_hint

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.codec.schema import TypeSpec
    from lode.definition import Definition

Evolution: TypeAlias = "Callable[[Definition], Definition]"
"""A change of a definition, as a function: it is applied again if another writer changes it first."""

_UNITS: Final = {"s": 0, "ms": 1, "us": 2}
_LISTS: Final = ("is_list", "is_large_list")
_ON_WRITE: Final = "write(evolve=True), or the option mergeSchema in Spark"


def evolve(
    definition: Definition,
    *,
    add: Mapping[str, TypeSpec] | None = None,
    widen: Mapping[str, TypeSpec] | None = None,
    relax: Iterable[str] = (),
    rename: Mapping[str, str] | None = None,
    drop: Iterable[str] = (),
) -> Definition:
    """Return the definition with other columns: renamed, dropped, added, widened, relaxed, in that order.

    A change that is there already changes nothing.

    Raises:
        InvalidOptionError: A change names a column that is not there, or one that cannot be changed.
        SchemaViolationError: Rows that exist would not fit.
    """
    for what, change in (("add", add), ("widen", widen), ("rename", rename)):
        if change is not None and not isinstance(change, Mapping):
            raise InvalidOptionError(f"{what} is {change!r}: give a dict, such as {what}={{'name': …}}")
    if definition.columns is None:
        # A columnar codec takes the columns of the first rows. No write gives columns to the others.
        hint = (
            "write its first rows, which decide its columns"
            if takes_first_schema(codec_named(definition.codec))
            else "create another dataset with a schema, and write the rows there"
        )
        raise InvalidOptionError(f"the dataset has no schema, so there is nothing to evolve: {hint}")
    before = definition.digest
    for name, new in (rename or {}).items():
        definition = _rename(definition, name, new)
    for name in column_names("drop", drop):
        definition = _drop(definition, name)
    for name, kind in (add or {}).items():
        definition = _add(definition, name, _nullable_field(name, kind))
    for name, kind in (widen or {}).items():
        definition = _widen(definition, name, _nullable_field(name, kind).type)
    for name in column_names("relax", relax):
        definition = _replace(definition, name, _field(definition, name).with_nullable(True))
    return definition if definition.digest == before else _identified(definition)


def _identified(definition: Definition) -> Definition:
    """The definition with ids for all fields inside its columns, which those of earlier versions lack."""
    schema = definition.schema
    return definition if schema is None or definition.field_ids else definition.with_schema(schema)


def adopt(definition: Definition, schema: pa.Schema) -> Definition:
    """Return the definition with its first columns, or as it is if it has some."""
    return definition.with_schema(schema) if definition.columns is None else definition


def include(definition: Definition, schema: pa.Schema, *, declared: bool) -> Definition:
    """Return the definition evolved so that data of ``schema`` fits it.

    Args:
        definition: Has columns.
        schema: What is to fit.
        declared: Somebody wrote this schema down. Then a column that is nullable in it becomes nullable. The
            schema of Arrow data does not: nearly all of its columns are nullable.
    """
    stored = definition.schema
    assert stored is not None
    for field in schema:
        index = stored.get_field_index(field.name)
        if index < 0:
            definition = _add(definition, field.name, field.with_nullable(True))
            continue
        present = stored.field(index)
        if not is_wider(field.type, present.type):
            definition = _widen(definition, field.name, united(present.type, field.type) or field.type)
        if declared and field.nullable and not present.nullable:
            definition = _replace(definition, field.name, _field(definition, field.name).with_nullable(True))
    sent = set(schema.names)
    for field in stored:
        if field.name not in sent and not field.nullable:
            if field.name in (*definition.keys, *definition.primary_key):
                raise SchemaViolationError(
                    f"column {field.name!r} is a key of the dataset and missing in the data: add it",
                    column=field.name,
                )
            definition = _replace(definition, field.name, field.with_nullable(True))
    return definition


def has_null_types(definition: Definition) -> bool:
    """Return whether a column has had only nulls, so that its type is not known."""
    return any(column.type == "null" for column in definition.columns or ())


def type_null_columns(definition: Definition, schema: pa.Schema) -> Definition:
    """Return the definition with types for columns that had only nulls so far, as Arrow data had them.

    No value is lost by this, so it needs no ``evolve``.
    """
    stored = definition.schema
    for field in schema if stored is not None else ():
        index = stored.get_field_index(field.name) if stored is not None else -1
        if stored is not None and index >= 0 and pt.is_null(stored.field(index).type):
            definition = _widen(definition, field.name, field.type)
    return definition


def check_columns(definition: Definition, schema: pa.Schema, dataset_id: str) -> None:
    """Refuse data that lacks a required column or has an unknown one; values are checked one by one later."""
    stored = definition.schema
    if stored is None or stored is schema:
        return
    for field in schema:
        if field.name not in definition.ids:
            raise SchemaViolationError(
                f"column {field.name!r} ({field.type}) is not one of dataset {dataset_id!r}, which has "
                f"{', '.join(stored.names)}: add it with ds.evolve(add=…), {_ON_WRITE}",
                column=field.name,
            )
    for field in stored:
        if not field.nullable and field.name not in schema.names:
            raise SchemaViolationError(
                f"column {field.name!r} ({field.type}) is required in dataset {dataset_id!r} and missing in "
                "the data: add it, or make it optional with ds.evolve(relax=…)",
                column=field.name,
            )


def check_schema(definition: Definition, schema: pa.Schema, dataset_id: str) -> None:
    """Refuse data whose columns do not fit the dataset's.

    Raises:
        SchemaViolationError: A column is new, required and missing, or of a type that does not fit.
    """
    check_columns(definition, schema, dataset_id)
    stored = definition.schema
    if stored is not None and stored is not schema:
        for field in schema:
            check_type(field, stored.field(field.name), dataset_id)


def check_type(field: pa.Field[Any], stored: pa.Field[Any], dataset_id: str) -> None:
    """Refuse a column whose values may not fit the dataset's column of the same name."""
    if not is_wider(field.type, stored.type):
        wider = is_wider(stored.type, field.type)
        remedy = f"widen it with ds.evolve(widen=…), {_ON_WRITE}" if wider else "convert the data first"
        raise SchemaViolationError(
            f"column {field.name!r} is {field.type} in the data and {stored.type} in dataset "
            f"{dataset_id!r}: {remedy}",
            column=field.name,
        )


def is_wider(narrow: Any, wide: Any) -> bool:
    """Return whether every value of one type is also a value of the other: files need no rewriting."""
    if narrow == wide or pt.is_null(narrow):
        return True
    if isinstance(wide, pa.DictionaryType):
        # Every distinct value takes one number of the index.
        index = narrow.index_type if isinstance(narrow, pa.DictionaryType) else pa.int32()
        value = narrow.value_type if isinstance(narrow, pa.DictionaryType) else narrow
        return wide.index_type.bit_width >= index.bit_width and is_wider(value, wide.value_type)
    if isinstance(narrow, pa.DictionaryType):
        return is_wider(narrow.value_type, wide)
    if pt.is_integer(narrow):
        return _integer_fits(narrow, wide)
    if pt.is_floating(narrow):
        return bool(pt.is_floating(wide) and wide.bit_width >= narrow.bit_width)
    if pt.is_decimal(narrow) and pt.is_decimal(wide):
        digits = narrow.precision - narrow.scale
        return bool(wide.scale >= narrow.scale and wide.precision - wide.scale >= digits)
    if pt.is_timestamp(narrow) and pt.is_timestamp(wide):
        # Nanoseconds cover fewer years, so that no other unit fits them.
        return (narrow.tz is None) == (wide.tz is None) and (
            narrow.unit == wide.unit or _UNITS.get(narrow.unit, 9) <= _UNITS.get(wide.unit, -1)
        )
    if pt.is_struct(narrow) and pt.is_struct(wide):
        return _struct_fits(narrow, wide)
    if any(getattr(pt, test)(narrow) for test in _LISTS) and any(getattr(pt, test)(wide) for test in _LISTS):
        return _field_fits(narrow.value_field, wide.value_field)
    if pt.is_map(narrow) and pt.is_map(wide):
        return is_wider(narrow.key_type, wide.key_type) and _field_fits(narrow.item_field, wide.item_field)
    return any(
        any(getattr(pt, test)(narrow) for test in family) and any(getattr(pt, test)(wide) for test in family)
        for family in _SAME_VALUES
    )


def united(one: Any, other: Any) -> Any | None:
    """The narrowest type that has every value of both, members of structs joined; None if there is none."""
    if is_wider(other, one):
        return one
    if is_wider(one, other):
        return other
    if pt.is_struct(one) and pt.is_struct(other):
        return _united_struct(one, other)
    if any(getattr(pt, test)(one) for test in _LISTS) and any(getattr(pt, test)(other) for test in _LISTS):
        item = _united_field(one.value_field, other.value_field)
        make = pa.large_list if pt.is_large_list(one) or pt.is_large_list(other) else pa.list_
        return None if item is None else make(item)
    return None


def _united_struct(one: Any, other: Any) -> Any | None:
    others = {member.name: member for member in other}
    # A member that only one of them has is null in values of the other.
    members: list[Any] = [
        _united_field(member, others[member.name]) if member.name in others else member.with_nullable(True)
        for member in one
    ]
    names = {member.name for member in one}
    members += [member.with_nullable(True) for member in other if member.name not in names]
    return None if any(member is None for member in members) else pa.struct(members)


def _united_field(one: Any, other: Any) -> Any | None:
    kind = united(one.type, other.type)
    return None if kind is None else one.with_type(kind).with_nullable(one.nullable or other.nullable)


_SAME_VALUES: Final = (
    ("is_string", "is_large_string", "is_string_view"),
    ("is_binary", "is_large_binary", "is_binary_view"),
)


def _integer_fits(narrow: Any, wide: Any) -> bool:
    bits = narrow.bit_width
    if pt.is_integer(wide):
        if pt.is_signed_integer(narrow):
            return bool(pt.is_signed_integer(wide) and wide.bit_width >= bits)
        return bool(wide.bit_width >= bits if pt.is_unsigned_integer(wide) else wide.bit_width > bits)
    if pt.is_float64(wide):
        return bool(bits <= 32)
    if pt.is_decimal(wide):
        digits = len(str(2**bits))
        return bool(wide.precision - wide.scale >= digits)
    return False


def _struct_fits(narrow: Any, wide: Any) -> bool:
    members = {member.name: member for member in wide}
    present = {member.name for member in narrow}
    return all(
        member.name in members and _field_fits(member, members[member.name]) for member in narrow
    ) and all(member.nullable for member in wide if member.name not in present)


def _field_fits(narrow: Any, wide: Any) -> bool:
    return (wide.nullable or not narrow.nullable) and is_wider(narrow.type, wide.type)


def _rename(definition: Definition, name: str, new: str) -> Definition:
    _field(definition, name)
    _refuse_key(definition, "renamed", name)
    if not isinstance(new, str) or not new or not is_utf8(new) or new in definition.ids:
        raise InvalidOptionError(
            f"column {name!r} cannot be renamed to {new!r}: the name is taken or no name"
        )
    columns = tuple(
        msgspec.structs.replace(column, name=new) if column.name == name else column
        for column in definition.columns or ()
    )

    def renamed(names: Iterable[str]) -> tuple[str, ...]:
        return tuple(new if each == name else each for each in names)

    return msgspec.structs.replace(
        definition,
        columns=columns,
        timestamp_column=new if definition.timestamp_column == name else definition.timestamp_column,
        sort_by=renamed(definition.sort_by),
        primary_key=renamed(definition.primary_key),
    )


def _drop(definition: Definition, name: str) -> Definition:
    _field(definition, name)
    _refuse_key(definition, "dropped", name)
    for what, names in (
        ("timestamp column", [definition.timestamp_column]),
        ("sort order", definition.sort_by),
        ("primary key", definition.primary_key),
    ):
        if name in names:
            raise InvalidOptionError(f"column {name!r} is part of the {what}: it cannot be dropped")
    columns = tuple(column for column in definition.columns or () if column.name != name)
    if not columns:
        raise InvalidOptionError(f"column {name!r} is the only one: a dataset has at least one column")
    return msgspec.structs.replace(definition, columns=columns)


def _add(definition: Definition, name: str, field: pa.Field[Any]) -> Definition:
    schema = definition.schema
    assert schema is not None
    if name in definition.ids:
        present = schema.field(name)
        if present.type == field.type:
            return definition
        raise SchemaViolationError(
            f"column {name!r} is there already as {present.type}: it cannot be added as {field.type}",
            column=name,
        )
    return definition.with_schema(schema.append(field))


def _widen(definition: Definition, name: str, kind: Any) -> Definition:
    present = _field(definition, name)
    if kind == present.type or (is_wider(kind, present.type) and not is_wider(present.type, kind)):
        return definition
    if not is_wider(present.type, kind):
        raise SchemaViolationError(
            f"column {name!r} is {present.type}, which cannot be widened to {kind}: values could be lost",
            column=name,
        )
    _refuse_key(definition, "widened", name)
    return _replace(definition, name, present.with_type(kind))


def _replace(definition: Definition, name: str, field: pa.Field[Any]) -> Definition:
    schema = definition.schema
    assert schema is not None
    if schema.field(name).equals(field, check_metadata=True):
        return definition
    return definition.with_schema(schema.set(schema.get_field_index(name), field))


def _field(definition: Definition, name: str) -> pa.Field[Any]:
    schema = definition.schema
    assert schema is not None
    if name not in definition.ids:
        raise InvalidOptionError(
            f"there is no column {name!r} to change: {column_hint(name, list(definition.ids))}"
        )
    return schema.field(name)


def _refuse_key(definition: Definition, verb: str, name: str) -> None:
    if name in definition.keys:
        raise InvalidOptionError(
            f"column {name!r} is a partition key, whose name and values are part of every path: "
            f"it cannot be {verb}"
        )


def _nullable_field(name: str, kind: TypeSpec) -> pa.Field[Any]:
    field = to_schema({name: kind}).field(0)
    if not field.nullable:
        raise InvalidOptionError(
            f"column {name!r} cannot be added or widened as required: rows that exist have no value for it"
        )
    return field


def column_names(what: str, names: Iterable[str]) -> list[str]:
    if isinstance(names, str):
        raise InvalidOptionError(f"{what} is a list of columns: write {what}=[{names!r}]")
    found = list(names) if isinstance(names, Iterable) else [names]
    if not all(isinstance(name, str) for name in found):
        raise InvalidOptionError(f"{what} is {names!r}: give a list of column names")
    return found
