"""Names of the members of structs that become values of one type.

BigQuery matches the members of such structs by their place and takes the names of the first one:
``[STRUCT(1 AS a), STRUCT(2)]``. DuckDB matches them by name, so that members with other names would be null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def name_members(tree: exp.Expression) -> None:
    """Give structs of a tree the names of the first struct whose type they have. Those of columns stay."""
    for node in list(tree.find_all(exp.SetOperation, exp.Array, exp.Case, exp.If, exp.Coalesce)):
        if not isinstance(node, exp.SetOperation):
            _unify([node])
        elif not isinstance(node.parent, exp.SetOperation):
            for column in zip(*_selects(node), strict=False):
                _unify(column)


def member_name(member: exp.Expression, number: int) -> str:
    """The name of a member of a struct, by its place from 0 on if it has none."""
    if isinstance(member, exp.PropertyEQ):
        return str(member.this.name)
    if isinstance(member, exp.Alias):
        return str(member.alias)
    return str(member.name) if isinstance(member, exp.Column | exp.Dot) else f"_field_{number + 1}"


def member_value(member: Any) -> Any:
    """The value of a member of a struct."""
    if isinstance(member, exp.PropertyEQ):
        return member.expression
    return member.this if isinstance(member, exp.Alias) else member


def _selects(query: Any) -> Iterator[list[exp.Expression]]:
    """The columns of every query of a set operation, in their order."""
    if isinstance(query, exp.SetOperation):
        yield from _selects(query.this)
        yield from _selects(query.expression)
    elif isinstance(query, exp.Subquery):
        yield from _selects(query.this)
    elif isinstance(query, exp.Select) and not query.args.get("kind"):
        yield query.expressions


def _unify(nodes: Iterable[exp.Expression]) -> None:
    """Name the members of all structs that these nodes may be, and of those in their members and elements."""
    values = [value for node in nodes for value in _values(node)]
    structs = [value for value in values if isinstance(value, exp.Struct)]
    if structs:
        first = structs[0].expressions
        names = [member_name(member, number) for number, member in enumerate(first)]
        same = [
            each
            for each in values
            if isinstance(each, exp.Struct | exp.Tuple) and len(each.expressions) == len(names)
        ]
        for place in range(len(names)):
            _unify([member_value(each.expressions[place]) for each in same])
        for each in same[1:]:
            members = [
                exp.PropertyEQ(this=exp.to_identifier(name, quoted=True), expression=member_value(member))
                for name, member in zip(names, each.expressions, strict=True)
            ]
            each.replace(exp.Struct(expressions=members))
    elements = [
        item
        for value in values
        if isinstance(value, exp.Array)
        for item in value.expressions
        if not isinstance(item, exp.Query)
    ]
    if elements:
        _unify(elements)


def _values(node: Any) -> Iterator[exp.Expression]:
    """The expressions that a node may be."""
    match node:
        case None:
            return
        case exp.Alias() | exp.Paren():
            yield from _values(node.this)
        case exp.If():
            yield from _values(node.args.get("true"))
            yield from _values(node.args.get("false"))
        case exp.Case():
            for each in node.args.get("ifs") or ():
                yield from _values(each.args.get("true"))
            yield from _values(node.args.get("default"))
        case exp.Coalesce():
            for each in (node.this, *node.expressions):
                yield from _values(each)
        case _:
            yield node
