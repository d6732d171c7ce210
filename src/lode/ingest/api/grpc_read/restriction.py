"""The row restriction of a read session.

A filter of the library leaves out files and rows. The parts that it does not have, such as CASE, are computed
by the SQL engine for the rows that are left.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from lode.errors import InvalidOptionError
from lode.filter import Filter, parse_filter
from lode.ingest.api.grpc_read.computed import computed_restriction
from lode.ingest.status import invalid

if TYPE_CHECKING:
    from collections.abc import Collection

    from lode.ingest.api.grpc_read.computed import Computed, Conditions
    from lode.ingest.catalog.table import TableDefinition
    from lode.ingest.types.columns import TableSchema
    from lode.lazy import pa


@dataclass(frozen=True, slots=True)
class Restriction:
    """A filter on rows.

    Attributes:
        filter: The part that also leaves out files, by their partitions and statistics.
        computed: The rest.
    """

    filter: Filter
    computed: Computed | None = None

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
        except InvalidOptionError as error:
            raise invalid(f"row_restriction: {error}.") from None
        return passed if self.computed is None else self.computed.apply(passed)


def parse_restriction(
    text: str, schema: TableSchema, now_micros: int | None = None, conditions: Conditions | None = None
) -> Restriction | None:
    """Parse a restriction on a table's columns, or refuse it; None if it is empty.

    Args:
        text: The restriction.
        schema: The table's columns.
        now_micros: The value of CURRENT_TIMESTAMP(), in microseconds since 1970. Default: now.
        conditions: Computes what filters do not have; this process does if not given.
    """
    if not text.strip():
        return None
    as_filter = partial(
        parse_filter,
        schema=schema.arrow,
        name="row_restriction",
        double_quotes=False,
        now_micros=now_micros,
    )
    try:
        return Restriction(as_filter(text))
    except InvalidOptionError as error:
        refusal = invalid(f"{error}.")
    try:
        computing = conditions or _conditions_here()
    except ImportError:  # without the extra sql
        raise refusal from None
    found, computed = computed_restriction(text, schema, now_micros, as_filter, refusal, computing)
    return Restriction(found, computed)


@cache
def _conditions_here() -> Conditions:
    from lode.ingest.jobs.sql.condition import RowConditions

    return RowConditions()


def check_partition_filter(table: TableDefinition, columns: Collection[str]) -> None:
    """Refuse a read without a partition filter from a table that requires one.

    Args:
        table: The table.
        columns: The columns of the restriction.
    """
    names = table.filtered_columns
    if names and not any(name in columns for name in names):
        shown = ", ".join(f"'{name}'" for name in names)
        raise invalid(
            f"request failed: Cannot query over table '{table.name.short}' without a filter over column(s) "
            f"{shown} that can be used for partition elimination"
        )
