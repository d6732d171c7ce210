"""Conditions as expressions of pyarrow, with the three-valued logic of SQL.

A negation is pushed down to the conditions: each negates itself, so that files can be pruned by it, and null
and NaN are handled correctly. Unknown must differ from false only if the truth of a condition is used as a
value, as in ``(a > 1) IS NULL``; such an expression is *exact*.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lode.errors import InvalidOptionError
from lode.filter.arithmetic import alike, arithmetic
from lode.filter.compiler import Compiler
from lode.filter.functions import FUNCTIONS, like
from lode.filter.syntax import parse
from lode.filter.tree import FilterText, FunctionCall, Items, LiteralNode, Name, Node, Operation
from lode.filter.values import NUMBERS, TIMES, Between, Value, a
from lode.format.ids import shortened
from lode.lazy import pa, pc

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow.compute

_COMPARE: Final[dict[str, Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_FLIPPED: Final = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_OPPOSITE: Final = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_ARITHMETIC: Final = ("+", "-", "*", "/", "NEG")


class Sense(NamedTuple):
    """The sense of a condition: whether it is negated, and whether false must differ from unknown."""

    negated: bool = False
    exact: bool = False

    @property
    def opposite(self) -> Sense:
        return self._replace(negated=not self.negated)


TRUE: Final = Sense()
EXACT: Final = Sense(exact=True)


class Filter(NamedTuple):
    """A condition on rows, and the paths of the columns that it uses.

    ``fits_row_groups`` is True if row groups can be pruned by their statistics. Statistics leave out NaN and
    the results of functions, and an older file may lack a field of a struct.
    """

    where: pyarrow.compute.Expression
    columns: tuple[str, ...] = ()
    fits_row_groups: bool = True
    # The value of CURRENT_TIMESTAMP(), in microseconds since 1970; None if the filter does not use it.
    now_micros: int | None = None

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that pass."""
        try:
            return batch.filter(self.where)
        except pa.ArrowException as error:
            first = str(error).partition("\n")[0]
            raise InvalidOptionError(f"the filter cannot be computed: {shortened(first, 120)}") from None


def parse_filter(
    text: str,
    schema: pa.Schema,
    *,
    name: str = "where",
    double_quotes: bool = True,
    now_micros: int | None = None,
) -> Filter:
    """Parse a condition on the columns of ``schema``, or raise ``InvalidOptionError``.

    Args:
        text: The condition.
        schema: The columns.
        name: The name of the text in errors.
        double_quotes: Double quotes enclose a name, as in standard SQL; else a text.
        now_micros: The value of ``CURRENT_TIMESTAMP()``, in microseconds since 1970. Default: now.
    """
    source = FilterText(text, name, double_quotes)
    compiler = _Conditions(source, schema, now_micros)
    try:
        where = compiler.truth(parse(source)).expression
    except RecursionError:
        raise source.wrong(0, "there are too many operators inside each other") from None
    try:
        used = dict.fromkeys(path[0] for path in compiler.columns) or schema.names[:1]
        pa.table({name: pa.nulls(1, schema.field(name).type) for name in used}).filter(where)
    except (pa.ArrowException, NotImplementedError) as error:
        first = str(error).partition("\n")[0]
        raise source.wrong(0, f"it cannot be computed ({shortened(first, 120)})") from None
    paths = tuple(".".join(path) for path in compiler.columns)
    return Filter(where, paths, compiler.fits_row_groups, compiler.used_now)


class _Conditions(Compiler):
    """Compiles the conditions of one filter."""

    def truth(self, node: Node, sense: Sense = TRUE) -> Value:
        """Whether a condition is true; whether it is false if the sense is negated."""
        if isinstance(node, Operation):
            first, *rest = node.operands
            match node.sign:
                case "AND" | "OR":
                    parts = [self.truth(part, sense) for part in node.operands]
                    return self._joined(parts, node, all_of=(node.sign == "AND") != sense.negated)
                case "NOT":
                    return self.truth(first, sense.opposite)
                case "IN":
                    return self._in(node, sense)
                case "IS":
                    return self._is(node, sense)
                case "IS NOT DISTINCT FROM":
                    return self._same(node, sense)
                case "IS DISTINCT FROM":
                    return self._same(node, sense.opposite)
                case "BETWEEN":
                    ends = zip((">=", "<="), rest, strict=True)
                    parts = [self._compared(sign, first, end, node, sense) for sign, end in ends]
                    return self._joined(parts, node, all_of=not sense.negated)
                case "LIKE":
                    return self._turned(like(self, node, prunes=sense == TRUE), node, sense)
                case sign if sign in _COMPARE:
                    return self._compared(sign, first, rest[0], node, sense)
        found = self.value(node)
        if found.kind == "NULL":
            return self._unknown(sense)
        if found.kind != "BOOL":
            raise self.wrong(node, f"{self.shown(node)} is {a(found.kind)}, where a condition must be")
        return self._turned(self.typed(found), node, sense)

    def _turned(self, value: Value, node: Node, sense: Sense) -> Value:
        return self.truth_of(~value.expression, value, at=node) if sense.negated else value

    def _joined(self, parts: Sequence[Value], node: Node, *, all_of: bool) -> Value:
        """All or any of the parts, as a balanced tree: pyarrow walks expressions recursively."""
        expressions = [part.expression for part in parts]
        join = operator.and_ if all_of else operator.or_
        while len(expressions) > 1:
            pairs = [expressions[index : index + 2] for index in range(0, len(expressions), 2)]
            expressions = [pair[0] if len(pair) == 1 else join(*pair) for pair in pairs]
        return self.truth_of(expressions[0], *parts, at=node)

    def _unknown(self, sense: Sense) -> Value:
        return Value(pc.scalar(pa.scalar(None if sense.exact else False, pa.bool_())), "BOOL", pa.bool_())

    def _constant(self, holds: bool, value: Value, node: Node, sense: Sense) -> Value:
        """The same truth for every value; unknown for null."""
        holds = holds != sense.negated
        if sense.exact:
            found = pc.if_else(value.expression.is_valid(), holds, pa.scalar(None, pa.bool_()))
        else:
            found = value.expression.is_valid() if holds else pc.scalar(False)
        return self.truth_of(found, value, at=node)

    def _compared(self, sign: str, left: Node, right: Node, node: Node, sense: Sense) -> Value:
        one, two = self.value(left), self.value(right)
        if isinstance(one, LiteralNode) and isinstance(two, Value):
            one, two, left, right, sign = two, one, right, left, _FLIPPED[sign]
        if "NULL" in (one.kind, two.kind):
            return self._unknown(sense)
        one = self.typed(one, two.kind if two.kind in TIMES else None)
        if isinstance(two, LiteralNode):
            return self._compared_with(sign, one, two, node, sense)
        if not _comparable(one.kind, two.kind):
            shown = f"{self.shown(left)}, {a(one.kind)}, cannot be compared with {self.shown(right)}"
            raise self.wrong(node, f"{shown}, {a(two.kind)}")
        self.fits_row_groups = False
        if "uint64" in (str(one.type), str(two.type)):
            # pyarrow would compare it with a signed number as a signed one.
            one, two = alike(self, [one, two], node)
        return self._comparison(sign, one, two.expression, node, sense, two)

    def _compared_with(
        self, sign: str, value: Value, literal: LiteralNode, node: Node, sense: Sense
    ) -> Value:
        """A value compared with a literal, exactly, even if its type does not have the literal."""
        found = self.fitted(literal, value, node)
        if found is None:  # NaN
            return self._constant(sign == "!=", value, node, sense)
        if not isinstance(found, Between):
            return self._comparison(sign, value, found, node, sense)
        below, above = sign in ("<", "<="), sign in (">", ">=")
        if found.below is None or not (below or above):
            outside = found.below is None and (below or above) and below == found.above_all
            return self._constant(sign == "!=" or outside, value, node, sense)
        return self._comparison("<=" if below else ">", value, found.below, node, sense)

    def _comparison(
        self, sign: str, value: Value, other: Any, node: Node, sense: Sense, *parts: Value
    ) -> Value:
        is_float = "FLOAT64" in (value.kind, *(part.kind for part in parts))
        if sense.negated and not is_float:
            sign, sense = _OPPOSITE[sign], sense.opposite
        if sense.exact or not value.is_column or (is_float and (sense.negated or sign == "!=")):
            self.fits_row_groups = False
        found = self.truth_of(_COMPARE[sign](value.expression, other), value, *parts, at=node)
        return self._turned(found, node, sense)

    def _in(self, node: Operation, sense: Sense) -> Value:
        operand, items = node.operands
        if not isinstance(items, Items) or not items.values:
            raise self.wrong(node, "IN must be followed by values in parentheses, or by UNNEST of an array")
        value = self.value(operand)
        plain: list[Any] = []
        parts: list[Value] = []
        for item in items.values:
            literal = self.value(item)
            if isinstance(value, Value) and isinstance(literal, LiteralNode) and literal.kind != "NULL":
                plain.append(self.fitted(literal, value, node))
            else:
                parts.append(self._compared("=", operand, item, node, sense))
        if plain:
            assert isinstance(value, Value)
            parts.append(self._among(value, plain, node, sense))
        return self._joined(parts, node, all_of=sense.negated)

    def _among(self, value: Value, fitted: list[Any], node: Node, sense: Sense) -> Value:
        # NaN, and values that the type does not have, are equal to nothing.
        plain = [one for one in fitted if one is not None and not isinstance(one, Between)]
        if not plain:
            return self._constant(False, value, node, sense)
        if value.kind == "FLOAT64" and any(one.as_py() == 0 for one in plain):
            # Equal in SQL, but different in a set of values.
            plain += [pa.scalar(zero) for zero in (0.0, -0.0)]
        if sense.exact or not value.is_column or (value.kind == "FLOAT64" and sense.negated):
            self.fits_row_groups = False
        among = value.expression.isin(pa.concat_arrays([pa.repeat(one, 1) for one in plain]))
        among = ~among if sense.negated else among
        # ``isin`` is false for null, but SQL's IN is unknown.
        if sense.exact:
            among = pc.if_else(value.expression.is_valid(), among, pa.scalar(None, pa.bool_()))
        elif sense.negated:
            among = among & value.expression.is_valid()
        return self.truth_of(among, value, value, at=node)

    def _is(self, node: Operation, sense: Sense) -> Value:
        operand, what = node.operands
        if not isinstance(what, LiteralNode) or what.kind not in ("NULL", "BOOL"):
            raise self.wrong(node, "IS must be followed by NULL, TRUE, FALSE or DISTINCT FROM")
        if what.kind == "NULL":
            value = self.value(operand)
            if isinstance(value, LiteralNode):
                return self._turned(self.typed(LiteralNode("BOOL", value.kind == "NULL")), node, sense)
            self.fits_row_groups &= value.is_column
            test = value.expression.is_valid() if sense.negated else value.expression.is_null()
            return self.truth_of(test, value, at=node)
        if sense == TRUE:
            return self.truth(operand, Sense(negated=not what.value))
        found = self.truth(operand, Sense(negated=not what.value, exact=True))
        surely = self.truth_of(pc.coalesce(found.expression, False), found, at=node)
        return self._turned(surely, node, sense)

    def _same(self, node: Operation, sense: Sense) -> Value:
        """Equality with null as a value; NaN is equal to itself."""
        left, right = node.operands
        one, two = self.value(left), self.value(right)
        if isinstance(one, LiteralNode):
            one, two, left, right = two, one, right, left
        if isinstance(two, LiteralNode) and two.kind == "NULL":
            return self._is(Operation("IS", (left, two), node.at), sense)
        if sense == TRUE and isinstance(two, LiteralNode) and one.kind != "FLOAT64":
            return self._compared("=", left, right, node, sense)
        self.fits_row_groups = False
        equal = self._compared("=", left, right, node, EXACT)
        one, two = self.typed(one), self.typed(two)
        if one.kind == two.kind == "FLOAT64":
            nan = pc.is_nan(one.expression) & pc.is_nan(two.expression)
            equal = equal._replace(expression=equal.expression | nan)
        missing = one.expression.is_null() & two.expression.is_null()
        same = pc.coalesce(equal.expression, missing, False)
        return self._turned(self.truth_of(same, equal, one, two, one, two, at=node), node, sense)

    def compute(self, node: Node) -> Value | LiteralNode:
        match node:
            case Name():
                return self.column(node)
            case FunctionCall():
                function = FUNCTIONS.get(node.name)
                if function is None:
                    known = ", ".join(FUNCTIONS)
                    shown = shortened(node.name, 40)
                    raise self.wrong(node, f"{shown} is not one of the functions {known}")
                found: Value | LiteralNode = function(self, node)
                self.fits_row_groups &= isinstance(found, LiteralNode)
                return found
            case Operation() if node.sign in _ARITHMETIC:
                self.fits_row_groups = False
                return arithmetic(self, node)
            case Operation():
                self.fits_row_groups = False
                return self.truth(node, EXACT)
            case _:
                raise self.wrong(node, "an array or a type is not expected here")


def _comparable(one: str, two: str) -> bool:
    if {one, two} <= {*NUMBERS} or {one, two} == {"DATE", "DATETIME"}:
        return True
    return one == two and one in (*TIMES, "STRING", "BYTES", "BOOL")
