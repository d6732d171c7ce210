"""Sinks and sources that tests look into."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, BinaryIO

from lode.codec import chunks_of

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from lode.codec import StreamingCodec


class Unseekable(io.RawIOBase):
    """A source that can only be read from its beginning, in small pieces."""

    def __init__(self, data: bytes, piece: int = 1000) -> None:
        self._inner = io.BytesIO(data)
        self._piece = piece

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def read(self, size: int = -1, /) -> bytes:
        return self._inner.read(self._piece if size < 0 else min(size, self._piece))


class Failing(io.RawIOBase):
    """A source that breaks."""

    def __init__(self, error: Exception, data: bytes = b"") -> None:
        self._error = error
        self._inner = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def read(self, size: int = -1, /) -> bytes:
        data = self._inner.read(size)
        if not data:
            raise self._error
        return data


class CountingSink:
    """Forgets what it is given, except how much and in which sizes."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def write(self, data: Buffer, /) -> int:
        size = memoryview(data).nbytes
        self.sizes.append(size)
        return size


def encoded(codec: StreamingCodec, data: Any, **options: Any) -> bytes:
    """Return the file a codec makes of ``data``."""
    sink = io.BytesIO()
    encoder = codec.stream_encoder(sink)
    for chunk in chunks_of(data, **options):
        encoder.write(chunk)
    encoder.close()
    return sink.getvalue()


def decoded(codec: StreamingCodec, data: bytes | BinaryIO) -> list[Any]:
    """Return all records of a file."""
    source = io.BytesIO(data) if isinstance(data, bytes) else data
    return [
        record
        for chunk in codec.decode(source)
        for record in (chunk if isinstance(chunk, list) else chunk.to_pylist(maps_as_pydicts="strict"))
    ]
