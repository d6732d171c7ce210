"""The manifest of a volume's snapshot: every block there is, sorted by offset."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, Final

import msgspec

from lode.format.manifest import Count, Text, check_version, decode_struct, is_rfc3339, require
from lode.format.paths import ChainPaths

SCHEMA_NAME: Final = "lode-volume-manifest"

Length = Annotated[int, msgspec.Meta(gt=0)]


class BlockRef(msgspec.Struct, frozen=True, omit_defaults=True):
    """Bytes ``[offset, offset + length)`` of a volume, in one object. Picklable."""

    offset: Count
    length: Length
    path: Text
    checksum: str | None = None

    @property
    def end(self) -> int:
        return self.offset + self.length


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
    sequence: Count | None = None
    x: dict[str, Any] | None = None

    @property
    def idempotency(self) -> tuple[str, str] | None:
        """Volumes have no idempotency keys: a block that is there cannot be committed twice."""
        return None


def decode_volume_manifest(data: bytes, origin: str) -> VolumeManifest:
    """Read a volume's manifest, or raise ``ManifestInvalidError`` naming the field and ``origin``."""
    manifest = decode_struct(data, VolumeManifest, origin=origin)
    require(manifest.schema_name == SCHEMA_NAME, "schema_name", f"is not {SCHEMA_NAME!r}", origin)
    check_version(manifest.format_version, origin)
    require(is_rfc3339(manifest.created_at), "created_at", "is not an RFC 3339 time", origin)
    for before, after in pairwise(manifest.blocks):
        require(before.end <= after.offset, "blocks", f"overlap or are unsorted at {after.offset}", origin)
    last = manifest.blocks[-1].end if manifest.blocks else 0
    require(last <= manifest.total_length, "blocks", f"reach {last}, beyond {manifest.total_length}", origin)
    return manifest


def volume_chain(volume_id: str) -> ChainPaths:
    return ChainPaths(f"volumes/{volume_id}", f"volumes/{volume_id}/snapshots")


def block_path(volume_id: str, offset: int, length: int | None, token: str) -> str:
    """A path for a new block; unique, so that a writer that died does not stand in its own way."""
    size = "" if length is None else f"-{length}"
    return f"volumes/{volume_id}/data/{offset}{size}-{token}.bin"
