"""Write history segments once commits cross their boundaries: best effort, off the commit's way."""

from __future__ import annotations

import logging
from typing import TypeVar

from lode.errors import LodeError, ManifestInvalidError, NotFoundError, PathExistsError
from lode.format.manifest import DROP
from lode.read.resolve import AnyManifest, Chain, Named, named_parent
from lode.read.segment import LEVELS, MAX_SEGMENT_BYTES, encode_segment, open_segment
from lode.read.source import get_bounded

logger = logging.getLogger("lode.history")

M = TypeVar("M", bound=AnyManifest)

SMALLEST = LEVELS[-1]


def is_boundary(manifest: AnyManifest) -> bool:
    """Return whether a segment ends with this snapshot."""
    return manifest.sequence is not None and manifest.sequence % SMALLEST == 0


def write_segments(chain: Chain[M], manifest: M) -> None:
    """Write every segment that ends with ``manifest``, and any smaller one within it that is missing."""
    sequence = manifest.sequence or 0
    level = next((level for level in LEVELS if sequence % level == 0), None)
    if level is None:
        return
    try:
        _ensure(chain, Named(manifest.snapshot_id, chain.sha256_of(manifest.snapshot_id)), sequence, level)
    except LodeError as error:
        logger.info("%s: no history segment at %d: %s", chain.name, sequence, error)


def _ensure(chain: Chain[M], newest: Named, last: int, level: int) -> list[bytes]:
    """The bytes of ``level`` manifests up to ``newest``, oldest first, now also in a segment."""
    path = chain.paths.segment(level, last)
    known = _existing(chain, path, newest, last, level)
    if known is not None:
        return known
    if level == SMALLEST:
        manifests = _singles(chain, newest.snapshot_id, level)
    else:
        step = LEVELS[LEVELS.index(level) + 1]
        manifests = []
        end: Named | None = newest
        for sequence in range(last, last - level, -step):
            if end is None:
                raise NotFoundError(
                    f"{chain.name}: fewer than {level} snapshots end with {newest.snapshot_id}"
                )
            manifests[:0] = _ensure(chain, end, sequence, step)
            if sum(map(len, manifests)) > MAX_SEGMENT_BYTES:
                raise ManifestInvalidError(f"{path} would be larger than {MAX_SEGMENT_BYTES} bytes")
            end = named_parent(chain.checked(manifests[0], path))
    try:
        chain.store.put(path, encode_segment(manifests, last))
    except PathExistsError:
        logger.debug("%s was written by another process meanwhile", path)
    return manifests


def _existing(chain: Chain[M], path: str, newest: Named, last: int, level: int) -> list[bytes] | None:
    try:
        data = get_bounded(chain.store, path, MAX_SEGMENT_BYTES)
        return [bytes(raw) for raw in open_segment(data, chain.owner, level, last, newest)]
    except NotFoundError:
        return None
    except ManifestInvalidError as error:
        chain.report_ignored(path, error)
        return None


def _singles(chain: Chain[M], snapshot_id: str, count: int) -> list[bytes]:
    """The bytes of ``count`` manifests up to this one, oldest first."""
    found: list[bytes] = []
    size = 0
    current: str | None = snapshot_id
    while len(found) < count:
        published = chain.published(current) if current is not None else None
        if published is None:
            raise NotFoundError(f"{chain.name}: fewer than {count} snapshots end with {snapshot_id}")
        found.append(published.data)
        size += len(published.data)
        if size > MAX_SEGMENT_BYTES:
            raise ManifestInvalidError(f"{count} manifests are larger than {MAX_SEGMENT_BYTES} bytes")
        if published.manifest.operation == DROP:
            raise NotFoundError(f"{chain.name}: a segment does not reach over a drop")
        current = published.manifest.parent_snapshot_id
    found.reverse()
    return found
