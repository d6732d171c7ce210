"""Structured Streaming from and to datasets.

The source's offset is a position in history, so a batch is a run of whole snapshots, and the same offsets give
the same snapshots whenever they are asked for. The sink commits each micro-batch as one snapshot under the key
(query, batch), which is checked within the commit: a batch that Spark replays changes nothing.
"""

# Spark names the methods.
# ruff: noqa: N802, N803

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import msgspec
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

from lode.codec.columnar import to_batch
from lode.errors import InvalidOptionError
from lode.read.scan import Scan, check_components, decode_file
from lode.spark.options import Options, dataset_of
from lode.spark.position import NO_LIMIT, Frontier, Limit, Position, between, starting_position
from lode.spark.resume import new_snapshot_id, resume, stager_of
from lode.spark.schema import arrow_schema
from lode.spark.staging import TARGET_FILE_BYTES, Shape, discard_unreferenced, stage_batches
from lode.spark.write import check_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from lode.codec.protocol import Chunk
    from lode.format.manifest import Manifest
    from lode.write.stage import Staged

# What a stream understands beside the options of a dataset; the last two are Spark's own.
STREAM_OPTIONS: Final = (
    "startingPosition",
    "maxSnapshotsPerBatch",
    "maxBytesPerBatch",
    "checkpointLocation",
    "queryName",
)
# A task reads about this much; opening a file counts as much as reading this much of it.
TASK_BYTES: Final = 64 << 20
OPENING_COSTS: Final = 4 << 20


class StreamSource(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a dataset's snapshots as they come, each whole and exactly once."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = Options(options, also=STREAM_OPTIONS)
        self._schema = schema
        self._limit = Limit(
            self._options.number("maxSnapshotsPerBatch"), self._options.size("maxBytesPerBatch", 0) or None
        )
        self._dataset = dataset_of(self._options)
        self._frontier = Frontier(self._dataset)

    def initialOffset(self) -> dict[str, Any]:
        where = self._options.text("startingPosition") or "earliest"
        return starting_position(self._dataset, where).to_json()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        bound = NO_LIMIT if isinstance(limit, ReadAllAvailable) else self._limit
        return self._frontier.advance(Position.from_json(start), bound).to_json()

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
        snapshots = between(self._dataset, Position.from_json(start), Position.from_json(end))
        for snapshot in snapshots:
            check_components(snapshot.manifest, self._dataset.components)
        scan = Scan(
            self._dataset.store,
            self._dataset.id,
            self._dataset.layout,
            self._dataset.components,
            [snapshot.manifest for snapshot in snapshots],
        )
        return [FilesPartition(part) for part in packed(scan)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, FilesPartition)
        return spark_batches(partition.scan, self._schema)

    def __getstate__(self) -> dict[str, Any]:
        # Tasks read the files they are given; history, and what holds locks, stays at the driver.
        return {**self.__dict__, "_dataset": None, "_frontier": None}


class StreamSink(DataSourceStreamArrowWriter):
    """Writes each micro-batch as one snapshot, exactly once; a batch without rows makes none.

    Spark builds one of these to plan a batch, sends copies of it to the tasks, and builds another to commit. So
    the first chooses the snapshot's id, and the tasks' messages carry it to the last.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise InvalidOptionError(
                "output mode complete replaces what was written before, and a dataset is only ever appended "
                "to: use append or update"
            )
        self._options = Options(options, also=STREAM_OPTIONS)
        self._dataset = dataset_of(self._options)
        self._stager = stager_of(self._dataset, new_snapshot_id(), self._options.text("timestampColumn"))
        self._shape = Shape(
            self._options.size("targetFileBytes", TARGET_FILE_BYTES), tuple(self._options.names("sortBy"))
        )
        check_columns(self._stager, schema, self._shape.sort_by)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        task = TaskContext.get()
        assert task is not None
        query = task.getLocalProperty("sql.streaming.queryId") or self._options.text("checkpointLocation")
        if query is None:
            raise InvalidOptionError("the query has neither an id nor a checkpointLocation: set the latter")
        staged = stage_batches(self._stager, iterator, self._shape, task=f"part-{task.partitionId()}")
        return StagedPart(self._stager.snapshot_id, query, staged, task.attemptNumber())

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        parts = [message for message in messages if isinstance(message, StagedPart)]
        if not any(part.staged.row_count for part in parts):
            return
        query = parts[0].query
        metadata = {
            **(self._options.json_object("metadata") or {}),
            "spark": {"query": query, "batch": batchId},
        }
        transaction = resume(
            self._dataset,
            parts[0].snapshot_id,
            metadata,
            idempotency_key=(f"spark:{query}", str(batchId)),
        )
        with transaction:
            transaction.add(*(part.staged for part in parts))
            snapshot = transaction.commit()
        if any(part.attempt for part in parts) and snapshot.id == transaction.snapshot_id:
            discard_unreferenced(transaction.stager, snapshot.files)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        for part in messages:
            if isinstance(part, StagedPart):
                self._stager.discard(part.staged.files)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_dataset": None}


@dataclass(frozen=True)
class FilesPartition(InputPartition):
    """The files one task reads."""

    scan: Scan


def packed(scan: Scan) -> Iterator[Scan]:
    """Cut a scan into tasks of a good size: whole files, small ones together, in the order of history."""
    part: list[Manifest] = []
    size = 0
    for manifest in scan.manifests:
        for file in manifest.files:
            cost = file.size_bytes + OPENING_COSTS
            if part and size + cost > TASK_BYTES:
                yield replace(scan, manifests=part)
                part, size = [], 0
            part.append(msgspec.structs.replace(manifest, files=(file,), metadata={}))
            size += cost
    if part:
        yield replace(scan, manifests=part)


def spark_batches(scan: Scan, schema: StructType) -> Iterator[pa.RecordBatch]:
    """The rows of a scan's files as batches of exactly the schema Spark expects."""
    wanted = arrow_schema(schema)
    for file in scan.files:
        row = 0
        for chunk in decode_file(scan.store, file, scan.components):
            yield conformed(chunk, wanted, row)
            row += len(chunk)


def conformed(chunk: Chunk, wanted: pa.Schema, first_row: int) -> pa.RecordBatch:
    """A chunk with just the wanted columns; one it does not have is null."""
    names = wanted.names
    if isinstance(chunk, list):
        records = [{name: record.get(name) for name in names} for record in chunk]
        return to_batch(records, wanted, first_row=first_row, from_json=True)
    here = chunk.select([name for name in names if name in chunk.schema.names])
    return to_batch(here, wanted, first_row=first_row)


@dataclass(frozen=True)
class StagedPart(WriterCommitMessage):
    """What one task staged, for which snapshot, and which query it belongs to."""

    snapshot_id: str
    query: str
    staged: Staged
    attempt: int
