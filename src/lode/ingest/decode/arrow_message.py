"""The unpacked size of an IPC message, read from its metadata before anything is allocated.

Arrow trusts the sizes that compressed buffers state, and allocates them first. The metadata is a flatbuffer:
each table points to a list of its fields' offsets.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

_U16: Final = Struct("<H").unpack_from
_I32: Final = Struct("<i").unpack_from
_I64: Final = Struct("<q").unpack_from
_TWO_I64: Final = Struct("<qq")
# The fields' positions in the tables Message and RecordBatch of Arrow's format.
_HEADER: Final = 2
_LENGTH: Final = 0
_NODES: Final = 1
_BUFFERS: Final = 2
_COMPRESSION: Final = 3


class MessageLayout(NamedTuple):
    """The size of a record batch message, from its metadata.

    Attributes:
        rows: The number of rows.
        lengths: The number of values of each field, and of those inside it, in the order of the schema.
        body_bytes: The unpacked bytes of all buffers.
    """

    rows: int
    lengths: tuple[int, ...]
    body_bytes: int


def read_layout(message: pa.ipc.Message, *, with_lengths: bool) -> MessageLayout:
    """The layout of a record batch message; lengths are empty without ``with_lengths``.

    The message must have been read by Arrow, which checks that its metadata is a well-formed flatbuffer.
    """
    metadata = memoryview(message.metadata)
    header = _field(metadata, _I32(metadata, 0)[0], _HEADER)
    if header is None:
        return MessageLayout(0, (), 0)
    batch = header + _I32(metadata, header)[0]
    length = _field(metadata, batch, _LENGTH)
    rows = 0 if length is None else max(0, _I64(metadata, length)[0])
    lengths: tuple[int, ...] = ()
    if with_lengths:
        lengths = tuple(max(0, length) for length, _ in _pairs(metadata, batch, _NODES))
    if message.body is None:
        return MessageLayout(rows, lengths, 0)
    body = memoryview(message.body)
    if _field(metadata, batch, _COMPRESSION) is None:
        return MessageLayout(rows, lengths, len(body))
    spans = _pairs(metadata, batch, _BUFFERS)
    return MessageLayout(rows, lengths, sum(_stated_size(body, offset, length) for offset, length in spans))


def _stated_size(body: memoryview[Any], offset: int, length: int) -> int:
    """The size in front of a buffer's compressed bytes; -1 there means that it is not compressed."""
    if length < 8 or not 0 <= offset <= len(body) - 8:
        return 0
    stated: int = _I64(body, offset)[0]
    return stated if stated >= 0 else length


def _pairs(metadata: memoryview[Any], batch: int, number: int) -> Iterator[tuple[int, int]]:
    """The structs of two numbers in a vector."""
    vector_field = _field(metadata, batch, number)
    if vector_field is None:
        return iter(())
    vector = vector_field + _I32(metadata, vector_field)[0]
    count = _I32(metadata, vector)[0]
    return _TWO_I64.iter_unpack(metadata[vector + 4 : vector + 4 + count * _TWO_I64.size])


def _field(metadata: memoryview[Any], table: int, number: int) -> int | None:
    """The offset of a table's field; None if it is left out."""
    vtable = table - _I32(metadata, table)[0]
    entry = 4 + 2 * number
    if entry >= _U16(metadata, vtable)[0]:
        return None
    offset: int = _U16(metadata, vtable + entry)[0]
    return table + offset if offset else None
