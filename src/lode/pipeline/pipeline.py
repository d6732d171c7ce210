"""A pipeline: datasets, what is done to them, and the dataset that they become."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lode.errors import RowsRemovedError
from lode.pipeline.batch import Batch, Plan
from lode.pipeline.definition import PipelineDefinition
from lode.pipeline.inputs import Inputs
from lode.pipeline.runner import Runner, changed_after
from lode.spark.session import noticing_loss
from lode.spark.workers import TaskWorkers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

logger = logging.getLogger("lode.spark")


@dataclass(frozen=True, slots=True)
class Pipeline(PipelineDefinition):
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
        runner = Runner(self, spark)
        number = 0
        while not stop.is_set():
            with noticing_loss(spark):
                batch = runner.next(number)
            if batch is not None:
                number += 1
                logger.info("pipeline %s: %s", self.name, batch.as_dict())
                yield batch
            elif self.mode == "batch":
                return
            else:
                stop.wait(self.every)

    def refresh(self, spark: SparkSession, since: Any = None, until: Any = None) -> Batch | None:
        """Compute output again and replace it, as one snapshot.

        Without a range all output is computed from all rows of the inputs, and the positions move to their
        newest snapshots. With one, only the output of these values, from the rows that were taken in before;
        the positions stay, and what is waiting is left to the next run.

        Args:
            spark: The session.
            since: The first value of ``recompute_by`` to compute again.
            until: The last value.

        Returns:
            The batch; None if an input has nothing to read yet, or a range is asked for before the first run.
        """
        with noticing_loss(spark):
            batch = Runner(self, spark).refresh(since, until)
        if batch is not None:
            logger.info("pipeline %s: %s", self.name, batch.as_dict())
        return batch

    def plan(self, spark: SparkSession | None = None) -> Plan:
        """What the next run would do with all that is waiting now. Nothing is written.

        Args:
            spark: Reads files in tasks to find the values that changed. Without it this process does.
        """
        self.check()
        inputs = Inputs(self)
        changed = changed_after(inputs.last, self.digest)
        waiting = inputs.waiting_for
        if waiting is not None:
            reason = f"dataset {waiting.ref.dataset!r} has no snapshots yet"
            return Plan("wait", reason=reason, steps_changed_after=changed, last=inputs.last.snapshot)
        inputs.after, _ = inputs.starting_positions()
        up_to = inputs.advance(limited=False)
        ends = inputs.lineage_inputs(inputs.after, up_to)
        if up_to == inputs.after:
            return Plan("nothing", ends, steps_changed_after=changed, last=inputs.last.snapshot)
        workers = None if spark is None else TaskWorkers(spark)
        try:
            work = inputs.work(up_to, workers)
        except RowsRemovedError as error:
            return Plan(
                "stop", ends, reason=str(error), steps_changed_after=changed, last=inputs.last.snapshot
            )
        if inputs.may_skip(work):
            return Plan("nothing", ends, steps_changed_after=changed, last=inputs.last.snapshot)
        values = None if work.selection is None else work.selection.shown()
        return Plan(
            work.kind,
            ends,
            work.rows,
            work.size_bytes,
            None if values is None else tuple(values),
            steps_changed_after=changed,
            last=inputs.last.snapshot,
        )
