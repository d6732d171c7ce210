"""Writing from Spark: tasks stage in parallel, one commit, and nothing twice."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException, PythonException

import lode
import lode.spark
from lode.spark.batch import BatchWriter
from lode.spark.write import TaskResult
from lode.store.local import LocalStore
from support.spark import tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lode.snapshot import Snapshot


def frame(spark: SparkSession, rows: int = 100, parts: int = 2) -> DataFrame:
    return spark.range(0, rows, 1, parts).selectExpr("id", "concat('d', id % 3) as day", "id * 0.5 as amount")


def save(df: DataFrame, lake: str, dataset: str = "events", **options: Any) -> None:
    given = {"path": lake, "dataset": dataset, **{name: str(value) for name, value in options.items()}}
    df.write.format("lode").options(**given).mode("append").save()


def opened(lake: str, dataset: str = "events", **arguments: Any) -> lode.Dataset:
    return lode.Dataset(dataset, lake, **{"codec": "parquet", **arguments})


def ids(dataset: lode.Dataset) -> list[int]:
    found: list[Any] = dataset.scan(columns=["id"]).read_all()["id"].to_pylist()
    return sorted(found)


def local(dataset: lode.Dataset, snapshot: Snapshot) -> list[Path]:
    assert isinstance(dataset.store, LocalStore)
    return [dataset.store.local_path(file.path) for file in snapshot.files]


def folder(lake: str) -> str:
    return urlsplit(lake).path


def data_files(lake: str) -> list[Path]:
    return [path for path in Path(folder(lake)).rglob("data-*") if path.is_file()]


def test_a_dataframe_becomes_one_snapshot_with_statistics_and_checksums(
    spark: SparkSession, lake: str
) -> None:
    ds = opened(lake, checksum="sha256")
    snapshot = ds.write(frame(spark), {"source": "test"})
    assert (snapshot.sequence, snapshot.row_count, len(snapshot.files)) == (1, 100, 2)
    assert snapshot.metadata == {"source": "test"}
    assert all(file.checksum and file.stats and file.stats.row_count == 50 for file in snapshot.files)
    assert ids(ds) == list(range(100))
    assert lode.verify(ds).ok


def test_a_dataframe_is_not_collected(
    spark: SparkSession, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    df = frame(spark)

    def refused(*_: Any, **__: Any) -> Any:
        raise AssertionError("the rows were brought to the driver")

    for name in ("__arrow_c_stream__", "toArrow", "toPandas", "toLocalIterator"):
        monkeypatch.setattr(type(df), name, refused)
    assert opened(lake).write(df).row_count == 100


def test_format_lode_appends_with_nothing_registered_by_hand(spark: SparkSession, lake: str) -> None:
    save(frame(spark), lake, metadata=json.dumps({"run": 7}), checksum="xxh3-128")
    save(frame(spark), lake)
    ds = opened(lake)
    assert [(s.sequence, s.row_count) for s in ds.history()] == [(2, 100), (1, 100)]
    first, second = ds.snapshots()
    assert first.metadata == {"run": 7}
    # What is not said is as the dataset's newest snapshot has it.
    assert second.manifest.checksum_algorithm == "xxh3-128"


@pytest.mark.parametrize("codec", ["parquet", "jsonl", "arrow"])
def test_partitions_lie_where_hive_puts_them_in_every_codec(
    spark: SparkSession, lake: str, codec: str
) -> None:
    save(frame(spark), lake, partitionBy="day", codec=codec, compressor="zstd")
    save(frame(spark), lake)
    ds = opened(lake, layout=lode.HiveLayout("day"), codec=codec, compressor="zstd")
    assert ids(ds) == sorted([*range(100), *range(100)])
    newest = ds.latest()
    assert {ds.layout.partition_of("events", f.path) for f in newest.files} == {
        "day=d0",
        "day=d1",
        "day=d2",
    }


def test_ds_write_opens_one_file_for_each_partition_of_a_task(spark: SparkSession, lake: str) -> None:
    ds = opened(lake, layout=lode.HiveLayout("id"))
    snapshot = ds.write(frame(spark, rows=80, parts=1))
    assert len(snapshot.files) == 80


def test_a_file_that_has_reached_the_target_size_is_followed_by_another(
    spark: SparkSession, lake: str
) -> None:
    df = spark.range(0, 20_000, 1, 1).selectExpr("id", "uuid() as noise")
    save(df, lake, targetFileBytes="100k", rowGroupRows=1000, compression="none")
    newest = opened(lake).latest()
    assert newest.row_count == 20_000
    assert len(newest.files) >= 5
    assert all(file.size_bytes < 300_000 for file in newest.files)


@pytest.mark.parametrize("way", ["write", "format"])
def test_rows_are_sorted_within_every_file(spark: SparkSession, lake: str, way: str) -> None:
    df = spark.range(0, 300, 1, 2).selectExpr("id", "hash(id) as h", "id % 2 as half").repartition(2)
    ds = opened(lake, layout=lode.HiveLayout("half"))
    if way == "write":
        lode.spark.write(ds, df, sort_by=["h"])
    else:
        save(df, lake, partitionBy="half", sortBy="h")
    for path in local(ds, ds.latest()):
        h: list[Any] = pq.read_table(path, partitioning=None)["h"].to_pylist()
        assert h == sorted(h)
    assert ids(ds) == list(range(300))


@pytest.mark.parametrize("way", ["write", "format"])
def test_a_task_that_fails_and_is_run_again_counts_once(spark: SparkSession, lake: str, way: str) -> None:
    df = frame(spark).mapInArrow(tasks.Trouble(folder(lake), files=0), frame(spark).schema)
    ds = opened(lake)
    if way == "write":
        ds.write(df)
    else:
        save(df, lake)
    assert ids(ds) == list(range(100))
    assert sorted(data_files(lake)) == sorted(local(ds, ds.latest()))


def test_a_worker_that_is_killed_at_work_leaves_no_row_twice_and_no_file(
    spark: SparkSession, lake: str
) -> None:
    # Files of one row each, so that some are staged when it dies.
    ds = opened(lake, codec=tasks.Deadly(row_group_rows=1), layout=lode.HiveLayout("half"))
    df = spark.range(0, 20, 1, 2).selectExpr("id", "id % 2 as half")
    lode.spark.write(ds, df, target_file_bytes=1)
    assert ids(ds) == list(range(20))
    assert sorted(data_files(lake)) == sorted(local(ds, ds.latest()))
    assert lode.verify(ds).ok


def test_what_a_lost_attempt_left_goes_with_the_commit_of_format_lode(spark: SparkSession, lake: str) -> None:
    df = frame(spark)
    job = writer(lake, df)
    lost, kept = (job.write(iter(df.toArrow().to_batches())) for _ in range(2))
    assert lost.staged.files != kept.staged.files
    job.commit([TaskResult(kept.staged, attempt=1)])
    ds = opened(lake)
    assert ids(ds) == list(range(100))
    assert sorted(data_files(lake)) == sorted(local(ds, ds.latest()))


@pytest.mark.parametrize("partition_by", [(), ("half",)], ids=["flat", "partitioned"])
@pytest.mark.parametrize("way", ["write", "format"])
def test_a_job_that_fails_leaves_history_and_store_as_they_were(
    spark: SparkSession, lake: str, way: str, partition_by: tuple[str, ...]
) -> None:
    ds = opened(lake, layout=lode.HiveLayout(*partition_by) if partition_by else None)
    df = spark.range(0, 20, 1, 2).selectExpr("id", "id < 10 as half")
    before = ds.write(df.coalesce(1))
    failing = df.mapInArrow(tasks.Trouble(folder(lake), files=1 + len(before.files), attempts=99), df.schema)
    write = (lambda: ds.write(failing)) if way == "write" else (lambda: save(failing, lake))
    with pytest.raises(PythonException, match="this attempt fails"):
        write()
    assert ds.latest() == before
    assert sorted(data_files(lake)) == sorted(local(ds, before))


def test_the_same_key_again_runs_no_job(spark: SparkSession, lake: str) -> None:
    ds = opened(lake)
    first = ds.write(frame(spark), idempotency_key=("nightly", "2026-11-15"))
    failing = frame(spark).mapInArrow(tasks.Trouble(folder(lake), files=1, attempts=99), frame(spark).schema)
    again = ds.write(failing, idempotency_key=("nightly", "2026-11-15"))
    assert again == first
    assert again.commit is not None
    assert again.commit.replayed


def test_the_same_key_again_through_format_lode_is_a_no_op(spark: SparkSession, lake: str) -> None:
    for _ in range(2):
        save(frame(spark), lake, idempotencyKey='["nightly", "2026-11-15"]')
    ds = opened(lake)
    assert ds.write(pa.table({"id": [1]}), idempotency_key=("nightly", "2026-11-15")).sequence == 1
    assert len(ds.snapshots()) == 1
    assert sorted(data_files(lake)) == sorted(local(ds, ds.latest()))


def writer(lake: str, df: DataFrame, **options: str) -> BatchWriter:
    return BatchWriter({"path": lake, "dataset": "events", **options}, df.schema, False)


def test_two_attempts_that_both_succeed_count_as_one(spark: SparkSession, lake: str) -> None:
    df = frame(spark)
    job = writer(lake, df)
    attempts = [job.write(iter(df.toArrow().to_batches())) for _ in range(2)]
    job.commit(attempts)
    ds = opened(lake)
    assert ds.latest().row_count == 100
    assert sorted(data_files(lake)) == sorted(local(ds, ds.latest()))


def test_two_jobs_under_one_key_that_race_commit_once(spark: SparkSession, lake: str) -> None:
    df = frame(spark)
    jobs = [writer(lake, df, idempotencyKey="once") for _ in range(2)]
    results = [job.write(iter(df.toArrow().to_batches())) for job in jobs]
    for job, result in zip(jobs, results, strict=True):
        job.commit([result])
    ds = opened(lake)
    assert [s.row_count for s in ds.snapshots()] == [100]
    assert sorted(data_files(lake)) == sorted(local(ds, ds.latest()))


def test_an_append_follows_whatever_was_committed_while_it_ran(spark: SparkSession, lake: str) -> None:
    df = frame(spark)
    rival = tasks.RivalWrites(lake, "events")
    save(df.mapInArrow(rival, df.schema), lake)
    ds = opened(lake)
    assert [s.row_count for s in ds.snapshots()] == [1, 100]
    assert ds.latest().commit is None


def test_ds_write_tells_of_a_conflict_and_can_commit_again_without_a_job(
    spark: SparkSession, lake: str
) -> None:
    df = frame(spark)
    with pytest.raises(lode.SnapshotConflictError) as caught:
        opened(lake).write(df.mapInArrow(tasks.RivalWrites(lake, "events"), df.schema))
    assert caught.value.transaction is not None
    assert caught.value.transaction.commit().row_count == 100
    assert ids(opened(lake)) == [-1, *range(100)]


@pytest.mark.parametrize("bound", ["67108864b", "2147483647", "8m"])
def test_the_session_is_bounded_after_a_write_as_it_was_before(
    spark: SparkSession, lake: str, bound: str
) -> None:
    name = "spark.sql.execution.arrow.maxBytesPerBatch"
    before = spark.conf.get(name)
    assert before is not None
    spark.conf.set(name, bound)
    try:
        for columns in (["id"], ["id", "cast(day as binary) as day"]):
            opened(lake).write(frame(spark).selectExpr(*columns), evolve=True)
            assert spark.conf.get(name) == bound
    finally:
        spark.conf.set(name, before)
    assert ids(opened(lake)) == sorted([*range(100), *range(100)])


def test_an_empty_dataframe_is_a_snapshot_that_knows_its_columns(spark: SparkSession, lake: str) -> None:
    ds = opened(lake)
    snapshot = ds.write(frame(spark).where("id < 0"))
    assert (snapshot.row_count, snapshot.files) == (0, ())
    assert lode.spark.read(spark, lake, "events").columns == ["id", "day", "amount"]


def test_moments_are_stored_in_utc_whatever_the_session_is_in(spark: SparkSession, lake: str) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Pacific/Auckland")
    df = session.sql(
        "select timestamp'2026-11-15 23:30:00Z' as at, array(timestamp'2026-11-15 23:30:00Z') as all"
    )
    ds = opened(lake, layout=lode.HiveLayout("at"), timestamp_column="at")
    snapshot = ds.write(df)
    moment = datetime(2026, 11, 15, 23, 30, tzinfo=UTC)
    assert snapshot.min_timestamp == moment
    assert ds.layout.partition_of("events", snapshot.files[0].path) == "at=2026-11-15"
    table = ds.scan().read_all()
    assert table.schema.field("at").type == pa.timestamp("us", "UTC")
    assert table.to_pylist() == [{"at": moment, "all": [moment]}]


def test_a_schema_the_dataset_declares_is_kept_to(spark: SparkSession, lake: str) -> None:
    ds = opened(lake, codec=lode.Parquet({"id": "int32!", "day": "string", "amount": "float64"}))
    snapshot = ds.write(frame(spark).selectExpr("id", "day", "double(amount) as amount"))
    assert pq.read_schema(local(ds, snapshot)[0]).field("id").type == pa.int32()
    before = data_files(lake)
    with pytest.raises(lode.SchemaViolationError, match=r"column 'extra' \(int32\) is not one of dataset"):
        ds.write(frame(spark).selectExpr("id", "1 as extra"))
    with pytest.raises(lode.SchemaViolationError, match="column 'day' is int64 in the data and string in"):
        ds.write(frame(spark).selectExpr("id", "id as day"))
    with pytest.raises(lode.SchemaViolationError, match=r"column 'id' \(int32\) is required in dataset"):
        ds.write(frame(spark).select("day"))
    assert data_files(lake) == before
    ds.write(frame(spark).selectExpr("id", "1 as extra"), evolve=True)
    assert lode.spark.read(spark, lake, "events").columns == ["id", "day", "amount", "extra"]


def test_format_lode_says_which_column_does_not_fit_and_merge_schema_lets_it_in(
    spark: SparkSession, lake: str
) -> None:
    save(frame(spark).select("id"), lake)
    with pytest.raises(AnalysisException, match=r"column 'day' \(string\) is not one of dataset 'events'"):
        save(frame(spark).select("id", "day"), lake)
    assert len(opened(lake).snapshots()) == 1
    save(frame(spark).select("id", "day"), lake, mergeSchema="true")
    assert opened(lake).scan().read_all()["day"].null_count == 100


MISTAKES = [
    ({"path": None}, "option 'path' is missing"),
    ({"dataset": None}, "option 'dataset' is missing"),
    ({"path": "memory://x"}, "option 'path' is 'memory://x', which lives in one process"),
    ({"targetFilesize": "1m"}, "option 'targetfilesize' is unknown: did you mean 'targetFileBytes'"),
    ({"targetFileBytes": "many"}, "option 'targetFileBytes' is a size such as 128m"),
    ({"codec": "csv"}, "option 'codec' is one of parquet, jsonl, arrow, got 'csv'"),
    ({"metadata": "[1]"}, "option 'metadata' is a JSON object"),
    ({"partitionBy": "nope"}, "partitioned by 'nope', but the DataFrame has only id, day, amount"),
    ({"sortBy": "nope"}, "sorted by 'nope'"),
    ({"timestampColumn": "nope"}, "time range from 'nope'"),
    ({"layout": "tree"}, "option 'layout' is one of default, hive, flat"),
    ({"layout": "hive"}, "say by which columns"),
    ({"compression": "zip"}, "unknown Parquet compression 'zip'"),
    ({"distinctCount": "yes"}, "option 'distinctCount' is true or false"),
    ({"rowGroupRows": "0"}, "option 'rowGroupRows' is a whole number from 1"),
    ({"checksum": "crc"}, "unknown checksum 'crc'"),
]


@pytest.mark.parametrize(("change", "message"), MISTAKES, ids=[message[:30] for _, message in MISTAKES])
def test_a_mistake_is_named_before_any_task_starts(
    spark: SparkSession, lake: str, change: dict[str, str | None], message: str
) -> None:
    options = {"path": lake, "dataset": "events", **change}
    given = {name: value for name, value in options.items() if value is not None}
    with pytest.raises(lode.UsageError) as caught:
        BatchWriter(given, frame(spark).schema, False)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"partitionBy": "amount"}, "has the partition keys 'day' and is opened with 'amount'"),
        ({"layout": "flat"}, "has the layout 'hive' and is opened with 'flat'"),
        ({"codec": "jsonl"}, "has the codec 'parquet' and is opened with 'jsonl'"),
        ({"compressor": "gzip"}, "has the compressor 'noop' and is opened with 'gzip'"),
    ],
)
def test_an_option_may_not_contradict_the_dataset(
    spark: SparkSession, lake: str, change: dict[str, str], message: str
) -> None:
    opened(lake, layout=lode.HiveLayout("day")).write(frame(spark).toArrow())
    with pytest.raises(lode.InvalidOptionError, match=message):
        writer(lake, frame(spark), **change)


def test_spark_says_so_too(spark: SparkSession, lake: str) -> None:
    with pytest.raises(AnalysisException, match="option 'replaceWhere' is of mode"):
        save(frame(spark), lake, replaceWhere="id = 1")


def test_what_cannot_be_staged_by_tasks_is_refused(spark: SparkSession, lake: str) -> None:
    df = frame(spark)
    with pytest.raises(lode.InvalidOptionError, match="holds blobs"):
        lode.Dataset("events", lake).write(df)
    with pytest.raises(lode.InvalidOptionError, match="executors cannot reach"):
        lode.Dataset("events", "memory://", codec="parquet").write(df)
    with pytest.raises(lode.InvalidOptionError, match="has no end"):
        opened(lake).write(spark.readStream.format("rate").load())
    with pytest.raises(lode.InvalidOptionError, match="not a Spark DataFrame"):
        opened(lake).write(df.first())


def test_sweep_finds_what_a_dead_job_left(spark: SparkSession, lake: str) -> None:
    df = frame(spark)
    job = writer(lake, df)
    job.write(iter(df.toArrow().to_batches()))
    assert len(data_files(lake)) == 1
    assert lode.sweep(lode.Dataset("events", lake), timedelta(0), dry_run=False).removed
    assert data_files(lake) == []


def test_a_column_that_differs_from_another_only_in_case_is_refused(spark: SparkSession, lake: str) -> None:
    ds = lode.Dataset("events", lake, codec="parquet")
    with pytest.raises(
        lode.SchemaViolationError, match="'id' and 'Id' of dataset 'events' would differ only"
    ):
        ds.write(spark.sql("SELECT 1L AS id, 2L AS Id"))
    ds.write(spark.sql("SELECT 1L AS id"))
    upper = spark.sql("SELECT 2L AS ID")
    for change in (ds.write, lambda df, **options: ds.overwrite(df, everything=True, **options)):
        with pytest.raises(lode.SchemaViolationError, match="'id' and 'ID' of dataset 'events' would differ"):
            change(upper, evolve=True)
    assert len(ds.snapshots()) == 1
    ds.evolve(add={"ID": "int64"})  # who says so may have both
    ds.write(upper)
    assert rows_of(lode.spark.read(spark, lake, "events")) == [(1, None), (None, 2)]


def rows_of(df: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in df.collect()), key=repr)


POINT = "X'0101000000000000000000F03F0000000000000040'"


@pytest.mark.parametrize("way", ["write", "format"])
@pytest.mark.parametrize("partition", [None, "day"])
def test_variants_and_geometries_come_back_as_they_went(
    spark: SparkSession, lake: str, way: str, partition: str | None
) -> None:
    rows = spark.sql(
        f"""SELECT id, 'd' AS day, parse_json(concat('{{"a": ', id, '}}')) AS v, st_geomfromwkb({POINT}) AS p,
        st_geogfromwkb({POINT}) AS g, array(parse_json('[1]')) AS many, named_struct('v', parse_json('2'))
        AS s FROM range(2)"""
    )
    layout = lode.HiveLayout(partition) if partition else None
    if way == "write":
        lode.Dataset("events", lake, codec="parquet", layout=layout).write(rows)
    else:
        options = {"partitionBy": partition} if partition else {}
        rows.write.format("lode").options(path=lake, dataset="events", **options).mode("append").save()
    back = lode.spark.read(spark, lake, "events")
    assert back.schema.simpleString() == rows.schema.simpleString()
    assert back.selectExpr("id", "v:a::int AS a", "hex(st_asbinary(p)) AS p", "many[0]::string AS m").orderBy(
        "id"
    ).collect() == [(n, n, POINT[2:-1], "[1]") for n in range(2)]
    only = lode.spark.read(spark, lake, "events", columns=["id", "v", "many", "s"], reader="spark")
    assert only.schema["v"].dataType.simpleString() == "variant"
    assert only.selectExpr("sum(v:a::int + s.v::int)").first()[0] == 5  # type: ignore[index]  # a sum has a row


def test_files_of_spark_have_the_ids_of_columns_and_partition_values(spark: SparkSession, lake: str) -> None:
    lode.Dataset.create(
        "events",
        lake,
        schema={"day": "string", "id": "int64", "amount": "decimal(38,1)", "s": "struct<x:int64>"},
        partition_by=["day"],
    )
    ds = opened(lake)
    snapshot = ds.write(frame(spark).selectExpr("*", "named_struct('x', id) as s"))
    for path, file in zip(local(ds, snapshot), snapshot.files, strict=True):
        schema = pq.read_schema(path)
        top = {field.name: (field.metadata or {}).get(b"PARQUET:field_id") for field in schema}
        assert top == {"day": b"1", "id": b"2", "amount": b"3", "s": b"4"}
        inner: Any = schema.field("s").type
        assert inner.field(0).metadata[b"PARQUET:field_id"] == b"5"
        assert file.partition == {"day": ds.layout.partition_of(ds.id, file.path).removeprefix("day=")}
    assert lode.verify(ds).ok
