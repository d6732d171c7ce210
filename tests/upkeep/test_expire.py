"""``lode.expire``: old snapshots go, with the files that only they can see, and nothing else does."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import lode
from lode.read.checkpoint import put_checkpoint
from lode.runtime import Runtime
from lode.store import MemoryStore
from lode.store.wrappers import FaultStore
from support.clock import Clock
from support.crashes import Between, When, crashed_at_each_call
from support.stores import contents

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.store import Store

DAY = timedelta(days=1)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def dataset(store: MemoryStore) -> lode.Dataset:
    """Rows 1 to 4 in four files (1 to 4), compacted (5), and row 5 (6)."""
    return written(store)


def written(store: Store) -> lode.Dataset:
    made = lode.Dataset.create("d", store, schema={"p": "string", "n": "int64"}, partition_by=["p"])
    for number in range(1, 4):
        made.write([{"p": "a", "n": number}])
    made.compact()
    made.write([{"p": "b", "n": 4}])
    return made


def numbers(dataset: lode.Dataset, **options: Any) -> list[int]:
    found: list[Any] = dataset.scan(**options).read_all()["n"].to_pylist()
    return sorted(found)


def data(store: Store) -> set[str]:
    return {entry.path for entry in store.list() if "/data/" in entry.path}


def states(dataset: lode.Dataset) -> dict[int, list[int]]:
    """The rows at each snapshot that can be read."""
    found = {}
    for snapshot in dataset.snapshots():
        try:
            found[snapshot.sequence or 0] = numbers(dataset, as_of=snapshot)
        except lode.SnapshotExpiredError:
            continue
    return found


# -- what stays and what goes ------------------------------------------------------------------


def test_expired_snapshots_go_with_the_files_that_only_they_can_see(dataset: lode.Dataset) -> None:
    before = states(dataset)
    kept = {file.path for manifest in dataset.plan().manifests for file in manifest.files}
    report = lode.expire(dataset, keep=2, dry_run=False)
    assert (report.floor, report.snapshots, report.files, report.removed) == (5, 4, 3, True)
    assert states(dataset) == {5: before[5], 6: before[6], 7: before[6]}
    assert data(dataset.store) == kept
    assert lode.verify(dataset).ok


def test_a_dry_run_is_the_default_and_changes_nothing(dataset: lode.Dataset) -> None:
    before = contents(dataset.store)
    report = lode.expire(dataset, keep=1)
    assert contents(dataset.store) == before
    assert not report.removed
    done = lode.expire(dataset, keep=1, dry_run=False)
    assert (done.floor, done.snapshots, done.paths, done.bytes) == (
        report.floor,
        report.snapshots,
        report.paths,
        report.bytes,
    )
    assert set(done.paths).isdisjoint(data(dataset.store))


def test_an_expired_snapshot_says_where_history_begins(dataset: lode.Dataset) -> None:
    lode.expire(dataset, keep=1, dry_run=False)
    for read in (dataset.scan, dataset.count, dataset.plan):
        with pytest.raises(lode.SnapshotExpiredError, match="from number 6 on"):
            read(as_of=3)
    with pytest.raises(lode.SnapshotExpiredError):
        dataset.restore(3)
    with pytest.raises(lode.SnapshotExpiredError):
        dataset.read(3)
    assert dataset.snapshot(3).sequence == 3, "its description stays"


def test_the_same_expiry_twice_is_the_same_as_once(dataset: lode.Dataset) -> None:
    lode.expire(dataset, keep=2, dry_run=False)
    again: list[dict[str, Any]] = [{"keep": 2}, {"keep": 1}, *2 * [{"older_than": timedelta(0)}]]
    for options in again:
        lode.expire(dataset, **options, dry_run=False)
    assert dataset.latest().sequence == 8, "only the second one had anything to expire"
    lode.expire(dataset, keep=2, dry_run=False)
    assert dataset.latest().manifest.floor == 6, "a floor never goes back"


def test_a_dataset_without_removals_keeps_every_file() -> None:
    dataset = lode.Dataset("d", MemoryStore(), codec=lode.Parquet({"n": "int64"}))
    for number in range(5):
        dataset.write([{"n": number}])
    report = lode.expire(dataset, keep=1, dry_run=False)
    assert (report.floor, report.snapshots, report.files) == (5, 4, 0)
    assert numbers(dataset) == [0, 1, 2, 3, 4]
    with pytest.raises(lode.SnapshotExpiredError):
        dataset.scan(as_of=2)
    assert dataset.definition.features == (), "a reader that knows no floor finds every file"


def test_files_that_a_later_restore_brought_back_stay(dataset: lode.Dataset) -> None:
    dataset.restore(3)
    dataset.write([{"p": "c", "n": 9}])
    expected = numbers(dataset)
    for _ in range(2):
        lode.expire(dataset, keep=1, dry_run=False)
        assert numbers(dataset) == expected == [1, 2, 9]


def test_what_a_restore_after_the_floor_needs_stays_for_its_snapshot(dataset: lode.Dataset) -> None:
    dataset.restore(3)
    dataset.overwrite([{"p": "a", "n": 100}], everything=True)
    expected = states(dataset)
    lode.expire(dataset, keep=3, dry_run=False)
    assert {number: rows for number, rows in states(dataset).items() if number < 9} == {
        number: rows for number, rows in expected.items() if number >= 6
    }
    assert lode.verify(dataset).ok


def test_tagged_snapshots_stay_readable_until_they_are_untagged(dataset: lode.Dataset) -> None:
    dataset.tag("v1", 3)
    report = lode.expire(dataset, keep=1, dry_run=False)
    assert report.snapshots == 4
    assert numbers(dataset, as_of="v1") == numbers(dataset, as_of=3) == [1, 2]
    assert dataset.count(as_of="v1") == 2
    assert lode.verify(dataset).ok
    dataset.untag("v1")
    with pytest.raises(lode.SnapshotExpiredError):
        dataset.scan(as_of=3)
    assert lode.expire(dataset, keep=1, dry_run=False).files == 2


def test_what_is_needed_at_that_time_stays_by_age() -> None:
    clock = Clock()
    runtime = Runtime(now_ns=clock)
    store = MemoryStore(now_ns=clock)
    dataset = lode.Dataset("d", store, codec=lode.Parquet({"n": "int64"}), runtime=runtime)
    begin = datetime.fromtimestamp(clock.now / 1e9, UTC)
    for number in range(5):
        clock.pass_by(DAY)
        dataset.overwrite([{"n": number}], everything=True)
    clock.pass_by(DAY / 2)
    report = lode.expire(dataset, older_than=2 * DAY, dry_run=False, runtime=runtime)
    assert (report.floor, report.files) == (3, 2)
    assert numbers(dataset, as_of=begin + 3.5 * DAY) == [2]
    assert lode.expire(dataset, older_than=begin + 4.5 * DAY, runtime=runtime).floor == 4
    assert lode.expire(dataset, older_than=begin + 400 * DAY, runtime=runtime).floor == 5, "the newest stays"
    assert lode.expire(dataset, older_than=begin, runtime=runtime).floor == 3
    assert lode.expire(dataset, older_than=timedelta.max, runtime=runtime).floor == 3


def test_checkpoints_of_expired_snapshots_go_and_the_one_that_the_floor_names_stays(
    dataset: lode.Dataset,
) -> None:
    found = dataset._handle.find()
    for number in range(3):
        dataset.overwrite([{"p": "a", "n": number}])
        found.states.write_checkpoint(dataset.latest().manifest)
    last = dataset.write([{"p": "a", "n": 9}])
    assert len(list(dataset.store.list(found.chain.paths.states))) == 3
    report = lode.expire(dataset, keep=1, dry_run=False)
    assert report.checkpoints == 2
    named = last.manifest.checkpoint
    assert named is not None
    left = [entry.path for entry in dataset.store.list(found.chain.paths.states)]
    assert left == [found.chain.paths.state(named.sha256)]
    assert lode.verify(dataset).ok


def test_a_checkpoint_that_no_snapshot_names_goes_after_an_hour() -> None:
    clock = Clock()
    runtime = Runtime(now_ns=clock)
    store = MemoryStore(now_ns=clock)
    dataset = lode.Dataset("d", store, codec=lode.Parquet({"n": "int64"}), runtime=runtime)
    for number in range(3):
        dataset.overwrite([{"n": number}], everything=True)
    orphan = f"{dataset.chain.paths.states}{'0' * 64}.json.zst"
    store.put(orphan, b"")
    assert lode.expire(dataset, keep=1, dry_run=False, runtime=runtime).checkpoints == 0
    assert store.exists(orphan)
    clock.pass_by(timedelta(hours=2))
    assert lode.expire(dataset, keep=1, dry_run=False, runtime=runtime).checkpoints == 1
    assert not store.exists(orphan)


def test_volumes_and_other_things_are_refused_with_the_reason() -> None:
    volume = lode.Volume("v", MemoryStore(), 10)
    volume.commit([volume.stage_write_at(0, b"x")])
    with pytest.raises(lode.InvalidOptionError, match="all blocks"):
        lode.expire(volume, keep=1)
    with pytest.raises(lode.InvalidOptionError, match="takes a Dataset"):
        lode.expire("d", keep=1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"keep": 1, "older_than": DAY},
        *({"keep": value} for value in (0, -1, True, 1.0, "1")),
        *({"older_than": value} for value in (-DAY, 3, "30d", datetime(2026, 1, 1))),
    ],
)
def test_careless_options_are_refused_and_change_nothing(dataset: lode.Dataset, options: Any) -> None:
    before = contents(dataset.store)
    with pytest.raises(lode.InvalidOptionError):
        lode.expire(dataset, **options, dry_run=False)
    assert contents(dataset.store) == before


def test_a_dataset_that_does_not_exist_cannot_expire(store: MemoryStore) -> None:
    with pytest.raises(lode.NoSnapshotsError):
        lode.expire(lode.Dataset("d", store), keep=1, dry_run=False)
    assert contents(store) == {}


# -- hostile content ---------------------------------------------------------------------------


def test_only_data_files_of_the_dataset_are_removed_whatever_manifests_name(dataset: lode.Dataset) -> None:
    other = lode.Dataset("other", dataset.store, codec=lode.Parquet({"n": "int64"}))
    other.write([{"n": 1}])
    foreign = other.latest().files[0].path
    first = dataset.snapshot(2)
    path = dataset.chain.paths.manifest(first.id)
    manifest = json.loads(dataset.store.get(path))
    named = [dataset.chain.paths.pointer, dataset.chain.paths.manifest(dataset.latest().id), foreign]
    manifest["files"] += [{"path": each, "size_bytes": 1} for each in named]
    dataset.store.delete(path)
    dataset.store.put(path, json.dumps(manifest).encode())
    report = lode.expire(lode.Dataset("d", dataset.store), keep=1, dry_run=False)
    assert set(report.paths).isdisjoint(named)
    assert numbers(dataset) == [1, 2, 3, 4]
    assert numbers(other) == [1]


def test_a_wrong_checkpoint_removes_no_file_that_is_needed(dataset: lode.Dataset) -> None:
    dataset.write([{"p": "a", "n": 5}])
    dataset.write([{"p": "a", "n": 6}])
    compacted = dataset.compact(where="n >= 5").snapshot
    assert compacted is not None
    ref = compacted.manifest.checkpoint
    assert ref is not None
    path = dataset.chain.paths.state(ref.sha256)
    dataset.store.delete(path)
    put_checkpoint(dataset.chain, compacted.manifest, [])
    forged = next(entry.path for entry in dataset.store.list(dataset.chain.paths.states))
    dataset.store.put(path, dataset.store.get(forged))
    assert [problem.kind for problem in lode.verify(dataset).problems] == ["checkpoint"]
    assert numbers(lode.Dataset("d", dataset.store)) == [1, 2, 3, 4, 5, 6]
    lode.expire(dataset, keep=1, dry_run=False)
    assert numbers(lode.Dataset("d", dataset.store)) == [1, 2, 3, 4, 5, 6]


def test_a_history_that_cannot_be_read_is_refused_before_anything_changes(dataset: lode.Dataset) -> None:
    path = dataset.chain.paths.manifest(dataset.snapshot(2).id)
    dataset.store.delete(path)
    before = contents(dataset.store)
    with pytest.raises(lode.ManifestInvalidError):
        lode.expire(lode.Dataset("d", dataset.store), keep=1, dry_run=False)
    assert contents(dataset.store) == before


# -- other writers, crashes --------------------------------------------------------------------


OTHERS: dict[str, Callable[[lode.Dataset], object]] = {
    "append": lambda other: other.write([{"p": "a", "n": 7}]),
    "overwrite": lambda other: other.overwrite([{"p": "a", "n": 7}]),
    "delete": lambda other: other.delete("n = 2"),
    "merge": lambda other: other.merge([{"p": "a", "n": 2}], on=["n"]),
    "compact": lambda other: other.compact(),
    "restore what is about to expire": lambda other: other.restore(3),
    "evolve": lambda other: other.evolve(add={"m": "string"}),
    "another expiry": lambda other: lode.expire(other, keep=2, dry_run=False),
}


@pytest.mark.parametrize("how", OTHERS)
def test_an_expiry_conflicts_with_no_other_writer_and_loses_no_row(store: MemoryStore, how: str) -> None:
    written(store)
    other = lode.Dataset("d", store)
    expected: list[int] = []

    def act() -> None:
        OTHERS[how](other)
        expected.extend(numbers(other))

    report = lode.expire(lode.Dataset("d", Between(store, act)), keep=1, dry_run=False)
    assert report.floor == 6
    fresh = lode.Dataset("d", store)
    assert numbers(fresh) == expected
    assert lode.verify(fresh).ok


@pytest.mark.parametrize("how", [each for each in OTHERS if "expire" not in each and "expiry" not in each])
def test_no_other_writer_conflicts_with_an_expiry(store: MemoryStore, how: str) -> None:
    dataset = written(store)
    racing = lode.Dataset("d", Between(store, lambda: lode.expire(dataset, keep=1, dry_run=False)))
    OTHERS[how](racing)
    fresh = lode.Dataset("d", store)
    serial = written(MemoryStore())
    OTHERS[how](serial)
    assert numbers(fresh) == numbers(serial)
    assert lode.verify(fresh).ok


def test_a_restore_of_what_has_just_expired_is_refused(store: MemoryStore) -> None:
    dataset = written(store)
    racing = lode.Dataset("d", Between(store, lambda: lode.expire(dataset, keep=1, dry_run=False)))
    with pytest.raises(lode.SnapshotExpiredError):
        racing.restore(3)
    assert numbers(dataset) == [1, 2, 3, 4]


def test_a_tagged_snapshot_can_be_restored_after_it_expired(dataset: lode.Dataset) -> None:
    then = numbers(dataset, as_of=3)
    dataset.tag("v1", 3)
    lode.expire(dataset, keep=1, dry_run=False)
    dataset.restore("v1")
    assert [tag.name for tag in dataset.tags()] == ["v1"]
    dataset.untag("v1")
    lode.expire(dataset, keep=1, dry_run=False)
    assert numbers(dataset) == then
    assert lode.verify(dataset).ok


def tagged_and_expired(store: MemoryStore) -> tuple[lode.Dataset, list[int]]:
    """A dataset whose third snapshot is expired and tagged "v1", and the rows of that snapshot."""
    dataset = written(store)
    then = numbers(dataset, as_of=3)
    dataset.tag("v1", 3)
    lode.expire(dataset, keep=1, dry_run=False)
    return dataset, then


def test_files_of_a_tagged_snapshot_stay_if_it_is_untagged_and_expired_during_its_restore(
    store: MemoryStore,
) -> None:
    dataset, then = tagged_and_expired(store)

    def act() -> None:
        dataset.untag("v1")
        lode.expire(dataset, keep=1, dry_run=False)

    lode.Dataset("d", Between(store, act)).restore("v1")
    fresh = lode.Dataset("d", store)
    assert numbers(fresh) == then
    assert fresh.tags() == []
    assert lode.verify(fresh).ok


def test_files_stay_if_a_tagged_snapshot_is_restored_while_an_expiry_looks_for_files(
    store: MemoryStore,
) -> None:
    dataset, then = tagged_and_expired(store)
    dataset.write([{"p": "a", "n": 9}])
    other = lode.Dataset("d", store)

    class Late(FaultStore):
        """Restores and untags when the tags are listed after the floor was committed."""

        swaps = 0

        def around(self, method: str, path: str, call: Callable[[], Any]) -> Any:
            self.swaps += method == "compare_and_swap"
            if method == "list" and "/tags/" in path and self.swaps == 1:
                self.swaps += 1
                other.restore("v1")
                other.untag("v1")
            return super().around(method, path, call)

    racing = Late(store)
    lode.expire(lode.Dataset("d", racing), keep=1, dry_run=False)
    assert racing.swaps >= 2
    fresh = lode.Dataset("d", store)
    assert numbers(fresh) == then
    assert lode.verify(fresh).ok


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_expiry_that_dies_at_any_call_loses_nothing_and_is_finished_by_the_next(
    store: MemoryStore, when: When
) -> None:
    dataset = written(store)
    dataset.tag("v1", 3)
    before = states(dataset)
    leftovers = set()

    def act(store: Store) -> None:
        lode.expire(lode.Dataset("d", store), keep=1, dry_run=False)

    for crashed in crashed_at_each_call(store, act, when):
        again = lode.Dataset("d", crashed)
        assert lode.verify(again).ok
        now = states(again)
        assert now.items() >= {6: before[6], 3: before[3]}.items(), "the newest and the tagged one"
        assert all(rows == before[min(number, 6)] for number, rows in now.items())
        report = lode.expire(again, keep=1, dry_run=False)
        leftovers.add(report.files)
        assert states(again) == {3: before[3], 6: before[6], 7: before[6]}
        assert len(data(crashed)) == 4
        assert lode.verify(again).ok
    assert 0 in leftovers or when == "before"
    assert 1 in leftovers


def test_progress_counts_to_the_end(dataset: lode.Dataset) -> None:
    steps: list[tuple[int, int | None]] = []
    lode.expire(dataset, keep=1, dry_run=False, progress=lambda done, total: steps.append((done, total)))
    assert steps[-1] == (3, 3)
