"""A record of a stream's log: a header and a payload.

The checksum of a header is seeded with the log's random salt and the record's position. So bytes that are a
record elsewhere (in a deleted file, in another log, inside a row) are not accepted as a record here.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import xxhash

from lode.errors import DataError, MissingError, StoreError
from lode.lazy import pa, pt

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from typing_extensions import Buffer

MAGIC = b"\xa7Lo\x9c"
# Magic, kind, bytes of payload, first offset, rows, synced, checksum of the payload; then one of all fields.
_FIELDS = struct.Struct("<4sB3xQQQQQ")
_CHECK = struct.Struct("<Q")
HEADER = _FIELDS.size + _CHECK.size
# Records begin at multiples of this many bytes; Arrow pads its messages to the same.
ALIGNMENT = 8
_END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"


class LogDamaged(DataError):  # noqa: N818, a state of the log rather than of the call
    """Bytes that were stored durably are missing or changed."""

    def __init__(self, path: Path, position: int, what: str) -> None:
        super().__init__(
            f"the log {path} is damaged at byte {position}: {what}; restore the file from a copy, "
            "or move its directory away to give up the stream"
        )
        self.path = path
        self.position = position
        self.what = what

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.position, self.what)


class LogIncomplete(MissingError):  # noqa: N818, a state of the log rather than of the call
    """A log whose creation did not finish: it holds no rows, and its directory can be removed."""


class LogUnusable(StoreError):  # noqa: N818, a state of the log rather than of the call
    """A log that accepts no records: it was removed, or a failed write could not be undone."""


class Kind(IntEnum):
    """The kind of a record."""

    HEAD = 1  # the first record of every segment: version, salt, facts and the marks so far
    ROWS = 2  # an Arrow stream of one batch
    MARK = 3  # one fact, newer than the head
    SEAL = 4  # the last record of every segment but the newest; no payload


class Record(NamedTuple):
    """The header of a record.

    Attributes:
        kind: The kind of the payload.
        length: Bytes of the payload.
        first: The offset of its first row; without rows, of the next row.
        rows: The number of rows.
        synced: The position in the segment up to which the file was known to be synced when this record
            was written. Records of one write, which may be lost together, have the same value.
        checksum: Of the payload.
    """

    kind: Kind
    length: int
    first: int
    rows: int
    synced: int
    checksum: int

    @property
    def size(self) -> int:
        return HEADER + self.length

    @property
    def end(self) -> int:
        return self.first + self.rows

    def matches(self, payload: Buffer) -> bool:
        return xxhash.xxh3_64_intdigest(payload) == self.checksum


def seal_header(record: Record, position: int, salt: int) -> bytes:
    fields = _FIELDS.pack(MAGIC, *record)
    return fields + _CHECK.pack(xxhash.xxh3_64_intdigest(fields, salt + position))


def open_header(header: bytes, position: int, salt: int) -> Record | None:
    """The record with this header at this position; None if the header is not valid."""
    if len(header) != HEADER or not header.startswith(MAGIC):
        return None
    fields = header[: _FIELDS.size]
    if _CHECK.pack(xxhash.xxh3_64_intdigest(fields, salt + position)) != header[_FIELDS.size :]:
        return None
    _, kind, *numbers = _FIELDS.unpack(fields)
    return Record(Kind(kind), *numbers)


def record_of(kind: Kind, payload: Sequence[Buffer], first: int, rows: int, synced: int) -> Record:
    digest = xxhash.xxh3_64()
    length = 0
    for piece in payload:
        digest.update(piece)
        length += memoryview(piece).nbytes
    return Record(kind, length, first, rows, synced, digest.intdigest())


def json_payload(value: Any) -> bytes:
    text = msgspec.json.encode(value)
    return text + b" " * (-len(text) % ALIGNMENT)


class RowsEncoder:
    """Encodes batches. The bytes of the last schema are cached: nearly all batches have the same one."""

    def __init__(self) -> None:
        self._schema: pa.Schema | None = None
        self._message: Buffer = b""
        self._has_dictionaries = False

    def size(self, batch: pa.RecordBatch) -> int:
        """The size of the record of a batch without dictionaries."""
        self._prepare(batch.schema)
        message = memoryview(self._message).nbytes
        return HEADER + message + pa.ipc.get_record_batch_size(batch) + len(_END_OF_STREAM)

    def payload(self, batch: pa.RecordBatch) -> list[Buffer]:
        """An Arrow stream, in buffers whose lengths are multiples of the alignment."""
        schema = batch.schema
        self._prepare(schema)
        if self._has_dictionaries:
            # The message of a batch does not include its dictionaries; a writer sends them before it.
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, schema) as writer:
                writer.write_batch(batch)
            return [sink.getvalue()]
        return [self._message, batch.serialize(), _END_OF_STREAM]

    def _prepare(self, schema: pa.Schema) -> None:
        if self._schema is None or not schema.equals(self._schema, check_metadata=True):
            self._message = schema.serialize()
            self._has_dictionaries = any(_has_dictionary(field.type) for field in schema)
            self._schema = schema


def decode_rows(payload: bytes) -> pa.RecordBatch:
    return pa.ipc.open_stream(pa.py_buffer(payload)).read_next_batch()


def _has_dictionary(kind: pa.DataType) -> bool:
    if pt.is_dictionary(kind):
        return True
    return any(_has_dictionary(kind.field(at).type) for at in range(kind.num_fields))
