"""Group work: what arrives while a piece of work is under way is done together in the next one.

No timer: a lone item is worked on at once, a crowd shares. One group is worked on at a time, in the order
of arrival, on a thread that is taken only while there is something to do.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
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
        while group := self._next():
            try:
                self._work(group)
            except Exception:  # a broken group must not stop those behind it
                logger.exception("a group of %d items failed without an answer", len(group))

    def _next(self) -> list[T]:
        with self._lock:
            group: list[T] = []
            weight = 0
            while self._waiting and (not group or weight + self._weigh(self._waiting[0]) <= self._most):
                item = self._waiting.popleft()
                weight += self._weigh(item)
                group.append(item)
            if not group:
                self._working = False
                self._idle.notify_all()
            return group
