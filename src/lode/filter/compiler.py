"""Values of filters: columns and literals as expressions of pyarrow."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final

from lode.filter.tree import FilterText, LiteralNode, Name
from lode.filter.values import NUMBERS, TIMES, Between, Value, a, kind_of, micros, number, value_in
from lode.format.ids import shortened
from lode.lazy import pa, pc, pt
from lode.near import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lode.errors import InvalidOptionError
    from lode.filter.tree import FunctionCall, Node

MAX_EXPRESSION_NODES: Final = 50_000
_PSEUDO_COLUMNS: Final = ("_PARTITIONTIME", "_PARTITIONDATE", "_TABLE_SUFFIX", "_FILE_NAME", "_CHANGE_TYPE")


class Compiler(ABC):
    """Compiles nodes of one filter. ``conditions.py`` adds operators and the calls of functions."""

    def __init__(self, text: FilterText, schema: pa.Schema, now_micros: int | None = None) -> None:
        self._text = text
        self._schema = schema
        self._now = now_micros
        self.used_now: int | None = None
        # By the id of a node: a node that is used twice is compiled once. The tree keeps its nodes alive.
        self._values: dict[int, Value | LiteralNode] = {}
        self._names_in: dict[tuple[str, ...], dict[str, list[str]]] = {}
        # In the order of the text.
        self.columns: dict[tuple[str, ...], None] = {}
        self.fits_row_groups = True

    def wrong(self, node: Node, complaint: str) -> InvalidOptionError:
        return self._text.wrong(node.at, complaint)

    def made(self, expression: Any, kind: str, arrow: Any, *parts: Value, at: Node) -> Value:
        """A value made of others; refused if the expression becomes too large."""
        size = 1 + sum(part.size for part in parts)
        if size > MAX_EXPRESSION_NODES:
            raise self.wrong(at, "it is too large")
        return Value(expression, kind, arrow, size)

    def mistyped(self, node: Node, name: str, takes: str, kind: str) -> InvalidOptionError:
        return self.wrong(node, f"{name} takes {takes}, not {kind}")

    def arguments(self, call: FunctionCall, low: int, high: int | None = None) -> list[Value | LiteralNode]:
        """The arguments of a function; refused if it does not take so many."""
        high = low if high is None else high
        if not low <= len(call.arguments) <= high:
            takes = str(low) if low == high else f"{low} to {high}" if high < 1000 else f"{low} or more"
            raise self.wrong(call, f"{call.name} takes {takes} arguments, not {len(call.arguments)}")
        return [self.value(argument) for argument in call.arguments]

    def truth_of(self, expression: Any, *parts: Value, at: Node) -> Value:
        return self.made(expression, "BOOL", pa.bool_(), *parts, at=at)

    def value(self, node: Node) -> Value | LiteralNode:
        """The value of a node; a literal stays one until the type it is compared with is known."""
        if isinstance(node, LiteralNode):
            return node
        found = self._values.get(id(node))
        if found is None:
            found = self._values[id(node)] = self.compute(node)
        return found

    @abstractmethod
    def compute(self, node: Node) -> Value | LiteralNode:
        """The value of a node that is no literal."""

    def column(self, node: Name) -> Value:
        fields: Any = self._schema
        path: list[str] = []
        for part in node.path:
            same = self._names(tuple(path), fields).get(part.lower(), [])
            same = [part] if same.count(part) == 1 else same
            if len(same) != 1:
                raise self._no_column(node, part, [field.name for field in fields], same)
            path.append(same[0])
            field = fields.field(same[0])
            fields = field.type if kind_of(field) == "STRUCT" else ()
        self.columns[tuple(path)] = None
        self.fits_row_groups &= len(path) == 1
        kind, arrow, column = kind_of(field), field.type, pc.field(*path)
        plain = arrow.value_type if pt.is_dictionary(arrow) else arrow
        if kind == "FLOAT64":
            plain = pa.float64()
        elif pt.is_fixed_size_binary(plain):
            plain = pa.binary()  # a literal may be of another length
        if plain != arrow:
            return Value(column.cast(plain), kind, plain, 2)
        return Value(column, kind, arrow, is_column=True)

    def _names(self, path: tuple[str, ...], fields: Any) -> dict[str, list[str]]:
        """The names inside of a struct, or of the columns, by their lower case."""
        found = self._names_in.get(path)
        if found is None:
            found = self._names_in[path] = {}
            for field in fields:
                found.setdefault(field.name.lower(), []).append(field.name)
        return found

    def _no_column(self, node: Name, part: str, names: list[str], same: list[str]) -> InvalidOptionError:
        shown = shortened(".".join(node.path))
        if part.upper() in _PSEUDO_COLUMNS:
            return self.wrong(node, f"the pseudo-column {shown} is not supported: name a column of the table")
        if same:
            return self.wrong(node, f"{shown} could be {' or '.join(same)}: use the column's own case")
        known = f"there are {_shortened_list(names)}" if names else "there is nothing inside of it"
        known = did_you_mean(part, names) or known
        return self.wrong(node, f"there is no column {shown}: {known}")

    def fitted(self, literal: LiteralNode, value: Value, node: Node) -> Any:
        """A literal as a scalar of a value's type, a ``Between``, or None if it is NaN."""
        kind = value.kind
        fits = literal.kind == kind or (kind in NUMBERS and literal.kind in NUMBERS)
        fits |= kind in TIMES and (literal.kind == "STRING" or {kind, literal.kind} == {"DATE", "DATETIME"})
        if not fits or kind not in (*NUMBERS, *TIMES, "STRING", "BYTES", "BOOL"):
            raise self.wrong(
                node, f"{a(kind)} cannot be compared with {shortened(literal.value, 40)}, {a(literal.kind)}"
            )
        if kind in NUMBERS:
            found = self.number(literal)
            return None if found != found else self._in_type(found, value.type, literal)
        if kind in TIMES:
            return self._in_type(self.micros(literal, kind), value.type, literal)
        return pa.scalar(literal.value, value.type)

    def _in_type(self, value: Any, arrow: Any, literal: LiteralNode) -> Any:
        try:
            return value_in(value, arrow)
        except ValueError as why:
            raise self.wrong(literal, f"{shortened(literal.value, 40)} {why}") from None

    def number(self, literal: LiteralNode) -> Any:
        try:
            return number(literal.value) if isinstance(literal.value, str) else literal.value
        except ValueError as why:
            raise self.wrong(literal, f"{shortened(literal.value, 40)} {why}") from None

    def micros(self, literal: LiteralNode, kind: str) -> int:
        own = kind if literal.kind == "STRING" else literal.kind
        try:
            return micros(own, literal.value)
        except (ValueError, OverflowError) as why:
            raise self.wrong(literal, f"{shortened(literal.value, 40)} {why}") from None

    def typed(self, node: Value | LiteralNode, kind: str | None = None) -> Value:
        """A literal as a value, of the type that SQL gives it or of ``kind``."""
        if isinstance(node, Value):
            return node
        literal = node
        own = kind if literal.kind in ("STRING", "NULL") and kind else literal.kind
        arrow: Any = {
            "INT64": pa.int64,
            "FLOAT64": pa.float64,
            "STRING": pa.string,
            "BYTES": pa.binary,
            "BOOL": pa.bool_,
            "DATE": pa.date32,
            "TIME": lambda: pa.time64("us"),
            "DATETIME": lambda: pa.timestamp("us"),
            "TIMESTAMP": lambda: pa.timestamp("us", "UTC"),
            "NUMERIC": lambda: pa.decimal128(38, 9),
            "BIGNUMERIC": lambda: pa.decimal256(76, 38),
            "NULL": pa.null,
        }.get(own)
        if arrow is None:
            raise self.wrong(literal, f"{a(own)} is not supported here")
        of = Value(None, "NUMERIC" if own == "BIGNUMERIC" else own, arrow())
        if literal.kind == "NULL":
            return of._replace(expression=pc.scalar(pa.scalar(None, of.type)))
        found = self.fitted(literal, of, literal)
        if isinstance(found, Between):
            raise self.wrong(literal, f"{shortened(literal.value, 40)} is not {a(own)}")
        return of._replace(expression=pc.scalar(pa.scalar(float("nan")) if found is None else found))

    def shown(self, node: Node) -> str:
        return shortened(".".join(node.path) if isinstance(node, Name) else self._text.text[node.at :], 40)

    def now_micros(self) -> int:
        """The current time, the same everywhere in the filter."""
        if self.used_now is None:
            self.used_now = time.time_ns() // 1000 if self._now is None else self._now
        return self.used_now


def _shortened_list(names: Sequence[str]) -> str:
    shown = ", ".join(names[:20])
    return f"{shown[:200]}…" if len(names) > 20 or len(shown) > 200 else shown
