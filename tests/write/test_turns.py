"""A writer that loses again and again asks for a turn, and the other writers wait for it."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import pytest
from benchmarks.scaling.virtual import VirtualStore, VirtualTime

import lode
from lode.errors import StoreError
from lode.store import MemoryStore
from lode.write.turn import SNAPSHOTS_PER_LOOK

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

REQUESTS = "datasets/d/waiting/turn/"


def commits_of(writers: int, store: VirtualStore, time: VirtualTime, total: int = 160) -> list[list[float]]:
    """Seconds of every commit of each writer, once they have met."""
    seconds: list[list[float]] = [[] for _ in range(writers)]
    done = Counter[str]()

    def write(number: int) -> None:
        dataset = lode.Dataset("d", store, codec=lode.JSONL(), runtime=time.runtime())
        while done["all"] < 40 + total:
            began = time.now
            dataset.write([{"writer": number}], on_conflict="append")
            done["all"] += 1
            if done["all"] > 40:
                seconds[number].append(time.now - began)
        time.end()

    time.run([partial(write, number) for number in range(writers)])
    return seconds


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("read", [0.03, 0.045])
def test_neither_of_two_writers_starves_where_reads_are_slow(read: float, seed: int) -> None:
    time = VirtualTime(seed)
    seconds = commits_of(2, VirtualStore(MemoryStore(), time, read=read, spread=0.1), time)
    assert min(map(len, seconds)) > 0.7 * max(map(len, seconds))
    assert max(max(each) for each in seconds) < 2


@pytest.mark.parametrize("seed", [1, 2])
def test_a_writer_that_is_late_for_every_group_is_waited_for(seed: int) -> None:
    time = VirtualTime(seed)
    seconds = commits_of(4, VirtualStore(MemoryStore(), time, read=0.045, spread=0.1), time)
    assert min(map(len, seconds)) > 0.7 * max(map(len, seconds))
    assert max(max(each) for each in seconds) < 2


class WithoutRequests(VirtualStore):
    """Fails where writers ask for turns."""

    def around(self, method: str, path: str, call: Callable[[], T]) -> T:
        if path.startswith(REQUESTS):
            raise StoreError(f"{path} fails")
        return super().around(method, path, call)


def test_requests_that_fail_do_not_stop_a_commit() -> None:
    time = VirtualTime(1)
    store = WithoutRequests(MemoryStore(), time, read=0.045, spread=0.1)
    commits_of(2, store, time, total=60)
    assert len(lode.Dataset("d", store.inner).snapshots()) >= 100


class Noting(VirtualStore):
    """Notes the calls for requests."""

    def __init__(self, time: VirtualTime) -> None:
        super().__init__(MemoryStore(), time)
        self.calls: list[str] = []

    def around(self, method: str, path: str, call: Callable[[], T]) -> T:
        if path.startswith(REQUESTS):
            self.calls.append(method)
        return super().around(method, path, call)


def test_a_single_writer_looks_for_requests_at_every_eighth_snapshot_only() -> None:
    time = VirtualTime(1)
    store = Noting(time)
    commits_of(1, store, time, total=SNAPSHOTS_PER_LOOK)
    assert store.calls == ["exists"] * (40 // SNAPSHOTS_PER_LOOK + 1)


def test_a_writer_with_time_between_its_commits_never_looks() -> None:
    time = VirtualTime(1)
    store = Noting(time)

    def write() -> None:
        dataset = lode.Dataset("d", store, codec=lode.JSONL(), runtime=time.runtime())
        for _ in range(2 * SNAPSHOTS_PER_LOOK):
            time.sleep(3.0)
            dataset.write([{"n": 1}], on_conflict="append")

    time.run([write])
    assert store.calls == []


def test_a_sweep_removes_old_requests() -> None:
    store = MemoryStore()
    dataset = lode.Dataset("d", store, codec=lode.JSONL())
    dataset.write([{"n": 1}])
    store.put(f"{REQUESTS}8.json", b"{}")
    lode.sweep(dataset, older_than=timedelta(0), dry_run=False)
    assert not store.exists(f"{REQUESTS}8.json")
