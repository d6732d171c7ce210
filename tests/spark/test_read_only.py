"""Frames and views of Lode are read-only: no statement of Spark changes a file of the lake."""

from __future__ import annotations

import ast
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError  # type: ignore[import-untyped, unused-ignore]
from pyspark.errors import PySparkException
from pyspark.sql.types import LongType, StructType

import lode
import lode.spark
from lode.pipeline import Pipeline
from lode.spark import frames
from lode.spark.session import functions_of, temporary_setting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

SOURCES = Path(lode.__file__).parent
DATABASE = "beside_the_lake"
VIEW = "one_of_lode"

# What would write rows, or remove them. Spark must refuse all of it.
WRITES = [
    "INSERT INTO {view} VALUES (9, 'd9')",
    "INSERT INTO {view} (n, day) VALUES (9, 'd9')",
    "INSERT INTO {view} BY NAME SELECT 'd9' AS day, 9L AS n",
    "INSERT INTO {view} REPLACE WHERE n > 0 VALUES (9, 'd9')",
    "INSERT INTO {view} PARTITION (day = 'd9') VALUES (9)",
    "INSERT OVERWRITE {view} VALUES (9, 'd9')",
    "INSERT OVERWRITE {view} SELECT * FROM {view}",
    "INSERT OVERWRITE {view} PARTITION (day = 'd1') VALUES (9)",
    "INSERT OVERWRITE {view} PARTITION (day) VALUES (9, 'd9')",
    "TRUNCATE TABLE {view}",
    "TRUNCATE TABLE {view} PARTITION (day = 'd1')",
    "DELETE FROM {view}",
    "DELETE FROM {view} WHERE n = 1",
    "UPDATE {view} SET n = 0",
    "MERGE INTO {view} AS t USING (SELECT 1L AS n, 'd' AS day) AS s ON t.n = s.n "
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    "MERGE INTO {view} AS t USING (SELECT 1L AS n) AS s ON t.n = s.n WHEN MATCHED THEN DELETE",
    "LOAD DATA INPATH '{file}' INTO TABLE {view}",
    "LOAD DATA INPATH '{file}' OVERWRITE INTO TABLE {view}",
    "ALTER TABLE {view} ADD COLUMNS (x INT)",
    "ALTER TABLE {view} DROP COLUMN n",
    "ALTER TABLE {view} RENAME COLUMN n TO m",
    "ALTER TABLE {view} ADD PARTITION (day = 'd9')",
    "ALTER TABLE {view} DROP PARTITION (day = 'd1')",
    "ALTER TABLE {view} PARTITION (day = 'd1') RENAME TO PARTITION (day = 'd2')",
    "ALTER TABLE {view} SET LOCATION '{file}'",
    "ALTER TABLE {view} RECOVER PARTITIONS",
    "MSCK REPAIR TABLE {view}",
]
# What may run, in this order; the last ones remove the view.
OTHERS = [
    "REFRESH TABLE {view}",
    "ANALYZE TABLE {view} COMPUTE STATISTICS",
    "ANALYZE TABLE {view} COMPUTE STATISTICS FOR ALL COLUMNS",
    "CACHE TABLE {view}",
    "INSERT OVERWRITE {view} VALUES (9, 'd9')",
    "UNCACHE TABLE {view}",
    "CREATE TABLE copied USING parquet AS SELECT * FROM {view}",
    "INSERT OVERWRITE copied VALUES (9, 'd9')",
    "TRUNCATE TABLE copied",
    "DROP TABLE copied",
    "CREATE TABLE alike LIKE {view}",
    "INSERT OVERWRITE alike VALUES (9, 'd9')",
    "DROP TABLE alike",
    "CREATE VIEW lasting AS SELECT * FROM {view}",
    "INSERT OVERWRITE lasting VALUES (9, 'd9')",
    "CREATE OR REPLACE TEMPORARY VIEW over_it AS SELECT * FROM {view}",
    "INSERT OVERWRITE over_it VALUES (9, 'd9')",
    "DROP VIEW over_it",
    "CREATE OR REPLACE TABLE {view} USING parquet AS SELECT 9L AS n",
    "CREATE TABLE {view} USING parquet AS SELECT 9L AS n",
    "ALTER VIEW {view} SET TBLPROPERTIES ('a' = 'b')",
    "ALTER TABLE {view} SET TBLPROPERTIES ('a' = 'b')",
    "DROP TABLE {view}",
    "ALTER VIEW {view} AS SELECT 9L AS n",
    "DROP VIEW {view}",
]


def writes(session: SparkSession, frame: DataFrame, view: str) -> dict[str, Callable[[], Any]]:
    """The same through the methods of writers."""
    rows = session.createDataFrame([(9, "d9")], "n long, day string")
    every = functions_of(session).lit(True)
    return {
        "insertInto": lambda: rows.write.insertInto(view),
        "insertInto, overwrite": lambda: rows.write.insertInto(view, overwrite=True),
        "insertInto of itself": lambda: frame.write.mode("overwrite").insertInto(view),
        "writeTo, append": lambda: rows.writeTo(view).append(),
        "writeTo, overwrite": lambda: rows.writeTo(view).overwrite(every),
        "writeTo, overwritePartitions": lambda: rows.writeTo(view).overwritePartitions(),
        "writeTo, replace": lambda: rows.writeTo(view).replace(),
        "catalog.recoverPartitions": lambda: session.catalog.recoverPartitions(view),
    }


def others(session: SparkSession, frame: DataFrame, view: str) -> dict[str, Callable[[], Any]]:
    """Further methods, some of which run."""
    rows = session.createDataFrame([(9, "d9")], "n long, day string")
    return {
        "catalog.refreshTable": lambda: session.catalog.refreshTable(view),
        "catalog.cacheTable": lambda: session.catalog.cacheTable(view),
        "insertInto, cached": lambda: rows.write.insertInto(view, overwrite=True),
        "catalog.uncacheTable": lambda: session.catalog.uncacheTable(view),
        "persist": lambda: frame.persist().count(),
        "insertInto, persisted": lambda: rows.write.insertInto(view, overwrite=True),
        "unpersist": lambda: frame.unpersist(),
        "localCheckpoint": lambda: frame.localCheckpoint().count(),
        "writeTo, createOrReplace": lambda: rows.writeTo(view).using("parquet").createOrReplace(),
        "saveAsTable, append": lambda: rows.write.mode("append").saveAsTable(view),
        "saveAsTable, overwrite": lambda: rows.write.mode("overwrite").saveAsTable(view),
        "saveAsTable of itself": lambda: frame.write.mode("overwrite").saveAsTable(view),
        "catalog.clearCache": lambda: session.catalog.clearCache(),
    }


@pytest.fixture(params=["classic", "connect"])
def session(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    found: SparkSession = request.getfixturevalue("spark" if request.param == "classic" else "connect")
    found.sql(f"CREATE DATABASE {DATABASE}")
    found.sql(f"USE {DATABASE}")
    yield found
    found.sql("USE default")
    found.sql(f"DROP DATABASE {DATABASE} CASCADE")
    found.catalog.clearCache()
    for view in (VIEW, "over_it"):
        found.catalog.dropTempView(view)
    found.catalog.dropGlobalTempView(VIEW)


@pytest.fixture
def dataset(lake: str) -> lode.Dataset:
    """A dataset of one file: Spark writes through a relation only if it has one path."""
    found = lode.Dataset("d", lake, codec="parquet")
    found.write(pa.table({"n": [1, 2], "day": ["d1", "d2"]}))
    return found


def attached(session: SparkSession, lake: str) -> str:
    lode.spark.attach(session, lake, prefix="attached_")
    return "attached_d"


def of_a_frame(session: SparkSession, lake: str) -> str:
    lode.spark.read(session, lake, "d").createOrReplaceTempView(VIEW)
    return VIEW


def through_python(session: SparkSession, lake: str) -> str:
    # Spark refuses to write through a hint too.
    with temporary_setting(session, "spark.sql.autoBroadcastJoinThreshold", "-1"):
        lode.spark.read(session, lake, "d", reader="python").createOrReplaceTempView(VIEW)
    return VIEW


def of_changes(session: SparkSession, lake: str) -> str:
    dataset = lode.open_dataset("d", lake)
    since = dataset.latest()
    dataset.write(pa.table({"n": [3], "day": ["d3"]}))
    frame = lode.spark.read(session, lake, "d", since=since.id)
    frame.createOrReplaceTempView(VIEW)
    return VIEW


def of_no_file(session: SparkSession, lake: str) -> str:
    lode.spark.read(session, lake, "d", where="n > 100").createOrReplaceTempView(VIEW)
    return VIEW


def of_many_small_files(session: SparkSession, lake: str) -> str:
    many = lode.Dataset("many", lake, codec="parquet", layout=lode.HiveLayout("day"))
    many.write(pa.table({"n": list(range(64)), "day": [f"d{day}" for day in range(64)]}))
    lode.spark.read(session, lake, "many").createOrReplaceTempView(VIEW)
    return VIEW


def global_view(session: SparkSession, lake: str) -> str:
    lode.spark.read(session, lake, "d").createOrReplaceGlobalTempView(VIEW)
    return f"global_temp.{VIEW}"


def with_another_name(session: SparkSession, lake: str) -> str:
    lode.spark.read(session, lake, "d").alias("other").createOrReplaceTempView(VIEW)
    return VIEW


def cached(session: SparkSession, lake: str) -> str:
    frame = lode.spark.read(session, lake, "d").cache()
    frame.count()
    frame.createOrReplaceTempView(VIEW)
    return VIEW


def permanent(session: SparkSession, lake: str) -> str:
    session.sql("CREATE TABLE of_no_dataset (n BIGINT, day STRING) USING lode")
    session.sql(f"CREATE VIEW {VIEW} AS SELECT * FROM of_no_dataset WITH (path = '{lake}', dataset = 'd')")
    return VIEW


SURFACES = [
    attached,
    of_a_frame,
    through_python,
    of_changes,
    of_no_file,
    of_many_small_files,
    global_view,
    with_another_name,
    cached,
    permanent,
]


def contents(root: Path) -> dict[str, bytes | None]:
    """The bytes of every file below a folder, and the folders."""
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else None for path in root.rglob("*")
    }


def run(session: SparkSession, statement: str) -> None:
    session.sql(statement).collect()


def is_refused(call: Callable[[], Any]) -> bool:
    try:
        call()
    except (PySparkException, Py4JError):
        return True
    return False


@pytest.mark.parametrize("surface", SURFACES)
def test_spark_refuses_to_write_through_a_view(
    session: SparkSession,
    lake: str,
    dataset: lode.Dataset,
    tmp_path: Path,
    surface: Callable[[SparkSession, str], str],
) -> None:
    view = surface(session, lake)
    before = contents(tmp_path / "lake")
    file = tmp_path / "own.parquet"
    file.write_bytes(b"")
    for statement in WRITES:
        text = statement.format(view=view, file=file)
        assert is_refused(partial(run, session, text)), text
        assert contents(tmp_path / "lake") == before, text
    for name, call in writes(session, session.table(view), view).items():
        assert is_refused(call), name
        assert contents(tmp_path / "lake") == before, name
    assert lode.verify(dataset).ok


@pytest.mark.parametrize("surface", [attached, through_python, permanent])
def test_nothing_that_runs_on_a_view_changes_a_file_of_the_lake(
    session: SparkSession,
    lake: str,
    dataset: lode.Dataset,
    tmp_path: Path,
    surface: Callable[[SparkSession, str], str],
) -> None:
    view = surface(session, lake)
    before = contents(tmp_path / "lake")
    ran = 0
    for name, call in others(session, session.table(view), view).items():
        ran += not is_refused(call)
        assert contents(tmp_path / "lake") == before, name
    for statement in OTHERS:
        text = statement.format(view=view)
        ran += not is_refused(partial(run, session, text))
        assert contents(tmp_path / "lake") == before, text
    assert ran > len(OTHERS) // 2
    assert lode.verify(dataset).ok


def test_a_step_of_a_pipeline_cannot_write_through_its_input(
    spark: SparkSession, lake: str, dataset: lode.Dataset, tmp_path: Path
) -> None:
    source, sink = lode.spark.DatasetRef(lake, "d"), lode.spark.DatasetRef(lake, "out")
    files = tmp_path / "lake" / "datasets" / "d"
    before = contents(files)
    pipeline = Pipeline("p", source, sink, ["INSERT OVERWRITE {input} SELECT * FROM {input}"])
    with pytest.raises(Exception, match="UNSUPPORTED_INSERT"):
        pipeline.run(spark)
    assert contents(files) == before
    assert lode.verify(dataset).ok


USING = "CREATE OR REPLACE TEMPORARY VIEW {view} USING lode OPTIONS (path '{lake}', dataset 'd'{more})"


def test_a_view_of_an_older_snapshot_is_not_written(
    session: SparkSession, lake: str, dataset: lode.Dataset, tmp_path: Path
) -> None:
    session.sql(USING.format(view=VIEW, lake=lake, more=", asOf '1'"))
    before = contents(tmp_path / "lake")
    with pytest.raises(PySparkException, match="'asOf' chooses what is read"):
        session.sql(f"INSERT OVERWRITE {VIEW} VALUES (9, 'd9')")
    assert contents(tmp_path / "lake") == before
    assert lode.verify(dataset).ok


@pytest.mark.usefixtures("dataset")
@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("option", ["asOf", "since", "snapshot", "onRemoval", "columns"])
def test_an_option_that_chooses_rows_is_refused_in_a_write(lake: str, option: str, overwrite: bool) -> None:
    source = lode.spark.LodeDataSource({"path": lake, "dataset": "d", option: "1"})
    with pytest.raises(lode.InvalidOptionError, match=f"option '{option}' chooses what is read"):
        source.writer(StructType().add("n", LongType()), overwrite)


def test_an_insert_into_a_view_of_the_format_is_a_commit_that_replaces_no_file(
    session: SparkSession, lake: str, dataset: lode.Dataset, tmp_path: Path
) -> None:
    session.sql(USING.format(view=VIEW, lake=lake, more=""))
    first, before = dataset.latest(), contents(tmp_path / "lake" / "datasets" / "d" / "snapshots")
    session.sql(f"INSERT INTO {VIEW} VALUES (3, 'd3')")
    session.sql(f"INSERT OVERWRITE {VIEW} VALUES (9, 'd9')")
    assert len(dataset.snapshots()) == 3
    assert dataset.scan().read_all().to_pydict() == {"n": [9], "day": ["d9"]}
    assert dataset.scan(as_of=first).read_all()["n"].to_pylist() == [1, 2]
    assert contents(tmp_path / "lake" / "datasets" / "d" / "snapshots").items() >= before.items()
    assert lode.verify(dataset).ok


TABLE_STATEMENTS = [
    "SELECT * FROM t",
    "INSERT INTO t VALUES (9, 'd9')",
    "INSERT OVERWRITE t VALUES (9, 'd9')",
    "TRUNCATE TABLE t",
    "DELETE FROM t",
    "ALTER TABLE t ADD COLUMNS (x INT)",
    "CREATE OR REPLACE TABLE t USING lode OPTIONS (path '{lake}', dataset 'd') AS SELECT 9L n, 'd9' day",
    "CREATE TABLE t (n BIGINT, day STRING) USING lode OPTIONS (path '{lake}', dataset 'd')",
    "DROP TABLE t PURGE",
]


def test_a_table_of_the_catalog_never_removes_the_lake_at_its_location(
    session: SparkSession, lake: str, dataset: lode.Dataset, tmp_path: Path
) -> None:
    rows = session.createDataFrame([(3, "d3")], "n long, day string")
    rows.write.format("lode").options(path=lake, dataset="d").saveAsTable("saved")
    assert dataset.latest().row_count == 1
    before = contents(tmp_path / "lake")
    session.sql("DROP TABLE saved PURGE")
    session.sql(f"CREATE TABLE t (n BIGINT, day STRING) USING lode OPTIONS (path '{lake}', dataset 'd')")
    for statement in TABLE_STATEMENTS:
        text = statement.format(lake=lake)
        is_refused(partial(run, session, text))
        assert contents(tmp_path / "lake") == before, text
    assert not session.catalog.tableExists("t")
    assert lode.verify(dataset).ok


def plan_of(frame: DataFrame) -> str:
    """The physical plan, without the numbers that Spark counts up."""
    found: Any = frame
    return re.sub(r"#\d+L?|plan_id=\d+", "#", found._jdf.queryExecution().executedPlan().toString())


def queries(spark: SparkSession, lake: str, reader: Any) -> list[DataFrame]:
    frame = lode.spark.read(spark, lake, "d", reader=reader)
    simple = [frame, frame.where("n > 1").select("day")]
    if reader == "python":  # for which each plan starts a process
        return simple
    return [
        *simple,
        frame.groupBy("day").count(),
        frame.join(frame.select("n"), "n"),
        frame.limit(1),
        lode.spark.read(spark, lake, "d", reader=reader, where="n > 1", columns=["day"]),
    ]


@pytest.mark.usefixtures("dataset")
@pytest.mark.parametrize("reader", ["spark", "python"])
def test_what_keeps_frames_from_being_written_is_not_in_the_physical_plan(
    spark: SparkSession, lake: str, reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    guarded = [plan_of(frame) for frame in queries(spark, lake, reader)]
    monkeypatch.setattr(frames, "_read_only", lambda frame: frame)
    assert guarded == [plan_of(frame) for frame in queries(spark, lake, reader)]
    assert ("PushedFilters: [IsNotNull(n), GreaterThan(n,1)]" in guarded[1]) == (reader == "spark")


# Beside these, nothing of the package lets Spark open a path: "lode spark import" reads what the user names.
OPENERS = {"spark/frames.py", "cli/spark.py"}
OPENING = {"table", "createTable", "createExternalTable", "textFile", "wholeTextFiles", "binaryFiles"}


def opens_paths(tree: ast.AST) -> Iterator[int]:
    """The lines that use the readers of a session, which are properties, or open a path in another way."""
    called = {node.func for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and (
            (node.attr in ("read", "readStream") and node not in called)
            or (node.attr in OPENING and "spark" in ast.unparse(node.value).lower())
        ):
            yield node.lineno


def test_spark_opens_files_of_a_lake_in_one_module_only() -> None:
    found = {
        str(path.relative_to(SOURCES))
        for package in ("spark", "pipeline", "cli", "demo", "bench")
        for path in (SOURCES / package).rglob("*.py")
        if any(opens_paths(ast.parse(path.read_text())))
    }
    assert found == OPENERS
