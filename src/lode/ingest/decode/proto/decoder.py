"""Rows as serialised protobuf messages, into batches of a table's schema.

The way of a row: ``proto_plan.py`` (the writer's descriptor against the table's columns, once) →
``proto_parser.py`` (bytes into Arrow) → ``proto_columns.py`` and ``proto_values.py`` (into
types that the columns take) → ``fill.py`` (what the rows of every writer need).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lode.ingest.decode.fill import Filler
from lode.ingest.decode.packed import MAX_UNPACKED_BYTES, PackedRows, check_unpacked, count_columns
from lode.ingest.decode.proto.columns import column_converter, report_unset
from lode.ingest.decode.proto.parser import Parser
from lode.ingest.decode.proto.plan import plan
from lode.ingest.types.row_errors import Place, Problems

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import pyarrow as pa
    from google.protobuf.descriptor_pb2 import DescriptorProto

    from lode.ingest.types.columns import TableSchema


class ProtoRows:
    """Decodes the rows of one writer. It keeps nothing of them: threads may share it.

    Unset is NULL and an explicit zero is zero, as in proto2, whatever syntax the writer's file had: a bare
    descriptor does not tell. A zero of proto3 without ``optional`` is not on the wire, so it is NULL.

    Args:
        schema: The table's.
        descriptor: The writer's message; what it nests, and what is left of its file's names.

    Raises:
        Refused: The descriptor is malformed, or has a field that the table lacks or whose type does not fit.
    """

    def __init__(
        self,
        schema: TableSchema,
        descriptor: DescriptorProto,
        *,
        max_unpacked_bytes: int = MAX_UNPACKED_BYTES,
    ) -> None:
        self._max_unpacked_bytes = max_unpacked_bytes
        # How many columns the table has: each costs some microseconds, however few rows there are.
        self.columns = count_columns(schema.columns)
        self._fields = plan(schema, descriptor)
        self._parser = Parser(self._fields)
        self._converters = [column_converter(field) for field in self._fields]
        names = [field.column.name for field in self._fields]
        nothing = self._parser.parse([], 0, Problems())
        types = [column.type for column in self._columns(nothing, Problems())]
        self._filler = Filler(schema, names, types)
        self.defaulted = Filler.defaulted(schema, names)

    def decode(self, rows: Sequence[bytes], defaults: Collection[str] = ()) -> pa.RecordBatch:
        """Decode the rows into a batch exactly in ``schema.arrow``.

        Args:
            rows: Serialised messages.
            defaults: The columns whose missing values become their default, where they have one.

        Raises:
            Refused: With every bad row.
        """
        return self.open(rows, defaults).decode()

    def open(self, rows: Sequence[bytes], defaults: Collection[str] = ()) -> PackedRows:
        """The same rows before they are unpacked; refuses those that are too large to be."""
        sent = sum(map(len, rows))
        size = self._filler.filled_bytes(len(rows), defaults)
        size += self._parser.survey.unpacked_bytes(rows, sent, self._max_unpacked_bytes - size)
        check_unpacked(size, self._max_unpacked_bytes)
        slow = len(rows) * self._parser.survey.slow_values
        return PackedRows(size, slow, lambda: self._decode(rows, sent, defaults))

    def _decode(self, rows: Sequence[bytes], sent: int, defaults: Collection[str]) -> pa.RecordBatch:
        problems = Problems()
        batch = self._parser.parse(rows, sent, problems)
        return self._filler.batch(self._columns(batch, problems), len(rows), defaults, problems)

    def _columns(self, batch: pa.RecordBatch, problems: Problems) -> list[Any]:
        columns: list[Any] = batch.columns
        for position, (field, convert) in enumerate(zip(self._fields, self._converters, strict=True)):
            if convert is not None or field.required:
                place = Place(problems, field.column.name)
                if field.required:
                    report_unset(columns[position], None, place)
                if convert is not None:
                    columns[position] = convert(columns[position], place)
        return columns
