"""A queue that processes its items in groups: items that arrive meanwhile share the next group."""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

T = TypeVar("T")
logger = logging.getLogger("lode.ingest")


class Group(Generic[T]):
    """A queue that passes its items to ``work`` in groups: items that arrive during one call share the next.

    There is no timer: a single item is processed at once. Groups are processed one at a time, in the order of
    arrival, on pool threads that are used only while there is work.

    With ``prepare`` there are two steps. While ``work`` is busy with one group, the next one is prepared on
    another thread as soon as it is as heavy: smaller groups would make more work than the overlap saves.

    Args:
        pool: Where the work runs.
        work: Processes one group and answers each of its items, also on failure.
        weigh: The weight of an item. A single item may exceed the limit.
        max_weight: The weight at which a group is full.
        prepare: Called with a group before ``work``, which then gets the result. Must not raise.
    """

    def __init__(
        self,
        pool: Executor,
        work: Callable[[Any], None],
        *,
        weigh: Callable[[T], int],
        max_weight: int,
        prepare: Callable[[list[T]], Any] | None = None,
    ) -> None:
        self._pool = pool
        self._work = work
        self._weigh = weigh
        self._max_weight = max_weight
        self._prepare = prepare
        self._waiting: deque[T] = deque()
        self._waiting_weight = 0
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        # Whether a thread takes the next group, prepares it, or waits with it for the work on the last one.
        self._taking = False
        # The weight of the group that is worked on; None if there is none.
        self._in_work: int | None = None
        # Held during the work on a group.
        self._turn = threading.Lock()

    def put(self, item: T) -> None:
        """Queue an item. Work begins at once if none is in progress."""
        with self._lock:
            self._waiting.append(item)
            self._waiting_weight += self._weigh(item)
            if not self._may_take():
                return
            self._taking = True
        self._pool.submit(self._drain)

    def wait(self) -> None:
        """Block until the queue is empty and no work is in progress."""
        with self._idle:
            self._idle.wait_for(lambda: not (self._waiting or self._taking or self._in_work is not None))

    def _drain(self) -> None:
        # Each group is a task of its own: a queue that is never empty must not occupy a thread forever. The
        # remaining groups are processed here if the pool is shutting down.
        while self._process_next():
            pass

    def _process_next(self) -> bool:
        """Process one group; returns whether the next is left to this thread."""
        group, weight = self._next()
        prepared = group if self._prepare is None else self._prepare(group)
        count = len(group)
        del group
        with self._turn:
            with self._lock:
                self._taking = False
                self._in_work = weight
            is_left = self._pass_on()
            try:
                self._work(prepared)
            except Exception:  # a failed group must not stop the next ones
                logger.exception("a group of %d items failed without an answer", count)
            del prepared  # free its memory before this queue waits for a thread
            with self._lock:
                self._in_work = None
                if not self._waiting and not self._taking:
                    self._idle.notify_all()
        return is_left or self._pass_on()

    def _pass_on(self) -> bool:
        """Let another thread take the next group, if that may be taken; returns whether none could."""
        with self._lock:
            if not self._may_take():
                return False
            self._taking = True
        try:
            self._pool.submit(self._drain)
        except RuntimeError:  # the pool is shutting down
            return True
        return False

    def _may_take(self) -> bool:
        if self._taking or not self._waiting:
            return False
        return self._in_work is None or (self._prepare is not None and self._waiting_weight >= self._in_work)

    def _next(self) -> tuple[list[T], int]:
        with self._lock:
            group: list[T] = []
            weight = 0
            while self._waiting:
                more = self._weigh(self._waiting[0])
                if group and weight + more > self._max_weight:
                    break
                weight += more
                group.append(self._waiting.popleft())
            self._waiting_weight -= weight
            return group, weight
