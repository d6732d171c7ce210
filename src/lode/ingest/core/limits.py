"""Limits on the bytes that are staged on disk, and on those in memory before they are stored."""

from __future__ import annotations

import asyncio
import threading
from collections import deque

from lode.ingest.status import Code, Refused, invalid


class StagedBytes:
    """Counts the bytes in the logs of all PENDING and BUFFERED streams, and in uploads for jobs."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._lock = threading.Lock()

    @property
    def bytes(self) -> int:
        return self._bytes

    def add(self, size: int) -> None:
        with self._lock:
            self._bytes += size

    def reserve(self, size: int) -> None:
        """Count rows before they are written, or refuse them: rows in flight need space too."""
        with self._lock:
            held = self._bytes
            if held + size <= self._max_bytes:
                self._bytes += size
                return
        raise self._full(held, size)

    def check(self, size: int) -> None:
        """Refuse as many bytes as cannot be reserved now, or ever."""
        if size > self._max_bytes:
            raise invalid(
                f"The file has {size:,} bytes, the limit is {self._max_bytes:,}: send a smaller one."
            )
        if self._bytes + size > self._max_bytes:
            raise self._full(self._bytes, size)

    def _full(self, held: int, size: int) -> Refused:
        return Refused(
            Code.RESOURCE_EXHAUSTED,
            f"{held:,} bytes are staged in PENDING and BUFFERED streams and in uploads, and this request has "
            f"{size:,}, the limit is {self._max_bytes:,}: commit or flush some of them, then try again.",
        )


class Window:
    """Bounds the bytes of requests in memory between their arrival and their response.

    Waiting here stops the reading of a call, which stops its client through gRPC's flow control. Used on one
    event loop, without locks; only ``leave`` may be called from any thread.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._left: deque[int] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def enter(self, size: int) -> None:
        """Wait for space; a request larger than the window enters alone."""
        self._count_left()
        if not self._waiting and self._fits(size):
            self._bytes += size
            return
        self._loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append((size, turn))
        # From here on ``leave`` sees this waiter. A ``leave`` just before did not, so look again.
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            # Return the space it may have got, and admit the waiters that were queued after it.
            if turn.done() and not turn.cancelled():
                self._bytes -= size
            self._admit()
            raise

    def leave(self, size: int) -> None:
        """Return space; wakes the event loop only if a request waits for it."""
        self._left.append(size)
        if self._waiting and self._loop is not None:
            self._loop.call_soon_threadsafe(self._admit)

    def _admit(self) -> None:
        """Admit waiting requests in order, as far as there is space."""
        self._count_left()
        while self._waiting:
            wanted, turn = self._waiting[0]
            if turn.done():
                self._waiting.popleft()
            elif self._fits(wanted):
                self._waiting.popleft()
                self._bytes += wanted
                turn.set_result(None)
            else:
                return

    def _count_left(self) -> None:
        while self._left:
            self._bytes -= self._left.popleft()

    def _fits(self, size: int) -> bool:
        return self._bytes == 0 or self._bytes + size <= self._max_bytes
