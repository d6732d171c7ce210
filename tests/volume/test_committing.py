"""Committing blocks: disjoint ones merge, overlapping ones never do, and the manifest lists them all."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

import lode
from lode.runtime import REAL
from lode.store.memory import MemoryStore
from lode.store.wrappers import CountingStore, Fault, FaultStore, SimulatedCrash

LENGTH = 100


@pytest.fixture
def store() -> CountingStore:
    return CountingStore(MemoryStore())


@pytest.fixture
def volume(store: CountingStore) -> lode.Volume:
    return lode.Volume("v", store, LENGTH)


def fill(volume: lode.Volume, *ranges: tuple[int, int]) -> lode.VolumeSnapshot:
    """Commit blocks whose bytes are their offset's number."""
    return volume.commit(
        [volume.stage_write_at(start, bytes([start]) * (end - start)) for start, end in ranges]
    )


def places(snapshot: lode.VolumeSnapshot) -> list[tuple[int, int]]:
    return [(block.offset, block.end) for block in snapshot.blocks]


def test_a_commit_lists_every_block_there_is_by_offset(volume: lode.Volume) -> None:
    fill(volume, (50, 60), (0, 10))
    fill(volume, (90, 100), (20, 30))
    assert places(fill(volume, (10, 20))) == [(0, 10), (10, 20), (20, 30), (50, 60), (90, 100)]


def test_snapshots_have_a_linear_history(volume: lode.Volume) -> None:
    made = [fill(volume, (n, n + 1)) for n in range(4)]
    assert [snapshot.id for snapshot in volume.snapshots()] == [snapshot.id for snapshot in made]
    assert [snapshot.parent_id for snapshot in volume.snapshots()] == [None, *[s.id for s in made[:-1]]]
    assert [snapshot.sequence for snapshot in volume.snapshots()] == [1, 2, 3, 4]
    assert [snapshot.size_bytes for snapshot in volume.snapshots()] == [1, 2, 3, 4]
    assert volume.latest() == made[-1]
    assert volume.snapshot(made[1].id) == made[1]
    assert volume.latest().created_at > volume.snapshot(made[0].id).created_at


def test_metadata_is_kept_with_its_snapshot(volume: lode.Volume) -> None:
    snapshot = volume.commit([volume.stage_write_at(0, b"x")], {"source": "https://example.org/a"})
    assert lode.Volume("v", volume.store, LENGTH).snapshot(snapshot.id).metadata == {
        "source": "https://example.org/a"
    }


def test_a_commit_costs_an_intent_a_swap_and_a_manifest(store: CountingStore, volume: lode.Volume) -> None:
    fill(volume, (0, 1))
    blocks = [volume.stage_write_at(n, b"x") for n in range(10, 20)]
    store.reset()
    volume.commit(blocks)
    assert dict(store.counts) == {"put": 2, "compare_and_swap": 1}


def test_a_commit_without_a_block_is_refused(volume: lode.Volume) -> None:
    with pytest.raises(lode.InvalidOptionError, match="at least one new block"):
        volume.commit([])


@pytest.mark.parametrize("place", [(-1, 2), (0, 0), (0, -1), (99, 2)])
def test_a_block_that_is_not_inside_the_volume_is_refused(
    place: tuple[int, int], volume: lode.Volume
) -> None:
    with pytest.raises(lode.InvalidRangeError, match="not inside volume 'v'"):
        volume.commit([lode.BlockRef(*place, "volumes/v/data/x.bin")])


def test_a_block_of_another_volume_is_refused(volume: lode.Volume) -> None:
    other = lode.Volume("w", volume.store, LENGTH)
    with pytest.raises(lode.ComponentMismatchError, match="not one of volume 'v'"):
        volume.commit([other.stage_write_at(0, b"x")])


def test_a_snapshot_of_another_volume_is_refused(volume: lode.Volume) -> None:
    other = fill(lode.Volume("w", volume.store, LENGTH), (0, 1))
    with pytest.raises(lode.ComponentMismatchError, match="of volume 'w', not of 'v'"):
        volume.read_at(other, 0, 1)


def test_metadata_that_is_not_json_is_refused(store: CountingStore, volume: lode.Volume) -> None:
    block = volume.stage_write_at(0, b"x")
    store.reset()
    with pytest.raises(lode.InvalidMetadataError):
        volume.commit([block], {"when": object()})
    assert store.total == 0


@pytest.mark.parametrize("place", [(15, 25), (5, 15), (12, 13), (0, 40), (10, 20), (19, 20), (0, 11)])
def test_a_block_on_top_of_another_is_refused_and_both_are_named(
    place: tuple[int, int], volume: lode.Volume
) -> None:
    there = fill(volume, (10, 20)).blocks[0]
    block = volume.stage_write_at(place[0], b"x" * (place[1] - place[0]))
    with pytest.raises(lode.OverlappingBlocksError) as caught:
        volume.commit([block])
    for named in (there, block):
        assert f"[{named.offset}, {named.end}) in {named.path}" in str(caught.value)
    assert caught.value.landed is False
    assert len(volume.snapshots()) == 1


@pytest.mark.parametrize("place", [(0, 10), (20, 30)])
def test_blocks_that_only_touch_do_not_overlap(place: tuple[int, int], volume: lode.Volume) -> None:
    fill(volume, (10, 20))
    assert len(fill(volume, place).blocks) == 2


def test_blocks_of_one_commit_may_not_overlap_each_other(volume: lode.Volume) -> None:
    blocks = [volume.stage_write_at(5, b"xxxxx"), volume.stage_write_at(0, b"x" * 6)]
    with pytest.raises(lode.OverlappingBlocksError, match=r"\[0, 6\) .* \[5, 10\)"):
        volume.commit(blocks)
    assert volume.snapshots() == []


def test_a_block_is_committed_once(volume: lode.Volume) -> None:
    block = volume.stage_write_at(0, b"x")
    volume.commit([block])
    with pytest.raises(lode.OverlappingBlocksError, match="committed already"):
        volume.commit([block])
    with pytest.raises(lode.OverlappingBlocksError, match="given twice"):
        volume.commit([lode.BlockRef(5, 1, "volumes/v/data/5.bin")] * 2)


def test_an_overlap_with_another_process_is_found_and_never_retried() -> None:
    store = MemoryStore()
    pauses: list[float] = []
    runtime = replace(REAL, sleep=pauses.append)
    ours = lode.Volume("v", store, LENGTH, retry=lode.Retry(5), runtime=runtime)
    fill(ours, (0, 1))
    fill(lode.Volume("v", store, LENGTH), (10, 20))
    with pytest.raises(lode.OverlappingBlocksError):
        fill(ours, (15, 25))
    assert pauses == []
    assert len(lode.Volume("v", store, LENGTH).snapshots()) == 2


def test_an_overlap_with_any_later_commit_is_found() -> None:
    store = MemoryStore()
    ours, theirs = (lode.Volume("v", store, LENGTH) for _ in range(2))
    fill(ours, (0, 1))
    fill(theirs, (10, 20))
    fill(theirs, (30, 40))
    with pytest.raises(lode.OverlappingBlocksError):
        fill(ours, (19, 21))
    assert places(fill(ours, (20, 30))) == [(0, 1), (10, 20), (20, 30), (30, 40)]


def test_disjoint_commits_merge_and_count_their_rebases() -> None:
    store = MemoryStore()
    volumes = [lode.Volume("v", store, LENGTH) for _ in range(3)]
    for n, volume in enumerate(volumes):
        fill(volume, (n, n + 1))
    snapshots = [fill(volume, (10 + n, 11 + n)) for n, volume in enumerate(volumes)]
    assert [snapshot.commit.rebases for snapshot in snapshots if snapshot.commit] == [1, 1, 1]
    assert places(snapshots[-1]) == [(n, n + 1) for n in (0, 1, 2, 10, 11, 12)]


def test_sixteen_threads_with_their_own_view_fill_one_volume_without_an_error() -> None:
    store = MemoryStore()
    failures: list[BaseException] = []

    def run(stripe: int) -> None:
        volume = lode.Volume("v", store, 16 * 10)
        try:
            for step in range(10):
                at = stripe * 10 + step
                volume.commit([volume.stage_write_at(at, bytes([at]))])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(stripe,)) for stripe in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    volume = lode.Volume("v", store, 160)
    assert failures == []
    assert volume.read_at(volume.latest(), 0, 160) == bytes(range(160))
    assert [snapshot.sequence for snapshot in volume.snapshots()] == list(range(1, 161))


def test_a_volume_cannot_be_opened_with_another_length(volume: lode.Volume) -> None:
    fill(volume, (0, 1))
    other = lode.Volume("v", volume.store, LENGTH + 1)
    for attempt in (other.latest, other.missing, lambda: fill(other, (5, 6))):
        with pytest.raises(lode.ComponentMismatchError, match="total_length=100"):
            attempt()


def test_one_volume_has_one_kind_of_checksum() -> None:
    store = MemoryStore()
    fill(lode.Volume("v", store, LENGTH, checksum="md5"), (0, 1))
    with pytest.raises(lode.ComponentMismatchError, match="checksum='md5'"):
        fill(lode.Volume("v", store, LENGTH, checksum="sha256"), (1, 2))
    assert fill(lode.Volume("v", store, LENGTH), (2, 3)).manifest.checksum_algorithm == "md5"


@pytest.mark.parametrize(("staged", "committed"), [("md5", None), (None, "md5")])
def test_blocks_are_committed_with_the_checksum_they_were_staged_with(
    staged: str | None, committed: str | None
) -> None:
    store = MemoryStore()
    block = lode.Volume("v", store, LENGTH, checksum=staged).stage_write_at(0, b"x")
    with pytest.raises(lode.ComponentMismatchError, match="open the volume alike"):
        lode.Volume("v", store, LENGTH, checksum=committed).commit([block])


def test_the_unpublished_commit_of_a_dead_writer_is_not_missing() -> None:
    store = MemoryStore()
    dying = lode.Volume("v", FaultStore(store, Fault("put", "*/manifest.json", error=SimulatedCrash)), LENGTH)
    with pytest.raises(SimulatedCrash):
        fill(dying, (0, 10))
    resumed = lode.Volume("v", store, LENGTH)
    assert resumed.snapshots() == []
    assert resumed.missing() == [(10, 90)]
    assert places(resumed.latest()) == [(0, 10)]
    assert places(fill(resumed, *[(at, at + size) for at, size in resumed.missing()])) == [(0, 10), (10, 100)]


def test_settle_publishes_the_commit_of_a_dead_writer() -> None:
    store = MemoryStore()
    dying = lode.Volume("v", FaultStore(store, Fault("put", "*/manifest.json", error=SimulatedCrash)), LENGTH)
    with pytest.raises(SimulatedCrash):
        fill(dying, (0, 10))
    lode.Volume("v", store, LENGTH).settle()
    assert places(lode.Volume("v", store, LENGTH).latest()) == [(0, 10)]


def test_missing_needs_no_write_permission() -> None:
    store = MemoryStore()
    fill(lode.Volume("v", store, LENGTH), (0, 10))
    dying = lode.Volume("v", FaultStore(store, Fault("put", "*/manifest.json", error=SimulatedCrash)), LENGTH)
    with pytest.raises(SimulatedCrash):
        fill(dying, (10, 20))
    forbidden = Fault("put", times=None, error=lode.PermissionDeniedError("read only"))
    assert lode.Volume("v", FaultStore(store, forbidden), LENGTH).missing() == [(10, 90)]
    assert lode.Volume("v", store, LENGTH).missing() == [(20, 80)]


def test_a_commit_that_cannot_write_its_manifest_reports_that_it_landed() -> None:
    store = MemoryStore()
    faulty = FaultStore(store, Fault("put", "*/manifest.json", times=None, error=lode.StoreError("down")))
    with pytest.raises(lode.CommitUnpublishedError) as caught:
        fill(lode.Volume("v", faulty, LENGTH), (0, 10))
    assert caught.value.landed is True
    assert lode.Volume("v", store, LENGTH).missing() == [(10, 90)]


def test_an_observer_receives_every_commit() -> None:
    committed: list[str] = []
    volume = lode.Volume("v", MemoryStore(), LENGTH, observer=lambda id, _: committed.append(id))
    assert [fill(volume, (0, 1)).id, fill(volume, (1, 2)).id] == committed


def test_a_manifest_with_overlapping_or_unsorted_blocks_is_refused(volume: lode.Volume) -> None:
    snapshot = fill(volume, (0, 10), (20, 30))
    path = f"volumes/v/snapshots/{snapshot.id}/manifest.json"
    store = MemoryStore()
    store.put(path, volume.store.get(path).replace(b'"offset": 20', b'"offset": 9'))
    with pytest.raises(lode.ManifestInvalidError, match="overlap or are unsorted at 9") as caught:
        lode.Volume("v", store, LENGTH).snapshot(snapshot.id)
    assert caught.value.field == "blocks"
