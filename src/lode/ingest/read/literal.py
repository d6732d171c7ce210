"""Literals of a row restriction, and what they are as values of a column."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, NamedTuple

from lode.filter.datetimes import PARSERS
from lode.ingest.read.selection import shown
from lode.ingest.schema.columns import ALIASES, Column, arrow_type
from lode.ingest.status import invalid
from lode.lazy import pa

NUMBERS: Final = ("INT64", "FLOAT64", "NUMERIC", "BIGNUMERIC")
TYPED: Final = ("DATE", "DATETIME", "TIME", "TIMESTAMP", "NUMERIC", "BIGNUMERIC", "DECIMAL", "BIGDECIMAL")
# Which literals a column can be compared with; text is read as the column's type.
_FITTING: Final = {
    "STRING": ("STRING",),
    "BYTES": ("BYTES",),
    "BOOL": ("BOOL",),
    **dict.fromkeys(NUMBERS, ("number",)),
    "DATE": ("DATE", "STRING"),
    "TIME": ("TIME", "STRING"),
    "DATETIME": ("DATETIME", "DATE", "STRING"),
    "TIMESTAMP": ("TIMESTAMP", "STRING"),
}
# Beyond this no number is left between a literal and the ends of every type.
_LARGEST_EXPONENT: Final = 400

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE]([+-]?\d{1,9}))?", re.ASCII)
_WRITTEN: Final = {
    "DATE": "YYYY-MM-DD",
    "TIME": "HH:MM:SS",
    "DATETIME": "YYYY-MM-DD HH:MM:SS",
    "TIMESTAMP": "YYYY-MM-DD HH:MM:SS and a time zone",
}


class Literal(NamedTuple):
    """A value as it was written: ``kind`` is a type's name, or ``number`` for one of any type."""

    kind: str
    value: Decimal | str | bytes | bool


class Between(NamedTuple):
    """A number that the column's type does not have: the nearest below that it has, None if none is."""

    below: Any
    above_all: bool


def number(text: str) -> Decimal:
    """Read a number, or refuse it."""
    match = _NUMBER.fullmatch(text.strip())
    if match is None or len(text) > 200 or abs(int(match.group(1) or 0)) > _LARGEST_EXPONENT:
        raise invalid(
            f"row_restriction has {shown(text)} where a number must be: write digits, with a "
            "point or an exponent if need be."
        )
    return Decimal(text.strip())


def typed(name: str, text: str) -> Literal:
    """A literal such as ``DATE '2024-01-31'``; what its text says is read when its column is known."""
    kind = ALIASES.get(name, name)
    return Literal("number", number(text)) if kind in NUMBERS else Literal(kind, text)


def value_of(literal: Literal, column: Column) -> Any:
    """The literal as an Arrow scalar of the column's type, or a ``Between`` if it is none of its values."""
    fitting = _FITTING.get(column.type)
    if fitting is None:
        raise invalid(
            f"row_restriction cannot compare {column.name!r}, which is a {column.type}: "
            "such columns can only be asked IS NULL and IS NOT NULL."
        )
    if literal.kind not in fitting:
        raise invalid(
            f"row_restriction compares {column.name!r}, a {column.type}, "
            f"with {shown(str(literal.value))}, which is a {literal.kind}: compare it with a {column.type}."
        )
    kind = arrow_type(column)
    match column.type:
        case "FLOAT64":
            assert isinstance(literal.value, Decimal)
            return pa.scalar(float(literal.value), kind)
        case "INT64":
            return _on_grid(literal.value, 0, -(2**63), 2**63 - 1, kind)
        case "NUMERIC" | "BIGNUMERIC":
            scale, most = (9, 10**38 - 1) if column.type == "NUMERIC" else (38, 10**76 - 1)
            return _on_grid(literal.value, scale, -most, most, kind)
        case "DATE" | "TIME" | "DATETIME" | "TIMESTAMP":
            return pa.scalar(_moment(str(literal.value), column.type), kind)
    return pa.scalar(literal.value, kind)


def _on_grid(value: Any, scale: int, low: int, high: int, kind: Any) -> Any:
    """A number among the multiples of ``10 ** -scale`` from ``low`` to ``high``, counted in those."""
    exact = Fraction(value) * 10**scale
    units = exact.__floor__()
    if low <= units <= high:
        found = pa.scalar(units if scale == 0 else _decimal(units, scale), kind)
        return found if exact.denominator == 1 else Between(found, above_all=False)
    return Between(None, above_all=units > high)


def _decimal(units: int, scale: int) -> Decimal:
    # Arithmetic would round to the context's precision; this does not.
    return Decimal((int(units < 0), tuple(map(int, str(abs(units)))), -scale))


def _moment(text: str, kind: str) -> int:
    try:
        return PARSERS[kind](text.strip())
    except (ValueError, OverflowError):
        raise invalid(
            f"row_restriction has {shown(text)}, which is not a valid {kind}: write {_WRITTEN[kind]}."
        ) from None
