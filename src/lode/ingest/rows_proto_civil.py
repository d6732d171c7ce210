"""DATETIME and TIME as int64: civil times packed into bits, the larger unit on the more significant side.

From the least significant bit: 20 bits of microseconds, 6 of seconds, 6 of minutes, 5 of hours; a DATETIME
goes on with 5 bits of days, 4 of months and 14 of years.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lode.lazy import pa

if TYPE_CHECKING:
    from lode.ingest.problems import Place

_TIME_BITS: Final = 37
_DATETIME_BITS: Final = 60
_SECOND: Final = 1_000_000
_DAY: Final = 86_400 * _SECOND


def unpack_times(packed: Any, place: Place) -> Any:
    """Packed TIMEs as time64[us]; those that are no times are reported, and null."""
    import pyarrow.compute as pc

    compute: Any = pc
    micros, valid = _time_of_day(packed)
    valid = compute.and_(valid, _fits(packed, _TIME_BITS))
    if _all(valid):
        return micros.view(pa.time64("us"))
    place.report_where(compute.invert(valid), lambda index: f"{packed[index]} is no packed TIME.")
    return compute.if_else(valid, micros, pa.scalar(None, pa.int64())).view(pa.time64("us"))


def unpack_datetimes(packed: Any, place: Place) -> Any:
    """Packed DATETIMEs as timestamp[us]; those that are no times are reported, and null."""
    import pyarrow.compute as pc

    compute: Any = pc
    day, month, year = _bits(packed, 37, 5), _bits(packed, 42, 4), _bits(packed, 46, 14)
    time, valid = _time_of_day(packed)
    micros = compute.add(compute.multiply(_days(year, month, day), _DAY), time)
    times = micros.view(pa.timestamp("us"))
    valid = compute.and_(valid, _fits(packed, _DATETIME_BITS))
    valid = compute.and_(valid, _between(year, 1, 9999))
    valid = compute.and_(valid, _between(month, 1, 12))
    # A day that its month does not have has become one of another month.
    valid = compute.and_(valid, compute.equal(compute.day(times), day))
    if _all(valid):
        return times
    place.report_where(compute.invert(valid), lambda index: f"{packed[index]} is no packed DATETIME.")
    return compute.if_else(valid, times, pa.scalar(None, times.type))


def _time_of_day(packed: Any) -> tuple[Any, Any]:
    """Microseconds since midnight, and whether they are."""
    import pyarrow.compute as pc

    compute: Any = pc
    micro, second = _bits(packed, 0, 20), _bits(packed, 20, 6)
    minute, hour = _bits(packed, 26, 6), _bits(packed, 32, 5)
    seconds = compute.add(compute.multiply(compute.add(compute.multiply(hour, 60), minute), 60), second)
    valid = compute.and_(
        compute.and_(compute.less(micro, _SECOND), compute.less(second, 60)),
        compute.and_(compute.less(minute, 60), compute.less(hour, 24)),
    )
    return compute.add(compute.multiply(seconds, _SECOND), micro), valid


def _days(year: Any, month: Any, day: Any) -> Any:
    """Days since 1970-01-01 in the Gregorian calendar; with years from March on, leap days come last."""
    import pyarrow.compute as pc

    compute: Any = pc
    early = compute.less_equal(month, 2)
    year = compute.subtract(year, early.cast(pa.int64()))
    month = compute.if_else(early, compute.add(month, 9), compute.subtract(month, 3))
    # 153 days are the five months from March, and again from August.
    in_year = compute.add(
        compute.divide(compute.add(compute.multiply(month, 153), 2), 5), compute.subtract(day, 1)
    )
    leaps = compute.add(
        compute.subtract(compute.divide(year, 4), compute.divide(year, 100)), compute.divide(year, 400)
    )
    # 719468 days lie between 0000-03-01 and 1970-01-01.
    return compute.subtract(compute.add(compute.add(compute.multiply(year, 365), leaps), in_year), 719_468)


def _bits(packed: Any, shift: int, width: int) -> Any:
    import pyarrow.compute as pc

    compute: Any = pc
    shifted = compute.shift_right(packed, pa.scalar(shift, pa.int64())) if shift else packed
    return compute.bit_wise_and(shifted, pa.scalar((1 << width) - 1, pa.int64()))


def _fits(packed: Any, bits: int) -> Any:
    return _between(packed, 0, (1 << bits) - 1)


def _between(array: Any, low: int, high: int) -> Any:
    import pyarrow.compute as pc

    compute: Any = pc
    return compute.and_(compute.greater_equal(array, low), compute.less_equal(array, high))


def _all(valid: Any) -> bool:
    """Whether all are, nulls aside."""
    import pyarrow.compute as pc

    compute: Any = pc
    return compute.all(valid).as_py() is not False
