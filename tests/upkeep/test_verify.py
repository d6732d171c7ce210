"""verify: finds every planted problem, all of them at once."""

from __future__ import annotations

import threading

import pytest

import lode
from lode.store import CountingStore, LatencyStore, MemoryStore
from support.stores import contents

LAYOUT = lode.HiveLayout("day")


def replace(store: lode.Store, path: str, data: bytes) -> None:
    store.delete(path)
    store.put(path, data)


def manifest_path(snapshot: lode.Snapshot) -> str:
    return f"datasets/events/segments/{snapshot.id}/manifest.json"


def copy_path(snapshot: lode.Snapshot) -> str:
    return snapshot.files[0].path.partition("/data/")[0] + "/manifest.json"


@pytest.fixture
def dataset(memory: CountingStore) -> lode.Dataset:
    return lode.Dataset("events", memory, codec="jsonl", layout=LAYOUT, checksum="md5")


@pytest.fixture
def snapshots(dataset: lode.Dataset) -> list[lode.Snapshot]:
    return [dataset.write([{"day": str(number), "text": "hello"}]) for number in range(8)]


def kinds(dataset: lode.Dataset, *, checksums: bool = True) -> list[tuple[str, str]]:
    fresh = lode.Dataset("events", dataset.store, codec="jsonl", layout=LAYOUT, checksum="md5")
    found = lode.verify(fresh, checksums=checksums)
    assert found.ok == (not found.problems)
    return sorted((problem.kind, problem.path) for problem in found.problems)


def test_a_whole_dataset_has_no_problems(dataset: lode.Dataset, snapshots: list[lode.Snapshot]) -> None:
    found = lode.verify(dataset)
    assert found.ok
    assert (found.snapshots, found.files) == (8, 8)
    assert found.bytes == sum(snapshot.size_bytes for snapshot in snapshots)


def test_every_planted_problem_is_reported_at_once(
    dataset: lode.Dataset, snapshots: list[lode.Snapshot]
) -> None:
    store = dataset.store
    missing, longer, flipped, copied, orphaned, broken = snapshots[:6]
    store.delete(missing.files[0].path)
    replace(store, longer.files[0].path, store.get(longer.files[0].path) + b"\n")
    replace(store, flipped.files[0].path, store.get(flipped.files[0].path).replace(b"hello", b"hellp"))
    store.delete(copy_path(copied))
    store.delete(manifest_path(orphaned))
    replace(store, manifest_path(broken), b'{"schema_name": "lode-manifest"}')
    twin = "1234567890123456789"
    store.put(
        f"datasets/events/segments/{twin}/manifest.json",
        store.get(manifest_path(snapshots[3])).replace(snapshots[3].id.encode(), twin.encode()),
    )
    problems = kinds(dataset)
    for expected in (
        ("missing-file", missing.files[0].path),
        ("size", longer.files[0].path),
        ("checksum", flipped.files[0].path),
        ("missing-copy", copy_path(copied)),
        ("manifest-invalid", manifest_path(broken)),
        ("fork", "datasets/events/segments"),
        ("missing-parent", manifest_path(snapshots[6])),
    ):
        assert expected in problems


def test_each_problem_says_what_and_where(dataset: lode.Dataset, snapshots: list[lode.Snapshot]) -> None:
    store = dataset.store
    store.delete(snapshots[0].files[0].path)
    replace(store, snapshots[1].files[0].path, b"")
    for problem in lode.verify(dataset).problems:
        assert problem.path in problem.message
        assert any(snapshot.id in problem.message for snapshot in snapshots)


def test_a_flipped_byte_is_found_only_when_checksums_are_compared(
    dataset: lode.Dataset, snapshots: list[lode.Snapshot]
) -> None:
    path = snapshots[2].files[0].path
    replace(dataset.store, path, dataset.store.get(path).replace(b"hello", b"hellp"))
    assert kinds(dataset) == [("checksum", path)]
    assert kinds(dataset, checksums=False) == []


def test_a_missing_pointer_is_reported(dataset: lode.Dataset, snapshots: list[lode.Snapshot]) -> None:
    dataset.store.delete("datasets/events/latest")
    assert len(snapshots) == 8
    assert kinds(dataset) == [("pointer", "datasets/events/latest")]


def test_a_pointer_to_nowhere_is_reported(dataset: lode.Dataset, snapshots: list[lode.Snapshot]) -> None:
    replace(dataset.store, "datasets/events/latest", b"1234567890123456789")
    assert len(snapshots) == 8
    assert kinds(dataset) == [("pointer", "datasets/events/latest")]


def test_a_pointer_to_an_older_snapshot_is_reported(
    dataset: lode.Dataset, snapshots: list[lode.Snapshot]
) -> None:
    replace(dataset.store, "datasets/events/latest", snapshots[3].id.encode())
    assert kinds(dataset) == [("pointer", "datasets/events/latest")]


def test_a_sequence_out_of_step_is_reported(dataset: lode.Dataset, snapshots: list[lode.Snapshot]) -> None:
    path = manifest_path(snapshots[4])
    replace(dataset.store, path, dataset.store.get(path).replace(b'"sequence": 5', b'"sequence": 50'))
    assert ("sequence", path) in kinds(dataset)


def test_a_manifest_of_another_snapshot_is_reported(
    dataset: lode.Dataset, snapshots: list[lode.Snapshot]
) -> None:
    replace(dataset.store, manifest_path(snapshots[7]), dataset.store.get(manifest_path(snapshots[6])))
    assert ("manifest-invalid", manifest_path(snapshots[7])) in kinds(dataset)


def test_verifying_changes_nothing_and_tells_its_progress(
    dataset: lode.Dataset, snapshots: list[lode.Snapshot]
) -> None:
    before = contents(dataset.store)
    steps: list[tuple[int, int | None]] = []
    lode.verify(dataset, progress=lambda done, total: steps.append((done, total)))
    assert steps[-1] == (len(snapshots), len(snapshots))
    assert contents(dataset.store) == before


def test_a_cycle_is_reported_and_ends(dataset: lode.Dataset, snapshots: list[lode.Snapshot]) -> None:
    path = manifest_path(snapshots[0])
    data = dataset.store.get(path)
    looped = data.replace(
        b'"row_count"', b'"parent_snapshot_id": "' + snapshots[7].id.encode() + b'",\n  "row_count"'
    )
    replace(dataset.store, path, looped)
    problems = kinds(dataset)
    assert [place for kind, place in problems if kind == "cycle"] == [
        manifest_path(snapshot) for snapshot in snapshots
    ]
    assert ("pointer", "datasets/events/latest") in problems


def test_a_gap_in_the_sequences_is_reported_once(
    dataset: lode.Dataset, snapshots: list[lode.Snapshot]
) -> None:
    path = manifest_path(snapshots[4])
    replace(dataset.store, path, dataset.store.get(path).replace(b'"sequence": 5', b'"sequence": 50'))
    assert kinds(dataset) == [("copy-invalid", copy_path(snapshots[4])), ("sequence", path)]


def test_a_history_that_does_not_begin_at_one_is_reported(
    dataset: lode.Dataset, snapshots: list[lode.Snapshot]
) -> None:
    path = manifest_path(snapshots[0])
    replace(dataset.store, path, dataset.store.get(path).replace(b'"sequence": 1', b'"sequence": 7'))
    assert kinds(dataset) == [("copy-invalid", copy_path(snapshots[0])), ("sequence", path)]


def test_a_manifest_of_another_dataset_is_reported(
    dataset: lode.Dataset, snapshots: list[lode.Snapshot]
) -> None:
    path = manifest_path(snapshots[3])
    foreign = dataset.store.get(path).replace(b'"dataset_id": "events"', b'"dataset_id": "visits"')
    replace(dataset.store, path, foreign)
    assert kinds(dataset) == [("manifest-invalid", path)]


@pytest.mark.parametrize("damage", [b"\xff\xfe", b"", b"../../etc/passwd"])
def test_a_pointer_that_is_no_id_is_reported(
    damage: bytes, dataset: lode.Dataset, snapshots: list[lode.Snapshot]
) -> None:
    replace(dataset.store, "datasets/events/latest", damage)
    assert len(snapshots) == 8
    assert kinds(dataset) == [("pointer", "datasets/events/latest")]


def test_manifests_nested_too_deeply_are_reported(
    dataset: lode.Dataset, snapshots: list[lode.Snapshot]
) -> None:
    path = manifest_path(snapshots[7])
    replace(dataset.store, path, b'{"metadata": ' + b"[" * 100_000)
    assert ("manifest-invalid", path) in kinds(dataset)


def test_manifests_are_read_many_at_once() -> None:
    """5,000 snapshots on a remote store must not be 5,000 round trips, one after the other."""
    store = MemoryStore()
    for number in range(40):
        lode.Dataset("events", store).write(str(number).encode())
    at_once = AtOnce(store)
    assert lode.verify(lode.Dataset("events", at_once), checksums=False).ok
    assert at_once.met.is_set()


class AtOnce(LatencyStore):
    """Delays each read until five of them have been under way at once; one that is alone, not for long."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store, 0.0)
        self.met = threading.Event()
        self._now = 0
        self._lock = threading.Lock()

    def get(self, path: str) -> bytes:
        with self._lock:
            self._now += 1
            is_alone = self._now == 1
            if self._now > 4:
                self.met.set()
        try:
            self.met.wait(0.2 if is_alone else 60)
            return super().get(path)
        finally:
            with self._lock:
                self._now -= 1
