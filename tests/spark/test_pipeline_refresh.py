"""Full refreshes and backfills: they replace, never double, and are one snapshot."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

import lode
from lode.lineage import lineage_of
from lode.pipeline import Pipeline
from lode.spark.dataset_ref import DatasetRef

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PLAIN = "SELECT day, n FROM {input}"
TENFOLD = "SELECT day, n * 10 AS n FROM {input}"


def source(lake: str, *batches: dict[str, int], name: str = "visits") -> lode.Dataset:
    dataset = lode.Dataset(name, lake, codec=lode.Parquet({"day": "date!", "n": "int64!"}))
    for batch in batches:
        dataset.write([{"day": f"2026-11-{day}", "n": n} for day, n in batch.items()])
    return dataset


def rows(lake: str, name: str = "out") -> list[tuple[str, int]]:
    found = lode.open_dataset(name, lake).scan().read_all().to_pylist()
    return sorted((f"{row['day']:%d}", row["n"]) for row in found)


def pipeline(lake: str, *steps: Any, **options: Any) -> Pipeline:
    return Pipeline("p", DatasetRef(lake, "visits"), DatasetRef(lake, "out"), steps, **options)


def test_a_full_refresh_replaces_all_output_as_one_snapshot_and_moves_the_position(
    spark: SparkSession, lake: str
) -> None:
    source(lake, {"15": 1}, {"16": 2})
    pipeline(lake, PLAIN).run(spark)
    source(lake, {"17": 3})
    before = len(lode.open_dataset("out", lake).snapshots())
    batch = pipeline(lake, TENFOLD).refresh(spark)
    assert batch is not None
    assert (batch.action, batch.rows_in, batch.rows_out, batch.snapshots_in) == ("recompute", 3, 3, 1)
    assert len(lode.open_dataset("out", lake).snapshots()) == before + 1
    assert rows(lake) == [("15", 10), ("16", 20), ("17", 30)]
    assert pipeline(lake, TENFOLD).run(spark) == []
    again = pipeline(lake, TENFOLD).refresh(spark)
    assert again is not None
    assert not again.replayed
    assert rows(lake) == [("15", 10), ("16", 20), ("17", 30)]


def test_a_backfill_replaces_its_days_and_leaves_what_is_waiting_to_the_next_run(
    spark: SparkSession, lake: str
) -> None:
    source(lake, {"15": 1, "16": 2, "17": 3})
    pipeline(lake, PLAIN, recompute_by="day").run(spark)
    source(lake, {"16": 4, "18": 5})
    changed = pipeline(lake, TENFOLD, recompute_by="day")
    batch = changed.refresh(spark, since="2026-11-16", until="2026-11-16")
    assert batch is not None
    assert batch.snapshots_in == 0
    assert rows(lake) == [("15", 1), ("16", 20), ("17", 3)]
    assert changed.refresh(spark, since="2026-11-17") is not None
    assert rows(lake) == [("15", 1), ("16", 20), ("17", 30)]
    (waiting,) = changed.run(spark)
    assert waiting.rows_in == 2
    assert rows(lake) == [("15", 1), ("16", 20), ("16", 40), ("17", 30), ("18", 50)]


def test_a_batch_that_began_before_a_refresh_adds_nothing_after_it(spark: SparkSession, lake: str) -> None:
    source(lake, {"15": 1})
    running = pipeline(lake, PLAIN, mode="continuous", every=0.01).batches(spark)
    next(running)
    source(lake, {"16": 2})
    # The refresh takes in the new snapshot while the other runner still is before it.
    pipeline(lake, PLAIN).refresh(spark)
    source(lake, {"17": 3})
    overtaken = next(running)
    assert overtaken.replayed
    assert next(running).rows_out == 1
    assert rows(lake) == [("15", 1), ("16", 2), ("17", 3)]


def test_a_refresh_that_nobody_can_mean_is_refused(spark: SparkSession, lake: str) -> None:
    assert pipeline(lake, PLAIN).refresh(spark) is None  # there is no input yet
    source(lake, {"15": 1})
    with pytest.raises(lode.InvalidOptionError, match="has no recompute_by, so since and until name nothing"):
        pipeline(lake, PLAIN).refresh(spark, since="2026-11-15")
    by_day = pipeline(lake, PLAIN, recompute_by="day")
    assert by_day.refresh(spark, since="2026-11-15") is None  # there is no output yet
    by_day.run(spark)
    with pytest.raises(lode.InvalidOptionError, match="since is 'monday': the column of recompute_by"):
        by_day.refresh(spark, since="monday")
    with pytest.raises(lode.InvalidOptionError, match="since is '2026-11-16', which comes after until"):
        by_day.refresh(spark, since="2026-11-16", until="2026-11-15")
    Pipeline("other", DatasetRef(lake, "visits"), DatasetRef(lake, "out")).run(spark)
    with pytest.raises(lode.InvalidOptionError, match="pipeline 'other' writes too"):
        pipeline(lake, PLAIN).refresh(spark)


def test_a_pipeline_that_was_overtaken_by_an_expiry_goes_on_after_a_full_refresh(
    spark: SparkSession, lake: str
) -> None:
    visits = source(lake, {"15": 1})
    by_day = pipeline(lake, PLAIN, recompute_by="day")
    by_day.run(spark)
    source(lake, {"16": 2})
    visits.delete("n = 1")
    source(lake, {"17": 3})
    lode.expire(visits, keep=1, dry_run=False)
    with pytest.raises(lode.SnapshotExpiredError, match=r"--full-refresh"):
        by_day.run(spark)
    assert by_day.refresh(spark) is not None
    assert rows(lake) == [("16", 2), ("17", 3)]
    source(lake, {"18": 4})
    assert [batch.action for batch in by_day.run(spark)] == ["append"]


def test_changed_steps_are_reported_until_everything_is_computed_again(
    spark: SparkSession, lake: str, caplog: pytest.LogCaptureFixture
) -> None:
    source(lake, {"15": 1})
    (first,) = pipeline(lake, PLAIN).run(spark)
    assert first.steps_changed_after is None
    source(lake, {"16": 2})
    assert pipeline(lake, PLAIN).plan().steps_changed_after is None
    assert pipeline(lake, TENFOLD).plan().steps_changed_after == first.snapshot.id
    with caplog.at_level(logging.WARNING, "lode.spark"):
        (second,) = pipeline(lake, TENFOLD).run(spark)
    assert second.steps_changed_after == first.snapshot.id
    assert f"steps changed since snapshot {first.snapshot.id}" in caplog.text
    assert "--full-refresh" in caplog.text
    source(lake, {"17": 3})
    (third,) = pipeline(lake, TENFOLD).run(spark)
    assert third.as_dict()["steps_changed_after"] == first.snapshot.id  # its rows are still there
    refreshed = pipeline(lake, TENFOLD).refresh(spark)
    assert refreshed is not None
    assert refreshed.steps_changed_after is None
    one, two = lineage_of(first.snapshot), lineage_of(refreshed.snapshot)
    assert one is not None
    assert two is not None
    assert one.steps != two.steps


def test_a_plan_says_what_a_run_would_do_without_spark_and_without_writing(
    spark: SparkSession, lake: str
) -> None:
    by_day = pipeline(lake, PLAIN, recompute_by="day")
    assert by_day.plan().action == "wait"
    visits = source(lake, {"15": 1}, {"16": 2, "17": 3})
    plan = by_day.plan()
    assert (plan.action, plan.snapshots, plan.rows, plan.last) == ("append", 2, 3, None)
    assert not lode.Dataset("out", lake).exists
    (batch,) = by_day.run(spark)
    plan = by_day.plan()
    assert (plan.action, plan.snapshots) == ("nothing", 0)
    assert plan.last is not None
    assert plan.last.id == batch.snapshot.id
    visits.delete("n = 3")
    assert by_day.plan().recompute == ("2026-11-16", "2026-11-17")  # the file had both
    assert by_day.plan(spark) == by_day.plan()
    assert by_day.plan().as_dict()["inputs"][0]["snapshots"] == 1
    assert lode.open_dataset("out", lake).latest().id == batch.snapshot.id


def rows_of(orders: DataFrame, refunds: DataFrame) -> DataFrame:
    return orders.unionByName(refunds)


class TestSeveralInputs:
    """Each has its own position; one commit moves all."""

    def made(self, lake: str, *steps: Any, **options: Any) -> Pipeline:
        sources = {"orders": DatasetRef(lake, "orders"), "refunds": DatasetRef(lake, "refunds")}
        return Pipeline("p", sources=sources, sink=DatasetRef(lake, "out"), steps=steps, **options)

    def test_new_rows_of_each_are_put_together(self, spark: SparkSession, lake: str) -> None:
        source(lake, {"15": 1}, name="orders")
        union = "SELECT * FROM {orders} UNION ALL SELECT day, -n AS n FROM {refunds}"
        assert self.made(lake, union).run(spark) == []  # refunds are not there yet
        source(lake, {"15": 2}, name="refunds")
        (first,) = self.made(lake, union).run(spark)
        assert [each.name for each in first.inputs] == ["orders", "refunds"]
        assert rows(lake) == [("15", -2), ("15", 1)]
        source(lake, {"16": 3}, name="orders")
        (second,) = self.made(lake, union).run(spark)
        assert [each.snapshots for each in second.inputs] == [1, 0]
        assert set(second.as_dict()["inputs"]) == {"orders", "refunds"}
        assert rows(lake) == [("15", -2), ("15", 1), ("16", 3)]
        assert self.made(lake, union).run(spark) == []

    def test_with_recompute_by_all_are_read_whole_for_the_days_that_one_has_changed(
        self, spark: SparkSession, lake: str
    ) -> None:
        source(lake, {"15": 10, "16": 20, "17": 30}, name="orders")
        refunds = source(lake, {"15": 1}, name="refunds")
        join = "SELECT day, o.n - coalesce(r.n, 0) AS n FROM {orders} o LEFT JOIN {refunds} r USING (day)"
        made = self.made(lake, join, recompute_by="day")
        made.run(spark)
        source(lake, {"16": 5}, name="refunds")  # an old order meets a new refund
        (late,) = made.run(spark)
        assert late.recomputed == ("2026-11-16",)
        assert rows(lake) == [("15", 9), ("16", 15), ("17", 30)]
        refunds.delete("n = 1")
        made.run(spark)
        assert rows(lake) == [("15", 10), ("16", 15), ("17", 30)]

    def test_what_would_miss_rows_is_refused_by_name(self, lake: str) -> None:
        join = "SELECT * FROM {orders} JOIN {refunds} USING (day)"
        with pytest.raises(
            lode.InvalidOptionError, match=r"gets only the new rows of orders, refunds.*recompute_by"
        ):
            self.made(lake, join).check()
        with pytest.raises(lode.InvalidOptionError, match=r"step 'rows_of' gets only the new rows"):
            self.made(lake, rows_of).check()
        self.made(lake, rows_of, recompute_by="day").check()
        with pytest.raises(lode.InvalidOptionError, match=r"asks for \{input\}: there are \{orders\}"):
            self.made(lake, "SELECT * FROM {input}").check()
        with pytest.raises(lode.InvalidOptionError, match="inputs orders, refunds need a step"):
            self.made(lake).check()
        with pytest.raises(lode.InvalidOptionError, match="needs a source, or several"):
            Pipeline("p", sink=DatasetRef(lake, "out"))

    def test_an_input_that_comes_later_begins_at_its_start_and_one_that_goes_keeps_its_position(
        self, spark: SparkSession, lake: str
    ) -> None:
        source(lake, {"15": 1}, name="orders")
        source(lake, {"15": 2}, name="refunds")
        union = "SELECT * FROM {orders} UNION ALL SELECT * FROM {refunds}"
        alone = Pipeline("p", sources={"orders": DatasetRef(lake, "orders")}, sink=DatasetRef(lake, "out"))
        alone.run(spark)
        self.made(lake, union).run(spark)
        assert rows(lake) == [("15", 1), ("15", 2)]
        source(lake, {"16": 3}, name="orders")
        alone.run(spark)
        assert self.made(lake, union).run(spark) == []
        assert rows(lake) == [("15", 1), ("15", 2), ("16", 3)]
