"""sweep: removes what dead writers left, and never anything that may still be wanted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import lode
from lode.runtime import Runtime
from lode.store import CountingStore, Fault, FaultStore, MemoryStore, SimulatedCrash
from lode.store.protocol import ObjectInfo
from support.clock import Clock
from support.stores import contents, data_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HOUR = timedelta(hours=1)


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
        return lode.sweep(
            lode.Dataset("events", lake), older_than, dry_run=dry_run, runtime=Runtime(now_ns=clock)
        )

    return run


def paths(found: lode.Sweep) -> list[str]:
    return [item.path for item in found.leftovers]


def test_a_sweep_is_a_dry_run_unless_told_otherwise(
    dataset: lode.Dataset, lake: MemoryStore, clock: Clock
) -> None:
    dataset.transaction().stage([{"id": 1}])
    clock.pass_by(2 * HOUR)
    before = contents(lake)
    found = lode.sweep(lode.Dataset("events", lake), HOUR, runtime=Runtime(now_ns=clock))
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
    runtime = Runtime(now_ns=clock, sleep=clock.sleep)
    with pytest.raises(SimulatedCrash):
        lode.Dataset("events", store, codec="jsonl", runtime=runtime).write([{"id": 1}])


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
        lode.sweep(
            lode.Dataset("events", lake, layout=layout), HOUR, dry_run=False, runtime=Runtime(now_ns=clock)
        )
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
        lode.sweep(lode.Dataset("events", store), timedelta(seconds=-1))
    assert store.total == 0


@pytest.mark.parametrize("layout", [lode.DefaultLayout(), lode.HiveLayout("day"), lode.FlatLayout()])
def test_without_a_layout_it_finds_out_and_takes_nothing_that_is_committed(layout: lode.HiveLayout) -> None:
    store = MemoryStore()
    dataset = lode.Dataset("visits", store, codec=lode.JSONL(), layout=layout)
    dataset.write([{"day": "mon"}])
    dataset.transaction().stage([{"day": "tue"}])
    swept = lode.sweep(lode.Dataset("visits", store), timedelta(0), dry_run=False)
    assert any("never committed" in leftover.reason for leftover in swept.leftovers)
    assert lode.verify(dataset).ok
    assert dataset.scan().read_all().num_rows == 1


def test_a_layout_that_does_not_see_the_history_is_refused() -> None:
    store = MemoryStore()
    dataset = lode.Dataset("visits", store, codec=lode.JSONL(), layout=lode.HiveLayout("day"))
    dataset.write([{"day": "mon"}])
    with pytest.raises(lode.InvalidOptionError, match="layout"):
        lode.sweep(lode.Dataset("visits", store, layout=lode.DefaultLayout()), timedelta(0), dry_run=False)
    assert lode.verify(dataset).ok


# -- whatever the pointer, the layout or the id says ---------------------------------------------


def set_pointer(lake: MemoryStore, value: bytes | None) -> None:
    lake.delete("datasets/events/latest")
    if value is not None:
        lake.put("datasets/events/latest", value)


@pytest.mark.parametrize("pointer", ["older", "lost", "dangling", "not text"])
def test_a_snapshot_with_a_manifest_keeps_its_files_whatever_the_pointer_says(
    pointer: str, dataset: lode.Dataset, lake: MemoryStore, clock: Clock, sweep: Callable[..., lode.Sweep]
) -> None:
    written = [dataset.write([{"id": number}]) for number in range(14)]
    values = {"older": written[0].id.encode(), "lost": None, "dangling": b"1234", "not text": b"\xff\xfe"}
    set_pointer(lake, values[pointer])
    clock.pass_by(100 * HOUR)
    found = sweep(timedelta(0))
    assert {item.reason for item in found.leftovers} == {"the intent of a snapshot that is published"}
    assert data_files(lake) == sorted(snapshot.files[0].path for snapshot in written)


@pytest.mark.parametrize("pointer", [None, b"1234"], ids=["lost", "dangling"])
def test_a_paused_commit_is_spared_if_it_expects_the_pointer_as_it_is(
    pointer: bytes | None,
    dataset: lode.Dataset,
    lake: MemoryStore,
    clock: Clock,
    sweep: Callable[..., lode.Sweep],
) -> None:
    dataset.write([{"id": 0}])
    set_pointer(lake, pointer)
    crashed(lake, clock, Fault("compare_and_swap"))
    clock.pass_by(2 * HOUR)
    assert list(sweep().spared.values()) == ["it can still be committed onto the current head"]
    assert len(data_files(lake)) == 2


def test_the_snapshot_that_a_dangling_pointer_names_is_spared(
    dataset: lode.Dataset, lake: MemoryStore, clock: Clock, sweep: Callable[..., lode.Sweep]
) -> None:
    dataset.write([{"id": 0}])
    newest = dataset.write([{"id": 1}])
    lake.delete(f"datasets/events/snapshots/{newest.id}/manifest.json")
    lake.delete(f"datasets/events/snapshots/{newest.id}/intent.json")
    clock.pass_by(2 * HOUR)
    assert sweep().spared == {newest.id: "the pointer names it"}
    assert lake.exists(newest.files[0].path)


def test_a_snapshot_whose_manifest_was_lost_is_spared_and_so_is_the_intent_that_restores_it(
    dataset: lode.Dataset, lake: MemoryStore, clock: Clock, sweep: Callable[..., lode.Sweep]
) -> None:
    first, second = dataset.write([{"id": 0}]), dataset.write([{"id": 1}])
    manifest = f"datasets/events/snapshots/{first.id}/manifest.json"
    lake.delete(manifest)
    clock.pass_by(2 * HOUR)
    assert "its manifest is missing" in sweep().spared[first.id]
    lake.put(manifest, lake.get(f"datasets/events/snapshots/{first.id}/intent.json"))
    assert lode.Dataset("events", lake, codec="jsonl").snapshots() == [first, second]
    assert lode.verify(dataset).ok


@pytest.mark.parametrize("damage", [b"", b"{", b'{"schema_name": "lode-manifest"}', b"[" * 100_000])
def test_a_manifest_that_cannot_be_read_spares_its_snapshot_and_is_reported(
    damage: bytes,
    dataset: lode.Dataset,
    lake: MemoryStore,
    clock: Clock,
    sweep: Callable[..., lode.Sweep],
) -> None:
    first = dataset.write([{"id": 0}])
    dataset.write([{"id": 1}])
    staged = dataset.transaction().stage([{"id": 2}])
    manifest = f"datasets/events/snapshots/{first.id}/manifest.json"
    lake.delete(manifest)
    lake.put(manifest, damage)
    clock.pass_by(2 * HOUR)
    found = sweep()
    assert manifest in found.spared[first.id]
    assert lake.exists(first.files[0].path)
    assert lake.exists(f"datasets/events/snapshots/{first.id}/intent.json")
    assert not lake.exists(staged.files[0].path)


def test_a_manifest_of_another_snapshot_or_dataset_spares_the_one_whose_place_it_has(
    dataset: lode.Dataset, lake: MemoryStore, clock: Clock, sweep: Callable[..., lode.Sweep]
) -> None:
    written = [dataset.write([{"id": number}]) for number in range(3)]
    for snapshot, wrong in zip(written[:2], (written[2].id, "other"), strict=True):
        path = f"datasets/events/snapshots/{snapshot.id}/manifest.json"
        right = snapshot.id if wrong != "other" else '"dataset_id": "events"'
        data = lake.get(path).replace(
            right.encode(), (wrong if wrong != "other" else '"dataset_id": "o"').encode()
        )
        lake.delete(path)
        lake.put(path, data)
    clock.pass_by(2 * HOUR)
    assert sweep().spared.keys() == {written[0].id, written[1].id}
    assert data_files(lake) == sorted(snapshot.files[0].path for snapshot in written)


def test_a_store_opened_at_the_dataset_itself_shows_nothing_that_may_go(
    lake: MemoryStore, clock: Clock
) -> None:
    """There the files have other paths than their manifests name, under a flat layout."""
    lode.Dataset("events", lake, codec="jsonl").write([{"id": 0}])
    inside = MemoryStore(now_ns=clock)
    for path, data in contents(lake).items():
        inside.put(path.removeprefix("datasets/"), data)
    clock.pass_by(2 * HOUR)
    before = contents(inside)
    with pytest.raises(lode.InvalidPathError, match="reserved"):
        lode.sweep(lode.Dataset("snapshots", inside, layout=lode.FlatLayout()), HOUR, dry_run=False)
    lode.sweep(lode.Dataset("events", inside), HOUR, dry_run=False, runtime=Runtime(now_ns=clock))
    assert contents(inside) == before


@pytest.mark.parametrize("name", ["datasets", "volumes", "Datasets"])
@pytest.mark.parametrize("layout", [None, lode.FlatLayout(), lode.DefaultLayout()])
def test_a_reserved_id_is_refused_before_any_call(name: str, layout: lode.FlatLayout | None) -> None:
    store = CountingStore(MemoryStore())
    with pytest.raises(lode.InvalidPathError, match=r"reserved|the folder of other data"):
        lode.sweep(lode.Dataset(name, store, layout=layout), timedelta(0), dry_run=False)
    assert store.total == 0


def test_only_what_the_layout_writes_is_ever_taken(lake: MemoryStore, clock: Clock) -> None:
    strangers = [
        "datasets/events/snapshots/1/data/deeper/x",
        "datasets/events/snapshots/1/2/data/x",
        "datasets/events/1/data/x",
        "datasets/events/partitions/day=1/segments/1/data/x",
        "datasets/events/notes/data/x",
        "events/1/data/x",
        "datasets/events2/snapshots/1/data/x",
    ]
    for path in [*strangers, "datasets/events/snapshots/1/data/x"]:
        lake.put(path, b"x")
    clock.pass_by(2 * HOUR)
    runtime = Runtime(now_ns=clock)
    found = lode.sweep(
        lode.Dataset("events", lake, layout=lode.DefaultLayout()), HOUR, dry_run=False, runtime=runtime
    )
    assert paths(found) == ["datasets/events/snapshots/1/data/x"]
    assert contents(lake).keys() == {*strangers, "datasets/events/snapshots/1/intent.json"}


def test_two_layouts_under_one_pointer_lose_nothing_to_a_sweep_of_either(clock: Clock) -> None:
    """The layout was forgotten once: a second root under the same pointer."""
    lake = MemoryStore(now_ns=clock)
    runtime = Runtime(now_ns=clock)
    hive = lode.Dataset("events", lake, codec="jsonl", layout=lode.HiveLayout("day"), runtime=runtime)
    kept = [hive.write([{"day": str(day)}]) for day in range(3)]
    other = MemoryStore(now_ns=clock)
    flat = lode.Dataset("events", other, codec="jsonl", runtime=runtime).write([{"day": "9"}])
    for path, data in contents(other).items():
        lake.delete(path)
        lake.put(path, data)
    clock.pass_by(2 * HOUR)
    files = sorted([flat.files[0].path, *(snapshot.files[0].path for snapshot in kept)])
    for layout in (None, lode.DefaultLayout(), lode.HiveLayout("day"), lode.HiveLayout("other")):
        lode.sweep(lode.Dataset("events", lake, layout=layout), timedelta(0), dry_run=False, runtime=runtime)
        assert data_files(lake) == files


def test_a_snapshot_with_only_a_copy_of_its_manifest_keeps_everything(clock: Clock) -> None:
    lake = MemoryStore(now_ns=clock)
    runtime = Runtime(now_ns=clock)
    dataset = lode.Dataset("events", lake, codec="jsonl", layout=lode.HiveLayout("day"), runtime=runtime)
    first, _ = dataset.write([{"day": "1"}]), dataset.write([{"day": "2"}])
    lake.delete(f"datasets/events/segments/{first.id}/manifest.json")
    lake.delete(f"datasets/events/segments/{first.id}/intent.json")
    clock.pass_by(2 * HOUR)
    found = lode.sweep(dataset, timedelta(0), dry_run=False, runtime=runtime)
    assert "its only manifest is datasets/events/partitions/day=1/" in found.spared[first.id]
    assert lake.exists(first.files[0].path)


@pytest.mark.parametrize("links", ["fork", "cycle"])
def test_a_history_whose_links_are_wrong_is_swept_of_what_is_safe(
    links: str, dataset: lode.Dataset, lake: MemoryStore, clock: Clock, sweep: Callable[..., lode.Sweep]
) -> None:
    first, second, third = (dataset.write([{"id": number}]) for number in range(3))
    staged = dataset.transaction().stage([{"id": 9}])
    wrong, parent = (third, first) if links == "fork" else (second, third)
    path = f"datasets/events/snapshots/{wrong.id}/manifest.json"
    data = lake.get(path).replace((wrong.parent_id or "").encode(), parent.id.encode())
    lake.delete(path)
    lake.put(path, data)
    clock.pass_by(2 * HOUR)
    sweep()
    assert data_files(lake) == sorted(snapshot.files[0].path for snapshot in (first, second, third))
    assert not lake.exists(staged.files[0].path)


def test_an_intent_that_cannot_be_read_spares_its_snapshot(
    dataset: lode.Dataset, lake: MemoryStore, clock: Clock, sweep: Callable[..., lode.Sweep]
) -> None:
    dataset.write([{"id": 0}])
    transaction = dataset.transaction()
    staged = transaction.stage([{"id": 1}])
    lake.put(f"datasets/events/snapshots/{transaction.snapshot_id}/intent.json", b'{"schema_')
    clock.pass_by(2 * HOUR)
    assert "intent cannot be read" in sweep(dry_run=True).spared[transaction.snapshot_id]
    sweep()
    assert lake.exists(staged.files[0].path)


def test_a_long_history_is_read_by_its_segments(
    dataset: lode.Dataset, lake: MemoryStore, clock: Clock
) -> None:
    background = Runtime(now_ns=clock, background=lambda chore: chore())
    for number in range(20):
        lode.Dataset("events", lake, codec="jsonl", runtime=background).write([{"id": number}])
    clock.pass_by(2 * HOUR)
    counted = CountingStore(lake)
    found = lode.sweep(lode.Dataset("events", counted), HOUR, dry_run=False, runtime=Runtime(now_ns=clock))
    assert len(data_files(lake)) == 20
    assert len(found.leftovers) == 20  # the intents
    assert counted.counts["get"] == 1 + 4  # a segment, the manifests behind it
    assert counted.counts["get_range"] == 1  # the pointer
    assert lode.verify(dataset).ok


def test_a_dataset_and_its_name_are_swept_alike(
    dataset: lode.Dataset, lake: MemoryStore, clock: Clock
) -> None:
    dataset.write([{"id": 0}])
    dataset.transaction().stage([{"id": 1}])
    clock.pass_by(2 * HOUR)
    runtime = Runtime(now_ns=clock)
    found = lode.sweep(dataset, HOUR, runtime=runtime)
    assert lode.sweep(dataset, older_than=HOUR, runtime=runtime) == found
    with pytest.warns(DeprecationWarning, match="open_dataset"):
        assert lode.sweep(lake, "events", HOUR, runtime=runtime) == found
    with pytest.warns(DeprecationWarning, match="open_dataset"):
        assert lode.sweep(lake, dataset="events", older_than=HOUR, runtime=runtime) == found
    assert len(found.leftovers) == 2


@pytest.mark.parametrize(
    "call",
    [
        lambda sweep, dataset: sweep(dataset),
        lambda sweep, dataset: sweep(dataset, 7),
        lambda sweep, dataset: sweep(dataset, "events", HOUR),
        lambda sweep, dataset: sweep(dataset, HOUR, layout=lode.FlatLayout()),
    ],
)
def test_a_call_that_is_wrong_is_refused(
    call: Callable[[Any, lode.Dataset], object], dataset: lode.Dataset
) -> None:
    with pytest.raises(lode.InvalidOptionError):
        call(lode.sweep, dataset)


@pytest.mark.parametrize(
    "call",
    [
        lambda sweep, store: sweep(store, HOUR),
        lambda sweep, store: sweep(store, "events"),
        lambda sweep, store: sweep(store, "events", HOUR, HOUR),
    ],
)
@pytest.mark.filterwarnings("ignore:sweep:DeprecationWarning")
def test_a_deprecated_call_that_is_wrong_is_refused(
    call: Callable[[Any, lode.Store], object], store: CountingStore
) -> None:
    with pytest.raises(lode.InvalidOptionError):
        call(lode.sweep, store)


class Littered(MemoryStore):
    """A store on which writers leave temporary files when they are killed, as on a disk."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(now_ns=clock)
        self.litter: list[ObjectInfo] = []

    def temporaries(self, prefix: str = "") -> Iterator[ObjectInfo]:
        return (entry for entry in self.litter if entry.path.startswith(prefix))

    def delete_temporary(self, path: str) -> None:
        self.litter = [entry for entry in self.litter if entry.path != path]


def test_temporary_files_of_dead_writers_are_removed_once_they_are_old(clock: Clock) -> None:
    store = Littered(clock)
    lode.Dataset("events", store, codec="jsonl").write([{"id": 0}])

    def litter(path: str) -> ObjectInfo:
        return ObjectInfo(path, 7, datetime.fromtimestamp(clock.now / 1e9, UTC))

    ours, theirs = litter("datasets/events/.lode-1.tmp"), litter("datasets/other/.lode-2.tmp")
    clock.pass_by(2 * HOUR)
    young = litter("datasets/events/snapshots/.lode-3.tmp")
    store.litter = [ours, theirs, young]
    runtime = Runtime(now_ns=clock)
    found = lode.sweep(lode.Dataset("events", store), HOUR, runtime=runtime)
    assert [item.path for item in found.leftovers if "temporary" in item.reason] == [ours.path]
    assert store.litter == [ours, theirs, young]
    lode.sweep(lode.Dataset("events", store), HOUR, dry_run=False, runtime=runtime)
    assert store.litter == [theirs, young]


def test_a_dataset_named_like_a_part_of_a_lake_is_swept_where_that_is_safe(clock: Clock) -> None:
    lake = MemoryStore(now_ns=clock)
    dataset = lode.Dataset("history", lake, codec="jsonl", runtime=Runtime(now_ns=clock))
    kept = dataset.write([{"id": 0}])
    dataset.transaction().stage([{"id": 1}])
    clock.pass_by(2 * HOUR)
    lode.sweep(lode.Dataset("history", lake), HOUR, dry_run=False, runtime=Runtime(now_ns=clock))
    assert data_files(lake) == [kept.files[0].path]
