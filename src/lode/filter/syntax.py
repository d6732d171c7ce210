"""From the text of a filter to a tree: literals, names and brackets are read here, operators by sqlglot.

Brackets are resolved from the inside out: when one closes, its content becomes one operand. So sqlglot only
sees flat rows of operators between numbered operands. No text can make it recurse, every token is parsed
once, and no name or literal can be mistaken for syntax: the time is linear in the length of the text.
"""

from __future__ import annotations

import re
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lode.errors import InvalidOptionError
from lode.filter.tokens import OPERATORS, Piece, read_pieces
from lode.filter.tree import Call, Items, Operation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lode.filter.tree import Node, Text

MAX_CHARACTERS: Final = 1 << 20
MAX_CONDITIONS: Final = 1_000
MAX_VALUES: Final = 10_000
MAX_DEPTH: Final = 100
MAX_BRACKETS: Final = 50
MAX_PREFIXES: Final = 20


class _Group(NamedTuple):
    """What an open bracket holds so far, and the function, IN or UNNEST before it."""

    opened: Piece
    head: Piece
    pieces: list[Piece]


def parse(text: Text) -> Node:
    """Parse a filter, or raise ``InvalidOptionError``."""
    if len(text.text) > MAX_CHARACTERS:
        raise InvalidOptionError(
            f"{text.name} has {len(text.text):,} characters, the most is {MAX_CHARACTERS:,}"
        )
    return _Brackets(text).parse(read_pieces(text))


class _Brackets:
    """Makes one operand of every bracket, from the inside out."""

    def __init__(self, text: Text) -> None:
        self._text = text

    def parse(self, pieces: list[Piece]) -> Node:
        end = len(self._text.text)
        conditions = sum({"AND": 1, "OR": 1, "BETWEEN": -1}.get(piece.sign, 0) for piece in pieces) + 1
        if conditions > MAX_CONDITIONS:
            raise self._text.unsupported(end, f"there are more than {MAX_CONDITIONS:,} conditions")
        nothing = Piece("", 0)
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

    def _closed(self, group: _Group, end: int) -> list[Piece]:
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
        operand = Piece("", at, node, 1 + max((value.depth for value in values), default=0))
        return [head, operand] if head.sign == "IN" else [operand]

    def _values(self, group: _Group, end: int) -> Iterator[Piece]:
        """The parts between the commas, or between AS and FROM in the functions that have these."""
        between = {"CAST": "AS", "SAFE_CAST": "AS", "EXTRACT": "FROM"}.get(str(group.head.node), ",")
        part: list[Piece] = []
        for piece in group.pieces:
            if piece.sign == between and not (part and part[-1].sign == "DISTINCT"):
                yield self._expression(part, piece.at)
                part = []
            else:
                part.append(piece)
        if group.pieces:
            yield self._expression(part, end)

    def _expression(self, pieces: list[Piece], end: int) -> Piece:
        if not pieces:
            raise self._text.unsupported(end, "a value is missing")
        if len(pieces) == 1 and not pieces[0].sign:
            return pieces[0]
        depth = self._depth(pieces)
        return Piece("", pieces[0].at, _Operators(self._text, pieces, end).parse(), depth)

    def _depth(self, pieces: list[Piece]) -> int:
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

    def __init__(self, text: Text, pieces: list[Piece], end: int) -> None:
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
    from sqlglot import exp, tokens
    from sqlglot.dialects.bigquery import BigQuery
    from sqlglot.errors import ErrorLevel, ParseError

    lexical: Any = tokens  # which does not declare what it exports
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
        token=lexical.Token,
        kinds=lexical.TokenType,
        dialect=BigQuery(),
        error=ParseError,
        immediate=ErrorLevel.IMMEDIATE,
        signs={sign: types[sign] for sign in (*OPERATORS, *comparisons, *arithmetic)},
        names={kind: sign for sign, kind in (comparisons | arithmetic | words).items()},
    )
