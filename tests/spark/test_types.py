"""Types of Spark that Arrow or datasets do not have: stored as what they mean, or refused with a remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

import lode
import lode.spark
from lode.spark.batch import BatchWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def opened(lake: str, dataset: str = "events") -> lode.Dataset:
    return lode.Dataset(dataset, lake, codec="parquet")


def test_a_type_that_cannot_be_stored_is_refused_at_the_driver(spark: SparkSession, lake: str) -> None:
    rows = spark.sql("SELECT 1 AS n, INTERVAL '1' YEAR AS age")
    message = "column 'age' is interval year, which cannot be stored: cast it first"
    with pytest.raises(lode.InvalidOptionError, match=message):
        lode.Dataset("events", lake, codec="parquet").write(rows)
    with pytest.raises(AnalysisException, match=message):
        rows.write.format("lode").options(path=lake, dataset="events").mode("append").save()


@pytest.mark.parametrize("way", ["write", "format"])
def test_arrays_without_elements_come_back_and_fit_typed_columns(
    spark: SparkSession, lake: str, way: str
) -> None:
    def written(query: str, dataset: str) -> None:
        rows = spark.sql(query)
        if way == "write":
            opened(lake, dataset).write(rows)
        else:
            rows.write.format("lode").options(path=lake, dataset=dataset).mode("append").save()

    empty = (
        "SELECT array() AS x, array(array()) AS y, map('a', array()) AS m, named_struct('x', array()) AS s"
    )
    written(empty, "untyped")
    assert lode.spark.read(spark, lake, "untyped").collect() == spark.sql(empty).collect()
    written("SELECT array('a') AS x", "typed")
    written("SELECT array() AS x", "typed")
    assert sorted(row.x for row in lode.spark.read(spark, lake, "typed").collect()) == [[], ["a"]]


REFUSED_TYPES = [
    ("map()", r"column 'c' has a map<void,void>, whose keys have no type: cast it first"),
    ("array(map())", r"column 'c' has a map<void,void>, whose keys"),
    (
        "'a' COLLATE UNICODE_CI",
        r"column 'c' has a string collate UNICODE_CI, and datasets have no collations",
    ),
    ("array(named_struct('s', 'a' COLLATE UTF8_LCASE))", r"column 'c' has a string collate UTF8_LCASE"),
    ("map('a' COLLATE UNICODE, 1)", r"column 'c' has a string collate UNICODE, "),
]


@pytest.mark.parametrize(("value", "message"), REFUSED_TYPES)
def test_a_type_that_would_lose_its_meaning_is_refused_with_the_cast(
    spark: SparkSession, lake: str, value: str, message: str
) -> None:
    rows = spark.sql(f"SELECT 1 AS n, {value} AS c")
    dataset = opened(lake)
    with pytest.raises(lode.InvalidOptionError, match=message):
        dataset.write(rows)
    with pytest.raises(lode.InvalidOptionError, match=message):
        BatchWriter({"path": lake, "dataset": "events"}, rows.schema, overwrite=False)
    dataset.write(pa.table({"n": [1], "c": ["a"]}))
    with pytest.raises(lode.InvalidOptionError, match=message):
        lode.spark.read(spark, lake, "events", schema=rows.schema)


def test_the_cast_that_is_advised_makes_them_fit(spark: SparkSession, lake: str) -> None:
    rows = spark.sql(
        "SELECT CAST('a' COLLATE UNICODE_CI AS STRING COLLATE UTF8_BINARY) AS c, "
        "CAST(map() AS MAP<STRING, STRING>) AS m"
    )
    opened(lake).write(rows)
    assert lode.spark.read(spark, lake, "events").collect() == [("a", {})]
