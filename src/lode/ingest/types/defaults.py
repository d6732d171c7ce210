"""Default values of columns: the SQL expressions that are supported, and their values.

Supported are literals, arrays of literals, the current time and GENERATE_UUID(). Other expressions are
refused when the table is created, not when the first row arrives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias
from uuid import uuid4

from lode.filter.syntax import parse
from lode.filter.tree import FilterText, FunctionCall, Items, LiteralNode
from lode.filter.values import number
from lode.format.ids import shortened
from lode.ingest.status import invalid
from lode.ingest.types.arrays import missing
from lode.ingest.types.columns import arrow_field, arrow_type
from lode.ingest.types.decimals import decimals_of_literals
from lode.ingest.types.fit import is_json
from lode.lazy import pa, pt
from lode.times import DAY_MICROS, PARSERS

if TYPE_CHECKING:
    from collections.abc import Callable
    from decimal import Decimal

    from lode.ingest.types.columns import Column

# Each function, and the type of the columns that may have it as their default.
_FUNCTIONS: Final = {
    "CURRENT_TIMESTAMP": "TIMESTAMP",
    "CURRENT_DATE": "DATE",
    "CURRENT_TIME": "TIME",
    "CURRENT_DATETIME": "DATETIME",
    "GENERATE_UUID": "STRING",
}


class Constant(NamedTuple):
    """The same value for every row, an Arrow scalar."""

    value: Any


Default: TypeAlias = Constant | FunctionCall


def parse_default(column: Column) -> Default:
    """Read a column's default expression, or refuse it."""
    try:
        return _default(column)
    except (ValueError, ArithmeticError, pa.ArrowException) as why:
        raise invalid(
            f"The default {shortened(column.default, 120)} of column {column.name!r} is refused: {why}. "
            "Use a literal of its type, an array of literals, CURRENT_TIMESTAMP(), CURRENT_DATE(), "
            "CURRENT_TIME(), CURRENT_DATETIME() or GENERATE_UUID()."
        ) from None


def default_values(column: Column, default: Default, count: int, now_ns: int) -> pa.Array[Any]:
    """The default for ``count`` rows; the current time is the same for all of them."""
    if isinstance(default, Constant):
        if not default.value.is_valid:
            return missing(column, count)
        same: pa.Array[Any] = pa.repeat(default.value, count)
        return same
    if default.name == "GENERATE_UUID":
        return pa.array([str(uuid4()) for _ in range(count)], pa.string())
    micros = now_ns // 1000
    stored = {"CURRENT_DATE": micros // DAY_MICROS, "CURRENT_TIME": micros % DAY_MICROS}.get(
        default.name, micros
    )
    scalar = pa.scalar(stored, pa.int32() if column.type == "DATE" else pa.int64())
    value: Any = scalar.cast(arrow_type(column))
    moment: pa.Array[Any] = pa.repeat(value, count)
    return moment


def _default(column: Column) -> Default:
    parsed = _parse_literals(column.default)
    if isinstance(parsed, FunctionCall):
        if column.mode == "REPEATED" or _FUNCTIONS.get(parsed.name) != column.type:
            raise ValueError(f"{parsed.name}() is not a {column.mode} {column.type}")
        return parsed
    kind = arrow_field(column).type
    if column.mode == "REPEATED":
        if not isinstance(parsed, list):
            raise ValueError("a REPEATED column takes an array")
        values = [_value(column, literal) for literal in parsed]
        if None in values:
            raise ValueError("an element of a REPEATED column cannot be NULL")
        if pt.is_decimal(kind.value_type):
            numbers = decimals_of_literals(values, column)
            return Constant(pa.ListArray.from_arrays([0, len(values)], numbers, type=kind)[0])
        return Constant(pa.scalar(values, kind))
    if isinstance(parsed, list):
        raise ValueError("only a REPEATED column takes an array")
    value = _value(column, parsed)
    if value is None and column.mode == "REQUIRED":
        raise ValueError("a REQUIRED column cannot be NULL")
    if pt.is_decimal(kind) and value is not None:
        return Constant(decimals_of_literals([value], column)[0])
    return Constant(pa.scalar(value, kind))


def _parse_literals(text: str) -> LiteralNode | list[LiteralNode] | FunctionCall:
    """Read a literal, an array of literals, or a call of a function without arguments."""
    match parse(FilterText(text, name="", double_quotes=False)):
        case LiteralNode() as literal:
            return literal
        case FunctionCall(arguments=()) as call:
            return call
        case Items(values=values):
            literals = [value for value in values if isinstance(value, LiteralNode)]
            if len(literals) == len(values):
                return literals
    raise ValueError("it is not a literal")


def _value(column: Column, literal: LiteralNode) -> Any:
    """The Python value of a literal for the column."""
    if literal.kind == "NULL":
        return None
    if literal.kind not in _TAKES.get(column.type, ()):
        raise ValueError(f"{literal.kind} is not a {column.type}")
    value = _READS[column.type](literal.value)
    if column.max_length and len(value) > column.max_length:
        raise ValueError(f"it is longer than {column.max_length}")
    return value


# The kinds of literals that each type takes; as in SQL, a time may be a plain text.
_TAKES: Final = {
    "STRING": ("STRING",),
    "BYTES": ("BYTES",),
    "BOOL": ("BOOL",),
    "INT64": ("INT64",),
    "FLOAT64": ("INT64", "FLOAT64"),
    "NUMERIC": ("INT64", "FLOAT64", "NUMERIC"),
    "BIGNUMERIC": ("INT64", "FLOAT64", "NUMERIC", "BIGNUMERIC"),
    "DATE": ("DATE", "STRING"),
    "TIME": ("TIME", "STRING"),
    "DATETIME": ("DATETIME", "STRING"),
    "TIMESTAMP": ("TIMESTAMP", "STRING"),
    "JSON": ("JSON",),
}


def _number(text: str) -> Decimal:
    try:
        return number(text)
    except ValueError as why:
        raise ValueError(f"{shortened(text)} {why}") from None


def _moment(kind: str) -> Callable[[str], int]:
    def read(text: str) -> int:
        try:
            return PARSERS[kind](text)
        except ValueError as why:
            raise ValueError(f"{shortened(text)} {why}") from None

    return read


def _json(text: str) -> str:
    if not is_json(text.encode()):
        raise ValueError(f"{shortened(text)} is not valid JSON")
    return text


_READS: Final[dict[str, Any]] = {
    "STRING": str,
    "BYTES": bytes,
    "BOOL": bool,
    "INT64": lambda text: int(_number(text)),
    "FLOAT64": float,
    "NUMERIC": _number,
    "BIGNUMERIC": _number,
    **{kind: _moment(kind) for kind in PARSERS},
    "JSON": _json,
}
