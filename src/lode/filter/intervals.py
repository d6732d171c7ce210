"""Dates and times plus or minus an interval: ``DATE_ADD``, ``TIMESTAMP_SUB`` and the like."""

from __future__ import annotations

from calendar import monthrange
from datetime import date, timedelta
from typing import TYPE_CHECKING, Final

from lode.filter.casts import named_part
from lode.filter.tree import FunctionCall, LiteralNode
from lode.lazy import pa, pc
from lode.times import DAY_MICROS, MAX_MICROS, MIN_MICROS

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.filter.compiler import Compiler
    from lode.filter.values import Value

_MONTHS: Final = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_DAYS: Final = {"DAY": DAY_MICROS, "WEEK": 7 * DAY_MICROS}
_CLOCK: Final = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
}
_UNITS: Final[dict[str, tuple[str, ...]]] = {
    "DATE": (*_DAYS, *_MONTHS),
    "DATETIME": (*_CLOCK, *_DAYS, *_MONTHS),
    "TIMESTAMP": (*_CLOCK, "DAY"),
}
# Beyond this, every date leaves the range of dates.
_MAX_MICROS: Final = MAX_MICROS - MIN_MICROS
_EPOCH: Final = date(1970, 1, 1)


def shifted(kind: str, sign: int) -> Callable[[Compiler, FunctionCall], Value | LiteralNode]:
    """A function that adds an interval to values of one kind, or subtracts it."""

    def compute(compiler: Compiler, call: FunctionCall) -> Value | LiteralNode:
        interval = call.arguments[1] if len(call.arguments) == 2 else None
        if not isinstance(interval, FunctionCall) or interval.name != "INTERVAL":
            raise compiler.wrong(call, f"{call.name} is written {call.name}(value, INTERVAL 1 DAY)")
        count = compiler.value(interval.arguments[0])
        if not isinstance(count, LiteralNode) or count.kind != "INT64":
            raise compiler.wrong(interval, "an INTERVAL must have a literal INT64")
        unit = named_part(interval.arguments[1], compiler, _UNITS[kind])
        number = sign * int(compiler.number(count))
        value = compiler.value(call.arguments[0])
        if value.kind == "NULL":
            return value
        if isinstance(value, LiteralNode):
            return _literal(compiler, value, kind, number, unit, call)
        if value.kind != kind:
            raise compiler.mistyped(call, call.name, f"a {kind}", value.kind)
        if unit in _MONTHS:
            raise compiler.wrong(
                call, f"{call.name} of a column by {unit} is not supported: shift the other side"
            )
        micros = number * {**_CLOCK, **_DAYS}[unit]
        if abs(micros) > _MAX_MICROS:
            raise compiler.wrong(interval, "the INTERVAL is longer than all dates")
        return _column(compiler, value, kind, micros, call)

    return compute


def _literal(
    compiler: Compiler, literal: LiteralNode, kind: str, number: int, unit: str, call: FunctionCall
) -> LiteralNode:
    if literal.kind not in (kind, "STRING"):
        raise compiler.mistyped(call, call.name, f"a {kind}", literal.kind)
    micros = compiler.micros(literal, kind)
    if unit in _MONTHS:
        months = number * _MONTHS[unit]
        micros = _plus_months(micros, months) if abs(months) < 12 * 10_000 else MAX_MICROS + 1
    else:
        micros += number * {**_CLOCK, **_DAYS}[unit]
    if not MIN_MICROS <= micros <= MAX_MICROS:
        raise compiler.wrong(call, f"{call.name} is out of the range of {kind}")
    return LiteralNode(kind, micros // DAY_MICROS if kind == "DATE" else micros, call.at)


def _plus_months(micros: int, months: int) -> int:
    """The same day of another month, or its last one if that month is shorter."""
    days, rest = divmod(micros, DAY_MICROS)
    start = _EPOCH + timedelta(days=days)
    year, month = divmod(start.year * 12 + start.month - 1 + months, 12)
    if not date.min.year <= year <= date.max.year:
        return MAX_MICROS + 1
    day = min(start.day, monthrange(year, month + 1)[1])
    return (date(year, month + 1, day) - _EPOCH).days * DAY_MICROS + rest


def _column(compiler: Compiler, value: Value, kind: str, micros: int, call: FunctionCall) -> Value:
    if kind == "DATE":
        days = pc.add(value.expression.cast(pa.date32()).cast(pa.int32()), pa.scalar(micros // DAY_MICROS))
        found = days.cast(pa.int32(), safe=False).cast(pa.date32())
        return compiler.made(found, kind, pa.date32(), value, at=call)
    # Nanoseconds would not hold all dates; whole microseconds are exact, and finer ones are kept.
    per_micro = {"s": 0.000001, "ms": 0.001, "us": 1, "ns": 1000}[value.type.unit]
    arrow = value.type if per_micro >= 1 else pa.timestamp("us", value.type.tz)
    shift = pa.scalar(micros * max(1, int(per_micro)), pa.duration(arrow.unit))
    return compiler.made(pc.add(value.expression.cast(arrow), shift), kind, arrow, value, at=call)
