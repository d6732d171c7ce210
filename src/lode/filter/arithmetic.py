"""Arithmetic of filters, and the conversions of numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lode.filter.tree import LiteralNode, Operation
from lode.filter.values import NUMBERS, TIMES, Value, a, digits_of, kind_of_type, value_in
from lode.format.ids import shortened
from lode.lazy import pa, pc, pt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lode.filter.compiler import Compiler
    from lode.filter.tree import Node


def arithmetic(compiler: Compiler, node: Operation) -> Value | LiteralNode:
    """Compile an operator. Whole and decimal numbers become decimals wide enough for every result."""
    operands = [compiler.value(part) for part in node.operands]
    if node.sign == "NEG" and isinstance(operands[0], LiteralNode) and operands[0].kind in NUMBERS:
        return operands[0]._replace(value=-compiler.number(operands[0]))
    kinds = {operand.kind for operand in operands}
    if not kinds <= {*NUMBERS, "NULL"}:
        kind = next(iter(kinds - {*NUMBERS, "NULL"}))
        raise compiler.wrong(node, f"{node.sign.replace('NEG', '-')} takes numbers, and {a(kind)} is none")
    if "NULL" in kinds:
        return LiteralNode("NULL", None, node.at)
    if node.sign == "/" and kinds & {"NUMERIC", "BIGNUMERIC"}:
        raise compiler.wrong(node, "/ of a NUMERIC is not supported: CAST it to FLOAT64")
    if node.sign == "/" or "FLOAT64" in _kinds(operands):
        return _of_floats(compiler, node, [as_float(compiler, operand, node) for operand in operands])
    return _of_decimals(compiler, node, [as_decimal(compiler, operand, node) for operand in operands])


def _kinds(operands: Sequence[Value | LiteralNode]) -> set[str]:
    """The kinds; as in SQL, a literal with a point is a NUMERIC next to a NUMERIC."""
    kinds = {operand.kind for operand in operands}
    is_float = any(
        operand.kind == "FLOAT64"
        and not (isinstance(operand, LiteralNode) and isinstance(operand.value, str))
        for operand in operands
    )
    return kinds - {"FLOAT64"} if "NUMERIC" in kinds and not is_float else kinds


def _of_floats(compiler: Compiler, node: Operation, values: list[Value]) -> Value:
    parts = [value.expression for value in values]
    match node.sign:
        case "NEG":
            found = pc.negate(parts[0])
        case "/":
            # A division by zero is null. BigQuery would end the query.
            zero = parts[1] == pa.scalar(0.0)
            found = pc.divide(pc.if_else(zero, pa.scalar(None, pa.float64()), parts[0]), parts[1])
            values = [*values, values[1]]
        case sign:
            found = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}[sign](*parts)
    return compiler.made(found, "FLOAT64", pa.float64(), *values, at=node)


def _of_decimals(compiler: Compiler, node: Operation, values: list[Value]) -> Value:
    sizes = [digits_of(value.type) for value in values]
    match node.sign:
        case "NEG":
            precision, scale = sizes[0]
        case "*":
            precision, scale = sum(size[0] for size in sizes) + 1, sum(size[1] for size in sizes)
        case _:
            scale = max(size[1] for size in sizes)
            precision = max(size[0] - size[1] for size in sizes) + scale + 1
    if precision > 76:
        raise compiler.wrong(node, "it needs more than 76 digits to be exact: CAST to FLOAT64")
    compute = {"+": pc.add, "-": pc.subtract, "*": pc.multiply, "NEG": pc.negate}[node.sign]
    found = compute(*(value.expression for value in values))
    return compiler.made(found, "NUMERIC", pa.decimal256(precision, scale), *values, at=node)


def as_float(compiler: Compiler, operand: Value | LiteralNode, node: Node) -> Value:
    if isinstance(operand, LiteralNode):
        operand = operand._replace(kind="FLOAT64")
    value = compiler.typed(operand)
    if value.type == pa.float64():
        return value
    return compiler.made(value.expression.cast(pa.float64()), "FLOAT64", pa.float64(), value, at=node)


def as_decimal(compiler: Compiler, operand: Value | LiteralNode, node: Node) -> Value:
    """A whole or decimal number as a decimal that holds all its digits."""
    if isinstance(operand, LiteralNode):
        exact = compiler.number(operand)
        digits = exact.as_tuple()
        scale = max(-digits.exponent, 0)
        precision = max(len(digits.digits) + max(digits.exponent, 0), scale, 1)
        if precision > 76:
            raise compiler.wrong(node, f"{shortened(operand.value, 40)} has more than 76 digits")
        arrow = pa.decimal256(precision, scale)
        return Value(pc.scalar(value_in(exact, arrow)), "NUMERIC", arrow)
    if pt.is_decimal256(operand.type):
        return operand
    arrow = pa.decimal256(*digits_of(operand.type))
    return compiler.made(operand.expression.cast(arrow), "NUMERIC", arrow, operand, at=node)


def alike(compiler: Compiler, nodes: Sequence[Value | LiteralNode], node: Node) -> list[Value]:
    """Values converted to one type as SQL does, such as the arguments of COALESCE."""
    kinds = _kinds(nodes) - {"NULL"}
    times = sorted(kinds & {*TIMES})
    if times and kinds <= {times[0], "STRING"}:
        values = [compiler.typed(each, times[0]) for each in nodes]
    elif kinds <= {*NUMBERS} and len(kinds) > 1:
        convert = as_float if "FLOAT64" in kinds else as_decimal
        values = [
            compiler.typed(each) if each.kind == "NULL" else convert(compiler, each, node) for each in nodes
        ]
    elif len(kinds) <= 1:
        values = [compiler.typed(each) for each in nodes]
    else:
        raise compiler.wrong(node, f"{' and '.join(sorted(kinds))} are not of one type")
    arrow = _common(nodes, values)
    if arrow is None:
        raise compiler.wrong(node, f"its arguments are of different types of {values[0].kind}")
    return [
        value
        if value.type == arrow
        else compiler.made(value.expression.cast(arrow), kind_of_type(arrow), arrow, value, at=node)
        for value in values
    ]


def _common(nodes: Sequence[Value | LiteralNode], values: list[Value]) -> Any:
    """The Arrow type that holds all values of one kind; None if there is none."""
    types = {value.type: value.kind for value in values if value.kind != "NULL"}
    if len(types) < 2:
        return next(iter(types), pa.null())
    kind = next(iter(types.values()))
    if kind in TIMES:
        columns = {node.type for node in nodes if isinstance(node, Value) and node.kind != "NULL"}
        return columns.pop() if len(columns) == 1 else None
    if kind in ("STRING", "BYTES"):
        return pa.large_string() if kind == "STRING" else pa.large_binary()
    if not any(pt.is_decimal(each) or pt.is_uint64(each) for each in types):
        return pa.int64()
    sizes = [digits_of(each) for each in types]
    scale = max(size[1] for size in sizes)
    precision = max(size[0] - size[1] for size in sizes) + scale
    return pa.decimal256(precision, scale) if precision <= 76 else None
