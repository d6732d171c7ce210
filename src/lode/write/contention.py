"""Pace the writers that compete for one pointer.

If every writer swaps as soon as it can, all swaps but one fail, and the last winner tends to win again
because it alone knows the new head. So a writer that met others waits for about one commit, and reads the
head before its next swap. This only spreads the attempts. The swap decides which of them wins.
"""

from __future__ import annotations

from contextlib import contextmanager
from statistics import median
from typing import TYPE_CHECKING, Final, TypeAlias

from lode.format.manifest import crowd_of, rebases_of
from lode.runtime import PARALLEL_SMALL_REQUESTS
from lode.times import rfc3339_to_ns
from lode.write.publish import FIRST_PUT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from lode.read.resolve import AnyManifest
    from lode.runtime import Runtime

Queue: TypeAlias = "Callable[[float, float], AbstractContextManager[None]]"

# Maximum time that a commit waits for other writers.
MAX_PAUSE_SECONDS: Final = 1.0
# How many commits of others a writer of a local store remembers: half of them after each commit of its own.
MAX_CONTENDERS: Final = 16
# After how many commits in a row without another writer this one counts as alone.
MAX_ALONE: Final = 3
# After how many rebases of one commit, and after how large a group, the writers commit together. Two writers
# are faster one by one. And how old such a commit may be, in seconds, or in groups where these take long.
MIN_REBASES: Final = 2
MIN_GROUP: Final = 3
MAX_CROWD_AGE_SECONDS: Final = 2.0
MAX_CROWD_AGE_GROUPS: Final = 5
# In a crowd, for how many writes after it was read a head is probably still the newest.
MAX_FRESH_WRITES: Final = 3
# How long a group takes, in writes: a constant part, and a part for each 64 members, which a leader serves at
# a time. And its upper limit.
WRITES_PER_GROUP: Final = 7
WRITES_PER_BATCH: Final = 3.5
MAX_GROUP_SECONDS: Final = 20.0
# When a leader looks whether all members are there, and how long it waits for them, as parts of that.
EARLY: Final = (0.25, 0.1, 0.1, 0.1)
GATHER: Final = 1.0
# When a member looks for the result, as parts of that too. In the next group it looks after this part of its
# last wait, but not more than so many requests sooner.
FIRST_LOOK: Final = 0.9
SOONER: Final = 0.7
MAX_SOONER: Final = 3
NEXT_LOOK: Final = 0.12
NEXT_LOOKS: Final = 10
LATE_LOOKS: Final = 13
# How many writes a member needs from the head to its slot.
WRITES_BEFORE_SLOT: Final = 3
# How long a leader waits again while many members are missing, and how often.
EXTENSION: Final = 0.4
MAX_EXTENSIONS: Final = 3
# The slot of the leader.
LEADER: Final = 0
# Minimum interval between lock attempts.
MIN_LOCK_INTERVAL_SECONDS: Final = 0.0005


def crowd_after(crowd: int, size: int) -> int:
    """How many writers to expect after a group of this size.

    A small group among large ones does not show that most writers have stopped, but several do.
    """
    return max(size, crowd * 7 // 8 if 4 * size > crowd else crowd // 2)


class Contention:
    """What one process has observed of the other writers of its pointer.

    Args:
        runtime: Clock, sleep and randomness.
        nearby: Whether reading the head costs almost nothing. Then there is nothing to spread, and it never
            waits.
        queue: A lock for the writers of a local store, which wait in it instead.
    """

    def __init__(self, runtime: Runtime, *, nearby: bool, queue: Queue | None = None) -> None:
        self._runtime = runtime
        self._nearby = nearby
        self._queue = queue
        # How many commits of others this process remembers, and how many of its own in a row had none between
        # them.
        self._contenders = 0
        self._alone = 0
        # Duration of one commit of this process, from reading the head to publishing.
        self._slot = 0.0
        # When the next turn of this process begins, and when the current attempt began.
        self._turn = 0.0
        self._began = 0.0
        # Duration of a small write and of a small read, and when the cached head was read.
        self._write = 0.0
        self._read = 0.0
        self._learned = 0.0
        # How long members wait before they look: None before the first group.
        self._wait: float | None = None

    def is_crowd(self, head: AnyManifest) -> bool:
        """Whether the head was committed among so many writers that they should commit together."""
        if self._nearby or (crowd_of(head.x) < MIN_GROUP and rebases_of(head.x) < MIN_REBASES):
            return False
        age = self._runtime.now_ns() - rfc3339_to_ns(head.created_at)
        return age < max(MAX_CROWD_AGE_SECONDS, MAX_CROWD_AGE_GROUPS * self._work(crowd_of(head.x))) * 1e9

    @property
    def request_seconds(self) -> float:
        """How long a small write takes, or a small read where that takes longer."""
        return max(self._write, self._read)

    def observe_write(self, seconds: float) -> None:
        """Record how long a small write took."""
        self._write = seconds if not self._write else (3 * self._write + seconds) / 4

    def observe_read(self, seconds: float) -> None:
        """Record how long a small read took."""
        self._read = seconds if not self._read else (3 * self._read + seconds) / 4

    def observe_group(self, writes: list[float]) -> None:
        """Record how long a small write takes each writer of a group that this process leads.

        A leader writes when the others do not, so its own writes are fast. The times of a group depend on
        those of all.
        """
        if writes:
            self._write = min(max(median(writes), 0.0), MAX_PAUSE_SECONDS)

    def gathering(self, crowd: int) -> Iterator[tuple[float, int]]:
        """How long a leader waits for members, in steps; and with how many it goes on after each of them.

        At first it waits for all, since most come early. In the end three quarters are enough, then any.
        """
        work = self._work(crowd)
        early = EARLY if crowd > 1 else ()
        for part in early:
            yield part * work, crowd
        yield (GATHER - sum(early)) * work, (3 * crowd + 3) // 4
        for _ in range(MAX_EXTENSIONS):
            yield EXTENSION * work, (3 * crowd + 3) // 4

    @property
    def patience(self) -> float:
        """How much longer a leader waits for a member that was late for the last groups."""
        return WRITES_BEFORE_SLOT * self.request_seconds

    def pauses(self, crowd: int, slot: int | None, *, late: bool) -> Iterator[float]:
        """How long to wait for a group, in steps; a member looks after each of them.

        Args:
            crowd: How many writers are expected.
            slot: The slot of this writer, if it has one.
            late: Whether this writer came too late for the last group. Then it looks more often, so that it
                is not late for the next one too.
        """
        work = self._work(crowd)
        if not late:
            yield self._first_pause(work)
        for _ in range(LATE_LOOKS if late else NEXT_LOOKS):
            yield NEXT_LOOK * work
        # The leader is late or has died. The first of those that wait leads, not all at once.
        for _ in range(1 + min((crowd if slot is None else slot) // 2, MAX_CONTENDERS)):
            yield work

    def observe_wait(self, seconds: float, looks: int) -> None:
        """Record how long this process waited for a group, and how often it had looked in vain."""
        waited = seconds if looks or self._wait is None else self._wait
        self._wait = max(SOONER * waited, waited - MAX_SOONER * self.request_seconds)

    def _first_pause(self, work: float) -> float:
        if self._wait is not None:
            return min(self._wait, work)
        # The leader counts from the head too. So a member that came late looks soon.
        due = self._learned + WRITES_BEFORE_SLOT * self.request_seconds + FIRST_LOOK * work
        return max(due - self._runtime.monotonic(), NEXT_LOOK * work)

    def _work(self, crowd: int) -> float:
        """How long a group of this size takes. Bounded, because the size is what a manifest claims."""
        writes = WRITES_PER_GROUP + WRITES_PER_BATCH * crowd / PARALLEL_SMALL_REQUESTS
        # A writer that begins knows no time. Without one it would take a large group that is still gathering
        # for one of long ago, swap alone, and make all its members wait again.
        return min((self.request_seconds or FIRST_PUT_SECONDS) * writes, MAX_GROUP_SECONDS)

    @contextmanager
    def hold_turn(self, head: AnyManifest | None) -> Iterator[bool]:
        """Hold this writer's turn for one commit. Yields True if the cached head is certainly stale.

        Args:
            head: The cached head. If it is of a group, there are no turns: all commit together.
        """
        if head is not None and self.is_crowd(head):
            self._began = self._runtime.monotonic()
            yield self._began - self._learned > MAX_FRESH_WRITES * self.request_seconds
            return
        if self._queue is None or not self._contenders:
            yield self._begin()
            return
        with self._queue(MAX_PAUSE_SECONDS, max(self._slot / 2, MIN_LOCK_INTERVAL_SECONDS)):
            yield self._begin()

    def _begin(self) -> bool:
        if self._contenders:
            self._pause(self._turn - self._runtime.monotonic())
        self._began = self._runtime.monotonic()
        return self._contenders > 0

    @property
    def is_unaware(self) -> bool:
        """Whether this process has committed just now and knows of no other writer."""
        if self._nearby or self._contenders:
            return False
        return self._runtime.monotonic() - self._learned < MAX_CROWD_AGE_SECONDS

    def give_way(self) -> None:
        """Give another writer time for one commit, and expect it from now on."""
        self._contenders = max(self._contenders, 1)
        self._pause(2 * self._slot)

    def lose(self) -> None:
        """Record that the attempt has lost, and the next one begins."""
        self._began = self._runtime.monotonic()

    def observe(self, commits: int) -> None:
        """Record how many commits of others happened since this process last committed."""
        # Some wins in a row do not prove that the other writers have stopped: they may just lose each time.
        self._alone = 0 if commits else self._alone + 1
        is_unsure = self._alone < MAX_ALONE and not self._nearby
        least = min(self._contenders, 1) if is_unsure else 0
        # Far away, the commits of one writer that wins again and again look like those of many.
        most = MAX_CONTENDERS if self._nearby else 1
        self._contenders = max(min(commits, most), self._contenders // 2, least)
        self._learned = self._runtime.monotonic()

    def end_turn(self, commits: int) -> None:
        """Record a commit of this process. If there are others, one of them has the next turn."""
        self.observe(commits)
        now = self._runtime.monotonic()
        took = now - self._began
        self._slot = took if not self._slot else (3 * self._slot + took) / 4
        self._turn = now + min(self._contenders, 1) * self._slot * (1 + self._runtime.random()) / 2

    def _pause(self, seconds: float) -> None:
        if seconds > 0 and not self._nearby:
            self._runtime.sleep(min(seconds, MAX_PAUSE_SECONDS))
