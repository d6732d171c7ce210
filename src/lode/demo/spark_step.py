"""The pipeline of the demo: events → sales by day, from dataset to dataset, on Spark."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

from lode.demo.events import NAME
from lode.pipeline import Pipeline
from lode.spark.dataset_ref import DatasetRef
from lode.spark.session import session

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SALES = "sales_by_day"


def quiet_session(log: Path) -> SparkSession:
    """A session whose Java process writes its messages to a file, and its temporary files beside it."""
    temporary = log.with_name("spark")
    temporary.mkdir()
    kept = os.dup(2)
    with log.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        return session(
            "local[2]",
            name="lode demo",
            settings={
                "spark.log.level": "ERROR",
                "spark.sql.shuffle.partitions": "2",
                "spark.local.dir": str(temporary),
                "spark.driver.defaultJavaOptions": f"-Djava.io.tmpdir={shlex.quote(str(temporary))}",
                "spark.sql.warehouse.dir": str(temporary / "warehouse"),
            },
        )
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def sales_pipeline(lake: Path) -> Pipeline:
    """Each new snapshot of the events becomes sales by day and country, with where they came from."""
    return Pipeline(
        "sales",
        source=DatasetRef(lake, NAME),
        steps=[
            "SELECT date_format(at, 'yyyy-MM-dd') AS day, country, count(*) AS orders, "
            "sum(amount) AS revenue FROM {input} WHERE kind = 'buy' GROUP BY ALL"
        ],
        sink=DatasetRef(lake, SALES, partitionBy="day"),
    )
