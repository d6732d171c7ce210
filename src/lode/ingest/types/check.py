"""The rules for a table's schema and for its changes. Refusals name the column."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Final

from lode.ingest.status import invalid
from lode.ingest.types.columns import RANGE_ELEMENTS, ROUNDING_MODES, TYPES
from lode.ingest.types.defaults import parse_default
from lode.ingest.types.geography import need_shapely

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lode.ingest.types.columns import Column, TableSchema

MAX_COLUMNS: Final = 10_000
MAX_DEPTH: Final = 15
MAX_NAME_CHARACTERS: Final = 300
MODES: Final = ("NULLABLE", "REQUIRED", "REPEATED")
# BigQuery's own columns; the change columns control upserts.
RESERVED_PREFIXES: Final = (
    "_table_",
    "_file_",
    "_partition",
    "_row_timestamp",
    "__root__",
    "_colidentifier",
    "_change_type",
    "_change_sequence_number",
)
# In addition to letters, digits, marks, connectors and dashes of any script.
_ALSO_IN_NAMES: Final = frozenset("&%=+:'<>#| \t")
# The largest number of digits before and after the point.
_DIGITS: Final = {"NUMERIC": (29, 9), "BIGNUMERIC": (38, 38)}


def check_schema(schema: TableSchema) -> TableSchema:
    """Return the schema if a table may have it, or refuse it."""
    count = _check_columns(schema.columns, path="", depth=0)
    if count > MAX_COLUMNS:
        raise invalid(
            f"The schema has {count} columns: a table has at most {MAX_COLUMNS}, nested ones included."
        )
    return schema


def _check_columns(columns: Iterable[Column], *, path: str, depth: int) -> int:
    """Check the columns of one level and below; return their number."""
    count = 0
    seen: set[str] = set()
    for column in columns:
        where = path + column.name
        _check_name(column.name, where)
        if column.name.lower() in seen:
            raise invalid(f"Column {where!r} appears twice: names must differ in more than their case.")
        seen.add(column.name.lower())
        _check_column(column, where, depth)
        count += 1 + _check_columns(column.fields, path=where + ".", depth=depth + 1)
    return count


def _check_name(name: str, where: str) -> None:
    if not 0 < len(name) <= MAX_NAME_CHARACTERS:
        raise invalid(
            f"Column name {where[:330]!r} is refused: a name has 1 to {MAX_NAME_CHARACTERS} characters."
        )
    for letter in name:
        category = unicodedata.category(letter)
        if category[0] not in "LNM" and category not in ("Pc", "Pd") and letter not in _ALSO_IN_NAMES:
            raise invalid(f"Column name {where!r} is refused: {letter!r} cannot be part of a name.")
    for prefix in RESERVED_PREFIXES:
        if name.lower().startswith(prefix):
            raise invalid(
                f"Column name {where!r} is refused: names with {prefix.upper()} in front are reserved."
            )


def _check_column(column: Column, where: str, depth: int) -> None:
    if column.type not in TYPES:
        raise invalid(
            f"Column {where!r} has the unknown type {column.type!r}: use one of {', '.join(TYPES)}."
        )
    if column.mode not in MODES:
        raise invalid(
            f"Column {where!r} has the unknown mode {column.mode!r}: use one of {', '.join(MODES)}."
        )
    if depth > MAX_DEPTH:
        raise invalid(f"Column {where!r} is nested too deep: {MAX_DEPTH} levels of STRUCT are the most.")
    if column.type == "STRUCT" and not column.fields:
        raise invalid(f"Column {where!r} is a STRUCT without fields: name at least one.")
    if column.fields and column.type != "STRUCT":
        raise invalid(f"Column {where!r} of type {column.type} has fields: only a STRUCT has them.")
    _check_parameters(column, where)
    if column.default:
        if depth:
            raise invalid(f"Column {where!r} cannot have a default: only columns of the top level can.")
        parse_default(column)


def _check_parameters(column: Column, where: str) -> None:
    if column.max_length and column.type not in ("STRING", "BYTES"):
        raise invalid(
            f"Column {where!r} of type {column.type} has a maxLength: only STRING and BYTES take one."
        )
    if column.max_length < 0:
        raise invalid(f"Column {where!r} has the maxLength {column.max_length}: it must be above 0.")
    if column.precision or column.scale:
        _check_precision(column, where)
    if column.rounding and (column.type not in _DIGITS or column.rounding not in ROUNDING_MODES):
        raise invalid(
            f"Column {where!r} of type {column.type} has the roundingMode {column.rounding!r}: only NUMERIC "
            f"and BIGNUMERIC take one, {' or '.join(ROUNDING_MODES)}."
        )
    if column.type == "GEOGRAPHY":
        need_shapely(where)
    if column.type == "RANGE" and column.range_element not in RANGE_ELEMENTS:
        raise invalid(
            f"Column {where!r} is a RANGE of {column.range_element or 'nothing'}: "
            f"its rangeElementType must be one of {', '.join(RANGE_ELEMENTS)}."
        )
    if column.range_element and column.type != "RANGE":
        raise invalid(
            f"Column {where!r} of type {column.type} has a rangeElementType: only a RANGE takes one."
        )


def _check_precision(column: Column, where: str) -> None:
    digits = _DIGITS.get(column.type)
    if digits is None:
        raise invalid(
            f"Column {where!r} of type {column.type} has a precision: only NUMERIC and BIGNUMERIC take one."
        )
    whole, fraction = digits
    precision, scale = column.precision, column.scale
    if not (0 <= scale <= fraction and max(1, scale) <= precision <= whole + scale):
        raise invalid(
            f"Column {where!r} has precision {precision} and scale {scale}: a {column.type} has at most "
            f"{whole} digits before the point and {fraction} after it."
        )


def check_evolution(old: TableSchema, new: TableSchema) -> None:
    """Refuse a change other than added NULLABLE or REPEATED columns and REQUIRED made NULLABLE.

    Descriptions and defaults may change, and lengths and precisions may grow. Columns may not be renamed, not
    even in their case: stored files refer to them by name.
    """
    _check_changed_columns(old.columns, new.columns, path="")


def _check_changed_columns(old: tuple[Column, ...], new: tuple[Column, ...], path: str) -> None:
    after = {column.name: column for column in new}
    before = {column.name for column in old}
    for column in old:
        if column.name not in after:
            raise invalid(
                f"Column {path + column.name!r} is missing in the new schema: columns cannot be removed."
            )
        _check_changed_column(column, after[column.name], path + column.name)
    for column in new:
        if column.name not in before and column.mode == "REQUIRED":
            raise invalid(
                f"Column {path + column.name!r} is new and REQUIRED: older rows lack it, make it NULLABLE."
            )


def _check_changed_column(old: Column, new: Column, where: str) -> None:
    if (old.type, old.range_element) != (new.type, new.range_element):
        raise invalid(
            f"Column {where!r} cannot change from {old.type} to {new.type}: add a new column instead."
        )
    if old.mode != new.mode and (old.mode, new.mode) != ("REQUIRED", "NULLABLE"):
        raise invalid(
            f"Column {where!r} cannot change from {old.mode} to {new.mode}: "
            "only REQUIRED can change, and only to NULLABLE."
        )
    if new.max_length and not 0 < old.max_length <= new.max_length:
        raise invalid(
            f"Column {where!r} cannot have a shorter length than before: longer values may be stored."
        )
    if (new.precision or new.scale) and not _contains(new, old):
        raise invalid(f"Column {where!r} cannot have fewer digits than before: longer values may be stored.")
    _check_changed_columns(old.fields, new.fields, where + ".")


def _contains(new: Column, old: Column) -> bool:
    """Whether every number of the old precision and scale is one of the new."""
    if not old.precision:
        return False
    return new.scale >= old.scale and new.precision - new.scale >= old.precision - old.scale
