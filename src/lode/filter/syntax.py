"""From the text of a filter to a tree: literals, names and brackets are read here, operators by sqlglot.

Brackets are resolved from the inside out: when one closes, its content becomes one operand. So sqlglot only
sees flat rows of operators between numbered operands. No text can make it recurse, every token is parsed
once, and no name or literal can be mistaken for syntax: the time is linear in the length of the text.
"""

from __future__ import annotations

import re
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from lode.errors import InvalidOptionError
from lode.filter.quoted import decode_bytes, decode_text
from lode.format.ids import shortened

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_CHARACTERS: Final = 1 << 20
MAX_TOKENS: Final = 25_000
MAX_CONDITIONS: Final = 1_000
MAX_VALUES: Final = 10_000
MAX_DEPTH: Final = 100
MAX_BRACKETS: Final = 50
MAX_PREFIXES: Final = 20
MAX_NUMBER_CHARACTERS: Final = 200

SUPPORTED: Final = (
    "supported are =, !=, <>, <, <=, >, >=, [NOT] IN (…), [NOT] BETWEEN … AND …, [NOT] LIKE, IS [NOT] NULL, "
    "IS [NOT] TRUE, IS [NOT] FALSE, IS [NOT] DISTINCT FROM, + - * /, CAST, EXTRACT and some functions, "
    "joined by AND, OR, NOT and parentheses"
)

# Possessive: a piece that does not match is never tried again with another length.
_TOKEN: Final = re.compile(
    r"""(?P<space>\s++)
    |(?P<number>(?:0[xX][0-9a-fA-F]++|(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?+)(?![\w.]))
    |(?P<text>(?P<prefix>[rRbB]{0,2})(?:'''(?P<q3>(?:[^\\]|\\.)*?)'''|\"\"\"(?P<d3>(?:[^\\]|\\.)*?)\"\"\"
        |'(?P<q1>(?:[^\\']|\\.)*+)'|"(?P<d1>(?:[^\\"]|\\.)*+)"))
    |(?P<array>[aA][rR][rR][aA][yY]\s*+(?:<\s*+[A-Za-z0-9]++\s*+>\s*+)?+(?=\[))
    |(?P<word>[^\W\d]\w*+)
    |`(?P<quoted>(?:[^`\\]|\\.)++)`
    |(?P<sign><=|>=|<>|!=|-(?!-)|/(?!\*)|[=<>(),.+*\[\]])""",
    re.VERBOSE | re.DOTALL,
)
_TYPED: Final = ("NUMERIC", "BIGNUMERIC", "DATE", "TIME", "DATETIME", "TIMESTAMP", "JSON")
_TYPES: Final = {name: name for name in ("BOOL", "INT64", "FLOAT64", "STRING", "BYTES", *_TYPED)} | {
    "BOOLEAN": "BOOL",
    "INTEGER": "INT64",
    "INT": "INT64",
    "BIGINT": "INT64",
    "DECIMAL": "NUMERIC",
    "BIGDECIMAL": "BIGNUMERIC",
}
_CONSTANTS: Final = {"TRUE": ("BOOL", True), "FALSE": ("BOOL", False), "NULL": ("NULL", None)}
_OPERATORS: Final = ("AND", "OR", "NOT", "IN", "IS", "LIKE", "BETWEEN", "DISTINCT", "FROM")
_RESERVED: Final = (*_OPERATORS, *_CONSTANTS, "AS", "UNNEST")
# What a sign after it stands between operands.
_OPERAND_ENDS: Final = ("", ")", "]")
_CURRENT: Final = ("CURRENT_DATE", "CURRENT_TIME", "CURRENT_DATETIME", "CURRENT_TIMESTAMP")


class Literal(NamedTuple):
    """A value as it was written: ``kind`` is the type SQL gives it, ``value`` its text if it has one."""

    kind: str
    value: Any
    at: int = 0


class Name(NamedTuple):
    """A column, or a field inside of one."""

    path: tuple[str, ...]
    at: int


class TypeName(NamedTuple):
    """The type of a CAST."""

    kind: str
    at: int


class Call(NamedTuple):
    """A call of a function."""

    name: str
    arguments: tuple[Node, ...]
    at: int


class Items(NamedTuple):
    """An array, or the values of IN."""

    values: tuple[Node, ...]
    at: int


class Operation(NamedTuple):
    """An operator and its operands. AND and OR have two or more."""

    sign: str
    operands: tuple[Node, ...]
    at: int


Node: TypeAlias = "Literal | Name | TypeName | Call | Items | Operation"


class Text(NamedTuple):
    """A filter as it was written, and what its errors call it.

    ``double_quotes`` says whether text between double quotes is a name, as in standard SQL, or a text, as in
    GoogleSQL.
    """

    text: str
    name: str = "where"
    double_quotes: bool = True

    def wrong(self, at: int, complaint: str) -> InvalidOptionError:
        """Say what is wrong, and where if the text has a name."""
        place = f"{self.name} {shortened(self.text, 117)} at {at}: " if self.name else ""
        return InvalidOptionError(f"{place}{complaint}")

    def unsupported(self, at: int, complaint: str) -> InvalidOptionError:
        """Say what is wrong, where, and what would be right."""
        return self.wrong(at, f"{complaint}; {SUPPORTED}" if self.name else complaint)


class _Piece(NamedTuple):
    """A sign or keyword in upper case, or with an empty sign an operand and how deep its tree is."""

    sign: str
    at: int
    node: Any = None
    depth: int = 0


class _Group(NamedTuple):
    """What an open bracket holds so far, and the function, IN or UNNEST before it."""

    opened: _Piece
    head: _Piece
    pieces: list[_Piece]


def parse(text: Text) -> Node:
    """Parse a filter, or raise ``InvalidOptionError``."""
    if len(text.text) > MAX_CHARACTERS:
        raise InvalidOptionError(
            f"{text.name} has {len(text.text):,} characters, the most is {MAX_CHARACTERS:,}"
        )
    return _Brackets(text).parse(_Pieces(text).read())


class _Pieces:
    """Reads literals and names as operands, keywords and signs as they are."""

    def __init__(self, text: Text) -> None:
        self._text = text
        self._tokens = self._matches()
        self._at = 0
        self._found: list[_Piece] = []

    def _matches(self) -> list[re.Match[str]]:
        text = self._text.text
        found: list[re.Match[str]] = []
        at = 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise self._text.unsupported(at, f"{shortened(text[at : at + 20])} is not understood")
            at = match.end()
            if not match["space"]:
                found.append(match)
                if len(found) > MAX_TOKENS:
                    raise self._text.unsupported(at, f"there are more than {MAX_TOKENS:,} words and signs")
        return found

    def read(self) -> list[_Piece]:
        while self._at < len(self._tokens):
            match = self._tokens[self._at]
            if match["sign"]:
                self._add({"<>": "!="}.get(match["sign"], match["sign"]))
            elif match["number"]:
                self._number(match)
            elif match["word"]:
                self._word(match["word"].upper())
            elif match["quoted"] is not None or self._is_quoted_name(match):
                self._name()
            elif match["text"] is not None:
                self._add("", self._quoted())
            else:
                self._at += 1  # ARRAY before a bracket
        return self._found

    @property
    def _after(self) -> re.Match[str] | None:
        return self._tokens[self._at + 1] if self._at + 1 < len(self._tokens) else None

    def _add(self, sign: str, node: Node | str | None = None) -> None:
        """Take the token as a sign, or add the operand that was read."""
        at = self._tokens[self._at].start() if node is None or sign else getattr(node, "at", 0)
        self._found.append(_Piece(sign, at, node))
        self._at += node is None or bool(sign)

    def _word(self, word: str) -> None:
        at, after = self._tokens[self._at].start(), self._after
        if word in _CONSTANTS:
            self._at += 1
            self._add("", Literal(*_CONSTANTS[word], at))
        elif word in _RESERVED:
            self._add(word)
        elif self._is_typed(word, after):
            self._at += 1
            self._add("", Literal(_TYPES[word], self._quoted().value, at))
        elif word in _TYPES and self._found and self._found[-1].sign == "AS":
            self._at += 1
            self._add("", TypeName(_TYPES[word], at))
        elif after is not None and after["sign"] == "(":
            self._add("CALL", word)
        elif word in _CURRENT:
            self._at += 1
            self._add("", Call(word, (), at))
        else:
            self._name()

    def _is_typed(self, word: str, after: re.Match[str] | None) -> bool:
        """Whether it is the type of the literal after it, as in ``DATE '2024-01-31'``."""
        is_text = after is not None and after["text"] is not None and "b" not in after["prefix"].lower()
        return is_text and _TYPES.get(word) in _TYPED

    def _is_quoted_name(self, match: re.Match[str]) -> bool:
        return self._text.double_quotes and match["d1"] is not None and not match["prefix"]

    def _name(self) -> None:
        """A name, with the fields behind its points, whatever they are called."""
        start = self._tokens[self._at].start()
        path: list[str] = []
        while True:
            match = self._tokens[self._at] if self._at < len(self._tokens) else None
            if match is None or not (match["word"] or match["quoted"] or self._is_quoted_name(match)):
                at = match.start() if match else len(self._text.text)
                raise self._text.unsupported(at, "a name is missing")
            body = match["quoted"] or match["d1"]
            path.append(match["word"] if body is None else self._decoded(body, match, ""))
            self._at += 1
            if len(path) > MAX_BRACKETS:
                raise self._text.unsupported(start, f"a name has more than {MAX_BRACKETS} parts")
            if self._at >= len(self._tokens) or self._tokens[self._at]["sign"] != ".":
                return self._add("", Name(tuple(path), start))
            self._at += 1

    def _number(self, match: re.Match[str]) -> None:
        """A number, with the sign before it where that stands between no two operands."""
        text, found = match["number"], self._found
        if len(text) > MAX_NUMBER_CHARACTERS:
            raise self._text.unsupported(match.start(), f"{shortened(text, 20)} is not understood")
        if (
            found
            and found[-1].sign in ("-", "+")
            and (len(found) == 1 or found[-2].sign not in _OPERAND_ENDS)
        ):
            text = found.pop().sign + text
        is_whole = text[1:].isdecimal() or text.isdecimal() or "x" in text.lower()
        self._at += 1
        self._add("", Literal("INT64" if is_whole else "FLOAT64", text, match.start()))

    def _quoted(self) -> Literal:
        """A text or bytes. Two quotes inside of one are a quote, as in standard SQL."""
        match = self._tokens[self._at]
        prefix, start = match["prefix"].lower(), match.start()
        if prefix in ("rr", "bb"):
            raise self._text.unsupported(start, f"{shortened(match[0])} is not understood")
        parts: list[Any] = []
        while True:
            body = next(match[key] for key in ("q3", "d3", "q1", "d1") if match[key] is not None)
            parts.append(self._decoded(body, match, prefix))
            self._at += 1
            after = self._tokens[self._at] if self._at < len(self._tokens) else None
            if after is None or after["q1"] is None or match["q1"] is None or after["prefix"]:
                break
            if after.start() != match.end():
                break
            match = after
        if "b" in prefix:
            return Literal("BYTES", b"'".join(parts), start)
        return Literal("STRING", "'".join(parts), start)

    def _decoded(self, body: str, match: re.Match[str], prefix: str) -> Any:
        decode: Any = decode_bytes if "b" in prefix else decode_text
        try:
            return decode(body, raw="r" in prefix)
        except ValueError:
            raise self._text.unsupported(
                match.start(), f"{shortened(match[0])} has an escape sequence that is not understood"
            ) from None


class _Brackets:
    """Makes one operand of every bracket, from the inside out."""

    def __init__(self, text: Text) -> None:
        self._text = text

    def parse(self, pieces: list[_Piece]) -> Node:
        end = len(self._text.text)
        conditions = sum({"AND": 1, "OR": 1, "BETWEEN": -1}.get(piece.sign, 0) for piece in pieces) + 1
        if conditions > MAX_CONDITIONS:
            raise self._text.unsupported(end, f"there are more than {MAX_CONDITIONS:,} conditions")
        nothing = _Piece("", 0)
        groups = [_Group(nothing, nothing, [])]
        for piece in pieces:
            held = groups[-1].pieces
            if piece.sign in ("(", "["):
                takes = piece.sign == "(" and held and held[-1].sign in ("CALL", "IN", "UNNEST")
                groups.append(_Group(piece, held.pop() if takes else nothing, []))
                if len(groups) > MAX_BRACKETS + 1:
                    complaint = f"there are more than {MAX_BRACKETS} brackets inside each other"
                    raise self._text.unsupported(piece.at, complaint)
            elif piece.sign in (")", "]"):
                group = groups.pop()
                if group.opened.sign + piece.sign not in ("()", "[]"):
                    raise self._text.unsupported(piece.at, f"{piece.sign} is not expected here")
                groups[-1].pieces.extend(self._closed(group, piece.at))
            else:
                held.append(piece)
        if len(groups) > 1:
            opened = groups[-1].opened
            raise self._text.unsupported(end, f"{opened.sign} at {opened.at} is not closed")
        node: Node = self._expression(groups[0].pieces, end).node
        return node

    def _closed(self, group: _Group, end: int) -> list[_Piece]:
        """The content of a bracket as one operand, after IN if that was before it."""
        head, at = group.head, group.opened.at
        if not head.sign and group.opened.sign == "(":
            return [self._expression(group.pieces, end)]
        values = list(self._values(group, end))
        if len(values) > MAX_VALUES:
            raise self._text.unsupported(at, f"there are more than {MAX_VALUES:,} values in one list")
        nodes = tuple(value.node for value in values)
        node: Node = Items(nodes, at)
        if head.sign == "CALL":
            node = Call(head.node, nodes, head.at)
        elif head.sign == "UNNEST":
            if len(nodes) != 1 or not isinstance(nodes[0], Items):
                raise self._text.unsupported(at, "UNNEST must be of an array of values")
            node = nodes[0]
        operand = _Piece("", at, node, 1 + max((value.depth for value in values), default=0))
        return [head, operand] if head.sign == "IN" else [operand]

    def _values(self, group: _Group, end: int) -> Iterator[_Piece]:
        """The parts between the commas, or between AS and FROM in the functions that have these."""
        between = {"CAST": "AS", "SAFE_CAST": "AS", "EXTRACT": "FROM"}.get(str(group.head.node), ",")
        part: list[_Piece] = []
        for piece in group.pieces:
            if piece.sign == between and not (part and part[-1].sign == "DISTINCT"):
                yield self._expression(part, piece.at)
                part = []
            else:
                part.append(piece)
        if group.pieces:
            yield self._expression(part, end)

    def _expression(self, pieces: list[_Piece], end: int) -> _Piece:
        if not pieces:
            raise self._text.unsupported(end, "a value is missing")
        if len(pieces) == 1 and not pieces[0].sign:
            return pieces[0]
        depth = self._depth(pieces)
        return _Piece("", pieces[0].at, _Operators(self._text, pieces, end).parse(), depth)

    def _depth(self, pieces: list[_Piece]) -> int:
        """How deep the tree becomes; refused before it is made if it is too deep to be walked."""
        deepest = longest = chain = prefixes = betweens = 0
        for piece in pieces:
            betweens += piece.sign == "BETWEEN"
            if piece.sign == "AND" and betweens:
                betweens -= 1
            elif piece.sign in ("AND", "OR"):
                chain = prefixes = 0
            chain += bool(piece.sign)
            prefixes += piece.sign in ("NOT", "-", "+")
            deepest, longest = max(deepest, piece.depth), max(longest, chain)
            if prefixes > MAX_PREFIXES or deepest + longest + 1 > MAX_DEPTH:
                raise self._text.unsupported(piece.at, "there are too many operators inside each other")
        return deepest + longest + 1


class _Operators:
    """A flat row of operands and operators, parsed by sqlglot; operand 7 of the row is named ``x7`` there."""

    def __init__(self, text: Text, pieces: list[_Piece], end: int) -> None:
        self._text = text
        self._pieces = pieces
        self._end = end
        self._sqlglot = _sqlglot()

    def parse(self) -> Node:
        glot = self._sqlglot
        tokens = [token for number in range(len(self._pieces)) for token in self._tokens(number)]
        try:
            (tree,) = glot.dialect.parser(error_level=glot.immediate).parse_into(
                glot.exp.Condition, tokens, ""
            )
        except glot.error as error:
            details = error.errors[0] if error.errors else {}
            is_missing = "missing for" in str(details.get("description"))
            raise self._unexpected(details.get("col", self._end), is_missing=is_missing) from None
        except RecursionError:
            raise self._text.unsupported(
                self._pieces[0].at, "there are too many operators inside each other"
            ) from None
        return self._node(tree)

    def _tokens(self, number: int) -> Iterator[Any]:
        glot, piece = self._sqlglot, self._pieces[number]

        def token(kind: Any, text: str) -> Any:
            return glot.token(kind, text, 1, piece.at, piece.at, piece.at)

        if piece.sign:
            if piece.sign not in glot.signs:
                raise self._unexpected(piece.at)
            yield token(glot.signs[piece.sign], piece.sign)
            return
        # Nothing else that may follow IN is an operand in brackets.
        is_list = number > 0 and self._pieces[number - 1].sign == "IN" and isinstance(piece.node, Items)
        if isinstance(piece.node, Items) and not is_list:
            raise self._unexpected(piece.at)
        if is_list:
            yield token(glot.kinds.L_PAREN, "(")
        yield token(glot.kinds.VAR, f"x{number}")
        if is_list:
            yield token(glot.kinds.R_PAREN, ")")

    def _unexpected(self, at: int, *, is_missing: bool = False) -> InvalidOptionError:
        rest = self._text.text[at : min(self._end, at + 40)].split()
        if not rest or (is_missing and self._pieces[-1].sign):
            return self._text.unsupported(self._end, "a value is missing at the end")
        what = f"a value is missing near {rest[0]!r}" if is_missing else f"{rest[0]!r} is not expected here"
        return self._text.unsupported(at, what)

    def _node(self, tree: Any) -> Node:
        exp = self._sqlglot.exp
        match tree:
            case exp.Paren():
                return self._node(tree.this)
            case exp.Column():
                if not re.fullmatch(r"x[0-9]+", tree.name):  # sqlglot takes some keywords for names
                    signs = {piece.sign: piece.at for piece in self._pieces}
                    raise self._unexpected(signs.get(tree.name.upper(), self._pieces[0].at))
                node: Node = self._pieces[int(tree.name[1:])].node
                return node
            case exp.And() | exp.Or():
                return self._joined(tree)
            case exp.Not() | exp.Neg():
                operands = [self._node(tree.this)]
                sign = "NOT" if isinstance(tree, exp.Not) else "NEG"
            case exp.Between():
                operands = [self._node(part) for part in (tree.this, tree.args["low"], tree.args["high"])]
                sign = "BETWEEN"
            case exp.In() if len(tree.expressions) == 1:
                operands = [self._node(tree.this), self._node(tree.expressions[0])]
                sign = "IN"
            case _ if type(tree) in self._sqlglot.names:
                operands = [self._node(tree.this), self._node(tree.expression)]
                sign = self._sqlglot.names[type(tree)]
            case _:
                raise self._text.unsupported(self._pieces[0].at, f"{type(tree).__name__} is not supported")
        found = Operation(sign, tuple(operands), operands[0].at)
        return Operation("NOT", (found,), found.at) if tree.args.get("negate") else found

    def _joined(self, tree: Any) -> Operation:
        """A chain of AND or OR as one operation: sqlglot has a tree as deep as the chain is long."""
        parts, kind = [], type(tree)
        while type(tree) is kind:
            parts.append(tree.expression)
            tree = tree.this
        operands = tuple(self._node(part) for part in [tree, *reversed(parts)])
        return Operation("AND" if kind is self._sqlglot.exp.And else "OR", operands, operands[0].at)


@cache
def _sqlglot() -> Any:
    """What is used of sqlglot, loaded with the first filter that has an operator."""
    from sqlglot import exp
    from sqlglot.dialects.bigquery import BigQuery
    from sqlglot.errors import ErrorLevel, ParseError
    from sqlglot.tokenizer_core import Token, TokenType

    types = {**BigQuery.Tokenizer.KEYWORDS, **BigQuery.Tokenizer.SINGLE_TOKENS}
    comparisons = {"=": exp.EQ, "!=": exp.NEQ, "<": exp.LT, "<=": exp.LTE, ">": exp.GT, ">=": exp.GTE}
    arithmetic = {"+": exp.Add, "-": exp.Sub, "*": exp.Mul, "/": exp.Div}
    words = {
        "IS": exp.Is,
        "LIKE": exp.Like,
        "IS NOT DISTINCT FROM": exp.NullSafeEQ,
        "IS DISTINCT FROM": exp.NullSafeNEQ,
    }
    return SimpleNamespace(
        exp=exp,
        token=Token,
        kinds=TokenType,
        dialect=BigQuery(),
        error=ParseError,
        immediate=ErrorLevel.IMMEDIATE,
        signs={sign: types[sign] for sign in (*_OPERATORS, *comparisons, *arithmetic)},
        names={kind: sign for sign, kind in (comparisons | arithmetic | words).items()},
    )
