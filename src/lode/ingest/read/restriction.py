"""Row restrictions: a small part of SQL's WHERE, as an expression that files and rows are filtered by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from lode.ingest.read.conditions import among, compared, joined, negated_of, null, valid
from lode.ingest.read.literal import TYPED, Literal, number, typed
from lode.ingest.read.selection import shown
from lode.ingest.read.tokens import refused, tokens
from lode.ingest.status import Refused, invalid

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow.compute as pc

    from lode.ingest.read.tokens import Token
    from lode.ingest.schema.columns import Column, TableSchema

LONGEST: Final = 1 << 20
MOST_CONDITIONS: Final = 1_000
MOST_VALUES: Final = 10_000
DEEPEST: Final = 50

_FLIPPED: Final = {"=": "=", "!=": "!=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_RESERVED: Final = {
    "AND",
    "OR",
    "NOT",
    "IN",
    "BETWEEN",
    "IS",
    "NULL",
    "TRUE",
    "FALSE",
    "LIKE",
    "CASE",
    "CAST",
}


class Restriction(NamedTuple):
    """What must be true of a row, and the columns, by path, that it is about.

    ``fits_row_groups`` tells whether statistics of Parquet can be trusted with it: they leave out NaN, and
    a file of before may lack a struct's field.
    """

    where: pc.Expression
    columns: tuple[str, ...]
    fits_row_groups: bool


def parse_restriction(text: str, schema: TableSchema) -> Restriction | None:
    """Read a restriction on a table's columns, or refuse it; None if it says nothing."""
    if not text.strip():
        return None
    if len(text) > LONGEST:
        raise invalid(f"row_restriction has {len(text):,} characters, the most is {LONGEST:,}.")
    parser = _Parser(text, schema)
    where = parser.whole()
    fits = not any("." in path or column.type == "FLOAT64" for path, column in parser.columns.items())
    return Restriction(where, tuple(parser.columns), fits)


class _Parser:
    """Goes through the tokens once.

    ``negated`` goes down to the conditions: each knows what is true of null and NaN when it is turned round,
    and pyarrow's NOT of a set of values does not.
    """

    def __init__(self, text: str, schema: TableSchema) -> None:
        self._text = text
        self._schema = schema
        self._tokens = tokens(text)
        self._at = 0
        self._conditions = 0
        self._depth = 0
        self.columns: dict[str, Column] = {}

    def whole(self) -> pc.Expression:
        found = self._either(negated=False)
        if self._next.kind != "end":
            raise self._refused(f"{shown(self._next.text)} is not expected here")
        return found

    # -- how conditions are joined -------------------------------------------------------------

    def _either(self, *, negated: bool) -> pc.Expression:
        parts = [self._both(negated=negated)]
        while self._take("OR"):
            parts.append(self._both(negated=negated))
        return joined(parts, all_of=negated)

    def _both(self, *, negated: bool) -> pc.Expression:
        parts = [self._one(negated=negated)]
        while self._take("AND"):
            parts.append(self._one(negated=negated))
        return joined(parts, all_of=not negated)

    def _one(self, *, negated: bool) -> pc.Expression:
        while self._take("NOT"):
            negated = not negated
        if not self._take("("):
            return self._condition(negated=negated)
        self._depth += 1
        if self._depth > DEEPEST:
            raise self._refused(f"there are more than {DEEPEST} parentheses inside each other")
        found = self._either(negated=negated)
        self._expect(")")
        self._depth -= 1
        return found

    # -- one condition -------------------------------------------------------------------------

    def _condition(self, *, negated: bool) -> pc.Expression:
        self._conditions += 1
        if self._conditions > MOST_CONDITIONS:
            raise self._refused(f"there are more than {MOST_CONDITIONS} conditions")
        literal = self._literal()
        if literal is not None:
            sign = self._sign()
            return compared(*self._column(), _FLIPPED[sign], literal, negated=negated)
        column, field = self._column()
        if self._take("IS"):
            wanted = self._take("NOT") != negated
            self._expect("NULL")
            return valid(field) if wanted else null(field)
        turned = negated != self._take("NOT")
        if self._take("IN"):
            return among(column, field, self._values(), negated=turned)
        if self._take("BETWEEN"):
            low = self._required_literal()
            self._expect("AND")
            high = self._required_literal()
            ends = ((">=", low), ("<=", high))
            parts = [compared(column, field, sign, end, negated=turned) for sign, end in ends]
            return joined(parts, all_of=not turned)
        if turned != negated:
            raise self._refused("IN or BETWEEN must follow NOT")
        if self._next.upper in _FLIPPED:
            return compared(column, field, self._sign(), self._required_literal(), negated=negated)
        if column.type != "BOOL":
            found = shown(self._next.text) if self._next.text else "the end"
            raise self._refused(f"behind {column.name!r}, a {column.type}, must be a comparison, not {found}")
        return negated_of(field) if negated else field

    def _column(self) -> tuple[Column, pc.Expression]:
        import pyarrow.compute as pc

        columns: Sequence[Column] = self._schema.columns
        path: list[str] = []
        while True:
            token = self._next
            if token.kind not in ("word", "quoted") or (token.upper in _RESERVED and not path):
                raise self._refused("a column must be here")
            name = token.text.lower()
            column = next((one for one in columns if one.name.lower() == name), None)
            if column is None:
                raise self._refused(f"the table has no column {shown('.'.join((*path, token.text)))}")
            if column.mode == "REPEATED":
                raise self._refused(f"{shown(column.name)} is REPEATED, and only single values are compared")
            self._at += 1
            path.append(column.name)
            columns = column.fields
            if not self._take("."):
                break
        self.columns[".".join(path)] = column
        field: Callable[..., pc.Expression] = pc.field
        return column, field(*path)

    def _values(self) -> list[Literal]:
        self._expect("(")
        found = [self._required_literal()]
        while self._take(","):
            found.append(self._required_literal())
            if len(found) > MOST_VALUES:
                raise self._refused(f"IN has more than {MOST_VALUES:,} values")
        self._expect(")")
        return found

    def _required_literal(self) -> Literal:
        found = self._literal()
        if found is None:
            if self._next.upper == "NULL":
                raise self._refused("nothing compares with NULL: use IS NULL or IS NOT NULL")
            raise self._refused("a literal must be here")
        return found

    def _literal(self) -> Literal | None:
        token, after = self._next, self._tokens[min(self._at + 1, len(self._tokens) - 1)]
        match token.kind:
            case "number":
                self._at += 1
                return Literal("number", number(token.text))
            case "text":
                self._at += 1
                return Literal("STRING", token.text)
            case "bytes":
                self._at += 1
                return Literal("BYTES", token.octets)
        if token.upper in ("+", "-") and after.kind == "number":
            self._at += 2
            return Literal("number", number(token.text + after.text))
        if token.upper in ("TRUE", "FALSE"):
            self._at += 1
            return Literal("BOOL", token.upper == "TRUE")
        if token.upper in TYPED and after.kind == "text":
            self._at += 2
            return typed(token.upper, after.text)
        if token.upper == "CAST" and after.upper == "(":
            return self._cast()
        return None

    def _cast(self) -> Literal:
        """``CAST('2024-01-31' AS DATE)``, the other way to write a typed literal."""
        self._at += 2
        text = self._next
        self._at += 1
        self._expect("AS")
        kind = self._next.upper
        if text.kind != "text" or kind not in TYPED:
            raise self._refused(f"CAST must be of a text to one of {', '.join(TYPED)}")
        self._at += 1
        self._expect(")")
        return typed(kind, text.text)

    # -- tokens --------------------------------------------------------------------------------

    @property
    def _next(self) -> Token:
        return self._tokens[min(self._at, len(self._tokens) - 1)]

    def _take(self, what: str) -> bool:
        found = self._next.upper == what
        self._at += found
        return found

    def _expect(self, what: str) -> None:
        if not self._take(what):
            raise self._refused(f"{what} must be here")

    def _sign(self) -> str:
        sign = self._next.upper
        if sign not in _FLIPPED:
            raise self._refused("a comparison must be here")
        self._at += 1
        return sign

    def _refused(self, complaint: str) -> Refused:
        return refused(self._text, self._next.at, complaint)
