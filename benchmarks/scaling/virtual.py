"""Virtual time: programs that wait for a store run beside each other as fast as they can be computed.

One program runs at a time. A program that waits sleeps until its time has come, and wakes the next one. So
thousands of writers fit on one core, nothing depends on how busy the machine is, and a seed replays.
"""

from __future__ import annotations

import random
from contextlib import suppress
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, TypeVar

from greenlet import getcurrent, greenlet

from lode.runtime import PARALLEL_REQUESTS, PARALLEL_SMALL_REQUESTS, Runtime
from lode.store.wrappers import StoreWrapper

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lode.store.protocol import Store

T = TypeVar("T")
R = TypeVar("R")

# What a small request takes on an object store, in seconds: an assumption, of the order S3 shows.
READ = 0.015
WRITE = 0.030
# A call takes between half and one and a half times that.
SPREAD = 0.5

_WRITES = frozenset({"put", "compare_and_swap", "delete", "open_writer", "commit"})


class Over(BaseException):
    """Enough was seen. It is no Exception, so that nothing on the way out holds it up."""


class _Program(greenlet):
    """One of the programs that run beside each other, or a part of one that does its requests in parallel."""

    part = False


class VirtualTime:
    """A clock that jumps to the next thing that happens.

    Programs are greenlets: to switch between threads takes longer than what they compute.
    """

    def __init__(self, seed: int = 0) -> None:
        self.now = 0.0
        self.chance = random.Random(seed)
        self._over = False
        self._waiting: list[tuple[float, int, greenlet]] = []
        self._turns = count()
        self._clock = getcurrent()

    def run(self, programs: Sequence[Callable[[], object]]) -> None:
        """Run the programs beside each other until all of them have ended, or ``end`` was called."""
        self._clock = getcurrent()
        for program in programs:
            self._start(program)
        try:
            while self._waiting and not self._over:
                self.now, _, woken = heappop(self._waiting)
                woken.switch()
        finally:
            self._over = True
            # One that was stopped may be waiting a second time: for the parts of its work.
            while self._waiting:
                _, _, stopped = heappop(self._waiting)
                if not stopped.dead:
                    stopped.throw(Over)

    def sleep(self, seconds: float) -> None:
        """Wait in virtual time."""
        if self._over:
            raise Over
        self._wake(getcurrent(), seconds)
        self._wait()

    def each(
        self, task: Callable[[T], R], items: Iterable[T], *, parallel: int = PARALLEL_REQUESTS
    ) -> list[R]:
        """Run ``task`` over the items, several at once, as the library does with its threads."""
        work = list(enumerate(items))
        caller = getcurrent()
        if len(work) < 2 or getattr(caller, "part", False):
            return [task(item) for _, item in work]
        results: dict[int, R] = {}
        errors: list[Exception] = []
        queue = iter(work)
        running = min(len(work), parallel)

        def labour() -> None:
            nonlocal running
            try:
                for place, item in queue:
                    results[place] = task(item)
            except Exception as error:
                errors.append(error)
            finally:
                running -= 1
                if not running:
                    self._wake(caller)

        for _ in range(running):
            self._start(labour, part=True)
        self._wait()
        if errors:
            raise errors[0]
        return [results[place] for place, _ in work]

    def end(self) -> None:
        """Stop every program where it is."""
        self._over = True

    def runtime(self) -> Runtime:
        """What the library takes from the world, in this time and by this seed.

        Chores are left out: they run beside a commit, not in it.
        """
        return Runtime(
            now_ns=lambda: int(self.now * 1e9),
            monotonic=lambda: self.now,
            sleep=self.sleep,
            random=self.chance.random,
            random_bits=self.chance.getrandbits,
            each=self.each,
            each_small=partial(self.each, parallel=PARALLEL_SMALL_REQUESTS),
            background=lambda _: None,
        )

    def _start(self, program: Callable[[], object], *, part: bool = False) -> None:
        started = _Program(_until_over(program), self._clock)
        started.part = part
        self._wake(started)

    def _wake(self, program: greenlet, seconds: float = 0.0) -> None:
        heappush(self._waiting, (self.now + seconds, next(self._turns), program))

    def _wait(self) -> None:
        """Let others run until this program is woken."""
        if self._over:
            raise Over
        self._clock.switch()


def _until_over(program: Callable[[], object]) -> Callable[[], None]:
    def run() -> None:
        with suppress(Over):
            program()

    return run


class VirtualStore(StoreWrapper):
    """A store whose calls take their time, virtually, and are counted."""

    nearby = False

    def __init__(
        self,
        inner: Store,
        time: VirtualTime,
        *,
        read: float = READ,
        write: float = WRITE,
        spread: float = SPREAD,
    ) -> None:
        super().__init__(inner)
        self._time = time
        self._seconds = (read, write)
        self._spread = spread
        self.reads = 0
        self.writes = 0

    def around(self, method: str, path: str, call: Callable[[], T]) -> T:
        writing = method in _WRITES
        self.writes += writing
        self.reads += not writing
        chance = self._time.chance.uniform(1 - self._spread, 1 + self._spread)
        self._time.sleep(self._seconds[writing] * chance)
        return call()
