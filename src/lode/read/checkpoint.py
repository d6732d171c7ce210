"""A checkpoint: the visible files of a dataset at one snapshot, in one compressed object.

A checkpoint is derived from the history and saves reading it. Manifests name it by its digest, which is also
its path. So a checkpoint that is missing, damaged, stale or forged costs time, never correctness.
"""

from __future__ import annotations

from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Final

import msgspec

from lode.errors import LodeError, ManifestInvalidError, NotFoundError, PathExistsError
from lode.format.manifest import (
    CheckpointRef,
    Manifest,
    check_manifest,
    check_version,
    decode_struct,
    require,
)
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


def put_checkpoint(chain: Chain[Manifest], head: Manifest, manifests: Iterable[Manifest]) -> CheckpointRef:
    """Put the state at a snapshot, and return what the next manifests call it."""
    import zstandard

    state = Checkpoint(
        schema_name=SCHEMA_NAME,
        format_version=FORMAT_VERSION,
        snapshot_id=head.snapshot_id,
        manifests=tuple(map(stripped, manifests)),
    )
    plain = msgspec.json.encode(state)
    if len(plain) > MAX_SEGMENT_BYTES:
        raise ManifestInvalidError(f"a checkpoint of {len(plain)} bytes is larger than {MAX_SEGMENT_BYTES}")
    data = zstandard.ZstdCompressor(level=3, write_checksum=True).compress(plain)
    digest = sha256(data).hexdigest()
    with suppress(PathExistsError):  # it has the same bytes
        chain.store.put(chain.paths.state(digest), data)
    return CheckpointRef(head.snapshot_id, chain.sequence_of(head), digest)


def stripped(manifest: Manifest) -> Manifest:
    """A manifest as a checkpoint has it: without what describes its commit."""
    kept = {name: value for name, value in (manifest.x or {}).items() if name in _KEPT}
    return msgspec.structs.replace(manifest, metadata={}, x=kept or None)


def load_checkpoint(chain: Chain[Manifest], ref: CheckpointRef) -> list[Manifest] | None:
    """The state that a checkpoint holds; None if there is none, or not the one that was named."""
    path = chain.paths.state(ref.sha256)
    try:
        data = get_bounded(chain.store, path, MAX_SEGMENT_BYTES)
        if sha256(data).hexdigest() != ref.sha256:
            raise ManifestInvalidError(f"{path} does not have the digest that its name says")
        plain = decompress(data)
        found = decode_struct(plain, Checkpoint, origin=path)
        require(found.schema_name == SCHEMA_NAME, "schema_name", f"is not {SCHEMA_NAME!r}", path)
        check_version(found.format_version, path)
        require(found.snapshot_id == ref.snapshot, "snapshot_id", f"is not {ref.snapshot!r}", path)
        for manifest in found.manifests:
            require(manifest.dataset_id == chain.owner, "dataset_id", f"is not {chain.owner!r}", path)
            check_manifest(manifest, plain, path)
            manifest.definition  # noqa: B018 - raises if it is not a digest
    except NotFoundError:
        return None
    except LodeError as error:
        chain.report_ignored(path, error)
        return None
    return list(found.manifests)
