"""Write history segments once commits cross their boundaries: best effort, off the commit's way."""

from __future__ import annotations

import logging
from typing import TypeVar

import msgspec

from lode.errors import LodeError, NotFoundError, PathExistsError
from lode.read.resolve import AnyManifest, Chain
from lode.read.segment import LEVELS, decode_segment, encode_segment

logger = logging.getLogger("lode.history")

M = TypeVar("M", bound=AnyManifest)

SMALLEST = LEVELS[-1]


def is_boundary(manifest: AnyManifest) -> bool:
    """Tell whether a segment ends with this snapshot."""
    return manifest.sequence is not None and manifest.sequence % SMALLEST == 0


def write_segments(chain: Chain[M], manifest: M) -> None:
    """Write every segment that ends with ``manifest``, and any smaller one within it that is missing."""
    sequence = manifest.sequence or 0
    level = next((level for level in LEVELS if sequence % level == 0), None)
    if level is None:
        return
    try:
        _ensure(chain, manifest.snapshot_id, sequence, level)
    except (LodeError, msgspec.MsgspecError) as error:
        logger.info("%s: no history segment at %d: %s", chain.name, sequence, error)


def _ensure(chain: Chain[M], snapshot_id: str, last: int, level: int) -> list[bytes]:
    """The bytes of ``level`` manifests up to ``snapshot_id``, oldest first, now also in a segment."""
    path = chain.paths.segment(level, last)
    known = _existing(chain, path, snapshot_id)
    if known is not None:
        return known
    if level == SMALLEST:
        manifests = _singles(chain, snapshot_id, level)
    else:
        step = LEVELS[LEVELS.index(level) + 1]
        manifests = []
        for end in range(last, last - level, -step):
            manifests[:0] = _ensure(chain, snapshot_id, end, step)
            snapshot_id = chain.decode(manifests[0], path).parent_snapshot_id or ""
    try:
        chain.store.put(path, encode_segment(manifests, last))
    except PathExistsError:
        logger.debug("%s was written by somebody else meanwhile", path)
    return manifests


def _existing(chain: Chain[M], path: str, snapshot_id: str) -> list[bytes] | None:
    try:
        manifests = [bytes(raw) for raw in decode_segment(chain.store.get(path))]
    except NotFoundError:
        return None
    return manifests if chain.decode(manifests[-1], path).snapshot_id == snapshot_id else None


def _singles(chain: Chain[M], snapshot_id: str, count: int) -> list[bytes]:
    """The bytes of ``count`` manifests up to this one, oldest first."""
    found: list[bytes] = []
    current: str | None = snapshot_id
    while current is not None and len(found) < count:
        data = chain.manifest_bytes(current)
        if data is None:
            chain.require(current)
            break
        found.append(data)
        current = chain.decode(data, chain.paths.manifest(current)).parent_snapshot_id
    found.reverse()
    return found
