"""A pipeline on local Spark, from a dataset to a dataset, each input snapshot exactly once.

    python examples/spark_pipeline.py [LAKE]

Needs ``pip install 'lode-store[spark]'``, and Java 17 or newer. Run it again on the same LAKE: it continues
where it stopped.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.compute as pc

import lode
import lode.spark
from lode.lineage import lineage_of
from lode.pipeline import Batch, Pipeline
from lode.spark import DatasetRef

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SCHEMA = {"day": "string!", "page": "string!", "agent": "string!", "visits": "int64!"}


def without_robots(visits: DataFrame) -> DataFrame:
    """Take away the robots: a step in Python."""
    return visits.where("agent NOT LIKE '%bot%'")


def daily(lake: str) -> Pipeline:
    return Pipeline(
        "daily",
        source=DatasetRef(lake, "visits"),
        steps=[
            without_robots,
            "SELECT day, page, sum(visits) AS visits FROM {input} GROUP BY day, page",
        ],
        sink=DatasetRef(lake, "daily", partitionBy="day", checksum="xxh3-128"),
    )


def arrive(visits: lode.Dataset, day: str) -> None:
    """Another program writes; the pipeline need not know it."""
    visits.write(
        {"day": day, "page": page, "agent": agent, "visits": 1}
        for page in ("/", "/docs", "/docs", "/blog")
        for agent in ("firefox", "chrome", "somebot/1.0")
    )


def tell(batch: Batch) -> None:
    print(f"  {batch.snapshots_in} snapshots, {batch.rows_in} rows in, {batch.rows_out} rows out")


def main(lake: str) -> None:
    visits = lode.Dataset("visits", lake, codec=lode.Parquet(SCHEMA), retry=lode.Retry(3))
    spark = lode.spark.session("local[1]", settings={"spark.sql.shuffle.partitions": "1"})
    pipeline = daily(lake)

    print("two snapshots arrive:")
    arrive(visits, "mon")
    arrive(visits, "tue")
    pipeline.run(spark, progress=tell)

    print("nothing has come since:")
    pipeline.run(spark, progress=tell)

    print("one more arrives, and only that is read:")
    arrive(visits, "wed")
    pipeline.run(spark, progress=tell)

    result = lode.open_dataset("daily", lake)
    table = result.scan(where=pc.field("page") == "/docs").read_all()
    print(f"visits of /docs: {sorted((row['day'], row['visits']) for row in table.to_pylist())}")
    made = lineage_of(result.latest())
    assert made is not None
    print(
        f"the newest snapshot was made from {made.inputs[0].dataset}, up to {made.inputs[0].up_to.snapshot}"
    )
    spark.stop()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(str(Path(sys.argv[1]).resolve()))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(folder)
