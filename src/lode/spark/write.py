"""Write a Spark DataFrame as one snapshot: tasks stage files in parallel, this process commits once."""

from __future__ import annotations

import pickle
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import AtomicType, BinaryType, GeographyType, GeometryType, VariantType

from lode.errors import (
    DataError,
    InvalidOptionError,
    LodeError,
    NotFoundError,
    SchemaViolationError,
    UsageError,
)
from lode.evolution import check_type
from lode.spark.schema import converts, written_schema
from lode.spark.session import BYTES_PER_BATCH, UNBOUNDED, setting_before, temporary_setting
from lode.spark.spread import reachable
from lode.spark.staging import discard_unreferenced, stage_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from lode.change.overwrite import Fulfils
    from lode.dataset import Dataset
    from lode.definition import Definition
    from lode.reads import SnapshotRef
    from lode.snapshot import Snapshot
    from lode.write.retry import OnConflict
    from lode.write.stage import Staged, Stager
    from lode.write.transaction import Transaction
    from lode.writes import IdempotencyKey

# Spark's own default for the maximum bytes of an Arrow batch.
_SPARK_DEFAULT: Final = "67108864b"
_WIDE: Final = (BinaryType, VariantType, GeometryType, GeographyType)
OVERWRITE_MODE: Final = "spark.sql.sources.partitionOverwriteMode"


class TaskResult(WriterCommitMessage):
    """What a task staged, whether it took more than one attempt, and a setting that only tasks can see."""

    def __init__(self, staged: Staged, attempt: int, overwrite_mode: str | None = None) -> None:
        self.staged = staged
        self.attempt = attempt
        self.overwrite_mode = overwrite_mode


def write(
    dataset: Dataset,
    df: DataFrame,
    metadata: dict[str, Any] | None = None,
    *,
    idempotency_key: IdempotencyKey | None = None,
    base: SnapshotRef | None = None,
    on_conflict: OnConflict = "raise",
    sort_by: Sequence[str] | None = None,
    target_file_bytes: int | None = None,
    evolve: bool = False,
    before_commit: Callable[[], object] | None = None,
) -> Snapshot:
    """Write a DataFrame as one new snapshot; ``dataset.write(df)`` does this.

    A task that fails and is run again, or is run twice at once, counts once. If the job fails, history is
    as it was. A second write under the same key runs no job and returns the first's snapshot.

    Args:
        dataset: Has a codec, and a store that the executors can reach.
        df: A batch DataFrame.
        metadata: Any JSON object; None means an empty one.
        idempotency_key: A key, or (writer, key).
        base: The snapshot that the rows were computed from, as for ``Dataset.write``.
        on_conflict: ``"raise"`` or ``"append"``, as for ``Dataset.write``.
        sort_by: As for ``Dataset.write``. Spark sorts the rows of each task, which can spill to disk.
        target_file_bytes: As for ``Dataset.write``.
        evolve: Let new columns and wider types become part of the dataset.
        before_commit: Called when everything is staged. If it raises, nothing is committed.
    """
    check_batch(df)
    with begin(
        dataset,
        df.schema,
        metadata,
        idempotency_key=idempotency_key,
        base=base,
        on_conflict=on_conflict,
        sort_by=sort_by,
        target_file_bytes=target_file_bytes,
        evolve=evolve,
    ) as transaction:
        stager = transaction.stager
        if transaction.replayed is not None:
            return transaction.replayed
        try:
            results = stage(df, stager)
            if before_commit is not None:
                before_commit()
        except BaseException:
            discard_unreferenced(stager)
            raise
        return commit(transaction, results)


def check_batch(df: Any) -> None:
    """Refuse what is no DataFrame, or has no end."""
    if not hasattr(df, "mapInArrow"):
        raise InvalidOptionError(
            f"a {type(df).__name__} is not a Spark DataFrame: give one, as to_spark() does"
        )
    if df.isStreaming:
        raise InvalidOptionError("a streaming DataFrame has no end: use df.writeStream.format('lode')")


def begin(
    dataset: Dataset,
    schema: StructType,
    metadata: dict[str, Any] | None = None,
    *,
    idempotency_key: IdempotencyKey | None = None,
    base: SnapshotRef | None = None,
    on_conflict: OnConflict = "raise",
    sort_by: Sequence[str] | None = None,
    target_file_bytes: int | None = None,
    evolve: bool = False,
) -> Transaction:
    """Begin a snapshot of rows with this schema, before any task runs; arguments as for ``write``.

    Raises:
        SchemaViolationError: A column is new, required and missing, or of a type that does not fit.
    """
    reachable(dataset)
    columns = written_schema(schema)
    transaction = dataset.transaction(
        metadata,
        idempotency_key=idempotency_key,
        base=base,
        on_conflict=on_conflict,
        schema=columns if columns.names else None,
        evolve=evolve,
        target_file_bytes=target_file_bytes,
        sort_by=sort_by,
    )
    check_frame(transaction, columns)
    return transaction


def commit(transaction: Transaction, results: Sequence[TaskResult]) -> Snapshot:
    """Commit the files that the tasks staged as one snapshot, and remove those of lost attempts."""
    stager = transaction.stager
    transaction.add(*(result.staged for result in results))
    snapshot = transaction.commit()
    if any(result.attempt for result in results):
        discard_unreferenced(stager, snapshot.files)
    return snapshot


def check_frame(transaction: Transaction, schema: pa.Schema) -> None:
    """Refuse at the driver what would fail in every task, or could not be read again."""
    stager = transaction.stager
    codec = stager.components.codec
    if codec is None:
        raise InvalidOptionError(
            f"dataset {stager.dataset_id!r} holds blobs: open it with codec=lode.Parquet() to write rows"
        )
    if not schema.names:
        raise InvalidOptionError("the DataFrame has no columns")
    wanted = [
        *(("the dataset is partitioned by", name) for name in stager.layout.keys),
        *(("the rows are to be sorted by", name) for name in stager.sort_by),
    ]
    if stager.timestamp_column is not None:
        wanted.append(("the snapshot takes its time range from", stager.timestamp_column))
    for why, name in wanted:
        if name not in schema.names:
            raise InvalidOptionError(f"{why} {name!r}, but the DataFrame has only {', '.join(schema.names)}")
    stored: pa.Schema | None = getattr(codec, "schema", None)
    if stored is not None:
        check_types(schema, stored, stager.dataset_id)
    _check_case(schema, transaction.definition, stager.dataset_id)


def _check_case(schema: pa.Schema, definition: Definition, dataset_id: str) -> None:
    """Refuse a new column that Spark takes for another one."""
    known = [] if definition.columns is None else list(definition.ids)
    seen = {name.lower(): name for name in known}
    for name in schema.names:
        other = seen.setdefault(name.lower(), name)
        if name != other and name not in known:
            raise SchemaViolationError(
                f"columns {other!r} and {name!r} of dataset {dataset_id!r} would differ only in case, and "
                "Spark takes them for one: rename the column, or add it with Dataset.evolve(add=…)",
                column=name,
            )


def check_types(schema: pa.Schema, stored: pa.Schema, dataset_id: str) -> None:
    """Refuse columns of which no value could be stored."""
    for field in schema:
        if not converts(field.type, stored.field(field.name).type):
            check_type(field, stored.field(field.name), dataset_id)


def stage_task(stager: Stager, batches: Iterable[pa.RecordBatch], check: Fulfils | None = None) -> TaskResult:
    """Stage the rows of the task this runs in."""
    context = TaskContext.get()
    if context is None:
        return TaskResult(stage_batches(stager, batches, task="part-0", check=check), 0)
    staged = stage_batches(stager, batches, task=f"part-{context.partitionId()}", check=check)
    return TaskResult(staged, context.attemptNumber(), context.getLocalProperty(OVERWRITE_MODE))


def stage(df: DataFrame, stager: Stager, check: Fulfils | None = None) -> list[TaskResult]:
    """Stage the rows of a frame in tasks.

    Args:
        df: The rows.
        stager: Stages them; Spark sorts them.
        check: Refuses rows that a condition does not select.
    """
    return in_tasks(df, stager, _InTask(stager.with_files(sort_by=()), check))


def in_tasks(
    df: DataFrame, stager: Stager, work: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
) -> list[Any]:
    """Give the rows of a frame, sorted as they are to be staged, to work in tasks, and return its answers."""
    order = [quoted(name) for name in (*stager.layout.keys, *stager.sort_by)]
    # Sorted by Spark, which can spill: a task then has one file open at a time.
    rows = df.sortWithinPartitions(*order) if order else df
    with _cheap_batches(df):
        return results(rows, work)


def results(df: DataFrame, work: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]) -> list[Any]:
    """Give the rows of a frame to work in tasks, and return its answers."""
    if any(letter in name for name in df.columns for letter in ".`"):
        # Spark takes such names apart when it hands the columns over.
        work = _WithNames(work, df.columns)
        df = df.toDF(*(f"column_{number}" for number in range(len(df.columns))))
    return answers(df.mapInArrow(work, "result binary"))


@dataclass(frozen=True, slots=True)
class _WithNames:
    """Gives the columns of batches their names. Pickles."""

    work: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
    names: list[str]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.work(batch.rename_columns(self.names) for batch in batches)


@dataclass(frozen=True, slots=True)
class _InTask:
    """Stages the rows of a task. Pickles."""

    stager: Stager
    check: Fulfils | None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield answer(lambda: stage_task(self.stager, batches, self.check))


def answer(do: Callable[[], Any]) -> pa.RecordBatch:
    """What a task returns as a row: a result, or an error that would come again in a second attempt."""
    result: Any
    try:
        result = do()
    except (DataError, UsageError, NotFoundError) as error:
        result = error
    return pa.record_batch({"result": [pickle.dumps(result)]})


def answers(df: DataFrame) -> list[Any]:
    """The results of tasks; raises the first error that one of them returned."""
    found = [pickle.loads(bytes(row[0])) for row in df.collect()]
    for result in found:
        if isinstance(result, LodeError):
            raise result
    return found


def quoted(name: str) -> str:
    """A column's name as Spark takes it literally."""
    return f"`{name.replace('`', '``')}`"


@contextmanager
def _cheap_batches(df: DataFrame) -> Iterator[None]:
    """Spare Spark the measuring of Arrow batches where rows are narrow, unless the session says otherwise."""
    spark = df.sparkSession
    if setting_before(spark, BYTES_PER_BATCH) not in (_SPARK_DEFAULT, UNBOUNDED):
        yield
        return
    with temporary_setting(spark, BYTES_PER_BATCH, _SPARK_DEFAULT if _may_be_wide(df.schema) else UNBOUNDED):
        yield


def _may_be_wide(schema: StructType) -> bool:
    """Whether some rows may be so large that ten thousand of them do not fit in memory."""
    kinds = [field.dataType for field in schema]
    return any(not isinstance(kind, AtomicType) or isinstance(kind, _WIDE) for kind in kinds)
