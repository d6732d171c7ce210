"""Sizes, lengths of time, counts and times as people read and write them.

Settings whose unit matters have the type ``Bytes`` or ``Seconds``: their flags read ``64MiB`` and ``3d``.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

from lode.errors import InvalidOptionError
from lode.format.ids import shortened

Bytes = Annotated[int, "bytes"]
Seconds = Annotated[float, "seconds"]

_UNITS: Final = ("kB", "MB", "GB", "TB", "PB", "EB")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_BYTES: Final = {
    "": 1,
    "B": 1,
    **{unit: 1000**power for power, unit in enumerate(_UNITS, 1)},
    **{f"{unit[0].upper()}iB": 1024**power for power, unit in enumerate(_UNITS, 1)},
}
_AMOUNT: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?) ?([A-Za-z]*)", re.ASCII)


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


def byte_count(text: str) -> int:
    """The number of bytes in ``64MiB``, ``64 MB`` or ``67108864``.

    Raises:
        ValueError: It is no size, or not a whole number of bytes.
    """
    units = {unit.casefold(): factor for unit, factor in _BYTES.items()}
    number, unit = _amount(text)
    product = _product(number, units.get(unit, 1))
    if unit not in units or not math.isfinite(product) or product != int(product):
        raise ValueError(f"{text!r} is no size: write a number of bytes, or a size such as 64MiB or 2GB")
    return int(number) * units[unit] if number == int(number) else int(number * units[unit])


def seconds(text: str) -> float:
    """The seconds in ``3d``, ``1.5h``, ``10s`` or ``10``.

    Raises:
        ValueError: It is no length of time.
    """
    number, unit = _amount(text)
    product = _product(number, _SECONDS.get(unit, 1))
    if (unit and unit not in _SECONDS) or not math.isfinite(product):
        raise ValueError(f"{text!r} is no length of time: write seconds, or a time such as 10s, 36h or 3d")
    return product


def age(text: str) -> timedelta:
    """A length of time such as ``90m``, ``36h`` or ``7d``. The unit is required: 7 could mean days."""
    try:
        if not text.strip()[-1:].isalpha():
            raise ValueError
        return timedelta(seconds=seconds(text))
    except ValueError:
        raise InvalidOptionError(
            f"a length of time is a number and one of s, m, h, d, w, as in 36h: got {shortened(text)}"
        ) from None
    except OverflowError:
        raise InvalidOptionError(f"{shortened(text)} is too long a time: give at most 999999999d") from None


def spelled_bytes(number: int) -> str:
    """A number of bytes in the form that ``byte_count`` reads: ``64MiB``."""
    for unit in ("EiB", "PiB", "TiB", "GiB", "MiB", "KiB"):
        if number and number % _BYTES[unit] == 0:
            return f"{number // _BYTES[unit]}{unit}"
    return str(number)


def spelled_seconds(number: float) -> str:
    """A length of time in the form that ``seconds`` reads: ``3d``, ``10s``."""
    for unit in ("w", "d", "h", "m"):
        if number and number % _SECONDS[unit] == 0:
            return f"{number / _SECONDS[unit]:g}{unit}"
    return f"{number:g}s"


def _product(number: float, factor: int) -> float:
    try:
        return float(number * factor)
    except OverflowError:
        return math.inf


def _amount(text: str) -> tuple[float, str]:
    """A number and its unit in lower case."""
    match = _AMOUNT.fullmatch(text.strip())
    number = float(match[1]) if match else math.nan
    if match is None or not math.isfinite(number):
        return math.nan, "?"
    return (int(match[1]) if match[1].lstrip("+-").isdecimal() else number), match[2].casefold()
