"""Query parameters: their types and values, as literals in the tree of a query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from lode.ingest.types.columns import ALIASES, TYPES
from lode.sql.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Sequence

_MAX_DEPTH = 15


def read(parameters: Sequence[Any]) -> tuple[dict[str, exp.Expression], list[exp.Expression]]:
    """The named and the positional parameters of a request."""
    named: dict[str, exp.Expression] = {}
    positional: list[exp.Expression] = []
    if not isinstance(parameters, list):
        raise QueryError(
            "Invalid value for queryParameters: it must be a list.", reason="invalid", location=""
        )
    for each in parameters:
        if not isinstance(each, dict) or not isinstance(each.get("parameterType"), dict):
            raise QueryError(
                "A query parameter must be an object with a parameterType.", reason="invalid", location=""
            )
        value = _value(each["parameterType"], each.get("parameterValue") or {}, 0)
        name = each.get("name")
        if name:
            named[str(name).lower()] = value
        else:
            positional.append(value)
    return named, positional


def _kind(kind: Any, depth: int) -> exp.DataType:
    if depth > _MAX_DEPTH or not isinstance(kind, dict):
        raise QueryError("Invalid type of a query parameter.", reason="invalid", location="")
    name = str(kind.get("type", "")).upper()
    name = ALIASES.get(name, name)
    if name == "ARRAY":
        inner = _kind(kind.get("arrayType"), depth + 1)
        return exp.DataType(this=exp.DType.ARRAY, expressions=[inner], nested=True)
    if name == "STRUCT":
        fields = [
            exp.ColumnDef(
                this=exp.to_identifier(str(field.get("name") or f"_field_{number}"), quoted=True),
                kind=_kind(field.get("type"), depth + 1),
            )
            for number, field in enumerate(kind.get("structTypes") or (), 1)
        ]
        return exp.DataType(this=exp.DType.STRUCT, expressions=fields, nested=True)
    if name == "RANGE":
        element = str((kind.get("rangeElementType") or {}).get("type", "DATE")).upper()
        return exp.DataType.build(
            f"RANGE<{element if element in ('DATE', 'DATETIME', 'TIMESTAMP') else 'DATE'}>",
            dialect="bigquery",
        )
    if name not in TYPES:
        raise QueryError(f"Invalid type of a query parameter: {name[:100]}", reason="invalid", location="")
    return exp.DataType.build(name, dialect="bigquery")


def _value(kind: dict[str, Any], value: dict[str, Any], depth: int) -> exp.Expression:
    made = _kind(kind, depth)
    name = str(kind.get("type", "")).upper()
    if name == "ARRAY":
        items = value.get("arrayValues")
        if items is None:
            items = []
        inner = [_value(kind["arrayType"], item, depth + 1) for item in items]
        return exp.Cast(this=exp.Array(expressions=inner), to=made)
    if name in ("STRUCT", "RECORD"):
        values = value.get("structValues") or {}
        fields = [
            exp.PropertyEQ(
                this=exp.to_identifier(str(field.get("name") or f"_field_{number}"), quoted=True),
                expression=_value(field["type"], values.get(field.get("name")) or {}, depth + 1),
            )
            for number, field in enumerate(kind.get("structTypes") or (), 1)
        ]
        return exp.Struct(expressions=fields)
    if name == "RANGE":
        ends = value.get("rangeValue") or {}
        start, end = ((ends.get(key) or {}).get("value") or "UNBOUNDED" for key in ("start", "end"))
        return exp.Cast(this=exp.Literal.string(f"[{start}, {end})"), to=made)
    text = value.get("value")
    if text is None:
        return exp.Cast(this=exp.Null(), to=made)
    literal: exp.Expression = exp.Literal.string(str(text))
    if name == "BYTES":
        import base64

        try:
            plain = base64.b64decode(str(text))
        except ValueError:
            raise QueryError(
                "Invalid value of a query parameter: it is not base64.", reason="invalid", location=""
            ) from None
        return exp.Anonymous(
            this="FROM_BASE64", expressions=[exp.Literal.string(base64.b64encode(plain).decode())]
        )
    if name == "JSON":
        return exp.Anonymous(this="PARSE_JSON", expressions=[literal])
    return exp.Cast(this=literal, to=made)
