"""The SQL names of Arrow types, and literals as values of these types."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, NamedTuple

from lode.lazy import pa, pt
from lode.numbers import parse_number
from lode.times import DAY_MICROS, PARSERS

NUMBERS: Final = ("INT64", "FLOAT64", "NUMERIC", "BIGNUMERIC")
TIMES: Final = ("DATE", "TIME", "DATETIME", "TIMESTAMP")
MAX_EXPONENT: Final = 400
# BIGNUMERIC is a whole number of 256 bits over 10 ** 38, and so can have 77 digits.
BIGNUMERIC_UNITS: Final = (-(2**255), 2**255 - 1)
BIGNUMERIC_SCALE: Final = 38

_MICROS: Final = {"s": Fraction(1, 10**6), "ms": Fraction(1, 1000), "us": Fraction(1), "ns": Fraction(1000)}
# Types that Arrow stores as text have their name in the field's metadata, as the Storage Read API writes it.
_MARK: Final = b"google:sqlType:"
_DIGITS: Final = {8: 3, 16: 5, 32: 10, 64: 19}


class Value(NamedTuple):
    """An expression, its SQL type, its Arrow type, and the number of its parts."""

    expression: Any
    kind: str
    type: Any
    size: int = 1
    is_column: bool = False


class Between(NamedTuple):
    """A value that a type does not have: the nearest value below it, None if it is out of range.

    ``above_all`` is True if it is above the range, False if it is below.
    """

    below: Any
    above_all: bool


def kind_of(field: pa.Field[Any]) -> str:
    """The SQL type of a column."""
    mark = (field.metadata or {}).get(b"ARROW:extension:name", b"")
    if mark.startswith(_MARK) and not pt.is_temporal(field.type):
        return str(mark[len(_MARK) :].decode("ascii", "replace").upper())
    return kind_of_type(field.type)


def kind_of_type(kind: pa.DataType) -> str:
    if pt.is_dictionary(kind):
        return kind_of_type(kind.value_type)
    if pt.is_timestamp(kind):
        return "TIMESTAMP" if kind.tz else "DATETIME"
    named: dict[str, Any] = {
        "INT64": pt.is_integer,
        "FLOAT64": pt.is_floating,
        "NUMERIC": pt.is_decimal,
        "BOOL": pt.is_boolean,
        "DATE": pt.is_date,
        "TIME": pt.is_time,
        "STRUCT": pt.is_struct,
    }
    for name, test in named.items():
        if test(kind):
            return name
    if pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind):
        return "STRING"
    if (
        pt.is_binary(kind)
        or pt.is_large_binary(kind)
        or pt.is_fixed_size_binary(kind)
        or pt.is_binary_view(kind)
    ):
        return "BYTES"
    return str(kind).upper()


def number(text: str) -> Decimal:
    """Read a number exactly; ``ValueError`` if it is none, or too large for every type."""
    text = text.strip()
    if re.fullmatch(r"[+-]?0[xX][0-9a-fA-F]{1,40}", text):
        return Decimal(int(text, 16))
    return parse_number(text, max_exponent=MAX_EXPONENT)


def value_in(value: Any, kind: pa.DataType) -> Any:
    """A number, or a time in microseconds, as a scalar, or as a ``Between`` if the type does not have it."""
    if pt.is_floating(kind):
        found = float(value)
        if math.isinf(found) and not (isinstance(value, float) and math.isinf(value)):
            raise ValueError("is out of the range of FLOAT64")
        return pa.scalar(found, kind)
    if isinstance(value, float) and math.isinf(value):
        return Between(None, above_all=value > 0)
    units = Fraction(value) * _units(kind)
    whole = math.floor(units)
    low, high = _range(kind)
    if not low <= whole <= high:
        return Between(None, above_all=whole > high)
    found = _scalar(whole, kind)
    return found if units.denominator == 1 else Between(found, above_all=False)


def _units(kind: Any) -> Fraction:
    if pt.is_decimal(kind):
        return Fraction(10**kind.scale)
    if pt.is_date32(kind):
        return Fraction(1, DAY_MICROS)
    if pt.is_date64(kind):
        return _MICROS["ms"]
    return _MICROS[getattr(kind, "unit", "us")]


def _range(kind: pa.DataType) -> tuple[int, int]:
    if pt.is_decimal(kind):
        if pt.is_decimal256(kind) and (kind.precision, kind.scale) == (76, BIGNUMERIC_SCALE):
            return BIGNUMERIC_UNITS
        return -(10**kind.precision) + 1, 10**kind.precision - 1
    if pt.is_unsigned_integer(kind):
        return 0, 2**kind.bit_width - 1
    return -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1


def _scalar(units: int, kind: pa.DataType) -> Any:
    if pt.is_decimal(kind):
        # From bytes: limited neither by the precision of Python's context nor by the type's number of digits.
        octets = units.to_bytes(kind.byte_width, "little", signed=True)
        return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(octets)])[0]
    if pt.is_temporal(kind):
        return pa.scalar(units, pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
    return pa.scalar(units, kind)


def micros(kind: str, value: str | int) -> int:
    """A date or time in microseconds, from its text or from the result of ``PARSERS``."""
    stored = PARSERS[kind](value.strip()) if isinstance(value, str) else value
    return stored * DAY_MICROS if kind == "DATE" else stored


def digits_of(kind: pa.DataType) -> tuple[int, int]:
    """The precision and scale of decimals that hold every value of a whole or decimal type."""
    if pt.is_decimal(kind):
        return kind.precision, kind.scale
    return _DIGITS[kind.bit_width] + (pt.is_uint64(kind)), 0


def a(kind: str) -> str:
    """The name of a type with its article."""
    return f"{'an' if kind[:1] in 'AEIOU' else 'a'} {kind}"
