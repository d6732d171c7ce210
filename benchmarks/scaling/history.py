"""The length of history: commits, opening, planning, looking back."""

from __future__ import annotations

import random
from statistics import mean
from typing import TYPE_CHECKING

import lode
from benchmarks.scaling.axis import counted, timed
from benchmarks.scaling.places import AT_ONCE, Places

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.rounds import Sample
    from lode.store.wrappers import CountingStore

_SCHEMA = {"day": "string!", "n": "int64"}
_ROW = [{"day": "mon", "n": 1}]
_LOOKS = 16


class HistoryAxis:
    """A dataset of so many commits of one row."""

    name = "history"
    title = "The length of history"
    x = "commits before"
    rows = (
        "commit, calls",
        "commit with its share of segments, calls",
        "latest, calls",
        "plan, calls",
        "the longest plan, calls",
        "commit writes, bytes",
        "segments of a commit, bytes",
        "plan reads, bytes",
        "commit, ms",
        "latest, ms",
        "plan, ms",
        "plan of the middle, ms",
    )
    drawn = ("calls", "bytes", "ms")
    notes = (
        "Commits of one row in one Parquet file. Plans are made by new objects, which know nothing.",
        "Calls and bytes are counted on a store in memory; times are those of a local disk, not synced.",
        "The calls of a plan depend on the digits of the length in base 16. So they are the mean "
        f"of {_LOOKS} plans as of snapshots of the newer half; the longest is the one of most calls.",
    )

    def __init__(self, root: Path) -> None:
        self._root = root
        self._chance = random.Random(0)
        self._built: dict[int, tuple[Places, float]] = {}

    def measure(self, size: int) -> Sample:
        if size not in self._built:
            self._built[size] = self._build(size)
        places, calls_each = self._built[size]
        memory, disk = places.memory, places.disk
        writer = _dataset(memory)
        writer.transaction().abort()
        commit, written, _ = counted(memory, lambda: writer.write(_ROW))
        latest, _, _ = counted(memory, lambda: _dataset(memory).latest())
        _, _, read = counted(memory, lambda: _dataset(memory).plan())
        plans = [_plan_calls(memory, id) for id in self._newer(memory)]

        on_disk = _dataset(disk)
        middle = _ids(on_disk)[size // 2]
        return [
            commit,
            calls_each,
            latest,
            mean(plans),
            max(plans),
            written,
            segment_bytes(memory) / size or None,  # a short history has none
            read,
            timed(lambda: on_disk.write(_ROW)),
            timed(lambda: _dataset(disk).latest()),
            timed(lambda: _dataset(disk).plan()),
            timed(lambda: _dataset(disk).plan(as_of=middle)),
        ]

    def _newer(self, store: lode.Store) -> list[str]:
        """Some snapshots of the newer half, others each round."""
        ids = _ids(_dataset(store))
        return self._chance.choices(ids[len(ids) // 2 :], k=_LOOKS)

    def _build(self, size: int) -> tuple[Places, float]:
        """Histories of that length in both places, and the calls a commit took on average."""
        places = Places(self._root / str(size))
        extend(places.memory, size)
        calls = places.memory.total
        extend(places.disk, size)
        return places, calls / size


def extend(store: lode.Store, commits: int) -> None:
    """Add so many commits, and the segments they complete."""
    dataset = lode.Dataset("history", store, codec=lode.Parquet(_SCHEMA), runtime=AT_ONCE)
    for _ in range(commits):
        dataset.write(_ROW)


def segment_bytes(store: lode.Store) -> int:
    """What all segments of the history take."""
    return sum(entry.size for entry in store.list("datasets/history/history/"))


def _dataset(store: lode.Store) -> lode.Dataset:
    return lode.Dataset("history", store, codec=lode.Parquet(_SCHEMA))


def _plan_calls(store: CountingStore, as_of: str) -> int:
    calls, _, _ = counted(store, lambda: _dataset(store).plan(as_of=as_of))
    return calls


def _ids(dataset: lode.Dataset) -> list[str]:
    return [snapshot.id for snapshot in dataset.snapshots()]
