"""Schemas as the REST v2 API writes them: ``{"fields": [{"name", "type", "mode", …}]}``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from lode.ingest.status import invalid
from lode.ingest.types.check import check_schema
from lode.ingest.types.columns import ALIASES, Column, TableSchema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lode.ingest.types.columns import Mode

# REST v2 answers with the older names, and clients compare with them.
_LEGACY: Final = {"INT64": "INTEGER", "FLOAT64": "FLOAT", "BOOL": "BOOLEAN", "STRUCT": "RECORD"}
# Attributes that would change the values or the access to them. Ignoring them would mislead.
_UNSUPPORTED: Final = ("policyTags", "dataPolicies", "collation", "foreignTypeDefinition")
_MAX_PARSED_DEPTH: Final = 32


def from_rest(schema: Mapping[str, Any]) -> TableSchema:
    """Read and check the ``schema`` of a table resource; type names may be legacy or standard."""
    return check_schema(TableSchema(_columns(schema, where="", depth=0)))


def to_rest(schema: TableSchema) -> dict[str, Any]:
    """The ``schema`` of a table resource."""
    return {"fields": [_to_field(column) for column in schema]}


def _columns(holder: Mapping[str, Any], where: str, depth: int) -> tuple[Column, ...]:
    if not isinstance(holder, dict):
        raise invalid("A schema must be an object with a list of fields.")
    fields = holder.get("fields")
    if fields is None:
        return ()
    if not isinstance(fields, list):
        raise invalid(f"The fields of {where or 'the schema'} must be a list.")
    # The checks name the limit; this one keeps a hostile depth from exhausting the stack before them.
    if depth > _MAX_PARSED_DEPTH:
        raise invalid(f"Column {where!r} is nested too deep.")
    return tuple(_column(field, where, depth) for field in fields)


def _column(field: Any, parent: str, depth: int) -> Column:
    if not isinstance(field, dict) or not isinstance(field.get("name"), str):
        raise invalid(f"Each field of {parent or 'the schema'} must be an object with a name.")
    name = field["name"]
    where = f"{parent}.{name}" if parent else name
    for attribute in _UNSUPPORTED:
        if _has_content(field.get(attribute)):
            raise invalid(f"Column {where!r} has {attribute}, which Lode does not have: leave it out.")
    if _integer(field, "timestampPrecision", where) not in (0, 6):
        raise invalid(f"Column {where!r} has a timestampPrecision other than 6: Lode stores microseconds.")
    element = field.get("rangeElementType") or {}
    if not isinstance(element, dict):
        raise invalid(f"Column {where!r} has a rangeElementType that is not an object with a type.")
    return Column(
        name,
        _type(field, where),
        # The checks refuse modes that do not exist.
        cast("Mode", (_text(field, "mode", where) or "NULLABLE").upper()),
        _columns(field, where, depth + 1),
        description=_text(field, "description", where),
        default=_text(field, "defaultValueExpression", where),
        max_length=_integer(field, "maxLength", where),
        precision=_integer(field, "precision", where),
        scale=_integer(field, "scale", where),
        range_element=_type(element, where) if element else "",
        rounding=_rounding(field, where),
    )


def _has_content(value: Any) -> bool:
    """Whether an attribute has content; clients also send empty ones."""
    if isinstance(value, dict):
        return any(value.values())
    return bool(value)


def _rounding(field: dict[str, Any], where: str) -> str:
    mode = _text(field, "roundingMode", where)
    return "" if mode == "ROUNDING_MODE_UNSPECIFIED" else mode


def _type(field: dict[str, Any], where: str) -> str:
    name = _text(field, "type", where).upper()
    if not name:
        raise invalid(f"Column {where!r} has no type.")
    return ALIASES.get(name, name)


def _text(field: dict[str, Any], key: str, where: str) -> str:
    value = field.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise invalid(f"The {key} of column {where!r} must be text, not {value!r}.")
    return value


def _integer(field: dict[str, Any], key: str, where: str) -> int:
    """JSON writes 64-bit integers as text; numbers are taken, too."""
    value = field.get(key)
    if value is None:
        return 0
    try:
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise ValueError(value)
        number = int(value)
    except ValueError:
        raise invalid(f"The {key} of column {where!r} must be a whole number, not {value!r}.") from None
    if not -(1 << 63) <= number < 1 << 63:
        raise invalid(f"The {key} of column {where!r} is too large.")
    return number


def _to_field(column: Column) -> dict[str, Any]:
    field: dict[str, Any] = {
        "name": column.name,
        "type": _LEGACY.get(column.type, column.type),
        "mode": column.mode,
    }
    if column.fields:
        field["fields"] = [_to_field(child) for child in column.fields]
    if column.description:
        field["description"] = column.description
    if column.default:
        field["defaultValueExpression"] = column.default
    for key, number in (
        ("maxLength", column.max_length),
        ("precision", column.precision),
        ("scale", column.scale),
    ):
        if number:
            field[key] = str(number)
    if column.range_element:
        field["rangeElementType"] = {"type": column.range_element}
    if column.rounding:
        field["roundingMode"] = column.rounding
    return field
