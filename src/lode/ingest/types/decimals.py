"""NUMERIC and BIGNUMERIC: every form in which clients send a number, as Arrow's decimals.

The rule is the same for all writers: a number is rounded to the scale of its column, by default half away
from zero, and refused if it is out of the column's range then.

Arrow stores a decimal as an integer of units, each ten to the power of the negated scale. A BIGNUMERIC uses
the whole range of 256 bits: up to 77 digits, one more than decimal256(76, 38) declares. Arrow's kernels, IPC
and Parquet keep such values; its validation, its parser and its conversion from Python refuse them. This
module makes these values from integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from lode.filter.values import BIGNUMERIC_UNITS
from lode.ingest.types.columns import arrow_type
from lode.ingest.types.row_errors import each
from lode.lazy import pa, pc, pt
from lode.numbers import parse_number

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.ingest.types.columns import Column
    from lode.ingest.types.row_errors import Origin

# Enough digits for every number that passes the checks before rounding.
_EXACT: Final = Context(prec=160)


@dataclass(frozen=True)
class Digits:
    """The numbers that a column can hold: multiples of ``10 ** -scale`` between two ends."""

    name: str
    kind: Any
    # The number of digits before and after the point.
    whole: int
    scale: int
    # In units of the stored type.
    low: int
    high: int
    rounding: str

    @cached_property
    def ends(self) -> tuple[Decimal, Decimal]:
        """The least and the greatest number."""
        scale = -self.kind.scale
        return Decimal(self.low).scaleb(scale, _EXACT), Decimal(self.high).scaleb(scale, _EXACT)

    @cached_property
    def plain(self) -> str:
        """A pattern of text that Arrow's parser reads, and whose number is in range and not rounded."""
        whole = rf"[0-9]{{1,{self.whole}}}" if self.whole else "0"
        fraction = rf"(\.[0-9]{{1,{self.scale}}})?" if self.scale else ""
        return rf"^[+-]?{whole}{fraction}$"

    def units(self, value: Decimal) -> int:
        """The number in units of the stored type, rounded.

        Raises:
            ValueError: It is out of range.
        """
        if not value:
            return 0
        if value.is_finite() and value.adjusted() < -self.scale - 1:
            return 0
        if not value.is_finite() or value.adjusted() > self.kind.precision:
            raise self.out_of_range()
        unit = Decimal((0, (1,), -self.scale))
        rounded = value.quantize(unit, rounding=self.rounding, context=_EXACT)
        return self.checked(int(rounded.scaleb(self.kind.scale, _EXACT)))

    def checked(self, units: int) -> int:
        if not self.low <= units <= self.high:
            raise self.out_of_range()
        return units

    def out_of_range(self) -> ValueError:
        return ValueError(f"is out of the range of {self.name}")

    def parse(self, text: str) -> int:
        """The units of a number in text: digits, and optionally a point and an exponent."""
        try:
            number = parse_number(text.strip())
        except ValueError:
            raise ValueError(
                f"is not a {self.name}: write digits, optionally with a point and an exponent"
            ) from None
        return self.units(number)

    def array(self, units: list[int | None]) -> Any:
        """Decimals of the stored type."""
        width = self.kind.bit_width // 8
        raw = b"".join([(number or 0).to_bytes(width, "little", signed=True) for number in units])
        valid = pa.array([number is not None for number in units], pa.bool_()).buffers()[1]
        return pa.Array.from_buffers(
            self.kind, len(units), [valid if None in units else None, pa.py_buffer(raw)]
        )


def digits_of(column: Column) -> Digits:
    """The numbers that a NUMERIC or BIGNUMERIC column can hold."""
    kind: Any = arrow_type(column)
    name, scale, whole = column.type, kind.scale, kind.precision - kind.scale
    low, high = BIGNUMERIC_UNITS if column.type == "BIGNUMERIC" else (1 - 10**38, 10**38 - 1)
    if column.precision:
        name, scale = f"{column.type}({column.precision}, {column.scale})", column.scale
        whole = column.precision - column.scale
        high = (10**column.precision - 1) * 10 ** (kind.scale - scale)
        low = -high
    rounding = ROUND_HALF_EVEN if column.rounding == "ROUND_HALF_EVEN" else ROUND_HALF_UP
    return Digits(name, kind, whole, scale, low, high, rounding)


def decimals_for(column: Column, kind: pa.DataType) -> Callable[[Any, Origin], Any]:
    """How decimals, integers and text become the column's numbers."""
    digits = digits_of(column)
    if pt.is_decimal(kind):
        return lambda array, origin: _of_decimals(array, digits, origin)
    if pt.is_integer(kind):
        return lambda array, origin: _of_decimals(array.cast(digits.kind), digits, origin)
    return lambda array, origin: _of_text(array, digits, origin)


def decimals_of_bytes(array: Any, column: Column, origin: Origin) -> Any:
    """Decimals from their units in bytes: little-endian, in two's complement, without needless bytes.

    They are of the stored type; ``fit.py`` rounds them and checks their range.
    """
    digits = digits_of(column)
    width = digits.kind.bit_width // 8
    zeros, ones = b"\0", b"\xff"
    values = array.to_pylist()
    try:
        # Fails for a null (no ljust) and an empty value (no last byte); a long value makes the total too
        # long.
        raw = b"".join([value.ljust(width, ones if value[-1] > 127 else zeros) for value in values])
    except (AttributeError, TypeError, IndexError):
        raw = b""
    if len(raw) == width * len(values):
        return pa.Array.from_buffers(digits.kind, len(values), [None, pa.py_buffer(raw)])

    def units(value: bytes) -> int:
        if not value:
            raise ValueError("is empty: an encoded number has at least one byte")
        number = int.from_bytes(value, "little", signed=True)
        return digits.checked(number)

    return digits.array(each(array, origin, units))


def decimals_of_floats(array: Any, column: Column, origin: Origin) -> Any:
    """Decimals from the exact values of floats."""
    digits = digits_of(column)
    return digits.array(each(array, origin, lambda value: digits.units(Decimal(value))))


def decimals_of_literals(values: list[Decimal], column: Column) -> Any:
    """Decimals from literals; ``ValueError`` for the first bad one."""
    digits = digits_of(column)
    try:
        units: list[int | None] = [digits.units(value) for value in values]
    except ValueError as why:
        raise ValueError(f"it {why}") from None
    return digits.array(units)


def _of_decimals(array: Any, digits: Digits, origin: Origin) -> Any:
    kind = array.type
    if kind == digits.kind and digits.low == -(2 ** (kind.bit_width - 1)):
        return array
    extremes: Any = pc.min_max(array)
    least, most = extremes["min"].as_py(), extremes["max"].as_py()
    low, high = digits.ends
    # Arrow's casts miss some numbers that are too large for the new scale: they wrap around.
    if least is None or (low <= least and most <= high):
        try:
            if kind.scale > digits.scale < digits.kind.scale:
                array.cast(pa.decimal256(76, digits.scale))
            return array if kind == digits.kind else array.cast(digits.kind)
        except pa.ArrowException:
            pass  # some number has more digits after the point
    return digits.array(each(array, origin, digits.units))


def _of_text(array: Any, digits: Digits, origin: Origin) -> Any:
    matches: Any = pc.match_substring_regex(array, digits.plain)
    if pc.all(matches, min_count=0).as_py():
        return array.cast(digits.kind)
    return digits.array(each(array, origin, digits.parse))
