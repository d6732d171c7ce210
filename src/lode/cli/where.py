"""Conditions as people type them: ``kind = 'a' AND (n > 3 OR n IS NULL)``, read into an Arrow expression.

Columns, literals, ``= != <> < <= > >=``, ``[NOT] IN (…)``, ``[NOT] LIKE``, ``IS [NOT] NULL``, ``AND OR NOT``
and brackets; for all else there is ``lode sql``.
"""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lode.errors import InvalidOptionError
from lode.lazy import pa

if TYPE_CHECKING:
    import pyarrow.compute as pc

_TOKEN: Final = re.compile(
    r"""\s*(?:
    (?P<text>'(?:[^']|'')*')
  | (?P<quoted>"(?:[^"]|"")+")
  | (?P<number>-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
  | (?P<word>[^\W\d]\w*)
  | (?P<sign><=|>=|<>|!=|[=<>(),])
    )""",
    re.VERBOSE,
)
_COMPARE: Final[dict[str, Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_CONSTANTS: Final = {"true": True, "false": False}


class Token(NamedTuple):
    """A piece of the condition and what kind of piece it is."""

    kind: str
    text: str

    def is_word(self, word: str) -> bool:
        return self.kind == "word" and self.text.upper() == word

    def is_sign(self, sign: str) -> bool:
        return self.kind == "sign" and self.text == sign


def parse_where(text: str, schema: pa.Schema) -> pc.Expression:
    """Read a condition on the columns of ``schema``; values take the types of the columns they meet."""
    return _Parser(text, schema, _tokens(text)).whole()


def _tokens(text: str) -> list[Token]:
    found, at = [], 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            raise InvalidOptionError(f"--where: cannot read {text[at:].strip()!r}")
        found.append(Token(match.lastgroup or "", match[match.lastgroup or 0]))
        at = match.end()
    return found


@dataclass(slots=True)
class _Parser:
    text: str
    schema: pa.Schema
    tokens: list[Token]
    at: int = field(default=0)

    def whole(self) -> pc.Expression:
        found = self._any()
        if self.at < len(self.tokens):
            raise self._wrong("AND, OR or the end")
        return found

    def _any(self) -> pc.Expression:
        found = self._all()
        while self._took_word("OR"):
            found = found | self._all()
        return found

    def _all(self) -> pc.Expression:
        found = self._one()
        while self._took_word("AND"):
            found = found & self._one()
        return found

    def _one(self) -> pc.Expression:
        if self._took_word("NOT"):
            return ~self._one()
        if self._took_sign("("):
            found = self._any()
            self._need_sign(")")
            return found
        return self._comparison()

    def _comparison(self) -> pc.Expression:
        import pyarrow.compute as pc

        name = self._column()
        column, kind = pc.field(name), self.schema.field(name).type
        found: Any
        if self._took_word("IS"):
            negated = self._took_word("NOT")
            self._need_word("NULL")
            found = column.is_null()
            return ~found if negated else found  # type: ignore[no-any-return]
        negated = self._took_word("NOT")
        if self._took_word("IN"):
            found = column.isin(self._values(kind))
        elif self._took_word("LIKE"):
            found = pc.match_like(column, str(self._value(pa.string())))  # type: ignore[call-overload, unused-ignore]
        elif not negated and self._next().kind == "sign" and self._next().text in _COMPARE:
            compare = _COMPARE[self._take().text]
            return compare(column, self._value(kind))  # type: ignore[no-any-return]
        else:
            raise self._wrong("a comparison, IN, LIKE or IS NULL")
        return ~found if negated else found  # type: ignore[no-any-return]

    def _column(self) -> str:
        token = self._next()
        if token.kind not in ("word", "quoted"):
            raise self._wrong("a column")
        self.at += 1
        name = token.text if token.kind == "word" else token.text[1:-1].replace('""', '"')
        if name not in self.schema.names:
            raise InvalidOptionError(
                f"--where: there is no column {name!r}: there are {', '.join(self.schema.names)}"
            )
        return name

    def _values(self, kind: pa.DataType) -> Any:
        self._need_sign("(")
        values = [self._value(kind)]
        while self._took_sign(","):
            values.append(self._value(kind))
        self._need_sign(")")
        return pa.array([value.as_py() for value in values], values[0].type)

    def _value(self, kind: pa.DataType) -> Any:
        token = self._take()
        if token.kind == "text":
            return _typed(token.text[1:-1].replace("''", "'"), kind)
        if token.kind == "number":
            is_whole = token.text.lstrip("-").isdecimal()
            return _typed(int(token.text) if is_whole else float(token.text), kind)
        if token.kind == "word" and token.text.lower() in _CONSTANTS:
            return _typed(_CONSTANTS[token.text.lower()], kind)
        self.at -= 1
        raise self._wrong("a number, true, false or a text in 'quotes'")

    def _next(self) -> Token:
        return self.tokens[self.at] if self.at < len(self.tokens) else Token("end", "the end")

    def _take(self) -> Token:
        token = self._next()
        self.at += 1
        return token

    def _took_word(self, word: str) -> bool:
        taken = self._next().is_word(word)
        self.at += taken
        return taken

    def _took_sign(self, sign: str) -> bool:
        taken = self._next().is_sign(sign)
        self.at += taken
        return taken

    def _need_word(self, word: str) -> None:
        if not self._took_word(word):
            raise self._wrong(word)

    def _need_sign(self, sign: str) -> None:
        if not self._took_sign(sign):
            raise self._wrong(repr(sign))

    def _wrong(self, wanted: str) -> InvalidOptionError:
        return InvalidOptionError(f"--where: {self.text!r} has {self._next().text} where {wanted} should be")


def _typed(value: Any, kind: pa.DataType) -> Any:
    """The value as one of the column's type; a fraction beside whole numbers stays one."""
    if isinstance(value, float) and pa.types.is_integer(kind):
        return pa.scalar(value)
    try:
        if isinstance(value, str) and pa.types.is_timestamp(kind):
            moment = datetime.fromisoformat(value)
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            return pa.scalar(moment if kind.tz else moment.astimezone(UTC).replace(tzinfo=None), kind)
        return pa.scalar(value).cast(kind)
    except (pa.ArrowException, ValueError, NotImplementedError):
        raise InvalidOptionError(f"--where: {value!r} is no {kind}") from None
