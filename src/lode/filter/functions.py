"""The functions of filters: those of GoogleSQL that pyarrow computes exactly.

None of them fails for a row: pyarrow evaluates all conditions for all rows, even for rows that another
condition excludes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from lode.filter.arithmetic import alike, as_decimal, as_float
from lode.filter.casts import cast, conversion, current, extract, truncated
from lode.filter.intervals import shifted
from lode.filter.tree import LiteralNode, Operation
from lode.lazy import pa, pc, pt

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.filter.compiler import Compiler
    from lode.filter.tree import FunctionCall, Node
    from lode.filter.values import Value

MAX_PATTERN_CHARACTERS: Final = 10_000


def like(compiler: Compiler, node: Operation, *, prunes: bool) -> Value:
    """``LIKE``: ``%`` is any text, ``_`` any character, and a backslash escapes both.

    With ``prunes``, a pattern that begins with a text is also compiled into a range, which can prune files.
    """
    left, right = node.operands
    value = _text(compiler, compiler.value(left), node, "LIKE")
    pattern = compiler.value(right)
    if not isinstance(pattern, LiteralNode) or pattern.kind != "STRING":
        raise compiler.wrong(node, "LIKE must be followed by a text")
    parts = _pattern(compiler, pattern)
    compiler.fits_row_groups = False
    column = value.expression
    match parts:
        case [] | [str()]:
            found = column == pa.scalar("".join(map(str, parts)), value.type)
        case [None, str(text), None]:
            found = pc.match_substring(column, text)
        case [None, str(text)]:
            found = pc.ends_with(column, text)
        case [str(text), None]:
            found = pc.starts_with(column, text)
        case _:
            regex = "".join(
                ".*" if part is None else "." if part is False else re.escape(part) for part in parts
            )
            found = pc.match_substring_regex(column, rf"(?s)\A{regex}\z")
    first = parts[0] if parts else None
    if prunes and isinstance(first, str) and value.is_column and len(parts) > 1:
        found = found & (column >= pa.scalar(first, value.type))
        if ord(first[-1]) < 0xD7FF:
            # The smallest text that is greater than all texts with this beginning.
            found = found & (column < pa.scalar(first[:-1] + chr(ord(first[-1]) + 1), value.type))
    return compiler.truth_of(found, value, value, value, at=node)


def _pattern(compiler: Compiler, pattern: LiteralNode) -> list[Any]:
    """Texts, None for any text and False for any character."""
    if len(pattern.value) > MAX_PATTERN_CHARACTERS:
        raise compiler.wrong(pattern, f"a pattern has more than {MAX_PATTERN_CHARACTERS:,} characters")
    parts: list[Any] = []
    for match in re.finditer(r"(%++)|(_)|\\(.)|([^\\%_]++)|(\\)", pattern.value, re.DOTALL):
        if match[5]:
            raise compiler.wrong(pattern, "a pattern ends with a backslash that escapes nothing")
        text = match[3] or match[4]
        if text and parts and isinstance(parts[-1], str):
            parts[-1] += text
        else:
            parts.append(text or (None if match[1] else False))
    return parts


def _text(compiler: Compiler, argument: Value | LiteralNode, node: Node, name: str, *also: str) -> Value:
    value = compiler.typed(argument, "STRING")
    if value.kind not in ("STRING", *also):
        raise compiler.mistyped(node, name, " or ".join(("a STRING", *also)), value.kind)
    return value


def _literal(compiler: Compiler, argument: Value | LiteralNode, call: FunctionCall, kind: str) -> Any:
    """An argument that pyarrow needs as a constant."""
    if not isinstance(argument, LiteralNode) or argument.kind != kind:
        raise compiler.wrong(call, f"{call.name} must have a literal {kind} here")
    return argument.value


def _integer(compiler: Compiler, argument: Value | LiteralNode, call: FunctionCall) -> int:
    return int(compiler.number(LiteralNode("INT64", _literal(compiler, argument, call, "INT64"), call.at)))


def _of_text(function: str, result: str = "STRING", *also: str) -> Callable[[Compiler, FunctionCall], Value]:
    """A function of one text."""

    def compute(compiler: Compiler, call: FunctionCall) -> Value:
        (argument,) = compiler.arguments(call, 1)
        value = _text(compiler, argument, call, call.name, *also)
        name = "binary_length" if value.kind == "BYTES" else function
        found = getattr(pc, name)(value.expression)
        if result == "INT64":
            return compiler.made(found.cast(pa.int64()), result, pa.int64(), value, at=call)
        return compiler.made(found, result, value.type, value, at=call)

    return compute


def _trim(function: str) -> Callable[[Compiler, FunctionCall], Value]:
    def compute(compiler: Compiler, call: FunctionCall) -> Value:
        first, *rest = compiler.arguments(call, 1, 2)
        value = _text(compiler, first, call, call.name)
        if rest:
            found = getattr(pc, function)(value.expression, _literal(compiler, rest[0], call, "STRING"))
        else:
            found = getattr(pc, f"{function}_whitespace")(value.expression)
        return compiler.made(found, "STRING", value.type, value, at=call)

    return compute


def _test(function: str) -> Callable[[Compiler, FunctionCall], Value]:
    """A test of a text against a literal."""

    def compute(compiler: Compiler, call: FunctionCall) -> Value:
        first, second = compiler.arguments(call, 2)
        value = _text(compiler, first, call, call.name)
        pattern = _literal(compiler, second, call, "STRING")
        if len(pattern) > MAX_PATTERN_CHARACTERS:
            raise compiler.wrong(call, f"a pattern has more than {MAX_PATTERN_CHARACTERS:,} characters")
        return compiler.truth_of(getattr(pc, function)(value.expression, pattern), value, at=call)

    return compute


def _substr(compiler: Compiler, call: FunctionCall) -> Value:
    first, *rest = compiler.arguments(call, 2, 3)
    value = _text(compiler, first, call, call.name)
    at, *length = (_integer(compiler, one, call) for one in rest)
    # SUBSTR starts at the first character if the position is before it; its length would be unknown here.
    if abs(at) > 2**31 or (length and (at < 0 or not 0 <= length[0] < 2**31)):
        raise compiler.wrong(call, "SUBSTR takes a position from 1 on, and a length that is not negative")
    start = max(at - 1, 0) if at >= 0 else at
    stop = start + length[0] if length else None
    found = pc.utf8_slice_codeunits(value.expression, start, stop)
    return compiler.made(found, "STRING", value.type, value, at=call)


def _concat(compiler: Compiler, call: FunctionCall) -> Value:
    arguments = compiler.arguments(call, 1, 1000)
    values = [_text(compiler, argument, call, "CONCAT", "BYTES") for argument in arguments]
    kind = values[0].kind
    if any(value.kind != kind for value in values):
        raise compiler.wrong(call, "CONCAT takes STRING or BYTES, not both")
    arrow, empty = (pa.large_string(), "") if kind == "STRING" else (pa.large_binary(), b"")
    parts = [value.expression.cast(arrow) for value in values]
    found = pc.binary_join_element_wise(*parts, pa.scalar(empty, arrow))
    return compiler.made(found, kind, arrow, *values, at=call)


def _coalesce(compiler: Compiler, call: FunctionCall) -> Value:
    most = 2 if call.name == "IFNULL" else 1000
    values = alike(compiler, compiler.arguments(call, 2 if call.name == "IFNULL" else 1, most), call)
    found = pc.coalesce(*(value.expression for value in values))
    return compiler.made(found, values[0].kind, values[0].type, *values, at=call)


def _nullif(compiler: Compiler, call: FunctionCall) -> Value:
    first, second = alike(compiler, compiler.arguments(call, 2), call)
    same = pc.coalesce(first.expression == second.expression, False)
    found = pc.if_else(same, pa.scalar(None, first.type), first.expression)
    return compiler.made(found, first.kind, first.type, first, first, second, at=call)


def _if(compiler: Compiler, call: FunctionCall) -> Value:
    first, *both = compiler.arguments(call, 3)
    condition = compiler.typed(first, "BOOL")
    if condition.kind != "BOOL":
        raise compiler.mistyped(call, "IF", "a condition", condition.kind)
    one, two = alike(compiler, both, call)
    found = pc.if_else(pc.coalesce(condition.expression, False), one.expression, two.expression)
    return compiler.made(found, one.kind, one.type, condition, one, two, at=call)


def _abs(compiler: Compiler, call: FunctionCall) -> Value:
    (argument,) = compiler.arguments(call, 1)
    convert = as_float if argument.kind == "FLOAT64" else as_decimal
    value = convert(compiler, _numeric(compiler, argument, call), call)
    return compiler.made(pc.abs(value.expression), value.kind, value.type, value, at=call)


def _numeric(compiler: Compiler, argument: Value | LiteralNode, call: FunctionCall) -> Value | LiteralNode:
    if argument.kind not in ("INT64", "FLOAT64", "NUMERIC", "BIGNUMERIC"):
        raise compiler.mistyped(call, call.name, "a number", argument.kind)
    return argument


def _mod(compiler: Compiler, call: FunctionCall) -> Value:
    first, second = compiler.arguments(call, 2)
    by = abs(_integer(compiler, second, call))
    value = compiler.typed(first)
    if value.kind != "INT64" or pt.is_uint64(value.type) or not 0 < by < 2**63:
        raise compiler.wrong(call, "MOD takes an INT64, and a divisor that is a literal INT64 and not zero")
    whole = value.expression.cast(pa.int64())
    # Division rounds towards zero, so the result has the sign of the first argument.
    found = pc.subtract(whole, pc.multiply(pc.divide(whole, pa.scalar(by)), pa.scalar(by)))
    return compiler.made(found, "INT64", pa.int64(), value, value, at=call)


def _rounded(function: str, **options: str) -> Callable[[Compiler, FunctionCall], Value]:
    def compute(compiler: Compiler, call: FunctionCall) -> Value:
        (argument,) = compiler.arguments(call, 1)
        if argument.kind not in ("INT64", "FLOAT64"):
            raise compiler.mistyped(call, call.name, "an INT64 or FLOAT64", argument.kind)
        value = as_float(compiler, argument, call)
        found = getattr(pc, function)(value.expression, **options)
        return compiler.made(found, "FLOAT64", pa.float64(), value, at=call)

    return compute


def _replace(compiler: Compiler, call: FunctionCall) -> Value:
    first, *rest = compiler.arguments(call, 3)
    value = _text(compiler, first, call, call.name)
    old, new = (_literal(compiler, one, call, "STRING") for one in rest)
    # The result of replacing nothing is the text itself.
    found = pc.replace_substring(value.expression, old, new) if old else value.expression
    return compiler.made(found, "STRING", value.type, value, at=call)


def _end(*, right: bool) -> Callable[[Compiler, FunctionCall], Value]:
    """``LEFT`` and ``RIGHT``."""

    def compute(compiler: Compiler, call: FunctionCall) -> Value:
        first, second = compiler.arguments(call, 2)
        value = _text(compiler, first, call, call.name)
        length = _integer(compiler, second, call)
        if not 0 <= length < 2**31:
            raise compiler.wrong(call, f"{call.name} takes a length that is not negative")
        start, stop = (-length if length else 2**31 - 1, None) if right else (0, length)
        found = pc.utf8_slice_codeunits(value.expression, start, stop)
        return compiler.made(found, "STRING", value.type, value, at=call)

    return compute


def _is_float(function: str) -> Callable[[Compiler, FunctionCall], Value]:
    """``IS_NAN`` and ``IS_INF``."""

    def compute(compiler: Compiler, call: FunctionCall) -> Value:
        (argument,) = compiler.arguments(call, 1)
        value = as_float(compiler, _numeric(compiler, argument, call), call)
        return compiler.truth_of(getattr(pc, function)(value.expression), value, at=call)

    return compute


def _extreme(function: str) -> Callable[[Compiler, FunctionCall], Value]:
    """``GREATEST`` and ``LEAST``, which are null if an argument is."""

    def compute(compiler: Compiler, call: FunctionCall) -> Value:
        values = alike(compiler, compiler.arguments(call, 1, 1000), call)
        if values[0].kind == "FLOAT64":
            # NaN is a result in SQL, and is left out by pyarrow.
            raise compiler.mistyped(call, call.name, "values of another type", "FLOAT64")
        found = getattr(pc, function)(*(value.expression for value in values), skip_nulls=False)
        return compiler.made(found, values[0].kind, values[0].type, *values, at=call)

    return compute


FUNCTIONS: Final[dict[str, Callable[[Compiler, FunctionCall], Any]]] = {
    "ABS": _abs,
    "BYTE_LENGTH": _of_text("binary_length", "INT64", "BYTES"),
    "CAST": cast,
    "CEIL": _rounded("ceil"),
    "CEILING": _rounded("ceil"),
    "CHARACTER_LENGTH": _of_text("utf8_length", "INT64"),
    "CHAR_LENGTH": _of_text("utf8_length", "INT64"),
    "COALESCE": _coalesce,
    "CONCAT": _concat,
    "CURRENT_DATE": current("DATE"),
    "CURRENT_DATETIME": current("DATETIME"),
    "CURRENT_TIME": current("TIME"),
    "CURRENT_TIMESTAMP": current("TIMESTAMP"),
    "DATE": conversion("DATE"),
    "DATETIME": conversion("DATETIME"),
    "DATETIME_ADD": shifted("DATETIME", 1),
    "DATETIME_SUB": shifted("DATETIME", -1),
    "DATETIME_TRUNC": truncated("DATETIME"),
    "DATE_ADD": shifted("DATE", 1),
    "DATE_SUB": shifted("DATE", -1),
    "DATE_TRUNC": truncated("DATE"),
    "ENDS_WITH": _test("ends_with"),
    "EXTRACT": extract,
    "FLOOR": _rounded("floor"),
    "GREATEST": _extreme("max_element_wise"),
    "IF": _if,
    "IFNULL": _coalesce,
    "IS_INF": _is_float("is_inf"),
    "IS_NAN": _is_float("is_nan"),
    "LEAST": _extreme("min_element_wise"),
    "LEFT": _end(right=False),
    "LENGTH": _of_text("utf8_length", "INT64", "BYTES"),
    "LOWER": _of_text("utf8_lower"),
    "LTRIM": _trim("utf8_ltrim"),
    "MOD": _mod,
    "NULLIF": _nullif,
    "REGEXP_CONTAINS": _test("match_substring_regex"),
    "REPLACE": _replace,
    "RIGHT": _end(right=True),
    "ROUND": _rounded("round", round_mode="half_towards_infinity"),
    "RTRIM": _trim("utf8_rtrim"),
    "SAFE_CAST": cast,
    "STARTS_WITH": _test("starts_with"),
    "SUBSTR": _substr,
    "SUBSTRING": _substr,
    "TIMESTAMP": conversion("TIMESTAMP"),
    "TIMESTAMP_ADD": shifted("TIMESTAMP", 1),
    "TIMESTAMP_SUB": shifted("TIMESTAMP", -1),
    "TIMESTAMP_TRUNC": truncated("TIMESTAMP"),
    "TRIM": _trim("utf8_trim"),
    "UPPER": _of_text("utf8_upper"),
}
