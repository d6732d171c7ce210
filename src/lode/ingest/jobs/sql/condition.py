"""A condition on rows in GoogleSQL: the part that is a filter of the library, and the rest for DuckDB."""

from __future__ import annotations

import threading
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Any, Final

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

_MAX_CONDITIONS: Final = 8


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


class RowConditions:
    """Computes conditions in this process, and keeps the last ones of them. Thread-safe."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, bytes, int | None], RowCondition] = OrderedDict()
        self._lock = threading.Lock()

    def split(self, text: str, schema: TableSchema, now_micros: int | None) -> dict[str, Any]:
        """The part of a condition that is a filter of the library, and what the rest needs."""
        with self._lock:
            found = self._get(text, schema, now_micros)
            return {"filter": found.filter, "columns": found.columns, "now_micros": found.now_micros}

    def passes(
        self, text: str, schema: TableSchema, now_micros: int | None, batch: pa.RecordBatch
    ) -> pa.Array[Any]:
        """Whether the rest is true for each row of a batch."""
        with self._lock:
            return self._get(text, schema, now_micros).passes(batch)

    def _get(self, text: str, schema: TableSchema, now_micros: int | None) -> RowCondition:
        key = (text, schema.arrow.serialize().to_pybytes(), now_micros)
        found = self._known.pop(key, None) or RowCondition(text, schema, now_micros)
        self._known[key] = found
        while len(self._known) > _MAX_CONDITIONS:
            self._known.popitem(last=False)[1].close()
        return found


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
