"""The volume: a sparse address space of bytes, filled in any order, with explicit gaps.

Blocks are staged from anywhere and become visible with a commit. A snapshot's manifest is cumulative: it
lists every block of the volume, so reading needs no other snapshot.
"""

from __future__ import annotations

import io
from bisect import bisect_right
from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import chain as chained
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

from lode.codec.checksum import checksum as checksum_of
from lode.codec.compress import compressor as compressor_of
from lode.errors import (
    ComponentMismatchError,
    InvalidOptionError,
    InvalidRangeError,
    NoSnapshotsError,
    RangeMissingError,
)
from lode.format.ids import SnapshotIds, check_id
from lode.format.manifest import FileRef, check_metadata, parse_time
from lode.format.volume import BlockRef, VolumeManifest, block_path, decode_volume_manifest, volume_chain
from lode.read.resolve import Chain
from lode.read.source import verify_file
from lode.runtime import REAL, Runtime
from lode.store.open import open_store
from lode.write.blocks import VolumeDraft, check_length
from lode.write.commit import CommitReport, Committer
from lode.write.file import DataFile
from lode.write.retry import Retry

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from typing_extensions import Buffer

    from lode.codec.checksum import Checksum
    from lode.store.protocol import Store

PIECE = 1 << 20
# Decoded manifests kept for reading; each lists all blocks of its snapshot.
REMEMBERED = 4


@dataclass(frozen=True, slots=True)
class VolumeSnapshot:
    """An immutable state of a volume. ``commit`` says what it took; None on snapshots that were read."""

    manifest: VolumeManifest
    commit: CommitReport | None = field(default=None, compare=False)

    @property
    def id(self) -> str:
        return self.manifest.snapshot_id

    @property
    def parent_id(self) -> str | None:
        return self.manifest.parent_snapshot_id

    @property
    def sequence(self) -> int | None:
        return self.manifest.sequence

    @property
    def created_at(self) -> datetime:
        return parse_time(self.manifest.created_at)

    @property
    def metadata(self) -> dict[str, Any]:
        return self.manifest.metadata

    @property
    def blocks(self) -> tuple[BlockRef, ...]:
        return self.manifest.blocks

    @property
    def size_bytes(self) -> int:
        """How many bytes are there; the volume's length less its gaps."""
        return sum(block.length for block in self.manifest.blocks)

    def __repr__(self) -> str:
        return f"VolumeSnapshot({self.id!r}, sequence={self.sequence}, blocks={len(self.blocks)})"


SnapshotLike: TypeAlias = VolumeSnapshot | str


class Volume:
    """A sparse address space ``[0, total_length)`` on one store.

    Args:
        id: The volume's name.
        store: A URL, a path or a store.
        total_length: Its size in bytes, the same for ever.
        checksum: ``"md5"``, ``"sha256"``, ``"xxh3-128"`` or a checksum; None records none.
        retry: Accepted for symmetry with datasets; disjoint commits merge without it.
        runtime: Clock, chance and threads, for simulations.
    """

    def __init__(
        self,
        id: str,
        store: str | os.PathLike[str] | Store,
        total_length: int,
        *,
        checksum: Checksum | str | None = None,
        retry: Retry | None = None,
        observer: Callable[[str, CommitReport], None] | None = None,
        runtime: Runtime = REAL,
    ) -> None:
        self._id = check_id(id, kind="volume")
        if total_length <= 0:
            raise InvalidOptionError(f"total_length is {total_length}: a volume has at least one byte")
        self._total_length = total_length
        self._store = open_store(store)
        self._checksum = checksum_of(checksum)
        self._runtime = runtime
        self._ids = SnapshotIds(runtime.now_ns, runtime.random_bits)
        self._chain: Chain[VolumeManifest] = Chain(
            self._store, volume_chain(id), decode_volume_manifest, lambda _: (), f"volume {id!r}"
        )
        self._committer = Committer(self._chain, runtime, retry or Retry(), observer)
        self._known: OrderedDict[str, VolumeManifest] = OrderedDict()

    @property
    def id(self) -> str:
        return self._id

    @property
    def store(self) -> Store:
        return self._store

    @property
    def total_length(self) -> int:
        return self._total_length

    # -- writing -------------------------------------------------------------------------------

    def stage_write_at(self, offset: int, data: Buffer | BinaryIO) -> BlockRef:
        """Store bytes for ``offset``; they are not part of the volume before ``commit``.

        Safe from many threads and processes at once. A file object is streamed in small pieces.
        """
        if offset < 0 or offset >= self._total_length:
            raise InvalidRangeError(
                f"offset {offset} is outside volume {self.id!r} of {self._total_length} bytes"
            )
        token = f"{self._runtime.random_bits(64):016x}"
        size = None if hasattr(data, "read") else memoryview(data).nbytes
        path = block_path(self.id, offset, size, token)
        file = DataFile(self._store, path, compressor_of("noop"), self._checksum)
        try:
            length = 0
            for piece in _pieces(data):
                length += file.write(piece)
                if offset + length > self._total_length:
                    raise InvalidRangeError(
                        f"a block at {offset} reaches {offset + length} and more, volume {self.id!r} ends at "
                        f"{self._total_length}"
                    )
            if not length:
                raise InvalidRangeError(
                    f"the block at {offset} of volume {self.id!r} is empty: stage at least one byte"
                )
            stored = file.finish()
        except BaseException:
            file.abort()
            raise
        return BlockRef(offset, length, stored.path, stored.checksum)

    def commit(self, blocks: Sequence[BlockRef], metadata: dict[str, Any] | None = None) -> VolumeSnapshot:
        """Add staged blocks to the volume, as one new snapshot.

        Blocks that others commit at the same time merge with these.

        Raises:
            OverlappingBlocksError: a block covers bytes that are there already; it did not land.
        """
        clean = check_metadata(metadata)
        if not blocks:
            raise InvalidOptionError(f"a commit to volume {self.id!r} needs at least one new block")
        for block in blocks:
            if block.end > self._total_length:
                raise InvalidRangeError(f"block [{block.offset}, {block.end}) is outside volume {self.id!r}")
        draft = VolumeDraft(
            self._ids.next(),
            self._committer.base(),
            volume_id=self.id,
            total_length=self._total_length,
            blocks=blocks,
            metadata=clean,
            checksum_algorithm=self._checksum.name if self._checksum else None,
            now_ns=self._runtime.now_ns,
        )
        committed = self._committer.commit(draft)
        return VolumeSnapshot(committed.manifest, committed.report)

    # -- history -------------------------------------------------------------------------------

    def latest(self) -> VolumeSnapshot:
        """The newest snapshot, read from the store."""
        head = self._chain.resolve()
        self._committer.see(head)
        if head.manifest is None:
            raise NoSnapshotsError(
                f"volume {self.id!r} in {self._store.url} has no snapshots yet: commit a block"
            )
        return VolumeSnapshot(self._checked(head.manifest))

    def snapshot(self, id: str) -> VolumeSnapshot:
        return VolumeSnapshot(self._manifest(id))

    def snapshots(self) -> list[VolumeSnapshot]:
        """All snapshots, oldest first."""
        newest_first = [
            VolumeSnapshot(manifest) for manifest in self._chain.back(self._chain.resolve().manifest)
        ]
        return newest_first[::-1]

    # -- reading -------------------------------------------------------------------------------

    def read_at(self, snapshot: SnapshotLike, offset: int, length: int, *, verify: bool = False) -> bytes:
        """Return exactly the bytes ``[offset, offset + length)``.

        Args:
            snapshot: A snapshot or its id.
            offset: Where to begin.
            length: How many bytes.
            verify: Read the blocks whole and check them against their checksums first.

        Raises:
            RangeMissingError: part of the range is a gap; its ``missing`` lists which. Nothing is filled in.
        """
        manifest = self._manifest(snapshot)
        self._check_range(offset, length)
        parts = list(_covering(manifest.blocks, offset, offset + length))
        gaps = list(_gaps(parts, offset, offset + length))
        if gaps:
            ranges = ", ".join(f"[{start}, {start + size})" for start, size in gaps[:8])
            raise RangeMissingError(
                f"volume {self.id!r} has no bytes at {ranges}{' …' if len(gaps) > 8 else ''} "
                f"in snapshot {manifest.snapshot_id}: stage and commit them first",
                gaps,
            )
        if verify:
            self._verify(manifest, parts)

        def read(block: BlockRef) -> bytes:
            start, end = max(offset, block.offset), min(offset + length, block.end)
            return self._store.get_range(block.path, start - block.offset, end - start)

        pieces = self._runtime.each(read, parts)
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        if len(data) != length:
            raise RangeMissingError(
                f"volume {self.id!r}: a block of [{offset}, {offset + length}) is shorter than recorded",
                [(offset + len(data), length - len(data))],
            )
        return data

    def open(self, snapshot: SnapshotLike, *, offset: int = 0, length: int | None = None) -> BinaryIO:
        """The volume, or a range of it, as a seekable file; reading a gap raises ``RangeMissingError``."""
        size = self._total_length - offset if length is None else length
        self._check_range(offset, size)
        return io.BufferedReader(_VolumeFile(self, self._manifest(snapshot), offset, size), PIECE)

    def missing(self, snapshot: SnapshotLike | None = None) -> list[tuple[int, int]]:
        """The gaps as (offset, length), in order. Without a snapshot: what the newest one still lacks."""
        blocks: Sequence[BlockRef] = ()
        if snapshot is not None:
            blocks = self._manifest(snapshot).blocks
        else:
            head = self._chain.resolve().manifest
            blocks = self._checked(head).blocks if head else ()
        return list(_gaps(blocks, 0, self._total_length))

    def is_complete(self, snapshot: SnapshotLike | None = None) -> bool:
        """Whether there is no gap."""
        return not self.missing(snapshot)

    # -- inside --------------------------------------------------------------------------------

    def _manifest(self, snapshot: SnapshotLike) -> VolumeManifest:
        if isinstance(snapshot, VolumeSnapshot):
            return self._checked(snapshot.manifest)
        known = self._known.get(snapshot)
        if known is None:
            known = self._checked(self._chain.require(check_id(snapshot, kind="snapshot")))
            self._known[snapshot] = known
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return known

    def _checked(self, manifest: VolumeManifest) -> VolumeManifest:
        check_length(manifest, self._total_length)
        return manifest

    def _check_range(self, offset: int, length: int) -> None:
        if offset < 0 or length < 0 or offset + length > self._total_length:
            raise InvalidRangeError(
                f"range [{offset}, {offset + length}) is not inside volume {self.id!r}, which has "
                f"{self._total_length} bytes"
            )

    def _verify(self, manifest: VolumeManifest, parts: Sequence[BlockRef]) -> None:
        checksum = self._checksum
        if checksum is None or manifest.checksum_algorithm != checksum.name:
            raise ComponentMismatchError(
                f"snapshot {manifest.snapshot_id} has checksums by {manifest.checksum_algorithm!r}: "
                f"open the volume with checksum={manifest.checksum_algorithm!r} to verify them"
            )
        files = [FileRef(block.path, block.length, block.checksum) for block in parts]
        self._runtime.each(lambda file: verify_file(self._store, file, checksum), files)

    def __repr__(self) -> str:
        return f"Volume({self.id!r}, {self._store.url!r}, {self._total_length})"


class _VolumeFile(io.RawIOBase):
    """A range of a volume as a file."""

    def __init__(self, volume: Volume, manifest: VolumeManifest, start: int, size: int) -> None:
        super().__init__()
        self._volume = volume
        self._snapshot = VolumeSnapshot(manifest)
        self._start = start
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        if origin + offset < 0:
            raise ValueError(f"seek to {origin + offset}: before the beginning")
        self._at = origin + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        wanted = max(min(len(view), self._size - self._at), 0)
        data = self._volume.read_at(self._snapshot, self._start + self._at, wanted) if wanted else b""
        view[: len(data)] = data
        self._at += len(data)
        return len(data)


def _pieces(data: Buffer | BinaryIO) -> Iterator[Any]:
    if hasattr(data, "read"):
        while piece := data.read(PIECE):
            yield piece
    else:
        yield data


def _covering(blocks: Sequence[BlockRef], start: int, end: int) -> Iterator[BlockRef]:
    """The blocks that hold any of ``[start, end)``, found by bisection."""
    place = max(bisect_right(blocks, start, key=lambda block: block.offset) - 1, 0)
    while place < len(blocks) and blocks[place].offset < end:
        if blocks[place].end > start:
            yield blocks[place]
        place += 1


def _gaps(blocks: Sequence[BlockRef], start: int, end: int) -> Iterator[tuple[int, int]]:
    """What of ``[start, end)`` the sorted blocks leave out, as (offset, length)."""
    at = start
    for offset, until in chained(((block.offset, block.end) for block in blocks), [(end, end)]):
        if offset > at:
            yield at, min(offset, end) - at
        at = max(at, until)
