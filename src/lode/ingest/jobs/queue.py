"""The queue of all work that the bytes of clients decide: jobs, dry runs, conditions of reads.

There are slots for each kind of work. One client gets all of them but one, so that another never waits for a
single client, and clients that wait take turns.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict, deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lode.ingest.status import Code, Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Work that waits, in all and of one client.
MAX_WAITING: Final = 1000
MAX_WAITING_OF_CLIENT: Final = 250
# How long a call waits for a slot. Its client waits for the answer, and has no job that it could ask about.
_CALL_SECONDS: Final = 60.0
_WAKE_SECONDS: Final = 0.1
# Threads that wait for work of one kind, in all and of one client: others serve other calls.
MAX_BLOCKED: Final = 16
MAX_BLOCKED_OF_CLIENT: Final = 8


class _Waiting(NamedTuple):
    future: Future[Any]
    run: Callable[[], Any]


@dataclass(slots=True)
class _Kind:
    """The slots of one kind of work, and who waits for them."""

    slots: int
    threads: ThreadPoolExecutor
    running: Counter[str] = field(default_factory=Counter)
    blocked: Counter[str] = field(default_factory=Counter)
    # By client, the one whose turn is next first.
    waiting: OrderedDict[str, deque[_Waiting]] = field(default_factory=OrderedDict)

    @property
    def share(self) -> int:
        """The slots that one client may have."""
        return max(1, self.slots - 1)

    def take(self) -> tuple[str, _Waiting] | None:
        """The next work that may begin; it has a slot then."""
        if self.running.total() >= self.slots:
            return None
        for client, waiting in self.waiting.items():
            if self.running[client] < self.share:
                found = waiting.popleft()
                self.waiting.move_to_end(client)
                if not waiting:
                    del self.waiting[client]
                self.running[client] += 1
                return client, found
        return None

    def drop_cancelled(self) -> None:
        """Forget work that was cancelled while it waited."""
        for client, waiting in list(self.waiting.items()):
            kept = [each for each in waiting if not each.future.cancelled()]
            if not kept:
                del self.waiting[client]
            elif len(kept) < len(waiting):
                self.waiting[client] = deque(kept)

    def leave(self, client: str) -> None:
        self.running[client] -= 1
        if not self.running[client]:
            del self.running[client]


class WorkQueue:
    """Admits work of clients. Thread-safe."""

    def __init__(self) -> None:
        self._kinds: dict[str, _Kind] = {}
        self._lock = threading.Lock()
        self._is_closed = False

    def add_kind(self, kind: str, slots: int) -> None:
        """Set how much work of a kind may run at the same time."""
        self._kinds[kind] = _Kind(slots, ThreadPoolExecutor(slots, thread_name_prefix=f"lode-{kind}"))

    def submit(self, kind: str, client: str, run: Callable[[], Any]) -> Future[Any]:
        """Run a function on a thread when there is a slot. Its future can be cancelled until it begins.

        Raises:
            Refused: RESOURCE_EXHAUSTED if too much work waits, of this client or in all.
        """
        made = _Waiting(Future(), run)
        with self._lock:
            self._check(client)
            self._kinds[kind].waiting.setdefault(client, deque()).append(made)
        self._dispatch(kind)
        return made.future

    @contextmanager
    def blocking(self, kind: str, client: str) -> Iterator[None]:
        """Count a thread that waits for work of a client, or refuse it if too many wait."""
        blocked = self._kinds[kind].blocked
        with self._lock:
            if blocked[client] >= MAX_BLOCKED_OF_CLIENT or blocked.total() >= MAX_BLOCKED:
                raise Refused(
                    Code.RESOURCE_EXHAUSTED,
                    "Too many requests of this client or of others are computed at once: try again later.",
                )
            blocked[client] += 1
        try:
            yield
        finally:
            with self._lock:
                blocked[client] -= 1
                if not blocked[client]:
                    del blocked[client]

    @contextmanager
    def slot(self, kind: str, client: str) -> Iterator[None]:
        """Wait for a slot on this thread, and hold it for a ``with`` block."""
        entered, left = threading.Event(), threading.Event()

        def hold() -> None:
            entered.set()
            left.wait()

        with self.blocking(kind, client):
            future = self.submit(kind, client, hold)
            until = time.monotonic() + _CALL_SECONDS
            while not entered.wait(_WAKE_SECONDS):
                if (self._is_closed or time.monotonic() > until) and (future.cancel() or future.cancelled()):
                    raise (
                        _stopping()
                        if self._is_closed
                        else Refused(
                            Code.RESOURCE_EXHAUSTED,
                            "Other requests of this client or of others are still computed: try again later.",
                        )
                    )
            try:
                yield
            finally:
                left.set()

    def stop(self) -> None:
        """Begin nothing more. What waits on a thread is refused."""
        with self._lock:
            self._is_closed = True

    def close(self) -> None:
        """Begin nothing more, and wait for what runs."""
        with self._lock:
            self._is_closed = True
            kinds = list(self._kinds.values())
            waiting = [each for kind in kinds for own in kind.waiting.values() for each in own]
            for kind in kinds:
                kind.waiting.clear()
        for each in waiting:
            each.future.cancel()
        for name, kind in self._kinds.items():
            # Those that hold a slot are ended with their processes.
            kind.threads.shutdown(wait=name not in ("check", "condition"))

    # -- internals -----------------------------------------------------------------------------

    def _check(self, client: str) -> None:
        if self._is_closed:
            raise _stopping()
        kinds = self._kinds.values()
        for kind in kinds:
            kind.drop_cancelled()
        own = sum(len(kind.waiting.get(client, ())) for kind in kinds)
        total = sum(len(each) for kind in kinds for each in kind.waiting.values())
        for count, most, whose in ((own, MAX_WAITING_OF_CLIENT, " of this client"), (total, MAX_WAITING, "")):
            if count >= most:
                raise Refused(
                    Code.RESOURCE_EXHAUSTED,
                    f"{count} requests{whose} are waiting, the limit is {most}: wait for some of them, then "
                    "try again.",
                )

    def _dispatch(self, kind: str) -> None:
        """Begin what may begin."""
        own = self._kinds[kind]
        while True:
            with self._lock:
                found = None if self._is_closed else own.take()
                if found is None:
                    return
                client, work = found
                if not work.future.set_running_or_notify_cancel():
                    own.leave(client)
                    continue
                own.threads.submit(self._run, kind, client, work)

    def _run(self, kind: str, client: str, work: _Waiting) -> None:
        try:
            found = work.run()
        except BaseException as error:
            work.future.set_exception(error)
        else:
            work.future.set_result(found)
        finally:
            with self._lock:
                self._kinds[kind].leave(client)
            self._dispatch(kind)

    def counts(self) -> dict[str, Any]:
        """What runs and waits, by kind, for metrics."""
        with self._lock:
            return {
                name: (kind.running.total(), sum(map(len, kind.waiting.values())))
                for name, kind in self._kinds.items()
            }


def _stopping() -> Refused:
    return Refused(Code.UNAVAILABLE, "The server stops: try again.")
