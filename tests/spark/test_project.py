"""Projects on Spark: order, parallel branches, failures, retries, continuous runs, tests of steps."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import yaml  # type: ignore[import-untyped, unused-ignore]

import lode
import lode.spark
from lode.cli import main
from lode.lineage import lineage_of
from lode.lineage.runs import runs_of
from lode.pipeline import Project, graph_run, parse
from lode.pipeline.status import status_of
from lode.pipeline.validate import problems_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from lode.pipeline import Batch


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_run, "FIRST_WAIT_SECONDS", 0.01)
    monkeypatch.setattr(sys, "path", [*sys.path])


@pytest.fixture
def project(lake: str) -> Project:
    return Project(lake, every=0.02)


def arrive(lake: str, *numbers: int) -> None:
    dataset = lode.Dataset("raw", lake, codec=lode.Parquet({"n": "int64!"}))
    dataset.write([{"n": number} for number in numbers])


def numbers(lake: str, name: str) -> list[Any]:
    return sorted(lode.open_dataset(name, lake).scan(columns=["n"]).read_all()["n"].to_pylist())


def test_a_graph_runs_in_order_on_one_session_and_each_snapshot_names_its_inputs(
    spark: SparkSession, lake: str, project: Project
) -> None:
    project.add("total", from_="doubled", into="total", steps="SELECT sum(n) AS n FROM {doubled}")
    project.add("doubled", from_="raw", into="doubled", steps="SELECT n * 2 AS n FROM {raw}")
    project.add("kept", from_="raw", into="kept", tables=["doubled"])
    arrive(lake, 1, 2)
    seen: list[str] = []
    runs = project.run(spark, progress=lambda name, _: seen.append(name))
    assert list(runs) == ["doubled", "total", "kept"]
    assert {run.state for run in runs.values()} == {"done"}
    assert seen[0] == "doubled"  # the others read what it writes
    assert sorted(seen) == ["doubled", "kept", "total"]
    assert (numbers(lake, "doubled"), numbers(lake, "total")) == ([2, 4], [6])
    made = lineage_of(lode.open_dataset("total", lake).latest())
    assert made is not None
    assert made.inputs[0].up_to.snapshot == lode.open_dataset("doubled", lake).latest().id
    assert (runs["doubled"].rows_in, runs["doubled"].rows_out, runs["doubled"].batches) == (2, 2, 1)
    assert project.run(spark)["total"].batches == 0  # nothing is waiting
    arrive(lake, 3)
    assert list(project.run(spark, select=["doubled"])) == ["doubled"]
    assert numbers(lake, "total") == [6]


def test_a_renamed_pipeline_adds_nothing_a_second_time(spark: SparkSession, lake: str) -> None:
    def named(*names: str, **more: Any) -> Project:
        project = Project(lake)
        for name in names:
            project.add(name, from_={"dataset": "raw", **more}, into="kept")
        return project

    arrive(lake, 1)
    named("before").run(spark)
    refused = r"'after' would add rows of dataset 'raw' that pipeline 'before', .* name it 'before' again"
    with pytest.raises(lode.InvalidOptionError, match=refused):
        named("after").run(spark)
    with pytest.raises(lode.InvalidOptionError, match=f"^pipeline 'after': pipeline {refused}"):
        named("after").check()
    assert [problem.pipeline for problem in problems_in(named("after"))] == ["after"]
    assert numbers(lake, "kept") == [1]
    arrive(lake, 2)
    named("before", "another").run(spark)  # two that are both there
    named("after", starting_position="latest").run(spark)  # it says where it begins
    assert numbers(lake, "kept") == [1, 1, 2, 2]


def test_branches_run_at_the_same_time_but_not_more_than_allowed(
    spark: SparkSession, lake: str, project: Project
) -> None:
    project.parallel = 2
    meeting = threading.Barrier(2)
    running, most = [], []

    def meet(frame: DataFrame) -> DataFrame:
        running.append(1)
        most.append(len(running))
        meeting.wait(600)  # none of the two can pass alone
        running.pop()
        return frame

    for name in ("a", "b", "c", "d"):
        project.add(name, from_="raw", into=name, steps=meet)
    arrive(lake, 1)
    assert {run.state for run in project.run(spark).values()} == {"done"}
    assert max(most) <= 2


def broken(_: DataFrame) -> DataFrame:
    raise OSError("the disk is full")


def test_a_step_or_a_hook_that_exits_ends_only_its_pipeline(
    spark: SparkSession, lake: str, project: Project
) -> None:
    def leaves(*_: Any) -> Any:
        sys.exit(3)

    project.add("bad", from_="raw", into="bad", steps=leaves, on_failure=leaves, retries=3)
    project.add("good", from_="raw", into="good")
    arrive(lake, 1)
    runs = project.run(spark)
    assert [(run.state, run.tries, run.error) for run in runs.values()] == [
        ("failed", 1, "SystemExit: 3"),
        ("done", 1, None),
    ]


def test_a_failure_stops_only_what_reads_from_it(spark: SparkSession, lake: str, project: Project) -> None:
    told: list[tuple[str, Exception]] = []
    project.add("bad", from_="raw", into="bad", steps=broken, on_failure=lambda *call: told.append(call))
    project.add("after", from_="bad", into="after")
    project.add("last", from_="after", into="last")
    project.add("good", from_="raw", into="good")
    project.add("better", from_="good", into="better")
    arrive(lake, 1)
    runs = project.run(spark)
    assert {name: run.state for name, run in runs.items()} == {
        "bad": "failed",
        "after": "skipped",
        "last": "skipped",
        "good": "done",
        "better": "done",
    }
    assert runs["bad"].error == "OSError: the disk is full"
    assert runs["last"].error == "pipeline 'after', which it reads from, has failed"
    ((name, error),) = told
    assert (name, str(error)) == ("bad", "the disk is full")
    assert numbers(lake, "better") == [1]
    # It is noted in the lake, where it disturbs nobody.
    assert runs_of(project.store, "bad")[0].error == "OSError: the disk is full"
    assert lode.verify(lode.open_dataset("good", lake)).ok
    assert lode.discover.dataset_names(project.store) == ["better", "good", "raw"]


def test_a_run_is_tried_again_but_not_if_the_data_is_wrong(
    spark: SparkSession, lake: str, project: Project
) -> None:
    tries: list[int] = []

    def third_time(frame: DataFrame) -> DataFrame:
        tries.append(1)
        return frame if len(tries) == 3 else broken(frame)

    def wrong(_: DataFrame) -> DataFrame:
        raise lode.SchemaViolationError("a row does not fit")

    def worse(name: str, error: Exception) -> None:
        raise RuntimeError(f"no pager for {name}: {error}")

    project.add("often", from_="raw", into="often", steps=third_time, retries=2)
    project.add("never", from_="raw", into="never", steps=wrong, retries=5, on_failure=worse)
    arrive(lake, 1)
    runs = project.run(spark)
    assert (runs["often"].state, runs["often"].tries, numbers(lake, "often")) == ("done", 3, [1])
    assert (runs["never"].state, runs["never"].tries) == ("failed", 1)


def test_a_continuous_run_survives_errors_and_shows_the_last_one(
    spark: SparkSession, lake: str, project: Project
) -> None:
    fails = threading.Event()
    noted = threading.Event()

    def sometimes(frame: DataFrame) -> DataFrame:
        return broken(frame) if fails.is_set() else frame

    project.add("a", from_="raw", into="a", steps=sometimes, on_failure=lambda *_: noted.set())
    project.add("b", from_="a", into="b")
    stop, arrived, more = threading.Event(), threading.Event(), threading.Event()

    def progress(name: str, _: Batch) -> None:
        if name == "b":
            (more if arrived.is_set() else arrived).set()

    ended: list[Any] = []
    # Nothing is there yet: that is normal.
    thread = threading.Thread(
        target=lambda: ended.append(project.run(spark, continuous=True, stop=stop, progress=progress))
    )
    thread.start()
    try:
        arrive(lake, 1)
        assert arrived.wait(600)
        fails.set()
        arrive(lake, 2)
        assert noted.wait(600)
        (last, *_) = runs_of(project.store, "a")
        assert (last.state, last.error) == ("running", "OSError: the disk is full")
        fails.clear()
        assert more.wait(600)
    finally:
        stop.set()
        thread.join()
    assert numbers(lake, "b") == [1, 2]
    assert {name: run.state for name, run in ended[0].items()} == {"a": "stopped", "b": "stopped"}
    assert runs_of(project.store, "a")[0].error is None


def test_functions_of_the_project_work_in_tasks(spark: SparkSession, lake: str, tmp_path: Path) -> None:
    (tmp_path / "helpers.py").write_text("def twice(n):\n    return n * 2\n")
    (tmp_path / "steps.py").write_text(
        "import helpers\n"
        "def doubled(frame):\n"
        "    return frame.mapInArrow(each, 'n long')\n"
        "def each(batches):\n"
        "    import pyarrow as pa\n"
        "    for batch in batches:\n"
        "        yield pa.record_batch({'n': [helpers.twice(n) for n in batch['n'].to_pylist()]})\n"
    )
    project = Project(lake, folder=tmp_path)
    project.add("p", from_="raw", into="out", steps="steps:doubled")
    arrive(lake, 1, 2)
    assert project.run(spark)["p"].error is None
    assert numbers(lake, "out") == [2, 4]


def test_secrets_of_the_environment_are_in_no_error(
    spark: SparkSession, lake: str, caplog: pytest.LogCaptureFixture
) -> None:
    project = Project(lake, secrets=["hunter2-hunter2"])

    def leaks(_: DataFrame) -> DataFrame:
        raise OSError("403 for key hunter2-hunter2")

    project.add("p", from_="raw", into="out", steps=leaks)
    arrive(lake, 1)
    with caplog.at_level(logging.INFO, "lode"):
        assert project.run(spark)["p"].error == "OSError: 403 for key …"
    assert "hunter2" not in caplog.text
    assert "hunter2" not in project.store.get("pipelines/p.json").decode()


MEDALLION = """
lake: {lake}
pipelines:
  gold:
    from: silver
    recompute_by: day
    steps: SELECT day, sum(n) AS n, count(*) AS rows FROM {{silver}} GROUP BY day
    into: {{dataset: gold, write: overwrite, partition_by: day}}
  silver:
    from: orders
    recompute_by: day
    expect: {{positive: {{check: n > 0, on_fail: quarantine}}}}
    into: {{dataset: silver, partition_by: day}}
"""


def order(lake: str, **days: list[int]) -> None:
    orders = lode.Dataset("orders", lake, codec=lode.Parquet({"day": "string!", "n": "int64!"}))
    orders.write([{"day": day, "n": n} for day, each in days.items() for n in each])


def by_day(lake: str, name: str) -> dict[str, int]:
    rows = lode.open_dataset(name, lake).scan().read_all().to_pylist()
    return {
        day: sum(row["n"] for row in rows if row["day"] == day) for day in sorted({r["day"] for r in rows})
    }


@pytest.mark.parametrize("kind", ["classic", "connect"])
def test_a_correction_flows_through_the_graph_and_a_refresh_changes_nothing(
    request: pytest.FixtureRequest, lake: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "connect":
        monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    project = parse(yaml.safe_load(MEDALLION.format(lake=json.dumps(lake))))
    if kind == "classic":
        spark = request.getfixturevalue("spark")
    else:
        request.getfixturevalue("connect")
        project.master = request.getfixturevalue("connect_url")
        spark = project.session()
    order(lake, mon=[1, 2, -5], tue=[3])
    assert {run.error for run in project.run(spark).values()} == {None}
    assert by_day(lake, "gold") == {"mon": 3, "tue": 3}
    assert by_day(lake, "silver_quarantine") == {"mon": -5}
    # Late rows, and a correction far upstream.
    order(lake, mon=[10], wed=[4])
    lode.open_dataset("orders", lake).delete("day = 'tue' AND n = 3")
    assert {run.error for run in project.run(spark).values()} == {None}
    assert by_day(lake, "gold") == {"mon": 13, "wed": 4}
    assert project.run(spark)["gold"].batches == 0
    (silver,) = status_of(project, ["silver"])
    assert (silver.waiting, silver.last_error, silver.steps_changed) == (0, None, False)
    assert [each.name for each in silver.expectations] == ["positive"]

    before = lode.open_dataset("silver", lake).latest().id
    refreshed = project.run(spark, full_refresh=["silver"])
    assert refreshed["silver"].batches == 1
    assert lode.open_dataset("silver", lake).latest().id != before
    assert by_day(lake, "gold") == {"mon": 13, "wed": 4}
    ranged = project.run(spark, select=["gold"], since="mon", until="mon")
    assert (ranged["gold"].batches, by_day(lake, "gold")) == (1, {"mon": 13, "wed": 4})
    for wrong in ({"full_refresh": ["gold"], "select": ["silver"]}, {"since": "mon", "continuous": True}):
        with pytest.raises(lode.InvalidOptionError):
            project.run(spark, **wrong)


def test_a_project_on_s3_has_its_keys_from_the_environment(
    connect: SparkSession, s3_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, options = s3_server.create("project"), s3_server.options
    store: dict[str, Any] = {}
    for name, value in options.items():
        if isinstance(value, str):
            monkeypatch.setenv(f"LAKE_{name}", value)
            value = f"${{LAKE_{name}}}"
        store[name] = value
    pipelines = {"p": {"from": "raw", "steps": "SELECT n + 1 AS n FROM {raw}", "into": "out"}}
    project = parse({"lake": url, "store": store, "pipelines": pipelines})
    lode.Dataset("raw", url, codec="parquet", store_options=options).write(pa.table({"n": [1]}))
    assert project.run(connect)["p"].error is None
    out = lode.open_dataset("out", url, store_options=options)
    assert out.scan().read_all()["n"].to_pylist() == [2]
    (status,) = status_of(project)
    assert (status.waiting, status.last_run is not None) == (0, True)
    assert runs_of(project.store, "p")[0].rows_out == 1


# The command line, in the session of the other tests.


@pytest.fixture
def lode_spark(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., int]]:
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    monkeypatch.setattr("lode.pipeline.project.session", lambda *_, **__: spark)
    monkeypatch.setattr(type(spark), "stop", lambda _: None)
    yield lambda *words: main(["spark", *map(str, words)])
    for number, handler in handlers.items():
        signal.signal(number, handler)


LAKE = """
lake: {lake}
every: 0.05
pipelines:
  doubled: {{from: raw, steps: "steps:doubled", into: doubled}}
  total: {{from: doubled, steps: "SELECT sum(n) AS n FROM {{doubled}}", into: total}}
"""
BOTH = """
  both:
    from: [raw, total]
    tables: [names]
    recompute_by: n
    steps: SELECT r.n, r.day, t.x, name FROM {raw} r JOIN {total} t USING (n) JOIN {names} USING (n)
    into: {dataset: both, write: overwrite}
"""


@pytest.fixture
def file(tmp_path: Path, lake: str) -> Path:
    (tmp_path / "steps.py").write_text("def doubled(frame):\n    return frame.selectExpr('n * 2 AS n')\n")
    path = tmp_path / "lake.yaml"
    path.write_text(LAKE.format(lake=json.dumps(lake)))
    return path


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_project_is_run_validated_and_looked_at_from_the_command_line(
    lode_spark: Callable[..., int], lake: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arrive(lake, 1, 2)
    assert lode_spark("validate", file) == 0
    assert "2 pipelines, no problems" in capsys.readouterr().out
    assert lode_spark("status", file, "--json") == 0
    doubled, total = lines(capsys)
    assert (doubled["waiting_snapshots"], doubled["waiting_rows"], doubled["runs"]) == (1, 2, [])
    assert doubled["lag_seconds"] > 0
    assert (total["waiting_snapshots"], total["lag_seconds"]) == (0, 0.0)
    assert lode_spark("run", file, "--once", "--json") == 0
    first, second, *ends = lines(capsys)
    assert (first["pipeline"], first["rows_out"], second["pipeline"]) == ("doubled", 2, "total")
    assert [(end["pipeline"], end["state"]) for end in ends] == [("doubled", "done"), ("total", "done")]
    assert lode_spark("run", file, "--select", "total") == 0
    assert capsys.readouterr().out.splitlines()[-1].split()[:2] == ["total", "done"]
    assert lode_spark("status", file) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in shown[1:]] == [["doubled", "0", "0"], ["total", "0", "0"]]

    assert lode_spark("lineage", "total", "--root", lake) == 0
    tree = capsys.readouterr().out
    assert [line.split()[0] for line in tree.splitlines() if "snapshot" in line] == ["total", "└─", "└─"]
    assert lode_spark("lineage", "total", "--root", lake, "--json") == 0
    (origin,) = lines(capsys)
    assert origin["inputs"][0]["inputs"][0]["dataset"] == "raw"

    assert main(["log", "total", "--lineage", "--root", lake]) == 0
    assert "by total from doubled 1 with steps" in capsys.readouterr().out

    (file.parent / "steps.py").write_text("def doubled(frame):\n    raise OSError('the disk is full')\n")
    del sys.modules["steps"]
    arrive(lake, 3)
    assert lode_spark("run", file) == 1
    out = capsys.readouterr().out
    assert "OSError: the disk is full" in out
    assert "skipped" in out
    assert lode_spark("status", file) == 0
    assert "OSError: the disk is full" in capsys.readouterr().out
    assert lode_spark("run", file, "--dry-run", "--json") == 0
    plans = {line["pipeline"]: line for line in lines(capsys)}
    assert (plans["doubled"]["action"], plans["doubled"]["rows"]) == ("append", 1)
    assert plans["doubled"]["steps_changed_after"] is not None
    assert lode_spark("run", file, "--dry-run", "--full-refresh", "doubled") == 0
    assert "the steps have changed: --full-refresh doubled" in capsys.readouterr().out
    for words in (("--full-refresh", "nothing"), ("--select", "total", "--full-refresh", "doubled")):
        assert lode_spark("run", file, "--dry-run", *words) == 1
    capsys.readouterr()
    assert lode_spark("run", file, "--dry-run", "--json", "--select", "doubled", "--since", "") == 0
    assert [line["action"] for line in lines(capsys)] == ["refresh"]
    file.write_text(file.read_text().replace("into: total", "inot: total"))
    assert lode_spark("validate", file) == 5
    assert "'inot' is unknown in a pipeline: did you mean 'into'" in capsys.readouterr().out
    for words in (("--once", "--continuous"), ("--since", "2026-11-15"), ("--select", "totl")):
        assert lode_spark("run", file, *words) != 0


def test_a_signal_ends_a_continuous_run_after_its_batch(
    lode_spark: Callable[..., int], lake: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arrive(lake, 1, 2)

    def end() -> None:
        while not lode.Dataset("total", lake).exists:
            waiting.wait(0.02)
        os.kill(os.getpid(), signal.SIGTERM)

    waiting = threading.Event()
    killer = threading.Thread(target=end)
    killer.start()
    assert lode_spark("run", file, "--continuous") == 0
    killer.join()
    assert "stopped" in capsys.readouterr().out
    assert numbers(lake, "total") == [6]


def test_steps_are_tested_on_small_frames_beside_them(
    lode_spark: Callable[..., int], file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(file.read_text() + BOTH)
    cases = file.parent / "tests"
    assert lode_spark("test", file) == 1
    assert "has no cases" in capsys.readouterr().err
    for case, content in {
        "doubled/some": {"raw.yaml": "- {n: 1}\n- {n: 2}\n", "expected.json": '[{"n": 4}, {"n": 2}]'},
        "doubled/none": {"raw.json": '{"schema": "n long", "rows": []}', "expected.yaml": "[]"},
        "both/joined": {
            "raw.yaml": "{schema: 'n long, day date', rows: [{n: 1, day: 2026-11-15}]}",
            "total.json": '[{"n": 1, "x": 0.5}, {"n": 2, "x": 1}]',
            "names.csv": "n,name\n1,one\n",
            "expected.yaml": "- {n: 1, day: 2026-11-15, x: 0.5, name: one}\n",
        },
        "total/sum": {"doubled.csv": "n\n1.5\n2\n", "expected.csv": "n\n3.5\n"},
    }.items():
        (cases / case).mkdir(parents=True)
        for name, text in content.items():
            (cases / case / name).write_text(text)
    assert lode_spark("test", file) == 0
    assert "4 cases, 0 failed" in capsys.readouterr().out

    (cases / "doubled" / "some" / "expected.json").write_text('[{"n": 4}, {"n": 3}]')
    (cases / "total" / "sum" / "expected.csv").write_text("m\n3.5\n")
    (cases / "doubled" / "none" / "raw.json").unlink()
    assert lode_spark("test", file) == 1
    out = capsys.readouterr().out
    assert "FAILED  doubled/some: 1 rows are missing, 1 are not expected" in out
    assert '- {"n": 3}' in out
    assert '+ {"n": 2}' in out
    assert "raw.yaml is missing" in out
    assert "column 'm' is expected: there are n" in out
    assert lode_spark("test", file, "--select", "total", "--json") == 1
    assert [line["case"] for line in lines(capsys)] == ["sum"]
    (cases / "totals").mkdir()
    assert lode_spark("test", file) == 1
    assert "no pipeline 'totals': did you mean 'total'" in capsys.readouterr().err


EXPECTING = """
  checked:
    from: raw
    into: checked
    expect:
      small: {check: n < 10, on_fail: drop}
      known: {check: name IS NOT NULL, on_fail: quarantine}
      odd: n % 2 = 1
      sane: {check: n > -5, on_fail: fail}
"""


def test_expectations_hold_in_tests_of_steps(
    lode_spark: Callable[..., int], file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(file.read_text() + EXPECTING)
    case = file.parent / "tests" / "checked" / "some"
    case.mkdir(parents=True)
    rows = [{"n": 1, "name": "a"}, {"n": 2, "name": "b"}, {"n": 10, "name": "c"}, {"n": 3, "name": None}]
    (case / "raw.json").write_text(json.dumps({"schema": "n long, name string", "rows": rows}))
    (case / "expected.json").write_text(json.dumps(rows[:2]))
    (case / "quarantined.json").write_text(json.dumps(rows[3:]))
    assert lode_spark("test", file, "--json") == 0
    (found,) = lines(capsys)
    assert found["failed"] == {"small": 1, "known": 1, "odd": 2}
    (case / "quarantined.json").write_text(json.dumps([{"n": 4, "name": None}]))
    assert lode_spark("test", file) == 1
    assert "some: of the quarantine, 1 rows are missing, 1 are not expected" in capsys.readouterr().out
    (case / "raw.json").write_text(json.dumps([{"n": -5, "name": "a"}]))
    assert lode_spark("test", file) == 1
    assert "some: 1 rows fail expectation 'sane' (n > -5)" in capsys.readouterr().out
