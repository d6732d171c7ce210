"""Group work: what arrives while a piece of work is under way is done together in the next one.

No timer: a lone item is worked on at once, a crowd shares. One group is worked on at a time, in the order
of arrival, on a thread that is taken only while there is something to do.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

T = TypeVar("T")
logger = logging.getLogger("lode.ingest")


class Group(Generic[T]):
    """A queue whose items are handed to ``work`` in groups of at most ``most`` weight.

    Args:
        pool: Where the work runs.
        work: Does one group, and answers each of its items, whatever happens.
        weigh: The weight of an item; one item alone may be over the limit.
        most: The weight at which a group is full.
    """

    def __init__(
        self, pool: Executor, work: Callable[[list[T]], None], *, weigh: Callable[[T], int], most: int
    ) -> None:
        self._pool = pool
        self._work = work
        self._weigh = weigh
        self._most = most
        self._waiting: deque[T] = deque()
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._working = False

    def put(self, item: T) -> None:
        """Queue an item; work on it begins at once if none is under way."""
        with self._lock:
            self._waiting.append(item)
            if self._working:
                return
            self._working = True
        self._pool.submit(self._drain)

    def wait(self) -> None:
        """Return when everything that was queued is done."""
        with self._idle:
            self._idle.wait_for(lambda: not self._working)

    def _drain(self) -> None:
        while True:
            group = self._next()
            try:
                self._work(group)
            except Exception:  # a broken group must not stop those behind it
                logger.exception("a group of %d items failed without an answer", len(group))
            del group  # before it waits for a thread
            if self._is_done():
                return
            # Behind whoever else waits for a thread: a queue that is never empty must not keep one.
            with suppress(RuntimeError):  # the pool is closing: what is left is done here
                self._pool.submit(self._drain)
                return

    def _next(self) -> list[T]:
        with self._lock:
            group = [self._waiting.popleft()]
            weight = self._weigh(group[0])
            while self._waiting and weight + self._weigh(self._waiting[0]) <= self._most:
                weight += self._weigh(self._waiting[0])
                group.append(self._waiting.popleft())
            return group

    def _is_done(self) -> bool:
        with self._lock:
            self._working = bool(self._waiting)
            if not self._working:
                self._idle.notify_all()
            return not self._working
