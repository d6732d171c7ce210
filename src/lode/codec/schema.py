"""Schemas in few words: ``{"id": "int64!", "tags": "list<string>", "price": "decimal(12,2)"}``.

One rule for nulls: every field may be null, unless its type ends in ``!`` (or the field is marked
``"required"``). The rule holds inside of lists, structs and maps too: ``list<string!>``.

    int32 int64 float32 float64 string bool bytes
    timestamp            microseconds, UTC
    date  time           days; microseconds since midnight
    decimal(p,s)         p digits, s of them after the point
    list<T>  map<K,V>  struct<a:T,b:U>
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias, cast

from lode.errors import InvalidOptionError
from lode.lazy import pa
from lode.near import did_you_mean

TypeSpec: TypeAlias = "str | pa.DataType"
"""A pyarrow type, or the name of a simple one."""
FieldSpec: TypeAlias = "tuple[str, TypeSpec] | tuple[str, TypeSpec, str] | pa.Field[Any]"
SchemaSpec: TypeAlias = "pa.Schema | Mapping[str, TypeSpec] | Iterable[FieldSpec]"
"""A pyarrow schema, or a simple one such as ``{"day": "string!"}``; ``!`` means required."""

_SCALARS: Final[dict[str, Callable[[], pa.DataType]]] = {
    "int32": lambda: pa.int32(),
    "int64": lambda: pa.int64(),
    "float32": lambda: pa.float32(),
    "float64": lambda: pa.float64(),
    "string": lambda: pa.string(),
    "bool": lambda: pa.bool_(),
    "bytes": lambda: pa.binary(),
    "timestamp": lambda: pa.timestamp("us", tz="UTC"),
    "date": lambda: pa.date32(),
    "time": lambda: pa.time64("us"),
}
_MARKS: Final = {"required": False, "nullable": True}
_KNOWN: Final = f"{', '.join(_SCALARS)}, decimal(p,s), list<T>, struct<name:T,…>, map<K,V>"
_TOKEN: Final = re.compile(r"\s*([^\s<>(),:!]+|[<>(),:!])")


def to_schema(spec: SchemaSpec | object) -> pa.Schema:
    """Return a schema from a pyarrow schema, a dict of types, or a list of fields.

    A field is ``(name, type)`` or ``(name, type, "required" | "nullable")``; a type is text or a
    pyarrow type.

    Raises:
        InvalidOptionError: A field makes no sense; says which.
    """
    if isinstance(spec, pa.Schema):
        return _checked(spec)
    if isinstance(spec, Mapping):
        spec = list(spec.items())
    if isinstance(spec, str | bytes) or not isinstance(spec, Iterable):
        raise InvalidOptionError(
            f"a schema is a pyarrow schema, a dict or a list of (name, type), got {type(spec).__name__}"
        )
    try:
        return _checked(pa.schema([_to_field(field) for field in spec]))
    except UnicodeEncodeError as error:
        raise InvalidOptionError(f"a field's name is text that UTF-8 cannot carry: {error}") from None


def _checked(schema: pa.Schema) -> pa.Schema:
    if not schema.names:
        raise InvalidOptionError("a schema has at least one field")
    twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if twice:
        raise InvalidOptionError(f"field {twice[0]!r} appears more than once in the schema")
    return schema


def _to_field(spec: object) -> pa.Field[Any]:
    if isinstance(spec, pa.Field):
        return spec
    if not isinstance(spec, tuple | list) or not 2 <= len(spec) <= 3 or not isinstance(spec[0], str):
        raise InvalidOptionError(f"a field is (name, type) or (name, type, 'required'), got {spec!r}")
    name, kind, *mark = spec
    if mark and mark[0] not in _MARKS:
        raise InvalidOptionError(f"field {name!r}: {mark[0]!r} is neither 'required' nor 'nullable'")
    if isinstance(kind, pa.DataType):
        return pa.field(name, kind, nullable=not mark or _MARKS[mark[0]])
    if not isinstance(kind, str):
        raise InvalidOptionError(f"field {name!r}: a type is text or a pyarrow type, got {kind!r}")
    parsed, nullable = _Parser(name, kind).parse()
    if mark and not nullable and _MARKS[mark[0]]:
        raise InvalidOptionError(f"field {name!r}: the type {kind!r} says required, the mark says nullable")
    return pa.field(name, parsed, nullable=nullable and (not mark or _MARKS[mark[0]]))


class _Parser:
    """Reads one type from left to right."""

    def __init__(self, field: str, text: str) -> None:
        self._field = field
        self._text = text
        self._tokens = _tokens(text)
        self._at = 0

    def parse(self) -> tuple[pa.DataType, bool]:
        found = self._type()
        if self._peek():
            raise self._error(f"{self._peek()!r} is one too many")
        return found

    def _type(self) -> tuple[pa.DataType, bool]:
        word = self._next()
        match word:
            case "decimal":
                kind = self._decimal()
            case "list":
                self._expect("<")
                kind = cast("pa.DataType", pa.list_(self._child("element")))
                self._expect(">")
            case "map":
                kind = self._map()
            case "struct":
                kind = self._struct()
            case _ if word in _SCALARS:
                kind = _SCALARS[word]()
            case _:
                hint = did_you_mean(word, (*_SCALARS, "decimal", "list", "struct", "map"))
                raise self._error(f"there is no type {word!r}: {hint or f'there are {_KNOWN}'}")
        if self._peek() == "!":
            self._at += 1
            return kind, False
        return kind, True

    def _child(self, name: str) -> pa.Field[Any]:
        kind, nullable = self._type()
        return pa.field(name, kind, nullable=nullable)

    def _decimal(self) -> pa.DataType:
        self._expect("(")
        precision = self._number()
        self._expect(",")
        scale = self._number()
        self._expect(")")
        if not 1 <= precision <= 76 or scale > precision:
            raise self._error("a decimal has 1 to 76 digits, and not more of them after the point")
        if precision <= 38:
            return cast("pa.DataType", pa.decimal128(precision, scale))
        return cast("pa.DataType", pa.decimal256(precision, scale))

    def _map(self) -> pa.DataType:
        self._expect("<")
        key, _ = self._type()
        self._expect(",")
        item = self._child("value")
        self._expect(">")
        return cast("pa.DataType", pa.map_(pa.field("key", key, nullable=False), item))

    def _struct(self) -> pa.DataType:
        self._expect("<")
        children = []
        while True:
            name = self._next()
            self._expect(":")
            children.append(self._child(name))
            if [child.name for child in children].count(name) > 1:
                raise self._error(f"{name!r} appears more than once")
            if self._peek() != ",":
                break
            self._at += 1
        self._expect(">")
        return cast("pa.DataType", pa.struct(children))

    def _number(self) -> int:
        word = self._next()
        if not word.isdecimal():
            raise self._error(f"{word!r} is not a number")
        return int(word)

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        word = self._peek()
        self._at += 1
        return word

    def _expect(self, mark: str) -> None:
        word = self._next()
        if word != mark:
            raise self._error(
                f"expected {mark!r}, found {word!r}" if word else f"expected {mark!r} at the end"
            )

    def _error(self, complaint: str) -> InvalidOptionError:
        return InvalidOptionError(f"field {self._field!r}, type {self._text!r}: {complaint}")


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(text)
