"""Decide whether two commits touch the same data."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from lode.format.manifest import Manifest
    from lode.format.paths import Layout


def partitions_of(manifest: Manifest, layout: Layout) -> frozenset[str]:
    """The partitions a snapshot wrote to; the empty one stands for all of the dataset."""
    if not layout.keys:
        return frozenset({""})
    return frozenset(layout.partition_of(manifest.dataset_id, file.path) for file in manifest.files)


def common_partition(ours: AbstractSet[str], theirs: AbstractSet[str]) -> str | None:
    """Name a partition both touch, or None.

    Conservative: unpartitioned data overlaps with everything, and a partition with those inside it.
    """
    if not ours or not theirs:
        return None
    if "" in ours or "" in theirs:
        return "the whole dataset, which is not partitioned"
    for partition in sorted(ours):
        if partition in theirs:
            return f"partition {partition}"
    if len({partition.count("/") for partition in ours | theirs}) == 1:
        return None
    for partition in sorted(ours):
        for other in theirs:
            if partition.startswith(f"{other}/") or other.startswith(f"{partition}/"):
                return f"partition {partition}"
    return None
