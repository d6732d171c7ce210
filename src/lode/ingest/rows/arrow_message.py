"""How large an IPC message will be when unpacked, read from its metadata before anything is allocated.

Arrow believes the sizes that compressed buffers state and allocates them first. Its metadata is a flatbuffer:
tables that point to a list of where each of their fields lies.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow as pa

_I16: Final = Struct("<h").unpack_from
_I32: Final = Struct("<i").unpack_from
_I64: Final = Struct("<q").unpack_from
_TWO_I64: Final = Struct("<qq")
# The fields' positions in the tables Message and RecordBatch of Arrow's format.
_HEADER: Final = 2
_BUFFERS: Final = 2
_COMPRESSION: Final = 3


def unpacked_bytes(message: pa.ipc.Message) -> int:
    """How many bytes the compressed buffers of a record batch message say they hold; 0 if none is compressed.

    The message must have been read by Arrow, which checks that its metadata is a well-formed flatbuffer.
    """
    metadata, body = memoryview(message.metadata), message.body
    header = _field(metadata, _I32(metadata, 0)[0], _HEADER)
    if header is None:
        return 0
    batch = header + _I32(metadata, header)[0]
    if body is None or _field(metadata, batch, _COMPRESSION) is None:
        return 0
    total: int = sum(_stated_sizes(metadata, batch, memoryview(body)))
    return total


def _stated_sizes(metadata: memoryview[Any], batch: int, body: memoryview[Any]) -> list[int]:
    """What each buffer states in front of its compressed bytes; -1 there says that it is not compressed."""
    place = _field(metadata, batch, _BUFFERS)
    if place is None:
        return []
    vector = place + _I32(metadata, place)[0]
    count = _I32(metadata, vector)[0]
    spans = _TWO_I64.iter_unpack(metadata[vector + 4 : vector + 4 + count * _TWO_I64.size])
    return [
        max(0, _I64(body, offset)[0])
        for offset, length in spans
        if length >= 8 and 0 <= offset <= len(body) - 8
    ]


def _field(metadata: memoryview[Any], table: int, number: int) -> int | None:
    """Where a table's field lies; None if it is left out."""
    vtable = table - _I32(metadata, table)[0]
    entry = 4 + 2 * number
    if entry >= _I16(metadata, vtable)[0]:
        return None
    offset: int = _I16(metadata, vtable + entry)[0]
    return table + offset if offset else None
