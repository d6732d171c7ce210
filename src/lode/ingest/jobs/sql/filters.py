"""Conditions of a query as filters of the library, which leave out files by partition and statistics."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from sqlglot import exp

from lode.ingest.catalog.partition_times import by_arrival, is_partition_time
from lode.ingest.catalog.partitioning import PARTITION_ID

if TYPE_CHECKING:
    from lode.ingest.catalog.partitioning import Partitioning
    from lode.ingest.types.columns import TableSchema

# Conditions that mean the same in a query and in a filter of the library.
_PLAIN: Final = (
    exp.And,
    exp.Between,
    exp.Boolean,
    exp.Column,
    exp.EQ,
    exp.GT,
    exp.GTE,
    exp.Identifier,
    exp.In,
    exp.Is,
    exp.LT,
    exp.LTE,
    exp.Literal,
    exp.NEQ,
    exp.Neg,
    exp.Not,
    exp.Null,
    exp.Or,
    exp.Paren,
)
# Literals such as DATE '2026-01-31', which are casts in the tree.
_TYPED: Final = ("DATE", "TIMESTAMP", "TIMESTAMPTZ", "DATETIME")
_NO_FILTER: Final = ("JSON", "GEOGRAPHY", "RANGE", "INTERVAL")
_COMPARED: Final = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between, exp.In)
_DAY: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?: 00:00:00)?")


def is_plain(condition: exp.Expression) -> bool:
    """Whether filters of the library have all operators and literals of a condition."""
    return all(isinstance(node, _PLAIN) or _is_plain(node) for node in condition.dfs())


def _is_plain(node: exp.Expr) -> bool:
    if isinstance(node, exp.Cast | exp.Like):
        return isinstance(node.args.get("expression", node.this), exp.Literal)
    return isinstance(node, exp.DataType | exp.ByteString)


def filter_of(
    condition: exp.Expression, table: str, schema: TableSchema, partitioning: Partitioning | None = None
) -> str | None:
    """A condition as text of the library's filters; None if it may mean something else there.

    Args:
        condition: The condition.
        table: The name of the table in it.
        schema: The columns of the table.
        partitioning: Its partitioning, if times of partitions are compared as ids of partitions.
    """
    shown = table.lower()
    own = exp.Paren(this=condition.copy())
    for column in list(own.find_all(exp.Column)):
        parts = [part.name for part in column.parts]
        if len(parts) == 2 and parts[0].lower() == shown:
            parts = parts[1:]
        place = schema.positions.get(parts[0].lower()) if len(parts) == 1 else None
        if place is None and len(parts) == 1 and _is_partition_day(parts[0], partitioning):
            if not _by_partition(column):
                return None
        elif place is None or schema.columns[place].type in _NO_FILTER:
            return None
        else:
            column.replace(exp.column(exp.to_identifier(schema.columns[place].name, quoted=True)))
    for node in own.dfs():
        if isinstance(node, exp.Cast):
            if not isinstance(node.this, exp.Literal) or node.to.this.name not in _TYPED:
                return None
        elif (
            not isinstance(node, (*_PLAIN, exp.DataType)) or node.args.get("query") or node.args.get("unnest")
        ):
            return None
    return str(own.this.sql("bigquery"))


def _is_partition_day(name: str, partitioning: Partitioning | None) -> bool:
    by = by_arrival(partitioning)
    return by is not None and by.unit == "DAY" and is_partition_time(name.upper())


def _by_partition(column: exp.Column) -> bool:
    """Compare the ids of partitions instead of their times; False if a value is not the start of a day."""
    parent: Any = column.parent
    values = [each for each in parent.iter_expressions() if each is not column]
    days = [_DAY.fullmatch((each.this if isinstance(each, exp.Cast) else each).name) for each in values]
    if not isinstance(parent, _COMPARED) or parent.this is not column or not all(days):
        return False
    for each, day in zip(values, days, strict=True):
        assert day is not None
        each.replace(exp.Literal.string("".join(day.groups())))
    column.replace(exp.column(exp.to_identifier(PARTITION_ID, quoted=True)))
    return True
