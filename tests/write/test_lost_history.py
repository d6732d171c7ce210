"""A history that was lost or replaced: an object that knows it never begins another one in its place."""

from __future__ import annotations

import pickle
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

import lode
from lode.store import CountingStore, Fault, FaultStore, LocalStore, MemoryStore, StoreWrapper
from support.stores import contents

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

T = TypeVar("T")


class Kind:
    """A dataset or a volume of two snapshots, and how to write to it."""

    def __init__(self, name: str) -> None:
        self.store = CountingStore(MemoryStore())
        self.name = name
        self.root = "datasets/x" if name == "dataset" else "volumes/x"
        self._offset = 0
        self.first, self.second = self.write(), self.write()

    def open(self, store: Any = None) -> Any:
        if self.name == "dataset":
            return lode.Dataset("x", store or self.store)
        return lode.Volume("x", store or self.store, 1000)

    def write(self, into: Any = None) -> Any:
        target = into or self.open()
        if isinstance(target, lode.Dataset):
            return target.write(b"x")
        self._offset += 1
        return target.commit([target.stage_write_at(self._offset, b"x")])

    def take_away(self) -> dict[str, bytes]:
        """Empty the store; returns what was there."""
        found = contents(self.store)
        for path in found:
            self.store.delete(path)
        return found

    def bring_back(self, objects: dict[str, bytes]) -> None:
        self.take_away()
        for path, data in objects.items():
            self.store.put(path, data)

    def point(self, to: str) -> None:
        self.store.delete(f"{self.root}/latest")
        self.store.put(f"{self.root}/latest", to.encode())

    def ids(self) -> list[str]:
        return [snapshot.id for snapshot in self.open().snapshots()]

    @property
    def published(self) -> list[str]:
        return [path for path in contents(self.store) if path.endswith(("/manifest.json", "/latest"))]


@pytest.fixture(params=["dataset", "volume"])
def kind(request: pytest.FixtureRequest) -> Kind:
    return Kind(request.param)


KNOWS: dict[str, Callable[[Kind, Any], object]] = {
    "written": lambda kind, opened: kind.write(opened),
    "latest": lambda _, opened: opened.latest(),
    "snapshots": lambda _, opened: opened.snapshots(),
    "snapshot": lambda _, opened: opened.snapshot("latest"),
    "settle": lambda _, opened: opened.settle(),
    "tag": lambda _, opened: opened.tag("t"),
}


@pytest.mark.parametrize("known", KNOWS)
def test_an_empty_store_never_gets_a_first_snapshot_by_who_knew_one(kind: Kind, known: str) -> None:
    opened = kind.open()
    KNOWS[known](kind, opened)
    objects = kind.take_away()
    for _ in range(3):
        with pytest.raises(lode.HistoryLostError, match=r"does not contain snapshot .* lost or replaced"):
            kind.write(opened)
        assert kind.published == []
    kind.bring_back(objects)
    before = kind.ids()
    if known == "written" or known == "latest":
        assert kind.write(opened).parent_id == before[-1]
    else:
        kind.write(opened)
    assert kind.ids()[:-1] == before


@pytest.mark.parametrize("known", KNOWS)
def test_an_empty_store_is_not_read_as_an_empty_history_by_who_knew_one(kind: Kind, known: str) -> None:
    opened = kind.open()
    KNOWS[known](kind, opened)
    kind.take_away()
    reads: list[Callable[[], object]] = [
        opened.latest,
        opened.snapshots,
        opened.settle,
        lambda: opened.snapshot("latest"),
        lambda: list(opened.history()),
    ]
    if isinstance(opened, lode.Dataset):
        reads += [opened.plan, lambda: opened.exists, lambda: opened.read("latest")]
    for read in reads:
        with pytest.raises(lode.HistoryLostError):
            read()
    with pytest.raises(lode.NoSnapshotsError):
        kind.open().latest()


def test_a_history_in_its_place_is_refused_until_it_is_opened_again(kind: Kind) -> None:
    opened = kind.open()
    kind.write(opened)
    kind.take_away()
    other = [kind.write() for _ in range(5)]
    for _ in range(3):
        with pytest.raises(lode.HistoryLostError):
            kind.write(opened)
    assert kind.ids() == [snapshot.id for snapshot in other]
    assert kind.write().parent_id == other[-1].id


def test_a_longer_history_in_its_place_is_refused_after_latest_too(kind: Kind) -> None:
    opened = kind.open()
    kind.write(opened)
    objects = kind.take_away()
    for _ in range(5):
        kind.write()
    for _ in range(2):
        opened.latest()  # it has the numbers that follow; the walk of the commit shows that it is another one
        with pytest.raises(lode.HistoryLostError):
            kind.write(opened)
        with pytest.raises(lode.HistoryLostError):
            kind.write(opened)
    kind.bring_back(objects)
    assert kind.write(opened).parent_id == kind.ids()[-2]


def test_a_pointer_that_was_set_back_is_refused_by_who_knows_the_newer_snapshot(kind: Kind) -> None:
    opened = kind.open()
    kind.write(opened)
    third = kind.ids()[-1]
    kind.point(kind.first.id)
    for _ in range(2):
        with pytest.raises(lode.HistoryLostError, match=third):
            kind.write(opened)
        with pytest.raises(lode.HistoryLostError, match=third):
            opened.latest()
    kind.point(third)
    assert kind.write(opened).parent_id == third


def test_a_snapshot_of_the_history_as_base_does_not_excuse_one_that_is_missing() -> None:
    kind = Kind("dataset")
    opened = kind.open()
    third = kind.write(opened)
    kind.point(kind.first.id)
    with pytest.raises(lode.HistoryLostError, match=third.id):
        opened.write(b"x", base=kind.first)
    with pytest.raises(lode.HistoryLostError, match=third.id):
        opened.write(b"x", on_conflict="append")


def test_a_base_of_a_history_in_its_place_is_refused() -> None:
    kind = Kind("dataset")
    opened = kind.open()
    known = kind.write(opened)
    kind.take_away()
    other = [kind.write() for _ in range(5)][-1]
    with pytest.raises(lode.HistoryLostError, match=known.id):
        opened.write(b"x", base=other)
    with pytest.raises(lode.HistoryLostError, match=known.id):
        opened.evolve(add={"a": "int64"})


def test_a_first_write_that_was_begun_before_the_dataset_was_read_is_not_its_first_snapshot() -> None:
    store = CountingStore(MemoryStore())
    dataset = lode.Dataset("x", store)
    transaction = dataset.transaction()
    transaction.stage(b"first")
    transaction.capture()
    lode.Dataset("x", store).write(b"x")
    assert len(dataset.snapshots()) == 1
    for path in contents(store):
        store.delete(path)
    with pytest.raises(lode.HistoryLostError):
        transaction.commit()


def test_a_transaction_that_was_refused_is_committed_when_the_folder_is_back(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    dataset = lode.Dataset("x", LocalStore(lake, durable=False))
    dataset.write(b"first")
    with dataset.transaction() as transaction:
        transaction.stage(b"kept")
        lake.rename(tmp_path / "away")
        lake.mkdir()
        for _ in range(2):
            with pytest.raises(lode.StoreError, match="another folder is in the place"):
                transaction.commit()
        lake.rmdir()
        (tmp_path / "away").rename(lake)
        assert dataset.read(transaction.commit()) == b"kept"
    assert len(dataset.snapshots()) == 2


def test_a_swap_without_an_answer_stays_unknown_while_the_history_is_away() -> None:
    """It may have landed in the history that is away."""
    kind = Kind("dataset")
    objects: dict[str, bytes] = {}

    class Lost(StoreWrapper):
        armed = False

        def around(self, method: str, path: str, call: Callable[[], T]) -> T:
            result = call()
            if self.armed and method == "compare_and_swap":
                objects.update(kind.take_away())
                raise lode.OutcomeUnknownError("the answer was lost")
            return result

    store = Lost(kind.store)
    opened = kind.open(store)
    kind.write(opened)
    store.armed = True
    with pytest.raises(lode.CommitUnknownError) as caught:
        kind.write(opened)
    kind.bring_back(objects)
    kind.open().settle()
    assert kind.ids()[-1] == caught.value.snapshot_id


def test_a_commit_that_could_not_be_published_is_not_published_in_another_place(kind: Kind) -> None:
    faulty = FaultStore(kind.store)
    opened = kind.open(faulty)
    kind.write(opened)
    faulty.add(Fault("put", "*/manifest.json", error=lode.StoreError("unplugged")))
    with pytest.raises(lode.CommitUnpublishedError) as caught:
        kind.write(opened)
    objects = kind.take_away()
    with pytest.raises(lode.HistoryLostError):
        kind.write(opened)
    assert kind.published == []
    kind.bring_back(objects)
    assert kind.write(opened).parent_id == caught.value.snapshot_id


def test_a_drop_is_part_of_the_history(kind: Kind) -> None:
    opened = kind.open()
    kind.write(opened)
    kind.open().drop()
    kind.write()
    with pytest.raises((lode.DatasetDroppedError, lode.SnapshotConflictError)):
        kind.write(opened)
    kind.write(opened)
    assert len(kind.ids()) == 2


def test_a_drop_and_many_snapshots_after_it_are_followed_by_who_has_only_read(kind: Kind) -> None:
    opened = kind.open()
    opened.snapshots()
    kind.open().drop()
    for _ in range(3):
        kind.write()
    assert kind.write(opened).parent_id == kind.ids()[-2]


def test_a_lost_pointer_is_no_lost_history(kind: Kind) -> None:
    opened = kind.open()
    known = kind.write(opened)
    kind.store.delete(f"{kind.root}/latest")
    assert kind.write(opened).parent_id == known.id


def test_a_writer_reads_nothing_more_to_know_its_history(kind: Kind) -> None:
    opened = kind.open()
    kind.write(opened)
    kind.store.reset()
    kind.write(opened)
    assert kind.store.total == 4


def test_the_error_names_the_snapshot_and_pickles() -> None:
    kind = Kind("dataset")
    opened = kind.open()
    known = kind.write(opened)
    kind.take_away()
    with pytest.raises(lode.HistoryLostError) as caught:
        opened.latest()
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.snapshot_id) == (str(caught.value), known.id)
    assert isinstance(copy, lode.StoreError)


def test_a_write_after_latest_and_a_drop_is_told_once_and_then_lands() -> None:
    """By a manifest that was read under another chain, and by one that is too large to be kept."""
    for metadata in ({}, {"x": "y" * 2_000_000}):
        store = MemoryStore()
        dataset = lode.Dataset("d", store, codec="jsonl")
        assert not dataset.exists
        lode.Dataset("d", store, codec="jsonl").write([{"a": 1}], metadata)
        dataset.latest()
        lode.Dataset("d", store).drop()
        with pytest.raises(lode.DatasetDroppedError):
            dataset.write([{"a": 2}])
        dataset.write([{"a": 2}])
        assert dataset.count() == 1


def test_a_drop_of_more_than_was_known_is_told_as_a_drop() -> None:
    store = MemoryStore()
    dataset, other = (lode.Dataset("d", store, codec="jsonl") for _ in range(2))
    dataset.write([{"a": 1}])
    other.write([{"a": 2}])
    other.write([{"a": 3}])
    dataset.latest()
    lode.Dataset("d", store).drop()
    with pytest.raises(lode.DatasetDroppedError):
        dataset.write([{"a": 4}])
    dataset.write([{"a": 4}])
    assert dataset.count() == 1


@pytest.mark.parametrize("looks_again", [False, True])
def test_a_volume_that_was_dropped_takes_the_same_range_again(looks_again: bool) -> None:
    store = MemoryStore()
    first = lode.Volume("v", store, total_length=10)
    first.commit([first.stage_write_at(0, b"a")])
    volume = lode.Volume("v", store, total_length=10)
    volume.latest()
    lode.Volume("v", store, total_length=10).drop()
    if looks_again:
        with pytest.raises(lode.NoSnapshotsError):
            volume.latest()
    with suppress(lode.DatasetDroppedError):
        volume.commit([volume.stage_write_at(0, b"b")])
    if not looks_again:
        volume.commit([volume.stage_write_at(0, b"b")])
    assert volume.read_at(volume.latest().id, 0, 1) == b"b"


def test_a_name_that_was_dropped_in_two_places_can_be_written_again() -> None:
    store = MemoryStore()
    lode.Dataset("d", store, codec="jsonl").write([{"a": 1}])
    lode.Dataset("d", store).drop()
    lode.Dataset("d", store, codec="jsonl", layout=lode.FlatLayout()).write([{"a": 2}])
    lode.Dataset("d", store).drop()
    dataset = lode.Dataset("d", store, codec="jsonl")
    dataset.write([{"a": 3}])
    assert dataset.count() == 1


def test_an_overwrite_follows_an_unpublished_head_at_the_end_of_a_segment() -> None:
    class Pausing(MemoryStore):
        nearby = False
        gate, reached, paused = threading.Event(), threading.Event(), threading.local()

        def put(self, path: str, data: Any) -> None:
            is_manifest = path.endswith("/manifest.json") and "/partitions/" not in path
            if is_manifest and getattr(self.paused, "on", False):
                self.reached.set()
                self.gate.wait(30)
            super().put(path, data)

    store = Pausing()
    writer = lode.Dataset.create("d", store, codec=lode.JSONL(), layout=lode.HiveLayout("p"))
    for number in range(12):
        writer.write([{"p": f"x{number % 2}", "k": number}])
    writer.overwrite([{"p": "x0", "k": 100}])
    late = lode.Dataset("d", store)
    late.write([{"p": "z", "k": 1}])
    slow = lode.Dataset("d", store)
    slow.latest()

    def write() -> None:
        store.paused.on = True
        slow.write([{"p": "y", "k": 5}])

    thread = threading.Thread(target=write)
    thread.start()
    assert store.reached.wait(30)
    try:
        done = late.overwrite([{"p": "x1", "k": 200}])
    finally:
        store.gate.set()
        thread.join()
    assert done.snapshot is not None
    assert done.snapshot.sequence == 17
