"""From one Python value to one Arrow type, exactly or not at all.

``coercion(type)`` returns a function for values that are not None. It returns a value that pyarrow turns into
just that type, or raises ``CoercionError`` with a complaint and the way to the culprit inside of the value.

A bool is no number, text is no number, a number is no text. A float may lose digits in a float32, and
that is all that may be lost anywhere.
"""

from __future__ import annotations

import struct
from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from numbers import Integral, Real
from typing import Any, Final, TypeAlias

import msgspec

from lode.errors import SchemaViolationError
from lode.lazy import pa, pt
from lode.numbers import parse_number
from lode.times import (
    NS_PER,
    clock_to_ns,
    datetime_to_ns,
    duration_to_ns,
    text_to_date,
    text_to_ns,
    time_to_ns,
)

Coercion: TypeAlias = Callable[[Any], Any]

_MAX_EXPONENT: Final = 9999
_FLOAT_FORMATS: Final = {16: "<e", 32: "<f"}


class CoercionError(Exception):
    """A value that does not fit, and the way to it."""

    def __init__(self, complaint: str, path: str = "") -> None:
        super().__init__(complaint, path)
        self.complaint = complaint
        self.path = path

    def within(self, step: str) -> CoercionError:
        """Return the same refusal as seen from one level further out."""
        return CoercionError(self.complaint, step + self.path)

    def at(self, row: int | None, column: str) -> SchemaViolationError:
        """Return the error for the caller, with row and column."""
        path = (column + self.path).removeprefix(".")
        where = [f"row {row}"] * (row is not None) + [f"column {path!r}"] * bool(path)
        return SchemaViolationError(f"{', '.join(where)}: {self.complaint}", row=row, column=path or None)


@lru_cache(maxsize=1024)
def coercion(kind: pa.DataType, *, from_json: bool = False) -> Coercion:
    """Return the coercion into ``kind``. With ``from_json``, bytes are read from base64 text."""
    if isinstance(kind, pa.DictionaryType):
        return coercion(kind.value_type, from_json=from_json)
    if pt.is_integer(kind):
        return _integer(kind)
    if pt.is_floating(kind):
        return _floating(kind.bit_width)
    if pt.is_decimal(kind):
        return _decimal(kind)
    if pt.is_boolean(kind):
        return _boolean
    if pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind):
        return _text
    if pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_binary_view(kind):
        return _octets(None, from_json)
    if isinstance(kind, pa.FixedSizeBinaryType):
        return _octets(kind.byte_width, from_json)
    if isinstance(kind, pa.TimestampType):
        return _timestamp(kind)
    if pt.is_date(kind):
        return _date
    if isinstance(kind, pa.Time32Type | pa.Time64Type):
        return _time(kind.unit)
    if isinstance(kind, pa.DurationType):
        return _duration(kind.unit)
    if pt.is_nested(kind):
        return _nested(kind, from_json)
    return _other(kind)


def field_coercion(field: pa.Field[Any], *, from_json: bool = False) -> Coercion:
    """Return the coercion into a field, which also knows whether None is welcome."""
    convert = coercion(field.type, from_json=from_json)
    if field.nullable:
        return lambda value: None if value is None else convert(value)

    def required(value: Any) -> Any:
        if value is None:
            raise CoercionError("null in a required column")
        return convert(value)

    return required


def as_mapping(record: Any) -> Mapping[str, Any] | None:
    """Return a record's fields by name, or None if it has none."""
    if isinstance(record, Mapping):
        return record
    if isinstance(record, msgspec.Struct):
        pairs = ((name, getattr(record, name)) for name in record.__struct_fields__)
        return {name: value for name, value in pairs if value is not msgspec.UNSET}
    if is_dataclass(record) and not isinstance(record, type):
        return {field.name: getattr(record, field.name) for field in fields(record)}
    return None


def _unfit(value: Any, wanted: str) -> CoercionError:
    shown = repr(value)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return CoercionError(f"{type(value).__name__} {shown} does not fit {wanted}")


def _is_number(value: Any) -> bool:
    # NumPy's scalars register as these too. Fractions and decimals are not asked to become floats.
    return isinstance(value, Real) and not isinstance(value, bool | Fraction)


def _integer(kind: pa.DataType) -> Coercion:
    bits = kind.bit_width - 1 if pt.is_signed_integer(kind) else kind.bit_width
    low, high = -(1 << bits) if pt.is_signed_integer(kind) else 0, (1 << bits) - 1

    def convert(value: Any) -> int:
        if isinstance(value, Enum):
            value = value.value
        if not _is_number(value):
            raise _unfit(value, str(kind))
        if isinstance(value, float) and not value.is_integer():
            raise CoercionError(f"{value!r} is not a whole number, the column is {kind}")
        whole = int(value)
        if not low <= whole <= high:
            raise CoercionError(f"{whole} is out of range for {kind}")
        return whole

    return convert


def _floating(bits: int) -> Coercion:
    kind = f"float{bits}"
    layout = _FLOAT_FORMATS.get(bits)

    def convert(value: Any) -> float:
        if not _is_number(value):
            raise _unfit(value, kind)
        try:
            number = float(value)
            stored = number if layout is None else struct.unpack(layout, struct.pack(layout, number))[0]
        except OverflowError:
            raise CoercionError(f"{value!r} is out of range for {kind}") from None
        # Rounding is what floats do, but an integer that changes is an integer lost.
        if isinstance(value, Integral) and stored != value:
            raise CoercionError(f"the integer {value} has no exact {kind}")
        return number

    return convert


def _decimal(kind: Any) -> Coercion:
    precision, scale = kind.precision, kind.scale
    wanted = f"decimal({precision},{scale})"

    def convert(value: Any) -> Decimal:
        if isinstance(value, str):
            try:
                number = parse_number(value, max_exponent=_MAX_EXPONENT)
            except ValueError:
                raise _unfit(value, wanted) from None
        elif isinstance(value, Decimal) or (isinstance(value, int) and not isinstance(value, bool)):
            number = Decimal(value)
        elif isinstance(value, float):
            raise CoercionError(f"float {value!r} has no exact decimal: give a Decimal or text")
        else:
            raise _unfit(value, wanted)
        if not number.is_finite():
            raise _unfit(value, wanted)
        if number and not -scale <= number.adjusted() < precision - scale:
            raise CoercionError(f"{value} is out of range for {wanted}")
        numerator, denominator = number.as_integer_ratio()
        units, rest = divmod(numerator * 10**scale, denominator) if scale >= 0 else divmod(
            numerator, denominator * 10**-scale
        )  # fmt: skip
        if rest:
            raise CoercionError(f"{value} needs more than {scale} decimals, the column is {wanted}")
        return Decimal((int(units < 0), tuple(map(int, str(abs(units)))), -scale))

    return convert


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    raise _unfit(value, "bool")


def _text(value: Any) -> str:
    if isinstance(value, Enum):
        value = value.value
    if not isinstance(value, str):
        raise _unfit(value, "string")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise CoercionError("the text holds a lone surrogate, which UTF-8 cannot carry") from None
    return str.__str__(value)


def _octets(width: int | None, from_json: bool) -> Coercion:
    wanted = "bytes" if width is None else f"bytes({width})"

    def convert(value: Any) -> bytes:
        if from_json and isinstance(value, str):
            try:
                octets = b64decode(value, validate=True)
            except ValueError:
                raise CoercionError("the text is not base64, which is how JSON carries bytes") from None
        elif isinstance(value, bytes | bytearray | memoryview):
            octets = bytes(value)
        else:
            raise _unfit(value, wanted)
        if width is not None and len(octets) != width:
            raise CoercionError(f"{len(octets)} bytes in a column of exactly {width}")
        return octets

    return convert


def _timestamp(kind: pa.TimestampType[Any, Any]) -> Coercion:
    unit, zoned = kind.unit, kind.tz is not None

    def convert(value: Any) -> int:
        if isinstance(value, datetime):
            aware, nanoseconds = value.tzinfo is not None, datetime_to_ns(value)
        elif isinstance(value, str):
            try:
                nanoseconds, aware = text_to_ns(value)
            except ValueError as error:
                raise CoercionError(str(error)) from None
        else:
            raise _unfit(value, str(kind))
        if zoned and not aware:
            raise CoercionError(f"{value} has no time zone, the column is {kind}: add one, such as UTC")
        if aware and not zoned:
            raise CoercionError(
                f"{value} has a time zone, the column is {kind}: convert it, then drop the zone"
            )
        return _in_unit(nanoseconds, unit, value)

    return convert


def _in_unit(nanoseconds: int, unit: str, value: Any) -> int:
    ticks, rest = divmod(nanoseconds, NS_PER[unit])
    if rest:
        raise CoercionError(f"{value} is finer than the column's unit, {unit}: round it first")
    if not -(2**63) < ticks < 2**63:
        raise CoercionError(f"{value} is out of range for the column's unit, {unit}")
    return ticks


def _date(value: Any) -> date:
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    if isinstance(value, str):
        try:
            return text_to_date(value)
        except ValueError as error:
            raise CoercionError(str(error)) from None
    if isinstance(value, datetime):
        raise CoercionError(f"{value} is a datetime, the column is a date: take its date() first")
    raise _unfit(value, "date")


def _time(unit: str) -> Coercion:
    def convert(value: Any) -> int:
        if isinstance(value, time):
            if value.tzinfo is not None:
                raise CoercionError(f"{value} has a time zone, a time column has none: drop it first")
            return _in_unit(time_to_ns(value), unit, value)
        if not isinstance(value, str):
            raise _unfit(value, "time")
        try:
            nanoseconds = clock_to_ns(value)
        except ValueError as error:
            raise CoercionError(str(error)) from None
        return _in_unit(nanoseconds, unit, value)

    return convert


def _duration(unit: str) -> Coercion:
    def convert(value: Any) -> int:
        if isinstance(value, str):
            try:
                nanoseconds = duration_to_ns(value)
            except ValueError as error:
                raise CoercionError(str(error)) from None
            return _in_unit(nanoseconds, unit, value)
        if not isinstance(value, timedelta):
            raise _unfit(value, "duration")
        extra = getattr(value, "nanoseconds", 0)  # pandas counts these too
        micros = (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds
        return _in_unit(micros * 1000 + extra, unit, value)

    return convert


def _nested(kind: Any, from_json: bool) -> Coercion:
    if pt.is_struct(kind):
        return _structure(kind, from_json)
    if pt.is_map(kind):
        return _map(kind, from_json)
    if hasattr(kind, "value_field"):
        return _listing(kind, from_json)
    return _other(kind)


def _listing(kind: Any, from_json: bool) -> Coercion:
    item = field_coercion(kind.value_field, from_json=from_json)
    size = kind.list_size if pt.is_fixed_size_list(kind) else None

    def convert(value: Any) -> list[Any]:
        if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
            value = value.tolist()
        if not isinstance(value, list | tuple):
            raise _unfit(value, "list")
        if size is not None and len(value) != size:
            raise CoercionError(f"{len(value)} elements in a list of exactly {size}")
        out = []
        for index, element in enumerate(value):
            try:
                out.append(item(element))
            except CoercionError as error:
                raise error.within(f"[{index}]") from None
        return out

    return convert


def _structure(kind: Any, from_json: bool) -> Coercion:
    members = {field.name: field_coercion(field, from_json=from_json) for field in kind}

    def convert(value: Any) -> dict[str, Any]:
        mapping = as_mapping(value)
        if mapping is None:
            raise _unfit(value, "struct")
        unknown = next((name for name in mapping if name not in members), None)
        if unknown is not None:
            raise CoercionError("not a field of this struct", f".{unknown}")
        out = {}
        for name, member in members.items():
            try:
                out[name] = member(mapping.get(name))
            except CoercionError as error:
                raise error.within(f".{name}") from None
        return out

    return convert


def _map(kind: Any, from_json: bool) -> Coercion:
    key = field_coercion(kind.key_field, from_json=from_json)
    item = field_coercion(kind.item_field, from_json=from_json)

    def convert(value: Any) -> list[tuple[Any, Any]]:
        pairs = list(value.items()) if isinstance(value, Mapping) else value
        if not isinstance(pairs, list | tuple) or not all(
            isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs
        ):
            raise _unfit(value, "map")
        out = []
        for name, element in pairs:
            try:
                out.append((key(name), item(element)))
            except CoercionError as error:
                raise error.within(f"[{name!r}]") from None
        return out

    return convert


def _other(kind: pa.DataType) -> Coercion:
    """Leave a type without a rule here to pyarrow; its word is final."""

    def convert(value: Any) -> Any:
        try:
            pa.array([value], kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise CoercionError(f"{_unfit(value, str(kind)).complaint}: {error}") from None
        return value

    return convert
