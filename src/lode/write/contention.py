"""Take turns at a pointer that many want to move.

When everybody tries at once, all but one try in vain, and who has just won is the quickest to win again. So
in a crowd a writer lets as many others pass as passed between its last two commits, then looks before it
tries. That only spreads attempts out; which of them wins is the swap's to decide.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from lode.runtime import Runtime

Queue: TypeAlias = "Callable[[float, float], AbstractContextManager[None]]"

# The longest a commit steps back for others, in seconds.
LONGEST_PAUSE = 1.0
# A writer that is further behind than this has been away; it is no measure of how many are at it now.
LARGEST_CROWD = 16
# How long who stands in line looks away at least, in seconds.
SHORTEST_INTERVAL = 0.0005


class Turns:
    """What one process has learned about the others at its pointer.

    Where a look costs next to nothing (``nearby``) there is nothing to spread, and it never waits; on a disk
    (``queue``) it stands in line instead.
    """

    def __init__(self, runtime: Runtime, *, nearby: bool, queue: Queue | None = None) -> None:
        self._runtime = runtime
        self._nearby = nearby
        self._queue = queue
        # How many others commit between two commits of this process.
        self._crowd = 0
        # How long the pointer is one writer's: from its look at the head to its publication.
        self._slot = 0.0
        self._turn = 0.0
        self._looked = 0.0

    @contextmanager
    def in_line(self) -> Iterator[bool]:
        """Be in turn for one commit; True if others have surely moved the pointer since our last look."""
        if self._queue is None or not self._crowd:
            yield self._begin()
            return
        with self._queue(LONGEST_PAUSE, max(self._slot / 2, SHORTEST_INTERVAL)):
            yield self._begin()

    def _begin(self) -> bool:
        """Wait for our turn; True if others have surely moved the pointer since this process looked."""
        if self._crowd:
            self._pause(self._turn - self._runtime.monotonic())
        self._looked = self._runtime.monotonic()
        return self._crowd > 0

    def step_back(self, attempts: int) -> None:
        """After a lost swap wait a random part of a round, much less if this commit has lost before."""
        if self._crowd > 1:
            slot = self._slot or self._runtime.monotonic() - self._looked
            self._pause(self._runtime.random() * self._crowd * slot / attempts**2)
        self._looked = self._runtime.monotonic()

    def met(self, rivals: int) -> None:
        """Take note of how many others have committed since this process last did."""
        # Halved, not forgotten: who slipped in twice in a row is not alone yet.
        self._crowd = max(min(rivals, LARGEST_CROWD), self._crowd // 2)

    def done(self, rivals: int) -> None:
        """We have committed: the next turn is ours when the others have had theirs."""
        self.met(rivals)
        now = self._runtime.monotonic()
        took = now - self._looked
        self._slot = took if not self._slot else (3 * self._slot + took) / 4
        self._turn = now + self._crowd * self._slot * (1 + self._runtime.random()) / 2

    def _pause(self, seconds: float) -> None:
        if seconds > 0 and not self._nearby:
            self._runtime.sleep(min(seconds, LONGEST_PAUSE))
