"""A driver of a cluster in a process of its own: takes jobs as lines of JSON, and answers each with a line.

python cluster_driver.py MASTER
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lode
import lode.spark
from lode.pipeline import Pipeline, Project
from support.spark.streams import run_to_end
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
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
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
    run_to_end(held.writeStream.format("lode").options(**sink).trigger(availableNow=True))


def write_killing(spark: SparkSession, lake: str) -> int:
    """Write with a codec that kills its executor; returns the executor's process."""
    dataset = lode.Dataset("d", lake, codec=KillsExecutor(row_group_rows=1), layout=lode.HiveLayout("half"))
    frame = spark.range(0, 40, 1, 4).selectExpr("id", "id % 2 as half")
    lode.spark.write(dataset, frame, target_file_bytes=1)
    return int(VICTIM.read_text())


def change_in_every_way(
    spark: SparkSession, url: str, options: dict[str, str], connect: bool
) -> dict[str, dict[str, int]]:
    """Write in each mode, read it by a view, and let a pipeline follow; returns the rows after each."""
    if connect:
        spark = lode.spark.session(connect_url(spark))
    ref = lode.spark.DatasetRef(url, "d", partitionBy="day", **options)
    found: dict[str, dict[str, int]] = {}
    lake = None

    def frame(*rows: tuple[int, str, int]) -> DataFrame:
        return spark.createDataFrame(list(rows), "id long, day string, n long")

    def save(mode: str, df: DataFrame, **more: str) -> None:
        df.write.format("lode").mode(mode).options(**{**ref.given, **more}).save()

    def look(name: str) -> None:
        nonlocal lake
        if lake is None:
            lake = lode.spark.attach(spark, url, datasets=["d"], options=options)
        lake.refresh()
        found[name] = {str(row.id): row.n for row in spark.sql("SELECT id, n FROM d").collect()}

    save("append", frame(*((i, f"d{i % 3}", i) for i in range(6))))
    look("append")
    save("overwrite", frame((10, "d1", 10)), partitionOverwriteMode="dynamic")
    look("dynamic")
    save("overwrite", frame((2, "d2", 20)), replaceWhere="day = 'd2' AND id < 4")
    look("replaceWhere")
    lode.spark.merge(ref.open(), frame((0, "d0", 100), (7, "d0", 7)), on=["id"])
    look("merge")
    lode.spark.delete(ref.open(), "id = 10", spark=spark)
    look("delete")
    lode.spark.compact(ref.open(), spark=spark)
    look("compact")
    sink = lode.spark.DatasetRef(url, "sums", **options)
    steps = ["SELECT day, sum(n) AS n FROM {input} GROUP BY day"]
    Pipeline("sums", ref, sink, steps, write="overwrite", recompute_by="day").run(spark)
    found["pipeline"] = {row.day: row.n for row in sink.read(spark).collect()}
    if connect:
        spark.stop()
    return found


def lose_java(spark: SparkSession, lake: str) -> list[Any]:
    """Kill the Java process in a step of a pipeline; returns the errors, and what a new session makes."""
    java: Any = spark.sparkContext._gateway
    killed: list[int] = []

    def kill(frame: DataFrame) -> DataFrame:
        if not killed:
            killed.append(java.proc.pid)
            os.kill(java.proc.pid, signal.SIGKILL)
        return frame

    project = Project(lake)
    project.add("one", from_="raw", into="clean", steps=[kill])
    project.add("two", from_="clean", into="copy")
    try:
        project.run(spark)
    except lode.SparkLostError as error:
        lost = str(error)
    again = lode.spark.session("local[1]", settings=SETTINGS)
    states = {name: run.state for name, run in project.run(again).items()}
    again.stop()
    return [lost, states]


def session(master: str) -> SparkSession:
    return lode.spark.session(
        master, name="cluster-tests", settings={**SETTINGS, "spark.executorEnv.VICTIM": str(VICTIM)}
    )


def connect_url(spark: SparkSession) -> str:
    """A server of Spark Connect in the Java process of the session."""
    jvm: Any = spark.sparkContext._jvm
    service = getattr(getattr(jvm, "org.apache.spark.sql.connect.service.SparkConnectService$"), "MODULE$")
    if not service.started():
        service.start(spark.sparkContext._jsc.sc())
    return f"sc://127.0.0.1:{service.localPort()}"


JOBS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (write_and_read, write_held, write_killing, stream_held, change_in_every_way, lose_java)
}


def main(master: str) -> None:
    # Whatever else is printed is none of the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    spark = session(master)
    for line in sys.stdin:
        job, arguments = json.loads(line)
        spark = session(master)  # the same one, unless a job has ended it
        try:
            answer = {"result": JOBS[job](spark, **arguments)}
        except Exception:
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer), file=answers, flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
