"""What a filter is made of: its text, and the nodes of the tree that it is parsed into."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

from lode.errors import InvalidOptionError
from lode.format.ids import shortened

SUPPORTED: Final = (
    "supported are =, !=, <>, <, <=, >, >=, [NOT] IN (…), [NOT] BETWEEN … AND …, [NOT] LIKE, IS [NOT] NULL, "
    "IS [NOT] TRUE, IS [NOT] FALSE, IS [NOT] DISTINCT FROM, + - * /, CAST, EXTRACT and some functions, "
    "joined by AND, OR, NOT and parentheses"
)


class LiteralNode(NamedTuple):
    """A value as it was written: ``kind`` is the type SQL gives it, ``value`` its text if it has one."""

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
    """A filter as it was written, and what its errors call it.

    ``double_quotes`` says whether text between double quotes is a name, as in standard SQL, or a text, as in
    GoogleSQL.
    """

    text: str
    name: str = "where"
    double_quotes: bool = True

    def wrong(self, at: int, complaint: str) -> InvalidOptionError:
        """Say what is wrong, and where if the text has a name."""
        place = f"{self.name} {shortened(self.text, 117)} at {at}: " if self.name else ""
        return InvalidOptionError(f"{place}{complaint}")

    def unsupported(self, at: int, complaint: str) -> InvalidOptionError:
        """Say what is wrong, where, and what would be right."""
        return self.wrong(at, f"{complaint}; {SUPPORTED}" if self.name else complaint)
