"""The conditions of a row restriction that filters do not have, computed by the SQL engine."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from lode.filter import Filter
from lode.format.ids import shortened
from lode.ingest.status import Refused, invalid
from lode.lazy import pc
from lode.sql.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.ingest.types.columns import TableSchema
    from lode.lazy import pa


class Conditions(Protocol):
    """Computes conditions. A server does it in processes with limits."""

    def split(self, text: str, schema: TableSchema, now_micros: int | None) -> dict[str, Any]:
        """The part of a condition that is a filter, and what the rest needs."""

    def passes(
        self, text: str, schema: TableSchema, now_micros: int | None, batch: pa.RecordBatch
    ) -> pa.Array[Any]:
        """Whether the rest is true for each row."""


class NeedsSqlError(Exception):
    """A restriction has conditions that filters do not have."""


class NoConditions:
    """Finds out whether a restriction needs SQL. Implements ``Conditions``."""

    def split(self, text: str, schema: TableSchema, now_micros: int | None) -> NoReturn:
        raise NeedsSqlError

    def passes(
        self, text: str, schema: TableSchema, now_micros: int | None, batch: pa.RecordBatch
    ) -> NoReturn:
        raise NeedsSqlError


class Computed:
    """Conditions that the SQL engine computes for one batch after the other."""

    def __init__(
        self,
        conditions: Conditions,
        text: str,
        schema: TableSchema,
        columns: tuple[str, ...],
        now_micros: int | None,
    ) -> None:
        self._conditions = conditions
        self._text = text
        self._schema = schema
        self.columns = columns
        self.now_micros = now_micros

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that pass, or refuse what cannot be computed."""
        if not batch.num_rows:
            return batch
        # A query needs a column.
        used = batch.select(list(self.columns) or batch.schema.names[:1])
        try:
            return batch.filter(self._conditions.passes(self._text, self._schema, self.now_micros, used))
        except QueryError as error:
            raise invalid(f"row_restriction: {_without_place(error)}.") from None


def computed_restriction(
    text: str,
    schema: TableSchema,
    now_micros: int | None,
    as_filter: Callable[[str], Filter],
    refusal: Refused,
    conditions: Conditions,
) -> tuple[Filter, Computed]:
    """The filter of a restriction, and what is computed for the rows that it leaves.

    Args:
        text: The restriction.
        schema: The table's columns.
        now_micros: The value of CURRENT_TIMESTAMP(), in microseconds since 1970. Default: now.
        as_filter: Parses conditions that are a filter.
        refusal: Why the whole restriction is no filter.
        conditions: Computes the rest.
    """
    try:
        found = conditions.split(text, schema, now_micros)
    except QueryError as error:
        if str(error).startswith("Syntax error"):
            raise refusal from None  # which has the position
        raise invalid(f"row_restriction {shortened(text, 117)}: {_without_place(error)}.") from None
    pushed = as_filter(found["filter"]) if found["filter"] else Filter(pc.scalar(True))
    return pushed, Computed(conditions, text, schema, tuple(found["columns"]), found["now_micros"])


def _without_place(error: QueryError) -> str:
    """The sentence of an error without the line and column, which are not those of the condition."""
    return re.sub(r" at \[\d+:\d+\]", "", str(error)).rstrip(".")
