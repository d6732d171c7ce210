"""Structured Streaming from and to datasets.

The source's offset is a position in history, so a batch is a range of whole snapshots, and the same offsets
always give the same snapshots. The sink commits each micro-batch as one snapshot under
the key (query, batch), which is checked within the commit: a batch that Spark replays changes nothing.
"""

# Spark names the methods.
# ruff: noqa: N802, N803

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from lode.errors import InvalidOptionError
from lode.lineage.position import NO_LIMIT, Frontier, Limit, Position, plan_between, starting_position
from lode.lineage.record import Lineage
from lode.read.change_scan import ChangeScan
from lode.read.files import check_components
from lode.read.which import ExactId
from lode.spark.options import Options, dataset_of, file_options, removal_option
from lode.spark.origins import batch_origins, stream_offset
from lode.spark.resume import Job, may_be_committed, resume
from lode.spark.schema import arrow_schema, check_names, written_schema
from lode.spark.splits import BATCH_ROWS, SPLIT_BYTES, PieceReader, Split, plan_splits
from lode.spark.staging import discard_unreferenced, stage_batches
from lode.spark.write import begin

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from lode.dataset import Dataset
    from lode.read.scan import Scan
    from lode.write.stage import Staged

# What a stream understands beside the options of a dataset; the last two are Spark's own.
STREAM_OPTIONS: Final = (
    "startingPosition",
    "maxSnapshotsPerBatch",
    "maxBytesPerBatch",
    "checkpointLocation",
    "queryName",
)
_RESTART: Final = (
    "start the stream with a new checkpoint, from 'earliest' or with a snapshot or tag as startingPosition"
)


class StreamSource(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a dataset's snapshots as they come, each whole and exactly once."""

    def __init__(self, options: Mapping[str, str], schema: StructType, as_of: str | None = None) -> None:
        self._options = Options(options, also=STREAM_OPTIONS)
        for name in ("asOf", "since", "snapshot"):
            if name in self._options:
                raise InvalidOptionError(
                    f"a stream has no {name!r}: say where it begins with startingPosition"
                )
        self._limit = Limit(
            self._options.number("maxSnapshotsPerBatch"), self._options.size("maxBytesPerBatch", 0) or None
        )
        self._dataset = dataset_of(self._options)
        self._frontier = Frontier(self._dataset)
        self._split_bytes = self._options.size("splitBytes", SPLIT_BYTES)
        # Without snapshots, but with the names that the columns had when the schema was chosen.
        self._scan = _named_as_of(self._dataset, as_of)
        self._on_removal = removal_option(self._options)
        named = self._scan
        if self._on_removal == "report":
            named = ChangeScan.made_from(named, ())
        check_names(named, schema.names)
        self._reader = PieceReader(
            self._dataset.store,
            self._scan.components,
            arrow_schema(schema),
            batch_rows=self._options.number("batchRows", BATCH_ROWS) or BATCH_ROWS,
        )

    def initialOffset(self) -> dict[str, Any]:
        where = self._options.text("startingPosition") or "earliest"
        return starting_position(self._dataset, where).to_json()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        bound = NO_LIMIT if isinstance(limit, ReadAllAvailable) else self._limit
        end = self._frontier.advance(Position.from_json(start), bound)
        return stream_offset(self._dataset, start, end)

    def getDefaultReadLimit(self) -> ReadLimit:
        # Spark hands this back to latestOffset: all it has to say is that there is a limit.
        if self._limit.snapshots is not None:
            return ReadMaxFiles(self._limit.snapshots)
        return ReadAllAvailable() if self._limit.bytes is None else ReadMaxBytes(self._limit.bytes)

    def reportLatestOffset(self) -> dict[str, Any]:
        return self._frontier.known().to_json()

    def prepareForTriggerAvailableNow(self) -> None:
        self._frontier.stop_at_head()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        first, last = Position.from_json(start), Position.from_json(end)
        if first == last:
            return []
        found = plan_between(self._dataset, first, last, self._on_removal, remedy=_RESTART)
        for manifest in found.manifests:
            check_components(manifest, self._reader.components)
        scan = self._scan.of(found.manifests)
        if isinstance(found, ChangeScan):
            scan = ChangeScan.made_from(scan, found.kinds)
        if not scan.files:
            return []
        return plan_splits(scan, split_bytes=self._split_bytes, splittable=self._reader.splittable)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Split)
        return self._reader.read(partition.pieces)

    def __getstate__(self) -> dict[str, Any]:
        # Tasks read the files they are given; history, and what holds locks, stays at the driver.
        return {**self.__dict__, "_dataset": None, "_frontier": None, "_scan": None}


def _named_as_of(dataset: Dataset, as_of: str | None) -> Scan:
    """A scan of one snapshot or none, with the columns that the dataset has there; without one, now."""
    if as_of is None:
        newest = next(dataset.history(), None)
        if newest is None:
            return dataset.plan()
        as_of = ExactId(newest.id)
    found = dataset.plan_snapshot(as_of)
    # A snapshot of 0.1 or Go alone has no definition, the history up to it has.
    return found if found.definition is not None else dataset.plan(since=as_of, as_of=as_of)


class StreamSink(DataSourceStreamArrowWriter):
    """Writes each micro-batch as one snapshot, exactly once; a batch without rows makes none.

    Spark builds one of these to plan a batch, sends copies of it to the tasks, and builds another to commit.
    So the first chooses the snapshot's id, and the tasks' messages carry it to the last.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise InvalidOptionError(
                "output mode complete replaces what was written before, and the sink only appends: use "
                "append with a window that a watermark closes, foreachBatch with Dataset.overwrite, or a "
                "pipeline"
            )
        self._options = Options(options, also=STREAM_OPTIONS)
        self._dataset = dataset_of(self._options)
        evolve = self._options.flag("mergeSchema")
        with begin(self._dataset, schema, evolve=evolve, **file_options(self._options)) as planned:
            self._job = Job.of(planned, written_schema(schema), evolve=evolve)

    def write(  # type: ignore[override]  # Spark's own Arrow writer differs from its base in the same way
        self, iterator: Iterator[pa.RecordBatch]
    ) -> WriterCommitMessage:
        task = TaskContext.get()
        assert task is not None
        query = task.getLocalProperty("sql.streaming.queryId") or self._options.text("checkpointLocation")
        if query is None:
            raise InvalidOptionError("the query has neither an id nor a checkpointLocation: set the latter")
        staged = stage_batches(self._job.stager, iterator, task=f"part-{task.partitionId()}")
        return StagedPart(self._job, query, staged, task.attemptNumber())

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        parts = [message for message in messages if isinstance(message, StagedPart)]
        if not any(part.staged.row_count for part in parts):
            return
        query = parts[0].query
        read = batch_origins(self._options, batchId)
        metadata = {
            **(self._options.json_object("metadata") or {}),
            "spark": {"query": query, "batch": batchId},
            **Lineage(f"stream:{query}", read.inputs, sources=read.sources, batch=batchId).as_metadata(),
        }
        job = parts[0].job
        transaction = resume(
            self._dataset,
            job.stager.snapshot_id,
            metadata,
            idempotency_key=(f"spark:{query}", str(batchId)),
            job=job,
        )
        with transaction:
            transaction.add(*(part.staged for part in parts))
            snapshot = transaction.commit()
        if any(part.attempt for part in parts) and snapshot.id == transaction.snapshot_id:
            discard_unreferenced(transaction.stager, snapshot.files)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        for part in messages:
            if isinstance(part, StagedPart):
                stager = part.job.stager
                if not may_be_committed(stager):
                    stager.discard(part.staged.files)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_dataset": None}


@dataclass(frozen=True)
class StagedPart(WriterCommitMessage):
    """What one task staged, for which job, and which query it belongs to."""

    job: Job
    query: str
    staged: Staged
    attempt: int
