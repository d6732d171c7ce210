"""A driver of its own, on executors that are processes of their own; one of them is killed at work."""

from __future__ import annotations

import sys
from pathlib import Path

import lode
import lode.spark
from support.spark import tasks

# JVMs that live for seconds are not worth much compiling.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def main(lake: str, victim: Path) -> None:
    spark = lode.spark.session(
        "local-cluster[2,1,1024]",
        settings={
            "spark.log.level": "OFF",
            "spark.executorEnv.VICTIM": str(victim),
            "spark.driver.extraJavaOptions": QUICK_JAVA,
            "spark.executor.extraJavaOptions": QUICK_JAVA,
        },
    )
    ds = lode.Dataset(
        "events", lake, codec=tasks.KillsExecutor(row_group_rows=1), layout=lode.HiveLayout("half")
    )
    df = spark.range(0, 40, 1, 4).selectExpr("id", "id % 2 as half")
    lode.spark.write(ds, df, target_file_bytes=1)
    assert not Path(f"/proc/{victim.read_text()}").exists(), "no executor was killed"
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
