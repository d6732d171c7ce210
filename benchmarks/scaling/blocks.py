"""The number of blocks a volume has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lode
from benchmarks.scaling.axis import counted, timed
from benchmarks.scaling.places import Places

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.rounds import Sample

_BLOCK = b"sixteen bytes ok"
_LENGTH = 1 << 20


class BlocksAxis:
    """A volume of so many blocks, to which another is added."""

    name = "blocks"
    title = "Blocks of a volume"
    x = "blocks before"
    rows = (
        "commit of one more, calls",
        "latest, calls",
        "read_at of one block, calls",
        "commit of one more writes, bytes",
        "latest reads, bytes",
        "commit of one more, ms",
        "latest, ms",
        "read_at of one block, ms",
    )
    drawn = ("calls", "bytes", "ms")
    notes = (
        "The new block is staged before. Latest is that of a new object; read_at has its snapshot at hand.",
    )

    def __init__(self, root: Path) -> None:
        self._root = root
        self._built: dict[int, tuple[_Filled, _Filled, Places]] = {}

    def measure(self, size: int) -> Sample:
        if size not in self._built:
            places = Places(self._root / str(size))
            self._built[size] = (_Filled(places.memory, size), _Filled(places.disk, size), places)
        counting, timing, places = self._built[size]
        memory, disk = places.memory, places.disk

        counting.stage()
        commit, written, _ = counted(memory, counting.commit)
        latest, _, received = counted(memory, lambda: _volume(memory).latest())
        read, _, _ = counted(memory, counting.read)

        return [
            commit,
            latest,
            read,
            written,
            received,
            timed(timing.commit, prepare=timing.stage),
            timed(lambda: _volume(disk).latest()),
            timed(timing.read),
        ]


class _Filled:
    """A volume whose first blocks are there."""

    def __init__(self, store: lode.Store, blocks: int) -> None:
        self._volume = _volume(store)
        self._next = 0
        self._staged = [self._another() for _ in range(blocks)]
        self._snapshot = self._volume.commit(self._staged)

    def stage(self) -> None:
        self._staged = [self._another()]

    def commit(self) -> None:
        self._snapshot = self._volume.commit(self._staged)

    def read(self) -> None:
        self._volume.read_at(self._snapshot, 0, len(_BLOCK))

    def _another(self) -> lode.BlockRef:
        offset, self._next = self._next, self._next + len(_BLOCK)
        return self._volume.stage_write_at(offset, _BLOCK)


def _volume(store: lode.Store) -> lode.Volume:
    return lode.Volume("blocks", store, _LENGTH, checksum="xxh3-128")
