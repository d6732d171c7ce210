"""Operations on large datasets: the driver plans and commits, tasks of Spark read and rewrite files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lode.change import delete as deletes
from lode.change import merge as merges
from lode.change import overwrite as overwrites
from lode.spark.merge_frame import MergedFrame
from lode.spark.schema import written_schema
from lode.spark.spread import reachable
from lode.spark.workers import TaskWorkers
from lode.spark.write import check_batch, check_frame

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    import pyarrow.compute as pc
    from pyspark.sql import DataFrame, SparkSession

    from lode.change.base import OnChangeConflict
    from lode.change.merge import WhenMatched, WhenNotMatched
    from lode.change.overwrite import Fulfils
    from lode.change.result import Change
    from lode.codec.protocol import Codec
    from lode.dataset import Dataset
    from lode.write.stage import Staged
    from lode.write.transaction import Transaction
    from lode.writes import IdempotencyKey


def overwrite(
    dataset: Dataset,
    df: DataFrame,
    metadata: dict[str, Any] | None = None,
    *,
    partitions: Sequence[str | Mapping[str, Any]] | None = None,
    where: pc.Expression | str | None = None,
    everything: bool = False,
    idempotency_key: IdempotencyKey | None = None,
    on_conflict: OnChangeConflict = "raise",
    evolve: bool = False,
    dry_run: bool = False,
) -> Change:
    """Replace rows by those of a DataFrame, as one snapshot; ``dataset.overwrite(df)`` does this.

    Tasks stage the rows, and rewrite the files of which ``where`` selects some rows. A dry run stages them
    too, and removes them.

    Args:
        dataset: On a store that the executors can reach.
        df: A batch DataFrame.
        metadata: As for ``Dataset.overwrite``, as all others.
        partitions: Replace these. Default: those that the rows touch.
        where: Replace the rows for which this is true. The new ones must fulfil it too.
        everything: Replace all rows.
        idempotency_key: A second call under it runs no job.
        on_conflict: ``"raise"`` or ``"redo"``; no row of ``df`` is computed again for it.
        evolve: Let new columns and wider types become part of the dataset.
        dry_run: Only report what would change.
    """
    check_batch(df)
    workers = TaskWorkers(df.sparkSession)
    return overwrites.overwrite(
        reachable(dataset)._changes.with_workers(workers),
        _Frame(df, workers),
        metadata,
        partitions=partitions,
        where=where,
        everything=everything,
        idempotency_key=idempotency_key,
        on_conflict=on_conflict,
        evolve=evolve,
        dry_run=dry_run,
        progress=None,
    )


def delete(
    dataset: Dataset,
    where: pc.Expression | str,
    metadata: dict[str, Any] | None = None,
    *,
    idempotency_key: IdempotencyKey | None = None,
    on_conflict: OnChangeConflict = "raise",
    dry_run: bool = False,
    spark: SparkSession | None = None,
) -> Change:
    """Delete the rows for which ``where`` is true: ``Dataset.delete``, with files rewritten in tasks.

    Args:
        dataset: On a store that the executors can reach.
        where: SQL of Lode, not of Spark, or a pyarrow expression.
        metadata: As for ``Dataset.delete``, as all others.
        idempotency_key: A second call under it runs no job.
        on_conflict: ``"raise"`` or ``"redo"``.
        dry_run: Only report what would change.
        spark: The session. Default: the active one.
    """
    return deletes.delete(
        reachable(dataset)._changes.with_workers(TaskWorkers(spark)),
        where,
        metadata,
        idempotency_key=idempotency_key,
        on_conflict=on_conflict,
        dry_run=dry_run,
        progress=None,
    )


def merge(
    dataset: Dataset,
    df: DataFrame,
    metadata: dict[str, Any] | None = None,
    *,
    on: Sequence[str] | None = None,
    when_matched: WhenMatched = "update",
    when_not_matched: WhenNotMatched = "insert",
    idempotency_key: IdempotencyKey | None = None,
    on_conflict: OnChangeConflict = "raise",
    dry_run: bool = False,
) -> Change:
    """Merge the rows of a DataFrame by their keys, as one snapshot; ``dataset.merge(df)`` does this.

    Spark joins the rows with the keys of the files that can have them, so neither side has to fit in memory.
    A task holds the key columns of one file, and the rows that change in one file. The frame is computed
    once and kept, in memory and on disk, until the merge ends.

    Args:
        dataset: On a store that the executors can reach.
        df: A batch DataFrame. No two rows may have the same key, and no key may be null.
        metadata: As for ``Dataset.merge``, as all others.
        on: The key columns; the primary key of the definition by default.
        when_matched: ``"update"``, ``"delete"`` or ``"ignore"``.
        when_not_matched: ``"insert"`` or ``"ignore"``.
        idempotency_key: A second call under it changes nothing.
        on_conflict: ``"raise"`` or ``"redo"``.
        dry_run: Only report what would change.
    """
    check_batch(df)
    workers = TaskWorkers(df.sparkSession)
    rows = MergedFrame(df, workers)
    try:
        return merges.merge(
            reachable(dataset)._changes.with_workers(workers),
            rows,
            metadata,
            on=on,
            when_matched=when_matched,
            when_not_matched=when_not_matched,
            idempotency_key=idempotency_key,
            on_conflict=on_conflict,
            dry_run=dry_run,
            progress=None,
        )
    finally:
        rows.close()


class _Frame(overwrites.NewRows):
    """The rows of a DataFrame that replace others."""

    can_repeat = True

    def __init__(self, df: DataFrame, workers: TaskWorkers) -> None:
        self._df = df
        self._workers = workers
        self._columns = written_schema(df.schema)

    def schema(self, codec: Codec | None) -> pa.Schema | None:
        return self._columns if self._columns.names else None

    def stage(self, transaction: Transaction, check: Fulfils | None) -> list[Staged]:
        check_frame(transaction, self._columns)
        return self._workers.stage(self._df, transaction.stager, check)
