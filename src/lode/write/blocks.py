"""Take in the bytes of a block, and merge blocks into the address space of a volume."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from msgspec.structs import replace

from lode.errors import (
    ComponentMismatchError,
    InvalidOptionError,
    InvalidRangeError,
    OverlappingBlocksError,
)
from lode.format.manifest import DROP, FORMAT_VERSION
from lode.format.pointer import SHARED
from lode.format.volume import SCHEMA_NAME, BlockRef, VolumeManifest, blocks_root
from lode.store.protocol import byte_view
from lode.write.draft import CommitSummary, Draft, behind, dropped, moment_after

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from typing_extensions import Buffer

    from lode.format.group import Follows
    from lode.write.swept import SweptBlocks

PIECE_BYTES: Final = 1 << 20


class Readable(Protocol):
    """Anything that is read in pieces, such as a file or a response."""

    def read(self, size: int, /) -> Buffer:
        """Return at most ``size`` bytes; none at the end."""
        ...


def open_input(data: Any) -> tuple[int | None, Iterator[memoryview]]:
    """How long the data is, if that is known before it is read, and its bytes piece by piece."""
    try:
        whole = byte_view(data)
    except TypeError:
        if hasattr(data, "read"):
            return None, _read_pieces(data)
        raise InvalidOptionError(
            f"a {type(data).__name__} cannot be staged: give bytes, or a file opened in binary mode"
        ) from None
    return whole.nbytes, iter([whole])


def _read_pieces(source: Readable) -> Iterator[memoryview]:
    while True:
        piece = source.read(PIECE_BYTES)
        try:
            view = byte_view(piece)
        except TypeError:
            raise InvalidOptionError(
                f"reading from {source!r} gave a {type(piece).__name__}, not bytes: open it in binary mode"
            ) from None
        if not view.nbytes:
            return
        yield view


@dataclass(slots=True)
class VolumeDraft(Draft[VolumeManifest]):
    """New blocks of a volume. Blocks beside others always merge; blocks on top of others never do."""

    volume_id: str = field(kw_only=True)
    total_length: int = field(kw_only=True)
    blocks: Sequence[BlockRef] = field(kw_only=True)
    metadata: dict[str, Any] = field(kw_only=True)
    checksum_algorithm: str | None = field(kw_only=True)
    now_ns: Callable[[], int] = field(kw_only=True)
    swept: SweptBlocks = field(kw_only=True)
    # Set by a sweep: the list of what it removes, and the earlier lists that are part of it.
    condemned: str | None = field(kw_only=True, default=None)
    # Whether the volume is dropped, and whether this may be its first snapshot.
    drops: bool = field(kw_only=True, default=False)
    creates: bool = field(kw_only=True, default=False)
    # Whether programs of Go may work on the volume.
    shared: bool = field(kw_only=True, default=False)
    folded: frozenset[str] = field(kw_only=True, default=frozenset())

    def place_on(self, parent: VolumeManifest | None, sequence: int) -> VolumeManifest:
        before = parent
        if parent is not None and parent.operation == DROP:
            if not self.creates:
                raise dropped(f"volume {self.volume_id!r}", parent.snapshot_id)
            before = None
        if before is not None:
            check_same_volume(before, self.volume_id, self.total_length)
        lists = self.swept.lists_of(parent)
        self.swept.refuse(self.blocks, lists)
        return VolumeManifest(
            schema_name=SCHEMA_NAME,
            format_version=FORMAT_VERSION,
            volume_id=self.volume_id,
            snapshot_id=self.snapshot_id,
            created_at=moment_after(parent.created_at if parent else None, self.now_ns),
            metadata=self.metadata,
            total_length=self.total_length,
            blocks=() if self.drops else merge(before.blocks if before else (), self.blocks, self.volume_id),
            parent_snapshot_id=parent.snapshot_id if parent else None,
            checksum_algorithm=self._algorithm(before.checksum_algorithm if before else None),
            sequence=sequence,
            x=self._extension(lists) or None,
        )

    def _extension(self, lists: Sequence[str]) -> dict[str, Any]:
        found = self.origin()
        if self.shared:
            found[SHARED] = True
        if self.drops:
            found["operation"] = DROP
        kept = [digest for digest in lists if digest not in self.folded and digest != self.condemned]
        if self.condemned is not None:
            kept.append(self.condemned)
        if kept:
            found["swept"] = kept
        return found

    def commits_in(self, manifest: VolumeManifest) -> Iterator[CommitSummary]:
        yield CommitSummary(manifest.snapshot_id, operation=manifest.operation)

    def overlap(self, later: Sequence[CommitSummary]) -> str | None:
        """None: whether blocks overlap is found when they are placed, and is final."""
        return f"snapshot {later[0].snapshot_id} was committed" if later and not self.rebase else None

    @property
    def follows(self) -> Follows:
        return "any" if self.rebase and self.condemned is None else "head"

    @property
    def is_drop(self) -> bool:
        return self.drops

    def line(self) -> VolumeLine:
        return VolumeLine(self)

    def _algorithm(self, before: str | None) -> str | None:
        """The one algorithm of all checksums; a manifest has no room for a second."""
        if before and self.checksum_algorithm and before != self.checksum_algorithm:
            raise ComponentMismatchError(
                f"volume {self.volume_id!r} has checksums by {before!r}: blocks with "
                f"{self.checksum_algorithm!r} cannot join them, open it with checksum={before!r}"
            )
        return self.checksum_algorithm or before


class VolumeLine:
    """The drafts of other writers that a draft of a volume can follow, in one group."""

    def __init__(self, leader: VolumeDraft) -> None:
        base = leader.base.manifest if leader.base is not None else None
        self._known = {block.path for block in base.blocks} if base is not None else set()
        self._volume_id = leader.volume_id
        self._parent: VolumeManifest | None = None

    def place(self, other: VolumeManifest, follows: Follows) -> VolumeManifest | None:
        parent = self._parent
        if parent is None:
            if not self._known <= {block.path for block in other.blocks}:
                return None  # it is no child of the head
            self._parent = other
            return other
        # Its writer compared its blocks with the lists of swept blocks of the head, and with no others.
        alike = other.swept == parent.swept and other.total_length == parent.total_length
        algorithms = {other.checksum_algorithm, parent.checksum_algorithm} - {None}
        if follows == "head" or not alike or len(algorithms) > 1:
            return None
        new = [block for block in other.blocks if block.path not in self._known]
        try:
            blocks = merge(parent.blocks, new, self._volume_id)
        except OverlappingBlocksError:
            return None
        self._parent = replace(
            other,
            blocks=blocks,
            checksum_algorithm=other.checksum_algorithm or parent.checksum_algorithm,
            **behind(parent, other),
        )
        return self._parent


def check_same_volume(manifest: VolumeManifest, volume_id: str, total_length: int) -> None:
    """Refuse a snapshot of another volume, or of this one opened with another length."""
    if manifest.volume_id != volume_id:
        raise ComponentMismatchError(
            f"snapshot {manifest.snapshot_id} is of volume {manifest.volume_id!r}, not of {volume_id!r}"
        )
    if manifest.total_length != total_length:
        raise ComponentMismatchError(
            f"volume {volume_id!r} has {manifest.total_length} bytes, not {total_length}: "
            f"open it with total_length={manifest.total_length}"
        )


def check_block(block: BlockRef, volume_id: str, total_length: int, algorithm: str | None) -> None:
    """Refuse a block that was not staged for this volume, opened as it is now."""
    if block.offset < 0 or block.length <= 0 or block.end > total_length:
        raise InvalidRangeError(f"block {block} is not inside volume {volume_id!r} of {total_length} bytes")
    if not block.path.startswith(blocks_root(volume_id)):
        raise ComponentMismatchError(f"block {block} is not one of volume {volume_id!r}: stage it there")
    if (block.checksum is None) != (algorithm is None):
        has = "no checksum" if block.checksum is None else "a checksum"
        raise ComponentMismatchError(
            f"block {block} has {has} and is committed with checksum={algorithm!r}: "
            "open the volume alike to stage and to commit"
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
    if before.end <= after.offset:
        return
    if before.path == after.path:
        raise OverlappingBlocksError(
            f"volume {volume_id!r}: block {before} and block {after} are the same one: it is committed "
            "already, or was given twice"
        )
    raise OverlappingBlocksError(
        f"volume {volume_id!r}: block {before} and block {after} overlap: committed bytes cannot be replaced"
    )
