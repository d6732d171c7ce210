"""Work on whole datasets, spread over a cluster: verify, copy, import, export, rewrite, expire, sweep.

Each is a call that ends; nothing runs in the background. All that write do so under idempotency keys, so a
job that is run again, after it finished or after it died, does only what is not done yet.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lode.dataset import Dataset
from lode.errors import InvalidOptionError
from lode.lineage.position import ends, plan_between
from lode.lineage.record import Lineage, input_of
from lode.spark.copier import copy
from lode.spark.dataset_ref import DatasetRef, dataset_ref, is_same, opened
from lode.spark.export import Export, export
from lode.spark.options import Options
from lode.spark.origins import files_read
from lode.spark.spread import reachable, spread
from lode.spark.write import write
from lode.upkeep.derived import check_checkpoints
from lode.upkeep.expire import expire_with
from lode.upkeep.share import shares_of
from lode.upkeep.sweep import sweep_with
from lode.upkeep.verify import (
    ExpectedCopy,
    ExpectedObject,
    Problem,
    Verification,
    check_copy,
    check_object,
    take_inventory,
)
from lode.write.open_files import TARGET_FILE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime, timedelta

    from pyspark.sql import DataFrame, SparkSession

    from lode.reads import SnapshotRef
    from lode.snapshot import Snapshot
    from lode.spark.dataset_ref import Where
    from lode.store.protocol import Store
    from lode.upkeep.expire import ExpireReport
    from lode.upkeep.leftovers import Errand, Remover, Sweep
    from lode.upkeep.share import Share

__all__ = ["Export", "copy", "expire", "export", "import_", "rewrite", "sweep", "verify"]

_IMPORTS_AT_ONCE: Final = 4
# How many objects one job checks, so that the driver holds no more results at once.
_OBJECTS_PER_JOB: Final = 20_000
# A file that is only looked at costs about as much as reading this much of one.
_LOOK: Final = 1 << 20


def verify(spark: SparkSession, where: Where, *, checksums: bool = True) -> Verification:
    """Check that history is one line and that every file is there, whole: ``lode.verify``, in tasks.

    Args:
        spark: The session.
        where: The dataset.
        checksums: Also read every file that has a checksum and compare it; else only sizes are compared.
    """
    dataset = reachable(opened(where))
    shares = shares_of(dataset.chain)
    checked = [_verify_share(spark, dataset, share, checksums=checksums) for share in shares]
    problems = [problem for each in checked for problem in each.problems]
    if len(shares) > 1:
        # The state of a dataset can be large, so it is not computed in this process.
        for found in spread(spark, _CheckpointCheck(), [dataset], [1]):
            problems += found
    files, size = sum(each.files for each in checked), sum(each.bytes for each in checked)
    # What is wrong with a manifest is found in every share.
    return Verification(checked[0].snapshots, files, size, tuple(dict.fromkeys(problems)))


def _verify_share(spark: SparkSession, dataset: Dataset, share: Share, *, checksums: bool) -> Verification:
    found = take_inventory(dataset, share=share, intents=checksums)
    for problems in spread(spark, _CopyCheck(dataset.store), found.copies, [_LOOK] * len(found.copies)):
        found.problems += problems
    check = _ObjectCheck(dataset.store, checksums)
    for start in range(0, len(found.objects), _OBJECTS_PER_JOB):
        batch = found.objects[start : start + _OBJECTS_PER_JOB]
        costs = [_LOOK + (expected.file.size_bytes if checksums else 0) for expected in batch]
        for problems in spread(spark, check, batch, costs):
            found.problems += problems
    return found.verification()


def expire(
    spark: SparkSession,
    where: Where,
    *,
    older_than: timedelta | datetime | None = None,
    keep: int | None = None,
    dry_run: bool = True,
    progress: Callable[[int, int | None], None] | None = None,
) -> ExpireReport:
    """Expire old snapshots: ``lode.expire``, with the files removed in tasks.

    Args:
        spark: The session.
        where: The dataset.
        older_than: As for ``lode.expire``.
        keep: As for ``lode.expire``.
        dry_run: Only report what would be removed.
        progress: Called with (objects removed, objects in all) after every 10,000.
    """
    dataset = reachable(opened(where))
    remover = _remover(spark, dataset.store)
    return expire_with(remover, dataset, older_than, keep, dry_run=dry_run, progress=progress)


def sweep(
    spark: SparkSession,
    where: Where,
    older_than: timedelta,
    *,
    dry_run: bool = True,
    progress: Callable[[int, int | None], None] | None = None,
) -> Sweep:
    """Remove leftovers of dead writers: ``lode.sweep``, with the objects removed in tasks.

    Args:
        spark: The session.
        where: The dataset.
        older_than: Minimum age, as for ``lode.sweep``.
        dry_run: Only report what would be removed, and why.
        progress: Called with (objects done, objects in all or None) now and then.
    """
    dataset = reachable(opened(where))
    remover = _remover(spark, dataset.store)
    return sweep_with(remover, dataset, older_than, dry_run=dry_run, progress=progress)


def import_(
    frame: DataFrame,
    into: Where,
    *,
    key: str,
    split_by: str | None = None,
    metadata: dict[str, Any] | None = None,
) -> list[Snapshot]:
    """Write what any of Spark's readers found (Parquet, JSON, CSV, JDBC, another lake) into a dataset, once.

    Args:
        frame: Such as ``spark.read.parquet(…)`` or ``spark.read.format("jdbc")…load()``.
        into: The dataset.
        key: Names this import. A second one of the same name writes nothing, and returns the first's
            snapshots.
        split_by: A column each of whose values becomes a snapshot of its own, in their order; without it,
            everything becomes one. The frame is read once for each value, several at once: choose a column
            its source can find quickly, such as a partition.
        metadata: For every snapshot.
    """
    if not key:
        raise InvalidOptionError("an import needs a key: it is how a second one is recognised")
    if split_by is not None and split_by not in frame.columns:
        raise InvalidOptionError(f"split_by names {split_by!r}: the columns are {', '.join(frame.columns)}")
    lineage = Lineage(f"import:{key}", sources=files_read(frame))
    if split_by is None:
        return [_import_one(frame, into, lineage, "all", metadata, None)]
    column = frame[split_by]
    values = [row[0] for row in frame.select(column).distinct().orderBy(column).collect()]
    done: list[Future[Snapshot]] = []
    # Several jobs run at once; each waits with its commit for the one before it.
    with ThreadPoolExecutor(_IMPORTS_AT_ONCE) as pool:
        for value in values:
            part = frame.where(column.eqNullSafe(value))
            named = value if isinstance(value, str | int | None) else str(value)
            done.append(
                pool.submit(
                    _import_one,
                    part,
                    into,
                    lineage,
                    f"{split_by}={value}",
                    {**(metadata or {}), split_by: named},
                    done[-1] if done else None,
                )
            )
        try:
            return [each.result() for each in done]
        finally:
            pool.shutdown(cancel_futures=True)


def rewrite(
    spark: SparkSession,
    source: Where,
    sink: Where,
    *,
    since: SnapshotRef | None = None,
    as_of: SnapshotRef | None = None,
    sort_by: Sequence[str] = (),
    target_file_bytes: int = TARGET_FILE_BYTES,
) -> Snapshot:
    """Write a range of history as one snapshot of another dataset, in files of a good size, sorted.

    The same range, order and size are written once; the lineage of the snapshot says what it came from.

    Args:
        spark: The session.
        source: The dataset.
        sink: Another dataset; its own layout and codec hold.
        since: Leave out this snapshot and everything before it.
        as_of: Up to this snapshot, named as in ``Dataset.snapshot``; None is the newest.
        sort_by: The rows are sorted by these columns over all files, so each file has a range of its own.
        target_file_bytes: How large a file should be.
    """
    ref = dataset_ref(source)
    dataset = ref.open()
    after, up_to = ends(dataset, since, as_of)
    target = opened(sink)
    if is_same(dataset, target):
        raise InvalidOptionError(
            f"rewrite into another dataset than {dataset.id!r}: history is never changed"
        )
    evolve = not isinstance(sink, Dataset) and Options(dataset_ref(sink).given).flag("mergeSchema")
    lineage = Lineage(f"rewrite:{dataset.store.url}/{dataset.id}", (input_of(dataset, after, up_to),))
    order = [*target.layout.keys, *sort_by]
    key = f"after {after.snapshot} up to {up_to.snapshot} by {','.join(order)} in {target_file_bytes}"
    with target.transaction(idempotency_key=(lineage.made_by, key)) as probe:
        if probe.replayed is not None:
            return probe.replayed
    size = plan_between(dataset, after, up_to).size_bytes
    files = max(1, round(size / target_file_bytes))
    frame = ref.read(spark, since=after.snapshot or None, as_of=up_to.snapshot)
    shaped = frame.repartitionByRange(files, *order) if order else frame.coalesce(files)
    return write(
        target,
        shaped,
        lineage.as_metadata(),
        idempotency_key=(lineage.made_by, key),
        on_conflict="append",
        sort_by=sort_by,
        target_file_bytes=2 * target_file_bytes,  # a task is a file: only one far too large is cut
        evolve=evolve,
    )


def _remover(spark: SparkSession, store: Store) -> Remover:
    """Runs errands in tasks."""
    return lambda errands: spread(spark, _Run(store), errands, [1 + len(errand.paths) for errand in errands])


@dataclass(frozen=True, slots=True)
class _Run:
    """Runs an errand. Pickles."""

    store: Store

    def __call__(self, errand: Errand) -> bool:
        return errand.run(self.store)


@dataclass(frozen=True, slots=True)
class _CopyCheck:
    """Checks copies of manifests. Pickles."""

    store: Store

    def __call__(self, expected: ExpectedCopy) -> list[Problem]:
        return check_copy(self.store, expected)


@dataclass(frozen=True, slots=True)
class _CheckpointCheck:
    """Checks the checkpoints of a dataset. Pickles."""

    def __call__(self, dataset: Dataset) -> list[Problem]:
        return list(check_checkpoints(dataset))


@dataclass(frozen=True, slots=True)
class _ObjectCheck:
    """Checks files of a dataset. Pickles."""

    store: Store
    checksums: bool

    def __call__(self, expected: ExpectedObject) -> list[Problem]:
        return check_object(self.store, expected, checksums=self.checksums)


def _import_one(
    frame: DataFrame,
    into: Where,
    lineage: Lineage,
    part: str,
    metadata: dict[str, Any] | None,
    before: Future[Snapshot] | None,
) -> Snapshot:
    key = (lineage.made_by, part)
    own = {"import": {"writer": key[0], "key": key[1]}, **lineage.as_metadata()}
    extended = {**(metadata or {}), **own}
    wait = None if before is None else before.result
    if isinstance(into, DatasetRef) or not hasattr(into, "transaction"):
        return dataset_ref(into).write(frame, extended, key=key, before_commit=wait)
    return write(opened(into), frame, extended, idempotency_key=key, on_conflict="append", before_commit=wait)
