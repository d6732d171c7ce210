"""BIGNUMERIC beside NUMERIC: which of both a query has, and how its tree is changed for that.

DuckDB's overloads do not distinguish decimals, and where it merges two of them, as in UNION, it drops digits
of the longer one. So a query with a BIGNUMERIC uses variants of the macros that compute all decimals with 18
digits after the point. They refuse what has more. A query with both types does not know which of them an
operand had, so it also refuses products and quotients that a NUMERIC would round.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from sqlglot import exp

from lode.lazy import pt
from lode.sql.dialect import is_float, position
from lode.sql.errors import QueryError
from lode.sql.macros import BIG, MIXED, PLAIN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lode.lazy import pa

_COMPARISONS: Final = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.In, exp.Nullif)
_MERGING: Final = (exp.If, exp.Case, exp.Coalesce, exp.Greatest, exp.Least, exp.Array)
# So many digits are the same number as a FLOAT64 and as a decimal.
_MAX_DIGITS: Final = 15
_SAFE: Final = ("SAFE_ADD", "SAFE_SUBTRACT", "SAFE_MULTIPLY")
_NAMES: Final = {"PARSE_NUMERIC": False, "PARSE_BIGNUMERIC": True}


def prefix_of(tree: exp.Expression, schemas: Iterable[pa.Schema]) -> str:
    """The prefix of the macros that a query needs.

    Args:
        tree: The query, with the bodies of functions in place of their calls.
        schemas: The columns of its tables.
    """
    found = {kind.this == exp.DType.BIGDECIMAL for kind in tree.find_all(exp.DataType) if _is_decimal(kind)}
    found |= {
        _NAMES[each.name.upper()] for each in tree.find_all(exp.Anonymous) if each.name.upper() in _NAMES
    }
    # Columns that are in the result as they are in the table take part in nothing.
    items = [each for each in tree.expressions if _is_column(each)] if isinstance(tree, exp.Select) else []
    shown = {id(each) for item in items for each in item.walk()}
    used = {each.name.lower() for each in tree.find_all(exp.Identifier) if id(each) not in shown}
    used |= {item.unalias().name.lower() for item in items if item.alias_or_name.lower() in used}
    is_star = any(
        not isinstance(each.parent, exp.Count) for each in tree.find_all(exp.Star) if id(each) not in shown
    )
    for schema in schemas:
        for each in schema:
            if is_star or each.name.lower() in used:
                found |= set(_decimals(each.type))
    if True not in found:
        return PLAIN
    return MIXED if False in found else BIG


def _is_column(item: exp.Expression) -> bool:
    shown = item.unalias()
    # With EXCEPT and REPLACE a star has expressions.
    return isinstance(shown, exp.Column) or (isinstance(shown, exp.Star) and not any(shown.args.values()))


def _is_decimal(kind: exp.DataType) -> bool:
    return kind.this in (exp.DType.DECIMAL, exp.DType.BIGDECIMAL)


def _decimals(kind: Any) -> Iterator[bool]:
    """For each decimal of a type, whether it is a BIGNUMERIC."""
    if pt.is_decimal(kind):
        yield pt.is_decimal256(kind) or kind.scale > 9
    elif pt.is_list(kind) or pt.is_large_list(kind):
        yield from _decimals(kind.value_type)
    elif pt.is_struct(kind):
        for each in kind:
            yield from _decimals(each.type)


def widen(tree: exp.Expression, prefix: str) -> None:
    """Change the tree of a query with a BIGNUMERIC, so that no digits are lost between its macros."""
    if prefix == PLAIN:
        return
    node: Any
    for node in list(tree.find_all(exp.Literal)):
        parent = node.parent.parent if isinstance(node.parent, exp.Neg) else node.parent
        in_having = isinstance(parent, exp.Binary) and _is_in_having(parent)
        if is_float(node) and (in_having or isinstance(parent, (*_COMPARISONS, *_MERGING))):
            # BigQuery takes a literal beside a BIGNUMERIC as one.
            if len(Decimal(node.this).normalize().as_tuple().digits) > _MAX_DIGITS:
                raise QueryError(
                    f"The number {node.this} has more than {_MAX_DIGITS} digits: write "
                    f"BIGNUMERIC '{node.this}', or cast it to FLOAT64{position(node)}"
                )
            node.replace(exp.Literal.number(f"{Decimal(node.this):f}")).meta["decimal"] = True
    for node in tree.find_all(exp.Div):
        if _is_in_having(node):
            raise QueryError(
                "A query with BIGNUMERIC cannot divide in HAVING: divide in a subquery, and use WHERE"
                f"{position(node)}"
            )
    for node in tree.find_all(exp.Anonymous, exp.SafeFunc):
        # They would give NULL for a number that has more digits than a query.
        if node.name.upper() in _SAFE or (_is_safe(node) and node.find(exp.Add, exp.Sub, exp.Mul, exp.Div)):
            raise QueryError(
                f"A query with BIGNUMERIC has no {node.sql('bigquery')[:40]}: use operators{position(node)}"
            )
    if prefix == MIXED:
        for merging in list(tree.find_all(*_MERGING, exp.In, exp.SetOperation, exp.Anonymous)):
            _widen_merged(merging)


def _is_safe(node: Any) -> bool:
    dot = node.parent
    return isinstance(node, exp.SafeFunc) or (isinstance(dot, exp.Dot) and dot.this.name.upper() == "SAFE")


def _is_in_having(node: Any) -> bool:
    return isinstance(node.find_ancestor(exp.Having, exp.Select, exp.AggFunc), exp.Having)


def _widen_merged(node: Any) -> None:
    """Give the decimals that DuckDB would merge into one type the same one."""
    match node:
        case exp.If():
            values = [node.args.get("true"), node.args.get("false")]
        case exp.Case():
            values = [node.args.get("default")]
        case exp.Array():
            values = [each for each in node.expressions if not isinstance(each, exp.Query)]
        case exp.SetOperation():
            values = [*_items(node.this), *_items(node.expression)]
        case exp.In():
            query = node.args.get("query")
            if query is None and node.args.get("unnest") is None:
                return  # a comparison
            values = [node.this]
            values += _items(query) if query is not None else node.args["unnest"].expressions
        case exp.Anonymous():
            values = node.expressions if node.name.upper() == "ARRAY_CONCAT" else []
        case _:
            values = [node.this, *node.expressions]
    for value in values:
        if value is None or isinstance(value, exp.Null | exp.Struct):
            continue
        inner = value.this if isinstance(value, exp.Alias) else value
        name = value.name if isinstance(value, exp.Column) and isinstance(value.parent, exp.Select) else ""
        made: Any = exp.Anonymous(this="merged$", expressions=[inner.copy()])
        inner.replace(exp.alias_(made, name, quoted=True) if name else made)


def _items(query: Any) -> list[Any]:
    """The expressions of a query's result; those of set operations are changed with them."""
    while isinstance(query, exp.Subquery):
        query = query.this
    if not isinstance(query, exp.Select):
        return []
    if any(each.is_star for each in query.expressions):
        raise QueryError(
            "A query with NUMERIC and BIGNUMERIC cannot combine the results of SELECT *: name the columns"
            f"{position(query)}"
        )
    return list(query.expressions)


_CALL: Final = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|\bbq(?=s?_\w+\()""")


def with_prefix(written: str, prefix: str) -> str:
    """Written SQL with the macros of a prefix."""
    return _CALL.sub(lambda match: prefix if match[0] == PLAIN else match[0], written)
