"""Uses what most tests of Spark use, and lets Java end by itself: then it writes its archive of classes."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import lode
import lode.spark

QUERY = "SELECT day, sum(n) FROM found JOIN VALUES ('b') AS t(day) USING (day) GROUP BY day ORDER BY day"


def main() -> None:
    spark = lode.spark.session("local[2,2]", settings={"spark.log.level": "OFF"})
    gateway: Any = spark.sparkContext._gateway
    with tempfile.TemporaryDirectory() as folder:
        dataset = lode.Dataset.create("d", folder, schema={"day": "string", "n": "int64"})
        dataset.write([{"day": "a", "n": 1}, {"day": "b", "n": 2}])
        found = spark.read.format("lode").options(path=folder, dataset="d").load()
        found.createOrReplaceTempView("found")
        spark.sql(QUERY).toPandas()
        found.write.format("noop").mode("overwrite").save()
        (Path(folder) / "in").mkdir()
        (Path(folder) / "in" / "rows.json").write_text('{"n": 1}\n')
        stream = spark.readStream.schema("n long").json(f"{folder}/in")
        writer = stream.writeStream.format("noop").option("checkpointLocation", f"{folder}/checkpoint")
        writer.trigger(availableNow=True).start().awaitTermination()
        spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    main()
