"""A volume against a byte array with gaps, for any actions and crashes of several writers."""

from __future__ import annotations

import io
from contextlib import suppress

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
)

import lode
from lode.store.memory import MemoryStore
from lode.store.wrappers import Fault, FaultStore, SimulatedCrash

LENGTH = 48
NAMES = ("one", "two", "three")
WRITERS = st.sampled_from(NAMES)
OFFSETS = st.integers(0, LENGTH - 1)
DATA = st.binary(min_size=1, max_size=12)

Bytes = tuple[int | None, ...]
Staged = tuple[lode.BlockRef, bytes]
HOLES: Bytes = (None,) * LENGTH


def filled(before: Bytes, blocks: list[Staged]) -> Bytes | None:
    """The byte array with the blocks in it, or None if two of all these overlap."""
    after = list(before)
    for block, data in blocks:
        if any(value is not None for value in after[block.offset : block.end]):
            return None
        after[block.offset : block.end] = data
    return tuple(after)


def holes(content: Bytes, start: int = 0, end: int = LENGTH) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for at in range(start, end):
        if content[at] is not None:
            continue
        if found and sum(found[-1]) == at:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((at, 1))
    return found


class VolumeMachine(RuleBasedStateMachine):
    """Three writers with their own view of one store; the model is the content of each snapshot."""

    staged: Bundle[Staged] = Bundle("staged")
    snapshots: Bundle[str] = Bundle("snapshots")

    @initialize()
    def begin(self) -> None:
        self.store = MemoryStore()
        self.volumes = {name: self.open(self.store) for name in NAMES}
        self.model: list[tuple[str, Bytes]] = []

    def open(self, store: lode.Store) -> lode.Volume:
        return lode.Volume("v", store, LENGTH, checksum="xxh3-128")

    @property
    def content(self) -> Bytes:
        return self.model[-1][1] if self.model else HOLES

    @rule(target=staged, who=WRITERS, offset=OFFSETS, data=DATA, stream=st.booleans())
    def stage(self, who: str, offset: int, data: bytes, stream: bool) -> Staged | MultipleResults[Staged]:
        source = io.BytesIO(data) if stream else data
        if offset + len(data) > LENGTH:
            with pytest.raises(lode.InvalidRangeError):
                self.volumes[who].stage_write_at(offset, source)
            return multiple()
        return self.volumes[who].stage_write_at(offset, source), data

    @rule(target=snapshots, who=WRITERS, blocks=st.lists(staged, min_size=1, max_size=4))
    def commit(self, who: str, blocks: list[Staged]) -> str | MultipleResults[str]:
        expected = filled(self.content, blocks)
        refs = [block for block, _ in blocks]
        if expected is None:
            with pytest.raises(lode.OverlappingBlocksError):
                self.volumes[who].commit(refs)
            return multiple()
        snapshot = self.volumes[who].commit(refs)
        self.model.append((snapshot.id, expected))
        return snapshot.id

    @rule(who=WRITERS, size=st.integers(1, 5))
    def resume(self, who: str, size: int) -> None:
        """Fill the first missing range."""
        volume = self.volumes[who]
        gaps = volume.missing()
        assert gaps == holes(self.content)
        if gaps:
            offset, length = gaps[0]
            block = volume.stage_write_at(offset, bytes([offset]) * min(size, length))
            self.commit(who, [(block, bytes([offset]) * block.length)])

    @rule(offset=OFFSETS, data=DATA, calls=st.integers(1, 3))
    def die_while_staging(self, offset: int, data: bytes, calls: int) -> None:
        """A process dies during its upload; nothing of it ever becomes visible."""
        store = FaultStore(self.store, Fault(path="*.bin", nth=calls, when="after"))
        with suppress(SimulatedCrash, lode.InvalidRangeError):
            self.open(store).stage_write_at(offset, data)

    @rule(blocks=st.lists(staged, min_size=1, max_size=3), calls=st.integers(1, 8), after=st.booleans())
    def die_while_committing(self, blocks: list[Staged], calls: int, after: bool) -> None:
        """A process dies at its nth call; the commit is complete or absent."""
        store = FaultStore(self.store, Fault(nth=calls, when="after" if after else "before"))
        expected = filled(self.content, blocks)
        with suppress(SimulatedCrash, lode.OverlappingBlocksError):
            self.open(store).commit([block for block, _ in blocks])
        self.open(self.store).missing()
        ids = [snapshot.id for snapshot in self.open(self.store).snapshots()]
        if len(ids) > len(self.model):
            assert expected is not None
            self.model.append((ids[-1], expected))

    @rule(who=WRITERS, id=snapshots, offset=OFFSETS, length=st.integers(0, LENGTH), verify=st.booleans())
    def read(self, who: str, id: str, offset: int, length: int, verify: bool) -> None:
        content = dict(self.model)[id]
        if offset + length > LENGTH:
            with pytest.raises(lode.InvalidRangeError):
                self.volumes[who].read_at(id, offset, length)
        elif gaps := holes(content, offset, offset + length):
            with pytest.raises(lode.RangeMissingError) as caught:
                self.volumes[who].read_at(id, offset, length, verify=verify)
            assert list(caught.value.missing) == gaps
        else:
            data = self.volumes[who].read_at(id, offset, length, verify=verify)
            assert list(data) == list(content[offset : offset + length])

    @rule(who=WRITERS, id=snapshots, offset=OFFSETS)
    def read_as_a_file(self, who: str, id: str, offset: int) -> None:
        """A file returns all bytes up to the next gap and then raises an error that names it."""
        content = dict(self.model)[id]
        gap = next(iter(holes(content, offset)), None)
        end = gap[0] if gap else LENGTH
        with self.volumes[who].open(id) as file:
            file.seek(offset)
            assert list(file.read(end - offset)) == list(content[offset:end])
            if gap is None:
                assert file.read() == b""
            else:
                with pytest.raises(lode.RangeMissingError) as caught:
                    file.read(1)
                assert caught.value.missing == (gap,)

    @invariant()
    def history_is_the_model(self) -> None:
        snapshots = self.open(self.store).snapshots()
        assert [snapshot.id for snapshot in snapshots] == [id for id, _ in self.model]
        assert [snapshot.sequence for snapshot in snapshots] == list(range(1, len(snapshots) + 1))
        assert self.open(self.store).missing() == holes(self.content)


TestVolume = VolumeMachine.TestCase
TestVolume.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
