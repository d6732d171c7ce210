"""INTERVAL: every form in which clients send one, as the text that BigQuery prints.

An INTERVAL is a number of months, of days and of microseconds, each with a sign of its own. It is stored as
``years-months days hours:minutes:seconds.fraction``. This module reads that form, the partial forms that
BigQuery accepts, and ISO 8601 durations.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from lode.ingest.types.row_errors import each
from lode.lazy import pa, pc

if TYPE_CHECKING:
    from lode.ingest.types.row_errors import Origin

MAX_MONTHS: Final = 10_000 * 12
MAX_DAYS: Final = 3_660_000
MAX_HOURS: Final = 87_840_000
MAX_CHARACTERS: Final = 500
_SECOND_US: Final = 1_000_000
_MINUTE_US: Final = 60 * _SECOND_US
_HOUR_US: Final = 60 * _MINUTE_US
_MAX_US: Final = MAX_HOURS * _HOUR_US

_MONTHS: Final = re.compile(r"([+-]?)(?:([0-9]{1,9})-)?([0-9]{1,9})")
_DAYS: Final = re.compile(r"[+-]?[0-9]{1,9}")
_CLOCK: Final = re.compile(r"([+-]?)([0-9]{1,18})(?::([0-9]{1,18})(?::([0-9]{1,18})(?:\.([0-9]{1,18}))?)?)?")
_PART: Final = r"-?[0-9]{1,18}"
_DURATION: Final = re.compile(
    rf"P(?=.)((?:{_PART}[YMWD])*)(?:T((?:{_PART}(?:[HM]|(?:[.,][0-9]{{1,18}})?S))+))?", re.ASCII
)
_DATE_PARTS: Final = re.compile(rf"({_PART})([YMWD])")
_TIME_PARTS: Final = re.compile(r"(-?)([0-9]{1,18})(?:[.,]([0-9]{1,18}))?([HMS])")
_PART_US: Final = {"H": _HOUR_US, "M": _MINUTE_US, "S": _SECOND_US}

_NOT_ZEROS: Final = r"([1-9][0-9]{2}|0[1-9][0-9]|00[1-9])"
# Text that needs no change. Values near the limits are left to the parser.
_CANONICAL: Final = (
    r"^(0-0|-?(0-([1-9]|1[01])|[1-9][0-9]{0,3}-([0-9]|1[01]))) (0|-?[1-9][0-9]{0,5}) "
    r"-?(0|[1-9][0-9]{0,6}):([0-9]|[1-5][0-9]):([0-9]|[1-5][0-9])"
    rf"(\.([0-9]{{3}})?{_NOT_ZEROS})?$"
)


def canonical_interval(text: str) -> str:
    """The text of an INTERVAL in BigQuery's canonical form.

    Raises:
        ValueError: The text is no INTERVAL. The message continues a sentence that begins with the text.
    """
    return interval_text(*_parsed(text))


def interval_text(months: int, days: int, micros: int) -> str:
    """Write an INTERVAL in canonical form; ``ValueError`` if it is out of range."""
    if not (abs(months) <= MAX_MONTHS and abs(days) <= MAX_DAYS and abs(micros) <= _MAX_US):
        raise ValueError(
            f"is out of the range of INTERVAL: {MAX_MONTHS // 12} years, {MAX_DAYS} days and {MAX_HOURS} "
            "hours are the most"
        )
    years, month = divmod(abs(months), 12)
    seconds, fraction = divmod(abs(micros), _SECOND_US)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    # Three digits or six, as BigQuery writes them.
    decimals = "" if not fraction else f".{fraction:06}".removesuffix("000")
    return (
        f"{'-' if months < 0 else ''}{years}-{month} {days} "
        f"{'-' if micros < 0 else ''}{hour}:{minute}:{second}{decimals}"
    )


def intervals_of_text(array: Any, origin: Origin) -> Any:
    """The texts in canonical form; bad ones are reported."""
    fine: Any = pc.and_not(pc.match_substring_regex(array, _CANONICAL), pc.ends_with(array, " -0:0:0"))
    if pc.all(fine, min_count=0).as_py():
        return array
    return pa.array(each(array, origin, canonical_interval), pa.string())


def intervals_of_arrow(array: Any, origin: Origin) -> Any:
    """Arrow's months, days and nanoseconds as text."""
    return pa.array(each(array, origin, _of_nanoseconds), pa.string())


def shown_interval(text: str) -> str:
    """A stored INTERVAL in canonical form. Tables of earlier versions hold the texts as they were sent."""
    try:
        return canonical_interval(text)
    except ValueError:
        return text


def _of_nanoseconds(value: Any) -> str:
    months, days, nanoseconds = value
    if nanoseconds % 1000:
        raise ValueError("has parts of a microsecond, which an INTERVAL does not have")
    return interval_text(months, days, nanoseconds // 1000)


def _parsed(text: str) -> tuple[int, int, int]:
    """Months, days and microseconds."""
    if len(text) <= MAX_CHARACTERS:
        if text.startswith("P"):
            match = _DURATION.fullmatch(text)
            if match is not None:
                return _duration(match[1], match[2] or "")
        else:
            found = _fields(text.split(" "))
            if found is not None:
                return found
    raise ValueError("is not an INTERVAL: write Y-M D H:M:S, or an ISO 8601 duration such as P1Y2M3DT4H5M6S")


def _fields(parts: list[str]) -> tuple[int, int, int] | None:
    """Read fields between spaces. Their number, dashes and colons identify them."""
    match parts:
        case [months, days, clock]:
            return _together(_months(months), _days(days), _micros(clock))
        case [months, days] if "-" in months[1:]:
            return _together(_months(months), _days(days), 0)
        case [days, clock] if ":" in clock:
            return _together(0, _days(days), _micros(clock))
        case [months] if "-" in months[1:]:
            return _together(_months(months), 0, 0)
        case [clock] if clock.count(":") == 2:
            return _together(0, 0, _micros(clock))
    return None


def _together(months: int | None, days: int | None, micros: int | None) -> tuple[int, int, int] | None:
    return None if months is None or days is None or micros is None else (months, days, micros)


def _months(text: str) -> int | None:
    match = _MONTHS.fullmatch(text)
    if match is None:
        return None
    return _signed(match[1], int(match[2] or 0) * 12 + int(match[3]))


def _days(text: str) -> int | None:
    return int(text) if _DAYS.fullmatch(text) else None


def _micros(text: str) -> int | None:
    match = _CLOCK.fullmatch(text)
    if match is None:
        return None
    hour, minute, second = (int(match[group] or 0) for group in (2, 3, 4))
    return _signed(
        match[1], hour * _HOUR_US + minute * _MINUTE_US + second * _SECOND_US + _fraction(match[5])
    )


def _duration(date: str, time: str) -> tuple[int, int, int]:
    """The parts of an ISO 8601 duration: in any order, any number of times, each with a sign."""
    count = dict.fromkeys("YMWD", 0)
    for number, unit in _DATE_PARTS.findall(date):
        count[unit] += int(number)
    micros = 0
    for sign, number, fraction, unit in _TIME_PARTS.findall(time):
        micros += _signed(sign, int(number) * _PART_US[unit] + _fraction(fraction))
    return count["Y"] * 12 + count["M"], count["W"] * 7 + count["D"], micros


def _signed(sign: str, number: int) -> int:
    return -number if sign == "-" else number


def _fraction(digits: str | None) -> int:
    """The microseconds of the digits after the point of seconds."""
    padded = (digits or "").ljust(6, "0")
    if padded[6:].strip("0"):
        raise ValueError("has parts of a microsecond, which an INTERVAL does not have")
    return int(padded[:6])
