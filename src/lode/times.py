"""Times as text, as datetimes and as exact integers.

Integers count nanoseconds since 1970 in UTC, or since midnight. A datetime has microseconds and Arrow has
nanoseconds; integers lose nothing.

There are two grammars. RFC 3339 is how manifests, JSON records and statistics write a time. GoogleSQL's is
wider: leading zeros and seconds may be left out, and a time zone may be named.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

NS_PER: Final = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
DAY_MICROS: Final = 86_400_000_000
# The first and the last day that a date has, counted from 1970-01-01.
MIN_DAY: Final = date.min.toordinal() - date(1970, 1, 1).toordinal()
MAX_DAY: Final = date.max.toordinal() - date(1970, 1, 1).toordinal()
# The first and the last microsecond of these days.
MIN_MICROS: Final = MIN_DAY * DAY_MICROS
MAX_MICROS: Final = (MAX_DAY + 1) * DAY_MICROS - 1

_SECOND_NS: Final = 1_000_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY: Final = _EPOCH.toordinal()
_MICROSECOND: Final = timedelta(microseconds=1)

_DATE: Final = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK: Final = "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
_FRACTION: Final = r"(?:\.([0-9]{1,9}))?"
_RFC3339: Final = re.compile(rf"({_DATE}[Tt ]{_CLOCK}){_FRACTION}([Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])?")
# Most times of manifests: in UTC, on a day that every month has. Every reader checks each manifest's time.
_USUAL: Final = re.compile(
    rf"[12][0-9]{{3}}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])T{_CLOCK}(?:\.[0-9]{{1,9}})?Z"
)
_RFC3339_CLOCK: Final = re.compile(_CLOCK + _FRACTION)
# At least one number, and one after a T.
_ISO_DURATION: Final = re.compile(
    r"(-?)P(?=[0-9T])(?:([0-9]{1,10})D)?"
    r"(?:T(?=[0-9])(?:([0-9]{1,10})H)?(?:([0-9]{1,10})M)?(?:([0-9]{1,20})(?:\.([0-9]{1,9}))?S)?)?"
)

_SQL_DATE: Final = r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
_SQL_CLOCK: Final = rf"([01]?[0-9]|2[0-3])(?::([0-5]?[0-9])(?::([0-5]?[0-9]){_FRACTION})?)?"
_SQL_ZONE: Final = r"(?: ?([Zz]|[+-][0-9]{1,2}(?::?[0-9]{2})?)| ([A-Za-z][A-Za-z0-9_+/-]{0,63}))?"
_SQL_DATES: Final = re.compile(_SQL_DATE)
_SQL_TIMES: Final = re.compile(_SQL_CLOCK)
_SQL_DATETIMES: Final = re.compile(rf"{_SQL_DATE}(?:[Tt ]{_SQL_CLOCK})?")
_SQL_TIMESTAMPS: Final = re.compile(rf"{_SQL_DATE}(?:[Tt ]{_SQL_CLOCK})?{_SQL_ZONE}")


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


def time_to_ns(clock: time) -> int:
    """Return nanoseconds since midnight."""
    seconds = (clock.hour * 60 + clock.minute) * 60 + clock.second
    return seconds * _SECOND_NS + clock.microsecond * 1000


# -- RFC 3339 ------------------------------------------------------------------------------------------


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
    whole, fraction, offset = found.groups()
    zone = "+00:00" if offset is None or offset in "Zz" else offset
    seconds = int(datetime.fromisoformat(whole + zone).timestamp())
    return seconds * _SECOND_NS + (int(fraction.ljust(9, "0")) if fraction else 0), offset is not None


def rfc3339_to_ns(text: str) -> int:
    """Read an RFC 3339 time as manifests write it, with T, and Z or an offset; as nanoseconds since 1970."""
    nanoseconds, has_offset = text_to_ns(text)
    if not has_offset or text[10] != "T" or text[-1] == "z":
        raise ValueError(f"{text!r} is not an RFC 3339 time")
    return nanoseconds


def is_rfc3339(text: str) -> bool:
    """Return whether ``text`` is a time as manifests write it that a datetime can hold in UTC."""
    if _USUAL.fullmatch(text):
        return True
    try:
        return MIN_MICROS <= rfc3339_to_ns(text) // 1000 <= MAX_MICROS
    except ValueError:
        return False


def rfc3339_to_datetime(text: str) -> datetime:
    """Read a time of a manifest to the microsecond, in UTC."""
    return ns_to_datetime(rfc3339_to_ns(text))


def ns_to_rfc3339(nanoseconds: int, *, zone: str = "Z") -> str:
    """Write nanoseconds since 1970 as RFC 3339 with ``zone`` at the end; no trailing zeros."""
    seconds, fraction = divmod(nanoseconds, _SECOND_NS)
    return (_EPOCH + timedelta(seconds=seconds)).isoformat()[:19] + _decimals(fraction) + zone


def datetime_to_rfc3339(moment: datetime) -> str:
    """Write a datetime in UTC, to the microsecond; one without a zone is taken as UTC."""
    return ns_to_rfc3339(datetime_to_ns(moment) // 1000 * 1000)


def clock_to_ns(text: str) -> int:
    """Read ``HH:MM:SS`` with up to nine decimals as nanoseconds since midnight."""
    found = _RFC3339_CLOCK.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a time of day such as 13:05:00")
    return _clock_ns(text[:2], text[3:5], text[6:8], found[1])


def ns_to_clock(nanoseconds: int) -> str:
    """Write nanoseconds since midnight as ``HH:MM:SS`` with the decimals it needs."""
    seconds, fraction = divmod(nanoseconds, _SECOND_NS)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{_decimals(fraction)}"


def text_to_date(text: str) -> date:
    """Read ``YYYY-MM-DD`` and nothing else that ISO 8601 also allows."""
    if not re.fullmatch(_DATE, text):
        raise ValueError(f"{text!r} is not a date such as 2024-01-31")
    return date.fromisoformat(text)


def duration_to_ns(text: str) -> int:
    """Read an ISO 8601 duration of days, hours, minutes and seconds as nanoseconds."""
    found = _ISO_DURATION.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a duration such as P1DT2.5S")
    sign, *whole, fraction = found.groups()
    seconds = sum(int(part or 0) * each for part, each in zip(whole, (86_400, 3600, 60, 1), strict=True))
    nanoseconds = seconds * _SECOND_NS + int((fraction or "").ljust(9, "0"))
    return -nanoseconds if sign else nanoseconds


# -- GoogleSQL -----------------------------------------------------------------------------------------
# Errors finish a sentence that begins with the text.


def parse_date(text: str) -> int:
    """``YYYY-[M]M-[D]D`` as days since 1970-01-01."""
    match = _SQL_DATES.fullmatch(text)
    if match is None:
        raise ValueError("is no DATE: write YYYY-MM-DD")
    return _days(*match.groups())


def parse_time(text: str) -> int:
    """``[H]H[:[M]M[:[S]S[.F]]]`` as microseconds since midnight."""
    match = _SQL_TIMES.fullmatch(text)
    if match is None:
        raise ValueError("is no TIME: write HH:MM:SS, with up to six digits after a point")
    return _in_micros(_clock_ns(*match.groups()))


def parse_datetime(text: str) -> int:
    """A date, and a time after T or a space, as microseconds since 1970-01-01 00:00:00."""
    match = _SQL_DATETIMES.fullmatch(text)
    if match is None:
        raise ValueError("is no DATETIME: write YYYY-MM-DD HH:MM:SS, with up to six digits after a point")
    return _days(*match.groups()[:3]) * DAY_MICROS + _in_micros(_clock_ns(*match.groups()[3:]))


def parse_timestamp(text: str) -> int:
    """A datetime and a zone, UTC where none is named, as microseconds since 1970-01-01 00:00:00 UTC."""
    match = _SQL_TIMESTAMPS.fullmatch(text)
    if match is None:
        raise ValueError("is no TIMESTAMP: write YYYY-MM-DD HH:MM:SS, then Z, an offset or a time zone")
    *parts, offset, name = match.groups()
    micros = _days(*parts[:3]) * DAY_MICROS + _in_micros(_clock_ns(*parts[3:]))
    if name:
        zone = _zone(name)
        shift = zone.utcoffset((_EPOCH + timedelta(microseconds=micros)).replace(tzinfo=zone))
        micros -= (shift or timedelta()) // _MICROSECOND
    else:
        micros -= _offset_seconds(offset) * 1_000_000
    if not MIN_MICROS <= micros <= MAX_MICROS:
        raise ValueError("is out of range in UTC: a TIMESTAMP is in the years 1 to 9999")
    return micros


# By the type of a column; a DATE in days, all others in microseconds.
PARSERS: Final[dict[str, Callable[[str], int]]] = {
    "DATE": parse_date,
    "TIME": parse_time,
    "DATETIME": parse_datetime,
    "TIMESTAMP": parse_timestamp,
}


# -- parts ---------------------------------------------------------------------------------------------


def _days(year: str, month: str, day: str) -> int:
    return date(int(year), int(month), int(day)).toordinal() - _EPOCH_DAY


def _clock_ns(hour: str | None, minute: str | None, second: str | None, fraction: str | None) -> int:
    seconds = (int(hour or 0) * 60 + int(minute or 0)) * 60 + int(second or 0)
    return seconds * _SECOND_NS + (int(fraction.ljust(9, "0")) if fraction else 0)


def _in_micros(nanoseconds: int) -> int:
    micros, rest = divmod(nanoseconds, 1000)
    if rest:
        raise ValueError("is finer than a microsecond: six digits after the point are the most")
    return micros


def _offset_seconds(text: str | None) -> int:
    """The seconds that a zone is ahead of UTC: ``Z``, ``+05:30``, ``+0530`` or ``+5``."""
    if text is None or text in "Zz":
        return 0
    digits = text[1:].replace(":", "")
    # One or two digits are hours. The last two of three or four are minutes.
    hours, minutes = (int(digits), 0) if len(digits) < 3 else (int(digits[:-2]), int(digits[-2:]))
    if hours > 23 or minutes > 59:
        raise ValueError("has an offset from UTC that no zone has")
    seconds = (hours * 60 + minutes) * 60
    return -seconds if text[0] == "-" else seconds


@lru_cache(64)
def _zone(name: str) -> tzinfo:
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (OSError, ValueError, LookupError) as error:
        raise ValueError(f"names the unknown time zone {name!r}") from error


def _decimals(nanoseconds: int) -> str:
    return f".{nanoseconds:09d}".rstrip("0") if nanoseconds else ""
