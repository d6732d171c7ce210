"""Readiness: the lake exists, is writable, and is the one that the server was started on."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

from lode.errors import StoreError
from lode.ingest.catalog.lake import Lake

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lode.store.protocol import Store

T = TypeVar("T")

# An answer is reused for the first, and awaited for the second.
MAX_AGE_SECONDS: Final = 1.0
MAX_WAIT_SECONDS: Final = 2.0
MAX_START_SECONDS: Final = 30.0


class Readiness:
    """Whether the server accepts writes, cached for one second. For the server's event loop only.

    Args:
        lake: The lake to check.
        max_wait: The maximum time for a check, in seconds.
    """

    def __init__(self, lake: Lake, *, max_wait: float = MAX_WAIT_SECONDS) -> None:
        self._lake = lake
        self._max_wait = max_wait
        self._check: Future[str | None] | None = None
        self._started = 0.0
        self.stopping = False

    async def problem(self) -> str | None:
        """Return the reason why the server is not ready; None if it is."""
        if self.stopping:
            return "stopping"
        age = time.monotonic() - self._started
        # One check at a time: a store that hangs must not accumulate threads.
        if self._check is None or (self._check.done() and age > MAX_AGE_SECONDS):
            self._check, self._started, age = in_background(self._lake.problem), time.monotonic(), 0.0
        if not await _is_done(self._check, self._max_wait - age):
            return "the lake does not answer"
        return self._check.result()


async def open_lake(store: Store, state: Path) -> Lake:
    """Open the lake, or raise an error that names it, within half a minute."""
    lake = Lake(store)
    opening = in_background(lambda: lake.open(state))
    if not await _is_done(opening, MAX_START_SECONDS):
        raise StoreError(f"the lake {store.url} does not answer: check its address and its store options")
    opening.result()
    return lake


async def _is_done(future: Future[T], seconds: float) -> bool:
    if not future.done():
        done = asyncio.Event()
        loop = asyncio.get_running_loop()
        # Not asyncio.wrap_future: it would log an exception that only the future itself delivers.
        future.add_done_callback(lambda _: _set_from_thread(loop, done))
        with suppress(TimeoutError):
            await asyncio.wait_for(done.wait(), timeout=max(0.0, seconds))
    return future.done()


def _set_from_thread(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    with suppress(RuntimeError):  # the loop is closed, and no task waits
        loop.call_soon_threadsafe(event.set)


def in_background(work: Callable[[], T]) -> Future[T]:
    """Run ``work`` on a thread that does not keep the process alive: a store may hang for minutes."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="lode-lake", daemon=True).start()
    return future
