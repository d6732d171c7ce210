"""verify of a volume: finds every planted problem, all of them at once."""

from __future__ import annotations

import pytest

import lode
from lode.store import CountingStore, MemoryStore
from support.stores import contents

LENGTH = 100


@pytest.fixture
def lake() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def snapshots(lake: MemoryStore) -> list[lode.VolumeSnapshot]:
    volume = opened(lake)
    return [volume.commit([volume.stage_write_at(10 * at, b"hello")]) for at in range(5)]


def opened(store: lode.Store) -> lode.Volume:
    return lode.Volume("disk", store, LENGTH, checksum="md5")


def replace(store: lode.Store, path: str, data: bytes) -> None:
    store.delete(path)
    store.put(path, data)


def manifest_path(snapshot: lode.VolumeSnapshot) -> str:
    return f"volumes/disk/snapshots/{snapshot.id}/manifest.json"


def kinds(lake: MemoryStore, *, checksums: bool = True) -> list[tuple[str, str]]:
    found = lode.verify(opened(lake), checksums=checksums)
    return sorted((problem.kind, problem.path) for problem in found.problems)


def test_a_whole_volume_has_no_problems(lake: MemoryStore, snapshots: list[lode.VolumeSnapshot]) -> None:
    found = lode.verify(opened(lake))
    assert found.ok
    assert (found.snapshots, found.files, found.bytes) == (5, 5, snapshots[-1].size_bytes)


def test_every_planted_problem_is_reported_at_once(
    lake: MemoryStore, snapshots: list[lode.VolumeSnapshot]
) -> None:
    missing, longer, flipped = (block.path for block in snapshots[-1].blocks[:3])
    lake.delete(missing)
    replace(lake, longer, b"hello!")
    replace(lake, flipped, b"hellp")
    lake.delete(manifest_path(snapshots[1]))
    replace(lake, manifest_path(snapshots[3]), b"{")
    lake.delete("volumes/disk/latest")
    assert kinds(lake) == [
        ("checksum", flipped),
        ("manifest-invalid", manifest_path(snapshots[3])),
        ("missing-file", missing),
        ("missing-parent", manifest_path(snapshots[2])),
        ("missing-parent", manifest_path(snapshots[4])),
        ("pointer", "volumes/disk/latest"),
        ("size", longer),
    ]
    assert ("checksum", flipped) not in kinds(lake, checksums=False)


@pytest.mark.parametrize("pointer", ["older", "dangling", "not text"])
def test_a_pointer_that_does_not_name_the_newest_snapshot_is_reported(
    pointer: str, lake: MemoryStore, snapshots: list[lode.VolumeSnapshot]
) -> None:
    values = {"older": snapshots[1].id.encode(), "dangling": b"1234", "not text": b"\xff\xfe"}
    replace(lake, "volumes/disk/latest", values[pointer])
    assert kinds(lake) == [("pointer", "volumes/disk/latest")]


def test_a_manifest_of_another_snapshot_or_volume_is_reported(
    lake: MemoryStore, snapshots: list[lode.VolumeSnapshot]
) -> None:
    path = manifest_path(snapshots[2])
    data = lake.get(path)
    replace(lake, path, data.replace(b'"volume_id": "disk"', b'"volume_id": "tape"'))
    assert kinds(lake) == [("manifest-invalid", path)]
    replace(lake, path, data.replace(snapshots[2].id.encode(), snapshots[1].id.encode()))
    assert ("manifest-invalid", path) in kinds(lake)


def test_verifying_changes_nothing_and_reads_each_block_once(
    lake: MemoryStore, snapshots: list[lode.VolumeSnapshot]
) -> None:
    before = contents(lake)
    counted = CountingStore(lake)
    steps: list[tuple[int, int | None]] = []
    lode.verify(opened(counted), progress=lambda done, total: steps.append((done, total)))
    assert steps == [(5, 5)]
    assert counted.counts["open_reader"] == 5
    assert counted.counts["get"] == 2 * len(snapshots)  # each manifest and its intent
    assert counted.counts["get_range"] == 1  # the pointer
    assert contents(lake) == before
