"""Serialised messages into Arrow, one column a field, before anything knows of the table's types.

The message type that parses them is not the writer's but one made from the plan, with the same numbers and
kinds of fields: optional throughout, so that unset is null; enums as their numbers; names that cannot clash.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import ptars
from google.protobuf import descriptor_pb2, descriptor_pool

from lode.ingest.decode.proto.plan import F, Shape
from lode.ingest.decode.proto.survey import Survey
from lode.ingest.status import invalid
from lode.ingest.types.arrays import one_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from lode.ingest.decode.proto.plan import Field
    from lode.ingest.types.row_errors import Problems

# What ptars parses in a few milliseconds.
MAX_CHUNK_ROWS: Final = 16_384
MAX_CHUNK_BYTES: Final = 1 << 20


class Parser:
    """Parses rows of one message type. It keeps nothing of them: threads may share it."""

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
            self._handler = _calm(lambda: ptars.HandlerPool([descriptor.file]).get_for_message(descriptor))
        except ValueError as why:
            raise invalid(f"The descriptor cannot be used: {why}.", ends_call=True) from why
        self.survey = Survey(fields)

    def parse(self, rows: Sequence[bytes], size: int, problems: Problems) -> pa.RecordBatch:
        """Parse rows of so many bytes; those that are malformed are reported, and empty in the batch."""
        # ptars takes nothing but lists.
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
        batch: pa.RecordBatch = _calm(lambda: self._handler.list_to_record_batch(rows))
        return batch

    def _find_malformed(self, rows: list[bytes], start: int, malformed: _Malformed) -> None:
        """Halve the rows until every one that does not parse stands alone."""
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
    """The rows that are not parsed."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._indices: set[int] = set()

    def add(self, index: int, message: str) -> None:
        self._problems.add(index, message)
        self._indices.add(index)

    def emptied(self, rows: list[bytes], chunk: range) -> list[bytes]:
        """The rows of a chunk, with empty ones in the place of those that are malformed."""
        if self._indices:
            return [b"" if index in self._indices else rows[index] for index in chunk]
        return rows if len(chunk) == len(rows) else rows[chunk.start : chunk.stop]


def _chunks(rows: int, size: int) -> Iterator[range]:
    """Cut rows into chunks: ptars holds the interpreter's lock while it parses one."""
    step = min(MAX_CHUNK_ROWS, max(1, rows * MAX_CHUNK_BYTES // max(1, size)))
    for start in range(0, max(1, rows), step):
        yield range(start, min(start + step, rows))


def _calm(work: Callable[[], Any]) -> Any:
    """Call into Rust: a panic there, which Python takes for more than an Exception, is a ``ValueError``."""
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
        if field.shape is Shape.SCALAR:
            kind = F.TYPE_INT32 if field.kind == F.TYPE_ENUM else field.kind
            message.field.add(name=name, number=field.number, type=kind, label=label)
            continue
        nested = message.nested_type.add(name=f"M{field.number}")
        message.field.add(
            name=name, number=field.number, type=F.TYPE_MESSAGE, label=label, type_name=nested.name
        )
        match field.shape:
            case Shape.MESSAGE:
                _declare(nested, field.fields)
            case Shape.WRAPPER:
                nested.field.add(name="value", number=1, type=field.kind, label=F.LABEL_OPTIONAL)
            case Shape.TIMESTAMP | Shape.DURATION:
                nested.field.add(name="seconds", number=1, type=F.TYPE_INT64, label=F.LABEL_OPTIONAL)
                nested.field.add(name="nanos", number=2, type=F.TYPE_INT32, label=F.LABEL_OPTIONAL)
