"""A source dressed as the file that pyarrow's readers expect."""

from __future__ import annotations

import io
from typing import BinaryIO, Final

_TAIL: Final = 8


class Inlet(io.RawIOBase):
    """Reads from a source, and tells errors of the source from pyarrow's own, which are ``OSError`` both.

    ``consumed`` counts the bytes read, ``tail`` is the last eight of them, ``error`` what the source raised.
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
        """Read all of ``size``: pyarrow takes a short read for the end of the file."""
        try:
            data = self._source.read(size)
            if 0 <= len(data) < size:
                data = self._rest(data, size)
        except BaseException as error:
            self.error = error
            raise
        self.consumed += len(data)
        self.tail = (self.tail + data[-_TAIL:])[-_TAIL:]
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
        """Close the source; closing the inlet, as pyarrow does, leaves it open."""
        self._source.close()

    def _rest(self, data: bytes, size: int) -> bytes:
        parts = [data]
        missing = size - len(data)
        while missing and (part := self._source.read(missing)):
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)
