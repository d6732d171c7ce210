"""sweep of a volume: removes blocks that were never committed, and none that is or can be."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

import lode
from lode.format.manifest import encode_manifest
from lode.runtime import Runtime
from lode.store import CountingStore, Fault, FaultStore, MemoryStore, SimulatedCrash
from support.clock import Clock
from support.stores import contents

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HOUR = timedelta(hours=1)
LENGTH = 100


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lake(clock: Clock) -> MemoryStore:
    return MemoryStore(now_ns=clock)


@pytest.fixture
def volume(lake: MemoryStore, clock: Clock) -> lode.Volume:
    return opened(lake, clock)


@pytest.fixture
def sweep(lake: MemoryStore, clock: Clock) -> Callable[..., lode.Sweep]:
    def run(older_than: timedelta = HOUR, *, dry_run: bool = False) -> lode.Sweep:
        target = opened(lake, clock)
        return lode.sweep(target, older_than, dry_run=dry_run, runtime=Runtime(now_ns=clock))

    return run


def opened(store: lode.Store, clock: Clock) -> lode.Volume:
    return lode.Volume("disk", store, LENGTH, runtime=Runtime(now_ns=clock))


def blocks(lake: MemoryStore) -> list[str]:
    return [entry.path for entry in lake.list("volumes/disk/data/")]


def fill(volume: lode.Volume, offset: int, length: int = 10) -> lode.VolumeSnapshot:
    return volume.commit([volume.stage_write_at(offset, b"x" * length)])


def test_a_block_that_was_never_committed_is_removed(
    volume: lode.Volume, lake: MemoryStore, clock: Clock, sweep: Callable[..., lode.Sweep]
) -> None:
    kept = fill(volume, 0)
    lost = volume.stage_write_at(50, b"lost")
    clock.pass_by(2 * HOUR)
    found = sweep()
    reasons = {item.path: item.reason for item in found.leftovers}
    assert reasons.pop(lost.path) == "a block that was never committed"
    assert set(reasons.values()) == {"the intent of a snapshot that is published"}
    assert found.removed
    assert blocks(lake) == [kept.blocks[0].path]
    assert lode.verify(volume).ok


def test_a_sweep_is_a_dry_run_unless_told_otherwise(
    volume: lode.Volume, lake: MemoryStore, clock: Clock
) -> None:
    fill(volume, 0)
    lost = volume.stage_write_at(50, b"lost")
    clock.pass_by(2 * HOUR)
    before = contents(lake)
    found = lode.sweep(volume, HOUR, runtime=Runtime(now_ns=clock))
    assert lost.path in [item.path for item in found.leftovers]
    assert contents(lake) == before


def test_nothing_younger_than_the_limit_is_touched(
    volume: lode.Volume, lake: MemoryStore, clock: Clock, sweep: Callable[..., lode.Sweep]
) -> None:
    fill(volume, 0)
    volume.stage_write_at(50, b"young")
    clock.pass_by(timedelta(minutes=59))
    before = contents(lake)
    assert sweep().leftovers == ()
    assert contents(lake) == before


def test_a_slow_writer_whose_block_was_swept_is_refused_by_name_and_may_stage_it_again(
    volume: lode.Volume, lake: MemoryStore, clock: Clock, sweep: Callable[..., lode.Sweep]
) -> None:
    fill(volume, 0)
    slow = volume.stage_write_at(50, b"slow")
    clock.pass_by(2 * HOUR)
    sweep()
    with pytest.raises(lode.TransactionClosedError, match="swept as abandoned") as refused:
        volume.commit([slow])
    assert slow.path in str(refused.value)
    again = volume.commit([volume.stage_write_at(50, b"slow")])
    assert volume.read_at(again, 50, 4) == b"slow"
    assert lode.verify(volume).ok
    assert opened(lake, clock).latest() == again


def test_a_process_that_knew_the_head_before_the_sweep_is_refused_too(
    lake: MemoryStore, clock: Clock, sweep: Callable[..., lode.Sweep]
) -> None:
    warm, other = opened(lake, clock), opened(lake, clock)
    fill(warm, 0)
    slow = other.stage_write_at(50, b"slow")
    other.latest()
    clock.pass_by(2 * HOUR)
    sweep()
    for number in range(3):
        fill(warm, 10 + 10 * number)
    with pytest.raises(lode.TransactionClosedError, match="swept"):
        other.commit([slow])


def test_every_later_snapshot_names_the_list_and_a_second_sweep_folds_it_into_its_own(
    volume: lode.Volume, lake: MemoryStore, clock: Clock, sweep: Callable[..., lode.Sweep]
) -> None:
    fill(volume, 0)
    slow = [volume.stage_write_at(50, b"1")]
    clock.pass_by(2 * HOUR)
    sweep()
    fill(volume, 10)
    slow.append(volume.stage_write_at(60, b"2"))
    clock.pass_by(2 * HOUR)
    sweep()
    newest = fill(volume, 20)
    assert len(newest.manifest.swept) == 1
    for block in slow:
        with pytest.raises(lode.TransactionClosedError, match="swept"):
            opened(lake, clock).commit([block])
    assert lode.verify(volume).ok


def test_a_sweep_that_finds_nothing_commits_nothing(
    volume: lode.Volume, clock: Clock, sweep: Callable[..., lode.Sweep]
) -> None:
    fill(volume, 0)
    clock.pass_by(2 * HOUR)
    sweep()
    assert len(volume.snapshots()) == 1
    volume.stage_write_at(50, b"x")
    clock.pass_by(2 * HOUR)
    sweep()
    assert [snapshot.writer for snapshot in volume.snapshots()] == [None, "sweep"]
    sweep(timedelta(0))
    assert len(volume.snapshots()) == 2


def test_a_sweep_that_died_while_removing_is_finished_by_the_next_without_another_snapshot(
    volume: lode.Volume, lake: MemoryStore, clock: Clock, sweep: Callable[..., lode.Sweep]
) -> None:
    fill(volume, 0)
    lost = [volume.stage_write_at(50 + number, b"x") for number in range(3)]
    clock.pass_by(2 * HOUR)
    dying = opened(FaultStore(lake, Fault("delete", lost[1].path)), clock)
    with pytest.raises(SimulatedCrash):
        lode.sweep(dying, HOUR, dry_run=False, runtime=Runtime(now_ns=clock))
    assert len(volume.snapshots()) == 2
    sweep()
    assert not any(lake.exists(block.path) for block in lost)
    assert len(volume.snapshots()) == 2


def test_a_commit_to_a_swept_volume_costs_what_it_did_once_the_list_is_read(
    volume: lode.Volume, lake: MemoryStore, clock: Clock, sweep: Callable[..., lode.Sweep]
) -> None:
    fill(volume, 0)
    volume.stage_write_at(50, b"lost")
    clock.pass_by(2 * HOUR)
    sweep()
    store = CountingStore(lake)
    warm = opened(store, clock)
    fill(warm, 10)
    store.reset()
    block = warm.stage_write_at(20, b"x")
    store.reset()
    warm.commit([block])
    assert store.counts == {"put": 2, "compare_and_swap": 1}


def test_a_list_that_was_removed_by_hand_stops_nobody_whose_blocks_are_there(
    volume: lode.Volume, lake: MemoryStore, clock: Clock, sweep: Callable[..., lode.Sweep]
) -> None:
    fill(volume, 0)
    slow = volume.stage_write_at(50, b"slow")
    clock.pass_by(2 * HOUR)
    sweep()
    for entry in list(lake.list("volumes/disk/swept/")):
        lake.delete(entry.path)
    fresh = opened(lake, clock)
    fill(fresh, 10)
    with pytest.raises(lode.TransactionClosedError, match="swept"):
        fresh.commit([slow])


def test_behind_a_snapshot_of_the_go_implementation_the_lists_are_still_found(
    volume: lode.Volume, lake: MemoryStore, clock: Clock, sweep: Callable[..., lode.Sweep]
) -> None:
    """Its manifests repeat nothing that it does not know."""
    fill(volume, 0)
    slow = volume.stage_write_at(50, b"slow")
    clock.pass_by(2 * HOUR)
    sweep()
    head = volume.latest()
    foreign = lode.VolumeManifest(
        schema_name="lode-volume-manifest",
        format_version="1.0.0",
        volume_id="disk",
        snapshot_id="1900000000000000000",
        created_at="2030-03-17T17:46:40Z",
        metadata={},
        total_length=LENGTH,
        blocks=head.blocks,
        parent_snapshot_id=head.id,
    )
    lake.put(f"volumes/disk/snapshots/{foreign.snapshot_id}/manifest.json", encode_manifest(foreign))
    lake.delete("volumes/disk/latest")
    lake.put("volumes/disk/latest", foreign.snapshot_id.encode())
    fresh = opened(lake, clock)
    with pytest.raises(lode.TransactionClosedError, match="swept"):
        fresh.commit([slow])
    assert fill(fresh, 10).manifest.swept == head.manifest.swept


def test_a_commit_that_may_still_land_keeps_its_blocks(
    lake: MemoryStore, clock: Clock, volume: lode.Volume, sweep: Callable[..., lode.Sweep]
) -> None:
    fill(volume, 0)
    paused = opened(FaultStore(lake, Fault("compare_and_swap")), clock)
    block = paused.stage_write_at(50, b"paused")
    with pytest.raises(SimulatedCrash):
        paused.commit([block])
    clock.pass_by(2 * HOUR)
    assert "may still be committed" in sweep().spared[block.path]
    fill(volume, 10)
    clock.pass_by(2 * HOUR)
    assert block.path in [item.path for item in sweep().leftovers]


def test_a_commit_whose_writer_died_after_its_swap_keeps_its_blocks(
    lake: MemoryStore, clock: Clock, volume: lode.Volume, sweep: Callable[..., lode.Sweep]
) -> None:
    fill(volume, 0)
    dying = opened(FaultStore(lake, Fault("put", "*/manifest.json")), clock)
    block = dying.stage_write_at(50, b"landed")
    with pytest.raises(SimulatedCrash):
        dying.commit([block])
    volume.stage_write_at(90, b"lost")
    clock.pass_by(2 * HOUR)
    assert len(sweep().leftovers) == 2  # what is lost, and the first intent
    assert volume.read_at(volume.latest(), 50, 6) == b"landed"


@pytest.mark.parametrize("pointer", ["older", "lost", "dangling", "not text"])
def test_no_block_is_removed_while_the_pointer_does_not_name_the_newest_snapshot(
    pointer: str, volume: lode.Volume, lake: MemoryStore, clock: Clock, sweep: Callable[..., lode.Sweep]
) -> None:
    written = [fill(volume, 10 * number) for number in range(4)]
    volume.stage_write_at(90, b"lost")
    lake.delete("volumes/disk/latest")
    values = {"older": written[0].id.encode(), "dangling": b"1234", "not text": b"\xff"}
    if pointer in values:
        lake.put("volumes/disk/latest", values[pointer])
    clock.pass_by(2 * HOUR)
    found = sweep()
    assert "no block is removed" in found.spared["volumes/disk"]
    assert len(blocks(lake)) == 5


@pytest.mark.parametrize("damage", ["unreadable", "missing", "of another"])
def test_no_block_is_removed_while_a_manifest_is_damaged(
    damage: str, volume: lode.Volume, lake: MemoryStore, clock: Clock, sweep: Callable[..., lode.Sweep]
) -> None:
    first, second, _ = (fill(volume, 10 * number) for number in range(3))
    volume.stage_write_at(90, b"lost")
    path = f"volumes/disk/snapshots/{second.id}/manifest.json"
    lake.delete(path)
    if damage != "missing":
        other = lake.get(f"volumes/disk/snapshots/{first.id}/manifest.json")
        lake.put(path, b"{" if damage == "unreadable" else other)
    clock.pass_by(2 * HOUR)
    found = sweep()
    assert any("no block is removed" in reason for reason in found.spared.values())
    assert len(blocks(lake)) == 4


def test_a_volume_without_a_snapshot_keeps_its_blocks(
    volume: lode.Volume, lake: MemoryStore, clock: Clock, sweep: Callable[..., lode.Sweep]
) -> None:
    block = volume.stage_write_at(0, b"first")
    clock.pass_by(2 * HOUR)
    assert "no snapshot yet" in sweep().spared["volumes/disk"]
    assert lake.exists(block.path)
    volume.commit([block])


def test_only_what_is_named_like_a_block_is_taken(
    volume: lode.Volume, lake: MemoryStore, clock: Clock, sweep: Callable[..., lode.Sweep]
) -> None:
    fill(volume, 0)
    strangers = [
        "volumes/disk/data/notes.bin",
        "volumes/disk/data/1-2/3.bin",
        "volumes/disk/data/5-7-short.bin",
        "volumes/disk2/data/5-7.bin",
    ]
    for path in [*strangers, "volumes/disk/data/5-7.bin"]:
        lake.put(path, b"x")
    clock.pass_by(2 * HOUR)
    assert [item.path for item in sweep().leftovers if item.path.endswith(".bin")] == [
        "volumes/disk/data/5-7.bin"
    ]
    assert all(lake.exists(path) for path in strangers)


def test_a_sweep_on_a_disk(tmp_path: Path) -> None:
    volume = lode.Volume("disk", tmp_path, LENGTH, checksum="md5")
    kept = fill(volume, 0)
    lost = volume.stage_write_at(50, b"lost")
    found = lode.sweep(volume, timedelta(0), dry_run=False)
    assert lost.path in [item.path for item in found.leftovers]
    assert not (tmp_path / lost.path).exists()
    assert volume.read_at(volume.latest(), 0, 10, verify=True) == b"x" * 10
    assert volume.latest().blocks == kept.blocks
