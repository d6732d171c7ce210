"""Processes that append to one table at once, each to its own partition, and what became of their rows."""

from __future__ import annotations

import logging
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks import measure
from benchmarks.data import rows, rows_of_commit
from benchmarks.peers import contender
from benchmarks.rounds import ChildError, VerificationError

if TYPE_CHECKING:
    import pyarrow as pa

    from benchmarks.peers.contender import Contender, Handle, Place

ROWS = 1000
# How many seconds the last writer may need to be ready, and to stop after the cap: at least, and for each.
_PATIENCE = 60.0
_PATIENCE_EACH = 3.0
_NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class Race:
    """So many writers, each with so many commits to make, or as many as it can before the cap."""

    writers: int
    commits: int
    cap: float

    @property
    def patience(self) -> float:
        return max(_PATIENCE, _PATIENCE_EACH * self.writers)


@dataclass(slots=True)
class Work:
    """What one writer did: when each commit began and ended, and the errors its caller saw."""

    part: str
    commits: list[tuple[float, float]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    broken: str | None = None

    @property
    def done(self) -> list[tuple[float, float]]:
        return [commit for commit in self.commits if commit[1] != _NEVER]


def compete(each: Contender, place: Place, race: Race) -> list[Work]:
    """Let them run, all from one moment on."""
    context = measure.preloaded_processes()
    barrier = context.Barrier(race.writers)
    results = context.Queue()
    arguments = (each.name, place, race, barrier, results)
    processes = [context.Process(target=_write, args=(number, *arguments)) for number in range(race.writers)]
    try:
        for process in processes:
            process.start()
        work: list[Work] = [results.get(timeout=race.cap + 2 * race.patience) for _ in processes]
        for process in processes:
            process.join(race.patience)
    except Empty:
        raise ChildError(f"a writer did not come back within {race.cap + 2 * race.patience:.0f} s") from None
    finally:
        for process in processes:
            process.kill()
    broken = [each.broken for each in work if each.broken is not None]
    if broken:
        # The others only say that the start was called off.
        raise ChildError(next((text for text in broken if "BrokenBarrier" not in text), broken[0]))
    return work


def _write(number: int, name: str, place: Place, race: Race, barrier: Any, results: Any) -> None:
    logging.disable(logging.WARNING)  # Iceberg reports every retry
    work = Work(f"p{number:02d}")
    try:
        handle = contender(name).open(place)
        plain = rows(ROWS)
        barrier.wait(race.patience)
        _append_all(work, handle, plain, race)
    except Exception as error:
        barrier.abort()
        work.broken = f"{type(error).__name__}: {error}"
    results.put(work)


def _append_all(work: Work, handle: Handle, plain: pa.Table, race: Race) -> None:
    """Commit as often as asked, trying again after an error, until the cap."""
    deadline = time.monotonic() + race.cap
    while len(work.commits) < race.commits and time.monotonic() < deadline:
        data = rows_of_commit(plain, work.part, len(work.commits))
        began = time.monotonic()
        while time.monotonic() < deadline:
            try:
                handle.append(data)
            except Exception as error:
                work.errors.append(type(error).__name__)
                with suppress(Exception):
                    handle.refresh()
            else:
                work.commits.append((began, time.monotonic()))
                break
        else:
            work.commits.append((began, _NEVER))  # it counts as slow, not as a commit


def check(found: pa.Table, work: list[Work]) -> None:
    """Every row of an acknowledged commit must be there once; a commit that was not, wholly or not at all."""
    parts, commits = (found.column(name).to_pylist() for name in ("part", "commit"))
    counts = Counter(zip(parts, commits, strict=True))
    lost = doubled = 0
    for writer in work:
        for number, commit in enumerate(writer.commits):
            rows_there = counts.pop((writer.part, number), 0)
            doubled += max(0, rows_there - ROWS)
            lost += max(0, ROWS - rows_there) if commit[1] != _NEVER else rows_there % ROWS
    strange = counts.total()
    if lost or doubled or strange:
        raise VerificationError(f"{lost:,} rows LOST, {doubled:,} DOUBLED, {strange:,} that no writer wrote")


def numbers(work: list[Work]) -> list[float | None]:
    """Commits/s, commits, errors seen, median and slowest commit in seconds, and Jain's index of fairness.

    There must be a commit.
    """
    every = [commit for writer in work for commit in writer.commits]
    done = [commit for writer in work for commit in writer.done]
    began, end = min(commit[0] for commit in every), max(commit[1] for commit in done)
    latencies = [min(commit[1], end) - commit[0] for commit in every]
    half_way = median(commit[1] for commit in done)
    shares = [sum(commit[1] <= half_way for commit in writer.commits) for writer in work]
    return [
        len(done) / (end - began),
        len(done),
        sum(len(writer.errors) for writer in work),
        median(latencies),
        max(latencies),
        _jain(shares),
    ]


def _jain(shares: list[int]) -> float:
    """Jain's index: 1 if all had the same share, 1/n if one had everything."""
    return sum(shares) ** 2 / (len(shares) * sum(share * share for share in shares))
