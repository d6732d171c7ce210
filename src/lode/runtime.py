"""What the library takes from the world: time, sleep, chance and threads. Simulations bring their own."""

from __future__ import annotations

import os
import random
import secrets
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar
from weakref import WeakSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")
R = TypeVar("R")


WORKER = "lode-io"
# Requests that a process sends at once: of any kind, and of those for small objects.
PARALLEL_REQUESTS = 16
PARALLEL_SMALL_REQUESTS = 64


@cache
def _workers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(PARALLEL_REQUESTS, thread_name_prefix=WORKER)


@cache
def _small_workers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(PARALLEL_SMALL_REQUESTS, thread_name_prefix=WORKER)


@cache
def _chores() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="lode-chores")


class ProcessLock:
    """A lock for the threads of one process: in a forked child, where its holder does not run, it is free."""

    _all: ClassVar[WeakSet[ProcessLock]] = WeakSet()

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def is_held(self) -> bool:
        return self._lock.locked()

    @classmethod
    def renew_all(cls) -> None:
        for lock in list(cls._all):
            lock._lock = threading.Lock()


def _forget_threads() -> None:
    """A forked child has none of its parent's threads."""
    _workers.cache_clear()
    _small_workers.cache_clear()
    _chores.cache_clear()
    ProcessLock.renew_all()


os.register_at_fork(after_in_child=_forget_threads)


def one_by_one(task: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Run ``task`` over the items on this thread."""
    return [task(item) for item in items]


def _in_threads(task: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Run ``task`` over the items, several at once; a single item stays on this thread.

    An error is raised only when all are done, so that a cleanup finds nothing that is still running.
    """
    return _in_pool(_workers, task, items)


def _in_many_threads(task: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """The same with more threads, for requests that carry little."""
    return _in_pool(_small_workers, task, items)


def _in_pool(pool: Callable[[], ThreadPoolExecutor], task: Callable[[T], R], items: Iterable[T]) -> list[R]:
    work = list(items)
    # A worker that waited for other workers could wait without end: inside one, work stays where it is.
    if len(work) < 2 or threading.current_thread().name.startswith(WORKER):
        return [task(item) for item in work]
    futures = [pool().submit(task, item) for item in work]
    wait(futures)
    return [future.result() for future in futures]


def _in_background(chore: Callable[[], Any]) -> None:
    _chores().submit(chore)


@dataclass(frozen=True, slots=True, repr=False)
class Runtime:
    """Clock, sleep, randomness and threads, in one place so that a seed replays exactly."""

    # Factories, because help() shows the defaults of a signature, and a function by its address.
    now_ns: Callable[[], int] = field(default_factory=lambda: time.time_ns)
    monotonic: Callable[[], float] = field(default_factory=lambda: time.monotonic)
    sleep: Callable[[float], None] = field(default_factory=lambda: time.sleep)
    random: Callable[[], float] = field(default_factory=lambda: random.random)
    random_bits: Callable[[int], int] = field(default_factory=lambda: secrets.randbits)
    each: Callable[[Callable[[Any], Any], Iterable[Any]], list[Any]] = field(
        default_factory=lambda: _in_threads
    )
    each_small: Callable[[Callable[[Any], Any], Iterable[Any]], list[Any]] = field(
        default_factory=lambda: _in_many_threads
    )
    background: Callable[[Callable[[], Any]], None] = field(default_factory=lambda: _in_background)

    def __repr__(self) -> str:
        # It is a default in public signatures, which help() shows: eight functions by address are no help.
        return "lode.runtime.REAL" if self == REAL else object.__repr__(self)

    def __reduce__(self) -> str:
        # The real one is the same in every process; a simulation stays in its own.
        return "REAL"


REAL = Runtime()
