"""Batches in a table's schema from a writer's columns: missing values are filled in, all are checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lode.ingest.decode.packed import value_bytes
from lode.ingest.types.arrays import check_affordable, missing
from lode.ingest.types.defaults import default_values, parse_default
from lode.ingest.types.fit import Checked, fit_for, match_children, unchanged
from lode.ingest.types.row_errors import Origin, Problems
from lode.lazy import pa
from lode.runtime import REAL

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from lode.ingest.types.columns import Column, TableSchema
    from lode.ingest.types.fit import Fit
    from lode.ingest.types.row_errors import Problems as Found


class Filler:
    """Makes batches of one table's schema from a writer's columns.

    Args:
        schema: The table's.
        names: The writer's columns; case does not matter.
        types: Their Arrow types. Each must fit its column; see ``types/fit.py``.
        now_ns: The clock, for CURRENT_TIMESTAMP() and similar defaults.
    """

    def __init__(
        self,
        schema: TableSchema,
        names: Sequence[str],
        types: Sequence[pa.DataType],
        *,
        now_ns: Callable[[], int] = REAL.now_ns,
    ) -> None:
        self._schema = schema
        self._now_ns = now_ns
        self._defaults = {column.name.lower(): parse_default(column) for column in schema if column.default}
        sources = match_children(schema.columns, list(names))
        self._plan: list[tuple[Column, int | None, Fit | None]] = [
            (column, source, None if source is None else fit_for(column, types[source]))
            for column, source in zip(schema.columns, sources, strict=True)
        ]
        # The columns to check, if the writer's are those of the table; None if they are not.
        self._to_check: list[tuple[int, Column, Fit]] | None = None
        # Without columns, a request has no rows, whatever number it names.
        if sources and sources == list(range(len(schema.columns))) and list(types) == schema.arrow.types:
            fits = [fit for _, _, fit in self._plan if fit is not None]
            if all(fit is unchanged or isinstance(fit, Checked) for fit in fits):
                self._to_check = [
                    (position, column, fit)
                    for position, (column, fit) in enumerate(zip(schema.columns, fits, strict=True))
                    if fit is not unchanged or column.mode == "REQUIRED"
                ]
        self._left_out = sum(source is None for source in sources)
        self._left_out_bytes = sum(value_bytes(column) for column, source, _ in self._plan if source is None)
        self._default_bytes = {
            column.name.lower(): default_values(column, self._defaults[column.name.lower()], 1, 0).nbytes
            for column in schema
            if column.default
        }

    def filled_bytes(self, rows: int, defaults: Collection[str] = ()) -> int:
        """The memory of the columns that were not sent, and of the given defaults."""
        size = rows * self._left_out_bytes
        if defaults:
            wanted = {name.lower() for name in defaults}
            # The defaults, and the columns that they are merged into.
            size += rows * sum(2 * size for name, size in self._default_bytes.items() if name in wanted)
        return size

    @property
    def keeps_batches(self) -> bool:
        """Whether the writer's columns are those of the table, so that only values have to be checked."""
        return self._to_check is not None

    def check(self, batch: pa.RecordBatch) -> None:
        """Refuse a batch in the table's schema that has bad rows. Only if ``keeps_batches``."""
        assert self._to_check is not None
        problems = Problems()
        for position, column, fit in self._to_check:
            array = batch.column(position)
            origin = Origin(problems, column.name)
            fit(array, origin)
            _check_required(column, array, origin)
        if problems:
            raise problems.refusal()

    def batch(
        self,
        columns: Sequence[pa.Array[Any]],
        rows: int,
        defaults: Collection[str] = (),
        problems: Found | None = None,
        unsent: Mapping[str, pa.Array[Any]] | None = None,
    ) -> pa.RecordBatch:
        """The rows as a batch in the table's schema, or a refusal that names every bad one.

        Args:
            columns: The writer's columns, in the order of its names.
            rows: The number of rows; there may be no columns.
            defaults: The columns whose missing values become their default, if they have one.
            problems: The bad rows that were found before.
            unsent: Where the values of columns are missing, for writers that distinguish missing from null.
        """
        check_affordable(rows * self._left_out, "columns")
        problems = Problems() if problems is None else problems
        wanted = {name.lower() for name in defaults} & self._defaults.keys()
        # The same time for every column of the batch.
        now_ns = self._now_ns() if wanted else 0
        arrays: list[pa.Array[Any]] = []
        for column, source, fit in self._plan:
            origin = Origin(problems, column.name)
            sent = None if source is None else columns[source]
            array = missing(column, rows) if sent is None or fit is None else fit(sent, origin)
            if wanted and column.name.lower() in wanted:
                where = None if unsent is None else unsent[column.name]
                array = self._with_default(column, array, sent, now_ns, where)
            _check_required(column, array, origin)
            arrays.append(array)
        if problems:
            raise problems.refusal()
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema.arrow)

    def _with_default(
        self,
        column: Column,
        array: pa.Array[Any],
        sent: pa.Array[Any] | None,
        now_ns: int,
        where: pa.Array[Any] | None,
    ) -> pa.Array[Any]:
        """The column with its default for each value that was not sent."""
        import pyarrow.compute as pc

        if sent is not None and not sent.null_count:
            return array
        values = default_values(column, self._defaults[column.name.lower()], len(array), now_ns)
        if sent is None:
            return values
        # Nulls as they were sent: those of a REPEATED column are empty lists by now.
        missing_at = sent.is_null() if where is None else where
        filled: pa.Array[Any] = pc.call_function("if_else", [missing_at, values, array])
        return filled

    @staticmethod
    def defaulted(schema: TableSchema, names: Collection[str]) -> frozenset[str]:
        """The columns with a default that a writer of columns of these names leaves out."""
        sent = {name.lower() for name in names}
        return frozenset(
            column.name for column in schema if column.default and column.name.lower() not in sent
        )


def _check_required(column: Column, array: pa.Array[Any], origin: Origin) -> None:
    if column.mode == "REQUIRED" and array.null_count:
        origin.report_where(array.is_null(), "it is REQUIRED, and null or missing.")


def fill(
    schema: TableSchema,
    columns: Mapping[str, pa.Array[Any]],
    rows: int,
    defaults: Collection[str] = (),
    *,
    now_ns: Callable[[], int] = REAL.now_ns,
) -> pa.RecordBatch:
    """Make one batch; use a ``Filler`` for many of the same columns."""
    filler = Filler(schema, list(columns), [array.type for array in columns.values()], now_ns=now_ns)
    return filler.batch(list(columns.values()), rows, defaults)
