"""``_PARTITIONTIME`` and ``_PARTITIONDATE`` of tables that are partitioned by time of arrival."""

from __future__ import annotations

import itertools
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from google.api_core.exceptions import BadRequest, InvalidArgument
from google.cloud import bigquery
from google.cloud.bigquery_storage_v1 import types

from lode.ingest.catalog.catalog import Catalog
from lode.ingest.names import parse_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lode.testing.plugin import LodeServer

ARRIVED = [datetime(2024, 2, 28, 23, 59, tzinfo=UTC), datetime(2024, 3, 1, 5, 30, tzinfo=UTC)]
_numbers = itertools.count(1)


def create(server: LodeServer, unit: str = "DAY", **more: Any) -> str:
    """A table with row 0 and row 1, which arrived at these times; returns its name."""
    fields = [{"name": "id", "type": "INT64"}]
    name = server.create_table(
        f"p.d.arrived{next(_numbers)}", fields, timePartitioning={"type": unit}, **more
    )
    table = Catalog(server.root).table(parse_table(name))
    dataset = table.open(Catalog(server.root).store)
    for id, arrived in enumerate(ARRIVED):
        batch = pa.RecordBatch.from_pydict({"id": [id]}, schema=table.schema.arrow)
        dataset.write(table.prepare(batch, now_ms=int(arrived.timestamp() * 1000)), evolve=True)
    return name


def read(server: LodeServer, name: str, where: str = "", fields: Sequence[str] = ()) -> list[dict[str, Any]]:
    client: Any = server.read_client()
    options = types.ReadSession.TableReadOptions(selected_fields=fields, row_restriction=where)
    session = client.create_read_session(
        parent="projects/p",
        read_session=types.ReadSession(table=name, data_format=types.DataFormat.ARROW, read_options=options),
    )
    schema = pa.ipc.read_schema(pa.py_buffer(session.arrow_schema.serialized_schema))
    found: list[dict[str, Any]] = []
    for stream in session.streams:
        for answer in client.read_rows(stream.name):
            data = pa.py_buffer(answer.arrow_record_batch.serialized_record_batch)
            found += pa.ipc.read_record_batch(data, schema).to_pylist()
    return found


@pytest.mark.parametrize(
    ("unit", "times"),
    [
        ("HOUR", [datetime(2024, 2, 28, 23, tzinfo=UTC), datetime(2024, 3, 1, 5, tzinfo=UTC)]),
        ("DAY", [datetime(2024, 2, 28, tzinfo=UTC), datetime(2024, 3, 1, tzinfo=UTC)]),
        ("MONTH", [datetime(2024, 2, 1, tzinfo=UTC), datetime(2024, 3, 1, tzinfo=UTC)]),
        ("YEAR", [datetime(2024, 1, 1, tzinfo=UTC)] * 2),
    ],
)
def test_the_time_of_a_partition_is_its_beginning(
    server: LodeServer, unit: str, times: list[datetime]
) -> None:
    name = create(server, unit)
    rows = read(server, name, fields=["id", "_PARTITIONTIME", "_partitiondate"])
    assert [row["_PARTITIONTIME"] for row in rows] == times
    assert [row["_PARTITIONDATE"] for row in rows] == [time.date() for time in times]


def test_the_times_are_left_out_unless_they_are_named(server: LodeServer) -> None:
    name = create(server)
    assert read(server, name) == [{"id": 0}, {"id": 1}]


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("_PARTITIONDATE = '2024-03-01'", [1]),
        ("_PARTITIONDATE < DATE '2024-03-01'", [0]),
        ("_PARTITIONTIME >= TIMESTAMP '2024-02-28 00:00:00' AND id < 5", [0, 1]),
        ("_PARTITIONTIME BETWEEN TIMESTAMP('2024-02-29') AND TIMESTAMP('2024-03-02')", [1]),
        ("_PARTITIONTIME IS NULL", []),
        ("_PARTITIONDATE IN ('2024-02-28', '2025-01-01')", [0]),
    ],
)
@pytest.mark.parametrize("fields", [(), ("id",), ("_PARTITIONDATE", "id")])
def test_rows_are_restricted_by_their_partition(
    server: LodeServer, where: str, ids: list[int], fields: tuple[str, ...]
) -> None:
    name = create(server)
    assert [row["id"] for row in read(server, name, where, fields)] == ids


@pytest.mark.parametrize("unit", ["HOUR", "MONTH", "YEAR"])
def test_partitions_of_other_lengths_are_restricted_too(server: LodeServer, unit: str) -> None:
    name = create(server, unit)
    assert [row["id"] for row in read(server, name, "_PARTITIONTIME >= TIMESTAMP '2024-01-01'")] == [0, 1]
    assert [row["id"] for row in read(server, name, "_PARTITIONTIME < TIMESTAMP '2024-01-01'")] == []


def test_a_partition_that_cannot_match_is_not_read(server: LodeServer) -> None:
    name = create(server)
    options = types.ReadSession.TableReadOptions(row_restriction="_PARTITIONDATE > '2024-02-28'")
    session = server.read_client().create_read_session(
        parent="projects/p",
        read_session=types.ReadSession(table=name, data_format=types.DataFormat.ARROW, read_options=options),
    )
    assert session.estimated_row_count == 1


def test_rest_lists_the_times_when_they_are_selected(server: LodeServer) -> None:
    name = create(server)
    client = server.bigquery_client("p")
    table = client.get_table(".".join(name.split("/")[1::2]))
    fields = [
        bigquery.SchemaField("id", "INTEGER"),
        bigquery.SchemaField("_PARTITIONTIME", "TIMESTAMP"),
        bigquery.SchemaField("_PARTITIONDATE", "DATE"),
    ]
    rows = [tuple(row.values()) for row in client.list_rows(table, selected_fields=fields)]
    assert rows == [
        (0, datetime(2024, 2, 28, tzinfo=UTC), date(2024, 2, 28)),
        (1, datetime(2024, 3, 1, tzinfo=UTC), date(2024, 3, 1)),
    ]


def test_a_required_filter_may_name_the_partition(server: LodeServer) -> None:
    name = create(server, requirePartitionFilter=True)
    assert len(read(server, name, "_PARTITIONDATE > '2024-01-01'")) == 2
    with pytest.raises(InvalidArgument, match="'_PARTITIONDATE', '_PARTITIONTIME'"):
        read(server, name, "id = 1")


def test_other_tables_do_not_have_the_times(server: LodeServer) -> None:
    name = server.create_table(f"p.d.plain{next(_numbers)}", [{"name": "id", "type": "INT64"}])
    with pytest.raises(InvalidArgument, match="_PARTITIONTIME"):
        read(server, name, "_PARTITIONTIME IS NULL")
    client = server.bigquery_client("p")
    table = client.get_table(".".join(name.split("/")[1::2]))
    with pytest.raises(BadRequest, match=r"(?i)_partitiontime"):
        list(client.list_rows(table, selected_fields=[bigquery.SchemaField("_PARTITIONTIME", "TIMESTAMP")]))


@pytest.mark.parametrize(("partition", "ids"), [("20240228", [0]), ("20240301", [1]), ("20240302", [])])
def test_a_partition_is_listed_by_its_decorator(server: LodeServer, partition: str, ids: list[int]) -> None:
    name = create(server)
    client = server.bigquery_client("p")
    table = client.get_table(f"{'.'.join(name.split('/')[1::2])}${partition}")
    assert table.num_rows == len(ids)
    assert table.table_id.endswith(f"${partition}")
    assert [row["id"] for row in client.list_rows(table)] == ids


@pytest.mark.parametrize("kind", ["TIMESTAMP", "DATE", "DATETIME"])
def test_a_partition_of_a_column_is_listed_in_pages_and_deleted(server: LodeServer, kind: str) -> None:
    fields = [{"name": "id", "type": "INT64"}, {"name": "at", "type": kind}]
    by_day = {"type": "DAY", "field": "at"}
    name = server.create_table(f"p.d.days{next(_numbers)}", fields, timePartitioning=by_day)
    client = server.bigquery_client("p")
    table = client.get_table(".".join(name.split("/")[1::2]))
    times = ["2024-02-28", "2024-02-29", "2024-02-29", "2024-03-01", None]
    assert client.insert_rows_json(table, [{"id": id, "at": at} for id, at in enumerate(times)]) == []
    day = client.get_table(f"{table}$20240229")
    assert [row["id"] for row in client.list_rows(day, page_size=1)] == [1, 2]
    client.delete_table(f"{table}$20240229")
    assert sorted(row["id"] for row in client.list_rows(table)) == [0, 3, 4]
    client.delete_table(f"{table}$__NULL__")
    assert sorted(row["id"] for row in client.list_rows(table)) == [0, 3]


@pytest.mark.parametrize("partition", ["2024", "20241301", "x", ""])
def test_a_partition_that_the_table_cannot_have_is_refused(server: LodeServer, partition: str) -> None:
    name = create(server)
    client = server.bigquery_client("p")
    for call in (client.get_table, client.delete_table):
        with pytest.raises(BadRequest):
            call(f"{'.'.join(name.split('/')[1::2])}${partition}")
    assert len(read(server, name)) == 2
