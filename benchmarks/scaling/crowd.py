"""A crowd of writers on an object store: how many commits one pointer takes, and what they ask for.

``python -m benchmarks.scaling.crowd 10000`` simulates so many and shows its progress.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import lode
from benchmarks.scaling.prices import price
from benchmarks.scaling.virtual import READ, SPREAD, WRITE, VirtualStore, VirtualTime
from lode.read.resolve import Chain
from lode.store.memory import MemoryStore
from lode.write import dataset_draft

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.rounds import Sample

# Each writer begins so many seconds after the one before it.
STAGGER = 0.004
# Intents of groups that are decoded for all writers.
_SHARED_INTENTS = 8


@dataclass(frozen=True, slots=True)
class Crowd:
    """What a crowd did while it was watched."""

    commits_per_second: float
    reads_per_commit: float
    writes_per_commit: float


class CrowdAxis:
    """So many writers in virtual time, the real library on a store of assumed latency."""

    name = "crowd"
    title = "Writers to one dataset on an object store, simulated"
    x = "writers"
    rows = (
        "all together, commits/s",
        "all together, requests/s",
        "a commit, requests",
        "until each had a turn, s",
        "1,000 commits, $",
    )
    drawn = ("commits/s", "requests")

    def __init__(self, warm: int, watched: int) -> None:
        """Let each writer make so many commits, first unwatched, then watched."""
        self._warm = warm
        self._watched = watched
        self._seeds = count()
        self.notes = (
            "The real library in virtual time, each writer on its own partition and never idle. Assumed: "
            f"a read takes {READ * 1000:.0f} ms, a write or a swap {WRITE * 1000:.0f} ms, "
            f"each ± {SPREAD:.0%}, and the store never refuses. The simulation leaves out history segments.",
            f"{watched} commits of each writer are watched, at least 100 in all, after {warm} that are not. "
            f"Each round has its own seed. Writers begin {STAGGER * 1000:.0f} ms after one another.",
        )

    def measure(self, size: int) -> Sample:
        warm, watched = max(60, self._warm * size), max(100, self._watched * size)
        found = simulate(size, warm=warm, watched=watched, seed=next(self._seeds))
        requests_each = found.reads_per_commit + found.writes_per_commit
        return [
            found.commits_per_second,
            found.commits_per_second * requests_each,
            requests_each,
            size / found.commits_per_second,
            1000 * price(reads=found.reads_per_commit, writes=found.writes_per_commit),
        ]


def simulate(
    writers: int,
    *,
    warm: int = 0,
    watched: int | None = None,
    seconds: float | None = None,
    seed: int = 0,
    read: float = READ,
    write: float = WRITE,
    stagger: float = STAGGER,
    shows: bool = False,
) -> Crowd:
    """Let writers commit to one dataset, each to its own partition and again as soon as it is done.

    Args:
        writers: How many.
        warm: Commits before those that count, so that the start is forgotten.
        watched: Commits that count.
        seconds: Instead of them, how long commits count.
        seed: Of the times that requests take.
        read: Seconds that a read takes.
        write: Seconds that a write takes.
        stagger: Seconds from the start of one writer to that of the next.
        shows: Print the progress.
    """
    time = VirtualTime(seed)
    store = VirtualStore(MemoryStore(now_ns=lambda: 0), time, read=read, write=write)
    marks: list[tuple[float, int, int]] = [] if warm else [(0.0, 0, 0)]

    def is_done() -> bool:
        if seconds is not None:
            return time.now >= seconds
        return watched is not None and len(marks) > warm + watched

    def work(number: int) -> None:
        time.sleep(number * stagger)
        dataset = lode.Dataset(
            "crowd", store, codec=lode.JSONL(), layout=lode.HiveLayout("writer"), runtime=time.runtime()
        )
        while not is_done():
            dataset.write([{"writer": number}])
            marks.append((time.now, store.reads, store.writes))
            if shows and len(marks) % 1_000 == 0:
                print(f"{len(marks):,} commits, {time.now:.0f} s", file=sys.stderr, flush=True)
        time.end()

    with _decoded_once():
        time.run([partial(work, number) for number in range(writers)])
    commits = len(marks) - 1 - warm
    passed, reads, writes = (after - before for before, after in zip(marks[warm], marks[-1], strict=True))
    return Crowd(commits / passed, reads / commits, writes / commits)


@contextmanager
def _decoded_once() -> Iterator[None]:
    """Let all writers share what one of them has decoded of a group.

    Each writer that a group left out reads all of its members. Processors are not simulated, and one process
    would take hours to do that for 10,000 writers.
    """
    decode, summarize = Chain.decode_intent, dataset_draft.summary_of
    intents: dict[str, Any] = {}
    summaries: dict[str, Any] = {}

    def decoded(self: Any, data: bytes, path: str, snapshot_id: str) -> Any:
        known, intent = intents.get(path, (None, None))
        if known is not data:
            intent = decode(self, data, path, snapshot_id)
            intents[path] = (data, intent)
            if len(intents) > _SHARED_INTENTS:
                del intents[next(iter(intents))]
        return intent

    def summary_of(manifest: Any, layout: Any) -> Any:
        found = summaries.get(manifest.snapshot_id)
        if found is None:
            found = summaries[manifest.snapshot_id] = summarize(manifest, layout)
        return found

    with patch.object(Chain, "decode_intent", decoded), patch.object(dataset_draft, "summary_of", summary_of):
        yield


if __name__ == "__main__":
    size = int(sys.argv[1])
    print(simulate(size, warm=2 * size, watched=2 * size, shows=True))
