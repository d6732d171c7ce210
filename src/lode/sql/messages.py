"""Errors of DuckDB in the words of BigQuery."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from sqlglot import exp

from lode.sql.dialect import position
from lode.sql.errors import QueryError
from lode.sql.functions import FUNCTIONS

if TYPE_CHECKING:
    from lode.sql.database import DatabaseError

_COLUMN: Final = re.compile(
    r'(?:Referenced column|column named|Referenced table) "?([^"]+?)"? (?:not found|was not found|does not)',
    re.IGNORECASE,
)
_VALUES: Final = re.compile(
    r"Values list \"(\w+)\" does not have a column named \"(\w+)\""
    r"|Table \"(\w+)\" does not have a column named \"(\w+)\""
)


_UNMATCHED: Final = re.compile(
    r"Macro \"*(?:bq[bm]?s?_)?(\w+?)\"*\(\)"
    r"|Function \"*(?:bq[bm]?s?_)?(\w+?)\"* cannot be applied to a star expression"
    r"|No function matches the given name and argument types '(?:bq[bm]?s?_)?(\w+)\("
)
# The functions of GoogleSQL whose macros have another name.
_SHOWN: Final = {
    target.partition("_")[2]: name for name, target in FUNCTIONS.items() if isinstance(target, str)
} | {"divide": "/", "multiply": "*", "plus": "+", "minus": "-", "string": "CAST", "concat2": "||"}


def _called(macro: str) -> str:
    name = macro.removesuffix("_left").removesuffix("_right")
    return _SHOWN.get(macro) or _SHOWN.get(name) or macro.upper()


def as_query_error(error: DatabaseError, tree: exp.Expression | None) -> QueryError:
    """An error of DuckDB; in its own words if BigQuery has none for it."""
    whole = str(error)
    sentence = whole.split("\n\n")[0]
    if (ours := re.findall(r"(?:ValueError|error): (.+)", whole)) and "Python exception" in whole:
        return QueryError(ours[-1].strip())
    if (failed := re.search(r"Python exception occurred while executing the UDF: (\w+)", whole)) is not None:
        what = "is nested too deep" if failed[1] == "RecursionError" else f"is refused ({failed[1]})"
        return QueryError(f"The argument of a function {what}.")
    if (unmatched := _UNMATCHED.search(whole)) is not None:
        # With the names of this package's macros and the types of DuckDB, which a client does not know.
        return QueryError(
            f"No matching signature for function {_called(next(filter(None, unmatched.groups())))}"
        )
    if error.kind == "BinderException":
        if (match := _VALUES.search(whole)) is not None:
            name = match[2] or match[4]
            return QueryError(f"Name {name} not found inside {match[1] or match[3]}{_place(tree, name)}")
        if (match := re.search(r'Column "([^"]+)" referenced that exists in the SELECT', whole)) is not None:
            return QueryError(f"Unrecognized name: {match[1]}{_place(tree, match[1])}")
        if (match := _COLUMN.search(whole)) is not None:
            return QueryError(f"Unrecognized name: {match[1]}{_place(tree, match[1])}")
    if error.kind == "OutOfRangeException" and ("INT64" in whole or "Overflow in" in whole):
        return QueryError("Integer Overflow" if "INT64" not in whole else "int64 overflow: Integer Overflow")
    sentence = re.sub(r"^[A-Z][A-Za-z ]+ Error: ", "", sentence)
    if (match := re.match(r"Unknown TimeZone '(.+)'", sentence)) is not None:
        return QueryError(f"Invalid time zone: {match[1]}")
    return QueryError(" ".join(sentence.split()) if "\n  " not in sentence else sentence)


def _place(tree: exp.Expression | None, name: str) -> str:
    if tree is not None:
        for column in tree.find_all(exp.Column, exp.Identifier):
            if column.name.lower() == name.lower():
                return position(column)
    return " at [1:1]"
