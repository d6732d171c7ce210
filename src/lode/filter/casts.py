"""The functions of filters for dates and times, and casts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from lode.errors import InvalidOptionError
from lode.filter.arithmetic import as_decimal
from lode.filter.tree import LiteralNode, Name, TypeName
from lode.format.ids import shortened
from lode.lazy import pa, pc, pt
from lode.times import DAY_MICROS

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.filter.compiler import Compiler
    from lode.filter.tree import FunctionCall, Node
    from lode.filter.values import Value

_PARTS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "YEAR": ("year", ("DATE", "DATETIME", "TIMESTAMP")),
    "ISOYEAR": ("iso_year", ("DATE", "DATETIME", "TIMESTAMP")),
    "QUARTER": ("quarter", ("DATE", "DATETIME", "TIMESTAMP")),
    "MONTH": ("month", ("DATE", "DATETIME", "TIMESTAMP")),
    "ISOWEEK": ("iso_week", ("DATE", "DATETIME", "TIMESTAMP")),
    "DAY": ("day", ("DATE", "DATETIME", "TIMESTAMP")),
    "DAYOFYEAR": ("day_of_year", ("DATE", "DATETIME", "TIMESTAMP")),
    "DAYOFWEEK": ("day_of_week", ("DATE", "DATETIME", "TIMESTAMP")),
    "HOUR": ("hour", ("TIME", "DATETIME", "TIMESTAMP")),
    "MINUTE": ("minute", ("TIME", "DATETIME", "TIMESTAMP")),
    "SECOND": ("second", ("TIME", "DATETIME", "TIMESTAMP")),
    "MILLISECOND": ("millisecond", ("TIME", "DATETIME", "TIMESTAMP")),
}
_UNITS: Final = (
    "YEAR",
    "QUARTER",
    "MONTH",
    "ISOWEEK",
    "WEEK",
    "DAY",
    "HOUR",
    "MINUTE",
    "SECOND",
    "MILLISECOND",
)
_OF_DATES: Final = _UNITS[:6]


def _in_utc(value: Value) -> Any:
    """The expression of a date or time in UTC, without a zone: pyarrow would compute in the column's own."""
    if value.kind != "TIMESTAMP":
        return value.expression
    unit = value.type.unit
    return value.expression.cast(pa.timestamp(unit, "UTC")).cast(pa.timestamp(unit))


def named_part(node: Node, compiler: Compiler, known: tuple[str, ...]) -> str:
    name = node.path[0].upper() if isinstance(node, Name) and len(node.path) == 1 else ""
    if name not in known:
        raise compiler.wrong(node, f"{compiler.shown(node)} is not one of {', '.join(known)}")
    return name


def extract(compiler: Compiler, call: FunctionCall) -> Value:
    if len(call.arguments) != 2:
        raise compiler.wrong(call, "EXTRACT is written EXTRACT(part FROM value)")
    part = named_part(call.arguments[0], compiler, (*_PARTS, "DATE"))
    value = compiler.typed(compiler.value(call.arguments[1]))
    if part == "DATE":
        return _converted(compiler, value, "DATE", call)
    function, kinds = _PARTS[part]
    if value.kind not in kinds:
        raise compiler.mistyped(call, f"EXTRACT({part})", " or ".join(kinds), value.kind)
    column = _in_utc(value)
    if part == "DAYOFWEEK":
        found = pc.day_of_week(column, count_from_zero=False, week_start=7)
    else:
        found = getattr(pc, function)(column)
    return compiler.made(found.cast(pa.int64()), "INT64", pa.int64(), value, at=call)


def truncated(kind: str) -> Callable[[Compiler, FunctionCall], Value]:
    def compute(compiler: Compiler, call: FunctionCall) -> Value:
        if len(call.arguments) != 2:
            raise compiler.wrong(call, f"{call.name} takes 2 arguments, not {len(call.arguments)}")
        value = compiler.typed(compiler.value(call.arguments[0]), kind)
        if value.kind != kind:
            raise compiler.mistyped(call, call.name, f"a {kind}", value.kind)
        unit = named_part(call.arguments[1], compiler, _OF_DATES if kind == "DATE" else _UNITS)
        starts_monday = unit != "WEEK"
        unit = unit.removeprefix("ISO").lower()
        found = pc.floor_temporal(_in_utc(value), unit=unit, week_starts_monday=starts_monday)
        arrow = pa.timestamp(value.type.unit, "UTC") if kind == "TIMESTAMP" else value.type
        return compiler.made(found.cast(arrow), kind, arrow, value, at=call)

    return compute


def conversion(kind: str) -> Callable[[Compiler, FunctionCall], Value | LiteralNode]:
    """``DATE(x)`` and the like, which are casts."""

    def compute(compiler: Compiler, call: FunctionCall) -> Value | LiteralNode:
        (argument,) = compiler.arguments(call, 1)
        return _cast_to(compiler, argument, kind, call)

    return compute


def current(kind: str) -> Callable[[Compiler, FunctionCall], LiteralNode]:
    def compute(compiler: Compiler, call: FunctionCall) -> LiteralNode:
        compiler.arguments(call, 0)
        now = compiler.now_micros()
        return LiteralNode(
            kind, {"DATE": now // DAY_MICROS, "TIME": now % DAY_MICROS}.get(kind, now), call.at
        )

    return compute


# -- casts ---------------------------------------------------------------------------------------------

# Only casts that have a result for every value.
_CASTS: Final = {
    "BOOL": ("INT64", "STRING"),
    "INT64": ("FLOAT64", "NUMERIC", "BIGNUMERIC", "STRING", "BOOL"),
    "NUMERIC": ("FLOAT64",),
    "STRING": ("BYTES",),
    "DATE": ("STRING", "DATETIME", "TIMESTAMP"),
    "DATETIME": ("DATE", "TIME", "TIMESTAMP"),
    "TIMESTAMP": ("DATE", "TIME", "DATETIME"),
}


def cast(compiler: Compiler, call: FunctionCall) -> Value | LiteralNode:
    if len(call.arguments) != 2 or not isinstance(call.arguments[1], TypeName):
        raise compiler.wrong(call, f"{call.name} is written {call.name}(value AS type)")
    value = compiler.value(call.arguments[0])
    kind = call.arguments[1].kind
    if call.name == "CAST" or not isinstance(value, LiteralNode):
        return _cast_to(compiler, value, kind, call)
    try:
        return _cast_to(compiler, value, kind, call)
    except InvalidOptionError:
        return LiteralNode("NULL", None, call.at)


def _cast_to(
    compiler: Compiler, value: Value | LiteralNode, kind: str, call: FunctionCall
) -> Value | LiteralNode:
    if value.kind in (kind, "NULL"):
        return value
    if isinstance(value, LiteralNode):
        if value.kind == "STRING" and kind != "JSON":
            return _read(compiler, value, kind)
        if kind == "FLOAT64" and value.kind in ("INT64", "NUMERIC", "BIGNUMERIC"):
            return value._replace(kind=kind, value=float(compiler.number(value)))
        value = compiler.typed(value)
    if kind not in _CASTS.get(value.kind, ()):
        raise compiler.wrong(call, f"a CAST of {value.kind} to {kind} is not supported")
    return _converted(compiler, value, kind, call)


def _converted(compiler: Compiler, value: Value, kind: str, call: FunctionCall) -> Value:
    if kind in ("NUMERIC", "BIGNUMERIC") and value.kind == "INT64":
        return as_decimal(compiler, value, call)
    if kind == value.kind:
        return value
    found = value.expression
    if value.kind == "BOOL" and kind == "STRING":
        return compiler.made(pc.if_else(found, "true", "false"), kind, pa.string(), value, at=call)
    unit: Any = value.type.unit if pt.is_timestamp(value.type) else "us"
    arrow = {
        "INT64": pa.int64(),
        "FLOAT64": pa.float64(),
        "STRING": pa.string(),
        "BYTES": pa.large_binary() if pt.is_large_string(value.type) else pa.binary(),
        "BOOL": pa.bool_(),
        "DATE": pa.date32(),
        "TIME": pa.time64("ns" if unit == "ns" else "us"),
        "DATETIME": pa.timestamp(unit),
        "TIMESTAMP": pa.timestamp(unit, "UTC"),
    }[kind]
    if value.kind in ("DATE", "DATETIME", "TIMESTAMP"):
        found = _in_utc(value)
    if kind == "TIMESTAMP":
        found = found.cast(pa.timestamp(unit))
    return compiler.made(found.cast(arrow), kind, arrow, value, at=call)


def _read(compiler: Compiler, literal: LiteralNode, kind: str) -> LiteralNode:
    """A text as a literal of another type."""
    text = literal.value.strip()
    complaint = compiler.wrong(literal, f"{shortened(text, 40)} is no {kind}")
    match kind:
        case "BOOL" if text.lower() in ("true", "false"):
            return literal._replace(kind=kind, value=text.lower() == "true")
        case "BYTES":
            return literal._replace(kind=kind, value=literal.value.encode())
        case "FLOAT64" if re.fullmatch(r"[+-]?(?:inf(?:inity)?|nan)", text, re.IGNORECASE):
            return literal._replace(kind=kind, value=float(text))
        case "INT64" if not re.fullmatch(r"[+-]?(?:[0-9]+|0[xX][0-9a-fA-F]+)", text):
            raise complaint
        case "BOOL":
            raise complaint
        case "INT64" | "FLOAT64" | "NUMERIC" | "BIGNUMERIC":
            found = literal._replace(kind=kind, value=text)
            compiler.typed(found)
            return found
    compiler.micros(literal, kind)
    return literal._replace(kind=kind)
