"""Threads that start together."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def race(racers: int, run: Callable[[int], T]) -> list[T]:
    """Run ``run(0)``, ``run(1)``, … in threads that all start together; return what they returned.

    Args:
        racers: How many threads.
        run: What each runs, with its number.
    """
    barrier = threading.Barrier(racers)

    def start(number: int) -> T:
        barrier.wait()
        return run(number)

    with ThreadPoolExecutor(racers) as pool:
        return list(pool.map(start, range(racers)))
