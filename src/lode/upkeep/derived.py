"""Check what is derived from the manifests of a dataset: history segments and state checkpoints.

Readers check each of them before they use it and ignore one that does not fit. So what is reported here costs
time, not rows, until a manifest itself was changed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from lode.errors import DataError, LodeError, MissingError, NotFoundError
from lode.read.checkpoint import load_checkpoint
from lode.read.resolve import Named, named_parent
from lode.read.segment import MAX_SEGMENT_BYTES, open_segment
from lode.read.source import get_bounded
from lode.upkeep.line import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lode.dataset import Dataset
    from lode.format.manifest import CheckpointRef, Manifest
    from lode.read.resolve import Chain, EncodedManifest

_SEGMENT: Final = re.compile(r"/history/(\d+)/(\d{12})\.json\.zst$")


class Bound(NamedTuple):
    """How a published manifest is bound to history: its place, its digest, and the parent that it names."""

    sequence: int | None
    sha256: str
    parent: Named | None

    @classmethod
    def of(cls, encoded: EncodedManifest[Manifest]) -> Bound:
        """The same from a manifest and its bytes."""
        return cls(encoded.manifest.sequence, encoded.sha256, named_parent(encoded.manifest))


def check_digests(chain: Chain[Manifest], bound: Mapping[str, Bound]) -> Iterator[Problem]:
    """Check that every manifest is still the one that its child was committed behind."""
    for snapshot_id, child in bound.items():
        parent = child.parent
        if parent is None or parent.sha256 is None or parent.snapshot_id not in bound:
            continue
        if bound[parent.snapshot_id].sha256 != parent.sha256:
            path = chain.paths.manifest(parent.snapshot_id)
            message = f"{path} is not the manifest that {snapshot_id} was committed behind: restore it"
            yield Problem("manifest-changed", path, message)


def check_segments(chain: Chain[Manifest], bound: Mapping[str, Bound], first: int) -> Iterator[Problem]:
    """Check that every history segment repeats the manifests of its place in history.

    Those before the sequence ``first`` are what an interrupted drop has left.
    """
    if not bound:
        return
    by_place = {place: Named(id, bound[id].sha256) for id, place in _places(bound).items()}
    newest = max(by_place, default=0)
    for entry in chain.store.list(f"{chain.paths.root}/history/"):
        place = _SEGMENT.search(entry.path)
        if place is None:
            continue
        level, last = map(int, place.groups())
        # Later ones are of commits that came after the manifests were listed.
        if not first <= last <= newest:
            continue
        try:
            if last not in by_place:
                raise NotFoundError(f"history has no snapshot with the number {last}")
            data = get_bounded(chain.store, entry.path, MAX_SEGMENT_BYTES)
            open_segment(data, chain.owner, level, last, by_place[last])
        except LodeError as error:
            yield Problem("segment", entry.path, f"{entry.path} is ignored by readers, remove it: {error}")


def _places(bound: Mapping[str, Bound]) -> dict[str, int]:
    """The place in history of each snapshot. Those of Go have no number and are counted along the parents."""
    places = {id: each.sequence for id, each in bound.items() if each.sequence is not None}
    for snapshot_id in bound:
        line: list[str] = []
        current = snapshot_id
        while current in bound and current not in places and len(line) < len(bound):
            line.append(current)
            parent = bound[current].parent
            current = "" if parent is None else parent.snapshot_id
        before = places.get(current, 0)
        places |= {id: place for place, id in enumerate(reversed(line), before + 1)}
    return places


def check_checkpoints(dataset: Dataset) -> Iterator[Problem]:
    """Check that every checkpoint that a manifest names holds the files that history says."""
    paths = dataset.chain.paths
    existing = {entry.path for entry in dataset.store.list(paths.states)}
    if not existing:
        return
    try:
        found, head = dataset._changes.handle.look()
        if head.manifest is None:
            return
        named: dict[str, CheckpointRef] = {}
        for manifest in found.history.newest_first(head.manifest):
            ref = manifest.checkpoint
            if ref is not None and paths.state(ref.sha256) in existing:
                named[ref.snapshot] = ref
        for manifest, state in found.states.each(head.manifest):
            ref = named.get(manifest.snapshot_id)
            path = "" if ref is None else paths.state(ref.sha256)
            if ref is None or load_checkpoint(found.chain, ref) == state():
                continue
            if dataset.store.exists(path):  # an expiry may have removed it since
                yield Problem(
                    "checkpoint", path, f"{path} is not the state at {manifest.snapshot_id}: remove it"
                )
    except (DataError, MissingError):
        return  # history is damaged, which the checks of the manifests report
