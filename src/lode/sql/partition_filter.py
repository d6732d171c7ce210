"""Tables that require a partition filter: a query must compare the column of their partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlglot import exp

from lode.sql.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_UNFILTERED: Final = "unfiltered"


def allow_unfiltered(tree: exp.Expression) -> exp.Expression:
    """Let a query read all partitions: that of a view, whose reader filters them, or of a copy."""
    for table in tree.find_all(exp.Table):
        table.meta[_UNFILTERED] = True
    return tree


def check_partition_filter(tables: Sequence[exp.Table], columns: Sequence[str], shown: str) -> None:
    """Refuse a query without a condition on any of some columns.

    Args:
        tables: The table in the query, and the views around it in theirs.
        columns: The columns of its partitions, of which one is enough; none if no filter is required.
        shown: The name of the table, for the message.
    """
    names = {name.lower() for name in columns}
    if not names or any(table.meta.get(_UNFILTERED) for table in tables):
        return
    if any(_filters(found, names, own) for table in tables for found, own in _conditions(table)):
        return
    listed = ", ".join(f"'{name}'" for name in columns)
    raise QueryError(
        f"Cannot query over table '{shown}' without a filter over column(s) {listed} that can be used for "
        "partition elimination"
    )


def _conditions(table: exp.Table) -> Iterator[tuple[exp.Expression, str]]:
    """The conditions around a table. Those beside it come with its name, by which they may name columns."""
    own = table.alias_or_name.lower()
    node = table.parent
    while node is not None:
        if isinstance(node, exp.Select | exp.Update | exp.Delete | exp.Merge):
            found = [node.args.get("where"), node.args.get("on"), *(node.args.get("joins") or ())]
            for each in found:
                condition = each.args.get("on") if isinstance(each, exp.Join) else each
                if isinstance(condition, exp.Where):
                    condition = condition.this
                if condition is not None:
                    yield condition, own
            own = ""
        node = node.parent


def _filters(condition: exp.Expr, names: set[str], own: str) -> bool:
    if isinstance(condition, exp.And):
        return any(_filters(each, names, own) for each in condition.flatten())
    if isinstance(condition, exp.Or):
        return all(_filters(each, names, own) for each in condition.flatten())
    if isinstance(condition, exp.Paren):
        return _filters(condition.this, names, own)
    return any(
        column.name.lower() in names and (not own or column.table.lower() in ("", own))
        for column in condition.find_all(exp.Column)
    )
