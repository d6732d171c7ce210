"""DATE, TIME, DATETIME and TIMESTAMP as protobuf fields carry them: as text, or packed into an int64.

Text is cast by Arrow if every value has its canonical form. Otherwise values are read one by one, in all
forms that BigQuery accepts, and bad ones are reported.

A packed value has from the least significant bit 20 bits of microseconds, 6 of seconds, 6 of minutes and 5 of
hours; a DATETIME continues with 5 bits of days, 4 of months and 14 of years. The bits of hours to seconds,
and those of years and months, are looked up in tables with nulls for invalid times, so no calendar arithmetic
is needed.
"""

from __future__ import annotations

from datetime import date
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from lode.ingest.types.row_errors import each
from lode.lazy import pa
from lode.times import DAY_MICROS, parse_date, parse_datetime, parse_time, parse_timestamp

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.ingest.types.row_errors import Origin

_TIME_BITS: Final = 37
_DATETIME_BITS: Final = 60
_SECOND_MICROS: Final = 1_000_000


def dates_of_text(array: Any, origin: Origin) -> Any:
    days = _cast(array, pa.date32())
    return days if days is not None else _each(array, origin, parse_date, pa.int32()).view(pa.date32())


def times_of_text(array: Any, origin: Origin) -> Any:
    import pyarrow.compute as pc

    compute: Any = pc
    # Arrow reads times only together with a date.
    moments = _cast(compute.binary_join_element_wise("1970-01-01", array, "T"), pa.timestamp("us"))
    micros = moments.view(pa.int64()) if moments is not None else _each(array, origin, parse_time, pa.int64())
    return micros.view(pa.time64("us"))


def datetimes_of_text(array: Any, origin: Origin) -> Any:
    kind = pa.timestamp("us")
    moments = _cast(array, kind)
    return moments if moments is not None else _each(array, origin, parse_datetime, pa.int64()).view(kind)


def timestamps_of_text(array: Any, origin: Origin) -> Any:
    kind = pa.timestamp("us", "UTC")
    moments = _cast(array, kind)
    if moments is None and (civil := _cast(array, pa.timestamp("us"))) is not None:
        return civil.view(kind)
    return moments if moments is not None else _each(array, origin, parse_timestamp, pa.int64()).view(kind)


def _cast(array: Any, kind: Any) -> Any:
    try:
        return array.cast(kind)
    except pa.ArrowInvalid:
        return None


def _each(array: Any, origin: Origin, parse: Callable[[str], int], kind: Any) -> Any:
    return pa.array(each(array, origin, parse), kind)


def unpack_times(packed: Any, origin: Origin) -> Any:
    """Packed TIMEs as time64[us]; invalid ones are reported, and null."""
    times = _times_of_day(_within(packed, _TIME_BITS)).view(pa.time64("us"))
    return _reported(times, packed, origin, "TIME")


def unpack_datetimes(packed: Any, origin: Origin) -> Any:
    """Packed DATETIMEs as timestamp[us]; invalid ones are reported, and null."""
    import pyarrow.compute as pc

    compute: Any = pc
    bits = _within(packed, _DATETIME_BITS)
    day = _bits(bits, 37, 5)
    months = _starts_of_months().take(_bits(bits, 42, 18))
    days = compute.add(months, compute.multiply(day, pa.scalar(DAY_MICROS, pa.int64())))
    times = compute.add(days, _times_of_day(bits)).view(pa.timestamp("us"))
    # A day that its month lacks has become a day of the next month.
    right = compute.equal(compute.day(times), day)
    if not compute.all(right, min_count=0).as_py():
        times = compute.if_else(right, times, pa.scalar(None, times.type))
    return _reported(times, packed, origin, "DATETIME")


def _times_of_day(bits: Any) -> Any:
    """Microseconds since midnight, from the lower bits; null where they are invalid."""
    import pyarrow.compute as pc

    compute: Any = pc
    micro = _bits(bits, 0, 20)
    most = compute.max(micro).as_py()
    if most is not None and most >= _SECOND_MICROS:
        second = pa.scalar(_SECOND_MICROS, pa.int64())
        micro = compute.if_else(compute.less(micro, second), micro, pa.scalar(None, pa.int64()))
    return compute.add(_seconds_of_days().take(_bits(bits, 20, 17)), micro)


def _within(packed: Any, bits: int) -> Any:
    """The values with nulls for those that have higher bits set."""
    import pyarrow.compute as pc

    compute: Any = pc
    ends = compute.min_max(packed)
    least, most = ends["min"].as_py(), ends["max"].as_py()
    if least is None or (least >= 0 and most < 1 << bits):
        return packed
    above = compute.shift_right(packed, pa.scalar(bits, pa.int64()))
    none_above = compute.equal(above, pa.scalar(0, pa.int64()))
    return compute.if_else(none_above, packed, pa.scalar(None, pa.int64()))


def _bits(packed: Any, shift: int, width: int) -> Any:
    import pyarrow.compute as pc

    compute: Any = pc
    shifted = compute.shift_right(packed, pa.scalar(shift, pa.int64())) if shift else packed
    return compute.bit_wise_and(shifted, pa.scalar((1 << width) - 1, pa.int64()))


def _reported(times: Any, packed: Any, origin: Origin, kind: str) -> Any:
    import pyarrow.compute as pc

    if times.null_count != packed.null_count:
        compute: Any = pc
        bad = compute.and_(times.is_null(), packed.is_valid())
        origin.report_where(bad, lambda index: f"{packed[index]} is no packed {kind}.")
    return times


@cache
def _seconds_of_days() -> Any:
    """Microseconds since midnight, by the 17 bits of hours, minutes and seconds."""
    micros: list[int | None] = [None] * (1 << 17)
    for hour in range(24):
        for minute in range(60):
            for second in range(60):
                micros[hour << 12 | minute << 6 | second] = (
                    (hour * 60 + minute) * 60 + second
                ) * _SECOND_MICROS
    return pa.array(micros, pa.int64())


@cache
def _starts_of_months() -> Any:
    """Microseconds from 1970 to the day before each month's first, by the 18 bits of years and months."""
    epoch = date(1970, 1, 1).toordinal()
    micros: list[int | None] = [None] * (1 << 18)
    for year in range(1, 10_000):
        for month in range(1, 13):
            micros[year << 4 | month] = (date(year, month, 1).toordinal() - 1 - epoch) * DAY_MICROS
    return pa.array(micros, pa.int64())
