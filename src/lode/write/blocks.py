"""Merge blocks into the address space of a volume."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lode.errors import ComponentMismatchError, OverlappingBlocksError
from lode.format.manifest import FORMAT_VERSION
from lode.format.volume import SCHEMA_NAME, BlockRef, VolumeManifest
from lode.write.commit import Draft
from lode.write.draft import moment_after

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass(slots=True)
class VolumeDraft(Draft[VolumeManifest]):
    """New blocks of a volume. Blocks beside others always merge; blocks on top of others never do."""

    volume_id: str = field(kw_only=True)
    total_length: int = field(kw_only=True)
    blocks: Sequence[BlockRef] = field(kw_only=True)
    metadata: dict[str, Any] = field(kw_only=True)
    checksum_algorithm: str | None = field(kw_only=True)
    now_ns: Callable[[], int] = field(kw_only=True)

    def place_on(self, parent: VolumeManifest | None, sequence: int) -> VolumeManifest:
        if parent is not None:
            check_length(parent, self.total_length)
        return VolumeManifest(
            schema_name=SCHEMA_NAME,
            format_version=FORMAT_VERSION,
            volume_id=self.volume_id,
            snapshot_id=self.snapshot_id,
            created_at=moment_after(parent.created_at if parent else None, self.now_ns),
            metadata=self.metadata,
            total_length=self.total_length,
            blocks=merge(parent.blocks if parent else (), self.blocks, self.volume_id),
            parent_snapshot_id=parent.snapshot_id if parent else None,
            checksum_algorithm=self.checksum_algorithm or (parent.checksum_algorithm if parent else None),
            sequence=sequence,
        )

    def overlap_with(self, other: VolumeManifest) -> str | None:
        """Nothing: whether blocks overlap is found when they are placed, and is final."""
        return None


def check_length(manifest: VolumeManifest, total_length: int) -> None:
    if manifest.total_length != total_length:
        raise ComponentMismatchError(
            f"volume {manifest.volume_id!r} has {manifest.total_length} bytes, not {total_length}: "
            f"open it with total_length={manifest.total_length}"
        )


def merge(old: Sequence[BlockRef], new: Sequence[BlockRef], volume_id: str) -> tuple[BlockRef, ...]:
    """Insert new blocks among sorted old ones, or raise ``OverlappingBlocksError`` naming two that clash."""
    arriving = sorted(new, key=lambda block: block.offset)
    merged: list[BlockRef] = []
    taken = 0
    for block in arriving:
        place = bisect_left(old, block.offset, taken, key=lambda known: known.offset)
        merged += old[taken:place]
        taken = place
        if merged:
            _refuse_overlap(merged[-1], block, volume_id)
        if place < len(old):
            _refuse_overlap(block, old[place], volume_id)
        merged.append(block)
    merged += old[taken:]
    return tuple(merged)


def _refuse_overlap(before: BlockRef, after: BlockRef, volume_id: str) -> None:
    if before.end > after.offset:
        raise OverlappingBlocksError(
            f"volume {volume_id!r}: block [{before.offset}, {before.end}) in {before.path} and block "
            f"[{after.offset}, {after.end}) in {after.path} overlap: committed bytes cannot be replaced"
        )
