"""Concurrent writers, one process each: commits per second, and whether every row exists."""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections import Counter
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from lode.bench.results import ContentionResult
from lode.bench.writer import dataset_on, write_in_rounds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lode.bench.rounds import Advance
    from lode.bench.scratch import Scratch
    from lode.bench.writer import WriterResult

_ROUNDS: Final = 3
# The barrier in a writer's process. It cannot be pickled, only inherited.
_here: Any = None


def measure_contention(
    scratch: Scratch, writers: int, *, seconds: float, advance: Advance
) -> ContentionResult:
    """Run the writers, alternately with Lode and without, then read back the acknowledged rows."""
    processes = not scratch.is_of_this_process
    with _pool(writers, processes=processes) as pool:
        jobs = [pool.submit(_write, scratch, number, seconds / _ROUNDS / 2) for number in range(writers)]
        results: list[WriterResult] = []
        for done, job in enumerate(as_completed(jobs), 1):
            results.append(job.result())
            advance(done, writers)
    found = Counter(
        (row["writer"], row["n"]) for row in dataset_on(scratch.open()).scan().read_all().to_pylist()
    )
    acknowledged = [row for each in results for row in each.acknowledged]
    return ContentionResult(
        writers=writers,
        processes=processes,
        commits=len(acknowledged),
        commits_per_second=_per_second([each.lode for each in results]),
        floor_per_second=_per_second([each.floor for each in results]),
        slowest=max(each.slowest for each in results),
        rebases=sum(each.rebases for each in results),
        failed=sum(each.failed for each in results),
        lost=sum(not found[row] for row in acknowledged),
        doubled=sum(times - 1 for times in found.values()),
    )


def _per_second(rounds: Sequence[Sequence[tuple[int, float]]]) -> float:
    """Commits per second of all writers; a round ends with its last commit."""
    commits = sum(count for writer in rounds for count, _ in writer)
    lasted: list[float] = [max(seconds for _, seconds in together) for together in zip(*rounds, strict=True)]
    return commits / sum(lasted)


@contextmanager
def _pool(writers: int, *, processes: bool) -> Iterator[Executor]:
    """Threads or processes with a common barrier, which is broken if one stops waiting."""
    meeting: Any
    if processes:
        context = multiprocessing.get_context("spawn")
        meeting = context.Barrier(writers)
        pool: Executor = ProcessPoolExecutor(writers, context, initializer=_begin, initargs=(meeting,))
    else:
        meeting = threading.Barrier(writers)
        pool = ThreadPoolExecutor(writers, initializer=_meet, initargs=(meeting,))
    try:
        yield pool
    except BaseException:
        meeting.abort()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _begin(meeting: Any) -> None:
    """Ignore keyboard interrupts: the parent handles them and breaks the barrier."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _meet(meeting)


def _meet(meeting: Any) -> None:
    global _here
    _here = meeting


def _write(scratch: Scratch, number: int, seconds: float) -> WriterResult:
    return write_in_rounds(scratch, number, _ROUNDS, seconds, _here)
