"""Texts that are a literal, an array of literals or a call without arguments: the defaults of columns."""

from __future__ import annotations

from lode.filter.syntax import parse
from lode.filter.tree import Call, Items, Literal, Text


class NotALiteralError(ValueError):
    """An expression that is not a literal, and why."""


def parse_literals(text: str) -> Literal | list[Literal] | Call:
    """Read a literal, an array of literals, or a call of a function without arguments."""
    match parse(Text(text, name="", double_quotes=False)):
        case Literal() as literal:
            return literal
        case Call(arguments=()) as call:
            return call
        case Items(values=values):
            literals = [value for value in values if isinstance(value, Literal)]
            if len(literals) == len(values):
                return literals
    raise NotALiteralError("it is not a literal")
