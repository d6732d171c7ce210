"""A Spark driver in a process of its own: streams dataset ``src`` to ``out`` until it is through, or dead.

    python stream_driver.py LAKE CHECKPOINT PIDS

DIE_AT in the environment, such as ``before commit:1``: driver and JVM are killed at that point of that batch,
from the process in which Spark commits.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import lode.spark
from lode.spark.source import LodeDataSource
from lode.spark.stream import StreamSink
from lode.write.publish import Publisher
from support.spark.streams import run_to_end

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSourceStreamWriter
    from pyspark.sql.types import StructType


SETTINGS = {"spark.log.level": "OFF", "spark.driver.memory": "512m"}


def die(*_: Any) -> NoReturn:
    pids = Path(os.environ["DRIVER_PIDS"]).read_text().split()
    for pid in pids:
        os.kill(int(pid), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("dead already")


class MortalSink(StreamSink):
    """The sink, and a point at which everything ends."""

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 - Spark's name
        point, _, batch = os.environ.get("DIE_AT", "never:-1").rpartition(":")
        if int(batch) != batchId:
            super().commit(messages, batchId)
            return
        if point == "before commit":
            die()
        assert point == "between swap and publication"
        setattr(Publisher, "publish", die)  # noqa: B010 - to the type checker this is no method
        super().commit(messages, batchId)


class MortalSource(LodeDataSource):
    """The data source under another name."""

    @classmethod
    def name(cls) -> str:
        return "mortal"

    def streamWriter(  # noqa: N802 - Spark's name
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        return MortalSink(self.options, schema, overwrite)


def main(lake: str, checkpoint: str, pids: str) -> None:
    os.environ["DRIVER_PIDS"] = pids
    spark = lode.spark.session("local[1]", settings=SETTINGS)
    gateway: Any = spark.sparkContext._gateway
    Path(pids).write_text(f"{gateway.proc.pid} {os.getpid()}")
    spark.dataSource.register(MortalSource)
    run(spark, lake, checkpoint, "mortal")
    spark.stop()


def run(spark: SparkSession, lake: str, checkpoint: str, sink: str) -> None:
    """Stream what there is, to a sink of this format."""
    stream = (
        spark.readStream.format("lode")
        .schema("number long, snapshot string")
        .options(path=lake, dataset="src", maxSnapshotsPerBatch="1")
        .load()
        .selectExpr("number * 2 AS number", "snapshot")
    )
    run_to_end(
        stream.writeStream.format(sink)
        .options(path=lake, dataset="out", checkpointLocation=checkpoint)
        .trigger(availableNow=True)
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
