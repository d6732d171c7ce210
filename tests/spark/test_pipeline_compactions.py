"""Compactions and expiries upstream: a pipeline commits nothing for them, and stays able to go on."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import lode
from lode.lineage.flow import waiting_in
from lode.lineage.record import lineage_of
from lode.pipeline import Pipeline
from lode.spark.dataset_ref import DatasetRef
from support.spark.dying import deaths
from support.spark.pipeline_chain import chain, computed, found, source

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def write(lake: str, *rows: tuple[str, int, int]) -> lode.Dataset:
    raw = source(lake)
    raw.write([{"day": day, "id": id, "n": n} for day, id, n in rows])
    return raw


def empty(dataset: lode.Dataset) -> None:
    with dataset.transaction() as transaction:
        transaction.commit()


def made(lake: str, name: str = "out") -> int:
    return lode.open_dataset(name, lake).latest().sequence or 0


def rows(lake: str, name: str = "out") -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in lode.open_dataset(name, lake).scan().read_all().to_pylist())


def copying(lake: str, **options: Any) -> Pipeline:
    return Pipeline("p", DatasetRef(lake, "raw"), DatasetRef(lake, "out"), **options)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"recompute_by": "day"},
        {"write": "overwrite", "recompute_by": "day"},
        {"write": "merge", "on": ["day", "id"]},
    ],
)
def test_a_compaction_upstream_makes_no_snapshot_and_nothing_waits(
    spark: SparkSession, lake: str, options: dict[str, Any]
) -> None:
    write(lake, ("d1", 1, 1))
    raw = write(lake, ("d1", 2, 2))
    pipeline = copying(lake, **options)
    pipeline.run(spark)
    before = made(lake)
    raw.compact()
    assert pipeline.plan().action == "nothing"
    assert pipeline.run(spark) == []
    assert made(lake) == before
    last = lineage_of(lode.open_dataset("out", lake).latest())
    assert last is not None
    assert waiting_in(raw, last.inputs[0].up_to).snapshots == 0
    write(lake, ("d2", 3, 3))
    assert waiting_in(raw, last.inputs[0].up_to).snapshots == 1
    assert waiting_in(raw, last.inputs[0].up_to).oldest == raw.latest().created_at
    (batch,) = pipeline.run(spark)
    # It goes on where the one before has ended.
    assert (batch.source.after, batch.source.up_to.sequence) == (last.inputs[0].up_to, 4)
    assert (batch.rows_in, rows(lake)) == (1, [("d1", 1, 1), ("d1", 2, 2), ("d2", 3, 3)])
    assert pipeline.run(spark) == []


def test_a_limited_batch_goes_on_behind_a_compaction(spark: SparkSession, lake: str) -> None:
    write(lake, ("d1", 1, 1))
    raw = write(lake, ("d1", 2, 2))
    given = {"path": lake, "dataset": "raw", "maxSnapshotsPerBatch": "1"}
    pipeline = Pipeline("p", given, DatasetRef(lake, "out"))
    assert [batch.rows_in for batch in pipeline.run(spark)] == [1, 1]
    raw.compact()
    write(lake, ("d2", 3, 3))
    write(lake, ("d2", 4, 4))
    raw.compact()
    assert [batch.rows_in for batch in pipeline.run(spark)] == [1, 1]
    assert rows(lake) == [("d1", 1, 1), ("d1", 2, 2), ("d2", 3, 3), ("d2", 4, 4)]


@pytest.mark.parametrize("runs_between", [False, True])
def test_an_expiry_behind_a_compaction_leaves_the_position_readable(
    spark: SparkSession, lake: str, runs_between: bool
) -> None:
    write(lake, ("d1", 1, 1))
    raw = write(lake, ("d1", 2, 2))
    pipeline = copying(lake, recompute_by="day")
    pipeline.run(spark)
    raw.compact()
    assert pipeline.run(spark) == []
    lode.expire(raw, keep=1, dry_run=False)
    if runs_between:
        # The stored position cannot be read any more, so the new one is stored, once.
        assert [batch.action for batch in pipeline.run(spark)] == ["position"]
        assert pipeline.run(spark) == []
        assert pipeline.refresh(spark, since="d1", until="d1") is not None
    write(lake, ("d2", 3, 3))
    assert [batch.rows_in for batch in pipeline.run(spark)] == [1]
    raw.compact()
    lode.expire(raw, keep=1, dry_run=False)
    raw.delete("id = 1")
    pipeline.run(spark)
    assert rows(lake) == [("d1", 2, 2), ("d2", 3, 3)]


def test_a_correction_behind_a_compaction_stops_or_is_followed(spark: SparkSession, lake: str) -> None:
    write(lake, ("d1", 1, 1))
    raw = write(lake, ("d1", 2, 2))
    plain = copying(lake)
    plain.run(spark)
    before = raw.latest()
    raw.compact()
    assert plain.run(spark) == []
    raw.restore(before.id)
    # The rows are the same ones again, in the same files.
    assert [batch.rows_in for batch in plain.run(spark)] == [0]
    raw.delete("id = 1")
    with pytest.raises(lode.RowsRemovedError, match="recompute_by"):
        plain.run(spark)
    copying(lake, recompute_by="day").run(spark)
    assert rows(lake) == [("d1", 2, 2)]


def test_snapshots_without_rows_are_stored_until_the_sink_has_columns(spark: SparkSession, lake: str) -> None:
    raw = lode.Dataset("raw", lake, codec=lode.Parquet())  # its columns are known with its first rows
    empty(raw)
    pipeline = copying(lake)
    assert [batch.action for batch in pipeline.run(spark)] == ["position"]
    empty(raw)
    assert [batch.action for batch in pipeline.run(spark)] == ["position"]
    raw.write(pa.table({"day": ["d1"], "id": [1], "n": [1]}))
    assert [batch.action for batch in pipeline.run(spark)] == ["append"]
    empty(raw)
    assert pipeline.run(spark) == []
    assert rows(lake) == [("d1", 1, 1)]


def test_only_some_inputs_were_compacted(spark: SparkSession, lake: str) -> None:
    raw = write(lake, ("d1", 1, 1))
    write(lake, ("d1", 2, 2))
    other = lode.Dataset("other", lake, codec=lode.Parquet({"day": "string!", "k": "int64!"}))
    other.write([{"day": "d1", "k": 5}])
    both = Pipeline(
        "p",
        None,
        DatasetRef(lake, "out"),
        ["SELECT day, id, n + k AS n FROM {raw} JOIN {other} USING (day)"],
        sources={"raw": DatasetRef(lake, "raw"), "other": DatasetRef(lake, "other")},
        recompute_by="day",
    )
    both.run(spark)
    before = made(lake)
    raw.compact()
    assert both.run(spark) == []
    assert made(lake) == before
    raw.compact()
    other.merge([{"day": "d1", "k": 7}], on=["day"])
    both.run(spark)
    assert rows(lake) == [("d1", 1, 8), ("d1", 2, 9)]


def test_a_batch_behind_a_compaction_and_an_expiry_that_dies_at_any_write_is_done_once(
    spark: SparkSession, lake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(lake, ("d1", 1, 1), ("d2", 2, -2))
    raw = write(lake, ("d1", 3, 3))
    clean = chain(lake)[0]
    clean.run(spark)
    raw.compact()
    assert clean.run(spark) == []
    lode.expire(raw, keep=1, dry_run=False)
    write(lake, ("d1", 4, 4), ("d2", 5, -5))
    raw.delete("id = 1")
    expected = computed(lake)
    died = 0
    for died in deaths(monkeypatch, tmp_path / "lake", lambda: clean.run(spark)):
        clean.run(spark)
        for name in ("clean", "clean_quarantine"):
            assert found(lake)[name] == expected[name], (died, name)
        assert clean.run(spark) == []
    assert died > 8
    assert found(lake)["clean"] == expected["clean"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_a_chain_whose_datasets_are_compacted_and_expired_is_right_at_any_time(
    spark: SparkSession, lake: str, seed: int
) -> None:
    choose = random.Random(seed)
    write(lake, ("d0", 0, 1), ("d0", -1, -1), ("d9", 100, 1))
    for number in range(1, 13):
        for pipeline in chain(lake):
            pipeline.run(spark)
        assert found(lake) == computed(lake), number
        for name in ("raw", "clean", "daily"):
            # All was read. So whatever is expired from here on, nothing unread has gone.
            dataset = lode.open_dataset(name, lake)
            if choose.random() < 0.6:
                dataset.compact()
            if choose.random() < 0.3:
                for pipeline in chain(lake):
                    assert all(batch.action == "position" for batch in pipeline.run(spark))
            if choose.random() < 0.5:
                lode.expire(dataset, keep=1, dry_run=False)
        action = choose.randrange(4)
        if action == 0:
            source(lake).delete(f"id = {choose.randrange(number)}")
        elif action == 1:
            source(lake).overwrite([{"day": f"d{number % 3}", "id": number, "n": 7}])
        else:
            write(lake, (f"d{number % 3}", number, choose.randrange(-2, 9)))
