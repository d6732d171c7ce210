"""Rows as serialised protobuf messages, decoded into batches of a table's schema.

``plan.py`` matches the writer's descriptor with the table's columns, once. A ``Parser`` reads bytes into
Arrow, one column a field. ``columns.py`` and ``times.py`` make these columns into types that the table takes,
and ``decode/fill.py`` completes and checks them as for every writer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import ptars
from google.protobuf import descriptor_pb2, descriptor_pool

from lode.ingest.decode.fill import Filler
from lode.ingest.decode.packed import MAX_UNPACKED_BYTES, PackedRows, check_unpacked, count_columns
from lode.ingest.decode.proto.columns import column_converter, report_unset
from lode.ingest.decode.proto.plan import F, WireShape, plan
from lode.ingest.decode.proto.survey import RowSurvey
from lode.ingest.status import invalid
from lode.ingest.types.arrays import one_batch
from lode.ingest.types.row_errors import Origin, Problems

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    import pyarrow as pa
    from google.protobuf.descriptor_pb2 import DescriptorProto

    from lode.ingest.decode.proto.plan import Field
    from lode.ingest.types.columns import TableSchema

# ptars parses this much in a few milliseconds.
MAX_CHUNK_ROWS: Final = 16_384
MAX_CHUNK_BYTES: Final = 1 << 20


class ProtoRows:
    """Decodes the rows of one writer. It has no state: threads may share it.

    Unset is NULL and an explicit zero is zero, as in proto2. A bare descriptor does not contain the syntax of
    its file, so a zero of proto3 without ``optional``, which is not on the wire, is NULL too.

    Args:
        schema: The table's.
        descriptor: The descriptor of the writer's message, with its nested types.

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
        # The number of the table's columns: each takes some microseconds, even for few rows.
        self.columns = count_columns(schema.columns)
        self._fields = plan(schema, descriptor)
        self._parser = Parser(self._fields)
        self._converters = [column_converter(field) for field in self._fields]
        self.names = [field.column.name for field in self._fields]
        nothing = self._parser.parse([], 0, Problems())
        types = [column.type for column in self._columns(nothing, Problems())]
        self._filler = Filler(schema, self.names, types)
        self.defaulted = Filler.defaulted(schema, self.names)

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
        """The same rows before they are unpacked; refuses rows that would become too large."""
        sent = sum(map(len, rows))
        size = self._filler.filled_bytes(len(rows), defaults)
        size += self._parser.survey.unpacked_bytes(rows, sent, self._max_unpacked_bytes - size)
        check_unpacked(size, self._max_unpacked_bytes)
        slow = len(rows) * self._parser.survey.slow_values
        return PackedRows(size, slow, lambda: self._decode(rows, sent, defaults), len(rows))

    def _decode(self, rows: Sequence[bytes], sent: int, defaults: Collection[str]) -> pa.RecordBatch:
        problems = Problems()
        batch = self._parser.parse(rows, sent, problems)
        return self._filler.batch(self._columns(batch, problems), len(rows), defaults, problems)

    def _columns(self, batch: pa.RecordBatch, problems: Problems) -> list[Any]:
        columns: list[Any] = batch.columns
        for position, (field, convert) in enumerate(zip(self._fields, self._converters, strict=True)):
            if convert is not None or field.required:
                origin = Origin(problems, field.column.name)
                if field.required:
                    report_unset(columns[position], None, origin)
                if convert is not None:
                    columns[position] = convert(columns[position], origin)
        return columns


class Parser:
    """Parses rows of one message type. It has no state: threads may share it.

    It does not use the writer's message type, but one made from the plan with the same numbers and kinds of
    fields. All fields are optional, so that unset is null, enums are their numbers, and names cannot clash.
    """

    def __init__(self, fields: tuple[Field, ...]) -> None:
        file = descriptor_pb2.FileDescriptorProto(name="lode_row.proto", syntax="proto2")
        _declare(file.message_type.add(name="Row"), fields)
        pool = descriptor_pool.DescriptorPool()
        try:
            pool.Add(file)
        # Protobuf's own limit: 64 kB for the scalars and pointers of one message.
        except TypeError as why:
            raise invalid(
                "A message of the descriptor has too many fields: nest some, about 4,000 are the most.",
                ends_call=True,
            ) from why
        descriptor: Any = pool.FindMessageTypeByName("Row")
        try:
            self._handler = _without_panics(
                lambda: ptars.HandlerPool([descriptor.file]).get_for_message(descriptor)
            )
        except ValueError as why:
            raise invalid(f"The descriptor cannot be used: {why}.", ends_call=True) from why
        self.survey = RowSurvey(fields)

    def parse(self, rows: Sequence[bytes], size: int, problems: Problems) -> pa.RecordBatch:
        """Parse rows of ``size`` bytes; malformed ones are reported, and empty in the batch."""
        # ptars takes only lists.
        wanted = rows if isinstance(rows, list) else list(rows)
        malformed = _Malformed(problems)
        self.survey.find_malformed(wanted, malformed.add)
        return one_batch(
            [self._parse_chunk(wanted, chunk, malformed) for chunk in _chunks(len(wanted), size)]
        )

    def _parse_chunk(self, rows: list[bytes], chunk: range, malformed: _Malformed) -> pa.RecordBatch:
        wanted = malformed.emptied(rows, chunk)
        try:
            return self._parse(wanted)
        except ValueError:
            self._find_malformed(wanted, chunk.start, malformed)
        return self._parse(malformed.emptied(rows, chunk))

    def _parse(self, rows: list[bytes]) -> pa.RecordBatch:
        batch: pa.RecordBatch = _without_panics(lambda: self._handler.list_to_record_batch(rows))
        return batch

    def _find_malformed(self, rows: list[bytes], start: int, malformed: _Malformed) -> None:
        """Halve the rows until each one that does not parse is alone."""
        try:
            self._parse(rows)
        except ValueError as error:
            if len(rows) == 1:
                malformed.add(start, f"The row is malformed: {str(error).rpartition(': ')[2]}.")
                return
            middle = len(rows) // 2
            self._find_malformed(rows[:middle], start, malformed)
            self._find_malformed(rows[middle:], start + middle, malformed)


class _Malformed:
    """The malformed rows, which are not parsed."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._indices: set[int] = set()

    def add(self, index: int, message: str) -> None:
        self._problems.add(index, message)
        self._indices.add(index)

    def emptied(self, rows: list[bytes], chunk: range) -> list[bytes]:
        """The rows of a chunk, with empty ones instead of malformed ones."""
        if self._indices:
            return [b"" if index in self._indices else rows[index] for index in chunk]
        return rows if len(chunk) == len(rows) else rows[chunk.start : chunk.stop]


def _chunks(rows: int, size: int) -> Iterator[range]:
    """Cut rows into chunks: ptars holds the interpreter's lock while it parses one."""
    step = min(MAX_CHUNK_ROWS, max(1, rows * MAX_CHUNK_BYTES // max(1, size)))
    for start in range(0, max(1, rows), step):
        yield range(start, min(start + step, rows))


def _without_panics(work: Callable[[], Any]) -> Any:
    """Call into Rust and turn a panic there, which is a BaseException, into a ``ValueError``."""
    try:
        return work()
    except BaseException as why:
        if type(why).__module__ == "pyo3_runtime":
            raise ValueError(str(why)) from None
        raise


def _declare(message: Any, fields: tuple[Field, ...]) -> None:
    for field in fields:
        name = f"f{field.number}"
        label = F.LABEL_REPEATED if field.repeated else F.LABEL_OPTIONAL
        if field.shape is WireShape.SCALAR:
            kind = F.TYPE_INT32 if field.kind == F.TYPE_ENUM else field.kind
            message.field.add(name=name, number=field.number, type=kind, label=label)
            continue
        nested = message.nested_type.add(name=f"M{field.number}")
        message.field.add(
            name=name, number=field.number, type=F.TYPE_MESSAGE, label=label, type_name=nested.name
        )
        match field.shape:
            case WireShape.MESSAGE:
                _declare(nested, field.fields)
            case WireShape.WRAPPER:
                nested.field.add(name="value", number=1, type=field.kind, label=F.LABEL_OPTIONAL)
            case WireShape.TIMESTAMP | WireShape.DURATION:
                nested.field.add(name="seconds", number=1, type=F.TYPE_INT64, label=F.LABEL_OPTIONAL)
                nested.field.add(name="nanos", number=2, type=F.TYPE_INT32, label=F.LABEL_OPTIONAL)
