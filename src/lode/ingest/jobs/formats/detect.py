"""Columns of CSV and JSON files, detected from their first rows as BigQuery does."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from lode.ingest.status import Refused, invalid
from lode.ingest.types.check import MAX_COLUMNS, MAX_DEPTH, MAX_NAME_CHARACTERS, check_schema
from lode.ingest.types.columns import Column, TableSchema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")
# Possessive: a text that does not match is never tried again with other lengths.
_FLOAT: Final = re.compile(
    r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:e[+-]?[0-9]++)?|[+-]?inf|nan", re.IGNORECASE
)
_DATE: Final = re.compile(r"[0-9]{4}-[01]?[0-9]-[0-3]?[0-9]")
_TIME: Final = re.compile(r"[0-2]?[0-9]:[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?")
_TIMESTAMP: Final = re.compile(
    r"[0-9]{4}[-/][01]?[0-9][-/][0-3]?[0-9][ tT][0-2]?[0-9]:[0-5][0-9](:[0-6][0-9](\.[0-9]{1,9})?)?"
    r" ?([zZ]|UTC|[+-][0-9]{1,2}(:?[0-9]{2})?)?"
)
# The wider type of two different ones; all other pairs are text.
_WIDER: Final = {
    frozenset({"INT64", "FLOAT64"}): "FLOAT64",
    frozenset({"DATE", "TIMESTAMP"}): "TIMESTAMP",
}
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_]")
_LEGACY: Final = {"INT64": "int64", "FLOAT64": "double", "BOOL": "bool", "STRING": "string"}


def type_of(text: str) -> str:
    """The type of a value that is written as text."""
    bare = text.strip()
    if bare.lower() in ("true", "false"):
        return "BOOL"
    if _INTEGER.fullmatch(bare):
        return "INT64" if -(2**63) <= int(bare) < 2**63 else "FLOAT64"
    for pattern, name in ((_FLOAT, "FLOAT64"), (_DATE, "DATE"), (_TIME, "TIME"), (_TIMESTAMP, "TIMESTAMP")):
        if pattern.fullmatch(bare):
            return name
    return "STRING"


def merge_types(first: str, second: str) -> str:
    """The type that holds values of both."""
    if not first or not second or first == second:
        return first or second
    return _WIDER.get(frozenset({first, second}), "STRING")


def detect_csv(rows: list[list[str]], null_marker: str, *, header: bool) -> tuple[TableSchema, bool]:
    """The columns of a CSV file, and whether its first row is a header.

    Args:
        rows: The first rows.
        null_marker: The text that stands for null.
        header: Whether the first row may be a header.
    """
    rows = [row for row in rows if row]
    if not rows:
        raise invalid("The columns of the file cannot be detected, as it has no rows: give a schema.")
    head, *rest = rows
    width = max(len(row) for row in rows)
    if width > MAX_COLUMNS:
        raise _too_many()
    types = _types(rest if header else rows, width, null_marker)
    titles = [type_of(text) if text else "" for text in head]
    has_header = header and set(titles) <= {"STRING", ""} and "STRING" in titles
    # A header of text above columns of text looks like a row.
    if not (has_header and (any(kind not in ("STRING", "") for kind in types) or not rest)):
        has_header = False
        types = _types(rows, width, null_marker)
    names = [
        _name(head[index]) if has_header and index < len(head) and head[index].strip() else ""
        for index in range(width)
    ]
    types = [kind or "STRING" for kind in types]
    own = _distinct(
        name or f"{_LEGACY.get(kind, kind.lower())}_field_{index}"
        for index, (name, kind) in enumerate(zip(names, types, strict=True))
    )
    columns = tuple(Column(name, kind) for name, kind in zip(own, types, strict=True))
    return check_schema(TableSchema(columns)), has_header


def _distinct(names: Iterable[str]) -> Iterator[str]:
    """The names, with a number behind those that were there before."""
    taken: set[str] = set()
    # The last number behind each name, so that numbers are tried once.
    numbers: dict[str, int] = {}
    for name in names:
        own = name
        while own.lower() in taken:
            numbers[name.lower()] = number = numbers.get(name.lower(), 0) + 1
            suffix = f"_{number}"
            own = name[: MAX_NAME_CHARACTERS - len(suffix)] + suffix
        taken.add(own.lower())
        yield own


def _types(rows: list[list[str]], width: int, null_marker: str) -> list[str]:
    types = [""] * width
    for row in rows:
        for index, text in enumerate(row):
            if text not in ("", null_marker):
                types[index] = merge_types(types[index], type_of(text))
    return types


def _name(text: str) -> str:
    name = _NOT_IN_NAMES.sub("_", text.strip()[:MAX_NAME_CHARACTERS])
    return f"_{name}"[:MAX_NAME_CHARACTERS] if name[:1].isdigit() else name


def detect_json(rows: list[Any]) -> TableSchema:
    """The columns of JSON objects, in the order in which they appear."""
    found = _merged({}, [row for row in rows if isinstance(row, dict)], 0)
    if not found:
        raise invalid("The columns of the file cannot be detected, as it has no rows: give a schema.")
    return check_schema(TableSchema(tuple(found.values())))


def _too_many() -> Refused:
    return invalid(f"The file has more than {MAX_COLUMNS} columns: give a schema.")


def _merged(known: dict[str, Column], objects: list[dict[str, Any]], depth: int) -> dict[str, Column]:
    if depth > MAX_DEPTH:
        raise invalid(f"The file is nested too deep: {MAX_DEPTH} levels of objects are the most.")
    values: dict[str, list[Any]] = {}
    for each in objects:
        for name, value in each.items():
            values.setdefault(name, []).append(value)
        if len(values) > MAX_COLUMNS:
            raise _too_many()
    for name, found in values.items():
        known[name] = _column(name, found, depth)
    return known


def _column(name: str, values: list[Any], depth: int) -> Column:
    lists = [value for value in values if isinstance(value, list)]
    mode = "REPEATED" if lists else "NULLABLE"
    single = [item for value in lists for item in value] if lists else values
    objects = [value for value in single if isinstance(value, dict)]
    if objects:
        return Column(name, "STRUCT", mode, tuple(_merged({}, objects, depth + 1).values()))  # type: ignore[arg-type]
    kind = ""
    for value in single:
        if value is not None and not isinstance(value, list):
            kind = merge_types(kind, _type(value))
    return Column(name, kind or "STRING", mode)  # type: ignore[arg-type]


def _type(value: Any) -> str:
    match value:
        case bool():
            return "BOOL"
        case int():
            return "INT64" if -(2**63) <= value < 2**63 else "FLOAT64"
        case float() | Decimal():
            return "FLOAT64"
    return type_of(str(value))
