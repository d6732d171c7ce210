"""Three pipelines in a row, and a Spark driver in a process of its own that runs them until it is killed.

python pipeline_chain.py LAKE PIDS
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import lode
import lode.spark
from lode.pipeline import Expectation, Pipeline
from lode.spark.dataset_ref import DatasetRef

SCHEMA = {"day": "string!", "id": "int64!", "n": "int64!"}
SETTINGS = {"spark.log.level": "OFF", "spark.driver.memory": "512m", "spark.sql.shuffle.partitions": "1"}


def source(lake: str) -> lode.Dataset:
    return lode.Dataset("raw", lake, codec=lode.Parquet(SCHEMA), layout=lode.HiveLayout("day"))


def chain(lake: str) -> list[Pipeline]:
    """Clean rows, those of each day in one number, and all of them in one number."""
    return [
        Pipeline(
            "clean",
            DatasetRef(lake, "raw", maxSnapshotsPerBatch=20),
            DatasetRef(lake, "clean", partitionBy="day"),
            ["SELECT day, id, n * 2 AS n FROM {input}"],
            expect={"positive": Expectation("n > 0", "quarantine")},
            recompute_by="day",
        ),
        Pipeline(
            "daily",
            DatasetRef(lake, "clean"),
            DatasetRef(lake, "daily", partitionBy="day"),
            ["SELECT day, sum(n) AS n, count(*) AS rows FROM {input} GROUP BY day"],
            write="overwrite",
        ),
        Pipeline(
            "total",
            DatasetRef(lake, "daily"),
            DatasetRef(lake, "total"),
            ["SELECT sum(n) AS n, sum(rows) AS rows FROM {input}"],
            write="overwrite",
        ),
    ]


def found(lake: str) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of every dataset that the chain writes."""
    names = ("clean", "clean_quarantine", "daily", "total")
    return {
        name: sorted(
            tuple(value for key, value in row.items() if key != "_batch")
            for row in (
                lode.open_dataset(name, lake).scan().read_all().to_pylist()
                if lode.Dataset(name, lake).exists
                else []
            )
        )
        for name in names
    }


def commits(lake: str) -> int:
    """How many snapshots the chain has made."""
    datasets = [lode.Dataset(name, lake) for name in ("clean", "clean_quarantine", "daily", "total")]
    return sum(dataset.latest().sequence or 0 for dataset in datasets if dataset.exists)


def computed(lake: str) -> dict[str, list[tuple[Any, ...]]]:
    """What these rows are by plain Python."""
    raw = [tuple(row.values()) for row in source(lake).scan().read_all().to_pylist()]
    clean = sorted((day, id, n * 2) for day, id, n in raw if n > 0)
    days = sorted({day for day, _, _ in clean})
    daily = [
        (day, sum(n for at, _, n in clean if at == day), sum(1 for at, _, _ in clean if at == day))
        for day in days
    ]
    return {
        "clean": clean,
        "clean_quarantine": sorted((day, id, n * 2, ["positive"]) for day, id, n in raw if n <= 0),
        "daily": daily,
        "total": [(sum(n for _, n, _ in daily), sum(rows for _, _, rows in daily))],
    }


def main(lake: str, pids: str) -> None:
    spark = lode.spark.session("local[1]", settings=SETTINGS)
    gateway: Any = spark.sparkContext._gateway
    Path(pids).write_text(f"{gateway.proc.pid} {os.getpid()}")
    for turn in range(10**6):
        for number, pipeline in enumerate(chain(lake)):
            pipeline.run(spark)
            if turn % 3 == number:
                pipeline.refresh(spark)
            if turn % 4 == 1 and number < 2:
                pipeline.refresh(spark, since="d1", until="d2")
        time.sleep(0.05)


if __name__ == "__main__":
    main(*sys.argv[1:])
