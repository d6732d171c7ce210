"""google-cloud-bigquery on a whole server: tables over REST, rows over the Storage Read API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud import bigquery
from google.cloud.bigquery_storage_v1 import BigQueryReadClient
from google.cloud.bigquery_storage_v1.services.big_query_read.transports import BigQueryReadGrpcTransport

from lode.ingest.server import RunningServer
from lode.ingest.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# The client warns that its conversions to tables and frames will move to other packages.
pytestmark = pytest.mark.filterwarnings("ignore:.*is deprecated:PendingDeprecationWarning")

SCHEMA = [
    bigquery.SchemaField("id", "INTEGER", "REQUIRED"),
    bigquery.SchemaField("name", "STRING"),
    bigquery.SchemaField("tags", "STRING", "REPEATED"),
    bigquery.SchemaField("place", "RECORD", fields=[bigquery.SchemaField("lat", "FLOAT")]),
]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    with RunningServer(Settings(root=tmp_path / "lake", port=0, http_port=0)) as running:
        yield running


@pytest.fixture
def client(server: RunningServer) -> Iterator[bigquery.Client]:
    # Its code is partly untyped.
    make: Any = bigquery.Client
    nobody: Any = AnonymousCredentials
    made: bigquery.Client = make(
        project="p", credentials=nobody(), client_options={"api_endpoint": server.http_url}
    )
    with made:
        yield made


class Seen(grpc.UnaryStreamClientInterceptor):  # type: ignore[misc, unused-ignore]  # grpc is untyped
    """Counts the streams that are read: a client may silently fall back to REST."""

    def __init__(self) -> None:
        self.streams = 0

    def intercept_unary_stream(self, continuation: Any, details: Any, request: Any) -> Any:
        self.streams += 1
        return continuation(details, request)


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
def reader(server: RunningServer, seen: Seen) -> Iterator[BigQueryReadClient]:
    make: Any = BigQueryReadClient
    with grpc.insecure_channel(server.grpc_address) as channel:
        through = grpc.intercept_channel(channel, seen)
        made: BigQueryReadClient = make(transport=BigQueryReadGrpcTransport(channel=through))
        yield made


@pytest.fixture
def table(client: bigquery.Client) -> bigquery.Table:
    client.create_dataset("d")
    return client.create_table(bigquery.Table("p.d.t", schema=SCHEMA))


def test_list_rows_uses_the_storage_api(
    client: bigquery.Client, reader: BigQueryReadClient, seen: Seen, table: bigquery.Table
) -> None:
    for start in (0, 10):
        rows = [
            {"id": n, "name": f"n{n}", "tags": ["x"] * (n % 3), "place": {"lat": n / 2}}
            for n in range(start, start + 10)
        ]
        assert client.insert_rows_json(table, rows) == []
    found = client.list_rows(table).to_arrow(bqstorage_client=reader)
    assert sorted(row["id"] for row in found.to_pylist()) == list(range(20))
    assert found.schema.names == ["id", "name", "tags", "place"]
    assert seen.streams > 0
    [seven] = [row for row in found.to_pylist() if row["id"] == 7]
    assert seven == {"id": 7, "name": "n7", "tags": ["x"], "place": {"lat": 3.5}}


def test_list_rows_of_some_columns(
    client: bigquery.Client, reader: BigQueryReadClient, table: bigquery.Table
) -> None:
    assert client.insert_rows_json(table, [{"id": 1, "name": "a"}]) == []
    found = client.list_rows(table, selected_fields=[SCHEMA[1]]).to_arrow(bqstorage_client=reader)
    assert found.to_pylist() == [{"name": "a"}]


def test_list_rows_of_an_empty_table(
    client: bigquery.Client, reader: BigQueryReadClient, table: bigquery.Table
) -> None:
    found = client.list_rows(table).to_arrow(bqstorage_client=reader)
    assert found.num_rows == 0
    assert found.schema.names == ["id", "name", "tags", "place"]


def test_frames_through_the_storage_api(
    client: bigquery.Client, reader: BigQueryReadClient, table: bigquery.Table
) -> None:
    assert client.insert_rows_json(table, [{"id": n} for n in range(5)]) == []
    frame = client.list_rows(table).to_dataframe(bqstorage_client=reader)
    assert sorted(frame["id"].tolist()) == [0, 1, 2, 3, 4]
