"""``drop``: everything goes, concurrent writers are refused, and the name can be used anew."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import lode
from lode.discover import volume_names
from lode.runtime import Runtime, one_by_one
from lode.store import CountingStore, MemoryStore
from support.crashes import Between, When, crashed_at_each_call
from support.stores import SwaplessStore, contents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lode.store import Store

SCHEMA = {"p": "string", "n": "int64"}


def written(store: Store, *, tag: bool = False, chosen: str = "chosen", **options: Any) -> lode.Dataset:
    """20 snapshots, so that there is a history segment; with removals, keys, a chosen id."""
    lode.Dataset.create("d", store, schema=SCHEMA, **options)
    made = lode.Dataset("d", store, codec=lode.Parquet(SCHEMA))
    for number in range(16):
        made.write([{"p": "a", "n": number}], idempotency_key=f"k{number}")
    made.compact()
    with made.transaction(snapshot_id=chosen) as transaction:
        transaction.write_records([{"p": "b", "n": 16}])
        transaction.commit()
    made.overwrite([{"p": "c", "n": 17}], where="n = 17")
    if tag:
        made.tag("v1", 3)
    return made


def filled(store: Store) -> lode.Volume:
    made = lode.Volume("v", store, 10)
    made.commit([made.stage_write_at(0, b"ab")])
    made.commit([made.stage_write_at(5, b"cd")])
    return made


def numbers(dataset: lode.Dataset, **options: Any) -> list[int]:
    found: list[Any] = dataset.scan(**options).read_all()["n"].to_pylist()
    return sorted(found)


def left(store: Store) -> set[str]:
    """What is left of a dataset, without what stays for ever: its pointer, its drop and its definitions."""
    return {
        path
        for path in contents(store)
        if not path.endswith("/latest") and "-drop/" not in path and "/definition/" not in path
    }


@pytest.mark.parametrize("options", [{}, {"partition_by": ["p"]}, {"layout": lode.FlatLayout()}])
def test_nothing_is_left_but_the_drop_itself(options: dict[str, Any]) -> None:
    store = MemoryStore()
    dataset = written(store, **options)
    planned = dataset.drop(dry_run=True)
    assert numbers(dataset), "a dry run drops nothing"
    report = dataset.drop()
    assert (report.snapshots, report.files, report.bytes) == (planned.snapshots, planned.files, planned.bytes)
    assert (report.snapshots, report.removed, planned.removed) == (20, True, False)
    assert {path.rpartition("/")[2] for path in left(store)} == {"intent.json"}, "of the id that was chosen"


def test_it_does_not_exist_any_more_for_anybody() -> None:
    store = MemoryStore()
    dataset = written(store)
    other = lode.Dataset("d", store)
    seen = [other.exists]
    lode.Dataset("other", store).write(b"x")
    dataset.drop()
    assert [*seen, other.exists, dataset.exists] == [True, False, False]
    assert lode.DatasetReader(store).list_datasets() == ["other"]
    for call in (dataset.latest, other.scan, other.count):
        with pytest.raises(lode.NoSnapshotsError):
            call()
    assert other.snapshots() == []
    with pytest.raises(lode.NotFoundError, match="no dataset 'd'"):
        lode.open_dataset("d", store)
    with pytest.raises(lode.NotFoundError, match="no dataset 'd'"):
        lode.DatasetReader(store).list_manifests("d")
    assert lode.verify(dataset).ok


def test_a_lake_whose_only_dataset_was_dropped_is_empty() -> None:
    store = MemoryStore()
    written(store).drop()
    assert lode.DatasetReader(store).list_datasets() == []


def test_what_does_not_exist_cannot_be_dropped() -> None:
    store = MemoryStore()
    with pytest.raises(lode.NoSnapshotsError):
        lode.Dataset("d", store).drop()
    with pytest.raises(lode.NoSnapshotsError):
        lode.Volume("v", store, 10).drop()
    assert contents(store) == {}


def test_to_drop_twice_is_the_same_as_once() -> None:
    store = MemoryStore()
    dataset = written(store)
    dataset.drop()
    before = contents(store)
    assert dataset.drop().snapshots == 0
    assert lode.Dataset("d", store).drop().files == 0
    assert contents(store) == before


def test_tags_block_a_drop_unless_it_is_forced() -> None:
    store = MemoryStore()
    dataset = written(store, tag=True)
    with pytest.raises(lode.InvalidOptionError, match=r"'v1'.*force=True"):
        dataset.drop()
    assert numbers(dataset)
    dataset.drop(force=True)
    assert not [path for path in contents(store) if "/tags/" in path]


def test_a_drop_with_a_base_is_refused_if_somebody_has_committed() -> None:
    store = MemoryStore()
    dataset = written(store)
    seen = dataset.latest()
    lode.Dataset("d", store).write([{"p": "z", "n": 99}])
    with pytest.raises(lode.SnapshotConflictError):
        dataset.drop(base=seen)
    assert 99 in numbers(dataset)
    dataset.drop(base="latest")
    assert not dataset.exists


# -- beginning anew ----------------------------------------------------------------------------


def test_the_next_history_follows_the_drop_and_shows_nothing_before_it() -> None:
    store = MemoryStore()
    dataset = written(store)
    old = dataset.latest()
    dataset.drop()
    dataset.write([{"p": "x", "n": 1}])
    dataset.write([{"p": "x", "n": 2}])
    assert [each.sequence for each in dataset.snapshots()] == [22, 23]
    assert [each.sequence for each in dataset.history()] == [23, 22]
    assert numbers(dataset) == numbers(lode.Dataset("d", store)) == [1, 2]
    assert numbers(dataset, as_of=22) == [1]
    assert dataset.snapshot("latest~1").sequence == 22
    for ref in (1, 21, "latest~2", old.id):
        with pytest.raises(lode.MissingError):
            dataset.scan(as_of=ref)
    with pytest.raises(lode.NotFoundError, match="2, numbered from 22"):
        dataset.snapshot(3)
    assert lode.verify(dataset).ok
    assert lode.DatasetReader(store).list_datasets() == ["d"]
    assert len(lode.DatasetReader(store).list_manifests("d")) == 2


def test_create_works_again_and_only_once() -> None:
    store = MemoryStore()
    written(store).drop()
    made = lode.Dataset.create("d", store, schema={"m": "string"})
    made.write([{"m": "x"}])
    assert made.schema is not None
    assert made.schema.names == ["m"]
    with pytest.raises(lode.DatasetExistsError):
        lode.Dataset.create("d", store, schema={"m": "string"})


@pytest.mark.parametrize("before", [{}, {"partition_by": ["p"]}, {"layout": lode.FlatLayout()}])
@pytest.mark.parametrize("after", [{}, {"partition_by": ["p"]}, {"layout": lode.FlatLayout()}])
def test_what_comes_next_may_have_another_layout(before: dict[str, Any], after: dict[str, Any]) -> None:
    store = MemoryStore()
    old = written(store, **before)
    reader = lode.Dataset("d", store)
    assert reader.count()
    old.drop()
    made = lode.Dataset.create("d", store, schema=SCHEMA, **after)
    made.write([{"p": "x", "n": 1}])
    assert numbers(lode.open_dataset("d", store)) == [1]
    assert numbers(made) == [1]
    assert numbers(reader) == [1]
    assert lode.verify(lode.open_dataset("d", store)).ok
    made.drop()
    assert not lode.Dataset("d", store).exists


def test_a_key_of_before_the_drop_does_not_swallow_a_write() -> None:
    store = MemoryStore()
    dataset = written(store)
    keys = {path: data for path, data in contents(store).items() if "/keys/" in path}
    dataset.drop()
    for path, data in keys.items():  # as a drop that died has left them
        store.put(path, data)
    first = dataset.write([{"p": "x", "n": 1}], idempotency_key="k1")
    assert numbers(dataset) == [1]
    assert dataset.write([{"p": "x", "n": 1}], idempotency_key="k1").id == first.id
    assert lode.Dataset("d", store).write([{"p": "x", "n": 1}], idempotency_key="k1").id == first.id
    assert numbers(dataset) == [1]


def test_an_id_that_was_chosen_is_never_used_again() -> None:
    store = MemoryStore()
    dataset = written(store)
    dataset.drop()
    dataset.write([{"p": "x", "n": 1}])
    transaction = dataset.transaction(snapshot_id="chosen")
    transaction.write_records([{"p": "x", "n": 2}])
    with pytest.raises(lode.TransactionClosedError):
        transaction.commit()
    with pytest.raises(lode.InvalidPathError, match="drop"):
        dataset.transaction(snapshot_id="my-drop")


def test_history_segments_of_both_histories_do_not_mix() -> None:
    store = MemoryStore()
    dataset = written(store)
    dataset.drop()
    for number in range(40):
        dataset.write([{"p": "x", "n": number}])
    fresh = lode.Dataset("d", store)
    assert numbers(fresh) == list(range(40))
    assert len(fresh.snapshots()) == len(list(fresh.history())) == 40
    assert fresh.snapshot("latest~39").sequence == 22
    assert fresh.snapshot(fresh.snapshot(30).created_at).sequence == 30


def test_the_head_is_found_without_a_pointer() -> None:
    store = MemoryStore()
    dataset = written(store)
    leftover = {path: data for path, data in contents(store).items() if path.endswith("manifest.json")}
    dataset.drop()
    for path in list(leftover)[::3]:  # a drop that died has left gaps
        store.put(path, leftover[path])
    store.delete("datasets/d/latest")
    assert not lode.Dataset("d", store).exists
    dataset = lode.Dataset("d", store, codec=lode.Parquet(SCHEMA))
    dataset.write([{"p": "x", "n": 1}])
    store.delete("datasets/d/latest")
    assert numbers(lode.Dataset("d", store)) == [1]


def test_an_expiry_and_another_drop_after_it_work() -> None:
    store = MemoryStore()
    written(store).drop()
    dataset = written(store, chosen="another")
    dataset.compact()
    before = numbers(dataset)
    assert lode.expire(dataset, keep=1, dry_run=False).files
    assert numbers(dataset) == before
    assert lode.verify(dataset).ok
    dataset.drop()
    assert {path.rpartition("/")[2] for path in left(store)} == {"intent.json"}


# -- other writers -----------------------------------------------------------------------------


WRITES: dict[str, Callable[[lode.Dataset], object]] = {
    "write": lambda other: other.write([{"p": "a", "n": 7}]),
    "append": lambda other: other.write([{"p": "a", "n": 7}], on_conflict="append"),
    "keyed write": lambda other: other.write([{"p": "a", "n": 7}], idempotency_key="new"),
    "overwrite": lambda other: other.overwrite([{"p": "a", "n": 7}], where="n = 7", on_conflict="redo"),
    "delete": lambda other: other.delete("n = 17", on_conflict="redo"),
    "merge": lambda other: other.merge([{"p": "a", "n": 17}], on=["n"], on_conflict="redo"),
    "compact": lambda other: other.compact(target_file_bytes=1 << 20),
    "restore": lambda other: other.restore(3),
    "evolve": lambda other: other.evolve(add={"m": "string"}),
    "expiry": lambda other: lode.expire(other, keep=1, dry_run=False),
}


@pytest.mark.parametrize("how", WRITES)
def test_a_concurrent_writer_is_refused_and_not_lost(how: str) -> None:
    store = MemoryStore()
    dataset = written(store)
    dataset.write([{"p": "c", "n": 18}])
    racing = lode.Dataset("d", Between(store, dataset.drop))
    with pytest.raises(lode.DatasetDroppedError, match="dropped"):
        WRITES[how](racing)
    assert not lode.Dataset("d", store).exists
    assert lode.verify(lode.Dataset("d", store)).ok


def test_a_write_that_was_begun_before_the_drop_does_not_follow_a_new_history() -> None:
    store = MemoryStore()
    dataset = written(store)
    late = lode.Dataset("d", store).transaction()
    late.write_records([{"p": "a", "n": 7}])
    dataset.drop()
    dataset.write([{"p": "x", "n": 1}])
    with pytest.raises(lode.DatasetDroppedError):
        late.commit()
    assert numbers(dataset) == [1]


def test_a_thread_whose_dataset_learned_of_the_drop_meanwhile_is_refused_too() -> None:
    store = MemoryStore()
    dataset = written(store)
    shared = lode.Dataset("d", store)
    first, second = shared.transaction(), shared.transaction()
    for transaction in (first, second):
        transaction.write_records([{"p": "a", "n": 7}])
    dataset.drop()
    for transaction in (first, second):
        with pytest.raises(lode.DatasetDroppedError):
            transaction.commit()
    assert not lode.Dataset("d", store).exists


@pytest.mark.parametrize("how", ["write", "overwrite", "delete", "compact", "evolve"])
def test_a_drop_follows_every_commit_that_comes_first(how: str) -> None:
    store = MemoryStore()
    written(store)
    other = lode.Dataset("d", store)
    lode.Dataset("d", Between(store, lambda: WRITES[how](other))).drop()
    assert not other.exists
    assert {path.rpartition("/")[2] for path in left(store)} <= {"intent.json"}


def test_two_drops_at_once_are_one() -> None:
    store = MemoryStore()
    dataset = written(store)
    lode.Dataset("d", Between(store, dataset.drop)).drop()
    assert not lode.Dataset("d", store).exists
    drops = [path for path in contents(store) if path.endswith("-drop/manifest.json")]
    assert len(drops) == 1


def test_a_tag_that_comes_after_the_drop_is_refused() -> None:
    store = MemoryStore()
    dataset = written(store)
    other = lode.Dataset("d", store)
    seen = other.latest()
    dataset.drop()
    with pytest.raises(lode.SnapshotExpiredError):
        other.tag("v1", seen)
    assert not [path for path in contents(store) if "/tags/" in path]


def test_a_store_without_compare_and_swap_can_drop_too() -> None:
    dataset = written(SwaplessStore())
    dataset.drop()
    assert not dataset.exists
    dataset.write([{"p": "x", "n": 1}])
    assert numbers(dataset) == [1]


def test_files_of_refused_writers_are_swept() -> None:
    store = MemoryStore()
    dataset = written(store)
    lode.Dataset("d", store).stager().write_records([{"p": "a", "n": 7}])
    dataset.drop()
    dataset.write([{"p": "x", "n": 1}])
    lode.sweep(dataset, timedelta(0), dry_run=False)
    assert numbers(dataset) == [1]
    assert len([path for path in contents(store) if "/data/" in path]) == 1


# -- crashes -----------------------------------------------------------------------------------


def backwards(task: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
    """Threads may end in any order: this is the one in which the last is the first."""
    return one_by_one(task, reversed(list(items)))[::-1]


@pytest.mark.parametrize(("when", "each"), [("before", backwards), ("after", one_by_one)])
@pytest.mark.parametrize("options", [{}, {"partition_by": ["p"]}])
def test_a_drop_that_dies_at_any_call_has_happened_or_not_and_is_finished_by_the_next(
    options: dict[str, Any], when: When, each: Any
) -> None:
    store = MemoryStore()
    expected = numbers(written(store, tag=True, **options))
    seen = set()
    runtime = Runtime(each=each)

    def act(store: Store) -> None:
        lode.Dataset("d", store, runtime=runtime).drop(force=True)

    for crashed in crashed_at_each_call(store, act, when):
        again = lode.Dataset("d", crashed)
        exists = again.exists
        seen.add(exists)
        assert (lode.DatasetReader(crashed).list_datasets() == ["d"]) == exists
        assert lode.verify(again).ok
        if exists:
            assert numbers(again) == expected
        again.drop(force=True)
        assert not again.exists
        assert {path.rpartition("/")[2] for path in left(crashed)} == {"intent.json"}
    assert seen == {True, False}


def test_a_new_history_after_a_drop_that_died_is_whole() -> None:
    store = MemoryStore()
    written(store, tag=True)

    def act(store: Store) -> None:
        lode.Dataset("d", store).drop(force=True)

    for number, crashed in enumerate(crashed_at_each_call(store, act, "before")):
        again = lode.Dataset("d", crashed, codec=lode.Parquet(SCHEMA))
        if again.exists or number % 3:
            continue
        again.write([{"p": "x", "n": 1}], idempotency_key="k1")
        again.write([{"p": "x", "n": 2}])
        assert numbers(again) == numbers(lode.Dataset("d", crashed)) == [1, 2]
        assert len(again.snapshots()) == 2
        assert lode.verify(again).ok
        again.drop(force=True)
        assert not [path for path in contents(crashed) if "/data/" in path], "also those of the first drop"


# -- volumes -----------------------------------------------------------------------------------


def test_a_volume_is_dropped_and_created_anew_with_another_length() -> None:
    store = MemoryStore()
    volume = filled(store)
    volume.tag("half", 1)
    with pytest.raises(lode.InvalidOptionError, match="'half'"):
        volume.drop()
    assert volume.drop(dry_run=True, force=True).files == 2
    report = volume.drop(force=True)
    assert (report.snapshots, report.files, report.bytes) == (2, 2, 4)
    assert volume_names(store) == []
    assert left(store) == set()
    with pytest.raises(lode.NoSnapshotsError):
        volume.latest()
    with pytest.raises(lode.NotFoundError):
        lode.open_volume("v", store)
    anew = lode.Volume("v", store, 30)
    anew.commit([anew.stage_write_at(0, b"xyz")])
    assert [each.sequence for each in anew.snapshots()] == [4]
    assert anew.read_at("latest", 0, 3) == b"xyz"
    assert lode.verify(anew).ok
    assert volume_names(store) == ["v"]


def test_a_concurrent_writer_of_a_volume_is_refused() -> None:
    store = MemoryStore()
    volume = filled(store)
    racing = lode.Volume("v", Between(store, volume.drop), 10)
    with pytest.raises(lode.DatasetDroppedError):
        racing.commit([racing.stage_write_at(8, b"e")])
    racing.commit([racing.stage_write_at(8, b"f")])
    assert racing.missing() == [(0, 8), (9, 1)]


def test_blocks_that_were_never_committed_are_swept_after_a_drop() -> None:
    store = MemoryStore()
    volume = filled(store)
    volume.stage_write_at(8, b"e")
    volume.drop()
    volume.commit([volume.stage_write_at(0, b"z")])
    assert len(lode.sweep(volume, timedelta(0), dry_run=False).leftovers) > 0
    assert len([path for path in contents(store) if "/data/" in path]) == 1
    assert volume.read_at("latest", 0, 1) == b"z"


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_drop_of_a_volume_that_dies_at_any_call_is_finished_by_the_next(when: When) -> None:
    store = MemoryStore()
    filled(store)
    seen = set()
    for crashed in crashed_at_each_call(store, lambda store: lode.Volume("v", store, 10).drop(), when):
        again = lode.Volume("v", crashed, 10)
        try:
            assert again.read_at("latest", 5, 2) == b"cd"
            seen.add(True)
        except lode.NoSnapshotsError:
            seen.add(False)
        assert lode.verify(again).ok
        again.drop()
        assert left(crashed) == set()
    assert seen == {True, False}


# -- cost --------------------------------------------------------------------------------------


def test_a_commit_after_a_drop_costs_what_it_did_before() -> None:
    store = CountingStore(MemoryStore())
    dataset = written(store)
    dataset.drop()
    dataset.write([{"p": "x", "n": 1}])
    store.events.clear()
    dataset.write([{"p": "x", "n": 2}])
    assert len(store.events) == 4


def test_a_hostile_beginning_is_refused() -> None:
    store = MemoryStore()
    dataset = written(store)
    path = dataset.chain.paths.manifest(dataset.latest().id)
    manifest = json.loads(store.get(path))
    for garbage in ("x", 0, -1, 1.5, [1]):
        manifest["x"]["begins"] = garbage
        store.delete(path)
        store.put(path, json.dumps(manifest).encode())
        with pytest.raises(lode.ManifestInvalidError, match="begins"):
            lode.Dataset("d", store).latest()
