"""History: in order, lazily, over ranges, and in few reads when it is long."""

from __future__ import annotations

from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING

import pytest

import lode
from lode.read import resolve
from lode.runtime import Runtime
from lode.store import CountingStore, MemoryStore
from lode.times import rfc3339_to_ns

if TYPE_CHECKING:
    from collections.abc import Callable

AT_ONCE = Runtime(background=lambda chore: chore())


def written(store: lode.Store, count: int) -> list[lode.Snapshot]:
    dataset = lode.Dataset("events", store, runtime=AT_ONCE)
    return [dataset.write(b"x", {"n": number}) for number in range(count)]


def test_snapshots_are_oldest_first_and_history_newest_first(store: CountingStore) -> None:
    expected = written(store, 5)
    dataset = lode.Dataset("events", store)
    assert dataset.snapshots() == expected
    assert list(dataset.history()) == expected[::-1]


def test_history_reads_only_as_far_as_one_iterates(memory: CountingStore) -> None:
    written(memory, 10)
    memory.reset()
    assert [s.metadata["n"] for s in islice(lode.Dataset("events", memory).history(), 3)] == [9, 8, 7]
    assert memory.counts == {"get": 4}


def test_history_as_of_starts_there(memory: CountingStore) -> None:
    snapshots = written(memory, 4)
    dataset = lode.Dataset("events", memory)
    assert list(dataset.history(as_of=snapshots[1])) == snapshots[1::-1]
    assert list(dataset.history(as_of=snapshots[0].id)) == snapshots[:1]
    late = snapshots[-1].created_at + timedelta(seconds=1)
    assert next(dataset.history(as_of=late)) == snapshots[-1]


def test_changes_are_what_came_after_one_up_to_another(memory: CountingStore) -> None:
    a, b, c, d = written(memory, 4)
    dataset = lode.Dataset("events", memory)
    assert dataset.changes() == [a, b, c, d]
    assert dataset.changes(since=b) == [c, d]
    assert dataset.changes(since=a.id, as_of=c.id) == [b, c]
    assert dataset.changes(as_of=b) == [a, b]
    assert dataset.changes(since=d) == []
    with pytest.raises(lode.NotFoundError):
        dataset.changes(since=c, as_of=b)


def test_a_snapshot_read_back_equals_the_one_written(store: CountingStore) -> None:
    (snapshot,) = written(store, 1)
    again = lode.Dataset("events", store).latest()
    assert again == snapshot
    assert (snapshot.commit is not None, again.commit) == (True, None)
    assert snapshot.id in repr(snapshot)


def test_a_snapshot_of_another_dataset_is_refused(memory: CountingStore) -> None:
    (snapshot,) = written(memory, 1)
    other = lode.Dataset("other", memory)
    other.write(b"y")
    for ask in (
        lambda: other.read(snapshot),
        lambda: other.changes(as_of=snapshot),
        lambda: next(other.history(as_of=snapshot)),
    ):
        with pytest.raises(lode.LodeError, match="other"):
            ask()


def test_time_along_the_chain_never_runs_back() -> None:
    clock = iter([10**18, 5 * 10**17, 10**18 + 5, *[3 * 10**17] * 20])
    runtime = Runtime(now_ns=lambda: next(clock))
    dataset = lode.Dataset("events", MemoryStore(), runtime=runtime)
    moments = [rfc3339_to_ns(dataset.write(b"x").manifest.created_at) for _ in range(4)]
    assert moments == sorted(moments)
    assert len(set(moments)) == 4


@pytest.mark.parametrize("count", [15, 16, 17, 40])
def test_long_histories_are_the_same_with_and_without_segments(count: int) -> None:
    with_segments, without = MemoryStore(), MemoryStore()
    expected = written(with_segments, count)
    for entry in list(with_segments.list()):
        if "/history/" not in entry.path:
            without.put(entry.path, with_segments.get(entry.path))
    for store in (with_segments, without):
        dataset = lode.Dataset("events", store)
        assert dataset.snapshots() == expected
        assert list(dataset.history()) == expected[::-1]
        assert lode.verify(dataset).ok


def reads(store: lode.Store, ask: Callable[[lode.Dataset], object]) -> int:
    counting = CountingStore(store)
    ask(lode.Dataset("events", counting))
    return counting.counts["get"]


@pytest.mark.parametrize("count", [272, 273])
def test_segments_make_a_long_history_a_few_reads(count: int) -> None:
    """Pointer, head and two segments; also where a segment ends with the head itself."""
    store = MemoryStore()
    written(store, count)
    assert reads(store, lambda dataset: dataset.snapshots()) <= 6
    assert reads(store, lambda dataset: list(dataset.history())) <= 6


@pytest.mark.parametrize("damage", [b"", b"not zstd", b"\x28\xb5\x2f\xfd"])
def test_a_damaged_segment_costs_time_and_never_correctness(damage: bytes) -> None:
    store = MemoryStore()
    expected = written(store, 20)
    (segment,) = [entry.path for entry in store.list() if "/history/" in entry.path]
    store.delete(segment)
    store.put(segment, damage)
    assert lode.Dataset("events", store).snapshots() == expected


def test_an_observer_is_told_about_each_commit(memory: CountingStore) -> None:
    seen: list[tuple[str, int]] = []
    dataset = lode.Dataset("events", memory, observer=lambda id, report: seen.append((id, report.attempts)))
    snapshot = dataset.write(b"x")
    assert seen == [(snapshot.id, 1)]


def test_an_observer_that_fails_changes_nothing(memory: CountingStore) -> None:
    def fail(_id: str, _report: lode.CommitReport) -> None:
        raise RuntimeError

    dataset = lode.Dataset("events", memory, observer=fail)
    assert dataset.write(b"x") == dataset.latest()


def test_the_manifests_that_are_kept_at_hand_have_a_total_size() -> None:
    dataset = lode.Dataset("d", "memory://")
    chain = dataset.chain
    for number in range(40):
        chain.remember(str(number), bytes(resolve.MAX_CACHED_BYTES))
        chain.remember(str(number), bytes(resolve.MAX_CACHED_BYTES))
    kept = sum(map(len, chain._cached.values()))
    assert kept == chain._cached_bytes == resolve.MAX_CACHE_BYTES
    assert "39" in chain._cached
