"""Batch reads and writes of ``format("lode")``, in the shape Spark asks for."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceReader

from lode.errors import InvalidOptionError
from lode.spark.options import Options, dataset_of
from lode.spark.resume import new_snapshot_id, resume, stager_of
from lode.spark.staging import TARGET_FILE_BYTES, Shape, discard_unreferenced
from lode.spark.write import TaskResult, check_columns, commit, stage_task

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import Filter, InputPartition, WriterCommitMessage
    from pyspark.sql.types import StructType


class BatchWriter(DataSourceArrowWriter):
    """Made once, at the driver, where a job is planned; its pickle goes to the tasks and to the commit."""

    def __init__(self, given: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise InvalidOptionError(
                "mode 'overwrite' would rewrite history, which is immutable: use mode('append'), or write to "
                "another dataset"
            )
        self._options = Options(given)
        self._schema = schema
        dataset = dataset_of(self._options)
        self._stager = stager_of(dataset, new_snapshot_id(), self._options.text("timestampColumn"))
        self._shape = Shape(
            self._options.size("targetFileBytes", TARGET_FILE_BYTES), tuple(self._options.names("sortBy"))
        )
        check_columns(self._stager, schema, self._shape.sort_by)
        self._metadata = self._options.json_object("metadata")
        self._key = self._options.key("idempotencyKey")
        with dataset.transaction(self._metadata, idempotency_key=self._key) as probe:
            self._committed_before = probe.replayed is not None

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskResult:
        # Nothing is pulled, so nothing is computed, for a job whose key is in history already.
        return stage_task(self._stager, self._shape, () if self._committed_before else iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        transaction = resume(
            dataset_of(self._options), self._stager.snapshot_id, self._metadata, idempotency_key=self._key
        )
        if not self._committed_before:
            commit(transaction, _results(messages), self._schema)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        discard_unreferenced(self._stager)


def _results(messages: Sequence[WriterCommitMessage | None]) -> list[TaskResult]:
    return [message for message in messages if isinstance(message, TaskResult)]
