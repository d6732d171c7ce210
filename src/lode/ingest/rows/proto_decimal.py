"""NUMERIC and BIGNUMERIC: what a client sends for them, as Arrow's decimals.

Arrow keeps a decimal as the integer value times a power of ten, little-endian in two's complement; that is
also how clients encode one in bytes, only without the bytes that repeat the sign.
"""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Context, Decimal, DecimalException
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from lode.ingest.rows.proto_each import each
from lode.lazy import pa

if TYPE_CHECKING:
    from lode.ingest.rows.problems import Place

# Wide enough for every step; what does not fit a type is found by its limit.
_CONTEXT: Final = Context(prec=160, rounding=ROUND_HALF_UP)
_NUMBER: Final = re.compile(r"\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?\s*")


def decimals_of_bytes(array: Any, kind: Any, place: Place) -> Any:
    """Decimals from their encoding in bytes; whether they have too many digits is for ``fit.py`` to say."""
    width = kind.bit_width // 8
    zeros, ones = b"\0", b"\xff"
    values = array.to_pylist()
    try:
        # A null has no ljust, an empty value no last byte, and one that is too long makes all too long.
        raw = b"".join([value.ljust(width, ones if value[-1] > 127 else zeros) for value in values])
    except (AttributeError, TypeError, IndexError):
        raw = b""
    if len(raw) != width * len(values):
        return _from_integers(each(array, place, lambda value: _integer(value, kind)), kind)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(raw)])


def decimals_of_text(array: Any, kind: Any, place: Place) -> Any:
    """Decimals from text; digits beyond the scale are rounded, halves away from zero."""
    try:
        return array.cast(kind)
    except pa.ArrowInvalid:
        return _from_integers(each(array, place, lambda text: _parse(text, kind)), kind)


def decimals_of_floats(array: Any, kind: Any, place: Place) -> Any:
    """Decimals from floats, exactly; digits beyond the scale are rounded, halves away from zero."""
    return _from_integers(each(array, place, lambda value: _of_float(value, kind)), kind)


def _from_integers(values: list[int | None], kind: Any) -> Any:
    width = kind.bit_width // 8
    raw = b"".join([(value or 0).to_bytes(width, "little", signed=True) for value in values])
    valid = (
        pa.array([value is not None for value in values], pa.bool_()).buffers()[1] if None in values else None
    )
    return pa.Array.from_buffers(kind, len(values), [valid, pa.py_buffer(raw)])


def _integer(encoded: bytes, kind: Any) -> int:
    if not encoded:
        raise ValueError("is empty: an encoded number has at least one byte")
    return _fitting(int.from_bytes(encoded, "little", signed=True), kind)


def _parse(text: str, kind: Any) -> int:
    if not _NUMBER.fullmatch(text):
        raise ValueError("is no number")
    try:
        return _scaled(Decimal(text.strip()), kind)
    except DecimalException as error:
        raise ValueError(f"is out of the range of {_name(kind)}") from error


def _of_float(value: float, kind: Any) -> int:
    if not isfinite(value):
        raise ValueError(f"is out of the range of {_name(kind)}")
    numerator, denominator = value.as_integer_ratio()
    # Twice the denominator, so that half of it can be added: halves are rounded away from zero.
    rounded = (2 * abs(numerator) * 10**kind.scale + denominator) // (2 * denominator)
    return _fitting(-rounded if value < 0 else rounded, kind)


def _scaled(value: Decimal, kind: Any) -> int:
    if value.adjusted() > kind.precision:
        raise ValueError(f"is out of the range of {_name(kind)}")
    if value.adjusted() < -kind.scale - 1:
        return 0
    rounded = value.quantize(Decimal((0, (1,), -kind.scale)), context=_CONTEXT)
    return _fitting(int(rounded.scaleb(kind.scale, _CONTEXT)), kind)


def _fitting(value: int, kind: Any) -> int:
    if abs(value) >= 10**kind.precision:
        raise ValueError(f"is out of the range of {_name(kind)}")
    return value


def _name(kind: Any) -> str:
    return "NUMERIC" if kind.bit_width == 128 else "BIGNUMERIC"
