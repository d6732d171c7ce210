"""google-cloud-bigquery end to end: every type, written in three ways, read in four; every partitioning."""

from __future__ import annotations

import warnings
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from google.cloud import bigquery
from google.cloud.bigquery_storage_v1 import types, writer

import lode
from support.ingest.helper_streams import answer_of
from support.ingest.proto_messages import F, field, message, message_class, repeated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lode.testing.plugin import LodeServer

# The client warns that its conversions to tables and frames will move to other packages.
pytestmark = pytest.mark.filterwarnings("ignore:.*is deprecated:PendingDeprecationWarning")

Field = bigquery.SchemaField
SCHEMA = [
    Field("id", "INTEGER", "REQUIRED"),
    Field("text", "STRING"),
    Field("raw", "BYTES"),
    Field("real", "FLOAT"),
    Field("flag", "BOOLEAN"),
    Field("at", "TIMESTAMP"),
    Field("day", "DATE"),
    Field("clock", "TIME"),
    Field("civil", "DATETIME"),
    Field("price", "NUMERIC"),
    Field("huge", "BIGNUMERIC"),
    Field("shape", "GEOGRAPHY"),
    Field("doc", "JSON"),
    Field("days", "RANGE", range_element_type="DATE"),
    Field("tags", "STRING", "REPEATED"),
    Field(
        "place",
        "RECORD",
        fields=[
            Field("city", "STRING", "REQUIRED"),
            Field("visits", "RECORD", "REPEATED", fields=[Field("n", "INTEGER"), Field("on", "DATE")]),
        ],
    ),
]
_ARROW_TYPES: dict[str, pa.DataType] = {
    "id": pa.int64(),
    "text": pa.string(),
    "raw": pa.binary(),
    "real": pa.float64(),
    "flag": pa.bool_(),
    "at": pa.timestamp("us", "UTC"),
    "day": pa.date32(),
    "clock": pa.time64("us"),
    "civil": pa.timestamp("us"),
    "price": pa.decimal128(38, 9),
    "huge": pa.decimal256(76, 38),
    "shape": pa.string(),
    "doc": pa.string(),
    "days": pa.struct([("start", pa.date32()), ("end", pa.date32())]),
    "tags": pa.list_(pa.string()),
    "place": pa.struct(
        [
            ("city", pa.string()),
            ("visits", pa.list_(pa.struct([("n", pa.int64()), ("on", pa.date32())]))),
        ]
    ),
}
ARROW = pa.schema(_ARROW_TYPES)
# The values for a reader, independent of the way the row was written.
ROW: dict[str, Any] = {
    "id": 1,
    "text": "grüezi",
    "raw": b"\x00\xff",
    "real": 1.5,
    "flag": False,
    "at": datetime(2026, 11, 15, 12, 30, 0, 123456, tzinfo=UTC),
    "day": date(2026, 11, 15),
    "clock": time(23, 59, 59, 999999),
    "civil": datetime(2026, 11, 15, 1, 2, 3, 4),
    "price": Decimal("-12.345678901"),
    "huge": Decimal("1.00000000000000000000000000000000000001"),
    "shape": "POINT(1 2)",
    "doc": '{"a":[1,null]}',
    "days": {"start": date(2026, 1, 1), "end": None},
    "tags": ["x", "y"],
    "place": {"city": "Ulm", "visits": [{"n": 7, "on": date(2026, 2, 3)}, {"n": None, "on": None}]},
}
EMPTY: dict[str, Any] = {**dict.fromkeys(ROW), "id": 2, "tags": []}


@pytest.fixture
def client(lode_server: LodeServer) -> Iterator[bigquery.Client]:
    with lode_server.bigquery_client("p") as made:
        made.create_dataset("d")
        yield made


@pytest.fixture
def table(client: bigquery.Client) -> bigquery.Table:
    made = client.create_table(bigquery.Table("p.d.t", schema=SCHEMA))
    assert made.schema == SCHEMA
    return made


def insert_json(server: LodeServer) -> None:
    row = {
        **ROW,
        "raw": "AP8=",
        "at": "2026-11-15T12:30:00.123456Z",
        "day": "2026-11-15",
        "clock": "23:59:59.999999",
        "civil": "2026-11-15T01:02:03.000004",
        "price": "-12.345678901",
        "huge": str(ROW["huge"]),
        "days": {"start": "2026-01-01", "end": None},
        "place": {"city": "Ulm", "visits": [{"n": "7", "on": "2026-02-03"}, {}]},
    }
    with server.bigquery_client("p") as client:
        assert client.insert_rows_json("p.d.t", [row, {"id": 2}]) == []


def append(server: LodeServer, template: types.AppendRowsRequest, rows: types.AppendRowsRequest) -> None:
    template.write_stream = "projects/p/datasets/d/tables/t/streams/_default"
    make: Any = writer.AppendRowsStream  # untyped
    stream = make(server.write_client(), template)
    answer_of(stream.send(rows))
    stream.close()


def append_arrow(server: LodeServer) -> None:
    batch = pa.RecordBatch.from_pylist([ROW, EMPTY], schema=ARROW)
    described = types.ArrowSchema(serialized_schema=ARROW.serialize().to_pybytes())
    rows = types.ArrowRecordBatch(serialized_record_batch=batch.serialize().to_pybytes())
    data = types.AppendRowsRequest.ArrowData
    append(
        server,
        types.AppendRowsRequest(arrow_rows=data(writer_schema=described)),
        types.AppendRowsRequest(arrow_rows=data(rows=rows)),
    )


def append_protobuf(server: LodeServer) -> None:
    """Return each type in the first encoding of BigQuery's table of conversions."""
    visit = message(field("n", F.TYPE_INT64), field("on", F.TYPE_INT32), name="Visit")
    place = message(
        field("city", F.TYPE_STRING), repeated("visits", F.TYPE_MESSAGE, type_name="Visit"), name="Place"
    )
    days = message(field("start", F.TYPE_INT32), field("end", F.TYPE_INT32), name="Days")
    described = message(
        field("id", F.TYPE_INT64),
        field("text", F.TYPE_STRING),
        field("raw", F.TYPE_BYTES),
        field("real", F.TYPE_DOUBLE),
        field("flag", F.TYPE_BOOL),
        field("at", F.TYPE_INT64),
        field("day", F.TYPE_INT32),
        field("clock", F.TYPE_STRING),
        field("civil", F.TYPE_STRING),
        field("price", F.TYPE_STRING),
        field("huge", F.TYPE_STRING),
        field("shape", F.TYPE_STRING),
        field("doc", F.TYPE_STRING),
        field("days", F.TYPE_MESSAGE, type_name="Days"),
        repeated("tags", F.TYPE_STRING),
        field("place", F.TYPE_MESSAGE, type_name="Place"),
        nested=(visit, place, days),
    )
    row = message_class(described)
    epoch = date(1970, 1, 1)
    full = row(
        **{name: ROW[name] for name in ("id", "text", "raw", "real", "flag", "shape", "doc", "tags")},
        at=int(ROW["at"].timestamp()) * 1_000_000 + ROW["at"].microsecond,
        day=(ROW["day"] - epoch).days,
        clock="23:59:59.999999",
        civil="2026-11-15 01:02:03.000004",
        price=str(ROW["price"]),
        huge=str(ROW["huge"]),
        days={"start": (date(2026, 1, 1) - epoch).days},
        place={"city": "Ulm", "visits": [{"n": 7, "on": (date(2026, 2, 3) - epoch).days}, {}]},
    )
    data = types.AppendRowsRequest.ProtoData
    rows = types.ProtoRows(serialized_rows=[full.SerializeToString(), row(id=2).SerializeToString()])
    append(
        server,
        types.AppendRowsRequest(proto_rows=data(writer_schema=types.ProtoSchema(proto_descriptor=described))),
        types.AppendRowsRequest(proto_rows=data(rows=rows)),
    )


@pytest.mark.parametrize("write", [insert_json, append_arrow, append_protobuf])
def test_every_type_is_read_as_it_was_written(
    lode_server: LodeServer, client: bigquery.Client, table: bigquery.Table, write: Any
) -> None:
    write(lode_server)
    reader = lode_server.read_client()
    assert client.list_rows(table).to_arrow(bqstorage_client=reader).to_pylist() == [ROW, EMPTY]
    assert lode_server.rows("p.d.t").to_pylist() == [ROW, EMPTY]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Unknown type 'GEOGRAPHY'", FutureWarning)
        listed = [dict(row) for row in client.list_rows(table)]
        plain = client.list_rows(table).to_arrow(create_bqstorage_client=False)
    assert listed == [{**ROW, "doc": {"a": [1, None]}}, EMPTY]
    assert plain.to_pylist() == [ROW, EMPTY]


def test_a_frame_has_the_values_of_the_table(
    lode_server: LodeServer, client: bigquery.Client, table: bigquery.Table
) -> None:
    append_arrow(lode_server)
    frame = client.list_rows(table).to_dataframe(bqstorage_client=lode_server.read_client())
    assert list(frame.columns) == list(ROW)
    first, second = frame.to_dict("records")
    simple = ("id", "text", "raw", "real", "flag", "at", "day", "clock", "civil", "price", "huge", "shape")
    assert {name: first[name] for name in simple} == {name: ROW[name] for name in simple}
    assert list(first["tags"]) == ["x", "y"]
    assert first["place"]["city"] == "Ulm"
    assert second["id"] == 2
    assert frame["price"].isna().tolist() == [False, True]


# -- partitions --------------------------------------------------------------------------------

TIMES = ["2026-11-15T01:00:00Z", "2026-11-15T02:30:00Z", "2026-11-16T00:00:00Z", "2027-01-01T00:00:00Z", None]
PARTITIONED = {
    "day of a column": (
        bigquery.TimePartitioning(type_="DAY", field="at"),
        "at",
        ["2026-11-15", "2026-11-16", "2027-01-01", "__HIVE_DEFAULT_PARTITION__"],
    ),
    "hour of a column": (
        bigquery.TimePartitioning(type_="HOUR", field="at"),
        "_PARTITIONID",
        ["2026111501", "2026111502", "2026111600", "2027010100", "__NULL__"],
    ),
    "month of a column": (
        bigquery.TimePartitioning(type_="MONTH", field="at"),
        "_PARTITIONID",
        ["202611", "202701", "__NULL__"],
    ),
    "year of a column": (
        bigquery.TimePartitioning(type_="YEAR", field="at"),
        "_PARTITIONID",
        ["2026", "2027", "__NULL__"],
    ),
    "ranges of a column": (
        bigquery.RangePartitioning(
            field="number", range_=bigquery.PartitionRange(start=0, end=40, interval=20)
        ),
        "_PARTITIONID",
        ["0", "20", "__NULL__", "__UNPARTITIONED__"],
    ),
}


@pytest.mark.parametrize("kind", PARTITIONED)
def test_a_partitioned_table_has_hive_partitions_on_the_store(
    lode_server: LodeServer, client: bigquery.Client, kind: str
) -> None:
    partitioning, key, expected = PARTITIONED[kind]
    made = bigquery.Table("p.d.t", schema=[Field("number", "INTEGER"), Field("at", "TIMESTAMP")])
    if isinstance(partitioning, bigquery.TimePartitioning):
        made.time_partitioning = partitioning
    else:
        made.range_partitioning = partitioning
    table = client.create_table(made)
    numbers = [0, 19, 20, 99, None]
    rows = [{"number": number, "at": at} for number, at in zip(numbers, TIMES, strict=True)]
    assert client.insert_rows_json(table, rows) == []
    found = lode.DatasetReader(lode_server.root, layout=lode.HiveLayout(key)).list_partitions("p.d.t")
    assert found == [f"{key}={value}" for value in expected]
    read = client.list_rows(table).to_arrow(bqstorage_client=lode_server.read_client())
    assert read.column_names == ["number", "at"]
    assert sorted(read.column("number").to_pylist(), key=str) == sorted(numbers, key=str)
    described = client.get_table(table)
    assert described.time_partitioning == made.time_partitioning
    assert described.range_partitioning == made.range_partitioning


def test_rows_of_a_table_partitioned_by_arrival_are_in_todays_partition(
    lode_server: LodeServer, client: bigquery.Client
) -> None:
    made = bigquery.Table("p.d.t", schema=[Field("number", "INTEGER")])
    made.time_partitioning = bigquery.TimePartitioning(type_="DAY")
    before = datetime.now(UTC)
    assert client.insert_rows_json(client.create_table(made), [{"number": 1}]) == []
    days = {f"_PARTITIONID={moment:%Y%m%d}" for moment in (before, datetime.now(UTC))}
    reader = lode.DatasetReader(lode_server.root, layout=lode.HiveLayout("_PARTITIONID"))
    [found] = reader.list_partitions("p.d.t")
    assert found in days
