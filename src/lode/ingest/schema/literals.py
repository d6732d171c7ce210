"""Literals of GoogleSQL: numbers, text, bytes, TRUE, NULL, ``DATE '…'`` and its kin, and arrays of them."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

_TYPED: Final = (
    "DATE",
    "TIME",
    "DATETIME",
    "TIMESTAMP",
    "NUMERIC",
    "BIGNUMERIC",
    "DECIMAL",
    "BIGDECIMAL",
    "JSON",
)
_NUMBER: Final = r"[+-]?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
_QUOTED: Final = (
    r"(?P<prefix>[rRbB]{0,2})(?:"
    r"'''(?P<q3>(?:\\.|[^\\])*?)'''|" + r'"""(?P<d3>(?:\\.|[^\\])*?)"""|'
    r"'(?P<q1>(?:\\.|[^\\'\n])*)'|" + r'"(?P<d1>(?:\\.|[^\\"\n])*)")'
)
_TOKEN: Final = re.compile(
    rf"\s*(?:(?P<number>{_NUMBER})|(?P<quoted>{_QUOTED})|(?P<word>[A-Za-z_]\w*)|(?P<sign>[\[\](),<>]))",
    re.DOTALL,
)
_ESCAPE: Final = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})|(.))", re.DOTALL
)
_ESCAPED: Final = dict(zip("abfnrtv\\?\"'`", "\a\b\f\n\r\t\v\\?\"'`", strict=True))
_CALLABLE: Final = re.compile(r"\s*([A-Za-z_]+)\s*(\(\s*\))?\s*")


class NotALiteralError(ValueError):
    """An expression that is not a literal, and why."""


class Literal(NamedTuple):
    """One literal: the type SQL gives it, and its value or text."""

    kind: str
    value: Any


class Call(NamedTuple):
    """A call of a function without arguments."""

    name: str


class _Token(NamedTuple):
    kind: str
    value: Any


def read_literals(expression: str) -> Literal | list[Literal] | Call:
    """Read a literal, an array of literals, or a call of a function without arguments."""
    call = _CALLABLE.fullmatch(expression)
    if call is not None and (call[2] or call[1].upper().startswith("CURRENT_")):
        return Call(call[1].upper())
    tokens = _tokens(expression)
    if tokens[:1] == [_Token("word", "ARRAY")]:
        tokens = _after_array(tokens)
    if tokens[:1] == [_Token("sign", "[")]:
        return _array(tokens)
    literal, rest = _literal(tokens)
    if rest:
        raise NotALiteralError("it is more than one literal")
    return literal


def _tokens(expression: str) -> list[_Token]:
    found: list[_Token] = []
    position, end = 0, len(expression.rstrip())
    while position < end:
        match = _TOKEN.match(expression, position)
        if match is None:
            raise NotALiteralError(f"{expression[position:].strip()[:20]!r} is not understood")
        position = match.end()
        if match["number"]:
            found.append(_Token("number", match["number"]))
        elif match["quoted"]:
            found.append(_quoted(match))
        elif match["word"]:
            found.append(_Token("word", match["word"].upper()))
        else:
            found.append(_Token("sign", match["sign"]))
    return found


def _quoted(match: re.Match[str]) -> _Token:
    prefix = match["prefix"].lower()
    body = next(group for group in (match["q3"], match["d3"], match["q1"], match["d1"]) if group is not None)
    if "b" in prefix:
        raw = body.encode() if "r" in prefix else _ESCAPE.sub(_unescaped, body).encode("latin-1", "strict")
        return _Token("bytes", raw)
    return _Token("text", body if "r" in prefix else _ESCAPE.sub(_unescaped, body))


def _unescaped(match: re.Match[str]) -> str:
    number = match[1] or match[2] or match[3]
    if number is not None:
        return chr(int(number, 16))
    if match[4] is not None:
        return chr(int(match[4], 8))
    if match[5] not in _ESCAPED:
        raise NotALiteralError(f"the escape {match[0]!r} does not exist")
    return _ESCAPED[match[5]]


def _after_array(tokens: list[_Token]) -> list[_Token]:
    """What follows ``ARRAY`` or ``ARRAY<TYPE>``."""
    if tokens[1:2] != [_Token("sign", "<")]:
        return tokens[1:]
    if len(tokens) < 4 or tokens[2].kind != "word" or tokens[3] != _Token("sign", ">"):
        raise NotALiteralError("ARRAY<…> needs the name of a type")
    return tokens[4:]


def _array(tokens: list[_Token]) -> list[Literal]:
    literals: list[Literal] = []
    rest = tokens[1:]
    while rest and rest != [_Token("sign", "]")]:
        if literals:
            if rest[0] != _Token("sign", ","):
                raise NotALiteralError("a comma is missing in the array")
            rest = rest[1:]
        literal, rest = _literal(rest)
        literals.append(literal)
    if not rest:
        raise NotALiteralError("the array does not end")
    return literals


def _literal(tokens: list[_Token]) -> tuple[Literal, list[_Token]]:
    if not tokens:
        raise NotALiteralError("a value is missing")
    (kind, value), rest = tokens[0], tokens[1:]
    if kind == "number":
        whole = re.fullmatch(r"[+-]?(0[xX][0-9a-fA-F]+|\d+)", value)
        return Literal("INT64" if whole else "FLOAT64", value), rest
    if kind == "text":
        return Literal("STRING", value), rest
    if kind == "bytes":
        return Literal("BYTES", value), rest
    if value in ("TRUE", "FALSE"):
        return Literal("BOOL", value == "TRUE"), rest
    if value == "NULL":
        return Literal("NULL", None), rest
    if value in _TYPED and rest and rest[0].kind == "text":
        name = {"DECIMAL": "NUMERIC", "BIGDECIMAL": "BIGNUMERIC"}.get(value, value)
        return Literal(name, rest[0].value), rest[1:]
    raise NotALiteralError(f"{value!r} is not a literal")
