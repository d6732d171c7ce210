"""Sources and sinks as the Python files that pyarrow reads and writes."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, BinaryIO, Final

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from lode.codec.protocol import Sink

_TAIL_BYTES: Final = 8


class SourceFile(io.RawIOBase):
    """A file for pyarrow's readers. Closing it leaves the source open.

    pyarrow's own errors are ``OSError``, as are those of many sources. ``error`` is the one that the source
    raised. ``consumed`` counts the bytes read, and ``tail`` is the last eight of them.
    """

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self.consumed = 0
        self.tail = b""
        self.error: BaseException | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._source.seekable()

    def read(self, size: int = -1, /) -> bytes:
        """Read all of ``size``: pyarrow treats a short read as the end of the file."""
        try:
            data = self._source.read(size)
            if 0 <= len(data) < size:
                data = self._rest(data, size)
        except BaseException as error:
            self.error = error
            raise
        self.consumed += len(data)
        self.tail = (self.tail + data[-_TAIL_BYTES:])[-_TAIL_BYTES:]
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        try:
            return self._source.seek(offset, whence)
        except BaseException as error:
            self.error = error
            raise

    def tell(self) -> int:
        return self._source.tell()

    def close_source(self) -> None:
        self._source.close()

    def _rest(self, data: bytes, size: int) -> bytes:
        parts = [data]
        missing = size - len(data)
        while missing and (part := self._source.read(missing)):
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)


class SinkFile(io.RawIOBase):
    """A file for pyarrow's writers. Closing it leaves the sink open.

    pyarrow's Parquet writer closes its file when it is garbage collected, and writes the footer then.
    ``disconnect`` keeps that footer from the sink of an aborted write.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink: Sink | None = sink
        self._position = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer, /) -> int:
        size = memoryview(data).nbytes
        if self._sink is not None:
            self._sink.write(data)
        self._position += size
        return size

    def tell(self) -> int:
        return self._position

    def disconnect(self) -> None:
        """Drop everything that is written from now on."""
        self._sink = None
