"""Scans: which snapshots, which columns, which rows, and which files are opened for them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lode
from lode.runtime import Runtime
from lode.store import CountingStore, LocalStore, MemoryStore

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = {"id": "int64", "region": "string"}
CODECS: dict[str, Any] = {
    "jsonl": lode.JSONL(SCHEMA),
    "parquet": lode.Parquet(SCHEMA),
    "arrow": lode.ArrowIPC(SCHEMA),
}
EVERY_CODEC = pytest.mark.parametrize("codec", CODECS)


def three_writes(store: lode.Store, codec: str = "jsonl") -> tuple[lode.Dataset, list[lode.Snapshot]]:
    """Ids 0-9, 10-19 and 20-29, in one snapshot each."""
    dataset = lode.Dataset("events", store, codec=CODECS[codec])
    written = [
        dataset.write([{"id": ten * 10 + one, "region": "ab"[one % 2]} for one in range(10)])
        for ten in range(3)
    ]
    return dataset, written


def ids(reader: pa.RecordBatchReader) -> list[int]:
    return [row["id"] for row in reader.read_all().to_pylist()]


def opened(store: CountingStore) -> list[str]:
    """The data files that were opened, each once."""
    reading = ("open_reader", "get", "get_range")
    return sorted({path for method, path in store.events if method in reading and "/data/" in path})


@EVERY_CODEC
def test_a_scan_is_the_whole_history_in_order(store: CountingStore, codec: str) -> None:
    dataset, _ = three_writes(store, codec)
    reader = dataset.scan()
    assert isinstance(reader, pa.RecordBatchReader)
    assert ids(reader) == list(range(30))


@EVERY_CODEC
def test_a_scan_of_a_directory_is_read_natively_and_the_same(tmp_path: Path, codec: str) -> None:
    dataset, _ = three_writes(LocalStore(tmp_path, durable=False), codec)
    assert ids(dataset.scan(where=pc.field("id") > 25)) == [26, 27, 28, 29]


def test_as_of_is_an_id_a_snapshot_or_a_moment(memory: CountingStore) -> None:
    dataset, (first, second, third) = three_writes(memory)
    assert ids(dataset.scan(as_of=first.id)) == list(range(10))
    assert ids(dataset.scan(as_of=second)) == list(range(20))
    assert ids(dataset.scan(as_of=third.created_at + timedelta(seconds=1))) == list(range(30))


def test_as_of_a_moment_is_the_newest_snapshot_of_then() -> None:
    clock = [1_700_000_000_000_000_000]
    runtime = Runtime(now_ns=lambda: clock[0])
    dataset = lode.Dataset("events", MemoryStore(), codec="jsonl", runtime=runtime)
    written = []
    for number in range(3):
        written.append(dataset.write([{"id": number}]))
        clock[0] += 60 * 10**9
    noon = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert [snapshot.created_at for snapshot in written] == [noon + timedelta(minutes=n) for n in range(3)]
    assert ids(dataset.scan(as_of=noon)) == [0]
    assert ids(dataset.scan(as_of=noon + timedelta(seconds=119))) == [0, 1]
    with pytest.raises(lode.NoSnapshotsError, match="had no snapshots at"):
        dataset.scan(as_of=noon - timedelta(seconds=1))


def test_a_moment_without_a_zone_is_refused(memory: CountingStore) -> None:
    dataset, _ = three_writes(memory)
    with pytest.raises(lode.InvalidOptionError, match="has no time zone"):
        dataset.scan(as_of=datetime(2026, 1, 1))


def test_since_leaves_out_a_snapshot_and_what_was_before(memory: CountingStore) -> None:
    dataset, (first, second, third) = three_writes(memory)
    assert ids(dataset.scan(since=first)) == list(range(10, 30))
    assert ids(dataset.scan(since=first.id, as_of=second)) == list(range(10, 20))
    assert ids(dataset.scan(since=third)) == []


def test_since_a_snapshot_of_no_such_history_is_not_found(memory: CountingStore) -> None:
    dataset, (first, second, _) = three_writes(memory)
    with pytest.raises(lode.NotFoundError, match=f"{second.id}.* is not in the history .*{first.id}"):
        dataset.scan(since=second, as_of=first)
    with pytest.raises(lode.NotFoundError):
        dataset.scan(since="123")


@EVERY_CODEC
def test_columns_are_the_ones_asked_for_in_their_order(memory: CountingStore, codec: str) -> None:
    dataset, _ = three_writes(memory, codec)
    table = dataset.scan(columns=["region", "id"]).read_all()
    assert table.column_names == ["region", "id"]
    assert dataset.scan(columns=["region"]).read_all().to_pylist()[:2] == [{"region": "a"}, {"region": "b"}]


@EVERY_CODEC
@pytest.mark.parametrize("where", [pc.field("nope") > 1, pc.field("id") == "a"], ids=["unknown", "mistyped"])
def test_a_condition_that_does_not_fit_the_columns_is_refused_before_a_file_is_opened(
    memory: CountingStore, codec: str, where: pc.Expression
) -> None:
    dataset, _ = three_writes(memory, codec)
    memory.reset()
    with pytest.raises(lode.InvalidOptionError, match="'events', whose columns are id, region"):
        dataset.scan(where=where)
    assert opened(memory) == []


def test_an_unknown_column_is_refused_with_the_known_ones(memory: CountingStore) -> None:
    dataset, _ = three_writes(memory)
    with pytest.raises(lode.InvalidOptionError, match="no column 'nope': it has id, region"):
        dataset.scan(columns=["nope"])


@EVERY_CODEC
def test_where_keeps_only_rows_for_which_it_is_true(memory: CountingStore, codec: str) -> None:
    dataset, _ = three_writes(memory, codec)
    where = (pc.field("region") == "a") & (pc.field("id") >= 18)
    assert ids(dataset.scan(where=where)) == [18, 20, 22, 24, 26, 28]


@EVERY_CODEC
def test_where_may_ask_about_a_column_that_is_not_returned(memory: CountingStore, codec: str) -> None:
    dataset, _ = three_writes(memory, codec)
    table = dataset.scan(columns=["region"], where=pc.field("id") == 7).read_all()
    assert table.to_pylist() == [{"region": "b"}]


@pytest.mark.parametrize("codec", ["parquet", "arrow"])
def test_files_whose_statistics_rule_them_out_are_not_opened(memory: CountingStore, codec: str) -> None:
    dataset, (_, second, _) = three_writes(memory, codec)
    memory.reset()
    assert ids(dataset.scan(where=pc.field("id") == 15)) == [15]
    assert opened(memory) == [second.files[0].path]


def test_files_of_another_partition_are_not_opened(memory: CountingStore) -> None:
    dataset = lode.Dataset("events", memory, codec=CODECS["jsonl"], layout=lode.HiveLayout("region"))
    snapshot = dataset.write([{"id": n, "region": ["eu/west 1", "us", "asia"][n % 3]} for n in range(9)])
    memory.reset()
    assert ids(dataset.scan(where=pc.field("region") == "eu/west 1")) == [0, 3, 6]
    assert opened(memory) == [file.path for file in snapshot.files if "eu%2Fwest" in file.path]


@pytest.mark.parametrize("codec", ["parquet", "arrow"])
def test_files_are_ruled_out_by_any_of_several_columns_and_kept_in_order(
    memory: CountingStore, codec: str
) -> None:
    dataset, _ = three_writes(memory, codec)
    plan = dataset.plan()
    schema = plan.schema()
    below = (pc.field("id") < 20) & (pc.field("region") >= "a")
    assert plan.pruned(below, schema) == plan.files[:2]
    assert plan.pruned(pc.field("region") > "b", schema) == []
    assert plan.pruned(None, schema) == plan.files


def test_no_file_is_opened_when_none_can_match(memory: CountingStore) -> None:
    dataset, _ = three_writes(memory, "parquet")
    memory.reset()
    assert ids(dataset.scan(where=pc.field("id") > 1000)) == []
    assert opened(memory) == []


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (pc.field("x").is_null(), [2]),
        (pc.field("x") > 5, [3]),
        (~(pc.field("x") > 5), [1, 4]),
        (pc.field("x").is_nan(), [4]),
    ],
)
def test_pruning_never_loses_nulls_and_nans(memory: CountingStore, where: Any, expected: list[int]) -> None:
    dataset = lode.Dataset("events", memory, codec=lode.Parquet({"id": "int64", "x": "float64"}))
    for id, x in ((1, 1.0), (2, None), (3, 9.0), (4, float("nan"))):
        dataset.write([{"id": id, "x": x}])
    assert ids(dataset.scan(where=where)) == expected


@pytest.mark.parametrize("codec", ["jsonl", "parquet", "arrow"])
def test_where_can_be_sql(memory: CountingStore, codec: str) -> None:
    dataset, _ = three_writes(memory, codec)
    assert ids(dataset.scan(where="region = 'a' AND id >= 18")) == [18, 20, 22, 24, 26, 28]
    table = dataset.scan(columns=["region"], where="MOD(id, 10) = 7 AND UPPER(region) LIKE 'B%'").read_all()
    assert table.to_pydict() == {"region": ["b", "b", "b"]}


@pytest.mark.parametrize(
    ("where", "files"),
    [
        ("id > 25", [2]),
        ("NOT id >= 10", [0]),
        ("id IN (3, 12)", [0, 1]),
        ("id NOT BETWEEN 0 AND 19", [2]),
        ("region LIKE 'z%'", []),
        ("FALSE", []),
        ("id = NULL", []),
        ("id < 5 OR LENGTH(region) = 9", [0, 1, 2]),
        ("ABS(id - 100) < 80", [0, 1, 2]),
        ("id > 25 AND LOWER(region) = 'a'", [2]),
    ],
)
def test_sql_leaves_out_files_that_cannot_match_and_no_others(
    memory: CountingStore, where: str, files: list[int]
) -> None:
    plan = three_writes(memory, "parquet")[0].plan()
    assert plan.pruned(where, plan.schema()) == [plan.files[number] for number in files]


@pytest.mark.parametrize(
    "where",
    [
        "NOT x < 1",
        "x != 0.5",
        "x NOT IN (0.5)",
        "x IS DISTINCT FROM 0.5",
        "(x < 1) IS NOT TRUE",
        ~(pc.field("x") < 1),
        pc.field("x") != 0.5,
        ~pc.field("x").isin([0.5]),
        pc.field("x").is_nan(),
        (pc.field("x") < 1) == pa.scalar(False),
    ],
    ids=str,
)
def test_nan_is_never_lost_to_the_statistics_of_row_groups(memory: CountingStore, where: Any) -> None:
    dataset = lode.Dataset("events", memory, codec=lode.Parquet({"id": "int64", "x": "float64"}))
    dataset.write([{"id": 1, "x": 0.5}, {"id": 2, "x": float("nan")}])
    assert 2 in ids(dataset.scan(where=where))


def test_sql_reaches_into_structs_and_names_with_points(memory: CountingStore) -> None:
    dataset = lode.Dataset("events", memory, codec="parquet")
    dataset.write(pa.table({"id": [1, 2], "a.b": [1, 2], "a": [{"b": 2}, None]}))
    assert ids(dataset.scan(where="a.b = 2", columns=["id"])) == [1]
    assert ids(dataset.scan(where='LENGTH(CAST("a.b" AS STRING)) = 1 AND "a.b" = 2', columns=["id"])) == [2]


@pytest.mark.parametrize("where", ["nope > 1", "id = 'a'", "id >", "", "SELECT 1"])
def test_sql_that_does_not_fit_is_refused(memory: CountingStore, where: str) -> None:
    dataset, _ = three_writes(memory, "parquet")
    with pytest.raises(lode.InvalidOptionError, match=r"^where "):
        dataset.scan(where=where)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("date", [date(2026, 1, 1), date(2026, 1, 2)]),
        ("timestamp", [datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 12, tzinfo=UTC)]),
        ("string", ["a/b", "ü"]),
        ("bool", [True, False]),
        ("int32", [-1, 7]),
        ("float64", [0.1, 2.0]),
    ],
)
def test_a_partitions_value_of_any_type_finds_its_rows(
    memory: CountingStore, kind: str, values: list[Any]
) -> None:
    codec = lode.Parquet({"k": kind, "id": "int64"})
    dataset = lode.Dataset("events", memory, codec=codec, layout=lode.HiveLayout("k"))
    dataset.write([{"k": value, "id": number} for number, value in enumerate(values)])
    for number, value in enumerate(values):
        scalar = pa.scalar(value, codec.schema.field("k").type)  # type: ignore[union-attr]
        assert ids(dataset.scan(where=pc.field("k") == scalar)) == [number]


@pytest.mark.parametrize("codec", ["jsonl", "parquet", "arrow"])
def test_a_column_added_later_is_null_in_earlier_snapshots(memory: CountingStore, codec: str) -> None:
    lode.Dataset("events", memory, codec=codec).write(pa.table({"id": [1]}))
    dataset = lode.Dataset("events", memory, codec=codec)
    dataset.write(pa.table({"id": [2], "note": ["new"]}), evolve=True)
    assert dataset.scan().read_all().to_pylist() == [{"id": 1, "note": None}, {"id": 2, "note": "new"}]
    assert ids(dataset.scan(where=pc.field("note") == "new")) == [2]


@pytest.mark.parametrize("make", [lode.JSONL, lode.Parquet, lode.ArrowIPC])
def test_a_wider_schema_reads_what_a_narrower_one_wrote(memory: CountingStore, make: Any) -> None:
    lode.Dataset("events", memory, codec=make({"id": "int64"})).write([{"id": 1}])
    dataset = lode.Dataset("events", memory, codec=make({"id": "int64", "note": "string"}))
    dataset.write([{"id": 2, "note": "new"}], evolve=True)
    rows = [{"id": 1, "note": None}, {"id": 2, "note": "new"}]
    assert dataset.scan().read_all().to_pylist() == rows


def test_records_without_a_schema_that_disagree_about_a_column_say_so(memory: CountingStore) -> None:
    dataset = lode.Dataset("events", memory, codec="jsonl")
    dataset.write([{"v": 1, "w": 1}])
    dataset.write([{"v": "text", "w": 2}])
    with pytest.raises(lode.InvalidFormatError, match="disagree about a column"):
        dataset.scan()


def test_a_plan_names_the_files_and_reads_none(memory: CountingStore) -> None:
    dataset, (first, second, _) = three_writes(memory, "parquet")
    memory.reset()
    plan = dataset.plan(as_of=second)
    assert [file.path for file in plan.files] == [first.files[0].path, second.files[0].path]
    assert plan.row_count == 20
    assert opened(memory) == []


def test_a_scan_feeds_engines_without_copies_in_between(memory: CountingStore) -> None:
    dataset, _ = three_writes(memory, "parquet")
    reader = dataset.scan()
    assert duckdb.connect().from_arrow(reader).aggregate("sum(id)").fetchall() == [(sum(range(30)),)]
    assert pl.DataFrame(dataset.scan()).height == 30


def test_a_large_file_without_permission_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pyarrow opens it by its path. The superuser may read anything, so the error is made here."""
    dataset = lode.Dataset("d", LocalStore(tmp_path / "lake", durable=False), codec="parquet")
    dataset.write(pa.table({"a": [1, 2, 3]}))

    def refuse(*_: Any, **_options: Any) -> Any:
        raise PermissionError(13, "Failed to open local file")

    monkeypatch.setattr("lode.read.scan.is_small", lambda *_: False)
    monkeypatch.setattr("lode.read.arrow_dataset.scanner_of", refuse)
    with pytest.raises(lode.PermissionDeniedError, match="no permission for a file of dataset 'd'"):
        dataset.scan().read_all()
