"""Limits on the bytes that are staged on disk, and on those in memory before they are stored."""

from __future__ import annotations

import asyncio
import threading
from collections import deque

from lode.ingest.status import Code, Refused, invalid


class StagedBytes:
    """Counts the bytes in the logs of all PENDING and BUFFERED streams, and in uploads for jobs.

    Args:
        max_bytes: The limit for all clients together.
        client_bytes: The limit for one client; that of all if not given.
    """

    def __init__(self, max_bytes: int, client_bytes: int | None = None) -> None:
        self._max_bytes = max_bytes
        self._client_bytes = max_bytes if client_bytes is None else min(client_bytes, max_bytes)
        self._of_clients: dict[str, int] = {}
        self._bytes = 0
        self._lock = threading.Lock()

    @property
    def bytes(self) -> int:
        return self._bytes

    def of(self, client: str) -> ClientStaged:
        """What streams and uploads of one client count their bytes with."""
        return ClientStaged(self, client)

    def add(self, size: int, client: str = "") -> None:
        with self._lock:
            self._add(size, client)

    def reserve(self, size: int, client: str = "") -> None:
        """Count rows before they are written, or refuse them: rows in flight need space too."""
        with self._lock:
            refusal = self._refusal(size, client)
            if refusal is None:
                self._add(size, client)
                return
        raise refusal

    def check(self, size: int, client: str = "") -> None:
        """Refuse as many bytes as cannot be reserved now, or ever."""
        if size > self._client_bytes:
            raise invalid(
                f"The file has {size:,} bytes, the limit is {self._client_bytes:,}: send a smaller one."
            )
        with self._lock:
            refusal = self._refusal(size, client)
        if refusal is not None:
            raise refusal

    def _add(self, size: int, client: str) -> None:
        self._bytes += size
        own = self._of_clients.get(client, 0) + size
        if own:
            self._of_clients[client] = own
        else:
            self._of_clients.pop(client, None)

    def _refusal(self, size: int, client: str) -> Refused | None:
        own = self._of_clients.get(client, 0)
        if own + size > self._client_bytes:
            held, whose, limit = own, " of this client", self._client_bytes
        elif self._bytes + size > self._max_bytes:
            held, whose, limit = self._bytes, "", self._max_bytes
        else:
            return None
        return Refused(
            Code.RESOURCE_EXHAUSTED,
            f"{held:,} bytes are staged in PENDING and BUFFERED streams and in uploads{whose}, and this "
            f"request has {size:,}, the limit is {limit:,}: commit or flush some of them, then try again.",
        )


class ClientStaged:
    """The staged bytes of one client, which count in the sum of all."""

    def __init__(self, staged: StagedBytes, client: str) -> None:
        self._staged = staged
        self._client = client

    def add(self, size: int) -> None:
        self._staged.add(size, self._client)

    def reserve(self, size: int) -> None:
        """Count bytes before they are written, or refuse them."""
        self._staged.reserve(size, self._client)


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
