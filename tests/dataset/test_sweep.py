"""sweep: removes what dead writers left, and never anything that may still be wanted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

import lode
from contract.stores import contents, data_files
from lode.runtime import Runtime
from lode.store import CountingStore, Fault, FaultStore, MemoryStore, SimulatedCrash

if TYPE_CHECKING:
    from collections.abc import Callable

HOUR = timedelta(hours=1)


class Clock:
    """A clock that moves only when told to, for the store's dates and the sweep's sense of now."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000_000_000

    def __call__(self) -> int:
        return self.now

    def pass_by(self, time: timedelta) -> None:
        self.now += int(time.total_seconds() * 1e9)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lake(clock: Clock) -> MemoryStore:
    return MemoryStore(now_ns=clock)


@pytest.fixture
def dataset(lake: MemoryStore, clock: Clock) -> lode.Dataset:
    return lode.Dataset("events", lake, codec="jsonl", runtime=Runtime(now_ns=clock))


@pytest.fixture
def sweep(lake: MemoryStore, clock: Clock) -> Callable[..., lode.Sweep]:
    def run(older_than: timedelta = HOUR, *, dry_run: bool = False) -> lode.Sweep:
        return lode.sweep(lake, "events", older_than, dry_run=dry_run, runtime=Runtime(now_ns=clock))

    return run


def paths(found: lode.Sweep) -> list[str]:
    return [item.path for item in found.leftovers]


def test_a_sweep_is_a_dry_run_unless_told_otherwise(
    dataset: lode.Dataset, lake: MemoryStore, clock: Clock
) -> None:
    dataset.transaction().stage([{"id": 1}])
    clock.pass_by(2 * HOUR)
    before = contents(lake)
    found = lode.sweep(lake, "events", HOUR, runtime=Runtime(now_ns=clock))
    assert not found.removed
    assert paths(found) == data_files(lake)
    assert contents(lake) == before


def test_each_leftover_is_explained(
    dataset: lode.Dataset, clock: Clock, sweep: Callable[..., lode.Sweep]
) -> None:
    transaction = dataset.transaction()
    staged = transaction.stage([{"id": 1}])
    clock.pass_by(2 * HOUR)
    (leftover,) = sweep(dry_run=True).leftovers
    assert leftover.reason == f"staged for {transaction.snapshot_id}, which was never committed"
    assert (leftover.path, leftover.size) == (staged.files[0].path, staged.files[0].size_bytes)
    assert leftover.modified == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


def test_abandoned_files_are_removed(
    dataset: lode.Dataset, lake: MemoryStore, clock: Clock, sweep: Callable[..., lode.Sweep]
) -> None:
    kept = dataset.write([{"id": 0}])
    staged = dataset.transaction().stage([{"id": 1}])
    clock.pass_by(2 * HOUR)
    found = sweep()
    assert found.removed
    assert staged.files[0].path in paths(found)
    assert found.bytes >= staged.files[0].size_bytes
    assert data_files(lake) == [kept.files[0].path]


def test_nothing_younger_than_the_limit_is_touched(
    dataset: lode.Dataset, lake: MemoryStore, clock: Clock, sweep: Callable[..., lode.Sweep]
) -> None:
    transaction = dataset.transaction()
    transaction.stage([{"id": 1}])
    clock.pass_by(timedelta(minutes=59))
    before = contents(lake)
    found = sweep()
    assert found.leftovers == ()
    assert "last written to" in found.spared[transaction.snapshot_id]
    assert contents(lake) == before


def test_one_young_file_protects_the_others_of_its_snapshot(
    dataset: lode.Dataset, lake: MemoryStore, clock: Clock, sweep: Callable[..., lode.Sweep]
) -> None:
    transaction = dataset.transaction()
    transaction.stage([{"id": 1}])
    clock.pass_by(2 * HOUR)
    transaction.stage([{"id": 2}])
    assert sweep().leftovers == ()
    assert len(data_files(lake)) == 2
    assert transaction.commit().row_count == 2


def test_committed_data_is_never_touched(
    dataset: lode.Dataset, lake: MemoryStore, clock: Clock, sweep: Callable[..., lode.Sweep]
) -> None:
    for number in range(3):
        dataset.write([{"id": number}], idempotency_key=str(number))
    clock.pass_by(100 * HOUR)
    before = contents(lake)
    found = sweep(timedelta(0))
    assert all(path.endswith("/intent.json") for path in paths(found))
    after = contents(lake)
    assert before.keys() - after.keys() == set(paths(found))
    assert [row["id"] for row in dataset.scan().read_all().to_pylist()] == [0, 1, 2]
    assert lode.verify(lode.Dataset("events", lake, codec="jsonl")).ok
    assert dataset.write([{"id": 9}], idempotency_key="1").sequence == 2


def test_the_files_of_a_repeated_task_are_removed_though_its_snapshot_is_committed(
    dataset: lode.Dataset, lake: MemoryStore, clock: Clock, sweep: Callable[..., lode.Sweep]
) -> None:
    transaction = dataset.transaction()
    lost = transaction.stager.stage([{"id": 1}], task="a")
    kept = transaction.stage([{"id": 1}], task="a")
    transaction.commit()
    clock.pass_by(2 * HOUR)
    reasons = {item.path: item.reason for item in sweep().leftovers}
    assert reasons[lost.files[0].path] == "staged by a task whose other try was committed"
    assert data_files(lake) == [kept.files[0].path]


def test_a_sleeping_writer_is_fenced_and_nothing_of_it_becomes_visible(
    dataset: lode.Dataset, lake: MemoryStore, clock: Clock, sweep: Callable[..., lode.Sweep]
) -> None:
    first = dataset.write([{"id": 0}])
    transaction = dataset.transaction()
    transaction.stage([{"id": 1}])
    clock.pass_by(2 * HOUR)
    sweep()
    with pytest.raises(lode.TransactionClosedError, match="swept as abandoned"):
        transaction.commit()
    assert lode.Dataset("events", lake, codec="jsonl").snapshots() == [first]
    assert lake.get("datasets/events/latest").decode() == first.id


def test_a_sleeping_stream_is_fenced_too(
    lake: MemoryStore, clock: Clock, sweep: Callable[..., lode.Sweep]
) -> None:
    blobs = lode.Dataset("events", lake, runtime=Runtime(now_ns=clock))
    conflicting = blobs.transaction()
    conflicting.stage(b"ours")
    lode.Dataset("events", lake).write(b"theirs")
    with pytest.raises(lode.SnapshotConflictError):
        conflicting.commit()
    clock.pass_by(2 * HOUR)
    sweep()
    with pytest.raises(lode.TransactionClosedError, match="swept as abandoned"):
        conflicting.commit()
    assert len(lode.Dataset("events", lake).snapshots()) == 1


def test_a_dry_run_fences_nobody(
    dataset: lode.Dataset, clock: Clock, sweep: Callable[..., lode.Sweep]
) -> None:
    transaction = dataset.transaction()
    transaction.stage([{"id": 1}])
    clock.pass_by(2 * HOUR)
    sweep(dry_run=True)
    assert transaction.commit().row_count == 1


def crashed(lake: MemoryStore, clock: Clock, fault: Fault) -> None:
    store = FaultStore(lake, fault)
    with pytest.raises(SimulatedCrash):
        lode.Dataset("events", store, codec="jsonl", runtime=Runtime(now_ns=clock)).write([{"id": 1}])


def test_a_writer_that_died_before_its_swap_is_spared_while_it_could_still_win(
    lake: MemoryStore, clock: Clock, sweep: Callable[..., lode.Sweep]
) -> None:
    crashed(lake, clock, Fault("compare_and_swap"))
    clock.pass_by(2 * HOUR)
    found = sweep()
    assert found.leftovers == ()
    assert list(found.spared.values()) == ["it can still be committed onto the current head"]


def test_a_writer_that_died_before_its_swap_is_swept_once_history_went_on(
    dataset: lode.Dataset, lake: MemoryStore, clock: Clock, sweep: Callable[..., lode.Sweep]
) -> None:
    crashed(lake, clock, Fault("compare_and_swap"))
    kept = dataset.write([{"id": 2}])
    clock.pass_by(2 * HOUR)
    sweep()
    assert data_files(lake) == [kept.files[0].path]


def test_a_writer_that_died_after_its_swap_keeps_its_files(
    dataset: lode.Dataset, lake: MemoryStore, clock: Clock, sweep: Callable[..., lode.Sweep]
) -> None:
    crashed(lake, clock, Fault("put", "*/manifest.json"))
    clock.pass_by(2 * HOUR)
    assert sweep().leftovers == ()
    dataset.settle()
    assert dataset.read(dataset.latest()) == [{"id": 1}]


def test_partitions_and_flat_layouts_are_swept_alike(clock: Clock) -> None:
    for layout in (lode.HiveLayout("day"), lode.FlatLayout()):
        lake = MemoryStore(now_ns=clock)
        dataset = lode.Dataset("events", lake, codec="jsonl", layout=layout, runtime=Runtime(now_ns=clock))
        kept = dataset.write([{"day": "1"}, {"day": "2"}])
        dataset.transaction().stage([{"day": "1"}, {"day": "3"}])
        clock.pass_by(2 * HOUR)
        lode.sweep(lake, "events", HOUR, dry_run=False, layout=layout, runtime=Runtime(now_ns=clock))
        assert data_files(lake) == [file.path for file in kept.files]
        assert lode.verify(dataset).ok


def test_sweeping_twice_finds_nothing_the_second_time(
    dataset: lode.Dataset, clock: Clock, sweep: Callable[..., lode.Sweep]
) -> None:
    dataset.write([{"id": 0}])
    dataset.transaction().stage([{"id": 1}])
    clock.pass_by(2 * HOUR)
    assert len(paths(sweep())) == 2
    assert paths(sweep()) == []


def test_another_dataset_is_not_touched(
    dataset: lode.Dataset, lake: MemoryStore, clock: Clock, sweep: Callable[..., lode.Sweep]
) -> None:
    staged = lode.Dataset("events2", lake).transaction().stage(b"x")
    dataset.write([{"id": 0}])
    clock.pass_by(2 * HOUR)
    sweep()
    assert lake.exists(staged.files[0].path)


def test_a_negative_age_is_refused_before_any_call() -> None:
    store = CountingStore(MemoryStore())
    with pytest.raises(lode.InvalidOptionError, match="older_than"):
        lode.sweep(store, "events", timedelta(seconds=-1))
    assert store.total == 0


@pytest.mark.parametrize("layout", [lode.DefaultLayout(), lode.HiveLayout("day"), lode.FlatLayout()])
def test_without_a_layout_it_finds_out_and_takes_nothing_that_is_committed(layout: lode.HiveLayout) -> None:
    store = MemoryStore()
    dataset = lode.Dataset("visits", store, codec=lode.JSONL(), layout=layout)
    dataset.write([{"day": "mon"}])
    dataset.transaction().stage([{"day": "tue"}])
    swept = lode.sweep(store, "visits", timedelta(0), dry_run=False)
    assert any("never committed" in leftover.reason for leftover in swept.leftovers)
    assert lode.verify(dataset).ok
    assert dataset.scan().read_all().num_rows == 1


def test_a_layout_that_does_not_see_the_history_is_refused() -> None:
    store = MemoryStore()
    dataset = lode.Dataset("visits", store, codec=lode.JSONL(), layout=lode.HiveLayout("day"))
    dataset.write([{"day": "mon"}])
    with pytest.raises(lode.InvalidOptionError, match="layout"):
        lode.sweep(store, "visits", timedelta(0), dry_run=False, layout=lode.DefaultLayout())
    assert lode.verify(dataset).ok
