"""Take turns at a pointer that many want to move.

When everybody tries at once, all but one try in vain, and who has just won is the quickest to win again. So
in a crowd a writer lets as many others pass as passed between its last two commits, then looks before it
tries. That only spreads attempts out; which of them wins is the swap's to decide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lode.runtime import Runtime

# The longest a commit steps back for others, in seconds.
LONGEST_PAUSE = 1.0
# A writer that is further behind than this has been away; it is no measure of how many are at it now.
LARGEST_CROWD = 16


class Turns:
    """What one process has learned about the others at its pointer.

    Where a look costs next to nothing (``nearby``) there is nothing to spread, and it never waits.
    """

    def __init__(self, runtime: Runtime, *, nearby: bool) -> None:
        self._runtime = runtime
        self._nearby = nearby
        # How many others commit between two commits of this process.
        self._crowd = 0
        # How long the pointer is one writer's: from its look at the head to its publication.
        self._slot = 0.0
        self._turn = 0.0
        self._looked = 0.0

    def begin(self) -> bool:
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
