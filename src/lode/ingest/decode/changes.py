"""Rows that are changes: upserts and deletions, by the columns ``_CHANGE_TYPE`` and its sequence number.

Such rows are decoded as rows of the table with two more columns. A deletion needs only the primary key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from lode.ingest.decode.packed import MAX_UNPACKED_BYTES, check_unpacked
from lode.ingest.status import invalid
from lode.ingest.types.changes import (
    CHANGE_COLUMNS,
    CHANGE_SEQUENCE,
    CHANGE_TYPE,
    DELETE,
    INSERT,
    UPSERT,
    comparable_sequences,
)
from lode.ingest.types.columns import TableSchema
from lode.ingest.types.row_errors import Origin, Problems, shown
from lode.lazy import pa

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from lode.ingest.decode.arrow import ArrowRows
    from lode.ingest.decode.packed import PackedRows
    from lode.ingest.decode.proto.decoder import ProtoRows


# A sequence number of any length becomes 64 digits, which are made of four parts.
_CHECKED_BYTES: Final = 3 * 64


def may_have_changes(schema: bytes) -> bool:
    """Return False if a writer's serialized schema proves that its rows are not changes."""
    return b"_change_" in schema.lower()


def schema_of_changes(schema: TableSchema) -> TableSchema:
    """The table's columns and those of changes. A deletion leaves out REQUIRED columns."""
    columns = [
        msgspec.structs.replace(column, mode="NULLABLE") if column.mode == "REQUIRED" else column
        for column in schema
    ]
    return TableSchema((*columns, *CHANGE_COLUMNS))


class ChangeRows:
    """Decodes the rows of one writer that sends ``_CHANGE_TYPE``.

    The batches have the columns of the table. If the rows are changes, the two columns of changes follow.

    Args:
        schema: The table's.
        primary_key: The table's; empty if it has none.
        decoder: Decodes rows into ``schema_of_changes(schema)``.
        max_unpacked_bytes: The memory that the decoded rows of one request may take.
    """

    def __init__(
        self,
        schema: TableSchema,
        primary_key: Sequence[str],
        decoder: ArrowRows | ProtoRows,
        *,
        max_unpacked_bytes: int = MAX_UNPACKED_BYTES,
    ) -> None:
        self._max_unpacked_bytes = max_unpacked_bytes
        self._schema = schema
        self._keys = primary_key
        self._decoder = decoder
        self.columns = decoder.columns
        self.names = decoder.names
        self.defaulted = decoder.defaulted

    def decode(self, rows: Any, defaults: Collection[str] = ()) -> pa.RecordBatch:
        """The rows, or a refusal that names every bad one."""
        return self.open(rows, defaults).decode()

    def open(self, rows: Any, defaults: Collection[str] = ()) -> PackedRows:
        """The same rows before they are unpacked."""
        packed = self._decoder.open(rows, defaults)
        size = packed.unpacked_bytes + packed.rows * _CHECKED_BYTES
        check_unpacked(size, self._max_unpacked_bytes)
        return packed._replace(unpacked_bytes=size, decode=lambda: self._checked(packed.decode()))

    def _checked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow.compute as pc

        compute: Any = pc
        problems = Problems()
        kinds: Any = compute.fill_null(batch.column(CHANGE_TYPE), INSERT)
        is_change = compute.is_in(kinds, pa.array([UPSERT, DELETE]))
        changes = compute.any(is_change, min_count=0).as_py()
        # Rows of one request are all changes, or all inserted.
        wrong = compute.invert(is_change) if changes else compute.not_equal(kinds, INSERT)
        Origin(problems, CHANGE_TYPE).report_where(
            wrong, lambda index: f"The given value is not a valid CHANGE_TYPE: {shown(kinds, index)}."
        )
        if changes and not self._keys:
            raise invalid(
                "The primary keys of the table are required to create an upsert stream: add "
                "tableConstraints.primaryKey to the table."
            )
        keys = set(self._keys)
        is_deleted = compute.equal(kinds, DELETE)
        columns: list[Any] = batch.columns[: len(self._schema)]
        for column, array in zip(self._schema, columns, strict=True):
            if not array.null_count:
                continue
            origin = Origin(problems, column.name)
            if changes and column.name in keys:
                origin.report_where(array.is_null(), "it is part of the primary key, and null or missing.")
            elif column.mode == "REQUIRED":
                missing = compute.and_not(array.is_null(), is_deleted)
                origin.report_where(missing, "it is REQUIRED, and null or missing.")
        if not changes:
            sequences = pa.nulls(batch.num_rows, pa.string())
        else:
            sequences = comparable_sequences(batch.column(CHANGE_SEQUENCE), Origin(problems, CHANGE_SEQUENCE))
        if problems:
            raise problems.refusal()
        if not changes:
            return pa.RecordBatch.from_arrays(columns, schema=self._schema.arrow)
        fields = [pa.field(CHANGE_TYPE, pa.string()), pa.field(CHANGE_SEQUENCE, pa.string())]
        schema = pa.schema([*self._schema.arrow, *fields])
        return pa.RecordBatch.from_arrays([*columns, kinds, sequences], schema=schema)
