"""Run the batches of a pipeline.

The position of a pipeline is stored in the snapshots it makes, and nowhere else. Every commit of a pipeline
has a key that names the one before it. Of two runners only the first commits there, be it a batch or a
refresh. So there is no checkpoint to keep or to lose.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from lode.errors import InvalidOptionError, NoSnapshotsError, SnapshotConflictError
from lode.lineage.position import BEGINNING, Frontier, plan_between
from lode.lineage.record import Input, Lineage, input_of, lineage_of
from lode.lineage.touched import check_kind, column_kind, kind_name
from lode.pipeline.batch import Batch
from lode.pipeline.expectation import counts_of
from lode.pipeline.inputs import Inputs, Last, Positions, Work, values_in
from lode.pipeline.selection import Selection, parse_value
from lode.pipeline.sink import OutsideError, SinkWriter
from lode.pipeline.step import INPUT
from lode.read.incremental import CHANGE, INSERT
from lode.read.which import ExactId
from lode.snapshot import CommitReport, Snapshot
from lode.spark.schema import known_schema, written_schema
from lode.spark.session import functions_of
from lode.spark.workers import TaskWorkers
from lode.spark.write import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from lode.pipeline.definition import PipelineDefinition
    from lode.pipeline.inputs import OpenInput
    from lode.spark.dataset_ref import DatasetRef

logger = logging.getLogger("lode.spark")

_Tables: TypeAlias = "dict[str, tuple[DatasetRef, Input]]"
# How often a batch is done again because another runner was first.
_MAX_ATTEMPTS: Final = 10


class Runner:
    """A running pipeline: its inputs, its position and its session."""

    def __init__(self, pipeline: PipelineDefinition, spark: SparkSession) -> None:
        pipeline.check()
        self._pipeline = pipeline
        self._spark = spark
        self._steps = pipeline.compiled()
        self._digest = pipeline.digest
        self._inputs = Inputs(pipeline)
        self._sink = self._inputs.sink
        self._writer = SinkWriter(pipeline, self._sink)
        self._sink_has_columns = False
        self._waits_for = ""
        self._warned = False
        self._begun = False
        if pipeline.mode == "batch":
            for each in self._inputs.each.values():
                if each.exists:
                    each.frontier.stop_at_head()

    def next(self, number: int) -> Batch | None:
        """Do the next batch; None if nothing is waiting."""
        began = time.monotonic()
        if not self._is_ready():
            return None
        while True:
            up_to = self._inputs.advance()
            if up_to == (self._inputs.seen or self._inputs.after):
                return None
            tables = self._newest_tables()
            if tables is None:
                return None
            work = self._inputs.work(up_to, TaskWorkers(self._spark))
            if not (self._has_columns() and self._inputs.may_skip(work)):
                return self._do(work, tables, number, began)
            self._inputs.seen = up_to

    def refresh(self, since: Any = None, until: Any = None) -> Batch | None:
        """Compute all output again, or that of a range of values; None if there is nothing to compute."""
        began = time.monotonic()
        self._inputs.refuse_shared()
        for _ in range(_MAX_ATTEMPTS):
            waiting = self._inputs.waiting_for
            if waiting is not None:
                self._wait_for(waiting.ref)
                return None
            tables = self._newest_tables()
            if tables is None:
                return None
            work = self._all() if since is None and until is None else self._range(since, until)
            if work is None:
                return None
            batch = self._do(work, tables, 0, began)
            if batch is None or not batch.replayed:
                return batch
        raise _busy(self._pipeline.name)

    def _all(self) -> Work:
        heads = self._inputs.heads()
        after, _ = self._inputs.starting_positions()
        plans = [
            each.dataset.plan(as_of=ExactId(heads[name].snapshot)) for name, each in self._inputs.each.items()
        ]
        rows, size = sum(plan.row_count for plan in plans), sum(plan.size_bytes for plan in plans)
        allowed = None
        if self._inputs.column is not None and len(plans) == 1 and rows:
            allowed = values_in(plans[0], self._inputs.column)
        return Work("recompute", after, heads, rows, size, Selection(), allowed)

    def _range(self, since: Any, until: Any) -> Work | None:
        """A range of values as they were at the positions of now, so that what is waiting comes once."""
        column = self._inputs.column
        if column is None:
            raise InvalidOptionError(
                f"pipeline {self._pipeline.name!r} has no recompute_by, so since and until name nothing: set "
                "it, or compute all of it again"
            )
        at = self._inputs.after
        if set(at) != set(self._inputs.each) or not all(each.snapshot for each in at.values()):
            logger.info("pipeline %s has computed nothing yet", self._pipeline.name)
            return None
        first = next(iter(self._inputs.each.values()))
        scan = first.dataset.plan(as_of=ExactId(at[first.name].snapshot))
        kind = column_kind(scan, column)
        bounds = [
            None if value is None else parse_value(value, kind, name)
            for name, value in (("since", since), ("until", until))
        ]
        first_value, last_value = bounds
        if None not in bounds and first_value > last_value:  # type: ignore[operator]  # of one kind
            raise InvalidOptionError(f"since is {since!r}, which comes after until, {until!r}: swap them")
        return Work("recompute", at, at, 0, 0, Selection(column, None, first_value, last_value))

    def _is_ready(self) -> bool:
        """Whether all inputs have snapshots, and the positions in them are known."""
        waiting = self._inputs.waiting_for
        if waiting is not None:
            self._wait_for(waiting.ref)
            if self._pipeline.mode == "batch" or not waiting.ref.exists:
                if not self._begun:
                    self._begin()
                return False
            waiting.exists = True
            waiting.open()
            return self._is_ready()
        if not self._begun:
            self._begin()
        return True

    def _begin(self) -> None:
        """Store starting positions other than the first snapshot, so that the next run begins there too."""
        self._begun = True
        positions, to_store = self._inputs.starting_positions()
        if not to_store:
            self._inputs.after = positions
            return
        columns = None
        there = all(position != BEGINNING for position in positions.values())
        if there and (tables := self._newest_tables()) is not None:
            columns = self._columns(Work("position", positions, positions), tables)
        lineage = self._lineage(positions, positions, {})
        key = (
            self._name,
            f"beginning {'' if self._inputs.last.snapshot is None else self._key()[1]}".strip(),
        )
        snapshot = self._writer.position(lineage.as_metadata(), key, columns)
        self._take(snapshot)

    def _do(self, work: Work, tables: _Tables, number: int, began: float) -> Batch:
        lineage = self._lineage(work.after, work.up_to, tables, all_new=work.selection == Selection())
        before = self._inputs.last
        for remaining in reversed(range(_MAX_ATTEMPTS)):
            try:
                snapshot = self._commit(work, tables, lineage)
                break
            except SnapshotConflictError:
                # Another writer has committed to the quarantine dataset meanwhile, perhaps another runner.
                self._inputs.find_last()
                found = self._inputs.last.snapshot
                if found is not None and self._inputs.last.anchor != before.anchor:
                    snapshot = Snapshot(found.manifest, CommitReport(replayed=True))
                    break
                if not remaining:
                    raise
        self._waits_for = ""
        replayed = snapshot.commit is not None and snapshot.commit.replayed
        self._take(snapshot)
        made = self._inputs.last.lineage
        assert made is not None
        recomputed = None if work.selection is None or replayed else work.selection.shown()
        batch = Batch(
            number,
            snapshot,
            made.inputs,
            work.rows,
            work.size_bytes,
            snapshot.row_count,
            time.monotonic() - began,
            replayed,
            work.kind,
            None if recomputed is None else tuple(recomputed),
            counts_of(snapshot),
            made.changed_after,
        )
        self._report(batch)
        return batch

    def _commit(self, work: Work, tables: _Tables, lineage: Lineage) -> Snapshot:
        metadata, key = lineage.as_metadata(), self._key()
        if work.kind == "position":
            # Such as an expiry: there is nothing to compute, only the position advances.
            return self._writer.position(metadata, key, self._columns(work, tables))
        frames = self._frames(work)
        output = self._output(frames, tables)
        if work.kind == "merge":
            return self._writer.merge(output, metadata, key)
        selection = work.selection
        allowed = work.allowed or selection
        if allowed is not None:
            self._check_output(output, frames, tables, allowed)
        if selection == Selection() and self._pipeline.write == "merge":
            self._check_unique(output)
        try:
            if selection is None:
                return self._writer.append(output, metadata, key, allowed)
            return self._writer.replace(output, selection, metadata, key, allowed)
        except OutsideError as outside:
            assert allowed is not None
            raise self._outside(outside, frames, tables, allowed) from None

    def _lineage(
        self, after: Positions, up_to: Positions, tables: _Tables, *, all_new: bool = False
    ) -> Lineage:
        return Lineage(
            self._pipeline.name,
            self._inputs.lineage_inputs(after, up_to),
            {name: read for name, (_, read) in tables.items()},
            self._digest,
            None if all_new else changed_after(self._inputs.last, self._digest),
        )

    def _take(self, snapshot: Snapshot) -> None:
        """Go on after a snapshot of this pipeline."""
        lineage = lineage_of(snapshot)
        if lineage is None:
            raise InvalidOptionError(f"{snapshot} was committed under a pipeline's key, but has no lineage")
        self._inputs.take(Last(snapshot.id, snapshot, lineage))

    def _report(self, batch: Batch) -> None:
        if batch.steps_changed_after is not None and not self._warned:
            self._warned = True
            logger.warning(
                "pipeline %s: the steps changed since snapshot %s: earlier rows were made by other steps; "
                "--full-refresh computes them again",
                self._pipeline.name,
                batch.steps_changed_after,
            )
        for name, counts in batch.expectations.items():
            if counts.failed:
                logger.warning(
                    "pipeline %s: %s of %s rows fail expectation %s (%s)",
                    self._pipeline.name,
                    counts.failed,
                    counts.failed + counts.passed,
                    name,
                    counts.on_fail,
                )

    def _newest_tables(self) -> _Tables | None:
        """The tables and their newest snapshots; None if one of them has nothing to read yet."""
        found = {}
        for name, ref in self._pipeline.table_refs.items():
            try:
                dataset = ref.open()
                newest = input_of(dataset, BEGINNING, Frontier(dataset).head())
                plan = dataset.plan(as_of=ExactId(newest.up_to.snapshot))
            except NoSnapshotsError:
                plan = None
            if plan is None or not (plan.row_count or known_schema(plan)):
                self._wait_for(ref)
                return None
            found[name] = (ref, newest)
        return found

    def _wait_for(self, ref: DatasetRef) -> None:
        """Log once that an input has nothing to read yet."""
        if self._waits_for != ref.dataset:
            self._waits_for = ref.dataset
            logger.warning("pipeline %s waits: %r has no rows yet", self._pipeline.name, ref)

    def _frames(self, work: Work) -> dict[str, DataFrame]:
        """The rows of the inputs."""
        if work.kind != "recompute":
            return {name: self._new_rows(each, work) for name, each in self._inputs.each.items()}
        assert work.selection is not None
        where = work.selection.condition(self._spark)
        return {
            name: each.ref.read(self._spark, as_of=work.up_to[name].snapshot, where=where)
            for name, each in self._inputs.each.items()
        }

    def _new_rows(self, each: OpenInput, work: Work) -> DataFrame:
        after, up_to = work.after[each.name], work.up_to[each.name]
        if after.snapshot:
            return each.ref.read(
                self._spark, since=after.snapshot, as_of=up_to.snapshot, on_removal=each.on_removal
            )
        frame = each.ref.read(self._spark, as_of=up_to.snapshot)
        if each.on_removal != "report":
            return frame
        return frame.withColumn(CHANGE, functions_of(self._spark).lit(INSERT))

    def _output(self, frames: dict[str, DataFrame], tables: _Tables) -> DataFrame:
        frame = None if len(frames) > 1 else next(iter(frames.values()))
        named = {**frames, **self._read(tables)}
        for step in self._steps:
            frame = step.run(frame, named)
        assert frame is not None
        return frame

    def _read(self, tables: _Tables) -> dict[str, DataFrame]:
        return {
            name: ref.read(self._spark, as_of=read.up_to.snapshot) for name, (ref, read) in tables.items()
        }

    def _columns(self, work: Work, tables: _Tables) -> StructType | None:
        """The columns of the output, for a sink that has none yet; None if they need not or cannot be known.

        Readers of the sink need them, also before it has rows.
        """
        if self._has_columns():
            return None
        for name, each in self._inputs.each.items():
            scan = plan_between(each.dataset, BEGINNING, work.up_to[name])
            if known_schema(scan) is None:
                return None
        frames = {name: self._new_rows(each, work).limit(0) for name, each in self._inputs.each.items()}
        return self._output(frames, tables).schema

    def _has_columns(self) -> bool:
        if not self._sink_has_columns:
            self._sink_has_columns = self._sink.exists and self._sink.definition.columns is not None
        return self._sink_has_columns

    def _check_output(
        self, output: DataFrame, frames: dict[str, DataFrame], tables: _Tables, selection: Selection
    ) -> None:
        """Refuse output without the column by which it is replaced, or with another kind of it."""
        column = selection.column
        if column is None:
            return
        schema = written_schema(output.schema)
        if column not in schema.names:
            step = self._blamed(frames, tables, lambda frame: column not in frame.columns)
            raise InvalidOptionError(
                f"recompute_by is {column!r}, which step {step!r} drops: keep it in the output"
            )
        found = kind_name(check_kind(schema.field(column).type, column, "the output"))
        for name, frame in frames.items():
            id = self._inputs.each[name].dataset.id
            read = written_schema(frame.schema).field(column).type
            wanted = kind_name(check_kind(read, column, f"dataset {id!r}"))
            if found != wanted:
                raise InvalidOptionError(
                    f"recompute_by is {column!r}, which is {wanted} in dataset {id!r} and {found} in the "
                    "output: keep its type"
                )

    def _check_unique(self, output: DataFrame) -> None:
        """Refuse two rows of one key, as a merge does."""
        twice = output.groupBy(*map(quoted, self._pipeline.on)).count().where("count > 1").first()
        if twice is not None:
            values = ", ".join(f"{name} = {twice[name]!r}" for name in self._pipeline.on)
            raise InvalidOptionError(
                f"all output at once has several rows of one key ({values}): keep one of them in a step"
            )

    def _outside(
        self, outside: OutsideError, frames: dict[str, DataFrame], tables: _Tables, selection: Selection
    ) -> InvalidOptionError:
        inside = selection.condition(self._spark)
        assert inside is not None

        def leaves(frame: DataFrame) -> bool:
            return selection.column in frame.columns and frame.where(~inside).first() is not None

        step = self._blamed(frames, tables, leaves)
        return InvalidOptionError(
            f"step {step!r} made {outside.count:,} rows of another {selection.column} than the rows that it "
            f"was given, such as {outside.example}: the output of a value of recompute_by must have this "
            "value; nothing was written"
        )

    def _blamed(self, frames: dict[str, DataFrame], tables: _Tables, is_wrong: Any) -> str:
        """The name of the first step whose output is wrong."""
        frame = None if len(frames) > 1 else next(iter(frames.values()))
        named = {**frames, **self._read(tables)}
        for step in self._steps:
            frame = step.run(frame, named)
            if is_wrong(frame):
                return step.name
        return ", ".join(step.name for step in self._steps) or INPUT

    @property
    def _name(self) -> str:
        return f"pipeline:{self._pipeline.name}"

    def _key(self) -> tuple[str, str]:
        return self._name, f"after {self._inputs.last.anchor or 0}"


def changed_after(last: Last, digest: str) -> str | None:
    """The newest snapshot of a pipeline that other steps than those with this digest made."""
    if last.lineage is None or last.snapshot is None:
        return None
    if last.lineage.steps and last.lineage.steps != digest:
        return last.snapshot.id
    return last.lineage.changed_after


def _busy(name: str) -> InvalidOptionError:
    return InvalidOptionError(f"other runners of pipeline {name!r} commit all the time: stop them first")
