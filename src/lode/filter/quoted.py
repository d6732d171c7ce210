"""The escape sequences of texts and bytes in GoogleSQL."""

from __future__ import annotations

import re
from typing import Final

_ESCAPE: Final = re.compile(
    r"\\(?:[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL
)
_SIMPLE: Final = dict(zip("abfnrtv\\?\"'`", "\a\b\f\n\r\t\v\\?\"'`", strict=True))


def decode_text(body: str, *, raw: bool) -> str:
    """What stands between quotes as text; ``ValueError`` if an escape does not exist or is no character."""
    plain = body if raw else _ESCAPE.sub(_character, body)
    plain.encode()
    return plain


def decode_bytes(body: str, *, raw: bool) -> bytes:
    r"""What stands between quotes as bytes, in which ``\\x`` and octal escapes are one byte each."""
    if raw:
        return body.encode()
    parts: list[bytes] = []
    end = 0
    for match in _ESCAPE.finditer(body):
        parts.append(body[end : match.start()].encode())
        hexadecimal, short, long, octal, _ = match.groups()
        if short or long:
            raise ValueError("bytes have no characters")
        code = int(hexadecimal, 16) if hexadecimal else int(octal, 8) if octal else None
        parts.append(bytes([code]) if code is not None else _character(match).encode())
        end = match.end()
    return b"".join([*parts, body[end:].encode()])


def _character(match: re.Match[str]) -> str:
    hexadecimal, short, long, octal, simple = match.groups()
    if simple:
        if simple not in _SIMPLE:
            raise ValueError(simple)
        return _SIMPLE[simple]
    try:
        return chr(int(octal, 8) if octal else int(hexadecimal or short or long, 16))
    except OverflowError:
        raise ValueError(match[0]) from None
