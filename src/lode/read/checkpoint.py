"""A checkpoint: the visible files of a dataset at one snapshot, in one compressed object.

A checkpoint is derived from the history and saves reading it. One that is missing, damaged or of another
snapshot costs time, never correctness.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from lode.errors import LodeError, ManifestInvalidError
from lode.format.manifest import Manifest, check_manifest, check_version, decode_struct, require
from lode.read.segment import MAX_SEGMENT_BYTES, decompress
from lode.read.source import get_bounded

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lode.read.resolve import Chain

SCHEMA_NAME: Final = "lode-state"
FORMAT_VERSION: Final = "1.0.0"
# Fields of ``x`` that are needed to read the files of a snapshot. The others describe its commit.
_KEPT: Final = ("definition", "surplus")


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The manifests that have visible files, oldest first, each with only these files."""

    schema_name: str
    format_version: str
    snapshot_id: str
    manifests: tuple[Manifest, ...]


def encode_checkpoint(snapshot_id: str, manifests: Iterable[Manifest]) -> bytes:
    """Encode the state at a snapshot."""
    import zstandard

    found = Checkpoint(
        schema_name=SCHEMA_NAME,
        format_version=FORMAT_VERSION,
        snapshot_id=snapshot_id,
        manifests=tuple(map(stripped, manifests)),
    )
    plain = msgspec.json.encode(found)
    if len(plain) > MAX_SEGMENT_BYTES:
        raise ManifestInvalidError(f"a checkpoint of {len(plain)} bytes is larger than {MAX_SEGMENT_BYTES}")
    return zstandard.ZstdCompressor(level=3).compress(plain)


def stripped(manifest: Manifest) -> Manifest:
    """A manifest as a checkpoint has it: without what describes its commit."""
    kept = {name: value for name, value in (manifest.x or {}).items() if name in _KEPT}
    return msgspec.structs.replace(manifest, metadata={}, x=kept or None)


def load_checkpoint(chain: Chain[Manifest], snapshot_id: str) -> list[Manifest] | None:
    """The state at a snapshot; None if there is no checkpoint that can be used."""
    path = chain.paths.state(snapshot_id)
    try:
        data = get_bounded(chain.store, path, MAX_SEGMENT_BYTES)
        plain = b"".join(decompress(data))
        found = decode_struct(plain, Checkpoint, origin=path)
        require(found.schema_name == SCHEMA_NAME, "schema_name", f"is not {SCHEMA_NAME!r}", path)
        check_version(found.format_version, path)
        require(found.snapshot_id == snapshot_id, "snapshot_id", f"is not {snapshot_id!r}", path)
        for manifest in found.manifests:
            require(manifest.dataset_id == chain.owner, "dataset_id", f"is not {chain.owner!r}", path)
            check_manifest(manifest, plain, path)
            manifest.definition  # noqa: B018 - raises if it is not a digest
    except LodeError:
        return None
    return list(found.manifests)
