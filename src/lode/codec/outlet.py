"""A sink dressed as the file that pyarrow's writers expect."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from lode.codec.protocol import Sink


class Outlet(io.RawIOBase):
    """Passes bytes on to a sink, which stays open when the outlet is closed.

    pyarrow's Parquet writer closes its file when it is garbage collected, footer and all. ``disconnect``
    keeps that footer away from the sink of a write that was given up.
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
        """Let everything written from now on vanish."""
        self._sink = None
