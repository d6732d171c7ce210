"""The row restriction of a read session.

A filter of the library leaves out files and rows. The parts that it does not have, such as CASE, are computed
by the SQL engine for the rows that are left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from lode.errors import InvalidOptionError
from lode.filter import Filter, parse_filter
from lode.format.ids import shortened
from lode.ingest.catalog.partition_times import PARTITION_DATE, PARTITION_TIME
from lode.ingest.jobs.sql.filters import filter_of, is_plain
from lode.ingest.jobs.sql.turns import short_turns
from lode.ingest.status import invalid
from lode.lazy import pa, pc
from lode.sql.condition import Condition, parse_condition, without_place
from lode.sql.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from lode.ingest.catalog.table import TableDefinition
    from lode.ingest.types.columns import TableSchema


@dataclass(frozen=True, slots=True)
class Restriction:
    """A filter on rows.

    Attributes:
        filter: The part that also leaves out files, by their partitions and statistics.
        computed: The rest.
    """

    filter: Filter
    computed: Condition | None = None

    @property
    def where(self) -> Any:
        return self.filter.where

    @property
    def fits_row_groups(self) -> bool:
        return self.filter.fits_row_groups

    @property
    def columns(self) -> tuple[str, ...]:
        """The paths of the columns that it uses."""
        more = self.computed.columns if self.computed else ()
        return tuple(dict.fromkeys((*self.filter.columns, *more)))

    @property
    def now_micros(self) -> int | None:
        """The value of CURRENT_TIMESTAMP(), in microseconds since 1970; None if it is not used."""
        return self.filter.now_micros if self.computed is None else self.computed.now_micros

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that pass, or refuse what cannot be computed."""
        try:
            passed = self.filter.apply(batch)
            if self.computed is None:
                return passed
            with short_turns():
                return self.computed.apply(passed)
        except (InvalidOptionError, QueryError) as error:
            why = without_place(error) if isinstance(error, QueryError) else str(error)
            raise invalid(f"row_restriction: {why}.") from None


def parse_restriction(text: str, schema: TableSchema, now_micros: int | None = None) -> Restriction | None:
    """Parse a restriction on a table's columns, or refuse it; None if it is empty.

    Args:
        text: The restriction.
        schema: The table's columns.
        now_micros: The value of CURRENT_TIMESTAMP(), in microseconds since 1970. Default: now.
    """
    if not text.strip():
        return None
    try:
        return Restriction(_filter(text, schema, now_micros))
    except InvalidOptionError as error:
        refusal = invalid(f"{error}.")
    try:
        tree = parse_condition(text)
        if is_plain(tree):
            raise refusal
        return _computed(tree, schema, now_micros)
    except QueryError as error:
        if error.reason == "invalidQuery" and str(error).startswith("Syntax error"):
            raise refusal from None  # which has the position
        raise invalid(f"row_restriction {shortened(text, 117)}: {without_place(error)}.") from None


def _filter(text: str, schema: TableSchema, now_micros: int | None) -> Filter:
    return parse_filter(
        text, schema.arrow, name="row_restriction", double_quotes=False, now_micros=now_micros
    )


def _computed(tree: exp.Expression, schema: TableSchema, now_micros: int | None) -> Restriction:
    """A restriction of which only the plain conditions are a filter."""
    plain: list[str] = []
    rest: list[exp.Expression] = []
    for part in _conditions(tree):
        found = filter_of(part, "", schema)
        try:
            if found is not None:
                _filter(found, schema, now_micros)
                plain.append(f"({found})")
                continue
        except InvalidOptionError:
            pass  # the query says what is wrong with it
        rest.append(part)
    pushed = _filter(" AND ".join(plain), schema, now_micros) if plain else Filter(pc.scalar(True))
    joined: Any = exp.and_(*rest)
    return Restriction(pushed, Condition(joined, schema.arrow, now_micros))


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


def check_partition_filter(table: TableDefinition, columns: Collection[str]) -> None:
    """Refuse a read without a partition filter from a table that requires one.

    Args:
        table: The table.
        columns: The columns of the restriction.
    """
    partitioning = table.partitioning
    if partitioning is None or not table.info.get("requirePartitionFilter"):
        return
    names = (partitioning.column,) if partitioning.column else (PARTITION_DATE, PARTITION_TIME)
    if not any(name in columns for name in names):
        shown = ", ".join(f"'{name}'" for name in names)
        raise invalid(
            f"request failed: Cannot query over table '{table.name.short}' without a filter over column(s) "
            f"{shown} that can be used for partition elimination"
        )
