"""The tokens of a filter: literals, names, keywords and signs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lode.filter.tree import FunctionCall, LiteralNode, Name, TypeName
from lode.format.ids import shortened

if TYPE_CHECKING:
    from lode.filter.tree import FilterText, Node

MAX_TOKENS: Final = 25_000
MAX_PARTS: Final = 50
MAX_NUMBER_CHARACTERS: Final = 200

# Possessive: a token that does not match is never tried again with another length.
_TOKEN: Final = re.compile(
    r"""(?P<space>\s++)
    |(?P<number>(?:0[xX][0-9a-fA-F]++|(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?+)(?![\w.]))
    |(?P<text>(?P<prefix>[rRbB]{0,2})(?:'''(?P<q3>(?:[^\\]|\\.)*?)'''|\"\"\"(?P<d3>(?:[^\\]|\\.)*?)\"\"\"
        |'(?P<q1>(?:[^\\']|\\.)*+)'|"(?P<d1>(?:[^\\"]|\\.)*+)"))
    |(?P<array>[aA][rR][rR][aA][yY]\s*+(?:<\s*+[A-Za-z0-9]++\s*+>\s*+)?+(?=\[))
    |(?P<word>[^\W\d]\w*+)
    |`(?P<quoted>(?:[^`\\]|\\.)++)`
    |(?P<sign><=|>=|<>|!=|\|\||-(?!-)|/(?!\*)|[=<>(),.+*\[\]])""",
    re.VERBOSE | re.DOTALL,
)
_TYPED: Final = ("NUMERIC", "BIGNUMERIC", "DATE", "TIME", "DATETIME", "TIMESTAMP", "JSON")
_TYPES: Final = {name: name for name in ("BOOL", "INT64", "FLOAT64", "STRING", "BYTES", *_TYPED)} | {
    "BOOLEAN": "BOOL",
    "INTEGER": "INT64",
    "INT": "INT64",
    "BIGINT": "INT64",
    "DECIMAL": "NUMERIC",
    "BIGDECIMAL": "BIGNUMERIC",
}
_CONSTANTS: Final = {"TRUE": ("BOOL", True), "FALSE": ("BOOL", False), "NULL": ("NULL", None)}
_OPERATORS: Final = ("AND", "OR", "NOT", "IN", "IS", "LIKE", "BETWEEN", "DISTINCT", "FROM")
_RESERVED: Final = (*_OPERATORS, *_CONSTANTS, "AS", "UNNEST")
# A sign after one of these is between two operands.
_OPERAND_ENDS: Final = ("", ")", "]")
_CURRENT: Final = ("CURRENT_DATE", "CURRENT_TIME", "CURRENT_DATETIME", "CURRENT_TIMESTAMP")

# The escape sequences of GoogleSQL.
_ESCAPE: Final = re.compile(
    r"\\(?:[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL
)
_SIMPLE: Final = dict(zip("abfnrtv\\?\"'`", "\a\b\f\n\r\t\v\\?\"'`", strict=True))


class Token(NamedTuple):
    """A sign or keyword in upper case. With an empty sign it is an operand, with the depth of its tree."""

    sign: str
    at: int
    node: Any = None
    depth: int = 0


def read_tokens(text: FilterText) -> list[Token]:
    """Read literals and names as operands, keywords and signs as they are."""
    return _Reader(text).read()


class _Reader:
    def __init__(self, text: FilterText) -> None:
        self._text = text
        self._matches = self._match_all()
        self._at = 0
        self._found: list[Token] = []

    def _match_all(self) -> list[re.Match[str]]:
        text = self._text.text
        found: list[re.Match[str]] = []
        at = 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise self._text.unsupported(at, f"{shortened(text[at : at + 20])} is not understood")
            at = match.end()
            if not match["space"]:
                found.append(match)
                if len(found) > MAX_TOKENS:
                    raise self._text.unsupported(at, f"there are more than {MAX_TOKENS:,} words and signs")
        return found

    def read(self) -> list[Token]:
        while self._at < len(self._matches):
            match = self._matches[self._at]
            if match["sign"]:
                self._add({"<>": "!="}.get(match["sign"], match["sign"]))
            elif match["number"]:
                self._number(match)
            elif match["word"]:
                self._word(match["word"].upper())
            elif match["quoted"] is not None or self._is_quoted_name(match):
                self._name()
            elif match["text"] is not None:
                self._add("", self._quoted())
            else:
                self._at += 1  # ARRAY before a bracket
        return self._found

    @property
    def _after(self) -> re.Match[str] | None:
        return self._matches[self._at + 1] if self._at + 1 < len(self._matches) else None

    def _add(self, sign: str, node: Node | str | None = None) -> None:
        """Take the token as a sign, or add the operand that was read."""
        at = self._matches[self._at].start() if node is None or sign else getattr(node, "at", 0)
        self._found.append(Token(sign, at, node))
        self._at += node is None or bool(sign)

    def _word(self, word: str) -> None:
        at, after = self._matches[self._at].start(), self._after
        if word in _CONSTANTS:
            self._at += 1
            self._add("", LiteralNode(*_CONSTANTS[word], at))
        elif word in _RESERVED:
            self._add(word)
        elif self._is_typed(word, after):
            self._at += 1
            self._add("", LiteralNode(_TYPES[word], self._quoted().value, at))
        elif word in _TYPES and self._found and self._found[-1].sign == "AS":
            self._at += 1
            self._add("", TypeName(_TYPES[word], at))
        elif after is not None and after["sign"] == "(":
            self._add("CALL", word)
        elif word in _CURRENT:
            self._at += 1
            self._add("", FunctionCall(word, (), at))
        else:
            self._name()

    def _is_typed(self, word: str, after: re.Match[str] | None) -> bool:
        """Whether a word is the type of the literal after it, as in ``DATE '2024-01-31'``."""
        is_text = after is not None and after["text"] is not None and "b" not in after["prefix"].lower()
        return is_text and _TYPES.get(word) in _TYPED

    def _is_quoted_name(self, match: re.Match[str]) -> bool:
        return self._text.double_quotes and match["d1"] is not None and not match["prefix"]

    def _name(self) -> None:
        """A name, with the fields after its points; these may be keywords."""
        start = self._matches[self._at].start()
        path: list[str] = []
        while True:
            match = self._matches[self._at] if self._at < len(self._matches) else None
            if match is None or not (match["word"] or match["quoted"] or self._is_quoted_name(match)):
                at = match.start() if match else len(self._text.text)
                raise self._text.unsupported(at, "a name is missing")
            body = match["quoted"] or match["d1"]
            path.append(match["word"] if body is None else self._decoded(body, match, ""))
            self._at += 1
            if len(path) > MAX_PARTS:
                raise self._text.unsupported(start, f"a name has more than {MAX_PARTS} parts")
            if self._at >= len(self._matches) or self._matches[self._at]["sign"] != ".":
                return self._add("", Name(tuple(path), start))
            self._at += 1

    def _number(self, match: re.Match[str]) -> None:
        """A number, with the sign before it unless that is an operator between two operands."""
        text, found = match["number"], self._found
        if len(text) > MAX_NUMBER_CHARACTERS:
            raise self._text.unsupported(match.start(), f"{shortened(text, 20)} is not understood")
        if (
            found
            and found[-1].sign in ("-", "+")
            and (len(found) == 1 or found[-2].sign not in _OPERAND_ENDS)
        ):
            text = found.pop().sign + text
        is_whole = text[1:].isdecimal() or text.isdecimal() or "x" in text.lower()
        self._at += 1
        self._add("", LiteralNode("INT64" if is_whole else "FLOAT64", text, match.start()))

    def _quoted(self) -> LiteralNode:
        """A text or bytes. Two quotes inside of one are a quote, as in standard SQL."""
        match = self._matches[self._at]
        prefix, start = match["prefix"].lower(), match.start()
        if prefix in ("rr", "bb"):
            raise self._text.unsupported(start, f"{shortened(match[0])} is not understood")
        parts: list[Any] = []
        while True:
            body = next(match[key] for key in ("q3", "d3", "q1", "d1") if match[key] is not None)
            parts.append(self._decoded(body, match, prefix))
            self._at += 1
            after = self._matches[self._at] if self._at < len(self._matches) else None
            if after is None or after["q1"] is None or match["q1"] is None or after["prefix"]:
                break
            if after.start() != match.end():
                break
            match = after
        if "b" in prefix:
            return LiteralNode("BYTES", b"'".join(parts), start)
        return LiteralNode("STRING", "'".join(parts), start)

    def _decoded(self, body: str, match: re.Match[str], prefix: str) -> Any:
        decode: Any = _decode_bytes if "b" in prefix else _decode_text
        try:
            return decode(body, raw="r" in prefix)
        except ValueError:
            raise self._text.unsupported(
                match.start(), f"{shortened(match[0])} has an escape sequence that is not understood"
            ) from None


def _decode_text(body: str, *, raw: bool) -> str:
    """The text between quotes; ``ValueError`` if an escape does not exist or is no character."""
    plain = body if raw else _ESCAPE.sub(_character, body)
    plain.encode()
    return plain


def _decode_bytes(body: str, *, raw: bool) -> bytes:
    r"""The bytes between quotes; ``\\x`` and octal escapes are one byte each."""
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
