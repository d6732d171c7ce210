"""Long histories open in few reads; a missing or damaged segment costs time, never correctness."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

import lode
from lode.read.segment import LEVELS
from lode.runtime import REAL
from lode.store.memory import MemoryStore
from lode.store.wrappers import CountingStore

# Segments are written at once instead of in the background, so that the tests know they are there.
AT_ONCE = replace(REAL, background=lambda chore: chore())


def grown(commits: int) -> MemoryStore:
    store = MemoryStore()
    dataset = lode.Dataset("d", store, runtime=AT_ONCE)
    for number in range(commits):
        dataset.write(b"", {"number": number})
    return store


@pytest.fixture(scope="module")
def five_thousand() -> MemoryStore:
    return grown(5000)


def reads(store: CountingStore) -> int:
    return sum(
        count
        for verb, count in store.counts.items()
        if verb in ("get", "get_range", "exists", "head", "list")
    )


def test_opening_and_planning_after_five_thousand_commits_takes_at_most_forty_reads(
    five_thousand: MemoryStore,
) -> None:
    store = CountingStore(five_thousand)
    plan = lode.Dataset("d", store).plan()
    assert [manifest.metadata["number"] for manifest in plan.manifests] == list(range(5000))
    assert len(plan.files) == 5000
    assert reads(store) <= 40


def test_the_newest_snapshots_are_read_one_by_one_and_no_further(five_thousand: MemoryStore) -> None:
    store = CountingStore(five_thousand)
    history = lode.Dataset("d", store).history()
    assert [next(history).metadata["number"] for _ in range(3)] == [4999, 4998, 4997]
    assert reads(store) <= 4


def test_iterating_the_whole_history_takes_few_reads_too(five_thousand: MemoryStore) -> None:
    store = CountingStore(five_thousand)
    numbers = [snapshot.metadata["number"] for snapshot in lode.Dataset("d", store).history()]
    assert numbers == list(range(4999, -1, -1))
    assert reads(store) <= 40


def test_a_commit_makes_the_same_calls_at_any_length_of_history(five_thousand: MemoryStore) -> None:
    store = CountingStore(five_thousand)
    dataset = lode.Dataset("d", store)
    dataset.transaction().abort()
    store.reset()
    dataset.write(b"")
    assert store.total == 4
    for path in [entry.path for entry in five_thousand.list()]:
        if path.endswith("/latest"):
            assert five_thousand.get(path).decode() == dataset.latest().id


@pytest.mark.parametrize("length", [1, 15, 16, 17, 255, 256, 257, 300])
def test_history_is_complete_at_any_length_around_the_boundaries(length: int) -> None:
    store = grown(length)
    dataset = lode.Dataset("d", store)
    assert [snapshot.metadata["number"] for snapshot in dataset.snapshots()] == list(range(length))
    assert [snapshot.sequence for snapshot in dataset.history()] == list(range(length, 0, -1))


@pytest.mark.parametrize(
    "damage", [None, b"", b"not zstd", "other"], ids=["missing", "empty", "garbage", "foreign"]
)
def test_a_missing_or_damaged_segment_changes_nothing_but_the_number_of_reads(
    damage: bytes | str | None,
) -> None:
    store = grown(300)
    foreign = grown(300)
    for level in LEVELS:
        for entry in list(store.list(f"datasets/d/history/{level}/")):
            store.delete(entry.path)
            if damage is not None:
                store.put(entry.path, foreign.get(entry.path) if damage == "other" else damage)  # type: ignore[arg-type]
    dataset = lode.Dataset("d", store)
    assert [snapshot.metadata["number"] for snapshot in dataset.snapshots()] == list(range(300))
    assert [snapshot.metadata["number"] for snapshot in dataset.history()] == list(range(299, -1, -1))


def test_a_missing_small_segment_is_written_with_the_next_large_one() -> None:
    store = grown(250)
    store.delete("datasets/d/history/16/000000000208.json.zst")
    dataset = lode.Dataset("d", store, runtime=AT_ONCE)
    for number in range(250, 256):
        dataset.write(b"", {"number": number})
    assert store.exists("datasets/d/history/16/000000000208.json.zst")
    assert store.exists("datasets/d/history/64/000000000256.json.zst")
    assert store.exists("datasets/d/history/256/000000000256.json.zst")


def test_changes_are_the_snapshots_after_one_up_to_another_in_order() -> None:
    dataset = lode.Dataset("d", grown(40))
    snapshots = dataset.snapshots()
    between = dataset.changes(since=snapshots[9], as_of=snapshots[20].id)
    assert [snapshot.metadata["number"] for snapshot in between] == list(range(10, 21))
    with pytest.raises(lode.NotFoundError, match="not in the history"):
        dataset.changes(since=snapshots[20], as_of=snapshots[9])


def test_time_along_the_chain_never_runs_back_even_if_a_clock_does() -> None:
    store = MemoryStore()
    clock = iter([3_000_000_000, 1_000_000_000, 1_000_000_000, 2_000_000_000, 5_000_000_000, 5_000_000_000])
    runtime = replace(AT_ONCE, now_ns=lambda: next(clock))
    dataset = lode.Dataset("d", store, runtime=runtime)
    for _ in range(3):
        dataset.write(b"")
    times = [snapshot.manifest.created_at for snapshot in dataset.snapshots()]
    assert times == sorted(times)
    assert len(set(times)) == 3


def test_as_of_a_moment_finds_the_snapshot_that_was_newest_then() -> None:
    store = MemoryStore()
    seconds = iter(range(100, 200))
    runtime = replace(AT_ONCE, now_ns=lambda: next(seconds) * 1_000_000_000)
    dataset = lode.Dataset("d", store, codec=lode.JSONL({"n": "int64"}), runtime=runtime)
    for number in range(3):
        dataset.write([{"n": number}])
    second = dataset.snapshots()[1]
    rows = dataset.scan(as_of=second.created_at).read_all().to_pylist()
    assert rows == [{"n": 0}, {"n": 1}]
    with pytest.raises(lode.NoSnapshotsError):
        dataset.scan(as_of=datetime(1970, 1, 1, tzinfo=UTC))
    with pytest.raises(lode.InvalidOptionError, match="time zone"):
        dataset.scan(as_of=datetime(2030, 1, 1))
