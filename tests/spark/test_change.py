"""Overwrite, delete, merge and compact on Spark: tasks rewrite files, the driver makes one commit."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql.types import IntegerType, LongType, StringType, StructType

import lode
import lode.spark
from lode.change import delete as deletes
from lode.spark import jobs
from lode.spark.batch import BatchWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

ROW = "id long, day string, n int"
ROWS = StructType().add("id", LongType()).add("day", StringType()).add("n", IntegerType())


def visits(lake: str, *, partitioned: bool = True) -> lode.Dataset:
    """Two snapshots, each with a file for every day: ids 0 to 11 in d0, d1 and d2."""
    ds = lode.Dataset.create(
        "visits",
        lake,
        schema={"id": "int64", "day": "string", "n": "int32"},
        partition_by=["day"] if partitioned else [],
        primary_key=["id"],
    )
    for start in (0, 6):
        ds.write([{"id": i, "day": f"d{i % 3}", "n": i} for i in range(start, start + 6)])
    return ds


def rows_of(spark: SparkSession, lake: str, **arguments: Any) -> dict[int, int]:
    """The rows as Spark's own reader and ``format("lode")`` see them."""
    native = lode.spark.read(spark, lake, "visits", **arguments).collect()
    options = {name.replace("as_of", "asOf"): str(value) for name, value in arguments.items()}
    source = spark.read.format("lode").options(path=lake, dataset="visits", **options).load().collect()
    assert sorted(native) == sorted(source)
    found = {row["id"]: row["n"] for row in native}
    assert len(found) == len(native)
    return found


def here(ds: lode.Dataset) -> dict[int, int]:
    """The rows as this process sees them, which costs no job."""
    rows = ds.scan().read_all().to_pylist()
    found = {row["id"]: row["n"] for row in rows}
    assert len(found) == len(rows)
    return found


def frame(spark: SparkSession, *rows: tuple[int, str, int]) -> DataFrame:
    return spark.createDataFrame(list(rows), ROW)


def save(df: DataFrame, lake: str, **options: str) -> None:
    df.write.format("lode").mode("overwrite").options(path=lake, dataset="visits", **options).save()


@contextmanager
def counted(spark: SparkSession) -> Iterator[Callable[[], int]]:
    """Count the jobs that Spark runs."""
    group = uuid4().hex
    spark.sparkContext.setJobGroup(group, "counted")
    try:
        yield lambda: len(spark.sparkContext.statusTracker().getJobIdsForGroup(group))
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]  # None clears it


def orphans(ds: lode.Dataset) -> set[str]:
    """Data files that no snapshot names."""
    stored = {entry.path for entry in ds.store.list() if "/data/" in entry.path}
    return stored - {file.path for snapshot in ds.snapshots() for file in snapshot.files}


ALL = {i: i for i in range(12)}


def without(*ids: int) -> dict[int, int]:
    return {i: n for i, n in ALL.items() if i not in ids}


def test_mode_overwrite_replaces_everything_unless_partitions_are_dynamic(
    spark: SparkSession, lake: str
) -> None:
    ds = visits(lake)
    before = ds.latest().id
    save(frame(spark, (100, "d1", 1)), lake, partitionOverwriteMode="dynamic")
    assert rows_of(spark, lake) == {**without(1, 4, 7, 10), 100: 1}
    save(frame(spark, (200, "d1", 2)), lake, metadata='{"job": "nightly"}')
    assert rows_of(spark, lake) == {200: 2}
    assert rows_of(spark, lake, as_of=before) == ALL
    latest = ds.latest()
    assert (latest.manifest.operation, latest.metadata) == ("overwrite", {"job": "nightly"})
    assert lode.verify(ds).ok


def test_the_setting_of_the_session_makes_partitions_dynamic(spark: SparkSession, lake: str) -> None:
    ds = visits(lake)
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        save(frame(spark, (100, "d1", 1)), lake)
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert here(ds) == {**without(1, 4, 7, 10), 100: 1}


def test_mode_overwrite_creates_a_dataset(spark: SparkSession, lake: str) -> None:
    save(frame(spark, (1, "d1", 1)), lake, partitionBy="day", replaceWhere="day = 'd1'")
    ds = lode.Dataset("visits", lake)
    assert (here(ds), ds.layout.keys) == ({1: 1}, ("day",))


def test_replace_where_replaces_the_rows_of_a_condition_and_refuses_others(
    spark: SparkSession, lake: str
) -> None:
    ds = visits(lake)
    save(frame(spark, (7, "d1", 70)), lake, replaceWhere="day = 'd1' AND id > 4")
    assert here(ds) == {**without(10), 7: 70}
    before = ds.latest().id
    with pytest.raises(PythonException, match="do not fulfil where"):
        save(frame(spark, (8, "d2", 80)), lake, replaceWhere="day = 'd1'")
    assert ds.latest().id == before


def test_an_overwrite_conflicts_with_rows_that_came_after_it_was_planned(
    spark: SparkSession, lake: str
) -> None:
    ds = visits(lake)

    def late(batches: Any) -> Any:
        lode.Dataset("visits", lake).write([{"id": 50, "day": "d1", "n": 0}])
        yield from batches

    df = frame(spark, (100, "d1", 1)).coalesce(1).mapInArrow(late, ROW)
    with pytest.raises(AnalysisException, match="also changed what this overwrite depends on"):
        save(df, lake, partitionOverwriteMode="dynamic")
    assert here(ds) == {**ALL, 50: 0}
    save(frame(spark, (100, "d1", 1)), lake, partitionOverwriteMode="dynamic", onConflict="redo")
    assert here(ds) == {**without(1, 4, 7, 10), 100: 1}
    assert orphans(ds) == set()


def test_replace_where_follows_a_compaction_of_the_files_it_rewrites(spark: SparkSession, lake: str) -> None:
    ds = visits(lake, partitioned=False)

    def late(batches: Any) -> Any:
        lode.Dataset("visits", lake).compact()
        yield from batches

    df = frame(spark, (7, "d1", 70)).coalesce(1).mapInArrow(late, ROW)
    save(df, lake, replaceWhere="id > 4 AND id < 9")
    assert here(ds) == {**without(5, 6, 8), 7: 70}


@pytest.mark.parametrize(
    ("mode", "options", "message"),
    [
        ("append", {"replaceWhere": "n = 1"}, "is of mode"),
        ("overwrite", {"replaceWhere": "nope = 1"}, "nope"),
        ("overwrite", {"partitionOverwriteMode": "some"}, "static or dynamic"),
        ("overwrite", {"onConflict": "merge"}, "raise or redo"),
        ("overwrite", {"replaceWhere": "n = 1", "partitionOverwriteMode": "dynamic"}, "exclude each other"),
    ],
)
def test_options_of_an_overwrite_that_mean_nothing_are_refused(
    lake: str, mode: str, options: dict[str, str], message: str
) -> None:
    visits(lake)
    given = {"path": lake, "dataset": "visits", **options}
    with pytest.raises(lode.InvalidOptionError, match=message):
        BatchWriter(given, ROWS, mode == "overwrite")


def test_a_dataframe_overwrites_partitions_conditions_or_everything_once_for_a_key(
    spark: SparkSession, lake: str
) -> None:
    ds = visits(lake)
    df = frame(spark, (100, "d1", 1))
    planned = ds.overwrite(df, dry_run=True)
    assert (planned.snapshot, planned.removed.rows, planned.added.rows) == (None, 4, 1)
    first = ds.overwrite(df, idempotency_key="k")
    assert here(ds) == {**without(1, 4, 7, 10), 100: 1}
    with counted(spark) as count:
        again = ds.overwrite(df, idempotency_key="k")
    assert again.snapshot is not None
    assert first.snapshot is not None
    assert again.snapshot.id == first.snapshot.id
    assert count() == 0
    lode.spark.overwrite(ds, frame(spark, (5, "d2", 50)), where="id = 5 OR id = 3")
    assert here(ds) == {**without(1, 3, 4, 7, 10), 100: 1, 5: 50}
    with pytest.raises(lode.SchemaViolationError, match="do not fulfil where"):
        ds.overwrite(frame(spark, (6, "d0", 60)), where="id = 5")
    ds.overwrite(frame(spark, (1, "d1", 1)), everything=True)
    assert here(ds) == {1: 1}
    assert orphans(ds) == set()


def test_tasks_delete_rows_and_a_dry_run_changes_nothing(spark: SparkSession, lake: str) -> None:
    ds = visits(lake)
    before = ds.latest()
    planned = lode.spark.delete(ds, "id IN (1, 2) OR day = 'd0'", dry_run=True)
    assert (planned.snapshot, planned.rows) == (None, -6)
    with counted(spark) as count:
        done = lode.spark.delete(ds, "id IN (1, 2) OR day = 'd0'", {"why": "test"})
    assert count() > 0
    assert done.rows == -6
    assert done.snapshot is not None
    assert done.snapshot.metadata == {"why": "test"}
    assert rows_of(spark, lake) == without(0, 1, 2, 3, 6, 9)
    assert rows_of(spark, lake, as_of=before.id) == ALL
    assert lode.spark.delete(ds, "id = 77").snapshot is None
    assert lode.verify(ds).ok


@pytest.mark.usefixtures("spark")
def test_a_deletion_is_prepared_again_after_a_compaction_and_refused_after_an_append(
    lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds = visits(lake)
    other = lode.Dataset("visits", lake)
    meanwhile: list[Callable[[], object]] = [
        other.compact,
        lambda: other.write([{"id": 50, "day": "d1", "n": 0}]),
    ]
    committer = type(ds._handle.find().committer)
    commit = committer.commit

    def after_another(self: Any, draft: Any) -> Any:
        if draft.operation == "delete" and meanwhile:
            meanwhile.pop(0)()
        return commit(self, draft)

    monkeypatch.setattr(committer, "commit", after_another)
    with pytest.raises(lode.SnapshotConflictError, match="delete depends on"):
        lode.spark.delete(ds, "id = 1")
    assert here(ds) == {**ALL, 50: 0}
    lode.spark.delete(ds, "id = 1")
    assert here(ds) == {**without(1), 50: 0}
    assert orphans(ds) == set()


def test_spark_merges_rows_by_their_keys(spark: SparkSession, lake: str) -> None:
    ds = visits(lake)
    before = ds.latest()
    # The key is an int here and a long in the dataset.
    df = spark.createDataFrame([(1, "d1", 10), (8, "d2", 80), (50, "d0", 5)], "id int, day string, n int")
    planned = ds.merge(df, dry_run=True)
    assert (planned.snapshot, planned.removed.files, planned.rows) == (None, 2, 1)
    assert ds.merge(df).rows == 1
    assert here(ds) == {**ALL, 1: 10, 8: 80, 50: 5}
    lode.spark.merge(ds, df.select("id"), when_matched="delete", when_not_matched="ignore")
    assert here(ds) == without(1, 8)
    lode.spark.merge(ds, frame(spark, (2, "d2", 99), (60, "d0", 6)), when_matched="ignore")
    assert rows_of(spark, lake) == {**without(1, 8), 60: 6}
    assert rows_of(spark, lake, as_of=before.id) == ALL
    assert lode.verify(ds).ok
    assert orphans(ds) == set()


def test_columns_may_have_dots_and_backticks_in_their_names(spark: SparkSession, lake: str) -> None:
    columns = "`a.b` long, `c``d` string"
    dotted = lode.Dataset("dotted", lake, codec=lode.Parquet())
    dotted.write(spark.createDataFrame([(1, "x"), (2, "y")], columns))
    dotted.merge(spark.createDataFrame([(2, "z"), (3, "w")], columns), on=["a.b"])
    lode.spark.overwrite(dotted, spark.createDataFrame([(1, "v")], columns), where='"a.b" = 1')
    expected = [{"a.b": 1, "c`d": "v"}, {"a.b": 2, "c`d": "z"}, {"a.b": 3, "c`d": "w"}]
    assert dotted.scan().read_all().sort_by("a.b").to_pylist() == expected


def test_a_merge_of_more_keys_than_the_driver_takes_is_the_same(
    spark: SparkSession, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds = visits(lake, partitioned=False)
    monkeypatch.setattr("lode.spark.merge_frame.MAX_DRIVER_KEYS", 1)
    df = frame(spark, (7, "d1", 70), (8, "d2", 80), (9, "d0", 90), (12, "d0", 12))
    done = ds.merge(df, on=["id", "day"])
    # The keys are in the range of the second file only.
    assert (done.removed.files, done.rows) == (1, 1)
    assert here(ds) == {**ALL, 7: 70, 8: 80, 9: 90, 12: 12}


def test_rows_that_cannot_be_merged_are_refused(spark: SparkSession, lake: str) -> None:
    ds = visits(lake)
    twice = frame(spark, (1, "d1", 10), (1, "d1", 20))
    with pytest.raises(lode.SchemaViolationError, match="two rows have the same key"):
        ds.merge(twice)
    with pytest.raises(lode.SchemaViolationError, match="has a null"):
        ds.merge(spark.createDataFrame([(None, "d1", 1)], ROW))
    with pytest.raises(lode.SchemaViolationError, match="convert the data first"):
        ds.merge(spark.createDataFrame([("1", "d1", 1)], "id string, day string, n int"))
    with pytest.raises(lode.SchemaViolationError, match="no column 'id'"):
        ds.merge(twice.select("day"))
    assert len(ds.snapshots()) == 3


def test_tasks_compact_small_files(spark: SparkSession, lake: str) -> None:
    ds = visits(lake)
    before = ds.latest()
    with counted(spark) as count:
        done = lode.spark.compact(ds, sort_by=["id"])
    assert count() == 1
    assert (done.removed.files, done.added.files, done.rows) == (6, 3, 0)
    assert rows_of(spark, lake) == rows_of(spark, lake, as_of=before.id) == ALL
    assert lode.spark.compact(ds).snapshot is None


@pytest.mark.usefixtures("spark")
def test_a_task_that_fails_and_is_tried_again_leaves_nothing(
    lake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds = visits(lake)
    mark = tmp_path / "failed"

    class Fails(deletes._Rewrite):
        def __call__(self, part: Any) -> Any:
            staged = super().__call__(part)
            if not mark.exists():
                mark.touch()
                raise OSError("lost")
            return staged

    monkeypatch.setattr(deletes, "_Rewrite", Fails)
    lode.spark.delete(ds, "id = 1")
    assert mark.exists()
    assert here(ds) == without(1)
    assert orphans(ds) == set()


def test_a_restored_dataset_and_its_exports_and_rewrites_have_the_visible_rows(
    spark: SparkSession, lake: str, tmp_path: Path
) -> None:
    ds = visits(lake)
    full = ds.latest()
    ds.delete("day = 'd1'")
    gone = ds.latest()
    place = lode.spark.DatasetRef(lake, "visits")
    out = str(tmp_path / "out")
    assert jobs.export(spark, place, out).receipt.rows == 8
    assert spark.read.parquet(out).count() == 8
    assert jobs.rewrite(spark, place, lode.spark.DatasetRef(lake, "other")).row_count == 8
    assert jobs.verify(spark, place).ok
    ds.restore(full)
    assert rows_of(spark, lake) == ALL
    assert rows_of(spark, lake, as_of=gone.id) == without(1, 4, 7, 10)
    ds.delete("id >= 0")
    assert rows_of(spark, lake) == {}
    assert lode.spark.read(spark, lake, "visits").columns == ["id", "day", "n"]


def test_tasks_refuse_the_rows_of_a_damaged_file(spark: SparkSession, lake: str, tmp_path: Path) -> None:
    ds = lode.Dataset.create(
        "visits",
        lake,
        schema={"id": "int64", "day": "string", "n": "int32"},
        primary_key=["id"],
        checksum="sha256",
    )
    for start in (0, 6):
        ds.write([{"id": i, "day": f"d{i % 3}", "n": i} for i in range(start, start + 6)])
    before = ds.latest()
    path = ds.plan().files[0].path
    file = tmp_path / "lake" / path
    whole = file.read_bytes()
    at = whole.rindex(b"parquet-cpp-arrow")
    file.chmod(0o644)
    file.write_bytes(whole[:at] + b"q" + whole[at + 1 :])
    row = frame(spark, (1, "d1", 9))
    changes: list[Callable[[], object]] = [
        lambda: lode.spark.compact(ds, spark=spark),
        lambda: lode.spark.delete(ds, "id = 1", spark=spark),
        lambda: ds.merge(row),
        lambda: ds.overwrite(row, where="id = 1"),
    ]
    for change in changes:
        with pytest.raises(lode.ChecksumMismatchError, match=path):
            change()
    assert ds.latest() == before
    assert [problem.kind for problem in jobs.verify(spark, ds).problems] == ["checksum"]
    file.write_bytes(whole)
    ds.merge(row)
    assert here(ds)[1] == 9
    assert jobs.verify(spark, ds).ok


def test_a_dataset_that_does_not_exist_is_not_verified(spark: SparkSession, lake: str) -> None:
    with pytest.raises(lode.NoSnapshotsError, match="does not exist"):
        jobs.verify(spark, lode.Dataset("nothing", lake))
