"""A condition on rows in GoogleSQL: the part that is a filter of the library, and the rest for DuckDB."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from lode.errors import InvalidOptionError
from lode.filter import parse_filter
from lode.ingest.jobs.sql.filters import filter_of, is_plain
from lode.sql.condition import Condition, parse_condition
from lode.sql.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lode.ingest.types.columns import TableSchema
    from lode.lazy import pa


class RowCondition:
    """A condition. It has a database of its own until it is closed.

    Args:
        text: The condition.
        schema: The table's columns.
        now_micros: The value of CURRENT_TIMESTAMP(), in microseconds since 1970. Default: now.

    Attributes:
        filter: The text of the filter; empty if no part is one.
        columns: The columns that the rest uses.
        now_micros: The value of CURRENT_TIMESTAMP() in the rest; None if it does not use it.

    Raises:
        QueryError: It cannot be computed. It is a syntax error if all of it should be a filter.
    """

    def __init__(self, text: str, schema: TableSchema, now_micros: int | None) -> None:
        tree = parse_condition(text)
        if is_plain(tree):
            raise QueryError("Syntax error: the filter says what is wrong with the condition")
        as_filter = partial(
            parse_filter,
            schema=schema.arrow,
            name="row_restriction",
            double_quotes=False,
            now_micros=now_micros,
        )
        plain: list[str] = []
        rest: list[exp.Expression] = []
        for part in _conditions(tree):
            found = filter_of(part, "", schema)
            try:
                if found is not None:
                    as_filter(found)
                    plain.append(f"({found})")
                    continue
            except InvalidOptionError:
                pass  # the query says what is wrong with it
            rest.append(part)
        self.filter = " AND ".join(plain)
        joined: Any = exp.and_(*rest)
        self._condition = Condition(joined, schema.arrow, now_micros)
        self.columns = self._condition.columns
        self.now_micros = self._condition.now_micros
        self.close = self._condition.close

    def passes(self, batch: pa.RecordBatch) -> pa.Array[Any]:
        """Whether the rest is true for each row."""
        return self._condition.passes(batch)


class ConditionsHere:
    """Computes conditions in this process, for rows that no server sends to others."""

    def split(self, text: str, schema: TableSchema, now_micros: int | None) -> dict[str, Any]:
        found = RowCondition(text, schema, now_micros)
        found.close()
        return {"filter": found.filter, "columns": found.columns, "now_micros": found.now_micros}

    def passes(
        self, text: str, schema: TableSchema, now_micros: int | None, batch: pa.RecordBatch
    ) -> pa.Array[Any]:
        found = RowCondition(text, schema, now_micros)
        try:
            return found.passes(batch)
        finally:
            found.close()


def _conditions(tree: exp.Expression) -> Iterator[exp.Expression]:
    """The conditions that are joined by AND."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        inner = node.unnest()
        if isinstance(inner, exp.And):
            waiting += [inner.expression, inner.this]
        else:
            yield node
