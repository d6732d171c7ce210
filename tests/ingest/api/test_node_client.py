"""The official Node client with a server process: its requests, its answers, and the stored rows."""

from __future__ import annotations

import json
import socket
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

import pytest

import lode
from support.ingest.node_client import NodeRun, run_node
from support.ingest.processes import ServerProcess
from support.ingest.refusals import UNKNOWN_ID

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DATASET = "projects/p/datasets/d"
FIELDS: list[dict[str, Any]] = [
    {"name": "id", "type": "INT64", "mode": "REQUIRED"},
    {"name": "name", "type": "STRING"},
    {"name": "price", "type": "NUMERIC"},
    {"name": "day", "type": "DATE"},
    {"name": "at", "type": "TIMESTAMP"},
    {"name": "tags", "type": "STRING", "mode": "REPEATED"},
    {"name": "counts", "type": "INT64", "mode": "REPEATED"},
    {
        "name": "place",
        "type": "STRUCT",
        "fields": [
            {"name": "city", "type": "STRING"},
            {
                "name": "lines",
                "type": "STRUCT",
                "mode": "REPEATED",
                "fields": [{"name": "street", "type": "STRING"}, {"name": "number", "type": "INT64"}],
            },
        ],
    },
    {"name": "größte Länge", "type": "FLOAT64"},
]
NOTHING: dict[str, Any] = {field["name"]: [] if field.get("mode") == "REPEATED" else None for field in FIELDS}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("node") / "lake") as process:
        create_dataset(process)
        yield process


def create_dataset(server: ServerProcess) -> None:
    post(server, "projects/p/datasets", {"datasetReference": {"projectId": "p", "datasetId": "d"}})


def post(server: ServerProcess, path: str, body: Any) -> None:
    headers = {"content-type": "application/json"}
    urlopen(Request(f"{server.http_url}/bigquery/v2/{path}", json.dumps(body).encode(), headers)).close()


def new_table(server: ServerProcess, name: str) -> str:
    reference = {"projectId": "p", "datasetId": "d", "tableId": name}
    post(server, f"{DATASET}/tables", {"tableReference": reference, "schema": {"fields": FIELDS}})
    return f"{DATASET}/tables/{name}"


def rows_in(server: ServerProcess, table: str) -> list[dict[str, Any]]:
    """Read rows from the lake with the library."""
    dataset = lode.Dataset(f"p.d.{table.rpartition('/')[2]}", server.root, codec=lode.Parquet())
    found: list[dict[str, Any]] = dataset.scan().read_all().to_pylist()
    return found


def ids_in(server: ServerProcess, table: str) -> list[int]:
    return [row["id"] for row in rows_in(server, table)]


def test_json_rows_of_a_pending_stream_are_stored_in_the_tables_types(server: ServerProcess) -> None:
    table = new_table(server, "pending")
    result = run_node("pending", server.grpc_address, table)
    assert result == {
        "type": "PENDING",
        "offsets": [0, 2],
        "rowCount": 3,
        "committed": True,
        "again": ["STREAM_ALREADY_COMMITTED"],
    }
    assert rows_in(server, table) == [
        {
            "id": 1,
            "name": "one",
            "price": Decimal("12.345678901"),
            "day": date(2026, 11, 15),
            "at": datetime(2026, 11, 15, 12, 34, 56, 789_000, tzinfo=UTC),
            "tags": ["a", "b"],
            "counts": [1, 2, 3],
            "place": {
                "city": "Ulm",
                "lines": [{"street": "Hafengasse", "number": 7}, {"street": "Neue Straße", "number": None}],
            },
            "größte Länge": 1.5,
        },
        {**NOTHING, "id": 2, "place": {"city": None, "lines": []}},
        {**NOTHING, "id": 3},
    ]


def test_rows_on_the_default_stream_get_no_offsets(server: ServerProcess) -> None:
    table = new_table(server, "default")
    stream = f"{table}/streams/_default"
    result = run_node("default", server.grpc_address, table)
    assert result == {"name": stream, "streams": [stream] * 3, "offsets": [None] * 3}
    assert ids_in(server, table) == [1, 2, 3]


def test_a_flush_of_the_managed_writer_shows_the_rows_up_to_its_offset(server: ServerProcess) -> None:
    table = new_table(server, "buffered")
    assert run_node("buffered", server.grpc_address, table) == {"flushed": 1}
    assert ids_in(server, table) == [0, 1]


def test_wrong_offsets_are_refused_in_the_response_and_the_connection_continues(
    server: ServerProcess,
) -> None:
    table = new_table(server, "offsets")
    already_exists, out_of_range, stored_at = 6, 11, 1
    assert run_node("offsets", server.grpc_address, table) == {
        "answers": [already_exists, out_of_range, stored_at]
    }
    assert ids_in(server, table) == [1, 2]


def test_bad_rows_are_named_and_the_connection_continues(server: ServerProcess) -> None:
    table = new_table(server, "bad_rows")
    result = run_node("badRows", server.grpc_address, table)
    assert result["code"] == 3
    assert [row["index"] for row in result["rows"]] == [1, 3]
    assert all(row["code"] == "FIELDS_ERROR" and "price" in row["message"] for row in result["rows"])
    assert result["after"]
    assert ids_in(server, table) == [4]


def test_the_storage_error_of_an_unknown_stream_has_its_own_trailer(server: ServerProcess) -> None:
    table = new_table(server, "unknown")
    result = run_node("unknownStream", server.grpc_address, table)
    for channel in ("unary", "raw", "managed"):
        assert result[channel]["code"] == 5, channel
        [error] = result[channel]["storage"]
        assert error == {"code": "STREAM_NOT_FOUND", "entity": f"{table}/streams/{UNKNOWN_ID}"}, channel


def test_a_json_writer_gets_a_new_column_and_fills_it(server: ServerProcess) -> None:
    table = new_table(server, "new_column")
    result = run_node("newColumn", server.grpc_address, table, f"{server.http_url}/bigquery/v2/{table}")
    assert result == {"patched": 200, "heard": [*NOTHING, "added"]}
    assert [(row["id"], row["added"]) for row in rows_in(server, table)] == [(1, None), (2, None), (3, "new")]


def test_the_raw_client_appends_without_the_managed_writer(server: ServerProcess) -> None:
    table = new_table(server, "raw")
    assert run_node("raw", server.grpc_address, table) == {"answers": [0, 2], "rowCount": 3}
    assert ids_in(server, table) == [1, 2, 3]


def test_a_writer_continues_with_its_offsets_after_a_crash_of_the_server(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with ServerProcess(tmp_path / "lake", "--port", str(port)) as process:
        create_dataset(process)
        table = new_table(process, "restart")
        running = NodeRun("restart", process.grpc_address, table)
        assert running.line() == "begun"
        process.kill()
        process.start()
        result = running.result("stop\n")
        assert result.get("interrupted"), result
        assert ids_in(process, table) == list(range(result["rows"]))
