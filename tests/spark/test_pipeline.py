"""Pipelines: each input snapshot exactly once, and a lineage that says so."""

from __future__ import annotations

import json
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as f

import lode
from lode.cli import main
from lode.spark.dataset_ref import DatasetRef
from lode.spark.lineage import lineage_of
from lode.spark.pipeline import Pipeline
from lode.spark.pipeline_file import load, parse

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


def test_a_pipeline_runs_no_step_for_a_compaction_and_can_take_in_what_was_removed(
    spark: SparkSession, lake: str
) -> None:
    source = visits_in(lake, {"/": 1}, {"/docs": 2})
    given = {"path": lake, "dataset": "visits", "onRemoval": "report"}
    pipeline = Pipeline("log", given, DatasetRef(lake, "log"))
    (first,) = pipeline.run(spark)
    assert (first.rows_in, first.rows_out) == (2, 2)
    source.compact()
    (second,) = pipeline.run(spark)
    assert (second.snapshots_in, second.rows_in, second.snapshot.row_count) == (1, 0, 0)
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


def test_a_definition_that_is_wrong_says_where() -> None:
    good = {
        "name": "p",
        "source": {"path": "lake", "dataset": "a"},
        "sink": {"path": "lake", "dataset": "b", "partitionBy": ["day", "page"]},
    }
    sink = parse(good).pipeline.sink
    assert isinstance(sink, DatasetRef)
    assert sink.given == {"path": "lake", "dataset": "b", "partitionBy": "day,page"}
    for change, message in (
        ({"stepz": []}, "'stepz' is unknown: did you mean 'steps'"),
        ({"name": ""}, "'name' is missing"),
        ({"source": {"path": "lake"}}, "'source': a dataset needs 'path' and 'dataset'"),
        ({"sink": "lake"}, "'sink' is a mapping, got str"),
        ({"steps": [{"sql": "x"}]}, "a step is SQL or 'module:function'"),
        ({"mode": "sometimes"}, "mode is 'sometimes'"),
        ({"every": "often"}, "'every' is 'often'"),
        ({"every": 0}, "every is 0"),
        ({"tables": {"input": good["sink"]}}, "table 'input' cannot be named so"),
    ):
        with pytest.raises(lode.InvalidOptionError, match=message):
            parse({**good, **change})


def test_a_yaml_file_is_run_from_the_command_line(
    spark: SparkSession,
    lake: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In the session of the other tests; ``tests/cli/test_page.py`` runs one that starts and ends its own."""
    visits_in(lake, {"/": 1, "/docs": 5})
    (tmp_path / "cleaning.py").write_text("def clean(frame):\n    return frame.where(\"page <> '/docs'\")\n")
    definition = tmp_path / "pipeline.yaml"
    definition.write_text(
        f"name: totals\n"
        f"source: {{path: '{lake}', dataset: visits, maxSnapshotsPerBatch: 10}}\n"
        f"steps:\n  - cleaning:clean\n  - {TOTALS}\n"
        f"sink: {{path: '{lake}', dataset: totals}}\n"
        f"mode: continuous\n"
        f"spark:\n"
        f"  master: local[1]\n"
        f"  spark.sql.shuffle.partitions: 1\n"
    )
    asked: list[Any] = []

    def session(*words: str, **options: Any) -> SparkSession:
        asked.append((words, options))
        return spark

    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    monkeypatch.setattr("lode.spark.run.session", session)
    monkeypatch.setattr(type(spark), "stop", lambda _: None)
    monkeypatch.setattr(sys, "path", [*sys.path])
    try:
        assert main(["spark", "run", str(definition), "--once", "--json"]) == 0
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert asked == [(("local[1]",), {"name": "totals", "settings": {"spark.sql.shuffle.partitions": "1"}})]
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["rows_out"] == 1
    assert rows_in(lake, "totals") == [("/", 1)]

    broken = tmp_path / "broken.yaml"
    broken.write_text("name: [")
    with pytest.raises(lode.InvalidOptionError, match=r"broken\.yaml is not YAML"):
        load(broken)
