"""Uses what most tests of Spark use, and lets Java end by itself: then it writes its archive of classes."""

from __future__ import annotations

import tempfile
from typing import Any

import lode.spark
from support.spark.streams import run_to_end


def main() -> None:
    spark = lode.spark.session("local[2,2]", settings={"spark.log.level": "OFF"})
    gateway: Any = spark.sparkContext._gateway
    with tempfile.TemporaryDirectory() as folder:
        lake = {"path": f"file://{folder}/lake?durable=false", "dataset": "d"}
        rows = spark.range(10).selectExpr("id", "cast(id % 3 AS string) AS day")
        rows.write.format("lode").mode("append").options(**lake).save()
        found = spark.read.format("lode").options(**lake).load()
        found.createOrReplaceTempView("found")
        spark.sql(
            "SELECT day, sum(id) FROM found JOIN VALUES ('1') AS t(day) USING (day) GROUP BY 1"
        ).collect()
        lode.spark.read(spark, lake["path"], "d").toPandas()
        stream = spark.readStream.format("lode").schema(found.schema).options(**lake).load()
        into = {**lake, "dataset": "e", "checkpointLocation": f"{folder}/checkpoint"}
        run_to_end(stream.writeStream.format("lode").options(**into).trigger(availableNow=True))
        spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    main()
