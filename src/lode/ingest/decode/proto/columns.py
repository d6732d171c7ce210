"""Columns as ptars returns them, lists and messages included, made into columns that the table takes.

Ranges, lengths and digits are checked later with those of all writers, in ``types/fit.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from lode.ingest.decode.proto.plan import INT32, F, WireShape
from lode.ingest.decode.proto.times import (
    dates_of_text,
    datetimes_of_text,
    times_of_text,
    timestamps_of_text,
    unpack_datetimes,
    unpack_times,
)
from lode.ingest.types.decimals import decimals_of_bytes, decimals_of_floats
from lode.ingest.types.intervals import MAX_HOURS, interval_text
from lode.ingest.types.row_errors import shown
from lode.lazy import pa
from lode.times import MAX_MICROS, MIN_MICROS

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.ingest.decode.proto.plan import Field
    from lode.ingest.types.row_errors import Origin

    Convert: TypeAlias = Callable[[Any, Origin], Any]

_TEXT_READERS: Final = {
    "DATE": dates_of_text,
    "TIME": times_of_text,
    "DATETIME": datetimes_of_text,
    "TIMESTAMP": timestamps_of_text,
}
_INT32_RANGE: Final = (-(2**31), 2**31 - 1)
_TIMESTAMP_SECONDS: Final = (MIN_MICROS // 1_000_000, MAX_MICROS // 1_000_000)
# Of an INTERVAL, so that its microseconds fit 64 bits.
_MAX_INTERVAL_SECONDS: Final = MAX_HOURS * 3600
_MAX_NANOS: Final = 999_999_999


def column_converter(field: Field) -> Convert | None:
    """How a column of the field becomes one that the table takes; None if it is one already."""
    convert = _of_shape(field)
    if not field.repeated:
        return convert

    def lists(array: Any, origin: Origin) -> Any:
        values = array.values if convert is None else convert(array.values, origin.within(array))
        return pa.ListArray.from_arrays(array.offsets, values)

    return lists


def _of_shape(field: Field) -> Convert | None:
    match field.shape:
        case WireShape.SCALAR:
            convert = _value_converter(field)
            return _never_null(convert) if field.never_unset else convert
        case WireShape.WRAPPER:
            return _unwrapped(_value_converter(field))
        case WireShape.TIMESTAMP:
            return _timestamp_messages
        case WireShape.DURATION:
            return _duration_messages
        case WireShape.MESSAGE:
            return _structs(field)


def _structs(field: Field) -> Convert:
    members = [(member, column_converter(member)) for member in field.fields]
    names = [member.column.name for member in field.fields]

    def convert(array: Any, origin: Origin) -> Any:
        made = []
        for position, (member, convert_member) in enumerate(members):
            value = array.field(position)
            below = origin.child(member.column.name)
            if member.required:
                report_unset(value, array, below)
            made.append(value if convert_member is None else convert_member(value, below))
        if not made:
            return array
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(made, names=names, mask=mask)

    return convert


def report_unset(array: Any, parent: Any, origin: Origin) -> None:
    """Report where a field that proto2 requires is unset, except in messages that are unset."""
    import pyarrow.compute as pc

    if array.null_count:
        compute: Any = pc
        unset = array.is_null() if parent is None else compute.and_(array.is_null(), parent.is_valid())
        origin.report_where(unset, "the descriptor calls it required, and it is not set.")


def _filled(array: Any) -> Any:
    """The array with zeros, or empty text, instead of nulls."""
    import pyarrow.compute as pc

    compute: Any = pc
    zero = pa.scalar("" if array.type == pa.string() else b"" if array.type == pa.binary() else 0)
    return compute.fill_null(array, zero.cast(array.type)) if array.null_count else array


def _never_null(convert: Convert | None) -> Convert:
    if convert is None:
        return lambda array, _place: _filled(array)
    return lambda array, origin: convert(_filled(array), origin)


def _unwrapped(convert: Convert | None) -> Convert:
    """Values of wrapper messages: one without a value is zero, or empty."""

    def unwrap(array: Any, origin: Origin) -> Any:
        import pyarrow.compute as pc

        compute: Any = pc
        value = array.field(0)
        if value.null_count != array.null_count:
            value = compute.if_else(array.is_valid(), _filled(value), pa.scalar(None, value.type))
        return value if convert is None else convert(value, origin)

    return unwrap


def _timestamp_messages(array: Any, origin: Origin) -> Any:
    import pyarrow.compute as pc

    compute: Any = pc
    seconds = _refuse_outside(_filled(array.field(0)), *_TIMESTAMP_SECONDS, origin, "a Timestamp's seconds")
    nanos = _refuse_outside(_filled(array.field(1)), 0, _MAX_NANOS, origin, "a Timestamp's nanos")
    micros = compute.add(
        compute.multiply(seconds, pa.scalar(1_000_000, pa.int64())),
        compute.divide(nanos.cast(pa.int64()), pa.scalar(1000, pa.int64())),
    )
    if array.null_count:
        micros = compute.if_else(array.is_valid(), micros, pa.scalar(None, pa.int64()))
    return micros.view(pa.timestamp("us", "UTC"))


def _duration_messages(array: Any, origin: Origin) -> Any:
    """Durations as INTERVALs of no months and no days, cut to microseconds as a Timestamp is."""
    longest = _MAX_INTERVAL_SECONDS
    seconds = _refuse_outside(_filled(array.field(0)), -longest, longest, origin, "an INTERVAL")
    nanos = _refuse_outside(_filled(array.field(1)), -_MAX_NANOS, _MAX_NANOS, origin, "a Duration's nanos")
    texts: list[str | None] = []
    bad: dict[int, str] = {}
    for index, (is_set, second, nano) in enumerate(
        zip(array.is_valid().to_pylist(), seconds.to_pylist(), nanos.to_pylist(), strict=True)
    ):
        texts.append(None)
        if not is_set or second is None or nano is None:
            continue
        if second * nano < 0:
            bad[index] = "the seconds and nanos of a Duration must have the same sign."
        else:
            try:
                texts[index] = interval_text(0, 0, second * 1_000_000 + int(nano / 1000))
            except ValueError as why:
                bad[index] = f"a Duration of {second} seconds {why}."
    origin.report(bad, lambda index: bad[index])
    return pa.array(texts, pa.string())


def _value_converter(field: Field) -> Convert | None:
    """How values of a scalar field become what its column takes; None if they are already."""
    match field.column.type:
        case "STRING" if field.kind == F.TYPE_ENUM:
            return _names(field)
        case "BYTES" if field.kind == F.TYPE_STRING:
            return lambda array, _place: array.cast(pa.binary())
        case "BOOL" if field.kind != F.TYPE_BOOL:
            return _booleans
        case "NUMERIC" | "BIGNUMERIC" if field.kind == F.TYPE_BYTES:
            return lambda array, origin: decimals_of_bytes(array, field.column, origin)
        case "NUMERIC" | "BIGNUMERIC" if field.kind in (F.TYPE_DOUBLE, F.TYPE_FLOAT):
            return lambda array, origin: decimals_of_floats(array, field.column, origin)
        case "DATE" | "TIME" | "DATETIME" | "TIMESTAMP" if field.kind == F.TYPE_STRING:
            return _TEXT_READERS[field.column.type]
        case "DATE":
            return _dates if field.kind in INT32 else _far_dates
        case "TIME":
            return unpack_times
        case "DATETIME":
            return unpack_datetimes
        case "TIMESTAMP":
            return _timestamp_micros
        case _:
            return None


def _names(field: Field) -> Convert:
    assert field.names is not None
    numbers, names = field.names.numbers, field.names.names

    def convert(array: Any, origin: Origin) -> Any:
        import pyarrow.compute as pc

        compute: Any = pc
        positions = compute.index_in(array, value_set=numbers)
        if positions.null_count != array.null_count:
            unknown = compute.and_(positions.is_null(), array.is_valid())
            origin.report_where(unknown, lambda index: f"its enum has no name for the number {array[index]}.")
        return names.take(positions)

    return convert


def _booleans(array: Any, _place: Origin) -> Any:
    import pyarrow.compute as pc

    compute: Any = pc
    return compute.not_equal(array, pa.scalar(0, array.type))


def _timestamp_micros(array: Any, _place: Origin) -> Any:
    micros = array if array.type == pa.int64() else array.cast(pa.int64())
    return micros.view(pa.timestamp("us", "UTC"))


def _dates(array: Any, _place: Origin) -> Any:
    return array.view(pa.date32())


def _far_dates(array: Any, origin: Origin) -> Any:
    """Days as int64, which date32 cannot all hold."""
    return _refuse_outside(array, *_INT32_RANGE, origin, "DATE").cast(pa.int32()).view(pa.date32())


def _refuse_outside(array: Any, low: int, high: int, origin: Origin, what: str) -> Any:
    """Report the integers out of a range; return the array with nulls in their places."""
    import pyarrow.compute as pc

    compute: Any = pc
    ends = compute.min_max(array)
    least, most = ends["min"].as_py(), ends["max"].as_py()
    if least is None or (low <= least and most <= high):
        return array
    outside = compute.or_(
        compute.less(array, pa.scalar(low, array.type)), compute.greater(array, pa.scalar(high, array.type))
    )
    origin.report_where(outside, lambda index: f"{shown(array, index)} is out of the range of {what}.")
    return compute.if_else(outside, pa.scalar(None, array.type), array)
