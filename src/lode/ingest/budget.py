"""Bounds: how much may be staged on disk, and how much may be in memory on its way there."""

from __future__ import annotations

import asyncio
import threading
from collections import deque

from lode.ingest.status import Code, Refused


class StagedBytes:
    """What PENDING and BUFFERED streams have in their logs together."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._bytes = 0
        self._lock = threading.Lock()

    @property
    def bytes(self) -> int:
        return self._bytes

    def add(self, size: int) -> None:
        with self._lock:
            self._bytes += size

    def check(self) -> None:
        if self._bytes >= self._most:
            raise Refused(
                Code.RESOURCE_EXHAUSTED,
                f"{self._bytes:,} bytes are staged in PENDING and BUFFERED streams, the limit is "
                f"{self._most:,}: commit or flush some of them, then try again.",
            )


class Window:
    """How many bytes of requests may be in memory between their arrival and their answer.

    Waiting here stops the reading of a call, which stops its client by gRPC's own flow control. Used on one
    event loop, without locks.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._bytes = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def enter(self, size: int) -> None:
        """Wait for room; a request larger than all of it is let in alone."""
        if not self._waiting and self._fits(size):
            self._bytes += size
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            # What it was given goes back, and those behind it need not wait for it any more.
            self.leave(size if turn.done() and not turn.cancelled() else 0)
            raise

    def leave(self, size: int) -> None:
        self._bytes -= size
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

    def _fits(self, size: int) -> bool:
        return self._bytes == 0 or self._bytes + size <= self._most
