"""Which files of a dataset can be read: those of the snapshots from its floor on, and of tagged ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lode.definition import REMOVALS
from lode.read.state import Cut
from lode.read.tags import load_tags, missing_target
from lode.upkeep.share import ALL, Share

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lode.format.manifest import CheckpointRef, Manifest
    from lode.handle import FoundDataset
    from lode.read.tags import Tag


@dataclass(frozen=True, slots=True)
class Retained:
    """What a dataset needs at a floor, and what it does not.

    Args:
        floor: The sequence of the oldest snapshot that can be read.
        expired: The files that no snapshot from the floor on and no tag can see.
        tagged: Those of them that a tag keeps, and their places in history.
        lowest: The snapshot at the floor; None if nothing is below it.
        checkpoints: The digests of the checkpoints that readable snapshots name.
        old_checkpoints: Those that only other snapshots name.
    """

    floor: int
    expired: frozenset[str] = frozenset()
    tagged: dict[str, int] | None = None
    lowest: Manifest | None = None
    checkpoints: frozenset[str] = frozenset()
    old_checkpoints: frozenset[str] = frozenset()


def retained(
    found: FoundDataset, newest: Manifest, floor: int, tags: Iterable[Tag] | None = None, share: Share = ALL
) -> Retained:
    """Find out which files are needed if snapshots below a floor cannot be read.

    These are the files that snapshots from the floor on add, the state at the floor, the states that later
    snapshots restore, and those of tagged snapshots. Checkpoints are not used: a wrong one must not decide.

    Args:
        found: The dataset.
        newest: The newest snapshot.
        floor: The sequence of the oldest snapshot that can be read.
        tags: Its tags; read if not given.
        share: Only the files in this share.

    Raises:
        ManifestInvalidError: The history or a tag is damaged.
    """
    chain = found.chain
    if floor <= newest.begins:
        return Retained(floor)
    tagged = _tagged(found, floor, load_tags(chain) if tags is None else tags)
    # Without removals every file is visible from now on.
    if REMOVALS not in found.definitions.at(newest).features:
        return Retained(floor, tagged=tagged)
    sequence = chain.sequence_of(newest)
    lowest: Manifest | None = None
    kept: set[str] = set()
    restored: list[str] = []
    earlier: set[str] = set()
    below = 0
    refs: list[CheckpointRef | None] = []
    old_refs: list[CheckpointRef | None] = []
    for manifest in found.history.newest_first(newest):
        paths = [file.path for file in manifest.files if share.has(file.path)]
        if sequence >= floor:
            lowest = manifest
            kept.update(paths)
            refs.append(manifest.checkpoint)
            if manifest.restores is not None:
                restored.append(manifest.restores)
        else:
            earlier.update(paths)
            below += 1
            old_refs.append(manifest.checkpoint)
        sequence -= 1
    if lowest is None or sequence + below + 1 != floor:
        raise chain.damaged(newest.snapshot_id, f"has the floor {floor}, which is not in history")
    for snapshot_id in dict.fromkeys([lowest.snapshot_id, *restored, *tagged]):
        manifest = chain.ancestor(snapshot_id, newest.snapshot_id)
        refs.append(manifest.checkpoint)
        kept |= found.states.fold(manifest, checkpoints=False, cut=Cut(share.has)).paths
    named, old = (frozenset(ref.sha256 for ref in each if ref is not None) for each in (refs, old_refs))
    return Retained(floor, frozenset(earlier - kept), tagged, lowest, named, old - named)


def _tagged(found: FoundDataset, floor: int, tags: Iterable[Tag]) -> dict[str, int]:
    """The snapshots below the floor that a tag keeps. Their places are those in the manifests."""
    kept: dict[str, int] = {}
    for tag in tags:
        manifest = found.chain.manifest(tag.snapshot_id)
        if manifest is None:
            raise missing_target(found.chain, tag)
        sequence = found.chain.sequence_of(manifest)
        if sequence < floor:
            kept[tag.snapshot_id] = sequence
    return kept
