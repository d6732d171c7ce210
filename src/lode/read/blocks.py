"""Read the bytes of a volume from the blocks that hold them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lode.errors import ChecksumMismatchError, ComponentMismatchError, RangeMissingError
from lode.read.source import SeekableFile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lode.codec.checksum import Checksum
    from lode.format.volume import BlockRef, VolumeManifest
    from lode.store.protocol import Store

PIECE_BYTES: Final = 1 << 20


class VolumeFile(SeekableFile):
    """A range of a volume as a file. A read ends where a gap begins; only one that starts there fails."""

    def __init__(
        self, manifest: VolumeManifest, read_at: Callable[[int, int], bytes], start: int, size: int
    ) -> None:
        super().__init__(size)
        self._manifest = manifest
        self._read_at = read_at
        self._start = start

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        data = self._take(self._run(len(view)))
        view[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        return self._take(max(self._size - self._at, 0))

    def _run(self, wanted: int) -> int:
        """How many of the wanted bytes are there before the next gap or the end."""
        at = self._start + self._at
        end = min(at + wanted, self._start + self._size)
        if at >= end:
            return 0
        manifest = self._manifest
        gap = next(manifest.gaps(at, end), None)
        if gap is None:
            return end - at
        if gap[0] == at:
            raise range_missing(manifest, [next(manifest.gaps(at, self._start + self._size))])
        return gap[0] - at

    def _take(self, length: int) -> bytes:
        data = self._read_at(self._start + self._at, length) if length else b""
        self._at += len(data)
        return data


def read_block(store: Store, block: BlockRef, start: int, end: int) -> bytes:
    """Return ``[start, end)`` of the volume from the block that holds it."""
    data = store.get_range(block.path, start - block.offset, end - start)
    if len(data) != end - start:
        raise ChecksumMismatchError(
            f"{block.path} is too short: byte {end - 1 - block.offset} of it is not there, "
            f"its manifest says it has {block.length}"
        )
    return data


def read_verified(store: Store, block: BlockRef, start: int, end: int, checksum: Checksum) -> bytes:
    """Return ``[start, end)`` of the volume from a block that is read once, whole, in small pieces."""
    if block.checksum is None:
        raise ComponentMismatchError(f"block {block} was written without a checksum: it cannot be verified")
    hasher = checksum.start()
    kept = bytearray()
    at = block.offset
    with store.open_reader(block.path) as reader:
        while piece := reader.read_at(at - block.offset, PIECE_BYTES):
            hasher.update(piece)
            kept += memoryview(piece)[max(start - at, 0) : max(end - at, 0)]
            at += len(piece)
    if at != block.end:
        raise ChecksumMismatchError(
            f"{block.path} has {at - block.offset} bytes, its manifest says {block.length}"
        )
    if hasher.hexdigest() != block.checksum:
        raise ChecksumMismatchError(
            f"{block.path} has {checksum.name} {hasher.hexdigest()}, its manifest says {block.checksum}"
        )
    return bytes(kept)


def range_missing(manifest: VolumeManifest, gaps: Sequence[tuple[int, int]]) -> RangeMissingError:
    ranges = ", ".join(f"[{start}, {start + size})" for start, size in gaps[:8])
    return RangeMissingError(
        f"volume {manifest.volume_id!r} has no bytes at {ranges}{' …' if len(gaps) > 8 else ''} "
        f"in snapshot {manifest.snapshot_id}: stage and commit them first",
        gaps,
    )
