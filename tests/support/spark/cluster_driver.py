"""A driver of a cluster in a process of its own: takes jobs as lines of JSON, and answers each with a line.

python cluster_driver.py MASTER
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lode
import lode.spark
from support.spark.tasks import KillsExecutor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from lode.spark.read import Reader

SETTINGS = {
    "spark.log.level": "ERROR",
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    # No job begins before both executors are there.
    "spark.cores.max": "2",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    # Small batches, so that a task is in the middle of its work for long.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "500",
    "spark.sql.shuffle.partitions": "2",
}
# Where KillsExecutor writes which executor it kills.
VICTIM = Path("victim").resolve()
COLUMNS = "id long, text string"


@dataclass(frozen=True)
class Hold:
    """Hands rows on until this one; then the first task to meet it says who it is, and waits to be killed."""

    marker: str
    row: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if self.row in batch["id"].to_pylist():
                self._wait()
            yield batch

    def _wait(self) -> None:
        try:
            with Path(self.marker).open("x") as marker:
                marker.write(str(os.getpid()))
        except FileExistsError:
            return
        time.sleep(600)
        raise TimeoutError("nobody killed this task's executor")


def rows(spark: SparkSession, count: int, parts: int) -> DataFrame:
    # Text that does not compress, so that files fill.
    return spark.range(0, count, 1, parts).selectExpr("id", "sha2(string(id), 512) AS text")


def write_and_read(
    spark: SparkSession, count: int, options: dict[str, str], readers: list[Reader]
) -> list[list[int]]:
    """Write rows, and return what each of the readers finds."""
    rows(spark, count, 4).write.format("lode").options(**options).mode("append").save()
    url, dataset = options["path"], options["dataset"]
    rest = {key: value for key, value in options.items() if key.startswith("store.")}
    frames = [lode.spark.read(spark, url, dataset, options=rest, reader=reader) for reader in readers]
    return [[row.id for row in frame.collect()] for frame in frames]


def write_held(
    spark: SparkSession, count: int, parts: int, marker: str, row: int, options: dict[str, str]
) -> None:
    held = rows(spark, count, parts).mapInArrow(Hold(marker, row), COLUMNS)
    held.write.format("lode").options(**options).mode("append").save()


def stream_held(
    spark: SparkSession, marker: str, row: int, source: dict[str, str], sink: dict[str, str]
) -> None:
    stream = spark.readStream.format("lode").schema(COLUMNS).options(**source).load()
    held = stream.mapInArrow(Hold(marker, row), COLUMNS)
    query = held.writeStream.format("lode").options(**sink).trigger(availableNow=True).start()
    query.awaitTermination()


def write_killing(spark: SparkSession, lake: str) -> int:
    """Write with a codec that kills its executor; returns the executor's process."""
    dataset = lode.Dataset("d", lake, codec=KillsExecutor(row_group_rows=1), layout=lode.HiveLayout("half"))
    frame = spark.range(0, 40, 1, 4).selectExpr("id", "id % 2 as half")
    lode.spark.write(dataset, frame, target_file_bytes=1)
    return int(VICTIM.read_text())


JOBS: dict[str, Callable[..., Any]] = {
    function.__name__: function for function in (write_and_read, write_held, write_killing, stream_held)
}


def main(master: str) -> None:
    # Whatever else is printed is none of the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    spark = lode.spark.session(
        master, name="cluster-tests", settings={**SETTINGS, "spark.executorEnv.VICTIM": str(VICTIM)}
    )
    for line in sys.stdin:
        job, arguments = json.loads(line)
        try:
            answer = {"result": JOBS[job](spark, **arguments)}
        except Exception:
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer), file=answers, flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
