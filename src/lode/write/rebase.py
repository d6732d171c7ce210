"""Decide whether two commits touch the same data."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from lode.format.paths import canonical_partition

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

    from lode.format.manifest import FileRef, Manifest
    from lode.format.paths import Layout

# How much of the past a manifest recalls: two rounds of a crowd of sixteen, in a few kilobytes.
MOST_RECALLED = 32
MOST_RECALLED_TEXT = 4096


def partitions_of(dataset_id: str, files: Iterable[FileRef], layout: Layout) -> frozenset[str]:
    """The partitions that files belong to: the empty one stands for all of the dataset, none for no files."""
    if not layout.keys:
        return frozenset({""} if any(True for _ in files) else ())
    return frozenset(layout.partition_of(dataset_id, file.path) for file in files)


def recall(parent: Manifest | None, layout: Layout, *, crowded: bool) -> dict[str, list[str]]:
    """The snapshots behind a child of ``parent`` with what they touched, newest first.

    Writers of a crowd are many snapshots behind whenever they look; with this they catch up in one read.
    Where neither of the two met anybody, the child recalls a little less, so this does not outlive the crowd.
    """
    if parent is None or not layout.keys:
        return {}
    before = parent.recent
    if not (crowded or before):
        return {}
    past = {parent.snapshot_id: sorted(partitions_of(parent.dataset_id, parent.files, layout))}
    past |= before
    most = MOST_RECALLED if crowded or parent.rebases else len(before) - 1
    recalled: dict[str, list[str]] = {}
    room = MOST_RECALLED_TEXT
    for snapshot_id, partitions in islice(past.items(), most):
        room -= len(snapshot_id) + sum(map(len, partitions))
        if room < 0:
            break
        recalled[snapshot_id] = partitions
    return recalled


def common_partition(ours: AbstractSet[str], theirs: AbstractSet[str]) -> str | None:
    """Name a partition both touch, or None.

    Conservative: unpartitioned data overlaps with everything, and a partition with those inside it.
    """
    if not ours or not theirs:
        return None
    if "" in ours or "" in theirs:
        return "the whole dataset, which is not partitioned"
    # Go and Python may give one partition two paths.
    here = {canonical_partition(path): path for path in sorted(ours)}
    there = set(map(canonical_partition, theirs))
    for partition, path in here.items():
        if partition in there:
            return f"partition {path}"
    if len({partition.count("/") for partition in here.keys() | there}) == 1:
        return None
    for partition, path in here.items():
        for other in there:
            if partition.startswith(f"{other}/") or other.startswith(f"{partition}/"):
                return f"partition {path}"
    return None
