"""Many processes append to one table at once, each to its own partition."""

from __future__ import annotations

import logging
import multiprocessing
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from bench.data import rows_of_part
from bench.measure import progress
from bench.peers import contender, contenders
from bench.peers.contender import Contender, Place
from bench.table import Row, Table

if TYPE_CHECKING:
    from pathlib import Path

    from bench.options import Options

WRITERS = 16
COMMITS = 25
_ROWS = 1000
PARTITION = "part"
COLUMNS = [
    "commits/s",
    "commits",
    "conflicts seen",
    "median, s",
    "slowest, s",
    "fairness",
]
# How long the last writer may need to be ready, and to stop after the cap.
_PATIENCE = 120.0


@dataclass(frozen=True, slots=True)
class _Work:
    """What one writer did: when each commit began and ended, and the errors its caller saw."""

    commits: list[tuple[float, float]]
    errors: list[str]


def run(options: Options) -> list[Table]:
    found = []
    with options.scratch() as root:
        for at, each in enumerate(each for each in contenders() if options.wants(each.name)):
            place = Place(str(root / str(at) / "table"), folder(root / str(at)), partition=PARTITION)
            found.append(measure(each, place, cap(options)))
    return [table_of("local", found, cap(options))]


def cap(options: Options) -> float:
    return 15.0 if options.quick else 20.0


def folder(path: Path) -> str:
    path.mkdir()
    return str(path)


def measure(each: Contender, place: Place, cap: float) -> Row:
    each.create(place)
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(WRITERS)
    results = context.Queue()
    arguments = (each.name, place, cap, barrier, results)
    processes = [context.Process(target=_append, args=(number, *arguments)) for number in range(WRITERS)]
    for process in processes:
        process.start()
    work = [results.get(timeout=cap + 2 * _PATIENCE) for _ in processes]
    for process in processes:
        process.join()
    row = _row(each, work)
    progress(f"{place.root.partition(':')[0]} {row.name}: {row.values}")
    return row


def _append(number: int, name: str, place: Place, cap: float, barrier: Any, results: Any) -> None:
    """Commit as often as asked, trying again after an error, until the cap."""
    logging.disable(logging.WARNING)  # Iceberg reports every retry
    data = rows_of_part(_ROWS, f"p{number:02d}")
    handle = contender(name).open(place)
    commits: list[tuple[float, float]] = []
    errors: list[str] = []
    barrier.wait(_PATIENCE)
    deadline = time.monotonic() + cap
    while len(commits) < COMMITS and time.monotonic() < deadline:
        began = time.monotonic()
        while time.monotonic() < deadline:
            try:
                handle.append(data)
            except Exception as error:
                errors.append(type(error).__name__)
                with suppress(Exception):
                    handle.refresh()
            else:
                commits.append((began, time.monotonic()))
                break
        else:
            commits.append((began, float("inf")))  # never done: it counts as slow, not as a commit
    results.put(_Work(commits, errors))


def _row(each: Contender, work: list[_Work]) -> Row:
    every = [commit for writer in work for commit in writer.commits]
    done = [commit for commit in every if commit[1] != float("inf")]
    end = max((commit[1] for commit in done), default=0.0)
    began = min((commit[0] for commit in every), default=0.0)
    latencies = [min(commit[1], end) - commit[0] for commit in every]
    errors = sum((Counter(writer.errors) for writer in work), Counter[str]())
    counts = sorted(sum(commit[1] <= _half_way(done) for commit in writer.commits) for writer in work)
    return Row(
        each.name,
        [
            len(done) / (end - began) if done else 0.0,
            len(done),
            _conflicts(errors),
            median(latencies) if latencies else None,
            max(latencies, default=None),
            _jain(counts),
        ],
        each.floor,
    )


def _half_way(done: list[tuple[float, float]]) -> float:
    return median(commit[1] for commit in done) if done else 0.0


def _jain(counts: list[int]) -> float | None:
    """Jain's index: 1 if all had the same share, 1/n if one had everything."""
    squares = sum(count * count for count in counts)
    return sum(counts) ** 2 / (len(counts) * squares) if squares else None


def _conflicts(errors: Counter[str]) -> str:
    kinds = ", ".join(f"{count} {name}" for name, count in errors.most_common(2))
    return f"{errors.total()} ({kinds})" if kinds else "0"


def table_of(where: str, rows: list[Row], cap: float) -> Table:
    return Table(
        f"{WRITERS} processes, each appending {COMMITS} times to its own partition of one table, {where}",
        COLUMNS,
        rows,
        ratios=["commits/s"],
        notes=[
            f"Who is not done after {cap:.0f} s stops there. A commit lasts from the caller's first try "
            "to its success; one that never came counts until "
            "the end.",
            "Fairness: Jain's index over the commits each process had when half of all were done; 1 is even.",
        ],
    )
