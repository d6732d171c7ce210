"""Functions that macros cannot express, in Python: formats, parsers, encodings. Each returns one value."""

from __future__ import annotations

import base64
import functools
import hashlib
import itertools
import json
import re
import unicodedata
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal, localcontext
from operator import mul, truediv
from typing import TYPE_CHECKING, Any, Final

from lode.lazy import pa
from lode.sql.geo_functions import GEO_GIVES_NULL, GEO_TAKES_NULL, GEO_UDFS
from lode.sql.json_values import (
    json_change,
    json_check,
    json_key_paths,
    json_object_of,
    json_path,
    json_strip,
    json_text,
)
from lode.sql.moments import format_moment, parse_moment, zoned_text
from lode.sql.net import (
    host_of,
    ip_from_string,
    ip_net_mask,
    ip_to_string,
    ip_trunc,
    ipv4_from_int64,
    ipv4_to_int64,
    public_suffix,
    reg_domain,
    safe_ip_from_string,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_N = "DECIMAL(38, 9)"
_B = "DECIMAL(38, 18)"
# Of numbers that are written out.
_MAX_EXPONENT: Final = 60


# -- numbers ------------------------------------------------------------------------------------------------


def _quantized(value: Decimal, digits: int, rounding: str) -> Decimal:
    exponent = value.as_tuple().exponent
    if isinstance(exponent, int) and digits > -exponent:
        return value  # it has no more digits
    if digits < -_MAX_EXPONENT:
        return Decimal(0)
    with localcontext() as context:
        context.prec = 90
        return value.quantize(Decimal(1).scaleb(-digits), rounding=rounding)


def numeric_divide(x: Decimal, y: Decimal) -> Decimal:
    with localcontext() as context:
        context.prec = 90
        return _quantized(x / y, 9, ROUND_HALF_UP)


def numeric_multiply(x: Decimal, y: Decimal) -> Decimal:
    with localcontext() as context:
        context.prec = 90
        made = _quantized(x * y, 9, ROUND_HALF_UP)
    if abs(made) >= Decimal(10) ** 29:
        raise ValueError(f"numeric overflow: {x.normalize():f} * {y.normalize():f}")
    return made


def numeric_div(x: Decimal, y: Decimal) -> Decimal:
    with localcontext() as context:
        context.prec = 90
        return x // y


def numeric_round(x: Decimal, n: int) -> Decimal:
    return _quantized(x, n, ROUND_HALF_UP)


def numeric_round_even(x: Decimal, n: int) -> Decimal:
    return _quantized(x, n, ROUND_HALF_EVEN)


def numeric_trunc(x: Decimal, n: int) -> Decimal:
    return _quantized(x, n, ROUND_DOWN)


def _exact(operator: str, digits: int) -> Callable[[Decimal, Decimal], Decimal]:
    """A product or quotient with so many digits after the point; one with more is an error."""
    compute: Callable[[Decimal, Decimal], Decimal] = {"*": mul, "/": truediv}[operator]

    # DuckDB takes the number of parameters from the signature.
    def exact(x: Decimal, y: Decimal) -> Decimal:
        with localcontext() as context:
            context.prec = 200
            found = compute(x, y)
            made = found.quantize(Decimal(1).scaleb(-digits))
        if made != found:
            mixed = "NUMERIC and " if digits < 18 else ""
            raise ValueError(
                f"{x.normalize():f} {operator} {y.normalize():f} has more than {digits} digits after the "
                f"point, which a query with {mixed}BIGNUMERIC does not have: cast the operands to FLOAT64"
            )
        if abs(made) >= Decimal(10) ** 20:
            raise ValueError(
                f"{x.normalize():f} {operator} {y.normalize():f} has more than 20 digits before the point, "
                "which a query with BIGNUMERIC does not have: cast the operands to FLOAT64"
            )
        return made

    return exact


def bignumeric_digits(x: str) -> str:
    """A text as it is, unless it is a number with more digits than a query has."""
    try:
        value = Decimal(x)
    except ArithmeticError:
        return x
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        return x  # no number
    kept = "".join(map(str, digits)).rstrip("0")
    smallest = exponent + len(digits) - len(kept)
    if value and (smallest < -18 or len(kept) + smallest > 20):
        raise ValueError(
            f"The BIGNUMERIC {x[:100]} has more digits than a query has: 20 before the point and 18 after it"
        )
    return f"{value:f}" if value else "0"


def number_text(x: str) -> str:
    cleaned = re.sub(r"\s|,", "", x)
    match = re.fullmatch(r"([+-]?)([0-9.]+(?:[eE][+-]?\d+)?)([+-]?)", cleaned)
    if match is None or (match[1] and match[3]):
        raise ValueError(f"Invalid NUMERIC value: {x[:100]}")
    value = Decimal((match[1] or match[3]) + match[2])
    if value and value.adjusted() > _MAX_EXPONENT:
        raise ValueError(f"Invalid NUMERIC value: {x[:100]}")
    # Written out, a number such as 1e999999999 has a gigabyte.
    return f"{value:f}" if value.adjusted() > -_MAX_EXPONENT else "0"


def float_round(x: float, n: int) -> float:
    if x != x or x in (float("inf"), float("-inf")):
        return x
    with localcontext() as context:
        context.prec = 400
        return float(
            Decimal(repr(x)).quantize(Decimal(1).scaleb(-max(min(n, 330), -330)), rounding=ROUND_HALF_UP)
        )


def float_text(x: float) -> str:
    if x != x:
        return "nan"
    if x in (float("inf"), float("-inf")):
        return "inf" if x > 0 else "-inf"
    made = repr(x)
    if "e" in made:
        base, _, power = made.partition("e")
        number = int(power)
        if 0 <= number < 15:
            return f"{x:.0f}"
        return f"{base.removesuffix('.0')}e{'+' if number >= 0 else '-'}{abs(number):02d}"
    if abs(x) >= 1e15:
        base, _, power = f"{x:.16e}".partition("e")
        return f"{base.rstrip('0').rstrip('.')}e+{int(power):02d}"
    return made.removesuffix(".0")


def hex_integer(x: str) -> int:
    return int(x, 16)


# -- text ---------------------------------------------------------------------------------------------------


def capitals(x: str, delimiters: str | None) -> str:
    marks = set(delimiters) if delimiters is not None else set(" \t\n\r\v\f[](){}/|<>!?@\"^#$&~_,.:;*%+-\\'")
    made, start = [], True
    for char in x:
        made.append(char.upper() if start else char.lower())
        start = char in marks
    return "".join(made)


def join(x: list[str], y: str) -> str:
    return y.join(x)


def strip(x: str, _y: str | None, sides: int) -> str:
    return x.strip() if sides == 3 else x.lstrip() if sides == 1 else x.rstrip()


def quote(x: str) -> str:
    return json.dumps(x, ensure_ascii=False)


def normal_form(x: str, form: str, casefold: bool) -> str:
    if form not in ("NFC", "NFD", "NFKC", "NFKD"):
        raise ValueError(f"Invalid normalize mode: {form}")
    made = unicodedata.normalize(form, x)  # type: ignore[arg-type]
    return unicodedata.normalize(form, made.casefold()) if casefold else made  # type: ignore[arg-type]


_SOUNDS: Final = {
    char: code for code, chars in enumerate(("bfpv", "cgjkqsxz", "dt", "l", "mn", "r"), 1) for char in chars
}


def soundex(x: str) -> str:
    letters = [char for char in x if char.isascii() and char.isalpha()]
    if not letters:
        return ""
    made = letters[0].upper()
    previous = _SOUNDS.get(letters[0].lower(), 0)
    for char in letters[1:]:
        code = _SOUNDS.get(char.lower(), 0)
        if code and code != previous:
            made += str(code)
        if char.lower() not in "hw":
            previous = code
    return made[:4].ljust(4, "0")


def instr_from(x: str, y: str, start: int, nth: int) -> int:
    if not y:
        return 0
    if start > 0:
        at = start - 2
        for _ in range(nth):
            at = x.find(y, at + 1)
            if at < 0:
                return 0
        return at + 1
    at = len(x) + start + 1
    for _ in range(nth):
        at = x.rfind(y, 0, at + len(y) - 1)
        if at < 0:
            return 0
    return at + 1


def bytes_slice(x: bytes, start: int, size: int | None) -> bytes:
    begin = max(start - 1, 0) if start >= 0 else max(len(x) + start, 0)
    return x[begin:] if size is None else x[begin : begin + size]


def reverse_bytes(x: bytes) -> bytes:
    return x[::-1]


def count_bits(x: bytes) -> int:
    return sum(byte.bit_count() for byte in x)


def base32_of(x: bytes) -> str:
    return base64.b32encode(x).decode()


def base32_bytes(x: str) -> bytes:
    return base64.b32decode(x + "=" * (-len(x) % 8))


def code_points(x: str) -> list[int]:
    return [ord(char) for char in x]


def from_code_points(x: list[int | None]) -> str | None:
    return None if None in x else "".join(chr(each) for each in x if each)


def from_code_bytes(x: list[int]) -> bytes:
    return bytes(x)


def lenient_text(x: bytes) -> str:
    return x.decode(errors="replace")


def sha512_of(x: bytes) -> bytes:
    return hashlib.sha512(x).digest()


_MASK: Final = (1 << 64) - 1
_K0, _K1, _K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F


def _rotated(value: int, shift: int) -> int:
    return ((value >> shift) | (value << (64 - shift))) & _MASK if shift else value


def _mixed(value: int) -> int:
    return value ^ (value >> 47)


def _hash16(u: int, v: int, factor: int) -> int:
    a = _mixed(((u ^ v) * factor) & _MASK)
    return (_mixed(((v ^ a) * factor) & _MASK) * factor) & _MASK


def _short_hash(x: bytes) -> int:
    size = len(x)

    def word(at: int, width: int = 8) -> int:
        return int.from_bytes(x[at : at + width], "little")

    factor = (_K2 + size * 2) & _MASK
    if size > 32:
        a, b, c = (word(0) * _K2) & _MASK, word(8), (word(size - 8) * factor) & _MASK
        d = (word(size - 16) * _K2) & _MASK
        y = (_rotated((a + b) & _MASK, 43) + _rotated(c, 30) + d) & _MASK
        z = _hash16(y, (a + _rotated((b + _K2) & _MASK, 18) + c) & _MASK, factor)
        e, f = (word(16) * factor) & _MASK, word(24)
        g, h = ((y + word(size - 32)) * factor) & _MASK, ((z + word(size - 24)) * factor) & _MASK
        first = (_rotated((e + f) & _MASK, 43) + _rotated(g, 30) + h) & _MASK
        return _hash16(first, (e + _rotated((f + a) & _MASK, 18) + g) & _MASK, factor)
    if size > 16:
        a, b, c = (word(0) * _K1) & _MASK, word(8), (word(size - 8) * factor) & _MASK
        d = (word(size - 16) * _K2) & _MASK
        first = (_rotated((a + b) & _MASK, 43) + _rotated(c, 30) + d) & _MASK
        return _hash16(first, (a + _rotated((b + _K2) & _MASK, 18) + c) & _MASK, factor)
    if size >= 8:
        a, b = (word(0) + _K2) & _MASK, word(size - 8)
        c = (_rotated(b, 37) * factor + a) & _MASK
        d = ((_rotated(a, 25) + b) * factor) & _MASK
        return _hash16(c, d, factor)
    if size >= 4:
        return _hash16(size + (word(0, 4) << 3), word(size - 4, 4), factor)
    if size:
        y = x[0] + (x[size >> 1] << 8)
        z = size + (x[size - 1] << 2)
        return (_mixed((y * _K2 ^ z * _K0) & _MASK) * _K2) & _MASK
    return _K2


def farm_of(x: bytes) -> int:
    """The 64-bit fingerprint of FarmHash, as a signed integer."""
    made = _short_hash(x) if len(x) <= 64 else _long_hash(x)
    return made - (1 << 64) if made >> 63 else made


def _long_hash(x: bytes) -> int:
    size = len(x)

    def word(at: int) -> int:
        return int.from_bytes(x[at : at + 8], "little")

    seed = 81
    y = (seed * _K1 + 113) & _MASK
    z = (_mixed((y * _K2 + 113) & _MASK) * _K2) & _MASK
    v, w = (0, 0), (0, 0)
    a = (seed * _K2 + word(0)) & _MASK

    def weak(at: int, p: int, q: int) -> tuple[int, int]:
        p = (p + word(at)) & _MASK
        q = _rotated((q + p + word(at + 24)) & _MASK, 21)
        kept = p
        p = (p + word(at + 8) + word(at + 16)) & _MASK
        q = (q + _rotated(p, 44)) & _MASK
        return (p + word(at + 24)) & _MASK, (q + kept) & _MASK

    end = ((size - 1) // 64) * 64
    last = end + ((size - 1) & 63) - 63
    for at in range(0, end, 64):
        a = (_rotated((a + y + v[0] + word(at + 8)) & _MASK, 37) * _K1) & _MASK
        y = (_rotated((y + v[1] + word(at + 48)) & _MASK, 42) * _K1) & _MASK
        a ^= w[1]
        y = (y + v[0] + word(at + 40)) & _MASK
        z = (_rotated((z + w[0]) & _MASK, 33) * _K1) & _MASK
        v = weak(at, (v[1] * _K1) & _MASK, (a + w[0]) & _MASK)
        w = weak(at + 32, (z + w[1]) & _MASK, (y + word(at + 16)) & _MASK)
        z, a = a, z
    factor = (_K1 + ((z & 0xFF) << 1)) & _MASK
    at = last
    w = ((w[0] + ((size - 1) & 63)) & _MASK, w[1])
    v = ((v[0] + w[0]) & _MASK, v[1])
    w = ((w[0] + v[0]) & _MASK, w[1])
    a = (_rotated((a + y + v[0] + word(at + 8)) & _MASK, 37) * factor) & _MASK
    y = (_rotated((y + v[1] + word(at + 48)) & _MASK, 42) * factor) & _MASK
    a ^= (w[1] * 9) & _MASK
    y = (y + v[0] * 9 + word(at + 40)) & _MASK
    z = (_rotated((z + w[0]) & _MASK, 33) * factor) & _MASK
    v = weak(at, (v[1] * factor) & _MASK, (a + w[0]) & _MASK)
    w = weak(at + 32, (z + w[1]) & _MASK, (y + word(at + 16)) & _MASK)
    z, a = a, z
    first = (_hash16(v[0], w[0], factor) + _mixed(y) * _K0 + z) & _MASK
    return _hash16(first, (_hash16(v[1], w[1], factor) + a) & _MASK, factor)


# -- regular expressions ------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=256)
def _named(pattern: str) -> str:
    """The pattern as a group ``whole``, with its first group as ``part`` if it has one."""
    for at in re.finditer(r"\\.|\[\^?\]?[^]]*\]|(\()(\?P?<[^=!>]*>|(?!\?))", pattern):
        if at[1]:
            pattern = f"{pattern[: at.start()]}(?P<part>{pattern[at.end() :]}"
            break
    return f"(?P<whole>{pattern})"


def _matches(x: str, pattern: str, start: int) -> Iterator[tuple[int, int]]:
    """The places of matches, or of their first groups, in characters.

    By RE2, which takes linear time and not the interpreter lock. ``re`` could hold it for years.
    """
    import pyarrow.compute as pc

    compute: Any = pc
    at = max(0, start - 1)
    while at <= len(x):
        rest = x[at:]
        try:
            found = compute.extract_regex_span(pa.scalar(rest), _named(pattern)).as_py()
        except pa.ArrowInvalid as error:
            raise ValueError(f"Cannot parse regular expression: {error}") from None
        if found is None:
            return
        data = rest.encode()

        def chars(size: int, data: bytes = data) -> int:
            return len(data[:size].decode())

        first, size = found.get("part") or found["whole"]
        yield at + chars(first), at + chars(first + size)
        first, size = found["whole"]
        at += max(chars(first + size), chars(first) + (0 if size else 1))


def regexp_find(x: str, pattern: str, start: int, nth: int) -> str | None:
    found = next(itertools.islice(_matches(x, pattern, start), max(0, nth - 1), None), None)
    return None if found is None else x[slice(*found)]


def regexp_place(x: str, pattern: str, start: int, nth: int, after: int) -> int:
    found = next(itertools.islice(_matches(x, pattern, start), max(0, nth - 1), None), None)
    return 0 if found is None else found[1 if after else 0] + 1


# -- intervals ----------------------------------------------------------------------------------------------

_INTERVAL: Final = re.compile(
    r"(?:(?P<sign>[+-]?)(?P<years>\d+)-(?P<months>\d+))?\s*(?:(?P<days>[+-]?\d+)(?=\s|$))?\s*"
    r"(?:(?P<minus>[+-]?)(?P<hours>\d+):(?P<minutes>\d+)(?::(?P<seconds>\d+)(?:\.(?P<fraction>\d{1,9}))?)?)?"
)


def interval_parts(x: str) -> tuple[int, int, int]:
    """The months, days and microseconds of an INTERVAL as text: Y-M D H:M:S, or ISO 8601."""
    iso = re.fullmatch(
        r"P(?:(-?\d+)Y)?(?:(-?\d+)M)?(?:(-?\d+)W)?(?:(-?\d+)D)?(?:T(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?\d+)(?:\.(\d+))?S)?)?",
        x.strip(),
    )
    if iso and len(x.strip()) > 1:
        years, months, weeks, days, hours, minutes, seconds = (int(part or 0) for part in iso.groups()[:7])
        micros = int((iso[8] or "0").ljust(6, "0")[:6])
        return (
            12 * years + months,
            7 * weeks + days,
            ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + micros,
        )
    match = _INTERVAL.fullmatch(x.strip())
    if match is None or not x.strip():
        raise ValueError(f"Invalid INTERVAL value '{x}'")
    part = match.groupdict()
    years, months, days, hours, minutes, seconds = (
        int(part[name] or 0) for name in ("years", "months", "days", "hours", "minutes", "seconds")
    )
    months += 12 * years
    micros = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + int(
        (part["fraction"] or "0").ljust(6, "0")[:6]
    )
    return (-months if part["sign"] == "-" else months, days, -micros if part["minus"] == "-" else micros)


def interval_form(months: int, days: int, micros: int) -> str:
    sign = "-" if months < 0 else ""
    minus = "-" if micros < 0 else ""
    seconds, fraction = divmod(abs(micros), 1_000_000)
    clock = f"{seconds // 3600}:{seconds // 60 % 60}:{seconds % 60}"
    made = f"{sign}{abs(months) // 12}-{abs(months) % 12} {days} {minus}{clock}"
    if fraction:
        digits = f"{fraction:06d}"
        made += "." + (digits[:3] if digits.endswith("000") else digits)
    return made


def interval_justified(months: int, days: int, micros: int, mode: int) -> str:
    """An INTERVAL with at most 24 hours, 30 days or both, and parts of one sign."""
    day = 86_400_000_000
    if mode & 1:
        days, micros = days + int(micros / day), micros - int(micros / day) * day
    if mode & 2:
        months, days = months + int(days / 30), days - int(days / 30) * 30
    if mode & 1 and days and micros and (days > 0) != (micros > 0):
        step = 1 if days > 0 else -1
        days, micros = days - step, micros + step * day
    if mode & 2 and months and days and (months > 0) != (days > 0):
        step = 1 if months > 0 else -1
        months, days = months - step, days + step * 30
    return interval_form(months, days, micros)


# -- FORMAT -------------------------------------------------------------------------------------------------


_MAX_WIDTH: Final = 1 << 20


def sprintf(form: str, values: list[list[str | None]]) -> str | None:
    rest = iter(values)
    made: list[str] = []
    at = 0
    for match in re.finditer(r"%([-+ #0']*)(\*|\d+)?(?:\.(\*|\d+))?([a-zA-Z%])", form):
        made.append(form[at : match.start()])
        at = match.end()
        flags, width, precision, code = match.groups()
        if code == "%":
            made.append("%")
            continue
        if width == "*":
            width = next(rest)[0]
        if precision == "*":
            precision = next(rest)[0]
        if max(int(width or 0), int(precision or 0)) > _MAX_WIDTH:
            raise ValueError("Output of FORMAT exceeds max allowed output size of 1MB")
        plain, debug = next(rest)
        if plain is None and code not in "tT":
            return None
        written = _one(code, flags, precision, plain, debug)
        size = int(width or 0)
        if "-" in flags:
            written = written.ljust(size)
        elif "0" in flags and code not in "stTpP" and len(written) < size:
            sign = written[0] if written[:1] in "+- " and written else ""
            written = sign + written[len(sign) :].rjust(size - len(sign), "0")
        else:
            written = written.rjust(size)
        made.append(written)
    made.append(form[at:])
    return "".join(made)


def _one(code: str, flags: str, precision: str | None, plain: str | None, debug: str | None) -> str:
    if code == "T":
        return debug if debug is not None else "NULL"
    if plain is None:
        return "NULL"
    sign = "+" if "+" in flags else " " if " " in flags else ""
    group = "," if "'" in flags else ""
    if code in "di":
        return f"{int(plain):{sign}{group}d}"
    if code in "oxX":
        return f"{int(plain):{'#' if '#' in flags else ''}{code}}"
    if code in "fFeEgG":
        number: Any = (
            Decimal(plain) if re.fullmatch(r"[+-]?[0-9.]+", plain) and len(plain) > 15 else float(plain)
        )
        made = f"{number:{sign}{group}.{precision or 6}{code}}"
        return made.lower() if code in "feg" else made
    return plain[: int(precision)] if precision is not None else plain


UDFS: Final[dict[str, tuple[Callable[..., Any], tuple[str, ...], str]]] = {
    **GEO_UDFS,
    "numeric_divide": (numeric_divide, (_N, _N), _N),
    "numeric_multiply": (numeric_multiply, (_N, _N), _N),
    "bignumeric_divide": (_exact("/", 18), (_B, _B), _B),
    "bignumeric_multiply": (_exact("*", 18), (_B, _B), _B),
    "mixed_divide": (_exact("/", 9), (_B, _B), _B),
    "mixed_multiply": (_exact("*", 9), (_B, _B), _B),
    **{
        f"{prefix}_{name}": (function, (kind, second or kind), kind)
        for prefix, kind in (("numeric", _N), ("bignumeric", _B), ("mixed", _B))
        for name, function, second in (
            ("div", numeric_div, ""),
            ("round", numeric_round, "BIGINT"),
            ("round_even", numeric_round_even, "BIGINT"),
            ("trunc", numeric_trunc, "BIGINT"),
        )
    },
    "bignumeric_digits": (bignumeric_digits, ("VARCHAR",), "VARCHAR"),
    "number_text": (number_text, ("VARCHAR",), "VARCHAR"),
    "float_round": (float_round, ("DOUBLE", "BIGINT"), "DOUBLE"),
    "float_text": (float_text, ("DOUBLE",), "VARCHAR"),
    "hex_integer": (hex_integer, ("VARCHAR",), "BIGINT"),
    "capitals": (capitals, ("VARCHAR", "VARCHAR"), "VARCHAR"),
    "strip": (strip, ("VARCHAR", "VARCHAR", "INTEGER"), "VARCHAR"),
    "join": (join, ("VARCHAR[]", "VARCHAR"), "VARCHAR"),
    "quote": (quote, ("VARCHAR",), "VARCHAR"),
    "normal_form": (normal_form, ("VARCHAR", "VARCHAR", "BOOLEAN"), "VARCHAR"),
    "soundex_of": (soundex, ("VARCHAR",), "VARCHAR"),
    "instr_from": (instr_from, ("VARCHAR", "VARCHAR", "BIGINT", "BIGINT"), "BIGINT"),
    "bytes_slice": (bytes_slice, ("BLOB", "BIGINT", "BIGINT"), "BLOB"),
    "reverse_bytes": (reverse_bytes, ("BLOB",), "BLOB"),
    "count_bits": (count_bits, ("BLOB",), "BIGINT"),
    "base32_of": (base32_of, ("BLOB",), "VARCHAR"),
    "base32_bytes": (base32_bytes, ("VARCHAR",), "BLOB"),
    "code_points": (code_points, ("VARCHAR",), "BIGINT[]"),
    "from_code_points": (from_code_points, ("BIGINT[]",), "VARCHAR"),
    "from_code_bytes": (from_code_bytes, ("BIGINT[]",), "BLOB"),
    "lenient_text": (lenient_text, ("BLOB",), "VARCHAR"),
    "sha512_of": (sha512_of, ("BLOB",), "BLOB"),
    "farm_of": (farm_of, ("BLOB",), "BIGINT"),
    "regexp_find": (regexp_find, ("VARCHAR", "VARCHAR", "BIGINT", "BIGINT"), "VARCHAR"),
    "regexp_place": (regexp_place, ("VARCHAR", "VARCHAR", "BIGINT", "BIGINT", "BIGINT"), "BIGINT"),
    "json_check": (json_check, ("VARCHAR",), "VARCHAR"),
    "json_path": (json_path, ("VARCHAR",), "VARCHAR"),
    "json_text": (json_text, ("VARCHAR", "BOOLEAN"), "VARCHAR"),
    "json_object_of": (json_object_of, ("VARCHAR[]", "VARCHAR[]"), "JSON"),
    "json_change": (json_change, ("VARCHAR", "VARCHAR", "VARCHAR", "VARCHAR", "BOOLEAN"), "VARCHAR"),
    "json_strip": (json_strip, ("VARCHAR", "VARCHAR", "BOOLEAN", "BOOLEAN"), "VARCHAR"),
    "json_key_paths": (json_key_paths, ("VARCHAR", "BIGINT"), "VARCHAR[]"),
    "interval_parts": (lambda x: list(interval_parts(x)), ("VARCHAR",), "BIGINT[]"),
    "interval_form": (interval_form, ("BIGINT", "BIGINT", "BIGINT"), "VARCHAR"),
    "interval_justified": (interval_justified, ("BIGINT", "BIGINT", "BIGINT", "INTEGER"), "VARCHAR"),
    "zoned_text": (zoned_text, ("TIMESTAMP", "VARCHAR"), "VARCHAR"),
    "format_moment": (format_moment, ("VARCHAR", "TIMESTAMP", "VARCHAR"), "VARCHAR"),
    "parse_moment": (parse_moment, ("VARCHAR", "VARCHAR", "VARCHAR", "VARCHAR"), "TIMESTAMP"),
    "sprintf": (sprintf, ("VARCHAR", "VARCHAR[][]"), "VARCHAR"),
    "net_host": (host_of, ("VARCHAR",), "VARCHAR"),
    "net_public_suffix": (public_suffix, ("VARCHAR",), "VARCHAR"),
    "net_reg_domain": (reg_domain, ("VARCHAR",), "VARCHAR"),
    "net_ip_from_string": (ip_from_string, ("VARCHAR",), "BLOB"),
    "net_safe_ip_from_string": (safe_ip_from_string, ("VARCHAR",), "BLOB"),
    "net_ip_to_string": (ip_to_string, ("BLOB",), "VARCHAR"),
    "net_ipv4_to_int64": (ipv4_to_int64, ("BLOB",), "BIGINT"),
    "net_ipv4_from_int64": (ipv4_from_int64, ("BIGINT",), "BLOB"),
    "net_ip_net_mask": (ip_net_mask, ("BIGINT", "BIGINT"), "BLOB"),
    "net_ip_trunc": (ip_trunc, ("BLOB", "BIGINT"), "BLOB"),
}

# These take NULL as an argument that is not given.
TAKES_NULL: Final = frozenset(
    [
        *GEO_TAKES_NULL,
        *(
            "strip",
            "capitals",
            "bytes_slice",
            "json_change",
            "json_key_paths",
            "format_moment",
            "parse_moment",
        ),
    ]
)
# These return NULL for some values.
GIVES_NULL: Final = frozenset(
    [
        *GEO_GIVES_NULL,
        "regexp_find",
        "from_code_points",
        "sprintf",
        "net_host",
        "net_public_suffix",
        "net_reg_domain",
        "net_safe_ip_from_string",
    ]
)
