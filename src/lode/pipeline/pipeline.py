"""Pipelines: from a dataset through SQL or Python to a dataset, each input snapshot exactly once.

The position of a pipeline is stored in the snapshots it makes, and nowhere else. A batch is committed under
the position at which it began. Two runners of one pipeline can begin at the same position, but only the first
commits there. So there is no checkpoint to keep or to lose.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from lode.errors import InvalidOptionError, NoSnapshotsError, NotFoundError
from lode.lineage.position import BEGINNING, Frontier, Limit, Position, plan_between, starting_position
from lode.lineage.record import Input, Lineage, input_of, lineage_of
from lode.pipeline.expectation import MAX_EXPECTATIONS, Expectation
from lode.pipeline.step import INPUT, Step, compiled_step
from lode.read.incremental import CHANGE, INSERT
from lode.read.which import ExactId
from lode.spark.dataset_ref import DatasetRef, Where, dataset_ref, is_same
from lode.spark.options import STORE_PREFIX, Options, removal_option
from lode.spark.schema import known_schema
from lode.spark.write import begin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from lode.read.scan import Scan
    from lode.snapshot import Snapshot

logger = logging.getLogger("lode.spark")

_Tables: TypeAlias = "dict[str, tuple[DatasetRef, Input]]"

Mode: TypeAlias = Literal["batch", "continuous"]
Write: TypeAlias = Literal["append", "overwrite", "merge"]

SOURCE_OPTIONS: Final = ("startingPosition", "maxSnapshotsPerBatch", "maxBytesPerBatch", "onRemoval")
_RESTART: Final = "start it under another name, from 'earliest' or with a snapshot or tag as startingPosition"


@dataclass(frozen=True, slots=True)
class Batch:
    """What one batch of a pipeline did.

    ``replayed`` means that another runner had committed this batch before; then nothing was written here.
    """

    number: int
    snapshot: Snapshot
    source: Input
    rows_in: int
    bytes_in: int
    rows_out: int
    seconds: float
    replayed: bool

    @property
    def snapshots_in(self) -> int:
        return self.source.snapshots

    def as_dict(self) -> dict[str, Any]:
        """As a line of a log has it."""
        return {
            "batch": self.number,
            "snapshot": self.snapshot.id,
            "after": self.source.after.snapshot,
            "up_to": self.source.up_to.snapshot,
            "snapshots_in": self.snapshots_in,
            "rows_in": self.rows_in,
            "bytes_in": self.bytes_in,
            "rows_out": self.rows_out,
            "seconds": round(self.seconds, 3),
            "replayed": self.replayed,
        }


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A dataset, what is done to it, and the dataset that it becomes.

    Args:
        name: Names the work in the sink's history; another name begins anew.
        source: The dataset whose snapshots are taken in, in order, each once. Beside the options of a dataset
            it takes those of a stream: ``startingPosition``, ``maxSnapshotsPerBatch``, ``maxBytesPerBatch``,
            ``onRemoval``.
        steps: Each is SQL over ``{input}``, what the step before made, and over tables by ``{name}``; or a
            function over a DataFrame, itself or as ``"module:function"``, which is also handed the tables
            that its further parameters name. Other braces in SQL, such as those of JSON, are left alone;
            ``{{name}}`` is the text ``{name}``.
        sink: The dataset that each batch becomes one snapshot of.
        tables: Datasets that are read whole with every batch, to look things up in.
        mode: ``"batch"`` ends when all that was there at the beginning is done, ``"continuous"`` never.
        every: Seconds between looks for something new.
        sources: Several inputs by name, each with a position of its own, instead of ``source``. Steps refer
            to them by ``{name}``; a single one is also ``{input}`` of the first step.
        expect: Checks on the rows of the output, by name.
        quarantine: The dataset for rows that fail a check with ``on_fail="quarantine"``. Default: that of
            the sink with ``_quarantine`` after its name.
        write: ``"append"`` adds the output of new rows. ``"overwrite"`` reads the partitions with new or
            removed rows whole, and replaces the same partitions of the sink. ``"merge"`` updates rows by
            their keys, and inserts others.
        on: The key columns of ``write="merge"``.
        recompute_by: A column of every input and of the output. The output rows of a value depend only on
            the input rows of that value.
    """

    name: str
    source: Where | None = None
    sink: Where = None  # type: ignore[assignment]  # checked below: positional arguments keep their order
    steps: Sequence[Step] = ()
    tables: Mapping[str, Where] = field(default_factory=dict)
    mode: Mode = "batch"
    every: float = 5.0
    sources: Mapping[str, Where] = field(default_factory=dict, kw_only=True)
    expect: Mapping[str, Expectation] = field(default_factory=dict, kw_only=True)
    quarantine: Where | None = field(default=None, kw_only=True)
    write: Write = field(default="append", kw_only=True)
    on: Sequence[str] = field(default=(), kw_only=True)
    recompute_by: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise InvalidOptionError("a pipeline needs a name: it is how its work is recognised")
        if self.mode not in ("batch", "continuous"):
            raise InvalidOptionError(f"mode is {self.mode!r}: it is batch or continuous")
        if self.every <= 0:
            raise InvalidOptionError(f"every is {self.every} seconds: it must be more than 0")
        self._check_names()
        self._check_write()
        for name in ("source", "sink", "quarantine"):
            where = getattr(self, name)
            object.__setattr__(self, name, None if where is None else dataset_ref(where))
        for name in ("sources", "tables"):
            refs = {each: dataset_ref(where) for each, where in getattr(self, name).items()}
            object.__setattr__(self, name, refs)

    def _check_names(self) -> None:
        if self.sink is None:
            raise InvalidOptionError(f"pipeline {self.name!r} has no sink: name the dataset it writes")
        if (self.source is None) == (not self.sources):
            raise InvalidOptionError(
                f"pipeline {self.name!r} needs a source, or several by name as sources, but not both"
            )
        for kind, names in (("table", self.tables), ("source", self.sources)):
            for name in names:
                if not name.isidentifier() or name == INPUT:
                    raise InvalidOptionError(
                        f"{kind} {name!r} cannot be named so: a plain name other than 'input'"
                    )
        for name in self.sources:
            if name in self.tables:
                raise InvalidOptionError(f"{name!r} is a source and a table: name one of them differently")

    def _check_write(self) -> None:
        if self.write not in get_args(Write):
            raise InvalidOptionError(f"write is {self.write!r}: it is one of {', '.join(get_args(Write))}")
        if isinstance(self.on, str):
            object.__setattr__(self, "on", (self.on,))
        if (self.write == "merge") != bool(self.on):
            raise InvalidOptionError(
                f"pipeline {self.name!r} has write={self.write!r} and on={list(self.on)}: on names the key "
                "columns of a merge, and a merge needs them"
            )
        if self.write == "merge" and self.recompute_by is not None:
            raise InvalidOptionError(
                f"pipeline {self.name!r} merges and has recompute_by: a merge keeps rows that the input has "
                "no more; use write='overwrite', which replaces the rows of a value"
            )
        if len(self.expect) > MAX_EXPECTATIONS:
            raise InvalidOptionError(
                f"{len(self.expect)} expectations are too many: {MAX_EXPECTATIONS} at most"
            )
        for name, expectation in self.expect.items():
            if not isinstance(expectation, Expectation):
                raise InvalidOptionError(f"expectation {name!r} is {expectation!r}: give an Expectation")

    def check(self) -> None:
        """Check everything that needs no Spark: options, steps, and that source and sink differ.

        Raises:
            InvalidOptionError: Something is wrong.
        """
        for step in self.steps:
            compiled_step(step, self.tables)
        options = Options(self.source_ref.given, also=SOURCE_OPTIONS)
        _limit(options)
        removal_option(options)
        for ref in (self.sink_ref, *self.table_refs.values()):
            Options(ref.given)
        source, sink = self.source_ref.without(SOURCE_OPTIONS).open(), self.sink_ref.open()
        if is_same(source, sink):
            raise InvalidOptionError(
                f"pipeline {self.name!r} reads dataset {source.id!r} and writes to it: it would read its own "
                "output endlessly; write to another dataset"
            )

    @property
    def inputs(self) -> dict[str, DatasetRef]:
        """The inputs as references, by name; a single ``source`` is named ``input``."""
        if self.source is not None:
            return {INPUT: dataset_ref(self.source)}
        return {name: dataset_ref(where) for name, where in self.sources.items()}

    @property
    def quarantine_ref(self) -> DatasetRef | None:
        """The quarantine dataset; None if no expectation uses it."""
        if not any(each.on_fail == "quarantine" for each in self.expect.values()):
            return None
        if self.quarantine is not None:
            return dataset_ref(self.quarantine)
        sink = self.sink_ref
        store = {name: value for name, value in sink.options.items() if name.lower().startswith(STORE_PREFIX)}
        return DatasetRef(sink.path, f"{sink.dataset}_quarantine", **store)

    @property
    def source_ref(self) -> DatasetRef:
        """The first input as a reference."""
        return next(iter(self.inputs.values()))

    @property
    def sink_ref(self) -> DatasetRef:
        """The sink as a reference."""
        return dataset_ref(self.sink)

    @property
    def table_refs(self) -> dict[str, DatasetRef]:
        """The tables as references."""
        return {name: dataset_ref(where) for name, where in self.tables.items()}

    def run(
        self,
        spark: SparkSession,
        *,
        progress: Callable[[Batch], None] | None = None,
        stop: threading.Event | None = None,
    ) -> list[Batch]:
        """Run until there is nothing left to do, or in continuous mode until ``stop`` is set.

        Args:
            spark: The session.
            progress: Called after every batch.
            stop: Ends a run after the batch it is at. Without it, only an error ends a continuous run.
        """
        done = []
        for batch in self.batches(spark, stop=stop):
            if progress is not None:
                progress(batch)
            if self.mode == "batch":
                done.append(batch)
        return done

    def batches(self, spark: SparkSession, *, stop: threading.Event | None = None) -> Iterator[Batch]:
        """Do the batches one by one; leaving the loop ends the run."""
        stop = stop or threading.Event()
        runner = _Runner(self, spark)
        number = 0
        while not stop.is_set():
            batch = runner.next(number)
            if batch is not None:
                number += 1
                logger.info("pipeline %s: %s", self.name, batch.as_dict())
                yield batch
            elif self.mode == "batch":
                return
            else:
                stop.wait(self.every)


class _Runner:
    """A running pipeline: the opened datasets and its position."""

    def __init__(self, pipeline: Pipeline, spark: SparkSession) -> None:
        pipeline.check()
        if (
            len(pipeline.sources) > 1
            or pipeline.expect
            or pipeline.write != "append"
            or pipeline.recompute_by
        ):
            raise InvalidOptionError("sources, expect, write and recompute_by are not supported yet")
        options = Options(pipeline.source_ref.given, also=SOURCE_OPTIONS)
        self._pipeline = pipeline
        self._spark = spark
        self._steps = [compiled_step(step, pipeline.tables) for step in pipeline.steps]
        self._source_ref = pipeline.source_ref.without(SOURCE_OPTIONS)
        self._limit = _limit(options)
        self._on_removal = removal_option(options)
        self._tables = pipeline.table_refs
        self._sink_ref = pipeline.sink_ref
        self._sink = self._sink_ref.open()
        self._sink_has_columns = False
        self._waits_for = ""
        # Without snapshots it is not known what a dataset is.
        self._source_exists = self._source_ref.exists
        self._open_source()
        self._position = self._stored_position() or self._begin(
            options.text("startingPosition") or "earliest"
        )
        if pipeline.mode == "batch" and self._source_exists:
            self._frontier.stop_at_head()

    def _open_source(self) -> None:
        self._source = self._source_ref.open()
        self._frontier = Frontier(self._source, remedy=_RESTART)

    def next(self, number: int) -> Batch | None:
        """Do the next batch; None if nothing is waiting."""
        began = time.monotonic()
        if not self._source_exists:
            self._wait_for(self._source_ref)
            if self._pipeline.mode == "batch" or not self._source_ref.exists:
                return None
            self._source_exists = True
            self._open_source()
        after = self._position
        up_to = self._frontier.advance(after, self._limit)
        if up_to == after:
            return None
        tables = self._newest_tables()
        if tables is None:
            return None
        taken = plan_between(self._source, after, up_to, self._on_removal, remedy=_RESTART)
        lineage = Lineage(
            self._pipeline.name,
            (input_of(self._source, after, up_to),),
            {name: read for name, (_, read) in tables.items()},
        )
        if taken.row_count:
            frame = self._output(self._read(after, up_to), tables)
            snapshot = self._sink_ref.write(
                frame, lineage.as_metadata(), key=self._key(after), dataset=self._sink
            )
        else:
            # Such as a compaction: there is nothing to compute, only the position advances.
            columns = self._columns(taken, after, up_to, tables)
            snapshot = self._store_position(lineage, self._key(after), columns)
        self._waits_for = ""
        replayed = snapshot.commit is not None and snapshot.commit.replayed
        source = _input(snapshot) if replayed else lineage.inputs[0]
        self._position = source.up_to
        return Batch(
            number,
            snapshot,
            source,
            taken.row_count,
            taken.size_bytes,
            snapshot.row_count,
            time.monotonic() - began,
            replayed,
        )

    def _newest_tables(self) -> _Tables | None:
        """The tables and their newest snapshots; None if one of them has nothing to read yet."""
        found = {}
        for name, ref in self._tables.items():
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

    def _output(self, frame: DataFrame, tables: _Tables) -> DataFrame:
        frames = {
            name: ref.read(self._spark, as_of=read.up_to.snapshot) for name, (ref, read) in tables.items()
        }
        for step in self._steps:
            frame = step(frame, frames)
        return frame

    def _columns(self, taken: Scan, after: Position, up_to: Position, tables: _Tables) -> StructType | None:
        """The columns of the output, for a sink that has none yet; None if they need not or cannot be known.

        Readers of the sink need them, also before it has rows.
        """
        if not self._sink_has_columns:
            self._sink_has_columns = self._sink.exists and self._sink.definition.columns is not None
        if self._sink_has_columns or known_schema(taken) is None:
            return None
        return self._output(self._read(after, up_to).limit(0), tables).schema

    def _read(self, after: Position, up_to: Position) -> DataFrame:
        """The rows of a batch."""
        if after.snapshot:
            return self._source_ref.read(
                self._spark, since=after.snapshot, as_of=up_to.snapshot, on_removal=self._on_removal
            )
        frame = self._source_ref.read(self._spark, as_of=up_to.snapshot)
        if self._on_removal != "report":
            return frame
        from pyspark.sql.functions import lit

        return frame.withColumn(CHANGE, lit(INSERT))

    def _stored_position(self) -> Position | None:
        for snapshot in self._sink.history():
            lineage = lineage_of(snapshot)
            if lineage is not None and lineage.made_by == self._pipeline.name:
                self._check_source(lineage.inputs[0])
                return lineage.inputs[0].up_to
        return None

    def _check_source(self, stored: Input) -> None:
        """Refuse a position in another dataset. A lake may have moved: its history is the same."""
        if (stored.store, stored.dataset) == (
            self._source.store.url,
            self._source.id,
        ) or not stored.up_to.snapshot:
            return
        try:
            self._source.snapshot(ExactId(stored.up_to.snapshot))
        except NotFoundError:
            raise InvalidOptionError(
                f"pipeline {self._pipeline.name!r} has written dataset {self._sink.id!r} from dataset "
                f"{stored.dataset!r} in {stored.store}, and is to read {self._source.id!r} in "
                f"{self._source.store.url} now: give it another name, or the source that it had"
            ) from None

    def _begin(self, where: str) -> Position:
        """Store a starting position other than the first snapshot, so that the next run begins there too."""
        position = starting_position(self._source, where)
        if where.strip() == "earliest":
            return position
        lineage = Lineage(self._pipeline.name, (input_of(self._source, position, position),))
        columns = None
        if position != BEGINNING and (tables := self._newest_tables()) is not None:
            columns = self._columns(
                plan_between(self._source, BEGINNING, position), BEGINNING, position, tables
            )
        return _input(self._store_position(lineage, (self._writer, "beginning"), columns)).up_to

    def _store_position(self, lineage: Lineage, key: tuple[str, str], columns: StructType | None) -> Snapshot:
        """Commit a snapshot without rows, whose lineage has the position."""
        metadata = lineage.as_metadata()
        with (
            self._sink.transaction(metadata, idempotency_key=key, on_conflict="append")
            if columns is None
            else begin(self._sink, columns, metadata, idempotency_key=key, on_conflict="append")
        ) as transaction:
            return transaction.commit()

    @property
    def _writer(self) -> str:
        return f"pipeline:{self._pipeline.name}"

    def _key(self, after: Position) -> tuple[str, str]:
        return self._writer, f"after {after.sequence} {after.snapshot}".strip()


def _input(snapshot: Snapshot) -> Input:
    lineage = lineage_of(snapshot)
    if lineage is None:
        raise InvalidOptionError(f"{snapshot} was committed under a pipeline's key, but has no lineage")
    return lineage.inputs[0]


def _limit(options: Options) -> Limit:
    return Limit(options.number("maxSnapshotsPerBatch"), options.size("maxBytesPerBatch", 0) or None)
