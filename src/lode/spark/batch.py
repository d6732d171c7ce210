"""Batch reads and writes of ``format("lode")``, as Spark's interfaces require."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceReader

from lode.read.change_scan import ChangeScan, with_change
from lode.read.incremental import CHANGE
from lode.spark.filters import conditions, together
from lode.spark.options import Options, dataset_of, file_options, refuse_choosing, removal_option
from lode.spark.read import pinned, planned
from lode.spark.replacement import Replacement, refuse_without_overwrite, replacement_of
from lode.spark.resume import Job, may_be_committed, resume
from lode.spark.schema import (
    arrow_schema,
    check_names,
    projected,
    scan_schema,
    spark_schema,
    written_schema,
)
from lode.spark.splits import BATCH_ROWS, SPLIT_BYTES, PieceReader, Split, plan_splits
from lode.spark.staging import discard_unreferenced
from lode.spark.stream import STREAM_OPTIONS
from lode.spark.write import TaskResult, begin, commit, stage_task

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import Filter, InputPartition, WriterCommitMessage
    from pyspark.sql.types import StructType


class BatchWriter(DataSourceArrowWriter):
    """Made once, at the driver, when a job is planned. Tasks and the commit get pickled copies."""

    def __init__(self, given: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        self._options = Options(given)
        refuse_choosing(self._options)
        self._metadata = self._options.json_object("metadata")
        self._key = self._options.key("idempotencyKey")
        evolve = self._options.flag("mergeSchema")
        dataset = dataset_of(self._options)
        self._replacement: Replacement | None = None
        if not overwrite:
            refuse_without_overwrite(self._options)
        with begin(
            dataset,
            schema,
            self._metadata,
            idempotency_key=self._key,
            evolve=evolve,
            **file_options(self._options),
        ) as probe:
            self._committed_before = probe.replayed is not None
            self._job = Job.of(probe, written_schema(schema), evolve=evolve)
            if overwrite:
                self._replacement = replacement_of(self._options, dataset, self._job.stager, self._job.schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskResult:  # type: ignore[override]
        # Nothing is pulled, so nothing is computed, for a job whose key is in history already.
        rows = () if self._committed_before else iterator
        return stage_task(self._job.stager, rows, self._replacement.check if self._replacement else None)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        if self._committed_before:
            return
        if self._replacement is not None:
            self._replacement.commit(
                dataset_of(self._options), self._job, _results(messages), self._metadata, self._key
            )
            return
        transaction = resume(
            dataset_of(self._options),
            self._job.stager.snapshot_id,
            self._metadata,
            idempotency_key=self._key,
            job=self._job,
        )
        commit(transaction, _results(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        # Spark also aborts when the commit itself raised, which may have been after the swap.
        if not may_be_committed(self._job.stager):
            discard_unreferenced(self._job.stager)


def _results(messages: Sequence[WriterCommitMessage | None]) -> list[TaskResult]:
    return [message for message in messages if isinstance(message, TaskResult)]


class BatchReader(DataSourceReader):
    """Plans at the driver: files that the filters rule out are given to no task."""

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        self._options = Options(given)
        dataset = dataset_of(self._options)
        self._target = arrow_schema(schema)
        self._reader = PieceReader(
            dataset.store,
            dataset.components,
            self._target,
            batch_rows=self._options.number("batchRows") or BATCH_ROWS,
        )
        # Spark refuses a reader that takes filters while its switch for that, off by default, is off. It
        # recognises one by this method not being its own; ours says it is, and without the switch is not
        # called: filters are then Spark's alone, and only the pruning is lost.
        self.pushFilters = _Pushdown(self)  # type: ignore[method-assign]

    def take(self, filters: list[Filter]) -> list[Filter]:
        """Use the filters that can be expressed. Spark applies all again, so pruning need not be exact."""
        # What happened to a row is in no file.
        found = [one for one in conditions(filters, self._target) if CHANGE not in one.columns]
        self._reader = replace(self._reader, conditions=tuple(found))
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        scan = planned(dataset_of(self._options), self._options)
        check_names(scan, self._target.names)
        return plan_splits(
            scan,
            together(self._reader.conditions, self._target.names),
            self._target,
            split_bytes=self._options.size("splitBytes", SPLIT_BYTES),
            splittable=self._reader.splittable,
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Split)
        return self._reader.read(partition.pieces)


class _Pushdown:
    """Calls ``take`` of its reader, with the attributes of the method it replaces."""

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self, reader: BatchReader) -> None:
        self._reader = reader

    def __call__(self, filters: list[Filter]) -> list[Filter]:
        return self._reader.take(filters)


def schema_of(given: Mapping[str, str]) -> tuple[StructType, dict[str, str]]:
    """Return the schema of a read, and the options that pin later reads to the same snapshots."""
    options = Options(given, also=STREAM_OPTIONS)
    dataset = dataset_of(options)
    chosen_now = pinned(dataset, options)
    values = {**options.values, **chosen_now}
    if "since" not in options:
        values.pop("onremoval", None)  # for a stream, which has no range yet
    scan = planned(dataset, Options(values, also=STREAM_OPTIONS))
    schema = scan_schema(scan, merge=options.flag("mergeSchema"))
    if removal_option(options) == "report" and not isinstance(scan, ChangeScan):
        schema = with_change(schema, dataset.id)
    chosen = projected(schema, options.names("columns"), dataset.id)
    return spark_schema(chosen), chosen_now
