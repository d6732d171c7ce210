"""One of several concurrent writers: its work in each round, and its result."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from lode.bench.floor import Floor
from lode.dataset import Dataset
from lode.errors import CommitError
from lode.format.paths import HiveLayout

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.bench.scratch import Scratch
    from lode.store.protocol import Store

NAME: Final = "contention"
# Maximum wait for a writer that may have died.
_MAX_WAIT_SECONDS: Final = 120.0


class Meeting(Protocol):
    """A barrier, of threads or of processes."""

    def wait(self, timeout: float | None = None) -> int: ...


@dataclass(slots=True)
class WriterResult:
    """The commits of one writer: number and seconds for each round, with Lode and without."""

    lode: list[tuple[int, float]] = field(default_factory=list)
    floor: list[tuple[int, float]] = field(default_factory=list)
    acknowledged: list[tuple[str, int]] = field(default_factory=list)
    rebases: int = 0
    failed: int = 0
    slowest: float = 0.0


def dataset_on(store: Store) -> Dataset:
    """Open the dataset that all writers append to, each to its own partition."""
    return Dataset(NAME, store, codec="jsonl", layout=HiveLayout("writer"))


def write_in_rounds(
    scratch: Scratch, number: int, rounds: int, seconds: float, meeting: Meeting
) -> WriterResult:
    """Commit as fast as possible, alternately with Lode and without, in rounds common to all writers."""
    store = scratch.open()
    dataset, floor, result = dataset_on(store), Floor(store, NAME, number), WriterResult()
    content = f'{{"writer":"{number}","n":0}}\n'.encode()

    def append() -> None:
        row = (str(number), len(result.acknowledged) + result.failed)
        began = time.perf_counter()
        try:
            snapshot = dataset.write([{"writer": row[0], "n": row[1]}])
        except CommitError:
            result.failed += 1
            return
        result.slowest = max(result.slowest, time.perf_counter() - began)
        result.acknowledged.append(row)
        result.rebases += snapshot.commit.rebases if snapshot.commit else 0

    for _ in range(rounds):
        meeting.wait(_MAX_WAIT_SECONDS)
        result.floor.append(_repeat(lambda: floor.commit(content), seconds))
        meeting.wait(_MAX_WAIT_SECONDS)
        result.lode.append(_repeat(append, seconds))
    return result


def _repeat(task: Callable[[], None], seconds: float) -> tuple[int, float]:
    began = time.monotonic()
    done = 0
    while not done or time.monotonic() - began < seconds:
        task()
        done += 1
    return done, time.monotonic() - began
