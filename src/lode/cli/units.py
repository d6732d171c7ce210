"""Numbers, sizes and moments as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from lode.errors import InvalidOptionError

_UNITS: Final = ("kB", "MB", "GB", "TB", "PB", "EB")
_SPANS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def count(number: int, noun: str) -> str:
    """``1 file``, ``2,000 files``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def size(number: int) -> str:
    """A number of bytes, to three digits."""
    if number < 1000:
        return f"{number} B"
    power = next((power for power in range(1, len(_UNITS)) if number < 999.5 * 1000**power), len(_UNITS))
    value = number / 1000**power
    return f"{value:.{1 if value < 99.95 else 0}f} {_UNITS[power - 1]}"


def moment(time: datetime) -> str:
    """A time in UTC, to the second."""
    return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def span(text: str) -> timedelta:
    """A length of time such as ``90m``, ``36h`` or ``7d``."""
    number, unit = text[:-1], text[-1:]
    if not number.isdecimal() or unit not in _SPANS:
        raise InvalidOptionError(
            f"a length of time is a number and one of s, m, h, d, w, as in 36h: got {text!r}"
        )
    return timedelta(seconds=int(number) * _SPANS[unit])
