"""Pipelines that follow corrections: what changes upstream is computed again downstream, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import lode
from lode.lineage import lineage_of
from lode.lineage.flow import flows, origin_of
from lode.pipeline import Pipeline, Project
from lode.pipeline.status import status_of
from lode.spark.dataset_ref import DatasetRef

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = {"day": "string", "page": "string!", "n": "int64!"}
DAILY = "SELECT day, sum(n) AS n FROM {input} GROUP BY day"

Row = tuple[str | None, str, int]


def source(lake: str, *batches: list[Row], name: str = "visits", by: str | None = "day") -> lode.Dataset:
    layout = None if by is None else lode.HiveLayout(by)
    dataset = lode.Dataset(name, lake, codec=lode.Parquet(SCHEMA), layout=layout)
    for batch in batches:
        dataset.write([{"day": day, "page": page, "n": n} for day, page, n in batch])
    return dataset


def rows(lake: str, name: str) -> list[tuple[Any, ...]]:
    found = lode.open_dataset(name, lake).scan().read_all().to_pylist()
    return sorted((tuple(row.values()) for row in found), key=str)


def daily(lake: str, **options: Any) -> Pipeline:
    """Totals of each day."""
    given: dict[str, Any] = {"write": "overwrite", "steps": [DAILY], **options}
    return Pipeline(
        "daily", DatasetRef(lake, "visits"), DatasetRef(lake, "daily", partitionBy="day"), **given
    )


def test_an_aggregate_per_day_is_right_after_late_data(spark: SparkSession, lake: str) -> None:
    source(lake, [("mon", "/", 1), ("tue", "/", 2)])
    pipeline = daily(lake)
    (first,) = pipeline.run(spark)
    assert (first.action, first.recomputed) == ("recompute", ("mon", "tue"))
    source(lake, [("mon", "/late", 10), ("wed", "/", 3)])
    (second,) = pipeline.run(spark)
    assert second.recomputed == ("mon", "wed")
    assert rows(lake, "daily") == [("mon", 11), ("tue", 2), ("wed", 3)]
    lineage = lineage_of(second.snapshot)
    assert lineage is not None
    assert lineage.inputs[0].snapshots == 1
    assert second.snapshot.operation == "overwrite"
    assert pipeline.run(spark) == []


@pytest.mark.parametrize("by", ["day", None])
def test_corrections_replace_the_output_of_the_days_that_they_touch(
    spark: SparkSession, lake: str, by: str | None
) -> None:
    visits = source(lake, [("mon", "/", 1)], [("tue", "/", 2), ("tue", "/x", 4)], [("wed", "/", 8)], by=by)
    copy = Pipeline(
        "copy",
        DatasetRef(lake, "visits"),
        DatasetRef(lake, "copy"),
        ["SELECT day, page, n * 10 AS n FROM {input}"],
        recompute_by="day",
    )
    assert [batch.action for batch in copy.run(spark)] == ["append"]
    visits.delete("page = '/x'")
    (deleted,) = copy.run(spark)
    assert (deleted.action, deleted.recomputed) == ("recompute", ("tue",))
    assert rows(lake, "copy") == [("mon", "/", 10), ("tue", "/", 20), ("wed", "/", 80)]
    visits.merge(
        [{"day": "wed", "page": "/", "n": 9}, {"day": "thu", "page": "/", "n": 5}], on=["day", "page"]
    )
    visits.compact()
    (merged,) = copy.run(spark)
    assert merged.recomputed == ("thu", "wed")
    assert rows(lake, "copy") == [("mon", "/", 10), ("thu", "/", 50), ("tue", "/", 20), ("wed", "/", 90)]
    visits.delete("day = 'mon'")  # nothing is left of it
    source(lake, [("fri", "/", 3)], [("fri", "/x", 4)], by=by)
    (emptied,) = copy.run(spark)
    assert emptied.recomputed is not None
    # Without partitions the compacted file has all days, and the delete rewrote it.
    assert set(emptied.recomputed) == {"fri", "mon", *([] if by else ["thu", "tue", "wed"])}
    visits.compact()
    assert copy.run(spark) == []
    expected = [("fri", "/", 30), ("fri", "/x", 40), ("thu", "/", 50), ("tue", "/", 20), ("wed", "/", 90)]
    assert rows(lake, "copy") == expected
    visits.restore(1)
    copy.run(spark)
    assert rows(lake, "copy") == [("mon", "/", 10)]


def test_days_that_are_null_are_computed_again_too(spark: SparkSession, lake: str) -> None:
    visits = source(lake, [(None, "/", 1), ("mon", "/", 2)], by=None)
    pipeline = daily(lake, recompute_by="day")
    pipeline.run(spark)
    source(lake, [(None, "/", 4)], by=None)
    (batch,) = pipeline.run(spark)
    assert batch.recomputed == ("None",)
    assert rows(lake, "daily") == [("mon", 2), (None, 5)]
    visits.delete("day IS NULL")
    pipeline.run(spark)
    assert rows(lake, "daily") == [("mon", 2)]


def test_without_recompute_by_a_correction_stops_the_run_with_both_remedies(
    spark: SparkSession, lake: str
) -> None:
    visits = source(lake, [("mon", "/", 1), ("tue", "/", 2)])
    pipeline = Pipeline("copy", DatasetRef(lake, "visits"), DatasetRef(lake, "copy"))
    pipeline.run(spark)
    visits.delete("day = 'mon'")
    before = lode.open_dataset("copy", lake).latest()
    with pytest.raises(lode.RowsRemovedError, match=r"set recompute_by .* --full-refresh"):
        pipeline.run(spark)
    assert lode.open_dataset("copy", lake).latest() == before
    plan = pipeline.plan()
    assert plan.action == "stop"
    assert plan.reason is not None
    assert "recompute_by" in plan.reason
    refreshed = pipeline.refresh(spark)
    assert refreshed is not None
    assert rows(lake, "copy") == [("tue", "/", 2)]
    assert pipeline.run(spark) == []


def test_output_of_another_day_is_refused_with_the_step_that_made_it(spark: SparkSession, lake: str) -> None:
    source(lake, [("mon", "/", 1)])

    def shifted(frame: DataFrame) -> DataFrame:
        return frame.selectExpr("'sun' AS day", "page", "n")

    pipeline = daily(lake, steps=["SELECT * FROM {input} WHERE n > 0", shifted, DAILY])
    with pytest.raises(lode.InvalidOptionError, match=r"step 'shifted' made 1 rows of another day .*sun"):
        pipeline.run(spark)
    assert not lode.Dataset("daily", lake).exists
    dropped = daily(lake, steps=["SELECT sum(n) AS n FROM {input}"])
    with pytest.raises(lode.InvalidOptionError, match=r"'day', which step 'SELECT sum\(n\) AS n .* drops"):
        dropped.run(spark)
    other = daily(lake, steps=["SELECT CAST(length(day) AS INT) AS day, n FROM {input}"])
    with pytest.raises(
        lode.InvalidOptionError, match=r"is text in dataset 'visits' and integer in the output"
    ):
        other.run(spark)


@pytest.mark.parametrize("by", ["day", None])
def test_an_append_is_refused_if_a_correction_of_it_would_be_wrong(
    spark: SparkSession, lake: str, by: str | None
) -> None:
    source(lake, [("mon", "/", 1), ("tue", "/", 2)], by=by)

    def pipeline(*steps: str) -> Pipeline:
        return Pipeline("p", DatasetRef(lake, "visits"), DatasetRef(lake, "out"), steps, recompute_by="day")

    shifted = pipeline("SELECT if(day = 'mon', 'tue', 'wed') AS day, n FROM {input}")
    with pytest.raises(
        lode.InvalidOptionError, match=r"made 1 rows of another day .*wed.* nothing was written"
    ):
        shifted.run(spark)
    with pytest.raises(lode.InvalidOptionError, match=r"made 2 rows of another day .*null"):
        pipeline("SELECT CAST(NULL AS STRING) AS day, n FROM {input}").run(spark)
    with pytest.raises(lode.InvalidOptionError, match=r"'day', which step 'SELECT n FROM {input}' drops"):
        pipeline("SELECT n FROM {input}").run(spark)
    with pytest.raises(
        lode.InvalidOptionError, match="is text in dataset 'visits' and integer in the output"
    ):
        pipeline("SELECT length(day) AS day FROM {input}").run(spark)
    with pytest.raises(lode.InvalidOptionError, match="made 1 rows of another day"):
        shifted.refresh(spark)
    assert not lode.Dataset("out", lake).exists
    source(lake, [(None, "/", 4)], by=by)
    pipeline("SELECT day, n FROM {input}").run(spark)
    assert rows(lake, "out") == [("mon", 1), ("tue", 2), (None, 4)]
    lode.open_dataset("visits", lake).evolve(rename={"page": "p", "n": "m"})
    source_now = lode.open_dataset("visits", lake)
    source_now.write([{"day": "thu", "p": "/", "m": 8}])
    pipeline("SELECT day, m AS n FROM {input}").run(spark)
    assert rows(lake, "out")[-1] == (None, 4)
    assert len(rows(lake, "out")) == 4


def test_an_unpartitioned_overwrite_is_computed_from_all_rows(spark: SparkSession, lake: str) -> None:
    visits = source(lake, [("mon", "/", 1)], by=None)
    pipeline = Pipeline(
        "total",
        DatasetRef(lake, "visits"),
        DatasetRef(lake, "total"),
        ["SELECT sum(n) AS n FROM {input}"],
        write="overwrite",
    )
    pipeline.run(spark)
    source(lake, [("tue", "/", 2)], by=None)
    visits.delete("n = 1")
    source(lake, [("tue", "/", 4)], by=None)
    pipeline.run(spark)
    assert rows(lake, "total") == [(6,)]


def test_a_chain_of_three_follows_a_correction_and_a_backfill(spark: SparkSession, lake: str) -> None:
    visits = source(lake, [("mon", "/", 1), ("tue", "/", 2)], [("tue", "/x", 100)])
    clean = Pipeline(
        "clean",
        DatasetRef(lake, "visits"),
        DatasetRef(lake, "clean", partitionBy="day"),
        ["SELECT * FROM {input} WHERE n < 1000"],
        recompute_by="day",
    )
    totals = Pipeline(
        "totals",
        DatasetRef(lake, "clean"),
        DatasetRef(lake, "totals", partitionBy="day"),
        [DAILY],
        write="overwrite",
    )
    months = Pipeline(
        "all",
        DatasetRef(lake, "totals"),
        DatasetRef(lake, "all"),
        ["SELECT sum(n) AS n FROM {input}"],
        write="overwrite",
    )
    chain = (clean, totals, months)
    for pipeline in chain:
        pipeline.run(spark)
    visits.delete("page = '/x'")
    for pipeline in chain:
        pipeline.run(spark)
    assert rows(lake, "totals") == [("mon", 1), ("tue", 2)]
    assert rows(lake, "all") == [(3,)]
    twice = Pipeline(
        "clean", clean.source, clean.sink, ["SELECT day, page, n * 2 AS n FROM {input}"], recompute_by="day"
    )
    batch = twice.refresh(spark, since="tue", until="tue")
    assert batch is not None
    for pipeline in (totals, months):
        pipeline.run(spark)
    assert rows(lake, "totals") == [("mon", 1), ("tue", 4)]
    assert rows(lake, "all") == [(5,)]


def test_a_pipeline_that_replaces_rows_needs_a_sink_of_its_own(spark: SparkSession, lake: str) -> None:
    source(lake, [("mon", "/", 1)])
    Pipeline("other", DatasetRef(lake, "visits"), DatasetRef(lake, "daily"), [DAILY]).run(spark)
    pipeline = Pipeline(
        "p", DatasetRef(lake, "visits"), DatasetRef(lake, "daily"), [DAILY], recompute_by="day"
    )
    with pytest.raises(lode.InvalidOptionError, match=r"'daily', which pipeline 'other' writes too"):
        pipeline.run(spark)


def test_a_restored_sink_takes_its_pipeline_back_with_it(spark: SparkSession, lake: str) -> None:
    source(lake, [("mon", "/", 1)], [("tue", "/", 2)])
    pipeline = Pipeline("copy", DatasetRef(lake, "visits", maxSnapshotsPerBatch=1), DatasetRef(lake, "copy"))
    first, _ = pipeline.run(spark)
    copied = lode.open_dataset("copy", lake)
    copied.restore(first.snapshot)
    # Status, console and lineage follow the restore too.
    project = Project(lake)
    project.add("copy", from_={"dataset": "visits", "max_snapshots_per_batch": 1}, into="copy")
    (status,) = status_of(project)
    assert (status.snapshot, status.waiting, status.rows) == (first.snapshot.id, 1, 1)
    (flow,) = flows(project.store)
    assert (flow.snapshot, flow.inputs[0].waiting) == (first.snapshot.id, 1)
    assert origin_of(copied, copied.latest()).inputs[0].up_to == 1
    assert [batch.rows_out for batch in pipeline.run(spark)] == [1]
    assert rows(lake, "copy") == [("mon", "/", 1), ("tue", "/", 2)]
    assert pipeline.run(spark) == []
