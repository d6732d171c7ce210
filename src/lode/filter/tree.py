"""The text of a filter, and the nodes of its tree."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

from lode.errors import InvalidOptionError
from lode.format.ids import shortened

SUPPORTED: Final = (
    "supported are =, !=, <>, <, <=, >, >=, [NOT] IN (…), [NOT] BETWEEN … AND …, [NOT] LIKE, IS [NOT] NULL, "
    "IS [NOT] TRUE, IS [NOT] FALSE, IS [NOT] DISTINCT FROM, + - * / ||, CAST, EXTRACT and some functions, "
    "joined by AND, OR, NOT and parentheses"
)


class LiteralNode(NamedTuple):
    """A literal as it was written: ``kind`` is its SQL type, ``value`` its text if it has one."""

    kind: str
    value: Any
    at: int = 0


class Name(NamedTuple):
    """A column, or a field inside of one."""

    path: tuple[str, ...]
    at: int


class TypeName(NamedTuple):
    """The type of a CAST."""

    kind: str
    at: int


class FunctionCall(NamedTuple):
    """A call of a function."""

    name: str
    arguments: tuple[Node, ...]
    at: int


class Items(NamedTuple):
    """An array, or the values of IN."""

    values: tuple[Node, ...]
    at: int


class Operation(NamedTuple):
    """An operator and its operands. AND and OR have two or more."""

    sign: str
    operands: tuple[Node, ...]
    at: int


Node: TypeAlias = "LiteralNode | Name | TypeName | FunctionCall | Items | Operation"


class FilterText(NamedTuple):
    """A filter as it was written, and its name in errors.

    With ``double_quotes``, double quotes enclose a name, as in standard SQL; otherwise a text, as in
    GoogleSQL.
    """

    text: str
    name: str = "where"
    double_quotes: bool = True

    def wrong(self, at: int, complaint: str) -> InvalidOptionError:
        """An error with its position, if the text has a name."""
        position = f"{self.name} {shortened(self.text, 117)} at {at}: " if self.name else ""
        return InvalidOptionError(f"{position}{complaint}")

    def unsupported(self, at: int, complaint: str) -> InvalidOptionError:
        """An error with its position and the supported syntax."""
        return self.wrong(at, f"{complaint}; {SUPPORTED}" if self.name else complaint)
