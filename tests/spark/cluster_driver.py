"""A driver of its own, on executors that are processes of their own; one of them is killed at work."""

from __future__ import annotations

import sys

import tasks

import lode
import lode.spark


def main(lake: str) -> None:
    spark = lode.spark.session("local-cluster[2,1,1024]", settings={"spark.log.level": "OFF"})
    spark.range(4).repartition(2).count()  # both executors are there
    ds = lode.Dataset(
        "events", lake, codec=tasks.KillsExecutor(row_group_rows=1), layout=lode.HiveLayout("half")
    )
    df = spark.range(0, 40, 1, 4).selectExpr("id", "id % 2 as half")
    snapshot = lode.spark.write(ds, df, target_file_bytes=1)
    print(snapshot.row_count)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
