"""A project in lake.yaml or in Python: its keys, its environment, its steps; all without Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import lode
from lode.pipeline import Expectation, Project, load, parse
from lode.pipeline.validate import problems_in
from lode.spark import DatasetRef

if TYPE_CHECKING:
    from pathlib import Path

LAKE = """
lake: ./lake
spark: {master: "local[1]", spark.sql.shuffle.partitions: 2, spark.ui.enabled: false}
parallel: 2
pipelines:
  gold:
    from: silver
    steps: sql/gold.sql
    recompute_by: day
    into: {dataset: gold, write: overwrite, partition_by: day}
  silver:
    from: {dataset: bronze, max_snapshots_per_batch: 10, starting_position: 2026-11-15}
    tables: {pages: page_names}
    steps:
      - cleaning:without_robots
      - "SELECT day, page FROM {bronze} JOIN {pages} USING (page) WHERE x <> '{{bronze}}'"
    expect:
      has_page: page IS NOT NULL
      sane: {check: "day < '2100'", on_fail: quarantine}
    into: silver
    retries: 3
    on_failure: cleaning:alert
  people:
    from: bronze
    into: {dataset: people, write: merge, on: [page]}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "gold.sql").write_text("SELECT day, count(*) AS n FROM {silver} GROUP BY day\n")
    (tmp_path / "cleaning.py").write_text(
        "def without_robots(bronze, pages):\n    return bronze\n"
        "def alert(name, error):\n    pass\n"
        "number = 3\n"
    )
    (tmp_path / "raising.py").write_text("import os\nos.environ['NOWHERE']\n")
    (tmp_path / "leaving.py").write_text("import sys\nsys.exit(3)\n")
    (tmp_path / "lake.yaml").write_text(LAKE)
    return tmp_path


@pytest.fixture(autouse=True)
def path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])


def minimal(**changes: Any) -> dict[str, Any]:
    return {"lake": "lake", "pipelines": {"p": {"from": "a", "into": "b", **changes}}}


def test_a_file_describes_pipelines_in_any_order(folder: Path) -> None:
    project = load(folder / "lake.yaml")
    assert project.graph.order == ["silver", "gold", "people"]
    assert (project.master, project.parallel) == ("local[1]", 2)
    assert project.settings == {"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false"}
    silver, gold = project.tasks["silver"], project.tasks["gold"].pipeline
    lake = str(folder / "lake")
    assert silver.pipeline.source == DatasetRef(
        lake, "bronze", maxSnapshotsPerBatch=10, startingPosition="2026-11-15"
    )
    assert silver.pipeline.tables == {"pages": DatasetRef(lake, "page_names")}
    assert (silver.retries, silver.on_failure.__name__) == (3, "alert")  # type: ignore[union-attr]
    function, sql = silver.pipeline.steps
    assert function.__name__ == "without_robots"  # type: ignore[union-attr]
    # A single input has its own name in SQL: that of what the step before has made.
    assert sql == "SELECT day, page FROM {input} JOIN {pages} USING (page) WHERE x <> '{{bronze}}'"
    assert silver.pipeline.expect["has_page"] == Expectation("page IS NOT NULL")
    assert silver.pipeline.expect["sane"] == Expectation("day < '2100'", "quarantine")
    assert gold.steps == ["SELECT day, count(*) AS n FROM {input} GROUP BY day\n"]
    assert (gold.write, gold.recompute_by) == ("overwrite", "day")
    assert gold.sink == DatasetRef(lake, "gold", partitionBy="day")
    assert list(project.tasks["people"].pipeline.on) == ["page"]
    project.check()


def test_the_same_in_python() -> None:
    project = Project("lake")

    @project.pipeline(from_="bronze", into="silver", tables=["pages"], steps="SELECT * FROM {bronze}")
    def silver(bronze: Any, pages: Any) -> Any:
        return bronze.join(pages, "page")

    @project.pipeline(from_=["silver", {"dataset": "shop.orders", "as": "orders"}], into="gold", name="Gold")
    def gold(silver: Any, orders: Any) -> Any:
        return silver.join(orders, "page")

    assert project.graph.order == ["silver", "Gold"]
    assert project.tasks["silver"].pipeline.steps == ["SELECT * FROM {input}", silver]
    assert list(project.tasks["Gold"].pipeline.sources) == ["silver", "orders"]
    with pytest.raises(lode.InvalidOptionError, match="two pipelines of the name 'silver'"):
        project.add("silver", from_="x", into="y")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"pipelines": {}}, "'lake' is missing"),
        ({"lake": "x"}, "'pipelines' is missing"),
        ({"lake": "x", "pipeline": {}}, "'pipeline' is unknown in a project: did you mean 'pipelines'"),
        ({**minimal(), "parallel": 0}, "'parallel' is 0: it is a whole number from 1"),
        ({**minimal(), "every": "often"}, "'every' is 'often': it is a number of seconds"),
        ({"lake": "x", "pipelines": {"p": {"from": "a"}}}, "pipeline 'p': 'into' is missing"),
        (
            {"lake": "x", "pipelines": {"a+b": {"from": "a", "into": "b"}}},
            r"pipeline 'a\+b' cannot be named so",
        ),
        (minimal(step=[]), "pipeline 'p': 'step' is unknown in a pipeline: did you mean 'steps'"),
        (minimal(into={"dataset": "b", "partition_bye": "day"}), "did you mean 'partition_by'"),
        (
            minimal(into={"dataset": "b", "max_bytes_per_batch": 3}),
            "'max_bytes_per_batch' is unknown in 'into'",
        ),
        (minimal(into={"write": "append"}), "'into' names a dataset"),
        (minimal(into={"dataset": "b", "write": "replace"}), "write is 'replace': it is one of append"),
        (minimal(**{"from": ["a", "a"]}), "'from' has 'a' twice"),
        (minimal(into="a"), "reads dataset 'a' and writes to it"),
        (minimal(steps=[3]), "a step is SQL, 'sql/file.sql', 'module:function' or a function, got 3"),
        (minimal(steps=["sql/none.sql"]), r"step sql/none\.sql cannot be read"),
        (minimal(steps=["nowhere:clean"]), "a step nowhere:clean cannot be loaded"),
        (minimal(steps=["cleaning:nothing"]), "a step cleaning:nothing cannot be loaded"),
        (minimal(steps=["cleaning:number"]), "a step cleaning:number is a int, not a function"),
        (minimal(on_failure="SELECT 1"), "'on_failure' is 'module:function' or a function"),
        (minimal(expect={"e": {"check": "x", "on_fial": "drop"}}), "did you mean 'on_fail'"),
        (minimal(expect={"e": {"on_fail": "drop"}}), "expectation 'e' has no 'check'"),
        (minimal(expect={"e": {"check": "x", "on_fail": "explode"}}), "on_fail is 'explode'"),
        (minimal(retries=-1), "'retries' is -1"),
        (minimal(tables={"a": "x"}), "'a' is an input and a table"),
        ({**minimal(), "lake": ["x"]}, r"'lake' is \['x'\]: it is a URL or a directory"),
        ({**minimal(), "every": float("nan")}, "'every' is nan"),
        ({**minimal(), "spark": {"master": None}}, "'master' in 'spark' is None: it is a text or a number"),
        ({**minimal(), "spark": {"spark": {"ui": 1}}}, "'spark' in 'spark' is .*: it is a text or a number"),
        (minimal(expect=["x > 0"]), "pipeline 'p': 'expect' is a mapping, got list"),
        (minimal(recompute_by=["day"]), r"recompute_by is \['day'\]: it is the name of a column"),
        (minimal(recompute_by=""), "recompute_by is '': it is the name of a column"),
        (
            minimal(into={"dataset": "b", "write": "merge", "on": {"id": 1}}),
            "on is {'id': 1}: it is the name",
        ),
        (minimal(**{"from": {"dataset": "a", "lake": "y", "store": "z"}}), "'store' in 'from' is a mapping"),
        (minimal(**{"from": {"dataset": "a", "store": {"x": 1}}}), "'from' has 'store' without 'lake'"),
        (minimal(steps=["raising:f"]), r"a step raising:f cannot be loaded: KeyError\('NOWHERE'\)"),
        (minimal(on_failure="leaving:f"), r"'on_failure' leaving:f cannot be loaded: SystemExit\(3\)"),
    ],
)
def test_a_mistake_is_refused_with_its_place(folder: Path, content: Any, message: str) -> None:
    with pytest.raises(lode.InvalidOptionError, match=message):
        parse(content, folder)


def test_a_file_that_is_no_project_is_refused_with_its_name(tmp_path: Path) -> None:
    file = tmp_path / "lake.yaml"
    for text, message in (
        ("lake: [", "is not YAML"),
        ("- 1", "a project is a mapping, got list"),
        ("lake: x\nlake: y", "line 2: 'lake' is there twice"),
        ("lake: x\npipelines: {p: {from: a, into: b}, p: {from: c, into: d}}", "'p' is there twice"),
        ("lake: \x00", "is not YAML"),
    ):
        file.write_text(text)
        with pytest.raises(lode.InvalidOptionError, match=rf"lake\.yaml.*{message}"):
            load(file)
    with pytest.raises(lode.InvalidOptionError, match=r"none\.yaml cannot be read"):
        load(tmp_path / "none.yaml")


def test_values_come_from_the_environment_and_secrets_are_shown_nowhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = minimal(steps="SELECT '${NOT_A_VARIABLE}' AS x FROM {a}")
    content |= {
        "lake": "s3://${LAKE_BUCKET}/lake",
        "store": {
            "access_key_id": "me",
            "secret_access_key": "${LAKE_SECRET}",
            "client_options": {"allow_http": True},
        },
        "spark": {"spark.hadoop.key": "${LAKE_SECRET}", "spark.text": "$${NOT_A_VARIABLE}"},
    }
    with pytest.raises(lode.InvalidOptionError, match=r"^lake needs the variable LAKE_BUCKET, which"):
        parse(content)
    monkeypatch.setenv("LAKE_BUCKET", "bucket")
    with pytest.raises(
        lode.InvalidOptionError, match=r"^store\.secret_access_key needs the variable LAKE_SECRET"
    ):
        parse(content)
    monkeypatch.setenv("LAKE_SECRET", "hunter2-hunter2")
    project = parse(content)
    ref = project.tasks["p"].pipeline.sink_ref
    assert ref.given["path"] == "s3://bucket/lake"
    assert ref.options["store.secret_access_key"] == "hunter2-hunter2"
    assert ref.options["store.client_options.allow_http"] == "true"
    assert project.settings["spark.text"] == "${NOT_A_VARIABLE}"
    assert project.tasks["p"].pipeline.steps == ["SELECT '${NOT_A_VARIABLE}' AS x FROM {input}"]
    assert "hunter2" not in f"{project!r} {project.tasks['p']!r} {ref!r}"
    # Neither in the errors of a project that cannot be made.
    content["store"] = {"endpoint": "http://x", "skip_signature": "${LAKE_SECRET}"}
    with pytest.raises(lode.InvalidOptionError, match="…") as refused:
        parse(content).check()
    assert "hunter2" not in str(refused.value)
    assert project.without_secrets("403: key hunter2-hunter2 is unknown") == "403: key … is unknown"


def test_a_pipeline_may_be_named_as_a_key_and_share_keys_with_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKE_INPUT", "visits")
    file = tmp_path / "lake.yaml"
    file.write_text(
        "lake: ./lake\n"
        "pipelines:\n"
        "  expect: &first {from: '${LAKE_INPUT}', into: {dataset: b, partition_by: null}, retries: 2}\n"
        "  second: {<<: *first, into: c}\n"
    )
    tasks = load(file).tasks
    assert [task.pipeline.source_ref.dataset for task in tasks.values()] == ["visits", "visits"]
    assert [task.pipeline.sink_ref.given["dataset"] for task in tasks.values()] == ["b", "c"]
    assert [task.retries for task in tasks.values()] == [2, 2]
    assert tasks["expect"].pipeline.sink_ref.options == {}


def test_options_are_checked_with_the_name_of_the_pipeline() -> None:
    for into, message in (
        ({"dataset": "b", "merge_schema": "maybe"}, "option 'mergeSchema' is true or false, got 'maybe'"),
        ({"dataset": "b", "target_file_bytes": "much"}, "option 'targetFileBytes' is a size"),
        ("../b", "dataset id '../b' may not contain"),
    ):
        with pytest.raises(lode.InvalidOptionError, match=f"^pipeline 'p': {message}"):
            parse(minimal(into=into)).check()


def test_rings_and_shared_sinks_are_refused_by_name() -> None:
    one, two = {"from": "a", "into": "b"}, {"from": "b", "into": "a"}
    with pytest.raises(lode.InvalidOptionError, match=r"in a ring: (one → two → one|two → one → two)"):
        parse({"lake": "x", "pipelines": {"one": one, "two": two}})
    replacing = {"from": "c", "into": {"dataset": "b", "write": "overwrite"}}
    with pytest.raises(
        lode.InvalidOptionError, match="'two' replaces rows of dataset 'b', which 'one' writes too"
    ):
        parse({"lake": "x", "pipelines": {"one": one, "two": replacing}})
    bad = {"expect": {"e": {"check": "x", "on_fail": "quarantine"}}, "quarantine": "bad"}
    with pytest.raises(
        lode.InvalidOptionError, match="replaces rows of dataset 'bad', which 'two' writes too"
    ):
        parse({"lake": "x", "pipelines": {"one": {**one, **bad}, "two": {"from": "a", "into": "c", **bad}}})
    # The same dataset in another spelling.
    with pytest.raises(lode.InvalidOptionError, match="reads dataset 'a' and writes to it"):
        parse(minimal(into={"dataset": "a", "lake": "./y/../lake"}))


def test_modules_of_two_projects_with_one_name_are_not_mixed_up(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "common.py").write_text(f"NAME = '{name}'\n")
        (tmp_path / name / "cleaning.py").write_text("import common\ndef clean(x):\n    return common.NAME\n")
        project = parse(minimal(steps="cleaning:clean"), tmp_path / name)
        (step,) = project.tasks["p"].pipeline.steps
        assert callable(step)
        assert step(None) == name


def test_mistakes_are_found_before_spark_starts(folder: Path, tmp_path: Path) -> None:
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\nexit 1\n")
    java.chmod(0o755)
    (folder / "lake.yaml").write_text(LAKE.replace("{pages}", "{page}"))
    done = subprocess.run(
        [sys.executable, "-m", "lode.spark", "run", str(folder / "lake.yaml")],
        env={**os.environ, "JAVA_HOME": str(tmp_path / "java")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "a step asks for {page}: there are {input}, {pages}" in done.stderr
    assert not (tmp_path / "started").exists()


def test_validation_follows_columns_through_sql(folder: Path) -> None:
    lake = str(folder / "lake")
    lode.Dataset.create("bronze", lake, schema={"day": "string", "page": "string"})
    lode.Dataset.create("page_names", lake, schema={"page": "string", "name": "string"})
    assert problems_in(load(folder / "lake.yaml")) == []
    pipelines = {
        "wrong_sql": {"from": "bronze", "into": "w", "steps": "SELECT day FORM {bronze} GROUP page"},
        "no_query": {"from": "bronze", "into": "q", "steps": "DROP TABLE {bronze}"},
        "wrong_column": {"from": "bronze", "into": "c", "steps": "SELECT dy FROM {bronze}"},
        "silver": {"from": "bronze", "into": "s", "steps": "SELECT day AS d, upper(page) AS p FROM {bronze}"},
        "gold": {
            "from": "s",
            "steps": "SELECT d, count(*) AS n FROM {s} GROUP BY ALL",
            "recompute_by": "day",
            "into": {"dataset": "g", "partition_by": "dd", "write": "overwrite"},
            "expect": {"few": "n <", "other": "m > 0"},
        },
        "merged": {"from": "bronze", "into": {"dataset": "m", "write": "merge", "on": "id"}},
        "fine": {"from": "bronze", "into": "f", "steps": "SELECT *, 1 AS one FROM {bronze}"},
    }
    found = problems_in(parse({"lake": lake, "pipelines": pipelines}))
    seen = [(problem.pipeline, problem.certain, problem.text) for problem in found]
    expected = [
        ("wrong_sql", True, "step 1 is not SQL"),
        ("no_query", True, "step 1 is no query: it begins with 'DROP'"),
        ("wrong_column", False, "step 1: Column 'dy' could not be resolved"),
        ("gold", True, "recompute_by: input 's' has no column 'day': it has d, p"),
        ("gold", True, "recompute_by: the output has no column 'day'"),
        ("gold", True, "partition_by: the output has no column 'dd': did you mean 'd'?"),
        ("gold", True, "expectation 'few' is not SQL"),
        ("gold", False, "expectation 'other': Column 'm' could not be resolved"),
        ("merged", True, "on: the output has no column 'id'"),
    ]
    assert [(name, certain) for name, certain, _ in seen] == [
        (name, certain) for name, certain, _ in expected
    ], seen
    for (_, _, text), (_, _, begin) in zip(seen, expected, strict=True):
        assert text.startswith(begin), text
