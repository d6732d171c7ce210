"""One run of a graph of pipelines: each after those that it reads from, several at once, on one session."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from lode.errors import DataError, LodeError, SparkLostError, UsageError
from lode.lineage.runs import Run
from lode.spark.session import is_connect, noticing_loss

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from pyspark.sql import SparkSession

    from lode.lineage.runs import State
    from lode.pipeline.batch import Batch
    from lode.pipeline.graph import Graph
    from lode.pipeline.task import Task

logger = logging.getLogger("lode.pipeline")

FIRST_WAIT_SECONDS: Final = 1.0
MAX_WAIT_SECONDS: Final = 300.0
# How often a continuous run notes how far it is.
_NOTE_SECONDS: Final = 60.0


class _Tally:
    """What a pipeline has done in this run."""

    def __init__(self) -> None:
        self.started_at = datetime.now(UTC)
        self.noted_at = self.started_at
        self.batches = self.rows_in = self.rows_out = 0
        self.tries = 1

    def count(self, batch: Batch) -> None:
        self.batches += 1
        self.rows_in += batch.rows_in
        self.rows_out += batch.rows_out

    def run(self, state: State, error: str | None = None) -> Run:
        self.noted_at = datetime.now(UTC)
        return Run(
            state=state,
            started_at=self.started_at,
            ended_at=self.noted_at,
            batches=self.batches,
            rows_in=self.rows_in,
            rows_out=self.rows_out,
            tries=self.tries,
            error=error,
        )


class GraphRun:
    """A run of chosen pipelines.

    Args:
        spark: The session for all of them.
        tasks: The pipelines.
        graph: Which one reads from which.
        names: The chosen ones, in order.
        parallel: How many run at once at most; in continuous mode all do.
        refresh: The pipelines that are computed anew first.
        since: Compute only this range anew: from here.
        until: Up to here.
        progress: Called with the pipeline's name after each batch, from several threads, one at a time.
        note: Called with the pipeline's name and its run, to keep it.
        shown: Makes the text of an error fit to be shown.
        stop: Ends the run after the batches that are running.
    """

    def __init__(
        self,
        spark: SparkSession,
        tasks: Mapping[str, Task],
        graph: Graph,
        names: Sequence[str],
        *,
        parallel: int,
        refresh: Collection[str] = (),
        since: str | None = None,
        until: str | None = None,
        progress: Callable[[str, Batch], None] | None = None,
        note: Callable[[str, Run], None] = lambda *_: None,
        shown: Callable[[str], str] = str,
        stop: threading.Event | None = None,
    ) -> None:
        self._spark = spark
        self._tasks = tasks
        self._names = list(names)
        self._upstream = {name: graph.upstream[name] & set(names) for name in names}
        self._parallel = parallel
        self._refresh = refresh
        self._range = (since, until)
        self._progress = progress
        self._note = note
        self._shown = shown
        self._stop = stop or threading.Event()
        self._lock = threading.Lock()
        self._lost: SparkLostError | None = None

    def once(self) -> dict[str, Run]:
        """Process what is waiting, and return each pipeline's run, in order.

        A pipeline begins when those that it reads from are done. If one fails, those that read from it,
        directly or not, are skipped; all others run.

        Raises:
            SparkLostError: The session has ended. No pipeline is begun after that.
        """
        done: dict[str, Run] = {}
        waiting = list(self._names)
        running: dict[Future[Run], str] = {}
        with ThreadPoolExecutor(self._parallel, thread_name_prefix="pipeline") as threads:
            while waiting or running:
                for name in [name for name in waiting if self._upstream[name] <= done.keys()]:
                    waiting.remove(name)
                    running[threads.submit(self._once, name, done)] = name
                ended, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in ended:
                    done[running.pop(future)] = future.result()
        if self._lost is not None:
            raise self._lost
        return {name: done[name] for name in self._names}

    def forever(self) -> dict[str, Run]:
        """Process what is waiting and what comes, until ``stop`` is set. Other errors end nothing.

        Raises:
            SparkLostError: The session has ended.
        """
        with ThreadPoolExecutor(len(self._names), thread_name_prefix="pipeline") as threads:
            running = {name: threads.submit(self._forever, name) for name in self._names}
        if self._lost is not None:
            raise self._lost
        return {name: future.result() for name, future in running.items()}

    def _once(self, name: str, done: Mapping[str, Run]) -> Run:
        tally = _Tally()
        failed = [other for other in self._upstream[name] if done[other].state in ("failed", "skipped")]
        if failed:
            run = tally.run("skipped", f"pipeline {min(failed)!r}, which it reads from, has failed")
        elif self._stop.is_set():
            run = tally.run("stopped")
        else:
            run = self._tried(name, tally)
        self._note(name, run)
        return run

    def _tried(self, name: str, tally: _Tally) -> Run:
        task = self._tasks[name]
        while True:
            try:
                self._process(name, tally)
            except SparkLostError as error:
                return self._end(name, tally, error)
            except (Exception, SystemExit) as error:  # a step may call sys.exit()
                text = self._text(error)
                if tally.tries <= task.retries and _may_pass(error) and not self._stop.is_set():
                    seconds = _pause(tally.tries)
                    logger.warning("pipeline %s failed, tries again in %g s: %s", name, seconds, text)
                    tally.tries += 1
                    self._stop.wait(seconds)
                    continue
                logger.error("pipeline %s failed: %s", name, text)
                logger.debug("pipeline %s failed", name, exc_info=True)
                self._call_hook(name, error)
                return tally.run("failed", text)
            return tally.run("stopped" if self._stop.is_set() else "done")

    def _process(self, name: str, tally: _Tally) -> None:
        """Run a pipeline until nothing is waiting."""
        pipeline = self._tasks[name].pipeline
        self._use_pool(name)

        def progress(batch: Batch) -> None:
            self._count(name, tally, batch)

        if name in self._refresh:
            since, until = self._range
            batch = pipeline.refresh(self._spark, since, until)
            if batch is not None:
                progress(batch)
        replace(pipeline, mode="batch").run(self._spark, progress=progress, stop=self._stop)

    def _forever(self, name: str) -> Run:
        task, tally, failures = self._tasks[name], _Tally(), 0
        error_text: str | None = None
        while not self._stop.is_set():
            try:
                self._use_pool(name)
                for batch in task.pipeline.batches(self._spark, stop=self._stop):
                    self._count(name, tally, batch)
                    quiet = (datetime.now(UTC) - tally.noted_at).total_seconds()
                    if failures or tally.batches == 1 or quiet > _NOTE_SECONDS:
                        self._note(name, tally.run("running"))
                    failures, error_text = 0, None
            except SparkLostError as error:
                run = self._end(name, tally, error)
                self._note(name, run)
                return run
            except (Exception, SystemExit) as error:
                failures += 1
                error_text = self._text(error)
                seconds = _pause(failures)
                logger.error("pipeline %s failed, goes on in %g s: %s", name, seconds, error_text)
                logger.debug("pipeline %s failed", name, exc_info=True)
                self._note(name, tally.run("running", error_text))
                if failures == 1:
                    self._call_hook(name, error)
                self._stop.wait(seconds)
        run = tally.run("stopped" if error_text is None else "failed", error_text)
        self._note(name, run)
        return run

    def _end(self, name: str, tally: _Tally, error: SparkLostError) -> Run:
        """End the whole run: nothing works without the session."""
        with self._lock:
            first, self._lost = self._lost is None, error
        self._stop.set()
        if first:
            self._call_hook(name, error)
        return tally.run("failed", str(error))

    def _count(self, name: str, tally: _Tally, batch: Batch) -> None:
        tally.count(batch)
        if self._progress is not None:
            with self._lock:
                self._progress(name, batch)

    def _call_hook(self, name: str, error: BaseException) -> None:
        hook = self._tasks[name].on_failure
        if hook is None:
            return
        try:
            hook(name, error)  # type: ignore[arg-type]  # SystemExit can be shown like others
        except (Exception, SystemExit) as other:
            logger.error("on_failure of pipeline %s failed too: %s", name, self._text(other))

    def _text(self, error: BaseException) -> str:
        """An error in one line."""
        if isinstance(error, LodeError):
            return self._shown(str(error))
        first = str(error).strip().partition("\n")[0]
        return self._shown(f"{type(error).__name__}: {first}")

    def _use_pool(self, name: str) -> None:
        """Share the cores fairly: without pools the jobs of the first pipeline come first."""
        if is_connect(self._spark):
            return
        with noticing_loss(self._spark):
            self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", name)


def _may_pass(error: BaseException) -> bool:
    """Whether the same call may succeed later: not if the call or the data is wrong."""
    return not isinstance(error, UsageError | DataError | SystemExit)


def _pause(failures: int) -> float:
    return float(min(FIRST_WAIT_SECONDS * 2 ** (failures - 1), MAX_WAIT_SECONDS))
