"""The manifest of a volume's snapshot: every block there is, sorted by offset."""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from lode.errors import ManifestInvalidError
from lode.format.manifest import (
    MAX_COUNT,
    Count,
    GroupPlace,
    Sequence,
    Text,
    begins_of,
    check_created_at,
    check_free_fields,
    check_version,
    decode_struct,
    group_of,
    operation_of,
    require,
)
from lode.format.paths import ChainPaths

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA_NAME: Final = "lode-volume-manifest"
MAX_VOLUME_BYTES: Final = MAX_COUNT

Length = Annotated[int, msgspec.Meta(gt=0, le=MAX_VOLUME_BYTES)]
# What this library and the Go implementation name blocks: an offset, a length if known, a token if ours.
_BLOCK: Final = re.compile(r"\d+(-\d+)?(-[0-9a-f]{16})?\.bin").fullmatch
_DIGEST: Final = re.compile(r"[0-9a-f]{64}").fullmatch


class BlockRef(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Bytes ``[offset, offset + length)`` of a volume, in one object. Picklable."""

    offset: Count
    length: Length
    path: Text
    checksum: str | None = None

    @property
    def end(self) -> int:
        """The offset after its last byte."""
        return self.offset + self.length

    def __str__(self) -> str:
        return f"[{self.offset}, {self.end}) in {self.path}"


class VolumeManifest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The authoritative description of one snapshot of a volume."""

    schema_name: Text
    format_version: Text
    volume_id: Text
    snapshot_id: Text
    created_at: Text
    metadata: dict[str, Any]
    total_length: Length
    blocks: tuple[BlockRef, ...]
    parent_snapshot_id: str | None = None
    checksum_algorithm: str | None = None
    sequence: Sequence | None = None
    x: dict[str, Any] | None = None

    @property
    def owner_id(self) -> str:
        """The id of what this is a snapshot of."""
        return self.volume_id

    @property
    def idempotency(self) -> tuple[str, str] | None:
        """Volumes have no idempotency keys: a block that is there cannot be committed twice."""
        return None

    @property
    def operation(self) -> str:
        """What this commit did: ``append`` if it added blocks, ``drop``."""
        return operation_of(self.x)

    @property
    def begins(self) -> int:
        """The sequence of the first snapshot of its history: larger than 1 after a drop."""
        return begins_of(self.x)

    @property
    def group(self) -> GroupPlace:
        """Its place in the group that one swap committed."""
        return group_of(self.x)

    @property
    def swept(self) -> tuple[str, ...]:
        """The lists of blocks that sweeps have removed from this volume, by their digests."""
        lists = (self.x or {}).get("swept", [])
        if not isinstance(lists, list) or not all(isinstance(each, str) and _DIGEST(each) for each in lists):
            raise ManifestInvalidError(
                f"snapshot {self.snapshot_id}: field 'x.swept' is not a list of digests", field="x.swept"
            )
        return tuple(lists)

    def covering(self, start: int, end: int) -> Iterator[BlockRef]:
        """The blocks that hold any of ``[start, end)``, in order; the first is found by bisection."""
        place = max(bisect_right(self.blocks, start, key=lambda block: block.offset) - 1, 0)
        while place < len(self.blocks) and self.blocks[place].offset < end:
            if self.blocks[place].end > start:
                yield self.blocks[place]
            place += 1

    def gaps(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """What of ``[start, end)`` no block holds, in order, as (offset, length)."""
        at = start
        for block in self.covering(start, end):
            if block.offset > at:
                yield at, block.offset - at
            at = block.end
        if at < end:
            yield at, end - at


def decode_volume_manifest(data: bytes, origin: str) -> VolumeManifest:
    """Read a volume's manifest, or raise ``ManifestInvalidError`` naming the field and ``origin``."""
    manifest = decode_struct(data, VolumeManifest, origin=origin)
    require(manifest.schema_name == SCHEMA_NAME, "schema_name", f"is not {SCHEMA_NAME!r}", origin)
    check_version(manifest.format_version, origin)
    check_created_at(manifest.created_at, origin)
    check_free_fields(data, manifest.metadata, manifest.x, origin)
    for before, after in pairwise(manifest.blocks):
        if before.offset + before.length > after.offset:
            require(False, "blocks", f"overlap or are unsorted at {after.offset}", origin)
    last = manifest.blocks[-1].end if manifest.blocks else 0
    require(last <= manifest.total_length, "blocks", f"reach {last}, beyond {manifest.total_length}", origin)
    return manifest


def volume_chain(volume_id: str) -> ChainPaths:
    return ChainPaths(f"volumes/{volume_id}", f"volumes/{volume_id}/snapshots")


def blocks_root(volume_id: str) -> str:
    """Where the blocks of a volume are."""
    return f"volumes/{volume_id}/data/"


def block_path(volume_id: str, offset: int, length: int | None, token: str) -> str:
    """A path for a new block; unique, so that a second attempt does not find its path taken.

    The length is part of the name where it is known before the first byte is sent.
    """
    size = "" if length is None else f"-{length}"
    return f"{blocks_root(volume_id)}{offset}{size}-{token}.bin"


def is_block(volume_id: str, path: str) -> bool:
    """Whether a block of this volume may be at exactly this path."""
    root = blocks_root(volume_id)
    return path.startswith(root) and _BLOCK(path.removeprefix(root)) is not None


def swept_root(volume_id: str) -> str:
    """Where the lists of swept blocks are."""
    return f"volumes/{volume_id}/swept/"


def swept_path(volume_id: str, digest: str) -> str:
    """The object that lists swept blocks; named by the digest of its content."""
    return f"{swept_root(volume_id)}{digest}.json"
