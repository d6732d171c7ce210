"""The parser of filters: tokens become a tree.

Brackets are resolved from the inside out: when one closes, its content becomes one operand. So operators are
parsed in flat rows, no text causes deep recursion, and every token is parsed once: the time is linear in the
length of the text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from lode.errors import InvalidOptionError
from lode.filter.tokens import Token, read_tokens
from lode.filter.tree import FunctionCall, Items, Name, Operation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lode.filter.tree import FilterText, Node

MAX_CHARACTERS: Final = 1 << 20
MAX_CONDITIONS: Final = 1_000
MAX_VALUES: Final = 10_000
MAX_DEPTH: Final = 100
MAX_BRACKETS: Final = 50
COMPARISONS: Final = ("=", "!=", "<", "<=", ">", ">=")


class _Group(NamedTuple):
    """The tokens of an open bracket so far, and the function, IN or UNNEST before it."""

    opened: Token
    head: Token
    tokens: list[Token]


def parse(text: FilterText) -> Node:
    """Parse a filter, or raise ``InvalidOptionError``."""
    if len(text.text) > MAX_CHARACTERS:
        raise InvalidOptionError(
            f"{text.name} has {len(text.text):,} characters, the most is {MAX_CHARACTERS:,}"
        )
    return _Brackets(text).parse(read_tokens(text))


class _Brackets:
    """Turns every bracket into one operand, from the inside out."""

    def __init__(self, text: FilterText) -> None:
        self._text = text

    def parse(self, tokens: list[Token]) -> Node:
        end = len(self._text.text)
        conditions = sum({"AND": 1, "OR": 1, "BETWEEN": -1}.get(token.sign, 0) for token in tokens) + 1
        if conditions > MAX_CONDITIONS:
            raise self._text.unsupported(end, f"there are more than {MAX_CONDITIONS:,} conditions")
        nothing = Token("", 0)
        groups = [_Group(nothing, nothing, [])]
        for token in tokens:
            held = groups[-1].tokens
            if token.sign in ("(", "["):
                takes = token.sign == "(" and held and held[-1].sign in ("CALL", "IN", "UNNEST")
                groups.append(_Group(token, held.pop() if takes else nothing, []))
                if len(groups) > MAX_BRACKETS + 1:
                    complaint = f"there are more than {MAX_BRACKETS} brackets inside each other"
                    raise self._text.unsupported(token.at, complaint)
            elif token.sign in (")", "]"):
                group = groups.pop()
                if group.opened.sign + token.sign not in ("()", "[]"):
                    raise self._text.unsupported(token.at, f"{token.sign} is not expected here")
                groups[-1].tokens.extend(self._closed(group, token.at))
            else:
                held.append(token)
        if len(groups) > 1:
            opened = groups[-1].opened
            raise self._text.unsupported(end, f"{opened.sign} at {opened.at} is not closed")
        node: Node = self._expression(groups[0].tokens, end).node
        return node

    def _closed(self, group: _Group, end: int) -> list[Token]:
        """The content of a bracket as one operand, after IN if that was before it."""
        head, at = group.head, group.opened.at
        if not head.sign and group.opened.sign == "(":
            return [self._expression(group.tokens, end)]
        values = list(self._values(group, end))
        if len(values) > MAX_VALUES:
            raise self._text.unsupported(at, f"there are more than {MAX_VALUES:,} values in one list")
        nodes = tuple(value.node for value in values)
        node: Node = Items(nodes, at)
        if head.sign == "CALL":
            node = FunctionCall(head.node, nodes, head.at)
        elif head.sign == "UNNEST":
            if len(nodes) != 1 or not isinstance(nodes[0], Items):
                raise self._text.unsupported(at, "UNNEST must be of an array of values")
            node = nodes[0]
        operand = Token("", at, node, 1 + max((value.depth for value in values), default=0))
        return [head, operand] if head.sign == "IN" else [operand]

    def _values(self, group: _Group, end: int) -> Iterator[Token]:
        """The parts between the commas, or between AS and FROM in the functions that have these."""
        between = {"CAST": "AS", "SAFE_CAST": "AS", "EXTRACT": "FROM"}.get(str(group.head.node), ",")
        part: list[Token] = []
        for token in group.tokens:
            if token.sign == between and not (part and part[-1].sign == "DISTINCT"):
                yield self._value(part, token.at)
                part = []
            else:
                part.append(token)
        if group.tokens:
            yield self._value(part, end)

    def _value(self, tokens: list[Token], end: int) -> Token:
        """One of several values, which may be an INTERVAL."""
        if len(tokens) > 2 and _is_word(tokens[0], "INTERVAL") and isinstance(tokens[-1].node, Name):
            count = self._expression(tokens[1:-1], tokens[-1].at)
            call = FunctionCall("INTERVAL", (count.node, tokens[-1].node), tokens[0].at)
            return Token("", tokens[0].at, call, count.depth + 1)
        return self._expression(tokens, end)

    def _expression(self, tokens: list[Token], end: int) -> Token:
        if not tokens:
            raise self._text.unsupported(end, "a value is missing")
        if len(tokens) == 1 and not tokens[0].sign:
            return tokens[0]
        depth = self._depth(tokens)
        return Token("", tokens[0].at, _Operators(self._text, tokens, end).parse(), depth)

    def _depth(self, tokens: list[Token]) -> int:
        """The depth of the tree, checked before the tree is built."""
        deepest = longest = chain = betweens = 0
        for token in tokens:
            betweens += token.sign == "BETWEEN"
            if token.sign == "AND" and betweens:
                betweens -= 1
            elif token.sign in ("AND", "OR"):
                chain = 0
            chain += bool(token.sign)
            deepest, longest = max(deepest, token.depth), max(longest, chain)
            if deepest + longest + 1 > MAX_DEPTH:
                raise self._text.unsupported(token.at, "there are too many operators inside each other")
        return deepest + longest + 1


def _is_word(token: Token, word: str) -> bool:
    node = token.node
    return isinstance(node, Name) and len(node.path) == 1 and node.path[0].upper() == word


class _Operators:
    """Parses a flat row of operands and operators by precedence: OR, AND, NOT, conditions, +, *, signs."""

    def __init__(self, text: FilterText, tokens: list[Token], end: int) -> None:
        self._text = text
        self._tokens = tokens
        self._end = end
        self._at = 0

    def parse(self) -> Node:
        node = self._any()
        if self._at < len(self._tokens):
            raise self._unexpected()
        return node

    def _any(self) -> Node:
        return self._joined("OR", self._all)

    def _all(self) -> Node:
        return self._joined("AND", self._negated)

    def _joined(self, sign: str, part: Callable[[], Node]) -> Node:
        parts = [part()]
        while self._take(sign):
            parts.append(part())
        return parts[0] if len(parts) == 1 else Operation(sign, tuple(parts), parts[0].at)

    def _negated(self) -> Node:
        if not self._take("NOT"):
            return self._condition()
        node = self._negated()
        return Operation("NOT", (node,), node.at)

    def _condition(self) -> Node:
        node = self._sum()
        while True:
            sign = self._sign
            if sign in COMPARISONS:
                self._at += 1
                node = Operation(sign, (node, self._sum()), node.at)
            elif sign == "IS":
                self._at += 1
                node = self._is(node)
            elif sign in ("NOT", "IN", "LIKE", "BETWEEN"):
                negated = self._take("NOT")
                node = self._ranged(node)
                if negated:
                    node = Operation("NOT", (node,), node.at)
            else:
                return node

    def _is(self, node: Node) -> Node:
        negated = self._take("NOT")
        if self._take("DISTINCT"):
            self._expect("FROM")
            return Operation(f"IS{' NOT' * negated} DISTINCT FROM", (node, self._sum()), node.at)
        found = Operation("IS", (node, self._sum()), node.at)
        return Operation("NOT", (found,), node.at) if negated else found

    def _ranged(self, node: Node) -> Node:
        """BETWEEN, LIKE and IN, which may have NOT before them."""
        if self._take("BETWEEN"):
            low = self._sum()
            self._expect("AND")
            return Operation("BETWEEN", (node, low, self._sum()), node.at)
        if self._take("LIKE"):
            return Operation("LIKE", (node, self._sum()), node.at)
        self._expect("IN")
        if self._at == len(self._tokens) or not isinstance(self._tokens[self._at].node, Items):
            raise self._unexpected(is_missing=True)
        self._at += 1
        return Operation("IN", (node, self._tokens[self._at - 1].node), node.at)

    def _sum(self) -> Node:
        return self._computed(("+", "-"), self._product)

    def _product(self) -> Node:
        return self._computed(("*", "/", "||"), self._signed)

    def _computed(self, signs: tuple[str, ...], part: Callable[[], Node]) -> Node:
        node = part()
        while (sign := self._sign) in signs:
            self._at += 1
            both = (node, part())
            node = FunctionCall("CONCAT", both, node.at) if sign == "||" else Operation(sign, both, node.at)
        return node

    def _signed(self) -> Node:
        if self._take("-"):
            node = self._signed()
            return Operation("NEG", (node,), node.at)
        return self._signed() if self._take("+") else self._operand()

    def _operand(self) -> Node:
        if self._sign or self._at == len(self._tokens):
            raise self._unexpected(is_missing=True)
        node: Node = self._tokens[self._at].node
        if isinstance(node, Items):
            raise self._unexpected()
        self._at += 1
        return node

    @property
    def _sign(self) -> str:
        """The next sign; empty before an operand and at the end."""
        return self._tokens[self._at].sign if self._at < len(self._tokens) else ""

    def _take(self, sign: str) -> bool:
        taken = self._sign == sign
        self._at += taken
        return taken

    def _expect(self, sign: str) -> None:
        if not self._take(sign):
            raise self._unexpected(is_missing=self._at == len(self._tokens))

    def _unexpected(self, *, is_missing: bool = False) -> InvalidOptionError:
        at = self._tokens[self._at].at if self._at < len(self._tokens) else self._end
        rest = self._text.text[at : min(self._end, at + 40)].split()
        if not rest:
            return self._text.unsupported(self._end, "a value is missing at the end")
        what = f"a value is missing near {rest[0]!r}" if is_missing else f"{rest[0]!r} is not expected here"
        return self._text.unsupported(at, what)
