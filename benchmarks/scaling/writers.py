"""The number of processes that write to one dataset on a disk."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import count
from queue import Empty
from statistics import median
from typing import TYPE_CHECKING, Any

import lode
from benchmarks import measure
from benchmarks.rounds import verify

if TYPE_CHECKING:
    from collections.abc import Sequence
    from multiprocessing.process import BaseProcess
    from pathlib import Path

    from benchmarks.rounds import Sample

# How long the slowest process may take to start.
_PATIENCE = 120.0


@dataclass(frozen=True, slots=True)
class _Work:
    """What one process did: when it began and ended, and for each commit its seconds and its swaps."""

    began: float
    ended: float
    seconds: list[float]
    swaps: list[int]


class WritersAxis:
    """So many processes, each committing to its own partition as fast as it can."""

    name = "writers"
    title = "Processes that write at once, on a disk"
    x = "writers"
    rows = (
        "all together, commits/s",
        "a commit, swaps",
        "a commit, ms",
        "the slowest commit, ms",
    )
    drawn = ("commits/s", "ms")

    def __init__(self, root: Path, commits: int) -> None:
        self._root = root
        self._commits = commits
        self._numbers = count()
        self.notes = (f"{commits} commits by each process; one that loses a swap rebases and tries again.",)

    def measure(self, size: int) -> Sample:
        place = str(self._root / str(next(self._numbers)))
        context = measure.preloaded_processes()
        barrier, results = context.Barrier(size), context.Queue()
        processes = [
            context.Process(target=_write, args=(number, place, self._commits, barrier, results))
            for number in range(size)
        ]
        for process in processes:
            process.start()
        work = _collected(processes, results)
        verify(_dataset(place).latest().sequence, size * self._commits, "commits in the history")
        seconds = [taken for each in work for taken in each.seconds]
        swaps = [tries for each in work for tries in each.swaps]
        together = max(each.ended for each in work) - min(each.began for each in work)
        return [
            len(seconds) / together,
            sum(swaps) / len(swaps),
            median(seconds) * 1000,
            max(seconds) * 1000,
        ]


def _collected(processes: Sequence[BaseProcess], results: Any) -> list[_Work]:
    """What every process did; if one dies, the others need not be waited for."""
    work: list[_Work] = []
    while len(work) < len(processes):
        try:
            work.append(results.get(timeout=1))
        except Empty:
            if any(process.exitcode for process in processes):
                for process in processes:
                    process.terminate()
                raise RuntimeError("a writer failed, and says why on standard error") from None
    for process in processes:
        process.join()
    return work


def _write(number: int, place: str, commits: int, barrier: Any, results: Any) -> None:
    dataset = _dataset(place)
    barrier.wait(_PATIENCE)
    began = time.monotonic()
    seconds: list[float] = []
    swaps: list[int] = []
    for _ in range(commits):
        start = time.monotonic()
        snapshot = dataset.write([{"writer": number}])
        seconds.append(time.monotonic() - start)
        swaps.append(snapshot.commit.attempts if snapshot.commit else 1)
    results.put(_Work(began, time.monotonic(), seconds, swaps))


def _dataset(place: str) -> lode.Dataset:
    store = lode.open_store(place, durable=False)
    return lode.Dataset("writers", store, codec=lode.JSONL(), layout=lode.HiveLayout("writer"))
