"""Rows of a query made to fit the columns of a table.

DuckDB knows no length of ``STRING(n)``, no digits of ``NUMERIC(p, s)``, and not that arrays have no null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lode.ingest.catalog.table import complete
from lode.ingest.status import Refused
from lode.ingest.types.fit import fit_for
from lode.ingest.types.row_errors import Origin, Problems
from lode.sql.errors import QueryError

if TYPE_CHECKING:
    import pyarrow as pa

    from lode.ingest.types.columns import Column, TableSchema


def fitted(batch: pa.RecordBatch, schema: TableSchema) -> pa.RecordBatch:
    """Rows in ``schema.arrow``, or an error that names the first value that does not fit."""
    batch = complete(batch, schema)
    problems = Problems()
    try:
        for number, column in enumerate(schema):
            if _is_limited(column):
                array = batch.column(number)
                made = fit_for(column, array.type)(array, Origin(problems, column.name))
                batch = batch.set_column(number, batch.schema.field(number), made)
        if problems:
            raise problems.refusal()
    except Refused as refused:
        raise QueryError(refused.rows[0].message, reason="invalid") from None
    return batch


def _is_limited(column: Column) -> bool:
    own = column.mode == "REPEATED" or column.max_length or column.precision
    return bool(own) or any(map(_is_limited, column.fields))
