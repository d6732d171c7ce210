"""Expectations: every row is checked in the pass that writes it, counted, and in one place."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

import lode
from lode.pipeline import Counts, Expectation, Pipeline, counts_of
from lode.spark.dataset_ref import DatasetRef
from lode.store import SimulatedCrash
from support.spark.dying import dying

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = tuple[str, int | None]


def source(lake: str, *batches: list[Row]) -> lode.Dataset:
    codec = lode.Parquet({"day": "string!", "n": "int64"})
    dataset = lode.Dataset("visits", lake, codec=codec, layout=lode.HiveLayout("day"))
    for batch in batches:
        dataset.write([{"day": day, "n": n} for day, n in batch])
    return dataset


def pipeline(lake: str, expect: dict[str, Expectation], **options: Any) -> Pipeline:
    return Pipeline("p", DatasetRef(lake, "visits"), DatasetRef(lake, "out"), expect=expect, **options)


def rows(lake: str, name: str) -> list[tuple[Any, ...]]:
    found = lode.open_dataset(name, lake).scan().read_all().to_pylist()
    return sorted((tuple(value for key, value in row.items() if key != "_batch") for row in found), key=str)


def test_rows_are_counted_dropped_and_quarantined_with_their_reasons(
    spark: SparkSession, lake: str, caplog: pytest.LogCaptureFixture
) -> None:
    source(lake, [("mon", 1), ("mon", -1), ("mon", None), ("tue", 50)])
    expect = {
        "small": Expectation("n < 10"),
        "known": Expectation("n IS NOT NULL", "quarantine"),
        "positive": Expectation("n > 0", "drop"),
    }
    with caplog.at_level(logging.WARNING, "lode.spark"):
        (batch,) = pipeline(lake, expect).run(spark)
    counts = {
        "small": Counts(2, 2, "warn"),
        "known": Counts(3, 1, "quarantine"),
        "positive": Counts(2, 2, "drop"),
    }
    assert batch.expectations == counts
    assert counts_of(lode.open_dataset("out", lake).latest()) == counts
    assert "2 of 4 rows fail expectation small" in caplog.text
    assert rows(lake, "out") == [("mon", 1), ("tue", 50)]
    # A check that is NULL is failed: of the unknown number nobody can say that it is small.
    assert rows(lake, "out_quarantine") == [("mon", None, ["small", "known", "positive"])]
    source(lake, [("wed", 2)])
    (batch,) = pipeline(lake, expect).run(spark)
    assert batch.as_dict()["expectations"]["known"] == {"passed": 1, "failed": 0, "on_fail": "quarantine"}
    assert len(lode.open_dataset("out_quarantine", lake).snapshots()) == 2  # its columns, and the first batch


def test_a_failed_expectation_commits_nothing_and_names_an_example(spark: SparkSession, lake: str) -> None:
    source(lake, [("mon", 1), ("mon", -7)])
    expect = {"positive": Expectation("n > 0", "fail"), "odd": Expectation("n = 1", "quarantine")}
    with pytest.raises(
        lode.ExpectationFailedError,
        match=r"1 of 2 rows fail expectation 'positive' \(n > 0\), such as .*-7.*: nothing was written",
    ) as caught:
        pipeline(lake, expect).run(spark)
    assert (caught.value.expectation, caught.value.failed) == ("positive", 1)
    assert not lode.Dataset("out", lake).exists
    assert rows(lake, "out_quarantine") == []
    assert list(lode.open_dataset("out_quarantine", lake).store.list("datasets/out/")) == []


def test_a_check_that_is_no_condition_is_refused_by_its_name(spark: SparkSession, lake: str) -> None:
    source(lake, [("mon", 1)])
    for check, message in (
        ("n + 1", "'c' is bigint: it must be a condition"),
        ("m > 0", "'c' cannot be checked"),
    ):
        with pytest.raises(lode.InvalidOptionError, match=message):
            pipeline(lake, {"c": Expectation(check)}).run(spark)
    own = pipeline(lake, {"c": Expectation("true")}, steps=["SELECT n AS __lode_failed FROM {input}"])
    with pytest.raises(lode.InvalidOptionError, match="a column '__lode_failed', which Lode uses itself"):
        own.run(spark)
    with pytest.raises(lode.InvalidOptionError, match="on_fail is 'ignore'"):
        Expectation("n > 0", "ignore")  # type: ignore[arg-type]
    with pytest.raises(lode.InvalidOptionError, match="check is ' '"):
        Expectation(" ")


def test_a_recomputation_replaces_the_quarantined_rows_of_its_days(spark: SparkSession, lake: str) -> None:
    visits = source(lake, [("mon", -1), ("mon", 1), ("tue", -2), ("tue", 2)])
    expect = {"positive": Expectation("n > 0", "quarantine")}
    recomputed = pipeline(lake, expect, recompute_by="day")
    recomputed.run(spark)
    assert rows(lake, "out_quarantine") == [("mon", -1, ["positive"]), ("tue", -2, ["positive"])]
    visits.overwrite([{"day": "mon", "n": 5}, {"day": "mon", "n": -6}])
    recomputed.run(spark)
    assert rows(lake, "out") == [("mon", 5), ("tue", 2)]
    assert rows(lake, "out_quarantine") == [("mon", -6, ["positive"]), ("tue", -2, ["positive"])]
    visits.delete("n < 0")
    recomputed.run(spark)
    assert rows(lake, "out_quarantine") == []
    source(lake, [("wed", -3)])
    recomputed.run(spark)
    recomputed.refresh(spark)
    assert rows(lake, "out_quarantine") == [("wed", -3, ["positive"])]


def test_an_attempt_after_a_crash_replaces_what_the_first_one_quarantined(
    spark: SparkSession, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source(lake, [("mon", -1), ("mon", 1)])
    made = pipeline(lake, {"positive": Expectation("n > 0", "quarantine")})
    with monkeypatch.context() as patch:
        dying(patch, writes=0, under="datasets/out/")
        with pytest.raises(SimulatedCrash):
            made.run(spark)
    assert rows(lake, "out_quarantine") == [("mon", -1, ["positive"])]
    source(lake, [("tue", -2)])  # so that the second attempt has more rows than the first
    made.run(spark)
    assert rows(lake, "out") == [("mon", 1)]
    assert rows(lake, "out_quarantine") == [("mon", -1, ["positive"]), ("tue", -2, ["positive"])]


def test_a_merge_updates_by_key_and_checks_its_rows_too(spark: SparkSession, lake: str) -> None:
    visits = source(lake, [("mon", 1), ("tue", -2)])
    made = pipeline(lake, {"positive": Expectation("n > 0", "quarantine")}, write="merge", on=["day"])
    (first,) = made.run(spark)
    assert first.action == "merge"
    assert first.expectations == {"positive": Counts(1, 1, "quarantine")}
    source(lake, [("mon", 5), ("wed", 3)])
    made.run(spark)
    assert rows(lake, "out") == [("mon", 5), ("wed", 3)]
    assert rows(lake, "out_quarantine") == [("tue", -2, ["positive"])]
    with pytest.raises(lode.InvalidOptionError, match=r"several rows of one key \(day = 'mon'\)"):
        made.refresh(spark)
    visits.delete("n = 1")
    with pytest.raises(
        lode.RowsRemovedError, match=r"write='overwrite' with recompute_by .*\(Pipeline\.refresh\)$"
    ):
        made.run(spark)
    made.refresh(spark)
    assert rows(lake, "out") == [("mon", 5), ("wed", 3)]
    source(lake, [("sun", -1)])
    made.run(spark)
    assert made.run(spark) == []
    assert rows(lake, "out_quarantine") == [("sun", -1, ["positive"]), ("tue", -2, ["positive"])]


def test_a_quarantine_has_the_rows_of_one_pipeline(spark: SparkSession, lake: str) -> None:
    source(lake, [("mon", 1), ("tue", -2)])
    options: dict[str, Any] = {
        "expect": {"positive": Expectation("n > 0", "quarantine")},
    }
    # The first batches of two pipelines have the same name, and one would replace the rows of the other.
    for first in ("append", "merge"):
        on = ["day"] if first == "merge" else []
        sink = DatasetRef(lake, f"out_{first}")
        options["quarantine"] = DatasetRef(lake, f"bad_{first}")
        Pipeline(first, DatasetRef(lake, "visits"), sink, write=first, on=on, **options).run(spark)
        other = Pipeline("other", DatasetRef(lake, "visits"), DatasetRef(lake, f"other_{first}"), **options)
        with pytest.raises(lode.InvalidOptionError, match=f"'bad_{first}', which pipeline '{first}' writes"):
            other.run(spark)
        assert rows(lake, f"bad_{first}") == [("tue", -2, ["positive"])]
    lode.Dataset("archive", lake, codec=lode.Parquet({"day": "string", "n": "int64"})).write(
        [{"day": "mon", "n": 7}]
    )
    options["quarantine"] = DatasetRef(lake, "archive")
    other = Pipeline(
        "other", DatasetRef(lake, "visits"), DatasetRef(lake, "o"), recompute_by="day", **options
    )
    with pytest.raises(lode.InvalidOptionError, match="'archive' is no quarantine of pipeline 'other'"):
        other.run(spark)
    assert rows(lake, "archive") == [("mon", 7)]


def test_expectations_are_counted_by_spark_connect_too(connect: SparkSession, lake: str) -> None:
    source(lake, [("mon", 1), ("tue", -2)])
    expect = {"positive": Expectation("n > 0", "quarantine")}
    made = pipeline(lake, expect, recompute_by="day", write="overwrite")
    made.run(connect)
    source(lake, [("tue", 2)])
    (batch,) = made.run(connect)
    assert (batch.recomputed, batch.expectations) == (("tue",), {"positive": Counts(1, 1, "quarantine")})
    assert rows(lake, "out") == [("mon", 1), ("tue", 2)]
    assert rows(lake, "out_quarantine") == [("tue", -2, ["positive"])]
