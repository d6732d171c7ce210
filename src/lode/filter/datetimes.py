"""DATE, TIME, DATETIME and TIMESTAMP as text, in all forms that BigQuery knows: the numbers Arrow stores.

One digit where two are usual, no zone where UTC is meant, zones by name. What is refused says what to write.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import tzinfo

_DATE: Final = r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
_TIME: Final = r"([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]{1,9}))?)?)?"
_ZONE: Final = r"(?: ?([Zz]|[+-][0-9]{1,2}(?::?[0-9]{2})?)| ([A-Za-z][A-Za-z0-9_+/-]{0,63}))?"
_DATES: Final = re.compile(_DATE)
_TIMES: Final = re.compile(_TIME)
_DATETIMES: Final = re.compile(rf"{_DATE}(?:[Tt ]{_TIME})?")
_TIMESTAMPS: Final = re.compile(rf"{_DATE}(?:[Tt ]{_TIME})?{_ZONE}")
_EPOCH: Final = datetime(1970, 1, 1)
_MICROSECOND: Final = timedelta(microseconds=1)
_FIRST_DAY: Final = date(1970, 1, 1).toordinal()


def parse_date(text: str) -> int:
    """``YYYY-[M]M-[D]D`` as days since 1970-01-01."""
    match = _DATES.fullmatch(text)
    if match is None:
        raise ValueError("is no DATE: write YYYY-MM-DD")
    return date(*map(int, match.groups())).toordinal() - _FIRST_DAY


def parse_time(text: str) -> int:
    """``[H]H[:[M]M[:[S]S[.F]]]`` as microseconds since midnight."""
    match = _TIMES.fullmatch(text)
    if match is None:
        raise ValueError("is no TIME: write HH:MM:SS, with up to six digits after a point")
    return _micros(datetime(1970, 1, 1, *_clock(*match.groups())))


def parse_datetime(text: str) -> int:
    """A date, and a time after T or a space, as microseconds since 1970-01-01 00:00:00."""
    match = _DATETIMES.fullmatch(text)
    if match is None:
        raise ValueError("is no DATETIME: write YYYY-MM-DD HH:MM:SS, with up to six digits after a point")
    return _micros(_at(match.groups()))


def parse_timestamp(text: str) -> int:
    """A datetime and a zone, UTC where none is named, as microseconds since 1970-01-01 00:00:00 UTC."""
    match = _TIMESTAMPS.fullmatch(text)
    if match is None:
        raise ValueError("is no TIMESTAMP: write YYYY-MM-DD HH:MM:SS, then Z, an offset or a time zone")
    *parts, offset, name = match.groups()
    local = _at(parts)
    zone = _zone(name) if name else _offset(offset)
    shift = zone.utcoffset(local.replace(tzinfo=zone)) if zone is not UTC else None
    micros = _micros(local) - ((shift or timedelta()) // _MICROSECOND)
    if not _FIRST_MOMENT <= micros <= _LAST_MOMENT:
        raise ValueError("is out of range in UTC: the years 1 to 9999 are what there is")
    return micros


# By the type of a column; a DATE in days, all others in microseconds.
PARSERS: Final[dict[str, Callable[[str], int]]] = {
    "DATE": parse_date,
    "TIME": parse_time,
    "DATETIME": parse_datetime,
    "TIMESTAMP": parse_timestamp,
}


def _at(parts: Any) -> datetime:
    year, month, day, *clock = parts
    return datetime(int(year), int(month), int(day), *_clock(*clock))


def _clock(
    hour: str | None, minute: str | None, second: str | None, fraction: str | None
) -> tuple[int, int, int, int]:
    digits = (fraction or "").ljust(6, "0")
    if digits[6:].strip("0"):
        raise ValueError("is finer than a microsecond: six digits after the point are the most")
    return int(hour or 0), int(minute or 0), int(second or 0), int(digits[:6])


def _micros(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def _offset(text: str | None) -> tzinfo:
    if text is None or text in "Zz":
        return UTC
    digits = text[1:].replace(":", "")
    # One or two digits are hours, three or four have minutes behind them.
    hours, minutes = (int(digits), 0) if len(digits) < 3 else (int(digits[:-2]), int(digits[-2:]))
    if hours > 23 or minutes > 59:
        raise ValueError("has an offset from UTC that no zone has")
    shift = timedelta(hours=hours, minutes=minutes)
    return timezone(-shift if text[0] == "-" else shift)


@lru_cache(64)
def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, LookupError) as error:
        raise ValueError(f"names the unknown time zone {name!r}") from error


_FIRST_MOMENT: Final = _micros(datetime.min)
_LAST_MOMENT: Final = _micros(datetime.max)
