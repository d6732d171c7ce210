"""A driver of a graph of ten pipelines in a process of its own, which runs it until it is killed.

    python graph_driver.py LAKE MASTER

Takes runs as lines of JSON, the arguments of ``Project.run``. Prints ``ready`` and the id of the Java process
when Spark has started, a line for each batch, and a line of JSON for each run: how each pipeline ended, or
``{"lost": …}`` if the Java process did. Then it starts another one.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import lode
import lode.spark
from lode.pipeline import Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.log.level": "OFF",
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.scheduler.mode": "FAIR",
    "spark.sql.shuffle.partitions": "2",
}
BY_DAY = {"write": "overwrite", "partition_by": "day"}


def graph(lake: str) -> Project:
    """Raw → clean → … → report: branches, joins, unions, tables, expectations and totals."""
    project = Project(lake, parallel=3)

    def add(name: str, from_: Any, steps: str, **more: Any) -> None:
        into = {"dataset": name, **more.pop("into", {"partition_by": "day"})}
        project.add(name, from_=from_, into=into, steps=steps, recompute_by="day", **more)

    add(
        "clean",
        "raw",
        "SELECT day, id, n FROM {raw}",
        expect={"positive": {"check": "n >= 0", "on_fail": "quarantine"}},
    )
    add("doubled", "clean", "SELECT day, id, n * 2 AS n FROM {clean}")
    add("named", "clean", "SELECT day, id, name FROM {clean} JOIN {names} ON id % 3 = k", tables=["names"])
    add("evens", "clean", "SELECT * FROM {clean} WHERE id % 2 = 0")
    add("odds", "clean", "SELECT * FROM {clean} WHERE id % 2 = 1")
    add("daily", "clean", "SELECT day, sum(n) AS n, count(*) AS c FROM {clean} GROUP BY day", into=BY_DAY)
    add("twice", "doubled", "SELECT day, sum(n) AS n FROM {doubled} GROUP BY day", into=BY_DAY)
    add("both", ["evens", "odds"], "SELECT * FROM {evens} UNION ALL SELECT * FROM {odds}")
    joined = "SELECT day, a.n AS n, b.n AS m, a.c FROM {daily} a JOIN {twice} b USING (day)"
    add("joined", ["daily", "twice"], joined, into=BY_DAY)
    report = (
        "SELECT day, max(j.n) AS n, max(j.m) AS m, max(j.c) AS c, count(b.id) AS ids "
        "FROM {joined} j LEFT JOIN {both} b USING (day) GROUP BY day"
    )
    add("report", ["joined", "both"], report, into=BY_DAY)
    return project


def begin(master: str) -> SparkSession:
    spark = lode.spark.session(master, settings=SETTINGS)
    gateway: Any = spark.sparkContext._gateway
    print(f"ready {gateway.proc.pid}", flush=True)
    return spark


def main(lake: str, master: str) -> None:
    project = graph(lake)
    spark = begin(master)
    for line in sys.stdin:
        try:
            found = project.run(
                spark,
                progress=lambda name, batch: print(f"batch {name} {batch.action}", flush=True),
                **json.loads(line),
            )
        except lode.SparkLostError as error:
            print(json.dumps({"lost": str(error)}), flush=True)
            spark = begin(master)
            continue
        states = {name: [run.state, run.batches, run.error] for name, run in found.items()}
        print(json.dumps(states), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
