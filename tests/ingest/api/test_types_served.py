"""Numbers, intervals and geographies on a server: written by every API, read by the official client."""

from __future__ import annotations

import random
import warnings
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lode.ingest.types.rest import from_rest
from support.ingest.appending import Call, arrow_request, proto_request
from support.ingest.proto_messages import F, field, message, message_class
from support.ingest.tables import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from google.cloud import bigquery

    from lode.testing.plugin import LodeServer

pytestmark = pytest.mark.filterwarnings("ignore:.*is deprecated:PendingDeprecationWarning")

LEAST, MOST = Decimal(f"-{2**255}e-38"), Decimal(f"{2**255 - 1}e-38")
FIELDS = [
    {"name": "id", "type": "INT64"},
    {"name": "price", "type": "NUMERIC"},
    {"name": "cents", "type": "NUMERIC", "precision": "10", "scale": "2"},
    {"name": "big", "type": "BIGNUMERIC"},
    {"name": "span", "type": "INTERVAL"},
    {"name": "place", "type": "GEOGRAPHY"},
]
SENT: list[dict[str, Any]] = [
    {
        "id": 1,
        "price": "1.0000000005",
        "cents": "2.345",
        "big": str(MOST),
        "span": "P1Y",
        "place": "POINT (1 2)",
    },
    {
        "id": 2,
        "price": "-1e-9",
        "cents": "-2.345",
        "big": str(LEAST),
        "span": "4:5:6.5",
        "place": "POINT EMPTY",
    },
    {"id": 3, "price": None, "cents": None, "big": None, "span": None, "place": None},
]
STORED: list[dict[str, Any]] = [
    {
        "id": 1,
        "price": Decimal("1.000000001"),
        "cents": Decimal("2.35"),
        "big": MOST,
        "span": "1-0 0 0:0:0",
        "place": "POINT(1 2)",
    },
    {
        "id": 2,
        "price": Decimal("-1e-9"),
        "cents": Decimal("-2.35"),
        "big": LEAST,
        "span": "0-0 0 4:5:6.500",
        "place": "GEOMETRYCOLLECTION EMPTY",
    },
    {"id": 3, "price": None, "cents": None, "big": None, "span": None, "place": None},
]
NAMES = [one["name"] for one in FIELDS]
TEXTS = pa.schema([(name, pa.string() if name != "id" else pa.int64()) for name in NAMES])


@pytest.fixture(scope="module")
def client(server: LodeServer) -> Iterator[bigquery.Client]:
    with server.bigquery_client("p") as made:
        yield made


def append(table: Table, request: Any) -> Any:
    with Call(table.client) as call:
        return call.ask(request)


def by_arrow(table: Table) -> None:
    batch = pa.RecordBatch.from_pylist(SENT, TEXTS)
    assert "append_result" in append(table, arrow_request(table.default, batch))


def by_arrow_of_its_own_types(table: Table) -> None:
    schema = from_rest({"fields": FIELDS}).arrow
    units = [2**255 - 1, -(2**255), 0]
    raw = b"".join(one.to_bytes(32, "little", signed=True) for one in units)
    big = pa.Array.from_buffers(schema.field("big").type, 3, [pa.py_buffer(b"\3"), pa.py_buffer(raw)])
    batch = pa.RecordBatch.from_pylist([{**row, "big": None} for row in STORED], schema)
    batch = batch.set_column(3, schema.field("big"), big)
    assert "append_result" in append(table, arrow_request(table.default, batch))


def by_protobuf(table: Table) -> None:
    described = message(field("id", F.TYPE_INT64), *(field(name, F.TYPE_STRING) for name in NAMES[1:]))
    row: Any = message_class(described)
    rows = [
        row(**{name: value for name, value in sent.items() if value is not None}).SerializeToString()
        for sent in SENT
    ]
    assert "append_result" in append(table, proto_request(table.default, rows, descriptor=described))


def by_json(table: Table) -> None:
    with table.server.bigquery_client("p") as client:
        assert client.insert_rows_json(table.id, SENT) == []


def by_a_pending_stream(table: Table) -> None:
    batch = pa.RecordBatch.from_pylist(SENT, TEXTS)
    stream = table.create("pending").name
    table.append(stream, batch)
    table.finalize(stream)
    assert not table.commit(stream).stream_errors


@pytest.mark.parametrize(
    "write", [by_arrow, by_arrow_of_its_own_types, by_protobuf, by_json, by_a_pending_stream]
)
def test_every_api_stores_and_returns_the_same_values(
    server: LodeServer, client: bigquery.Client, write: Any
) -> None:
    table = Table(server, FIELDS)
    write(table)
    assert table.rows() == STORED
    read = client.list_rows(table.id).to_arrow(bqstorage_client=server.read_client())
    assert read.to_pylist() == STORED
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Unknown type 'GEOGRAPHY'", FutureWarning)
        listed = [dict(row) for row in client.list_rows(table.id)]
    spans = [row.pop("span") for row in listed]
    assert listed == [{name: value for name, value in row.items() if name != "span"} for row in STORED]
    assert (spans[0].years, spans[1].hours, spans[1].seconds, spans[1].microseconds) == (1, 4, 6, 500_000)
    assert spans[2] is None


def test_defaults_follow_the_same_rule(server: LodeServer, client: bigquery.Client) -> None:
    fields = [{**one} for one in FIELDS[:4]]
    fields[1]["defaultValueExpression"] = "1.0000000005"
    fields[2]["defaultValueExpression"] = "2.345"
    fields[3]["defaultValueExpression"] = f"BIGNUMERIC '{MOST}'"
    table = Table(server, fields)
    assert client.insert_rows_json(table.id, [{"id": 1}, {"id": 2, "big": None}]) == []
    first = {"id": 1, "price": Decimal("1.000000001"), "cents": Decimal("2.35"), "big": MOST}
    assert table.rows() == [first, {**first, "id": 2, "big": None}]


def test_every_api_returns_numbers_of_the_whole_range(server: LodeServer, client: bigquery.Client) -> None:
    chance = random.Random(7)
    sizes = [chance.randrange(256) for _ in range(300)]
    numbers = [Decimal(f"{chance.choice('+-')}{chance.randrange(2**size)}e-38") for size in sizes]
    table = Table(server, [FIELDS[0], FIELDS[3]])
    sent = [{"id": index, "big": f"{number:f}"} for index, number in enumerate(numbers)]
    assert client.insert_rows_json(table.id, sent[:150]) == []
    batch = pa.RecordBatch.from_pylist(sent[150:], pa.schema([TEXTS.field("id"), TEXTS.field("big")]))
    table.append(table.default, batch)
    wanted = dict(enumerate(numbers))
    assert {row["id"]: row["big"] for row in client.list_rows(table.id)} == wanted
    read = client.list_rows(table.id).to_arrow(bqstorage_client=server.read_client())
    assert {row["id"]: row["big"] for row in read.to_pylist()} == wanted


def test_77_digits_inside_lists_and_records(server: LodeServer, client: bigquery.Client) -> None:
    inner = [
        {"name": "one", "type": "BIGNUMERIC", "mode": "REQUIRED"},
        {"name": "many", "type": "BIGNUMERIC", "mode": "REPEATED"},
    ]
    record: dict[str, Any] = {"name": "record", "type": "RECORD", "fields": inner}
    table = Table(server, [FIELDS[0], inner[1], record, {**record, "name": "records", "mode": "REPEATED"}])
    sent = {"one": str(LEAST), "many": [str(MOST), "1"]}
    rows: list[dict[str, Any]] = [
        {"id": 1, "many": [str(MOST)], "record": sent, "records": [sent, sent]},
        {"id": 2},
    ]
    assert client.insert_rows_json(table.id, rows) == []
    stored = {"one": LEAST, "many": [MOST, Decimal(1)]}
    wanted = [
        {"id": 1, "many": [MOST], "record": stored, "records": [stored, stored]},
        {"id": 2, "many": [], "record": None, "records": []},
    ]
    assert table.rows() == wanted
    assert [dict(row) for row in client.list_rows(table.id)] == wanted
    read = client.list_rows(table.id).to_arrow(bqstorage_client=server.read_client())
    assert read.to_pylist() == wanted


def test_out_of_range_is_the_same_row_error_everywhere(server: LodeServer, client: bigquery.Client) -> None:
    table = Table(server, [FIELDS[0], FIELDS[3]])
    wanted = "Column 'big': '5.79e38' is out of the range of BIGNUMERIC."
    batch = pa.RecordBatch.from_pylist([{"big": "1"}, {"big": "5.79e38"}])
    by_arrow = append(table, arrow_request(table.default, batch))
    described = message(field("big", F.TYPE_STRING))
    row: Any = message_class(described)
    rows = [row(big=one["big"]).SerializeToString() for one in batch.to_pylist()]
    by_protobuf = append(table, proto_request(table.default, rows, descriptor=described))
    for answer in (by_arrow, by_protobuf):
        assert [(error.index, error.message) for error in answer.row_errors] == [(1, wanted)]
    (error, stopped) = sorted(
        client.insert_rows_json(table.id, batch.to_pylist()), key=lambda one: -one["index"]
    )
    assert (error["index"], error["errors"][0]["reason"]) == (1, "invalid")
    assert stopped["errors"][0]["reason"] == "stopped"


def test_files_with_77_digits_are_found_by_filters(server: LodeServer) -> None:
    table = Table(server, FIELDS)
    by_arrow(table)
    dataset = server.dataset(table.id)
    big = pc.field("big")
    assert dataset.scan(where=big > Decimal(1)).read_all()["id"].to_pylist() == [1]
    assert dataset.scan(where=big < Decimal(-1)).read_all()["id"].to_pylist() == [2]
    assert dataset.scan(where=big < Decimal("1e37")).read_all()["id"].to_pylist() == [2]


def test_a_table_with_unchecked_intervals_and_geographies_is_readable(
    server: LodeServer, client: bigquery.Client
) -> None:
    table = Table(server, [FIELDS[0], FIELDS[4], FIELDS[5]])
    table.append(table.default, pa.RecordBatch.from_pylist([{"id": 1}]))
    old = {"id": 2, "span": "P1Y2M", "place": "garbage"}
    server.dataset(table.id).write(pa.Table.from_pylist([old], server.rows(table.id).schema))
    read = client.list_rows(table.id).to_arrow(bqstorage_client=server.read_client())
    assert sorted(read.to_pylist(), key=lambda row: row["id"])[1] == old
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Unknown type 'GEOGRAPHY'", FutureWarning)
        listed = {row["id"]: dict(row) for row in client.list_rows(table.id)}
    assert listed[2]["place"] == "garbage"
    assert (listed[2]["span"].years, listed[2]["span"].months) == (1, 2)
