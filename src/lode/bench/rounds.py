"""Rounds that alternate two operations until the time is over."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from lode.bench.results import Times
from lode.store.wrappers import CountingStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.store.protocol import Store

    Advance = Callable[[int, int | None], None]

LEAST: Final = 5


def take_turns(
    lode: Callable[[], object],
    floor: Callable[[], object],
    *,
    seconds: float,
    most: int,
    least: int = LEAST,
    advance: Advance,
) -> tuple[Times, Times]:
    """Time both operations, each first equally often; return the times of (lode, floor)."""
    taken: dict[Callable[[], object], list[float]] = {lode: [], floor: []}
    end = time.monotonic() + seconds
    done = 0
    while done < least or (done < most and time.monotonic() < end):
        for task in (lode, floor) if done % 2 else (floor, lode):
            began = time.perf_counter()
            task()
            taken[task].append(time.perf_counter() - began)
        done += 1
        advance(done, None)
    return Times.of(taken[lode]), Times.of(taken[floor])


def calls_of(
    store: Store, prepare: Callable[[Store], Callable[[], object]], *, times: int = 1
) -> dict[str, float]:
    """Return the average store calls by kind of a warm task."""
    counting = CountingStore(store)
    task = prepare(counting)
    task()
    counting.reset()
    for _ in range(times):
        task()
    return {name: number / times for name, number in counting.counts.most_common()}
