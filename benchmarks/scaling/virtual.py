"""Virtual time: programs that wait for a store run beside each other as fast as they can be computed.

One program runs at a time. Whoever waits is put to sleep until its moment and wakes whoever is next. So
thousands of writers fit on one core, nothing depends on how busy the machine is, and a seed replays.
"""

from __future__ import annotations

import random
import threading
from contextlib import suppress
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, TypeVar

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
_STACK = 256 << 10


class Over(BaseException):
    """Enough was seen. It is no Exception, so that nothing on the way out holds it up."""


class VirtualTime:
    """A clock that jumps to the next thing that happens."""

    def __init__(self, seed: int = 0) -> None:
        self.now = 0.0
        self.chance = random.Random(seed)
        self._over = False
        self._waiting: list[tuple[float, int, threading.Lock]] = []
        self._turns = count()
        self._mine = threading.local()

    def run(self, programs: Sequence[Callable[[], object]]) -> None:
        """Run the programs beside each other until all of them have ended, or ``end`` was called."""
        usual = threading.stack_size(_STACK)
        threads = []
        for program in programs:
            gate = _closed()
            heappush(self._waiting, (self.now, next(self._turns), gate))
            threads.append(threading.Thread(target=self._live, args=(program, gate)))
            threads[-1].start()
        threading.stack_size(usual)
        self._wake_next()
        for thread in threads:
            thread.join()

    def sleep(self, seconds: float) -> None:
        """Wait in virtual time."""
        if self._over:
            raise Over
        gate: threading.Lock = self._mine.gate
        heappush(self._waiting, (self.now + seconds, next(self._turns), gate))
        self._wake_next()
        gate.acquire()
        if self._over:
            raise Over

    def each(
        self, task: Callable[[T], R], items: Iterable[T], *, parallel: int = PARALLEL_REQUESTS
    ) -> list[R]:
        """Run ``task`` over the items, several at once, as the library does with its threads."""
        work = list(enumerate(items))
        if len(work) < 2 or getattr(self._mine, "worker", False):
            return [task(item) for _, item in work]
        results: dict[int, R] = {}
        queue = iter(work)
        running = min(len(work), parallel)
        gate: threading.Lock = self._mine.gate

        def labour() -> None:
            nonlocal running
            self._mine.worker = True
            try:
                for place, item in queue:
                    results[place] = task(item)
            finally:
                running -= 1
                if not running:
                    heappush(self._waiting, (self.now, next(self._turns), gate))

        usual = threading.stack_size(_STACK)
        for _ in range(running):
            own = _closed()
            heappush(self._waiting, (self.now, next(self._turns), own))
            threading.Thread(target=self._live, args=(labour, own), daemon=True).start()
        threading.stack_size(usual)
        self._wake_next()
        gate.acquire()
        if self._over:
            raise Over
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

    def _live(self, program: Callable[[], object], gate: threading.Lock) -> None:
        self._mine.gate = gate
        gate.acquire()
        with suppress(Over):
            program()
        if self._waiting:
            self._wake_next()

    def _wake_next(self) -> None:
        self.now, _, gate = heappop(self._waiting)
        gate.release()


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


def _closed() -> threading.Lock:
    gate = threading.Lock()
    gate.acquire()
    return gate
