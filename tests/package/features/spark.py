"""One row through Spark: the functions, ``format("lode")`` and a pipeline in YAML."""

from __future__ import annotations

from pathlib import Path

import lode
import lode.spark
from lode.spark.__main__ import main

ds = lode.Dataset.create("visits", "lake", schema={"n": "int64"})
spark = lode.spark.session("local[1]")
lode.spark.write(ds, spark.createDataFrame([(7,)], "n long"))
assert [row.n for row in lode.spark.read(spark, "lake", "visits").collect()] == [7]

lake = str(Path("lake").resolve())
found = spark.read.format("lode").option("path", lake).option("dataset", "visits").load()
assert [row.n for row in found.collect()] == [7]

Path("lake.yaml").write_text(
    """
lake: lake
pipelines:
  double: {from: visits, steps: "SELECT n * 2 AS n FROM {visits}", into: doubled}
spark: {master: "local[1]"}
"""
)
assert main(["run", "lake.yaml", "--once"]) == 0
assert lode.Dataset("doubled", "lake").scan().read_all().to_pylist() == [{"n": 14}]
