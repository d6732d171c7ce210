"""A store that counts, and datasets on it whose time and chance are the same in every run."""

from __future__ import annotations

import random
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import lode
from benchmarks.scaling.axis import counted
from lode.runtime import Runtime, one_by_one
from lode.store.memory import MemoryStore
from lode.store.wrappers import CountingStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.smoke.bounds import Counts

SCHEMA: Final = {"day": "string!", "n": "int64"}
_SECOND: Final = 1_000_000_000
# A number whose fraction of a second has all nine digits, so that no time is shorter than another.
_START: Final = 1_763_000_000 * _SECOND + 123_456_789


class Place:
    """A lake in memory. History segments are written where they are ordered, before the next call."""

    def __init__(self, store: lode.Store | None = None) -> None:
        times: Iterator[int] = count(_START, _SECOND)
        chance = random.Random(0)
        self.store = CountingStore(store or MemoryStore(now_ns=lambda: _START))
        self.runtime = Runtime(
            now_ns=lambda: next(times),
            random=chance.random,
            random_bits=chance.getrandbits,
            each=one_by_one,
            each_small=one_by_one,
            background=lambda chore: chore(),
        )

    def dataset(self, **options: Any) -> lode.Dataset:
        """A new object, which knows nothing of what is stored."""
        return lode.Dataset("d", self.store, runtime=self.runtime, **options)

    def create(self, *, partitioned: bool = False) -> lode.Dataset:
        return lode.Dataset.create(
            "d", self.store, schema=SCHEMA, partition_by=["day"] if partitioned else [], runtime=self.runtime
        )

    def filled(self, commits: int, rows: int = 10) -> lode.Dataset:
        """A dataset of so many commits of one file."""
        dataset = self.create()
        for number in range(commits):
            dataset.write([{"day": f"d{number:04d}", "n": number * rows + row} for row in range(rows)])
        return dataset

    def writing(self, work: Callable[[], object]) -> Counts:
        calls, sent, _ = counted(self.store, work)
        return {"calls": calls, "bytes written": sent}

    def reading(self, work: Callable[[], object]) -> Counts:
        calls, _, received = counted(self.store, work)
        return {"calls": calls, "bytes read": received}

    def changing(self, work: Callable[[], object]) -> Counts:
        calls, sent, received = counted(self.store, work)
        return {"calls": calls, "bytes written": sent, "bytes read": received}

    def stored(self, ending: str) -> int:
        """The bytes of all objects whose path ends so."""
        return sum(entry.size for entry in self.store.inner.list("") if entry.path.endswith(ending))
