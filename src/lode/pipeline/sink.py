"""Write the output of a batch: checked, counted and staged in one pass over its rows.

Tasks stage the rows of the sink, and those of the quarantine dataset beside them. The quarantine dataset is
committed first. If the process dies before the sink is, the next attempt replaces what this one has put
there, so that a row is in one of the two datasets, once.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import ArrayType, StringType

from lode.errors import ExpectationFailedError, InvalidOptionError
from lode.lineage.record import lineage_of
from lode.pipeline.expectation import FAILED, KEY, MAX_EXPECTATIONS, OUTSIDE, Counts, bits_of, with_failed
from lode.spark.change import merge
from lode.spark.options import Options, file_options
from lode.spark.replacement import Replacement
from lode.spark.resume import Job, may_be_committed, resume
from lode.spark.schema import written_schema
from lode.spark.session import functions_of
from lode.spark.staging import discard_unreferenced, in_utc, stage_batches
from lode.spark.workers import attempt_number
from lode.spark.write import TaskResult, answer, begin, in_tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from lode.dataset import Dataset
    from lode.pipeline.definition import PipelineDefinition
    from lode.pipeline.selection import Selection
    from lode.snapshot import Snapshot
    from lode.write.stage import Staged, Stager
    from lode.write.transaction import Transaction

# Columns of a quarantine dataset: the checks that a row failed, and the batch that it is of.
REASONS: Final = "_failed"
BATCH: Final = "_batch"
# Quarantined rows of a task that are held in memory; more are put on disk.
_HELD_BYTES: Final = 16 << 20
_EXAMPLE_LENGTH: Final = 300


class OutsideError(Exception):
    """Some rows of the output are outside of what is replaced."""

    def __init__(self, count: int, example: str) -> None:
        super().__init__(example)
        self.count = count
        self.example = example


class SinkWriter:
    """Writes the batches of a pipeline.

    Args:
        pipeline: The pipeline.
        sink: Its sink, opened.
    """

    def __init__(self, pipeline: PipelineDefinition, sink: Dataset) -> None:
        self._pipeline = pipeline
        self._sink = sink
        self._options = Options(pipeline.sink_ref.given)
        self._expect = pipeline.expect
        self._quarantine = pipeline.quarantine_ref

    def append(
        self, frame: DataFrame, metadata: dict[str, Any], key: tuple[str, str], allowed: Selection | None
    ) -> Snapshot:
        """Add the rows of a frame.

        Raises:
            OutsideError: The frame has other rows than those that are allowed.
        """
        return self._write(frame, metadata, key, None, allowed)

    def replace(
        self,
        frame: DataFrame,
        selection: Selection,
        metadata: dict[str, Any],
        key: tuple[str, str],
        allowed: Selection | None,
    ) -> Snapshot:
        """Replace a selection of rows by those of a frame.

        Raises:
            OutsideError: The frame has other rows than those that are allowed.
        """
        return self._write(frame, metadata, key, selection, allowed)

    def position(
        self, metadata: dict[str, Any], key: tuple[str, str], columns: StructType | None
    ) -> Snapshot:
        """Commit a snapshot without rows, whose lineage has the position."""
        with (
            self._sink.transaction(metadata, idempotency_key=key, on_conflict="append")
            if columns is None
            else begin(self._sink, columns, metadata, idempotency_key=key, on_conflict="append")
        ) as transaction:
            return transaction.commit()

    def merge(self, frame: DataFrame, metadata: dict[str, Any], key: tuple[str, str]) -> Snapshot:
        """Update rows by their keys, and insert the others."""
        with self._begin(frame.schema, key) as probe:
            if probe.replayed is not None:
                return probe.replayed
        if not (self._sink.exists and self._sink.definition.columns is not None):
            # A merge needs columns to compare.
            self.position({}, (key[0], "columns"), frame.schema)
        checked: DataFrame | None = None
        try:
            if self._expect:
                checked = with_failed(frame, self._expect, None).persist()
                metadata |= self._without_sink(checked, frame.schema, metadata, key)
                failed = functions_of(frame.sparkSession).col(FAILED)
                keep = failed.bitwiseAND(bits_of(self._expect, "drop", "quarantine")) == 0
                frame = checked.where(keep).drop(FAILED)
            change = merge(
                self._sink,
                frame,
                metadata,
                on=list(self._pipeline.on),
                idempotency_key=key,
                on_conflict="redo",
            )
        finally:
            if checked is not None:
                checked.unpersist()
        # Without a change there is no snapshot, and the position has to move.
        return change.snapshot or self.position(metadata, key, None)

    def _begin(self, schema: StructType, key: tuple[str, str] | None) -> Transaction:
        return begin(
            self._sink,
            schema,
            idempotency_key=key,
            on_conflict="append",
            evolve=self._options.flag("mergeSchema"),
            **file_options(self._options),
        )

    def _write(
        self,
        frame: DataFrame,
        metadata: dict[str, Any],
        key: tuple[str, str],
        selection: Selection | None,
        allowed: Selection | None,
    ) -> Snapshot:
        evolve = self._options.flag("mergeSchema")
        with self._begin(frame.schema, key) as probe:
            if probe.replayed is not None:
                return probe.replayed
            job = Job.of(probe, written_schema(frame.schema), evolve=evolve)
        replacement = None if selection is None else _replacement(self._sink, selection)
        quarantine = self._open_quarantine(frame.schema, key, selection)
        inside = None if allowed is None else allowed.condition(frame.sparkSession)
        is_checked = bool(self._expect) or inside is not None
        rows = with_failed(frame, self._expect, inside) if is_checked else frame
        work = _InTask(
            job.stager.with_files(sort_by=()),
            None if quarantine is None else quarantine.job.stager,
            tuple(self._expect),
            bits_of(self._expect, "drop", "quarantine"),
            bits_of(self._expect, "quarantine"),
            bits_of(self._expect, "fail") | OUTSIDE,
            key[1],
        )
        try:
            results: list[_Result] = in_tasks(rows, job.stager, work)
            metadata = metadata | self._counted(results)
            if quarantine is not None:
                quarantine.commit(metadata, results)
        except BaseException:
            discard_unreferenced(job.stager)
            if quarantine is not None:
                quarantine.discard()
            raise
        done = [TaskResult(result.staged, result.attempt) for result in results if result.staged is not None]
        snapshot = self._commit(job, replacement, done, metadata, key)
        if snapshot.id != job.stager.snapshot_id:
            discard_unreferenced(job.stager)  # another runner was first
        elif any(result.attempt for result in done):
            discard_unreferenced(job.stager, snapshot.files)
        return snapshot

    def _commit(
        self,
        job: Job,
        replacement: Replacement | None,
        done: list[TaskResult],
        metadata: dict[str, Any],
        key: tuple[str, str],
    ) -> Snapshot:
        if replacement is not None:
            change = replacement.commit(self._sink, job, done, metadata, key)
            assert change.snapshot is not None
            return change.snapshot
        id = job.stager.snapshot_id
        with resume(self._sink, id, metadata, idempotency_key=key, job=job) as transaction:
            transaction.add(*(result.staged for result in done))
            return transaction.commit()

    def _without_sink(
        self, checked: DataFrame, schema: StructType, metadata: dict[str, Any], key: tuple[str, str]
    ) -> dict[str, Any]:
        """Count the checks of a frame and quarantine its rows, without writing to the sink."""
        quarantine = self._open_quarantine(schema, key, None)
        with self._begin(schema, None) as probe:
            order = probe.stager
        work = _InTask(
            None,
            None if quarantine is None else quarantine.job.stager,
            tuple(self._expect),
            bits_of(self._expect, "drop", "quarantine"),
            bits_of(self._expect, "quarantine"),
            bits_of(self._expect, "fail") | OUTSIDE,
            key[1],
        )
        try:
            results: list[_Result] = in_tasks(checked, order, work)
            counted = self._counted(results)
            if quarantine is not None:
                quarantine.commit(metadata | counted, results)
        except BaseException:
            if quarantine is not None:
                quarantine.discard()
            raise
        return counted

    def _counted(self, results: list[_Result]) -> dict[str, Any]:
        """The counts as metadata; raises if rows fail what must not fail."""
        total = sum(result.rows for result in results)
        failed = [sum(result.failed.get(bit, 0) for result in results) for bit in range(MAX_EXPECTATIONS + 1)]
        examples = {bit: text for result in results for bit, text in result.examples.items()}
        if failed[MAX_EXPECTATIONS]:
            raise OutsideError(failed[MAX_EXPECTATIONS], examples[MAX_EXPECTATIONS])
        counts = {}
        for bit, (name, expectation) in enumerate(self._expect.items()):
            if failed[bit] and expectation.on_fail == "fail":
                raise ExpectationFailedError(
                    f"{failed[bit]:,} of {total:,} rows fail expectation {name!r} ({expectation.check}), "
                    f"such as {examples[bit]}: nothing was written; correct the input or the steps",
                    expectation=name,
                    failed=failed[bit],
                )
            counts[name] = Counts(total - failed[bit], failed[bit], expectation.on_fail).as_dict()
        return {KEY: counts} if counts else {}

    def _open_quarantine(
        self, schema: StructType, key: tuple[str, str], selection: Selection | None
    ) -> _Quarantine | None:
        if self._quarantine is None:
            return None
        for name in (REASONS, BATCH):
            if name in schema.names:
                raise InvalidOptionError(
                    f"the output has a column {name!r}, which the quarantine dataset adds: rename it"
                )
        columns = type(schema)([*(_nullable(each) for each in schema.fields)])
        columns.add(REASONS, ArrayType(StringType(), False)).add(BATCH, StringType())
        dataset = self._quarantine.open()
        if not dataset.exists:
            with begin(dataset, columns, idempotency_key=(key[0], "columns"), on_conflict="append") as first:
                first.commit()
        self._check_own(dataset)
        dataset.settle()  # a commit of a dead attempt may be decided and not be visible yet
        base = dataset.latest()
        with begin(dataset, columns, evolve=True, **file_options(Options(self._quarantine.given))) as probe:
            job = Job.of(probe, written_schema(columns), evolve=True)
        known = dataset.schema
        if known is None:
            raise InvalidOptionError(f"quarantine dataset {dataset.id!r} has no schema: name another one")
        where: Any = pc.field(BATCH) == key[1]
        if selection is not None:
            selected = selection.expression(known)
            where = None if selected is None else where | selected
        return _Quarantine(dataset, job, base.id, where)

    def _check_own(self, quarantine: Dataset) -> None:
        """Refuse a quarantine dataset with rows of others: a batch may replace them."""
        name = self._pipeline.name
        lineages = (lineage_of(snapshot) for snapshot in quarantine.history())
        newest = next((lineage for lineage in lineages if lineage is not None), None)
        if newest is not None and newest.made_by != name:
            raise InvalidOptionError(
                f"pipeline {name!r} puts rows aside in dataset {quarantine.id!r}, which pipeline "
                f"{newest.made_by!r} writes too: give each a quarantine of its own"
            )
        if quarantine.schema is not None and BATCH not in quarantine.schema.names:
            raise InvalidOptionError(
                f"dataset {quarantine.id!r} is no quarantine of pipeline {name!r}: name a new one"
            )


def _nullable(column: Any) -> Any:
    """A column that may be null: rows are quarantined also for nulls that the sink does not take."""
    return type(column)(column.name, column.dataType, True, column.metadata)


def _replacement(dataset: Dataset, selection: Selection) -> Replacement | None:
    """What replaces a selection of rows of a dataset as it is now; None if it has no rows."""
    base = dataset.latest() if dataset.exists else None
    if base is None:
        return None
    schema = dataset.schema
    if schema is None:
        if dataset.plan().files:
            raise InvalidOptionError(
                f"dataset {dataset.id!r} has no schema, by which its rows could be replaced: write to a "
                "dataset with codec parquet"
            )
        return None
    return Replacement("static", selection.expression(schema), "redo", base.id, None)


@dataclass(frozen=True, slots=True)
class _Quarantine:
    """The quarantine dataset in one batch."""

    dataset: Dataset
    job: Job
    # Its newest snapshot when the batch began. Whatever came after it is a conflict: another runner may have
    # done this batch, and later ones.
    base: str
    where: pc.Expression | None

    def commit(self, metadata: Mapping[str, Any], results: list[_Result]) -> None:
        """Replace what earlier attempts at this batch have put there; with a selection, all of its rows."""
        done = [
            TaskResult(result.quarantined, result.attempt)
            for result in results
            if result.quarantined is not None
        ]
        if done or self.dataset.count(where=self.where):
            replacement = Replacement("static", self.where, "raise", self.base, None)
            replacement.commit(self.dataset, self.job, done, dict(metadata), None)

    def discard(self) -> None:
        """Remove what was staged, unless a commit of it may have landed."""
        if not may_be_committed(self.job.stager):
            discard_unreferenced(self.job.stager)


@dataclass(slots=True)
class _Result:
    """What a task staged and counted. Pickles."""

    staged: Staged | None = None
    quarantined: Staged | None = None
    attempt: int = 0
    rows: int = 0
    # By the number of the check.
    failed: dict[int, int] = field(default_factory=dict)
    examples: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _InTask:
    """Stages the rows of a task that pass, and those that are quarantined. Pickles."""

    stager: Stager | None
    quarantine: Stager | None
    names: tuple[str, ...]
    rejected: int
    quarantined: int
    fatal: int
    batch: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield answer(partial(self._run, batches))

    def _run(self, batches: Iterable[pa.RecordBatch]) -> _Result:
        from pyspark import TaskContext

        context = TaskContext.get()
        task = f"part-{context.partitionId() if context else 0}"
        result = _Result(attempt=attempt_number())
        with tempfile.SpooledTemporaryFile(_HELD_BYTES) as spool:
            spooled = _Spool(spool)
            good = self._passing(map(in_utc, batches), result, spooled.write)
            if self.stager is None:
                for _ in good:
                    pass
            else:
                result.staged = stage_batches(self.stager, good, task=task)
            if spooled.rows:
                assert self.quarantine is not None
                result.quarantined = stage_batches(self.quarantine, spooled.read(), task=task)
        return result

    def _passing(
        self,
        batches: Iterable[pa.RecordBatch],
        result: _Result,
        quarantine: Callable[[pa.RecordBatch], None],
    ) -> Iterator[pa.RecordBatch]:
        """The rows for the sink. Others are counted and quarantined on the way."""
        compute: Any = pc
        for batch in batches:
            result.rows += batch.num_rows
            if FAILED not in batch.schema.names:
                yield batch
                continue
            bits = batch.column(FAILED)
            rows = batch.drop_columns([FAILED])
            if not compute.any(compute.not_equal(bits, 0)).as_py():
                yield rows
                continue
            self._count(bits, rows, result)
            held = _has(bits, self.quarantined)
            if self.quarantined and compute.any(held).as_py():
                quarantine(self._with_reasons(rows.filter(held), bits.filter(held)))
            yield rows.filter(compute.invert(_has(bits, self.rejected)))

    def _count(self, bits: Any, rows: pa.RecordBatch, result: _Result) -> None:
        for number in (*range(len(self.names)), MAX_EXPECTATIONS):
            failing = _has(bits, 1 << number)
            count = pc.sum(failing).as_py() or 0
            if not count:
                continue
            result.failed[number] = result.failed.get(number, 0) + count
            if self.fatal & (1 << number) and number not in result.examples:
                row = rows.filter(failing).slice(0, 1).to_pylist()[0]
                text = json.dumps(row, default=str, ensure_ascii=False)
                result.examples[number] = text[:_EXAMPLE_LENGTH] + "…" * (len(text) > _EXAMPLE_LENGTH)

    def _with_reasons(self, rows: pa.RecordBatch, bits: Any) -> pa.RecordBatch:
        reasons = [
            [name for number, name in enumerate(self.names) if value >> number & 1]
            for value in bits.to_pylist()
        ]
        kind = pa.list_(pa.field("element", pa.string(), nullable=False))
        return rows.append_column(REASONS, pa.array(reasons, kind)).append_column(
            BATCH, pa.array([self.batch] * len(reasons), pa.string())
        )


def _has(bits: Any, mask: int) -> Any:
    compute: Any = pc
    return compute.not_equal(compute.bit_wise_and(bits, pa.scalar(mask, pa.int64())), 0)


class _Spool:
    """Batches that are kept, in memory and on disk, until they are read."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._writer: Any = None
        self.rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        if self._writer is None:
            self._writer = pa.ipc.new_stream(self._file, batch.schema)
        self._writer.write_batch(batch)
        self.rows += batch.num_rows

    def read(self) -> Iterator[pa.RecordBatch]:
        self._writer.close()
        self._file.seek(0)
        yield from pa.ipc.open_stream(self._file)
