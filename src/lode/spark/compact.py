"""Compact a dataset in tasks, in shares that the driver can hold, each with a commit of its own."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from lode.change import compact as compacts
from lode.change.base import slim_file
from lode.change.result import Change
from lode.format.manifest import COMPACT, Removed
from lode.read.state import Cut
from lode.spark.spread import reachable
from lode.spark.workers import TaskWorkers
from lode.upkeep.share import files_per_share, fits, partition_shares

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow.compute as pc
    from pyspark.sql import SparkSession

    from lode.dataset import Dataset
    from lode.format.manifest import Manifest
    from lode.read.state import States
    from lode.upkeep.share import PartitionShare
    from lode.writes import IdempotencyKey


def compact(
    dataset: Dataset,
    metadata: dict[str, Any] | None = None,
    *,
    target_file_bytes: int | None = None,
    sort_by: Sequence[str] | None = None,
    where: pc.Expression | str | None = None,
    idempotency_key: IdempotencyKey | None = None,
    dry_run: bool = False,
    spark: SparkSession | None = None,
) -> Change:
    """Put the rows of small files into fewer large ones: ``Dataset.compact``, with files written in tasks.

    A dataset with more than about a million files is compacted in shares, each with a commit of its own: the
    files of a partition together, if the driver can hold them. The result then has the last snapshot, and the
    numbers of all. A driver that dies leaves the shares that are committed, and a second call does the rest.

    Args:
        dataset: On a store that the executors can reach.
        metadata: As for ``Dataset.compact``, as all others.
        target_file_bytes: The size of the new files; 128 MiB by default.
        sort_by: Columns by which the rows of each new file are sorted.
        where: Only files that may have rows for which this is true.
        idempotency_key: A second call under it runs no job. The last commit has it.
        dry_run: Only report what would change.
        spark: The session. Default: the active one.
    """
    context = reachable(dataset)._changes.with_workers(TaskWorkers(spark))
    found, head = context.handle.look()
    own: set[str] = set()

    def compacted(share: PartitionShare | None, *, last: bool = True, dry_run: bool = dry_run) -> Change:
        return compacts.compact(
            context,
            metadata,
            target_file_bytes=target_file_bytes,
            sort_by=sort_by,
            where=where,
            idempotency_key=idempotency_key if last else None,
            dry_run=dry_run,
            progress=None,
            # What an earlier share has written is not read again.
            only=None if share is None else lambda path: share.has(path) and staged(path) not in own,
        )

    staged = partial(found.layout.staged, dataset.id)
    if head.manifest is None or fits(found, head.manifest):
        return compacted(None)
    if idempotency_key is not None and not dry_run:
        with dataset.transaction(idempotency_key=idempotency_key) as probe:
            if probe.replayed is not None:
                return Change.of(probe.replayed)
    partition_of = partial(found.layout.partition_of, dataset.id)
    shares = partition_shares(found.history.newest_first(head.manifest), partition_of)
    chosen = shares
    if idempotency_key is not None:
        # The last commit has the key, so the last share must be one with files to compact.
        chosen = [share for share in shares if compacted(share, dry_run=True).removed.files]
    done = Change(COMPACT)
    for number, share in enumerate(chosen, 1):
        change = compacted(share, last=number == len(chosen))
        own |= {change.snapshot.id} if change.snapshot is not None else set()
        done = _sum(done, change)
    if done.snapshot is not None and _write_checkpoint(found.states, done.snapshot.manifest, shares):
        # Only a manifest makes readers believe it.
        context.handle.commit_unchanged(found, COMPACT)
    return done


def _sum(one: Change, other: Change) -> Change:
    """Two changes together, the second one later."""
    removed, added = (
        Removed(first.files + second.files, first.rows + second.rows, first.bytes + second.bytes)
        for first, second in ((one.removed, other.removed), (one.added, other.added))
    )
    return Change(COMPACT, other.snapshot or one.snapshot, removed, added)


def _write_checkpoint(states: States, head: Manifest, shares: Sequence[PartitionShare]) -> bool:
    """Write a checkpoint of a state with no more files than a share: readers then need no older manifest."""
    visible: set[str] = set()
    for share in shares:
        visible |= states.fold(head, checkpoints=False, cut=Cut(share.has, slim_file)).paths
        if len(visible) > files_per_share():
            return False
    return states.write_checkpoint(head, visible) is not None
