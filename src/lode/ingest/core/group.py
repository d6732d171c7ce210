"""A queue that processes its items in groups: items that arrive meanwhile share the next group."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

T = TypeVar("T")
logger = logging.getLogger("lode.ingest")

# The longest time that a group waits for the next of the items that it expects.
_MAX_GAP_SECONDS: Final = 0.01
# A group waits for at most so many gaps in all.
_MAX_GAPS: Final = 4
# So many groups are processed on one thread before other queues of the pool have their turn.
_MAX_GROUPS_IN_TURN: Final = 16


def default_gap(seconds: float) -> float:
    """How long a group waits for the next item that it expects, by the time that the last group took."""
    return min(seconds / _MAX_GAPS, _MAX_GAP_SECONDS)


class Group(Generic[T]):
    """A queue that passes its items to ``work`` in groups: items that arrive during one call share the next.

    Groups are processed one at a time, in the order of arrival, on pool threads that are used only while
    there is work.

    With ``prepare`` there are two steps. While ``work`` is busy with one group, the next one is prepared on
    another thread as soon as it is as heavy: smaller groups would make more work than the overlap saves.

    A client with several items in flight sends the next ones when it gets its answers. Its light items would
    fall into two groups that take turns, with twice the work. So a light group is not prepared ahead, and
    after ``expect`` it begins when as many items have arrived, or when none has arrived for a moment. The
    next item of a client with one in flight is all that is expected, so it is processed at once.

    Args:
        pool: Where the work runs.
        work: Processes one group and answers each of its items, also on failure.
        weigh: The weight of an item. A single item may exceed the limit.
        max_weight: The weight at which a group is full.
        prepare: Called with a group before ``work``, which then gets the result. Must not raise.
        light: A group of less weight waits for the items that it expects, and is not prepared ahead.
        gap: How long to wait for the next expected item, by the seconds that the last group took.
    """

    def __init__(
        self,
        pool: Executor,
        work: Callable[[Any], None],
        *,
        weigh: Callable[[T], int],
        max_weight: int,
        prepare: Callable[[list[T]], Any] | None = None,
        light: int = 0,
        gap: Callable[[float], float] = default_gap,
    ) -> None:
        self._pool = pool
        self._work = work
        self._weigh = weigh
        self._max_weight = max_weight
        self._prepare = prepare
        self._light = light
        self._gap = gap
        self._waiting: deque[T] = deque()
        self._waiting_weight = 0
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        # Whether a thread waits for the items of the next group, takes it, prepares it, or waits with it for
        # the work on the last one.
        self._taking = False
        # How many items the next group still expects.
        self._due = 0
        self._complete = threading.Condition(self._lock)
        # The weight of the group that is worked on; None if there is none.
        self._in_work: int | None = None
        # Held during the work on a group.
        self._turn = threading.Lock()

    def put(self, item: T) -> None:
        """Queue an item. Work begins at once if none is in progress."""
        with self._lock:
            self._waiting.append(item)
            self._waiting_weight += self._weigh(item)
            if self._due:
                self._due -= 1
                if not self._must_wait():
                    self._complete.notify()
            if not self._may_take():
                return
            self._taking = True
        self._pool.submit(self._drain)

    def expect(self, count: int) -> None:
        """Let the next group wait a moment for so many items. ``work`` calls it before it answers its own."""
        with self._lock:
            self._due = count

    def wait(self) -> None:
        """Block until the queue is empty and no work is in progress."""
        with self._idle:
            self._idle.wait_for(lambda: not (self._waiting or self._taking or self._in_work is not None))

    def _drain(self) -> None:
        # A queue that is never empty must not occupy a thread forever. The remaining groups are processed
        # here if the pool is shutting down.
        turns = 1
        while self._process_next(turns):
            turns += 1

    def _process_next(self, turns: int) -> bool:
        """Process one group, the last of ``turns`` on this thread; returns whether the next is left to it."""
        group, weight = self._next()
        began = time.monotonic()
        prepared = group if self._prepare is None else self._prepare(group)
        count = len(group)
        del group
        with self._turn:
            with self._lock:
                self._taking = False
                self._in_work = weight
                self._due = 0
            is_left = self._pass_on()
            try:
                self._work(prepared)
            except Exception:  # a failed group must not stop the next ones
                logger.exception("a group of %d items failed without an answer", count)
            del prepared  # free its memory before this queue waits for a thread
            with self._lock:
                self._in_work = None
                if is_left or self._taking:
                    return is_left
                self._taking = True
                self._await_due(self._gap(time.monotonic() - began))
                if self._waiting and turns < _MAX_GROUPS_IN_TURN:
                    return True
                self._taking = False
                if not self._waiting:
                    self._idle.notify_all()
        return self._pass_on()

    def _await_due(self, gap: float) -> None:
        """Wait, with the lock, until a light group has all expected items, or none arrives for a while."""
        end = time.monotonic() + _MAX_GAPS * gap
        while self._must_wait():
            before = self._due
            self._complete.wait(gap)
            if self._due == before or time.monotonic() >= end:
                break
        self._due = 0

    def _must_wait(self) -> bool:
        return self._due > 0 and self._waiting_weight < self._light

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
        if self._in_work is None:
            return True
        return self._prepare is not None and self._waiting_weight >= max(self._in_work, self._light)

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
