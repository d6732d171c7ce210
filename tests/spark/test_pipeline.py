"""Pipelines: each input snapshot exactly once, and a lineage that says so."""

from __future__ import annotations

import shutil
import threading
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as f

import lode
import lode.spark
from lode.lineage import lineage_of
from lode.pipeline import Pipeline
from lode.spark.dataset_ref import DatasetRef

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

SCHEMA = {"page": "string!", "visits": "int64!"}
TOTALS = "SELECT page, sum(visits) AS visits FROM {input} GROUP BY page"


def visits_in(lake: str, *batches: dict[str, int]) -> lode.Dataset:
    dataset = lode.Dataset("visits", lake, codec=lode.Parquet(SCHEMA))
    for batch in batches:
        dataset.write([{"page": page, "visits": count} for page, count in batch.items()])
    return dataset


def rows_in(lake: str, name: str, **options: Any) -> list[tuple[Any, ...]]:
    dataset = lode.Dataset(name, lake, codec="parquet", **options)
    return sorted(tuple(row.values()) for row in dataset.scan().read_all().to_pylist())


def without_docs(frame: DataFrame) -> DataFrame:
    return frame.where(f.col("page") != "/docs")


def named(frame: DataFrame, names: DataFrame) -> DataFrame:
    return frame.join(names, "page").select("name", "visits")


def test_a_pipeline_takes_in_what_is_new_and_says_in_each_snapshot_what_that_was(
    spark: SparkSession, lake: str
) -> None:
    source = visits_in(lake, {"/": 1, "/docs": 2}, {"/": 3})
    pipeline = Pipeline(
        "totals", DatasetRef(lake, "visits"), DatasetRef(lake, "totals"), [without_docs, TOTALS]
    )
    told: list[Any] = []
    (first,) = pipeline.run(spark, progress=told.append)
    assert told == [first]
    assert rows_in(lake, "totals") == [("/", 4)]
    assert (first.snapshots_in, first.rows_in, first.rows_out, first.replayed) == (2, 3, 1, False)
    assert first.bytes_in == sum(snapshot.size_bytes for snapshot in source.snapshots())
    assert first.seconds > 0

    assert pipeline.run(spark) == []
    visits_in(lake, {"/": 10, "/blog": 1})
    (second,) = pipeline.run(spark)
    assert rows_in(lake, "totals") == [("/", 4), ("/", 10), ("/blog", 1)]
    ids = [snapshot.id for snapshot in source.snapshots()]
    lineage = lineage_of(second.snapshot)
    assert lineage is not None
    (taken,) = lineage.inputs
    assert (lineage.made_by, taken.dataset, taken.store) == ("totals", "visits", source.store.url)
    assert (taken.after.snapshot, taken.up_to.snapshot, taken.snapshots) == (ids[1], ids[2], 1)
    changes = source.changes(since=taken.after.snapshot, as_of=taken.up_to.snapshot)
    assert [snapshot.id for snapshot in changes] == ids[2:]


def test_a_batch_is_as_large_as_its_limit_and_may_come_out_empty(spark: SparkSession, lake: str) -> None:
    visits_in(lake, {"/docs": 1}, {"/": 2}, {"/": 3})
    source = DatasetRef(lake, "visits", maxSnapshotsPerBatch=1)
    batches = Pipeline("p", source, DatasetRef(lake, "out"), [without_docs]).run(spark)
    assert [(batch.number, batch.snapshots_in, batch.rows_out) for batch in batches] == [
        (0, 1, 0),
        (1, 1, 1),
        (2, 1, 1),
    ]
    assert rows_in(lake, "out") == [("/", 2), ("/", 3)]
    assert Pipeline("p", source, DatasetRef(lake, "out"), [without_docs]).run(spark) == []


def test_two_runners_of_one_pipeline_do_each_batch_once(spark: SparkSession, lake: str) -> None:
    visits_in(lake, {"/": 1})
    source, sink = DatasetRef(lake, "visits"), DatasetRef(lake, "out")
    slow = Pipeline("p", source, sink, mode="continuous", every=0.01).batches(spark)
    rival = Pipeline("p", source, sink)
    assert next(slow).snapshots_in == 1
    # The rival takes two more at once; the other one had stopped before them and now sees three.
    visits_in(lake, {"/": 2}, {"/": 3})
    assert [batch.snapshots_in for batch in rival.run(spark)] == [2]
    visits_in(lake, {"/": 4})
    overtaken = next(slow)
    assert (overtaken.replayed, overtaken.snapshots_in) == (True, 2)
    own = next(slow)
    assert (own.replayed, own.snapshots_in) == (False, 1)
    assert rows_in(lake, "out") == [("/", 1), ("/", 2), ("/", 3), ("/", 4)]


def test_tables_are_looked_up_as_they_are_then_in_sql_and_in_python(spark: SparkSession, lake: str) -> None:
    visits_in(lake, {"/": 1, "/docs": 2})
    names = lode.Dataset("names", lake, codec=lode.Parquet({"page": "string!", "name": "string!"}))
    snapshot = names.write([{"page": "/", "name": "home"}])
    tables = {"names": DatasetRef(lake, "names")}
    sql = "SELECT name, visits FROM {input} JOIN {names} USING (page)"
    steps: tuple[Any, ...] = (sql, named)
    for number, step in enumerate(steps):
        pipeline = Pipeline(
            f"p{number}", DatasetRef(lake, "visits"), DatasetRef(lake, f"out{number}"), [step], tables
        )
        (batch,) = pipeline.run(spark)
        assert rows_in(lake, f"out{number}") == [("home", 1)]
        lineage = lineage_of(batch.snapshot)
        assert lineage is not None
        assert lineage.tables["names"].up_to.snapshot == snapshot.id
    wrong = Pipeline(
        "p", DatasetRef(lake, "visits"), DatasetRef(lake, "out"), ["SELECT * FROM {pages}"], tables
    )
    with pytest.raises(lode.InvalidOptionError, match=r"asks for \{pages\}: there are \{input\}, \{names\}"):
        wrong.run(spark)


def test_a_pipeline_that_begins_late_remembers_where_it_began(spark: SparkSession, lake: str) -> None:
    visits_in(lake, {"/": 1})
    pipeline = Pipeline("p", DatasetRef(lake, "visits", startingPosition="latest"), DatasetRef(lake, "out"))
    assert pipeline.run(spark) == []
    visits_in(lake, {"/": 2})
    assert len(pipeline.run(spark)) == 1
    assert rows_in(lake, "out") == [("/", 2)]


def test_a_sink_has_columns_before_it_has_rows(spark: SparkSession, lake: str) -> None:
    visits_in(lake, {"/": 1})
    late = Pipeline(
        "late",
        DatasetRef(lake, "visits", startingPosition="latest"),
        DatasetRef(lake, "late", partitionBy="page"),
        ["SELECT page, visits * 2 AS twice FROM {input}"],
    )
    assert late.run(spark) == []
    schema = lode.open_dataset("late", lake).schema
    assert schema is not None
    assert schema.names == ["page", "twice"]
    # So it can be looked up, read and exported, and a pipeline on it gives its own sink columns.
    steps = ["SELECT i.page FROM {input} i LEFT ANTI JOIN {late} USING (page)"]
    tables = {"late": DatasetRef(lake, "late")}
    (batch,) = Pipeline("p", DatasetRef(lake, "visits"), DatasetRef(lake, "out"), steps, tables).run(spark)
    assert batch.rows_out == 1
    assert lode.spark.read(spark, lake, "late").columns == ["page", "twice"]
    (empty,) = Pipeline("behind", DatasetRef(lake, "late"), DatasetRef(lake, "behind")).run(spark)
    assert (empty.rows_out, empty.snapshot.files) == (0, ())
    assert lode.spark.read(spark, lake, "behind").columns == ["page", "twice"]


def test_a_pipeline_waits_for_inputs_that_have_nothing_yet(
    spark: SparkSession, lake: str, caplog: pytest.LogCaptureFixture
) -> None:
    names = DatasetRef(lake, "names")
    step = "SELECT i.* FROM {input} i JOIN {names} USING (page)"
    source = DatasetRef(lake, "visits", startingPosition="latest")
    pipeline = Pipeline("p", source, DatasetRef(lake, "out"), [step], {"names": names})
    assert pipeline.run(spark) == []
    assert "waits: DatasetRef" in caplog.text
    visits_in(lake, {"/": 1})  # after the pipeline began, so it is not skipped
    assert pipeline.run(spark) == []
    lode.Dataset("names", lake, codec=lode.JSONL()).write([])
    assert pipeline.run(spark) == []
    lode.open_dataset("names", lake).write([{"page": "/"}])
    assert [batch.rows_out for batch in pipeline.run(spark)] == [1]


def test_a_continuous_pipeline_finds_out_what_its_source_is_when_it_exists(
    spark: SparkSession, lake: str
) -> None:
    running = Pipeline(
        "p", DatasetRef(lake, "visits"), DatasetRef(lake, "out"), mode="continuous", every=0.01
    ).batches(spark)
    writer = threading.Timer(
        0.5, lambda: lode.Dataset("visits", lake, codec=lode.JSONL()).write([{"page": "/"}])
    )
    writer.start()
    assert next(running).rows_out == 1
    running.close()  # type: ignore[attr-defined]  # it is a generator


def test_a_pipeline_may_not_read_what_it_writes(lake: str, tmp_path: Path) -> None:
    same = Pipeline(
        "p", DatasetRef(lake, "visits"), DatasetRef(tmp_path / "lake" / "." / "x" / "..", "visits")
    )
    with pytest.raises(lode.InvalidOptionError, match="pipeline 'p' reads dataset 'visits' and writes to it"):
        same.check()


def test_one_name_for_two_sources_is_refused_with_both(spark: SparkSession, lake: str) -> None:
    visits_in(lake, {"/": 1})
    lode.Dataset("other", lake, codec=lode.Parquet(SCHEMA)).write([{"page": "/", "visits": 2}])
    Pipeline("p", DatasetRef(lake, "other"), DatasetRef(lake, "out")).run(spark)
    wrong = Pipeline("p", DatasetRef(lake, "visits"), DatasetRef(lake, "out"))
    with pytest.raises(
        lode.InvalidOptionError, match=r"from dataset 'other' in .* to read 'visits' .* another name"
    ):
        wrong.run(spark)


def test_a_source_that_was_replaced_is_named_with_the_remedy(
    spark: SparkSession, lake: str, tmp_path: Path
) -> None:
    visits_in(lake, {"/": 1})
    pipeline = Pipeline("p", DatasetRef(lake, "visits"), DatasetRef(lake, "out"))
    pipeline.run(spark)
    shutil.rmtree(tmp_path / "lake" / "datasets" / "visits")
    visits_in(lake, {"/": 1}, {"/": 2})
    with pytest.raises(
        lode.InvalidOptionError, match="replaced by another one of this name; compute all of it again"
    ):
        pipeline.run(spark)
    lode.open_dataset("visits", lake).drop()
    visits_in(lake, {"/": 1})
    for options in ({}, {"maxSnapshotsPerBatch": 1}):
        again = Pipeline("p", DatasetRef(lake, "visits", **options), DatasetRef(lake, "out"))
        with pytest.raises(
            lode.InvalidOptionError, match="replaced by another one of this name; compute all of it again"
        ):
            again.run(spark)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("""SELECT from_json('{"a":{"b":1}}', 'a struct<b: int>').a.b AS v FROM {input}""", 1),
        ("""SELECT from_json('{{"a":1}}', 'a int').a AS v FROM {input}""", 1),
        ("SELECT regexp_count('aab', 'a{2}') AS v FROM {input}", 1),
        ("SELECT '{{input}}' AS v FROM {input}", "{input}"),
    ],
)
def test_braces_that_name_nothing_are_text(spark: SparkSession, lake: str, sql: str, expected: Any) -> None:
    visits_in(lake, {"/": 1})
    Pipeline("p", DatasetRef(lake, "visits"), DatasetRef(lake, "out"), [sql]).run(spark)
    assert rows_in(lake, "out") == [(expected,)]


def test_a_pipeline_runs_no_step_for_a_compaction_and_can_take_in_what_was_removed(
    spark: SparkSession, lake: str
) -> None:
    source = visits_in(lake, {"/": 1}, {"/docs": 2})
    given = {"path": lake, "dataset": "visits", "onRemoval": "report"}
    pipeline = Pipeline("log", given, DatasetRef(lake, "log"))
    (first,) = pipeline.run(spark)
    assert (first.rows_in, first.rows_out) == (2, 2)
    source.compact()
    assert pipeline.run(spark) == []
    source.delete("page = '/docs'")
    (third,) = pipeline.run(spark)
    assert third.rows_in == 3
    assert rows_in(lake, "log") == [
        ("/", 1, "delete"),
        ("/", 1, "insert"),
        ("/", 1, "insert"),
        ("/docs", 2, "delete"),
        ("/docs", 2, "insert"),
    ]


def test_a_continuous_pipeline_goes_on_until_it_is_told_to_stop(spark: SparkSession, lake: str) -> None:
    visits_in(lake, {"/": 1})
    stop = threading.Event()
    seen: list[int] = []

    def progress(batch: Any) -> None:
        seen.append(batch.rows_out)
        if len(seen) == 1:
            visits_in(lake, {"/": 2})
        else:
            stop.set()

    sink = DatasetRef(lake, "out", partitionBy="page")
    Pipeline("p", DatasetRef(lake, "visits"), sink, mode="continuous", every=0.05).run(
        spark, progress=progress, stop=stop
    )
    assert seen == [1, 1]
    assert rows_in(lake, "out", layout=lode.HiveLayout("page")) == [("/", 1), ("/", 2)]


def test_a_step_that_fails_leaves_the_sink_as_it_was(spark: SparkSession, lake: str) -> None:
    visits_in(lake, {"/": 1})
    sink = DatasetRef(lake, "out")
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        Pipeline(
            "p", DatasetRef(lake, "visits"), sink, ["SELECT 1 / (visits - visits) AS x FROM {input}"]
        ).run(spark)
    with pytest.raises(lode.InvalidOptionError, match="returned int"):
        Pipeline("p", DatasetRef(lake, "visits"), sink, [lambda _: 3]).run(spark)
    with pytest.raises(lode.InvalidOptionError, match="nowhere:nothing cannot be loaded"):
        Pipeline("p", DatasetRef(lake, "visits"), sink, ["nowhere:nothing"]).run(spark)
    assert sink.open().snapshots() == []
    assert len(Pipeline("p", DatasetRef(lake, "visits"), sink).run(spark)) == 1
