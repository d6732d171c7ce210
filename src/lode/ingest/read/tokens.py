"""Cut a row restriction into words, numbers, texts and signs."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from lode.ingest.read.selection import shown
from lode.ingest.status import Refused, invalid

SUPPORTED: Final = (
    "supported are =, !=, <>, <, <=, >, >=, IS [NOT] NULL, [NOT] IN (…), [NOT] BETWEEN … AND … of a column "
    "and literals, and BOOL columns, joined by AND, OR, NOT and parentheses"
)

_PATTERN = re.compile(
    r"""(?P<space>\s+)
    |(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
    |(?P<text>(?P<prefix>[rRbB]{0,2})(?P<quote>['"])(?P<body>(?:\\.|(?!(?P=quote)).)*)(?P=quote))
    |(?P<word>[^\W\d]\w*)
    |(?P<quoted>`[^`]+`)
    |(?P<sign><=|>=|<>|!=|[=<>(),.+-])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL
)
_SIMPLE: Final = dict(zip("abfnrtv\\?\"'`", "\a\b\f\n\r\t\v\\?\"'`", strict=True))


class Token(NamedTuple):
    """One piece: ``kind`` is number, text, bytes, word, quoted (a name in backquotes), sign or end."""

    kind: str
    text: str
    at: int
    octets: bytes = b""

    @property
    def upper(self) -> str:
        """Keywords and signs, for comparing; a quoted name or a text is neither."""
        return self.text.upper() if self.kind in ("word", "sign") else ""


def tokens(text: str) -> list[Token]:
    """All pieces, and an end."""
    found = []
    at = 0
    while at < len(text):
        match = _PATTERN.match(text, at)
        if match is None:
            raise refused(text, at, f"{shown(text[at : at + 20])} is not understood")
        kind = str(match.lastgroup)
        if match["text"] is not None:
            found.append(_text(match, text))
        elif kind == "quoted":
            found.append(Token(kind, match[0][1:-1], at))
        elif kind != "space":
            found.append(Token(kind, match[0], at))
        at = match.end()
    return [*found, Token("end", "", len(text))]


def refused(text: str, at: int, complaint: str) -> Refused:
    """What is wrong, where, and what would be right."""
    return invalid(f"row_restriction {shown(text)} at {at}: {complaint}; {SUPPORTED}.")


def _text(match: re.Match[str], whole: str) -> Token:
    prefix, body, at = match["prefix"].lower(), match["body"], match.start()
    if prefix in ("rr", "bb"):
        raise refused(whole, at, f"{shown(match[0])} is not understood")
    if "b" in prefix:
        return Token("bytes", match[0], at, _octets(body, "r" in prefix, whole, at))
    if "r" in prefix:
        return Token("text", body, at)
    try:
        plain = _ESCAPE.sub(_unescaped, body)
        plain.encode()
    except (ValueError, OverflowError):
        raise refused(whole, at, f"{shown(match[0])} has an escape sequence that is not understood") from None
    return Token("text", plain, at)


def _octets(body: str, raw: bool, whole: str, at: int) -> bytes:
    parts: list[bytes] = []
    end = 0
    try:
        for match in () if raw else _ESCAPE.finditer(body):
            parts.append(body[end : match.start()].encode())
            hexadecimal, short, long, octal, _ = match.groups()
            if short or long:
                raise ValueError("bytes have no characters")
            code = int(hexadecimal, 16) if hexadecimal else int(octal, 8) if octal else None
            parts.append(bytes([code]) if code is not None else _unescaped(match).encode())
            end = match.end()
        parts.append(body[end:].encode())
    except ValueError:
        raise refused(whole, at, "the bytes have an escape sequence that is not understood") from None
    return b"".join(parts)


def _unescaped(match: re.Match[str]) -> str:
    hexadecimal, short, long, octal, simple = match.groups()
    if simple:
        if simple not in _SIMPLE:
            raise ValueError(simple)
        return _SIMPLE[simple]
    return chr(int(octal, 8) if octal else int(hexadecimal or short or long, 16))
