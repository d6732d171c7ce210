"""Dates and times as text, and text as dates and times, with the formats of GoogleSQL."""

from __future__ import annotations

import calendar
import datetime as dt
import re
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    from collections.abc import Callable


def zone_of(name: str) -> dt.tzinfo:
    match = re.fullmatch(r"([+-])(\d{1,2})(?::(\d{2}))?", name)
    if match:
        minutes = int(match[2]) * 60 + int(match[3] or 0)
        return dt.timezone(dt.timedelta(minutes=-minutes if match[1] == "-" else minutes))
    try:
        return ZoneInfo(name)
    except Exception:
        raise ValueError(f"Invalid time zone: {name}") from None


def check_zone(name: str) -> str:
    zone_of(name)
    return name


def _offset(moment: dt.datetime, zone: str | None) -> dt.timedelta:
    if zone is None:
        return dt.timedelta(0)
    return moment.replace(tzinfo=zone_of(zone)).utcoffset() or dt.timedelta(0)


def _offset_text(offset: dt.timedelta, colon: str) -> str:
    minutes = int(offset.total_seconds()) // 60
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}{colon}{abs(minutes) % 60:02d}"


def zoned_text(moment: dt.datetime, zone: str) -> str:
    local = moment.replace(tzinfo=dt.UTC).astimezone(zone_of(zone))
    offset = _offset_text(local.utcoffset() or dt.timedelta(0), ":")
    fraction = f".{local.microsecond:06d}".rstrip("0").rstrip(".") if local.microsecond else ""
    return f"{local:%Y-%m-%d %H:%M:%S}{fraction}{offset.removesuffix(':00')}"


def format_moment(form: str, x: dt.datetime | None, zone: str | None) -> str | None:
    if x is None:
        return None
    if len(form) > _MAX_FORM_CHARS:
        raise ValueError(f"A format has at most {_MAX_FORM_CHARS:,} characters, this one has {len(form):,}")

    def one(match: re.Match[str]) -> str:
        code = match[0][1:]
        iso = x.isocalendar()
        if code[0] == "E":
            if code == "Ez":
                return _offset_text(_offset(x, zone), ":")
            if code == "E4Y":
                return f"{x.year:04d}"
            digits = code[1:-1]
            if digits == "*":
                fraction = f"{x.microsecond:06d}".rstrip("0")
            else:
                fraction = f"{x.microsecond:06d}".ljust(int(digits), "0")[: int(digits)]
            return f"{x.second:02d}" + (f".{fraction}" if fraction else "")
        simple = {
            "Y": f"{x.year}",
            "C": f"{x.year // 100:02d}",
            "y": f"{x.year % 100:02d}",
            "m": f"{x.month:02d}",
            "d": f"{x.day:02d}",
            "e": f"{x.day:2d}",
            "H": f"{x.hour:02d}",
            "I": f"{(x.hour + 11) % 12 + 1:02d}",
            "k": f"{x.hour:2d}",
            "l": f"{(x.hour + 11) % 12 + 1:2d}",
            "M": f"{x.minute:02d}",
            "S": f"{x.second:02d}",
            "j": f"{x.timetuple().tm_yday:03d}",
            "F": f"{x.year:04d}-{x.month:02d}-{x.day:02d}",
            "D": f"{x.month:02d}/{x.day:02d}/{x.year % 100:02d}",
            "T": f"{x:%H:%M:%S}",
            "X": f"{x:%H:%M:%S}",
            "R": f"{x:%H:%M}",
            "x": f"{x.month:02d}/{x.day:02d}/{x.year % 100:02d}",
            "A": calendar.day_name[x.weekday()],
            "a": calendar.day_abbr[x.weekday()],
            "B": calendar.month_name[x.month],
            "b": calendar.month_abbr[x.month],
            "h": calendar.month_abbr[x.month],
            "p": "AM" if x.hour < 12 else "PM",
            "P": "am" if x.hour < 12 else "pm",
            "n": "\n",
            "t": "\t",
            "%": "%",
            "u": str(x.isoweekday()),
            "w": str(x.isoweekday() % 7),
            "G": str(iso.year),
            "g": f"{iso.year % 100:02d}",
            "V": f"{iso.week:02d}",
            "U": f"{(x.timetuple().tm_yday + 6 - x.isoweekday() % 7) // 7:02d}",
            "W": f"{(x.timetuple().tm_yday + 6 - x.weekday()) // 7:02d}",
            "Q": str((x.month + 2) // 3),
            "z": _offset_text(_offset(x, zone), ""),
            "s": str(calendar.timegm((x - _offset(x, zone)).timetuple())),
            "J": str(iso.year),
        }
        if code == "c":
            day, month = calendar.day_abbr[x.weekday()], calendar.month_abbr[x.month]
            return f"{day} {month} {x.day:2d} {x:%H:%M:%S} {x.year}"
        if code == "Z":
            offset = _offset(x, zone)
            return "UTC" if not offset else "UTC" + re.sub(r"(?<=[+-])0|:?00$", "", _offset_text(offset, ":"))
        return simple.get(code, match[0])

    return re.sub(r"%(?:E[1-9*]?[SY]|E4Y|Ez|.)", one, form, flags=re.DOTALL)


_MAX_FORM_CHARS: Final = 10_000
_MONTHS: Final = {
    name.lower(): number
    for names in (calendar.month_name, calendar.month_abbr)
    for number, name in enumerate(names)
    if name
}
_DAYS: Final = {name.lower() for names in (calendar.day_name, calendar.day_abbr) for name in names}
_EXPANDED: Final = {
    "F": "%Y-%m-%d",
    "T": "%H:%M:%S",
    "X": "%H:%M:%S",
    "R": "%H:%M",
    "D": "%m/%d/%y",
    "x": "%m/%d/%y",
    "c": "%a %b %e %H:%M:%S %Y",
}
_NUMBERS: Final = {
    "Y": r"[+-]?\d{1,4}",
    "E4Y": r"\d{4}",
    "C": r"\d{1,2}",
    "y": r"\d{1,2}",
    "m": r"\d{1,2}",
    "d": r"\s?\d{1,2}",
    "e": r"\s?\d{1,2}",
    "H": r"\d{1,2}",
    "I": r"\d{1,2}",
    "k": r"\s?\d{1,2}",
    "l": r"\s?\d{1,2}",
    "M": r"\d{1,2}",
    "S": r"\d{1,2}",
    "j": r"\d{1,3}",
    "s": r"-?\d+",
    "Q": r"[1-4]",
    "U": r"\d{1,2}",
    "W": r"\d{1,2}",
    "V": r"\d{1,2}",
    "G": r"\d{4}",
    "g": r"\d{1,2}",
    "u": r"\d",
    "w": r"\d",
}


def parse_moment(form: str, x: str | None, kind: str, zone: str | None) -> dt.datetime | None:
    if x is None:
        return None
    while True:
        expanded = re.sub(r"%([FTXRDxc])", lambda match: _EXPANDED[match[1]], form)
        if expanded == form:
            break
        form = expanded
    values: dict[str, str] = {}
    at = 0

    def fail() -> ValueError:
        return ValueError(f'Failed to parse input string "{x}"')

    for token in re.findall(r"%(?:E[0-9*]?[SY]|Ez|.)|\s+|[^%\s]", form, flags=re.DOTALL):
        if token.isspace() or token in ("%n", "%t"):
            while at < len(x) and x[at].isspace():
                at += 1
            continue
        if not token.startswith("%") or token == "%%":
            wanted = token.removeprefix("%") or "%"
            if x[at : at + len(wanted)] != wanted:
                raise fail()
            at += len(wanted)
            continue
        code = token[1:]
        if code in _NUMBERS:
            pattern = _NUMBERS[code]
        elif code.startswith("E") and code.endswith("S"):
            pattern = r"\d{1,2}(?:\.\d+)?"
        elif code in ("B", "b", "h"):
            pattern = "|".join(sorted(_MONTHS, key=len, reverse=True))
        elif code in ("A", "a"):
            pattern = "|".join(sorted(_DAYS, key=len, reverse=True))
        elif code in ("p", "P"):
            pattern = "am|pm"
        elif code in ("z", "Ez"):
            pattern = r"Z|[+-]\d{1,2}:?\d{0,2}"
        elif code == "Z":
            pattern = r"[A-Za-z_/+\-0-9:]+"
        else:
            raise fail()
        match = re.compile(pattern, re.IGNORECASE).match(x, at)
        if match is None:
            raise fail()
        values[code] = match[0].strip()
        at = match.end()
    if x[at:].strip():
        raise fail()
    return _assembled(values, kind, zone, fail)


def _assembled(
    values: dict[str, str], kind: str, zone: str | None, fail: Callable[[], ValueError]
) -> dt.datetime:
    def number(*codes: str, default: int) -> int:
        return next((int(values[code]) for code in codes if code in values), default)

    if "s" in values:
        moment = dt.datetime(1970, 1, 1) + dt.timedelta(seconds=int(values["s"]))
    else:
        year = number("Y", "E4Y", default=1970)
        if "y" in values:
            short = int(values["y"])
            year = number("C", default=20 if short < 69 else 19) * 100 + short
        month = (
            _MONTHS[next(values[code] for code in ("B", "b", "h") if code in values).lower()]
            if any(code in values for code in "Bbh")
            else number("m", default=1)
        )
        day = number("d", "e", default=1)
        hour = number("H", "k", default=0)
        half = values.get("p", values.get("P"))
        if "I" in values or "l" in values:
            hour = number("I", "l", default=0) % 12 + (12 if half and half.lower() == "pm" else 0)
        seconds = next(
            (
                value
                for code, value in values.items()
                if code == "S" or (code[0] == "E" and code.endswith("S"))
            ),
            "0",
        )
        whole, _, fraction = seconds.partition(".")
        try:
            moment = dt.datetime(year, month, day, hour, number("M", default=0), 0)
        except ValueError:
            raise fail() from None
        moment += dt.timedelta(seconds=int(whole), microseconds=int(fraction.ljust(6, "0")[:6] or 0))
        if "j" in values and "m" not in values:
            moment = moment.replace(month=1, day=1) + dt.timedelta(days=int(values["j"]) - 1)
        if "Q" in values and "m" not in values:
            moment = moment.replace(month=3 * int(values["Q"]) - 2)
    if kind == "timestamp":
        offset = values.get("z", values.get("Ez"))
        if offset is not None:
            match = re.fullmatch(r"([+-])(\d{1,2}):?(\d{0,2})", offset)
            minutes = (
                0
                if match is None
                else (int(match[2]) * 60 + int(match[3] or 0)) * (-1 if match[1] == "-" else 1)
            )
            moment -= dt.timedelta(minutes=minutes)
        elif "s" not in values:
            at = values.get("Z", zone or "UTC")
            moment = moment.replace(tzinfo=zone_of(at)).astimezone(dt.UTC).replace(tzinfo=None)
    return moment
