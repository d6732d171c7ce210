"""Spark Connect: everything that works with a session of its own works with a client of a server."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import lode
import lode.spark
from lode.pipeline import Pipeline
from lode.spark import DatasetRef, jobs
from lode.spark.schema import spark_schema
from lode.spark.where import conditions_in

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture
def connect_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``pyspark.sql.functions`` make columns of Spark Connect, as where there is no other session."""
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")


def store_options(server: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in server.options.items():
        inner = value.items() if isinstance(value, dict) else [("", value)]
        found |= {f"store.{name}{'.' if key else ''}{key}": str(each) for key, each in inner}
    return found


def numbers(dataset: lode.Dataset) -> list[Any]:
    values: list[Any] = dataset.scan(columns=["n"]).read_all()["n"].to_pylist()
    return sorted(values)


def test_a_dataset_on_s3_is_read_and_goes_through_a_pipeline(connect: SparkSession, s3_server: Any) -> None:
    url, options = s3_server.create("connect"), store_options(s3_server)
    source = lode.Dataset("source", url, codec="parquet", store_options=s3_server.options)
    source.write(pa.table({"n": [1, 2]}))
    assert lode.spark.read(connect, url, "source", options=options).count() == 2
    sink = DatasetRef(url, "sink", **options)
    steps = ["SELECT n * 10 AS n FROM {input}"]
    (batch,) = Pipeline("p", DatasetRef(url, "source", **options), sink, steps).run(connect)
    assert (batch.rows_in, batch.rows_out) == (2, 2)
    assert numbers(sink.open()) == [10, 20]


def test_jobs_check_copy_and_export(connect: SparkSession, lake: str, tmp_path: Path) -> None:
    dataset = lode.Dataset("d", lake, codec="parquet", checksum="md5")
    for n in range(3):
        dataset.write(pa.table({"n": [n]}))
    assert jobs.verify(connect, dataset) == lode.verify(dataset)
    copy = DatasetRef(lake, "copy")
    assert len(jobs.copy(connect, dataset, copy)) == 3
    assert numbers(copy.open()) == [0, 1, 2]
    folder = str(tmp_path / "export")
    assert not jobs.export(connect, dataset, folder).replayed
    assert jobs.export(connect, dataset, folder).replayed
    assert connect.read.parquet(folder).count() == 3
    dataset.write(pa.table({"n": [3]}))
    with pytest.raises(lode.InvalidOptionError, match="holds an export of 'd'"):
        jobs.export(connect, dataset, folder)
    damaged = tmp_path / "lake" / dataset.latest().files[0].path
    damaged.write_bytes(damaged.read_bytes()[:-1])
    found = jobs.verify(connect, dataset)
    assert [problem.kind for problem in found.problems] == ["size"]


CLIENT = """
import sys
import lode, lode.spark
from lode.pipeline import Pipeline
from pyspark.sql.functions import col

url, lake = sys.argv[1:]
spark = lode.spark.session(url)
dataset = lode.Dataset("d", lake, codec="parquet")
dataset.write(spark.range(3).select(col("id").alias("n")))
lode.spark.merge(dataset, spark.range(2, 5).select(col("id").alias("n")), on=["n"])
lode.spark.compact(dataset)
steps = [lambda frame: frame.where(col("n") > 1)]
pipeline = Pipeline("p", lode.spark.DatasetRef(lake, "d"), lode.spark.DatasetRef(lake, "out"), steps)
print([batch.rows_out for batch in pipeline.run(spark)])
"""


def test_a_client_in_a_process_of_its_own_needs_no_java(connect_url: str, lake: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CLIENT, connect_url, lake],
        env={**os.environ, "JAVA_HOME": "/nowhere", "PATH": "/nowhere"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "[3]", done.stderr
    assert numbers(lode.open_dataset("d", lake)) == [0, 1, 2, 3, 4]


def test_tasks_rewrite_files(connect: SparkSession, lake: str) -> None:
    dataset = lode.Dataset("d", lake, codec="parquet")
    dataset.write(pa.table({"n": [1, 2, 3], "v": ["a", "b", "c"]}))
    rows = connect.createDataFrame([(2, "B"), (4, "D")], "n long, v string")
    change = lode.spark.merge(dataset, rows, on=["n"])
    assert change.snapshot is not None
    assert dataset.scan().read_all().sort_by("n").to_pydict() == {
        "n": [1, 2, 3, 4],
        "v": ["a", "B", "c", "D"],
    }
    lode.spark.delete(dataset, "n = 1", spark=connect)
    lode.spark.compact(dataset, spark=connect)
    assert numbers(dataset) == [2, 3, 4]
    assert len(dataset.plan().files) == 1


INSTANT = pa.timestamp("us", "UTC")
TYPES: Any = {"n": pa.int64(), "s": pa.string(), "d": pa.date32(), "f": pa.float64(), "t": INSTANT}
COLUMNS = pa.schema(TYPES)
# Conditions, and whether they rule out a file with n from 10 to 20, s from "k" to "m", d in 2026-11.
CONDITIONS = [
    ("n > 20", True),
    ("n >= 20", False),
    ("5 > n", True),
    ("n = 9 OR s < 'k'", True),
    ("n = 9 OR s < 'l'", False),
    ("n BETWEEN 21 AND 30", True),
    ("n IN (1, 2, 30)", True),
    ("n IN (1, 12)", False),
    ("n IS NULL", True),
    ("n IS NOT NULL AND n < -1", True),
    ("d < DATE '2026-11-01'", True),
    ("n > 20 AND upper(s) = 'X'", True),
    # Spark may mean something else than Lode: these are left to it.
    ("s = 21", False),
    ("n > '20'", False),
    ('s = "n"', False),
    ("s = 'a''b'", False),
    ("s = '\\\\x'", False),
    ("N > 20", False),
    ("NOT n <= 20", False),
    ("f > 1000", False),
    ("t > TIMESTAMP '2036-01-01 00:00:00'", False),
    ("n + 0 > 20", False),
    ("n > 20 OR upper(s) = 'X'", False),
    ("((", False),
]


@pytest.mark.parametrize(("where", "pruned"), CONDITIONS)
def test_a_condition_prunes_where_spark_and_lode_mean_the_same(
    connect: SparkSession, where: str, pruned: bool
) -> None:
    assert prunes(connect, where) == pruned


def prunes(connect: SparkSession, where: Any) -> bool:
    days = [date(2026, 11, 1), date(2026, 11, 30)]
    rows: Any = {"n": [10, 20], "s": ["k", "m"], "d": days, "f": [1.0, 2.0], "t": [None, None]}
    dataset = lode.Dataset("d", "memory://", codec="parquet")
    dataset.write(pa.table(rows, schema=COLUMNS))
    found = conditions_in(where, spark_schema(COLUMNS), connect)
    plan = dataset.plan()
    return any(not plan.pruned(condition.expression) for condition in found)


@pytest.mark.usefixtures("connect_functions")
def test_a_condition_may_be_a_column(connect: SparkSession) -> None:
    from pyspark.sql.functions import col

    assert prunes(connect, (col("n") > 20) & (col("s") != "x"))
    assert prunes(connect, col("n").isin(1, 2) | (col("d") < date(2026, 11, 1)))
    assert prunes(connect, col("n").isNull())
    assert not prunes(connect, col("n") >= 20)
    assert not prunes(connect, ~(col("n") <= 20))
    assert not prunes(connect, col("f") > 1000)


def test_files_that_cannot_match_are_not_opened(connect: SparkSession, lake: str) -> None:
    dataset = lode.Dataset("d", lake, codec="parquet")
    for n in (1, 2):
        dataset.write(pa.table({"n": [n]}))
    frame = lode.spark.read(connect, lake, "d", where="n > 1")
    assert len(frame.inputFiles()) == 1
    assert [row.n for row in frame.collect()] == [2]
