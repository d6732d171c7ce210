"""Reading with Spark: any point of history, only the files and columns that are needed."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import product
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import datasource
from pyspark.sql.types import StructType

import lode
import lode.spark
from lode.spark.batch import BatchReader
from lode.spark.splits import Split

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from lode.format.manifest import FileRef
    from lode.store.local import LocalStore

READERS = ["spark", "python"]


def opened(lake: str, **arguments: Any) -> lode.Dataset:
    return lode.Dataset("events", lake, **{"codec": "parquet", **arguments})


def load(spark: SparkSession, lake: str, **options: Any) -> DataFrame:
    given = {"path": lake, "dataset": "events", **{name: str(value) for name, value in options.items()}}
    return spark.read.format("lode").options(**given).load()


def rows(df: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in df.collect())


def numbers(df: DataFrame) -> list[int]:
    return sorted(row["n"] for row in df.collect())


@pytest.mark.parametrize("reader", READERS)
def test_a_condition_may_refer_to_columns_that_are_not_chosen(
    spark: SparkSession, lake: str, reader: Any
) -> None:
    opened(lake).write(pa.table({"n": [1, 2, 3], "day": ["a", "b", "c"], "a`b": [7, 8, 9]}))
    df = lode.spark.read(spark, lake, "events", columns=["a`b"], where="n > 1 AND day < 'c'", reader=reader)
    assert df.columns == ["a`b"]
    assert rows(df) == [(8,)]


def lose(dataset: lode.Dataset, files: list[FileRef]) -> None:
    """Remove data files from the disk: whoever opens them fails."""
    for file in files:
        cast("LocalStore", dataset.store).local_path(file.path).unlink()


@pytest.fixture
def history(lake: str) -> tuple[lode.Dataset, list[lode.Snapshot]]:
    ds = opened(lake)
    return ds, [ds.write(pa.table({"n": [n], "day": [f"d{n}"]})) for n in (1, 2, 3)]


@pytest.mark.parametrize("reader", READERS)
def test_every_point_of_history_can_be_read(
    spark: SparkSession,
    lake: str,
    history: tuple[lode.Dataset, list[lode.Snapshot]],
    reader: Any,
) -> None:
    _, (first, second, third) = history

    def read(**when: Any) -> list[int]:
        return numbers(lode.spark.read(spark, lake, "events", reader=reader, **when))

    assert read() == [1, 2, 3]
    assert read(as_of=second) == [1, 2]
    assert read(as_of=second.created_at + timedelta(microseconds=1)) == [1, 2]
    assert read(since=first.id) == [2, 3]
    assert read(since=first, as_of=second.id) == [2]
    assert read(snapshot=third) == [3]


def test_every_point_of_history_can_be_read_by_options(
    spark: SparkSession, lake: str, history: tuple[lode.Dataset, list[lode.Snapshot]]
) -> None:
    _, (first, second, third) = history
    assert numbers(load(spark, lake)) == [1, 2, 3]
    assert numbers(load(spark, lake, asOf=second.id)) == [1, 2]
    assert numbers(load(spark, lake, since=first.id, asOf=second.id)) == [2]
    assert numbers(load(spark, lake, snapshot=third.id)) == [3]
    moment = (second.created_at + timedelta(microseconds=1)).isoformat()
    assert numbers(load(spark, lake, asOf=moment)) == [1, 2]


def test_a_range_with_removals_is_refused_ignored_or_reported(spark: SparkSession, lake: str) -> None:
    dataset = lode.Dataset("d", lake, codec=lode.Parquet({"n": "int64"}))
    since = dataset.write([{"n": 1}, {"n": 2}])
    dataset.delete("n = 1")
    dataset.write([{"n": 3}])
    with pytest.raises(lode.RowsRemovedError):
        lode.spark.read(spark, lake, "d", since=since)
    ignored = lode.spark.read(spark, lake, "d", since=since, on_removal="ignore")
    assert [row.n for row in ignored.collect()] == [3]
    reported = lode.spark.read(spark, lake, "d", since=since, on_removal="report", where="n < 3")
    assert sorted(map(tuple, reported.collect())) == [(1, "delete"), (2, "delete"), (2, "insert")]
    by_options = spark.read.format("lode").options(path=lake, dataset="d", since=since.id, onRemoval="report")
    assert by_options.load().where("_change = 'insert'").count() == 2
    for given, problem in (
        ({"since": since.id, "onRemoval": "skip"}, "onRemoval"),
        ({"onRemoval": "report"}, "since"),
    ):
        with pytest.raises(Exception, match=problem):
            spark.read.format("lode").options(path=lake, dataset="d", **given).load().collect()


@pytest.mark.usefixtures("history")
def test_sql_reads_a_view_of_a_dataset(spark: SparkSession, lake: str) -> None:
    spark.sql(f"CREATE TEMPORARY VIEW seen USING lode OPTIONS (path '{lake}', dataset 'events')")
    try:
        assert rows(spark.sql("SELECT day, n * 2 FROM seen WHERE n > 1")) == [("d2", 4), ("d3", 6)]
    finally:
        spark.sql("DROP VIEW seen")


@pytest.mark.parametrize("way", ["read", "format"])
def test_a_dataframe_stays_at_the_snapshot_it_was_made_at(
    spark: SparkSession, lake: str, history: tuple[lode.Dataset, list[lode.Snapshot]], way: str
) -> None:
    df = lode.spark.read(spark, lake, "events") if way == "read" else load(spark, lake)
    history[0].write(pa.table({"n": [4], "day": ["d4"]}))
    assert numbers(df) == [1, 2, 3]
    assert numbers(load(spark, lake)) == [1, 2, 3, 4]


def partitioned(lake: str, codec: str = "parquet") -> lode.Dataset:
    ds = opened(lake, layout=lode.HiveLayout("day"), codec=codec)
    for start in (0, 100):
        n = list(range(start, start + 100))
        ds.write(pa.table({"n": n, "day": [f"d{i % 4}" for i in n]}))
    return ds


# Each with the files that pruning by it must leave, as (second snapshot?, day).
FILES = list(product((False, True), ("d0", "d1", "d2", "d3")))
FILTERS = [
    ("day = 'd1'", [(late, day) for late, day in FILES if day == "d1"]),
    ("day in ('d1', 'd2')", [(late, day) for late, day in FILES if day in ("d1", "d2")]),
    ("day like 'd3%'", [(late, day) for late, day in FILES if day == "d3"]),
    ("n >= 100", [(late, day) for late, day in FILES if late]),
    ("n < 100 and day = 'd0'", [(False, "d0")]),
    ("n > 1000", []),
    ("day is null", []),
    ("not day = 'd1'", [(late, day) for late, day in FILES if day != "d1"]),
    ("n % 2 = 0 and day <= 'd0'", [(late, day) for late, day in FILES if day == "d0"]),
]
# Spark tells Python sources nothing of these.
ALTERNATIVES = [
    ("n = 7 or n = 8", [(False, day) for day in ("d0", "d1", "d2", "d3")]),
    ("day = 'd1' or (n > 150 and day = 'd2')", [(False, "d1"), (True, "d1"), (True, "d2")]),
    ("not (n < 150 and day = 'd1')", FILES[4:] + [(False, day) for day in ("d0", "d2", "d3")]),
    ("n = 7 or n % 2 = 1", FILES),
]


@pytest.mark.parametrize(
    ("way", "where", "needed"),
    [("read", *each) for each in (*FILTERS, *ALTERNATIVES)] + [("format", *each) for each in FILTERS],
)
def test_files_that_cannot_match_are_not_opened(
    spark: SparkSession, lake: str, way: str, where: str, needed: list[tuple[bool, str]]
) -> None:
    ds = partitioned(lake)
    expected = rows(spark.createDataFrame(ds.scan().read_all()).where(where).select("n", "day"))
    schema = "n long, day string"
    if way == "read":
        df = lode.spark.read(spark, lake, "events", where=where, schema=schema)
        if needed:
            assert len(df.inputFiles()) == len(needed)
    else:
        df = spark.read.format("lode").options(path=lake, dataset="events").schema(schema).load().where(where)
    first = ds.snapshots()[0].id
    lose(ds, [file for file in ds.plan().files if (first not in file.path, day_of(ds, file)) not in needed])
    assert rows(df.select("n", "day")) == expected


def day_of(ds: lode.Dataset, file: FileRef) -> str:
    return ds.layout.partition_of("events", file.path).removeprefix("day=")


def test_the_plan_has_only_the_files_that_may_match(spark: SparkSession, lake: str) -> None:
    partitioned(lake)
    schema = spark.createDataFrame([], "n long, day string").schema
    reader = BatchReader({"path": lake, "dataset": "events"}, schema)
    filters: list[datasource.Filter] = [datasource.EqualTo(("day",), "d1"), datasource.LessThan(("n",), 100)]
    assert list(reader.pushFilters(filters)) == filters  # Spark applies them again
    (share,) = reader.partitions()
    assert isinstance(share, Split)
    assert len(share.pieces) == 1
    assert [batch.num_rows for batch in reader.read(share)] == [25]


def test_without_sparks_switch_for_filters_all_is_read_and_right(spark: SparkSession, lake: str) -> None:
    partitioned(lake)
    session = spark.newSession()
    session.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    assert load(session, lake).where("day = 'd1'").count() == 50


@pytest.mark.parametrize("codec", ["jsonl", "arrow"])
def test_other_codecs_are_read_and_pruned_through_python(spark: SparkSession, lake: str, codec: str) -> None:
    ds = partitioned(lake, codec)
    df = lode.spark.read(spark, lake, "events", where="day = 'd2'", columns=["day", "n"])
    assert df.columns == ["day", "n"]
    lose(ds, [file for file in ds.plan().files if "day=d2" not in file.path])
    assert df.count() == 50
    with pytest.raises(lode.InvalidOptionError, match=f"its codec is {codec}; use 'python'"):
        lode.spark.read(spark, lake, "events", reader="spark", schema="n long")


def test_only_the_columns_asked_for_are_read(spark: SparkSession, lake: str) -> None:
    opened(lake).write(pa.table({"n": [1], "wide": ["x" * 100]}))
    by_schema = spark.read.format("lode").options(path=lake, dataset="events").schema("n long").load()
    assert rows(by_schema) == [(1,)]
    assert rows(load(spark, lake, columns="wide,n").select("n")) == [(1,)]
    assert rows(lode.spark.read(spark, lake, "events", columns=["n"])) == [(1,)]
    with pytest.raises(lode.InvalidOptionError, match="no column 'm': it has n, wide"):
        lode.spark.read(spark, lake, "events", columns=["m"])


def test_a_large_file_is_split_at_its_row_groups_and_every_row_read_once(
    spark: SparkSession, lake: str
) -> None:
    ds = opened(lake, codec=lode.Parquet(row_group_rows=500, compression="none"))
    ds.write(pa.table({"n": list(range(10_000))}))
    df = load(spark, lake, splitBytes="8k", batchRows=100)
    assert df.rdd.getNumPartitions() >= 5
    assert numbers(df) == list(range(10_000))


def test_a_name_with_a_dot_is_not_taken_for_a_member_of_another_column(
    spark: SparkSession, lake: str
) -> None:
    opened(lake).write(pa.table({"s": [{"x": 1, "y": 2}], "s.x": [3]}))
    assert rows(load(spark, lake, columns="s.x")) == [(3,)]
    assert load(spark, lake, columns="s").collect()[0]["s"].asDict() == {"x": 1, "y": 2}


def test_small_files_share_a_task(spark: SparkSession, lake: str) -> None:
    ds = opened(lake)
    for n in range(10):
        ds.write(pa.table({"n": [n]}))
    assert load(spark, lake).rdd.getNumPartitions() == 1


@pytest.mark.parametrize("reader", READERS)
def test_columns_that_came_or_widened_later_are_read_from_all_files(
    spark: SparkSession, lake: str, reader: Any
) -> None:
    ds = opened(lake)
    ds.write(pa.table({"n": pa.array([1], pa.int32())}))
    ds.write(pa.table({"n": pa.array([2**40], pa.int64()), "note": ["new"]}), evolve=True)
    df = lode.spark.read(spark, lake, "events", reader=reader)
    assert df.columns == ["n", "note"]
    assert sorted(df.collect(), key=lambda row: row["n"]) == [(1, None), (2**40, "new")]


def test_widened_columns_are_read_by_sparks_own_reader_where_it_can(spark: SparkSession, lake: str) -> None:
    narrow: dict[str, Any] = {
        "i64": pa.array([1], pa.int32()),
        "f64": pa.array([1.5], pa.float32()),
        "if64": pa.array([2], pa.int32()),
        "dec": pa.array([Decimal("1.25")], pa.decimal128(9, 2)),
        "idec": pa.array([3], pa.int32()),
        "at": pa.array([datetime(2026, 11, 15, tzinfo=UTC)], pa.timestamp("ms", "UTC")),
        "st": pa.array([{"x": 1}], pa.struct([("x", pa.int32())])),
    }
    ds = opened(lake)
    ds.write(pa.table(narrow))
    ds.evolve(
        widen={
            "i64": "int64",
            "f64": "float64",
            "if64": "float64",
            "dec": pa.decimal128(20, 4),
            "idec": pa.decimal128(12, 2),
            "at": pa.timestamp("us", "UTC"),
            "st": pa.struct([("x", pa.int64()), ("y", pa.string())]),
        }
    )
    found = [lode.spark.read(spark, lake, "events", reader=cast("Any", each)) for each in READERS]
    assert found[0].inputFiles()
    assert found[0].schema == found[1].schema
    assert found[0].collect() == found[1].collect()
    (row,) = found[0].selectExpr("i64", "f64", "if64", "dec", "idec", "st.x", "st.y").collect()
    assert tuple(row) == (1, 1.5, 2.0, Decimal("1.2500"), Decimal("3.00"), 1, None)


def test_columns_that_changed_their_name_are_read_through_python_and_the_reason_is_said(
    spark: SparkSession, lake: str
) -> None:
    ds = opened(lake)
    ds.write(pa.table({"n": [1], "a": [7], "u": pa.array([2**32 - 1], pa.uint32())}))
    ds.evolve(rename={"a": "b"}, widen={"u": "float64"})
    ds.evolve(add={"a": "string"})
    ds.write(pa.table({"n": [2], "b": [8], "a": ["x"]}))

    def read(**arguments: Any) -> list[Any]:
        return [tuple(row) for row in lode.spark.read(spark, lake, "events", **arguments).collect()]

    assert sorted(read()) == [(1, 7, 2.0**32 - 1, None), (2, 8, None, "x")]
    assert read(where="b = 7", columns=["n", "b"]) == [(1, 7)]
    assert read(where="a is null", columns=["n", "a"]) == [(1, None)]
    assert sorted(read(columns=["n"], reader="spark")) == [(1,), (2,)]
    with pytest.raises(lode.InvalidOptionError, match="column 'b' was 'a' when some files were written"):
        read(columns=["b"], reader="spark")
    with pytest.raises(lode.InvalidOptionError, match="column 'u' is double and was uint32 before"):
        read(columns=["u"], reader="spark")


AWKWARD = ["", None, "a/b c%", "d=1", "ü {x}[*]?", "__HIVE_DEFAULT_PARTITION__"]


@pytest.mark.parametrize("reader", READERS)
def test_partition_values_come_from_the_files_not_from_their_paths(
    spark: SparkSession, lake: str, reader: Any
) -> None:
    ds = opened(lake, layout=lode.HiveLayout("day"))
    ds.write(pa.table({"n": list(range(len(AWKWARD))), "day": AWKWARD}))
    found = {row["n"]: row["day"] for row in lode.spark.read(spark, lake, "events", reader=reader).collect()}
    assert found == dict(enumerate(AWKWARD))
    empty = lode.spark.read(spark, lake, "events", where="day = ''", reader=reader)
    assert numbers(empty) == [0]


TYPES = """
    boolean(true) as b, tinyint(1) as i8, smallint(2) as i16, int(3) as i32, bigint(4) as i64,
    float(0.5) as f32, double(0.25) as f64, decimal(12.34) as dec, 'text' as s, binary('bytes') as bin,
    date'1500-03-01' as d, timestamp'2026-11-15 12:00:00.123456Z' as ts,
    timestamp_ntz'2026-11-15 12:00:00' as ntz,
    array(1, null) as a, map('k', 1) as m, named_struct('x', 1, 'y', array(named_struct('z', 'deep'))) as st,
    cast(null as string) as nothing
"""


@pytest.mark.parametrize("reader", READERS)
def test_values_of_every_type_come_back_as_they_went(spark: SparkSession, lake: str, reader: Any) -> None:
    df = spark.sql(f"select {TYPES}")
    opened(lake).write(df)
    back = lode.spark.read(spark, lake, "events", reader=reader)
    assert [(f.name, f.dataType.simpleString()) for f in back.schema] == [
        (f.name, f.dataType.simpleString()) for f in df.schema
    ]
    assert back.collect() == df.collect()


@pytest.mark.parametrize("where", ["x > 1", "x = double('NaN')", "x <> 1", "not (x <= 1)"])
@pytest.mark.parametrize("reader", READERS)
def test_nan_is_found_by_the_filters_that_spark_finds_it_by(
    spark: SparkSession, lake: str, reader: Any, where: str
) -> None:
    table = pa.table({"n": [1, 2, 3], "x": [1.0, float("nan"), None]})
    opened(lake).write(table)
    assert numbers(lode.spark.read(spark, lake, "events", where=where, reader=reader)) == [2]


@pytest.mark.parametrize(
    "where",
    [
        "at >= timestamp'2026-11-15 00:00:00Z'",
        "d = date'2026-11-15'",
        "price = 2.50",
        "ok",
        "n <=> 2 and name is not null",
        "bin = X'02'",
    ],
)
@pytest.mark.parametrize("reader", READERS)
def test_filters_of_every_type_prune(spark: SparkSession, lake: str, reader: Any, where: str) -> None:
    ds = opened(lake)

    def table(n: int) -> pa.Table:
        return pa.table(
            {
                "n": [n],
                "at": [datetime(2026, 11, 13 + n, tzinfo=UTC)],
                "d": [date(2026, 11, 13 + n)],
                "price": pa.array([Decimal(n) + Decimal("0.50")], pa.decimal128(9, 2)),
                "ok": [n == 2],
                "name": pa.array([None if n == 1 else "x"], pa.string()),
                "bin": [bytes([n])],
            }
        )

    gone = ds.write(table(1))
    ds.write(table(2))
    df = lode.spark.read(spark, lake, "events", where=where, reader=reader)
    if where != "bin = X'02'":  # bytes have no statistics
        lose(ds, list(gone.files))
    assert numbers(df) == [2]


def test_what_spark_cannot_read_itself_goes_through_python(spark: SparkSession, lake: str) -> None:
    moment = datetime(2026, 11, 15, 12, tzinfo=UTC)
    table = pa.table({"n": pa.array([7], pa.uint64()), "at": pa.array([moment], pa.timestamp("ns", "UTC"))})
    opened(lake).write(table)
    df = lode.spark.read(spark, lake, "events")
    assert [(row["n"], row["at"].astimezone(UTC)) for row in df.collect()] == [(7, moment)]
    with pytest.raises(lode.InvalidOptionError, match="column 'at' is timestamp"):
        lode.spark.read(spark, lake, "events", reader="spark")


def test_files_wrapped_in_a_compressor_are_read_through_python(spark: SparkSession, lake: str) -> None:
    opened(lake, compressor="gzip").write(pa.table({"n": [1, 2]}))
    assert numbers(lode.spark.read(spark, lake, "events")) == [1, 2]


def test_paths_are_names_not_patterns(spark: SparkSession, tmp_path: Path) -> None:
    lake = str(tmp_path / "a [b] {c} %41 ü")
    opened(lake).write(pa.table({"n": [1]}))
    assert numbers(lode.spark.read(spark, lake, "events", reader="spark")) == [1]
    assert numbers(load(spark, lake)) == [1]


def test_a_dataset_on_s3_is_read_and_written(spark: SparkSession, s3_server: Any) -> None:
    options = {"path": s3_server.create("spark"), "dataset": "events"}
    for name, value in s3_server.options.items():
        inner = value.items() if isinstance(value, dict) else [("", value)]
        options |= {f"store.{name}{'.' if key else ''}{key}": str(each) for key, each in inner}
    spark.range(10).selectExpr("id as n").write.format("lode").options(**options).mode("append").save()
    rest = {key: value for key, value in options.items() if key.startswith("store.")}
    df = lode.spark.read(spark, options["path"], "events", options=rest)
    assert numbers(df) == list(range(10))


def test_options_name_snapshots_as_the_library_does_and_keep_to_them(spark: SparkSession, lake: str) -> None:
    dataset = opened(lake)
    first, second = (dataset.write(pa.table({"n": [n]})) for n in (1, 2))
    frames = [load(spark, lake, asOf=name) for name in ("1", "latest~1", first.id[:-1])]
    frames.append(lode.spark.read(spark, lake, "events", as_of=1))
    frames.append(lode.spark.read(spark, lake, "events", as_of="latest~1", reader="python"))
    after = [load(spark, lake, since=name) for name in ("1", "latest~1", first.created_at)]
    alone = load(spark, lake, snapshot="latest")
    everything = load(spark, lake, since="2001-01-01")
    dataset.write(pa.table({"n": [3]}))  # latest is another one now, and the frames are not
    assert [numbers(frame) for frame in frames] == [[1]] * 5
    assert [numbers(frame) for frame in (*after, alone)] == [[2]] * 4
    assert numbers(everything) == [1, 2]
    assert second.sequence == 2


def test_what_is_not_there_is_said_at_the_driver(spark: SparkSession, lake: str) -> None:
    with pytest.raises(lode.NoSnapshotsError, match=r"dataset 'events' in .* has no snapshots yet"):
        lode.spark.read(spark, lake, "events")
    with pytest.raises(AnalysisException, match=r"dataset 'events' in .* has no snapshots yet"):
        load(spark, lake)
    opened(lake).write(pa.table({"n": [1]}))
    with pytest.raises(AnalysisException, match="no snapshot 'nope'"):
        load(spark, lake, asOf="nope")
    with pytest.raises(AnalysisException, match="had no snapshots at 2001-11-15T12:00:00Z"):
        load(spark, lake, asOf="2001-11-15T12:00:00")
    with pytest.raises(AnalysisException, match="option 'snapshot' means that one alone"):
        load(spark, lake, snapshot="x", since="y")
    lode.Dataset("blobs", lake).write(b"x")
    with pytest.raises(lode.InvalidOptionError, match="holds blobs"):
        lode.spark.read(spark, lake, "blobs")


def test_the_flat_layout_is_recognised(spark: SparkSession, lake: str) -> None:
    opened(lake, layout=lode.FlatLayout()).write(pa.table({"n": [5]}))
    assert numbers(load(spark, lake)) == [5]


def test_a_schema_is_the_users_to_give(spark: SparkSession, lake: str) -> None:
    opened(lake, codec="jsonl").write([{"n": 1, "extra": "x"}, {"n": 2}])
    schema = StructType().add("n", "integer")
    assert rows(spark.read.format("lode").options(path=lake, dataset="events").schema(schema).load()) == [
        (1,),
        (2,),
    ]


def test_a_decimal_beyond_sparks_digits_is_refused_with_the_way_out(spark: SparkSession, lake: str) -> None:
    kind = pa.decimal256(76, 38)
    opened(lake).write(pa.table({"n": [1, 2], "big": pa.array([Decimal("1.5"), None], kind)}))
    with pytest.raises(AnalysisException, match=r"'big' is decimal256\(76, 38\).*at most 38 digits"):
        load(spark, lake)
    given = {"path": lake, "dataset": "events"}
    chosen = spark.read.format("lode").options(**given).schema("n long, big decimal(38, 9)").load()
    assert rows(chosen.where("big is not null")) == [(1, Decimal("1.500000000"))]
    assert rows(spark.read.format("lode").options(**given).schema("n long").load()) == [(1,), (2,)]


def test_many_files_are_listed_in_few_tasks(spark: SparkSession, lake: str) -> None:
    opened(lake, layout=lode.HiveLayout("n")).write(pa.table({"n": list(range(60)), "v": list(range(60))}))
    context = spark.sparkContext
    setting = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
    before = spark.conf.get(setting)
    context.setJobGroup(lake, "many files")
    try:
        df = lode.spark.read(spark, lake, "events", reader="spark")
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]  # None clears it
    assert spark.conf.get(setting) == before
    tracker: Any = context.statusTracker()
    stages = [
        tracker.getStageInfo(stage).numTasks
        for job in tracker.getJobIdsForGroup(lake)
        for stage in tracker.getJobInfo(job).stageIds
    ]
    assert stages == [8]  # not 60
    assert df.count() == 60


def test_many_small_files_are_read_in_python_with_the_rows_that_spark_reads(
    spark: SparkSession, lake: str
) -> None:
    ds = opened(lake, layout=lode.HiveLayout("n"))
    moments = [datetime(2026, 11, 18, 1, 2, second % 60, tzinfo=UTC) for second in range(70)]
    several = pa.table(
        {
            "n": list(range(70)),
            "at": pa.array(moments, pa.timestamp("us", "UTC")),
            "tags": [[str(n), None] if n % 3 else None for n in range(70)],
            "pair": [{"x": n, "y": "é"} for n in range(70)],
            "price": pa.array([Decimal(n) / 4 for n in range(70)], pa.decimal128(9, 2)),
            "ratio": [float("nan") if n == 7 else n / 3 for n in range(70)],
        }
    )
    ds.write(several)
    ds.evolve(add={"note": "string"})
    ds.write(several.slice(0, 3).append_column("note", pa.array(["a", None, "c"])))
    found = lode.spark.read(spark, lake, "events")
    native = lode.spark.read(spark, lake, "events", reader="spark")
    plan = cast("Any", found)._jdf.queryExecution().executedPlan().toString()
    assert "MapInArrow" in plan
    assert "FileScan" not in plan
    assert found.schema == native.schema
    assert sorted(map(str, found.collect())) == sorted(map(str, native.collect()))
    some = lode.spark.read(spark, lake, "events", columns=["price", "n"], where="n < 65")
    assert sorted(some.collect()) == sorted(native.where("n < 65").select("price", "n").collect())


def test_a_damaged_file_among_many_small_ones_is_named(spark: SparkSession, lake: str) -> None:
    ds = opened(lake, layout=lode.HiveLayout("n"))
    broken = ds.write(pa.table({"n": list(range(70))})).files[40]
    cast("LocalStore", ds.store).local_path(broken.path).write_bytes(b"\0" * broken.size_bytes)
    with pytest.raises(PySparkException, match=re.escape(broken.path)):
        lode.spark.read(spark, lake, "events").count()


@pytest.mark.parametrize("codec", ["parquet", "jsonl"])
def test_a_small_dataset_is_broadcast_in_a_join(spark: SparkSession, lake: str, codec: str) -> None:
    opened(lake, codec=codec).write(pa.table({"n": [1], "name": ["one"]}))
    small = lode.spark.read(spark, lake, "events")
    joined: Any = spark.range(10_000_000).withColumnRenamed("id", "n").join(small, "n")
    plan = joined._jdf.queryExecution().executedPlan().toString()
    assert "Broadcast" in plan
    assert "SortMergeJoin" not in plan


def test_columns_that_spark_takes_for_one_are_read_through_python(spark: SparkSession, lake: str) -> None:
    ds = opened(lake)
    ds.write(pa.table({"n": [1], "N": [2]}))
    with pytest.raises(lode.InvalidOptionError, match="differs from 'n' only in case"):
        lode.spark.read(spark, lake, "events", reader="spark")
    assert rows(lode.spark.read(spark, lake, "events")) == [(1, 2)]
    assert rows(lode.spark.read(spark, lake, "events", columns=["N"])) == [(2,)]
    ds.evolve(drop=["N"])
    ds.write(pa.table({"n": [3]}))
    assert rows(lode.spark.read(spark, lake, "events")) == [(1,), (3,)]


def test_a_column_is_not_read_from_a_dropped_one_of_another_case(spark: SparkSession, lake: str) -> None:
    ds = opened(lake)
    ds.write(pa.table({"k": [1], "Value": [7]}))
    ds.evolve(drop=["Value"])
    ds.evolve(add={"value": "int64"})
    assert rows(lode.spark.read(spark, lake, "events")) == [(1, None)]
