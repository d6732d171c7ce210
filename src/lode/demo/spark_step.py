"""The pipelines of the demo: events → purchases → sales by day and by country, on Spark."""

from __future__ import annotations

import logging
import os
import shlex
from typing import TYPE_CHECKING

from lode.demo.events import NAME
from lode.pipeline import Project
from lode.spark.session import session

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

PURCHASES, SALES = "purchases", "sales_by_day"
# Orders of this amount are put aside.
LARGE = 250


def quiet_session(log: Path) -> SparkSession:
    """A session whose Java process writes its messages to a file, and its temporary files beside it."""
    # The step says itself how many rows were put aside.
    logging.getLogger("lode.spark").setLevel(logging.ERROR)
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


def sales_project(lake: Path) -> Project:
    """Events → purchases → sales by day and sales by country, of which two run at the same time."""
    project = Project(lake)
    project.add(
        PURCHASES,
        from_=NAME,
        steps="SELECT id, date_format(at, 'yyyy-MM-dd') AS day, country, amount FROM {input} "
        "WHERE kind = 'buy'",
        expect={"usual_amount": {"check": f"amount < {LARGE}", "on_fail": "quarantine"}},
        into={"dataset": PURCHASES, "partition_by": "day"},
    )
    for column in ("day", "country"):
        project.add(
            f"sales_by_{column}",
            from_=PURCHASES,
            steps=f"SELECT {column}, count(*) AS orders, sum(amount) AS revenue FROM {{purchases}} "
            f"GROUP BY {column}",
            recompute_by=column,
            into={"dataset": f"sales_by_{column}", "write": "overwrite", "partition_by": column},
        )
    return project
