"""Times as exact integers: nanoseconds since 1970, or since midnight.

A datetime stops at microseconds and Arrow goes on to nanoseconds; integers lose nothing on the way.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

NS_PER: Final = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_DAY_NS: Final = 86_400 * 1_000_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)

_CLOCK: Final = r"([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(?:\.(\d{1,9}))?"
_RFC3339: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ]" + _CLOCK + r"(?:([Zz])|([+-])([01]\d|2[0-3]):([0-5]\d))?", re.ASCII
)
_TIME: Final = re.compile(_CLOCK, re.ASCII)


def datetime_to_ns(moment: datetime) -> int:
    """Return nanoseconds since 1970 in UTC; a datetime without a zone is taken as UTC."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    # pandas has datetimes with nanoseconds, and subtracts them into its own kind of difference.
    extra = getattr(moment, "nanosecond", 0)
    plain = datetime(
        moment.year, moment.month, moment.day, moment.hour, moment.minute, moment.second, moment.microsecond,
        moment.tzinfo, fold=moment.fold,
    )  # fmt: skip
    return (plain - _EPOCH) // _MICROSECOND * 1000 + extra


def ns_to_datetime(nanoseconds: int) -> datetime:
    """Return the datetime in UTC at or just before this many nanoseconds since 1970."""
    return _EPOCH + timedelta(microseconds=nanoseconds // 1000)


def text_to_ns(text: str) -> tuple[int, bool]:
    """Read an RFC 3339 time, with or without an offset.

    Returns:
        Nanoseconds since 1970, and whether the text had an offset.

    Raises:
        ValueError: The text is no such time.
    """
    found = _RFC3339.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not an RFC 3339 time")
    year, month, day, hour, minute, second, fraction, zulu, sign, off_hours, off_minutes = found.groups()
    start = datetime(int(year), int(month), int(day), int(hour), int(minute), int(second), tzinfo=UTC)
    nanoseconds = (start - _EPOCH) // timedelta(seconds=1) * 1_000_000_000 + _fraction_ns(fraction)
    if sign is None:
        return nanoseconds, zulu is not None
    offset = (int(off_hours) * 3600 + int(off_minutes) * 60) * 1_000_000_000
    return nanoseconds - offset if sign == "+" else nanoseconds + offset, True


def time_to_ns(clock: time) -> int:
    """Return nanoseconds since midnight."""
    seconds = (clock.hour * 60 + clock.minute) * 60 + clock.second
    return seconds * 1_000_000_000 + clock.microsecond * 1000


def time_text_to_ns(text: str) -> int:
    """Read ``HH:MM:SS`` with up to nine decimals as nanoseconds since midnight."""
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a time of day such as 13:05:00")
    hour, minute, second, fraction = found.groups()
    return (int(hour) * 3600 + int(minute) * 60 + int(second)) * 1_000_000_000 + _fraction_ns(fraction)


def text_to_date(text: str) -> date:
    """Read ``YYYY-MM-DD`` and nothing else that ISO 8601 also allows."""
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII):
        raise ValueError(f"{text!r} is not a date such as 2024-01-31")
    return date.fromisoformat(text)


def ns_to_text(nanoseconds: int, *, zone: str) -> str:
    """Write nanoseconds since 1970 as RFC 3339 with ``zone`` at the end; no trailing zeros."""
    seconds, fraction = divmod(nanoseconds, 1_000_000_000)
    return (_EPOCH + timedelta(seconds=seconds)).isoformat()[:19] + _decimals(fraction) + zone


def time_ns_to_text(nanoseconds: int) -> str:
    """Write nanoseconds since midnight as ``HH:MM:SS`` with the decimals it needs."""
    seconds, fraction = divmod(nanoseconds, 1_000_000_000)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{_decimals(fraction)}"


def _fraction_ns(digits: str | None) -> int:
    return int(digits.ljust(9, "0")) if digits else 0


def _decimals(nanoseconds: int) -> str:
    return f".{nanoseconds:09d}".rstrip("0") if nanoseconds else ""
