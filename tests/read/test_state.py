"""What is visible at a snapshot after files were removed, and what it costs to find out."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

import lode
from lode.definition import REMOVALS
from lode.format.manifest import Removes
from lode.read.segment import LEVELS
from lode.runtime import Runtime
from lode.store import CountingStore, MemoryStore
from lode.write import removal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SCHEMA = {"day": "string!", "n": "int64!"}
AT_ONCE = Runtime(background=lambda chore: chore())


def rows(*numbers: int, day: str = "mon") -> list[dict[str, object]]:
    return [{"day": day, "n": number} for number in numbers]


def numbers(dataset: lode.Dataset, **options: object) -> list[int]:
    found = dataset.scan(**options).read_all()  # type: ignore[arg-type]
    assert dataset.plan(**options).row_count == found.num_rows  # type: ignore[arg-type]
    return sorted(number for number in found["n"].to_pylist() if number is not None)


@pytest.fixture
def visits() -> lode.Dataset:
    dataset = lode.Dataset.create("visits", MemoryStore(), schema=SCHEMA, partition_by=["day"])
    dataset.write(rows(1, 2))
    dataset.write(rows(3, day="tue"))
    return dataset


def reopened(dataset: lode.Dataset) -> lode.Dataset:
    return lode.open_dataset(dataset.id, dataset.store)


def test_an_overwrite_replaces_the_partitions_that_its_rows_touch(visits: lode.Dataset) -> None:
    visits.overwrite(rows(9))
    assert numbers(reopened(visits)) == [3, 9]


def test_every_earlier_snapshot_has_the_rows_it_had(visits: lode.Dataset) -> None:
    visits.overwrite(rows(9))
    visits.delete("n = 3")
    visits.compact()
    visits.restore(3)
    found = [numbers(reopened(visits), as_of=number) for number in range(2, 7)]
    assert found == [[1, 2], [1, 2, 3], [3, 9], [9], [1, 2, 3]]


def test_a_dataset_whose_commits_remove_says_so_in_its_definition(visits: lode.Dataset) -> None:
    assert visits.definition.features == ()
    visits.delete("n = 1")
    assert reopened(visits).definition.features == (REMOVALS,)


def test_a_dataset_that_only_grows_is_planned_as_before(visits: lode.Dataset) -> None:
    store = CountingStore(visits.store)
    assert len(lode.Dataset("visits", store).plan().paths) == 2
    # The pointer, the newest manifest in two layouts, the definition and two more manifests.
    assert store.counts == {"get": 6}


def test_a_commit_that_replaces_everything_ends_the_walk_through_history() -> None:
    dataset = lode.Dataset("d", MemoryStore(), codec=lode.Parquet({"n": "int64"}))
    for number in range(20):
        dataset.write([{"n": number}])
    dataset.overwrite([{"n": 99}], everything=True)
    dataset.write([{"n": 100}])
    store = CountingStore(dataset.store)
    assert lode.Dataset("d", store).plan().row_count == 2
    # The pointer, the definition and two manifests.
    assert store.counts == {"get": 4}
    assert numbers(reopened(dataset)) == [99, 100]


def test_a_compaction_leaves_a_checkpoint_that_saves_reading_the_history(visits: lode.Dataset) -> None:
    for number in range(10, 50):
        visits.write(rows(number))
    visits.compact()  # not the one file of the other day
    store = CountingStore(visits.store)
    opened = lode.Dataset("visits", store)
    assert opened.plan().row_count == 43
    # The pointer, the manifest in two layouts, the definition and the checkpoint.
    assert store.counts == {"get": 5}
    assert numbers(opened) == numbers(visits)


@pytest.mark.parametrize("commits", [3, 40, 300])
def test_a_plan_after_a_compaction_of_everything_costs_the_same_after_any_number_of_commits(
    commits: int,
) -> None:
    dataset = lode.Dataset.create("d", MemoryStore(), schema=SCHEMA, partition_by=["day"])
    for number in range(commits):
        both = [*rows(number), *rows(number, day="tue")]
        lode.Dataset("d", dataset.store, runtime=AT_ONCE).write(both, on_conflict="append")
    dataset.compact()
    assert dataset.latest().manifest.removes == Removes(("",))
    assert not list(dataset.store.list("datasets/d/state/"))
    store = CountingStore(dataset.store)
    plan = lode.Dataset("d", store).plan()
    assert (len(plan.files), plan.row_count) == (2, 2 * commits)
    # The pointer, the manifest in two layouts and the definition.
    assert store.counts == {"get": 4}
    assert numbers(reopened(dataset)) == sorted([*range(commits)] * 2)


@pytest.mark.parametrize("content", [b"", b"garbage", b"\x28\xb5\x2f\xfd\x00"])
def test_a_damaged_checkpoint_costs_time_and_no_rows(visits: lode.Dataset, content: bytes) -> None:
    visits.write(rows(4))
    visits.compact()
    store = visits.store
    checkpoints = [entry.path for entry in store.list("datasets/visits/state/")]
    assert checkpoints
    for path in checkpoints:
        store.delete(path)
        store.put(path, content)
    assert numbers(reopened(visits)) == [1, 2, 3, 4]


def test_the_checkpoint_of_another_snapshot_is_not_used(visits: lode.Dataset) -> None:
    visits.write(rows(4))
    visits.compact()
    visits.write(rows(5))
    visits.compact()
    store = visits.store
    first, second = sorted(entry.path for entry in store.list("datasets/visits/state/"))
    content = store.get(first)
    store.delete(second)
    store.put(second, content)
    assert numbers(reopened(visits)) == [1, 2, 3, 4, 5]


def test_rows_of_files_without_statistics_are_counted_when_others_of_their_snapshot_are_removed() -> None:
    dataset = lode.Dataset("d", MemoryStore(), codec="jsonl", layout=lode.HiveLayout("day"))
    dataset.write([*rows(1, 2), *rows(3, 4, 5, day="tue")])
    dataset.overwrite(rows(9))
    assert lode.open_dataset("d", dataset.store).count() == 4


def test_a_partition_of_go_is_removed_by_the_name_that_python_gives_it() -> None:
    dataset = lode.Dataset("d", MemoryStore(), codec="jsonl", layout=lode.HiveLayout("k"))
    dataset.write([{"k": 1234567.5, "n": 1}])
    (path,) = dataset.plan().paths
    assert "k=1234567.5" in path
    assert _removed(dataset, ["k=1.2345675e+06"]) == [path]


def _removed(dataset: lode.Dataset, partitions: Iterable[str]) -> list[str]:
    state = dataset._handle.find().states.fold(dataset.latest().manifest)
    return state.matching(lode.Removes(tuple(partitions)))


# The most reads of a walk through a short history: manifests since the last segment, and segments.
MAX_WALK = 15 + 3 * len(LEVELS)


def overwrite_one_day(dataset: lode.Dataset) -> None:
    dataset.overwrite(rows(0, day="d3"))


def delete_one_day(dataset: lode.Dataset) -> None:
    dataset.delete("day = 'd3'")


@pytest.mark.parametrize("change", [overwrite_one_day, delete_one_day])
def test_the_store_calls_of_a_change_grow_by_a_bounded_walk_and_by_nothing_else(
    change: Callable[[lode.Dataset], None],
) -> None:
    others, walks = set(), {}
    for commits in (1, 10, 50, 250):
        store = growing(commits)
        counted = CountingStore(store)
        change(lode.Dataset("d", counted, runtime=AT_ONCE))
        read = [path for method, path in counted.events if method == "get" and is_history(path)]
        walks[commits] = len(read)
        others.add(counted.total - len(read))
        touched = [path for _, path in counted.events if "/data/" in path]
        assert all("day=d3/" in path for path in touched)
    assert len(others) == 1
    assert max(walks.values()) <= MAX_WALK
    assert walks[50] < walks[10]  # segments took the place of manifests


@pytest.mark.parametrize("change", [overwrite_one_day, delete_one_day])
def test_the_first_change_makes_one_call_more_at_the_same_place_of_a_long_history(
    change: Callable[[lode.Dataset], None],
) -> None:
    found = {}
    # With the snapshot that creates the dataset, both have a segment of 16 and four snapshots at their end.
    # The longer one has a segment of 1,024 before them.
    for commits in (19, 1043):
        counted = CountingStore(growing(commits, days=1))
        change(lode.Dataset("d", counted, runtime=AT_ONCE))
        assert not [path for _, path in counted.events if "/state/" in path]
        found[commits] = counted.total
    assert found[1043] == found[19] + 1


def test_the_first_change_of_a_long_history_is_folded_from_all_of_it() -> None:
    store = growing(257, days=1)
    lode.Dataset("d", store, runtime=AT_ONCE).overwrite(rows(-1, day="d9"))
    assert numbers(lode.Dataset("d", store)) == list(range(-1, 257))


def test_the_store_calls_of_a_change_are_those_since_the_last_checkpoint() -> None:
    """At the same place after a checkpoint, a change costs the same, however long the history is."""
    store = growing(1, days=1)
    dataset = lode.Dataset("d", store, runtime=AT_ONCE)
    dataset.overwrite(rows(0, day="d1"))
    totals: dict[tuple[int, str], set[int]] = {}
    for sequence in range(4, 560):
        dataset.overwrite(rows(sequence, day=f"d{sequence % 4}"))
        place = sequence % 256
        if sequence > 256 and place in (1, 40):
            for change in (overwrite_one_day, delete_one_day):
                counted = CountingStore(copied(store))
                change(lode.Dataset("d", counted, runtime=AT_ONCE))
                assert sum("/state/" in path for _, path in counted.events) == 1
                totals.setdefault((place, change.__name__), set()).add(counted.total)
    assert {len(found) for found in totals.values()} == {1}, totals


def copied(store: MemoryStore) -> MemoryStore:
    copy = MemoryStore()
    for entry in store.list():
        copy.put(entry.path, store.get(entry.path))
    return copy


def growing(commits: int, days: int = 4) -> MemoryStore:
    """A dataset with so many commits, each to some partitions, of which the last is d3."""
    store = MemoryStore()
    lode.Dataset.create("d", store, schema=SCHEMA, partition_by=["day"])
    dataset = lode.Dataset("d", store, runtime=AT_ONCE)
    for number in range(commits):
        dataset.write(
            [row for day in range(4 - days, 4) for row in rows(number, day=f"d{day}")], on_conflict="append"
        )
    return store


def is_history(path: str) -> bool:
    return path.endswith("/manifest.json") or "/history/" in path


def test_the_store_calls_of_a_plan_do_not_grow_with_the_number_of_commits_that_removed() -> None:
    store = growing(1)
    dataset = lode.Dataset("d", store, runtime=AT_ONCE)
    for number in range(120):
        dataset.overwrite(rows(number, day=f"d{number % 4}"))
        if number in (9, 119):
            counted = CountingStore(store)
            assert len(lode.Dataset("d", counted).plan().files) == 4
            assert sum(is_history(path) for _, path in counted.events) <= MAX_WALK
            assert not [path for _, path in counted.events if "/state/" in path]


def test_a_compaction_of_many_files_names_their_partitions(
    visits: lode.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "MAX_NAMED_FILES", 3)
    for number in range(4):
        visits.write([{"day": "mon", "n": number}, {"day": "tue", "n": number}], on_conflict="append")
    visits.write(rows(9, day="wed"))
    before = visits.count()
    change = visits.compact()
    assert change.snapshot is not None
    assert change.snapshot.manifest.removes == Removes(("day=mon", "day=tue"))
    assert visits.count() == before
    assert len(visits.plan().files) == 3


def test_a_compaction_of_everything_keeps_what_others_write_meanwhile(visits: lode.Dataset) -> None:
    visits.write([*rows(4), *rows(5, day="tue")])
    others = iter([rows(6, day="wed")])

    def write_once(_done: int, _total: int | None) -> None:
        for batch in others:
            reopened(visits).write(batch)

    visits.compact(progress=write_once)
    removes = visits.latest().manifest.removes
    assert removes is not None
    assert (removes.partitions, len(removes.files)) == ((), 4)
    assert numbers(reopened(visits)) == [1, 2, 3, 4, 5, 6]


def test_a_compaction_of_some_files_of_a_partition_names_these(
    visits: lode.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "MAX_NAMED_FILES", 0)
    visits.write(rows(*range(10, 5000)))
    large = max(file.size_bytes for file in visits.plan().files)
    visits.write(rows(4))
    visits.compact(target_file_bytes=large)
    removes = visits.latest().manifest.removes
    assert removes is not None
    assert (removes.partitions, len(removes.files)) == ((), 2)


def test_replacing_many_partitions_costs_no_more_for_each() -> None:
    def calls(days: int) -> int:
        """Python's calls, own and built in, of a fold over a dataset of which all days were replaced."""
        columns = [{"day": f"{days}-{number}", "hour": "1", "n": number} for number in range(days)]
        codec, layout = lode.Parquet({"day": "string", "hour": "string", "n": "int64"}), lode.HiveLayout
        store = MemoryStore()
        dataset = lode.Dataset("d", store, codec=codec, layout=layout("day", "hour"), runtime=AT_ONCE)
        dataset.write(columns)
        dataset.overwrite(columns, partitions=[{"day": row["day"]} for row in columns])
        plan, count = lode.Dataset("d", store).plan, 0

        def watch(*_: object) -> None:
            nonlocal count
            count += 1

        sys.setprofile(watch)
        try:
            found = plan()
        finally:
            sys.setprofile(None)
        assert len(found.files) == days
        return count

    assert calls(400) < 3 * calls(200)
