"""How macros are called so that DuckDB can bind them: once, and with types that it knows."""

from __future__ import annotations

import functools
import itertools
import re
from typing import Final

from lode.sql.errors import QueryError
from lode.sql.macros import overloads_of

# Stands before an expression whose type DuckDB does not know when it chooses the overload of a macro:
# aggregates and window functions.
LATE: Final = "\x01"
# Stand around what gives NULL instead of an error.
SAFE: Final = ("\x02", "\x03")
# A list of aggregated values without NULL, which is NULL if there are none.
NULLS: Final = ("nullif(list_filter(", ', lambda "e$": "e$" IS NOT NULL), [])')
# So many times a macro binds what is inside before it gets a lambda.
_MAX_BINDINGS: Final = 1024
# So many times a query binds anything in all. An expression binds itself once.
_MAX_TOTAL: Final = 1_000_000
_MAX_SIMPLE: Final = 200
# Macros with an aggregate, which a lambda cannot have.
_AGGREGATING: Final = re.compile(r"\b(?:SUM|COUNT|AVG|list)\(")
_QUOTES: Final = r"""'(?:[^']|'')*'|"(?:[^"]|"")*\""""
_SIGN: Final = re.compile(rf"{_QUOTES}|(?<![\w$])bqs?_\w+\(|[()\[\]{{}},{LATE}]")
_SAFE_SIGN: Final = re.compile(rf"{_QUOTES}|\bbq_|[{SAFE[0]}{SAFE[1]}]")
_NAME: Final = re.compile(r"bqs?_(\w+)\(")


_SIMPLE: Final = re.compile(r"""\d+|NULL|'[^']*'|"[^"]*"(?:\."[^"]*")*""")


def is_simple(written: str) -> bool:
    """Whether an expression may be written several times: a column or a literal."""
    return _SIMPLE.fullmatch(written) is not None and len(written) < _MAX_SIMPLE


def settled(written: str) -> str:
    """Give macros a lambda that must have one.

    ``bq_round(SUM(x), 2)`` becomes ``list_transform([{a0: SUM(x), a1: 2}], lambda "v$": bq_round(…))[1]``. In
    the lambda the types of aggregates are known. Besides, DuckDB binds the arguments of a macro to choose an
    overload, and then wherever the body has them. Macros inside of each other multiply that. Those of a
    lambda it binds once.
    """
    if SAFE[0] in written:
        written = _without_errors(written)
    scan = _Scan(written)
    made = scan.part(nested=False)
    if scan.bindings > _MAX_TOTAL:
        raise QueryError("The query is nested too deep: write it with fewer levels.")
    return made


def _without_errors(written: str) -> str:
    """Call the variants of macros that give NULL, wherever the signs of ``SAFE`` are around them."""
    depth = 0

    def replaced(match: re.Match[str]) -> str:
        nonlocal depth
        found = match[0]
        if found in SAFE:
            depth += 1 if found == SAFE[0] else -1
            return ""
        return "bqs_" if found == "bq_" and depth else found

    return _SAFE_SIGN.sub(replaced, written)


class _Scan:
    """Reads written SQL from its start to its end."""

    def __init__(self, written: str) -> None:
        self._written = written
        self._at = 0
        # Of the part that was read last: how often DuckDB binds something, and whether a type is late.
        self.bindings = 0
        self.late = False

    def part(self, *, nested: bool) -> str:
        """Convert up to the end, or to a comma or a closing parenthesis of the call around it."""
        made: list[str] = []
        depth, bindings, late = 0, 0, False
        while (match := _SIGN.search(self._written, self._at)) is not None:
            sign = match[0]
            if nested and not depth and sign in (",", ")", "]", "}"):
                made.append(self._written[self._at : match.start()])
                self._at = match.start()
                break
            made.append(self._written[self._at : match.start()])
            self._at = match.end()
            if sign == LATE:
                late = True
                continue
            if sign.startswith("bq"):
                sign = self._call(sign)
                bindings += self.bindings
                late = late or self.late
            depth += (sign in ("(", "[", "{")) - (sign in (")", "]", "}"))
            made.append(sign)
        else:
            made.append(self._written[self._at :])
            self._at = len(self._written)
        self.bindings, self.late = bindings, late
        return "".join(made)

    def _call(self, start: str) -> str:
        """Convert the arguments of a macro, up to its end."""
        arguments: list[str] = []
        weights, has_aggregate = _weights(_name(start))
        inside = bound = 0
        late = False
        while self._at < len(self._written):
            argument = self.part(nested=True).strip()
            inside += self.bindings
            bound += self.bindings * weights[min(len(arguments), len(weights) - 1)]
            late = late or self.late
            sign = self._written[self._at : self._at + 1]
            self._at += 1
            if argument or sign == ",":
                arguments.append(argument)
            if sign != ",":
                break
        many = bound > _MAX_BINDINGS and not has_aggregate
        self.bindings = 1 + (inside if late or many else bound)
        self.late = late
        if not late and not many:
            return f"{start}{', '.join(arguments)})"
        packed = ", ".join(f"a{number} := {each}" for number, each in enumerate(arguments))
        # No column has this name. A column of the parameter's name would be taken instead of it.
        used = ", ".join(f'"v$".a{number}' for number in range(len(arguments)))
        return f'list_transform([struct_pack({packed})], lambda "v$": {start}{used}))[1]'


def _name(call: str) -> str:
    found = _NAME.match(call)
    return found[1] if found is not None else ""


@functools.cache
def _weights(name: str) -> tuple[tuple[int, ...], bool]:
    """How often DuckDB binds each argument of a macro, and whether the macro has an aggregate."""
    weights = [1]
    overloads = overloads_of(name)
    for each in overloads:
        head, _, body = each.partition(") AS ")
        parameters = [part.split() for part in head.lstrip("(").split(", ")]
        # Types are compared only if there are any, or several overloads.
        chooses = len(overloads) > 1 or any(len(part) > 1 for part in parameters)
        counts = _counts(body, frozenset(part[0] for part in parameters if part))
        own = [chooses + counts[part[0]] for part in parameters if part]
        weights = [max(pair) for pair in itertools.zip_longest(weights, own, fillvalue=1)]
    return tuple(weights), any(_AGGREGATING.search(each) for each in overloads)


_WORD: Final = re.compile(rf"{_QUOTES}|bq_\w+\(|\w+|[()]")


def _counts(body: str, parameters: frozenset[str]) -> dict[str, int]:
    """How often the body of a macro binds each parameter, with the macros that it calls itself."""
    found = dict.fromkeys(parameters, 0)
    around: list[int] = []
    factor = 1
    for match in _WORD.finditer(body):
        word = match[0]
        if word.startswith("bq_"):
            own = max(_weights(word[3:-1])[0])
            around.append(own)
            factor *= own
        elif word == "(":
            around.append(1)
        elif word == ")":
            factor //= around.pop() if around else 1
        elif word in found:
            found[word] += factor
    return found
