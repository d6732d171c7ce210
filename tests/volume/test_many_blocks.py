"""The calls of a commit or a read do not depend on the number of blocks, here a hundred thousand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import pytest

import lode
from lode.format.volume import VolumeManifest
from lode.store.memory import MemoryStore
from lode.store.wrappers import CountingStore

MANY = 100_000
SIZE = 10
# Every other place is a gap, so that blocks can be added anywhere.
LENGTH = MANY * 2 * SIZE


@pytest.fixture(scope="module")
def grown() -> MemoryStore:
    """A volume of many blocks; only the first ten are stored, because the others are never read."""
    store = MemoryStore()
    volume = lode.Volume("v", store, LENGTH)
    real = [volume.stage_write_at(n * 2 * SIZE, bytes([n]) * SIZE) for n in range(10)]
    rest = [
        lode.BlockRef(n * 2 * SIZE, SIZE, f"volumes/v/data/{n * 2 * SIZE}-{SIZE}-{n:016x}.bin")
        for n in range(10, MANY)
    ]
    volume.commit([*real, *rest])
    return store


def test_one_more_block_takes_four_calls(grown: MemoryStore) -> None:
    store = CountingStore(grown)
    volume = lode.Volume("v", store, LENGTH)
    assert volume.missing()[0] == (SIZE, SIZE)
    assert dict(store.counts) == {"get": 2}
    volume.commit([volume.stage_write_at(LENGTH - SIZE, b"x" * SIZE)])
    store.reset()
    snapshot = volume.commit([volume.stage_write_at(LENGTH - 3 * SIZE, b"x" * SIZE)])
    assert dict(store.counts) == {"put": 3, "compare_and_swap": 1}
    assert len(snapshot.blocks) == MANY + 2


def test_a_commit_that_lost_a_race_reads_only_later_manifests(grown: MemoryStore) -> None:
    store = CountingStore(grown)
    ours, theirs = lode.Volume("v", store, LENGTH), lode.Volume("v", grown, LENGTH)
    ours.commit([ours.stage_write_at(5 * SIZE, b"o" * SIZE)])
    block = ours.stage_write_at(SIZE, b"o" * SIZE)
    theirs.commit([theirs.stage_write_at(3 * SIZE, b"t" * SIZE)])
    store.reset()
    snapshot = ours.commit([block])
    assert snapshot.commit is not None
    assert snapshot.commit.rebases == 1
    # Intent, lost swap; pointer and the rival's manifest; intent again, swap, manifest.
    assert dict(store.counts) == {"put": 2, "compare_and_swap": 3, "get": 2}


def test_a_range_is_read_with_one_call_for_each_of_its_blocks(grown: MemoryStore) -> None:
    store = CountingStore(grown)
    volume = lode.Volume("v", store, LENGTH)
    head = volume.latest()
    store.reset()
    assert volume.read_at(head, 0, SIZE) == bytes(SIZE)
    with pytest.raises(lode.RangeMissingError) as caught:
        volume.read_at(head, 10 * SIZE, LENGTH // 2)
    assert len(caught.value.missing) > MANY // 4
    assert dict(store.counts) == {"get_range": 1}


class Watched(Sequence[lode.BlockRef]):
    """Blocks that count accesses."""

    def __init__(self, blocks: tuple[lode.BlockRef, ...]) -> None:
        self.blocks = blocks
        self.looks = 0

    @overload
    def __getitem__(self, place: int) -> lode.BlockRef: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[lode.BlockRef]: ...
    def __getitem__(self, place: int | slice) -> lode.BlockRef | Sequence[lode.BlockRef]:
        self.looks += 1
        return self.blocks[place]

    def __len__(self) -> int:
        return len(self.blocks)

    def __iter__(self) -> Iterator[lode.BlockRef]:
        raise AssertionError("all blocks are walked through")


@pytest.mark.parametrize("touched", [1, 7, 50])
def test_finding_the_blocks_of_a_range_looks_at_few_of_them(touched: int, grown: MemoryStore) -> None:
    manifest = lode.Volume("v", grown, LENGTH).latest().manifest
    fields: dict[str, Any] = {name: getattr(manifest, name) for name in manifest.__struct_fields__}
    watched: Any = Watched(manifest.blocks)
    fields["blocks"] = watched
    start = 40_000 * 2 * SIZE
    found = list(VolumeManifest(**fields).covering(start, start + (touched - 1) * 2 * SIZE + 1))
    assert len(found) == touched
    assert watched.looks <= 17 + 3 * (touched + 1) + 1
