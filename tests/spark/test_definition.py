"""Spark and what a dataset is: the same checks and the same columns as everywhere. Needs no session."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from pyspark.sql import datasource
from pyspark.sql.types import (
    ArrayType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

import lode
from lode.codec.schema import to_schema
from lode.spark.batch import BatchReader, BatchWriter
from lode.spark.read import _changed
from lode.spark.schema import arrow_schema, scan_schema, spark_schema
from lode.spark.source import LodeDataSource
from lode.spark.splits import Split
from lode.spark.staging import stage_batches
from lode.spark.stream import StagedPart, StreamSink, StreamSource
from lode.store.wrappers import CountingStore

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

CODECS = ["parquet", "arrow", "jsonl"]


def dataset_in(lake: str, schema: Any = None, codec: str = "parquet") -> lode.Dataset:
    lode.Dataset.create("d", lake, schema=schema or {"n": "int64", "name": "string"}, codec=codec)
    return lode.open_dataset("d", lake)


def options(lake: str, **more: str) -> dict[str, str]:
    return {"path": lake, "dataset": "d", **more}


def struct(**columns: DataType) -> StructType:
    made = StructType()
    for name, kind in columns.items():
        made = made.add(name, kind)
    return made


def data_files(lake: str) -> list[Path]:
    return [path for path in Path(urlsplit(lake).path).rglob("data-*") if path.is_file()]


def job(lake: str, schema: StructType, **more: str) -> BatchWriter:
    return BatchWriter(options(lake, **more), schema, False)


def save(lake: str, schema: StructType, rows: list[dict[str, Any]], **more: str) -> None:
    """What Spark does, in the order and with the copies in which it does it."""
    planned: BatchWriter = pickle.loads(pickle.dumps(job(lake, schema, **more)))
    batches = pa.Table.from_pylist(rows, arrow_schema(schema)).to_batches()
    result = planned.write(iter(batches))
    pickle.loads(pickle.dumps(planned)).commit([result])


def load(lake: str, *filters: datasource.Filter, schema: StructType | None = None, **more: str) -> list[Any]:
    source = LodeDataSource(options(lake, **more))
    wanted = schema or source.schema()
    reader = source.reader(wanted)
    reader.pushFilters(list(filters))
    found: list[Any] = []
    for share in reader.partitions():
        assert isinstance(share, Split)
        for batch in pickle.loads(pickle.dumps(reader)).read(pickle.loads(pickle.dumps(share))):
            found += batch.to_pylist()
    return found


# -- writing ---------------------------------------------------------------------------------------

REFUSED = [
    (struct(n=LongType(), extra=DoubleType()), r"column 'extra' \(double\) is not one of dataset 'd'"),
    (struct(n=StringType()), "column 'n' is string in the data and int64 in dataset 'd'"),
    (struct(n=LongType(), name=LongType()), "column 'name' is int64 in the data and string in dataset 'd'"),
    (struct(n=LongType(), tags=ArrayType(StringType())), "column 'tags' is list<.*string> in the data and"),
    (struct(name=StringType()), r"column 'n' \(int64\) is required in dataset 'd' and missing"),
]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(("schema", "message"), REFUSED)
@pytest.mark.parametrize("sink", [BatchWriter, StreamSink])
def test_columns_that_do_not_fit_are_refused_before_a_task_runs(
    lake: str, sink: Any, schema: StructType, message: str, codec: str
) -> None:
    dataset_in(lake, {"n": "int64!", "name": "string", "tags": pa.list_(pa.int64())}, codec)
    with pytest.raises(lode.SchemaViolationError, match=message):
        sink(options(lake), schema, False)
    assert data_files(lake) == []


def test_data_that_converts_without_loss_is_accepted_as_the_library_accepts_it(lake: str) -> None:
    dataset = dataset_in(
        lake,
        {
            "i": "int32",
            "l": "int64",
            "f": "float32",
            "at": pa.timestamp("ms", "UTC"),
            "price": pa.decimal128(12, 4),
            "s": pa.struct([("x", pa.int32()), ("y", pa.string())]),
        },
    )
    schema = struct(
        i=LongType(),
        l=IntegerType(),
        f=DoubleType(),
        at=TimestampType(),
        price=DecimalType(9, 2),
        s=struct(x=LongType()),
    )
    moment = datetime(2026, 11, 15, 12, tzinfo=UTC)
    row = {"i": 1, "l": 2, "f": 0.5, "at": moment, "price": Decimal("1.25"), "s": {"x": 3}}
    save(lake, schema, [row])
    assert dataset.scan().read_all().to_pylist() == [
        {**row, "price": Decimal("1.2500"), "s": {"x": 3, "y": None}}
    ]
    with pytest.raises(lode.SchemaViolationError, match=r"row 0.*'i'|column 'i'"):
        save(lake, schema, [{**row, "i": 2**40}])
    assert len(dataset.snapshots()) == 2


def test_every_file_has_all_columns_of_the_dataset(lake: str) -> None:
    dataset_in(lake)
    save(lake, struct(n=LongType()), [{"n": 1}])
    (file,) = data_files(lake)
    assert pa.parquet.read_schema(file).names == ["n", "name"]


def test_a_new_dataset_takes_all_columns_of_a_dataframe_as_optional(lake: str) -> None:
    schema = StructType().add("n", LongType(), nullable=False)
    save(lake, schema, [{"n": 1}])
    assert lode.open_dataset("d", lake).schema == pa.schema([("n", pa.int64())])


def test_an_empty_write_says_its_columns_without_a_file(lake: str) -> None:
    writer = job(lake, struct(n=LongType()))
    writer.commit([writer.write(iter(()))])
    assert data_files(lake) == []
    assert lode.open_dataset("d", lake).schema == pa.schema([("n", pa.int64())])


def test_merge_schema_lets_columns_come_and_widen(lake: str) -> None:
    dataset = dataset_in(lake, {"n": "int32"})
    save(lake, struct(n=IntegerType()), [{"n": 1}])
    wider = struct(n=LongType(), note=StringType())
    with pytest.raises(lode.SchemaViolationError, match="'note'"):
        job(lake, wider)
    save(lake, wider, [{"n": 2**40, "note": "new"}], mergeSchema="true")
    assert dataset.schema == to_schema({"n": "int64", "note": "string"})
    expected = [{"n": 1, "note": None}, {"n": 2**40, "note": "new"}]
    assert dataset.scan().read_all().to_pylist() == expected
    assert load(lake) == expected
    with pytest.raises(lode.SchemaViolationError, match="'n' is int64, which cannot be widened to string"):
        job(lake, struct(n=StringType()), mergeSchema="true")


def test_a_commit_in_another_process_is_checked_against_what_the_dataset_has_become(lake: str) -> None:
    dataset = dataset_in(lake)
    row: dict[str, Any] = {"n": [1], "name": ["x"]}
    batches = [pa.record_batch(row)]
    writer = job(lake, struct(n=LongType(), name=StringType()))
    results = [writer.write(iter(batches))]
    # Names that changed places look as they did.
    dataset.evolve(rename={"n": "m"})
    dataset.evolve(add={"n": "int64"})
    before = dataset.latest()
    with pytest.raises(lode.SchemaViolationError, match="column 'n' of dataset 'd' became 'm' while this"):
        pickle.loads(pickle.dumps(writer)).commit(results)
    writer.abort(results)
    assert dataset.latest() == before
    assert data_files(lake) == []


def test_a_micro_batch_is_checked_against_what_the_dataset_has_become(lake: str) -> None:
    dataset = dataset_in(lake)
    schema = struct(name=StringType())
    sink = StreamSink(options(lake), schema, False)
    staged = stage_batches(sink._job.stager, [pa.record_batch({"name": ["x"]})], task="0")
    message = pickle.loads(pickle.dumps(StagedPart(sink._job, "query", staged, 0)))
    dataset.evolve(drop=["name"])
    dataset.evolve(add={"name": "int64"})
    with pytest.raises(lode.SchemaViolationError, match=r"became 'name \(dropped and added again\)'"):
        StreamSink(options(lake), struct(name=LongType()), False).commit([message], 0)
    sink.abort([message], 0)
    assert data_files(lake) == []


def test_a_job_follows_an_evolution_that_came_first(lake: str) -> None:
    dataset = dataset_in(lake)
    writer = job(lake, struct(n=LongType(), more=DoubleType()), mergeSchema="true")
    row: dict[str, Any] = {"n": [1], "more": [0.5]}
    results = [writer.write(iter([pa.record_batch(row)]))]
    dataset.evolve(add={"other": "string"})
    writer.commit(results)
    assert dataset.scan().read_all().to_pylist() == [{"n": 1, "name": None, "other": None, "more": 0.5}]


# -- reading ---------------------------------------------------------------------------------------


@pytest.fixture(params=CODECS)
def evolved(request: pytest.FixtureRequest, lake: str) -> lode.Dataset:
    """Renamed, dropped, added again and widened, with a row from before and after."""
    schema = {"id": "int64", "old": "int32", "gone": "string", "again": "string"}
    dataset = dataset_in(lake, schema, request.param)
    dataset.write([{"id": 1, "old": 7, "gone": "g", "again": "1st"}])
    dataset.evolve(rename={"old": "new"}, drop=["gone", "again"])
    dataset.evolve(add={"old": "string"}, widen={"new": "int64"})
    dataset.evolve(add={"again": "int64"})
    dataset.write([{"id": 2, "new": 2**40, "old": "text", "again": 2}])
    return dataset


ROWS = [
    {"id": 1, "new": 7, "old": None, "again": None},
    {"id": 2, "new": 2**40, "old": "text", "again": 2},
]


def test_columns_are_read_by_what_they_are_not_by_their_name(lake: str, evolved: lode.Dataset) -> None:
    assert evolved.scan().read_all().to_pylist() == ROWS
    assert load(lake) == ROWS


FILTERS: list[tuple[datasource.Filter, list[int]]] = [
    (datasource.EqualTo(("new",), 7), [1]),
    (datasource.GreaterThan(("new",), 100), [2]),
    (datasource.EqualTo(("old",), "text"), [2]),
    (datasource.IsNull(("old",)), [1]),
    (datasource.IsNull(("again",)), [1]),
    (datasource.EqualTo(("again",), 2), [2]),
    (datasource.EqualTo(("id",), 1), [1]),
]


@pytest.mark.parametrize(("wanted", "ids"), FILTERS)
@pytest.mark.usefixtures("evolved")
def test_filters_mean_the_columns_by_their_present_names(
    lake: str, wanted: datasource.Filter, ids: list[int]
) -> None:
    # Spark filters again, so a row too many is no fault; one too few is.
    assert set(ids) <= {row["id"] for row in load(lake, wanted)}


def test_files_are_pruned_by_statistics_under_their_columns_present_names(
    lake: str, evolved: lode.Dataset
) -> None:
    source = LodeDataSource(options(lake))
    reader = source.reader(source.schema())
    reader.pushFilters([datasource.EqualTo(("new",), 7)])
    pieces = [piece for share in reader.partitions() if isinstance(share, Split) for piece in share.pieces]
    kept = [piece.file.path for piece in pieces]
    first, second = (snapshot.files[0].path for snapshot in evolved.snapshots() if snapshot.files)
    assert first in kept
    if evolved.definition.codec != "jsonl":
        assert second not in kept


def test_a_point_of_history_has_the_columns_of_then(lake: str, evolved: lode.Dataset) -> None:
    first = next(snapshot for snapshot in evolved.snapshots() if snapshot.files)
    then = [{"id": 1, "old": 7, "gone": "g", "again": "1st"}]
    assert load(lake, asOf=first.id) == then
    assert load(lake, snapshot=first.id) == then
    assert load(lake, snapshot=evolved.latest().id) == ROWS[1:]
    assert load(lake, since=first.id) == ROWS[1:]


@pytest.mark.usefixtures("evolved")
def test_a_schema_with_a_column_that_was_dropped_is_refused(lake: str) -> None:
    wanted = struct(id=LongType(), gone=StringType())
    message = "dataset 'd' has no column 'gone': it has id, new, old, again"
    with pytest.raises(lode.InvalidOptionError, match=message):
        load(lake, schema=wanted)
    with pytest.raises(lode.InvalidOptionError, match=message):
        StreamSource(options(lake), wanted)


def test_the_files_of_a_micro_batch_may_have_different_definitions(lake: str, evolved: lode.Dataset) -> None:
    source = LodeDataSource(options(lake))
    schema = source.schema()
    copy: LodeDataSource = pickle.loads(pickle.dumps(source))
    evolved.evolve(rename={"again": "once"})  # after the stream has chosen its schema
    evolved.write([{"id": 3, "once": 3}])
    stream = copy.streamReader(schema)
    assert isinstance(stream, StreamSource)
    end = {"sequence": len(evolved.snapshots()), "snapshot": evolved.latest().id}
    rows: list[Any] = []
    for share in stream.partitions(stream.initialOffset(), end):
        for batch in pickle.loads(pickle.dumps(stream)).read(pickle.loads(pickle.dumps(share))):
            rows += batch.to_pylist()
    assert rows == [*ROWS, {"id": 3, "new": None, "old": None, "again": 3}]


def test_the_stored_schema_is_read_without_opening_a_file(lake: str) -> None:
    dataset = dataset_in(lake)
    for n in range(3):
        dataset.write([{"n": n}])
    for path in Path(urlsplit(lake).path).rglob("*"):
        if path.is_file() and "/data/" in str(path):
            path.unlink()
    counted = CountingStore(lode.open_store(lake))
    plan = lode.Dataset("d", counted).plan()
    before = counted.counts.total()
    assert scan_schema(plan) == dataset.schema
    assert scan_schema(plan, merge=True) == dataset.schema
    assert counted.counts.total() == before
    assert LodeDataSource(options(lake)).schema() == spark_schema(dataset.schema or pa.schema([]))


def test_what_a_task_is_sent_does_not_grow_with_the_definition(lake: str) -> None:
    many = {f"column_{number}": "int64" for number in range(300)}
    dataset = dataset_in(lake, {"n": "int64", "x": "int64", **many})
    for n in range(50):
        dataset.write([{"n": n, "x": n}])
    dataset.evolve(rename={"x": "y"})
    reader = BatchReader(options(lake), struct(n=LongType(), y=LongType()))
    shares = reader.partitions()
    splits = [share for share in shares if isinstance(share, Split)]
    assert sum(len(split.pieces) for split in splits) == 50
    assert all(len(pickle.dumps(split)) < (2 + len(split.pieces)) * 250 for split in splits)


# -- which reader ----------------------------------------------------------------------------------

WIDENED: list[tuple[Any, Any, str | None]] = [
    (pa.int32(), pa.int64(), None),
    (pa.int32(), pa.float64(), None),
    (pa.float32(), pa.float64(), None),
    (pa.int32(), pa.decimal128(12, 2), None),
    (pa.decimal128(9, 2), pa.decimal128(20, 4), None),
    (pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC"), None),
    (pa.struct([("x", pa.int32())]), pa.struct([("x", pa.int64()), ("y", pa.string())]), None),
    (pa.uint32(), pa.int64(), None),
    (pa.uint32(), pa.float64(), "column 'v' is double and was uint32 before"),
    (pa.uint32(), pa.uint64(), "column 'v' is uint64 and was uint32 before"),
    (pa.list_(pa.uint32()), pa.list_(pa.uint64()), "column 'v' is list"),
    (pa.null(), pa.string(), "column 'v' is string and was null before"),
]


@pytest.mark.parametrize(("narrow", "wide", "reason"), WIDENED)
def test_sparks_own_reader_is_not_asked_for_what_it_reads_wrongly(
    lake: str, narrow: Any, wide: Any, reason: str | None
) -> None:
    dataset = dataset_in(lake, pa.schema([("n", pa.int64()), ("v", narrow)]))
    dataset.write([{"n": 1}])
    dataset.evolve(widen={"v": wide})
    plan = dataset.plan()
    found = _changed(plan, scan_schema(plan))
    assert found is None if reason is None else found is not None and found.startswith(reason)
    assert load(lake)[0]["n"] == 1


def test_sparks_own_reader_is_asked_only_for_columns_that_kept_their_name(lake: str) -> None:
    dataset = dataset_in(lake, {"n": "int64", "a": "int64", "b": "int64"})
    dataset.evolve(rename={"n": "id"})
    plan = dataset.plan()
    assert _changed(plan, scan_schema(plan)) is None  # no file has the old name
    dataset.write([{"id": 1}])
    dataset.evolve(rename={"a": "c"}, drop=["b"])
    dataset.evolve(add={"b": "string"})
    plan = dataset.plan()
    whole = scan_schema(plan)
    assert _changed(plan, pa.schema([whole.field("id")])) is None
    assert _changed(plan, pa.schema([whole.field("c")])) == (
        "column 'c' was 'a' when some files were written"
    )
    assert _changed(plan, pa.schema([whole.field("b")])) == "column 'b' was dropped and added again"
