"""Stream events into a Lode server with Google's own clients, exactly once, and read them back.

    python examples/stream_events.py                                        # starts a server
    python examples/stream_events.py 127.0.0.1:9060 http://127.0.0.1:9050   # a running server: lode serve

Needs ``pip install 'lode-store[server]' google-cloud-bigquery``.
"""

from __future__ import annotations

import sys
import tempfile
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pyarrow as pa
from google.api_core.exceptions import AlreadyExists
from google.auth.credentials import AnonymousCredentials
from google.cloud import bigquery
from google.cloud.bigquery_storage_v1 import BigQueryReadClient, BigQueryWriteClient, types
from google.cloud.bigquery_storage_v1.services.big_query_read.transports import BigQueryReadGrpcTransport
from google.cloud.bigquery_storage_v1.services.big_query_write.transports import BigQueryWriteGrpcTransport
from google.cloud.bigquery_storage_v1.writer import AppendRowsStream

from lode.ingest.server import RunningServer
from lode.ingest.settings import Settings

TABLE = "projects/shop/datasets/web/tables/events"
KINDS: dict[str, pa.DataType] = {"id": pa.int64(), "page": pa.string(), "at": pa.timestamp("us", "UTC")}
SCHEMA = pa.schema(KINDS)
MORNING = datetime(2026, 11, 15, 8, tzinfo=UTC)
BATCHES, ROWS = 10, 100
WRITER: Any = BigQueryWriteClient  # Google's constructors have no types
READER: Any = BigQueryReadClient
ANONYMOUS: Any = AnonymousCredentials
STREAM: Any = AppendRowsStream
TABLES: Any = bigquery.Client


def create_table(rest: str) -> None:
    tables = TABLES("shop", ANONYMOUS(), client_options={"api_endpoint": rest})
    tables.create_dataset("web", exists_ok=True)
    fields = [bigquery.SchemaField(*of) for of in (("id", "INT64"), ("page", "STRING"), ("at", "TIMESTAMP"))]
    tables.create_table(bigquery.Table("shop.web.events", fields), exists_ok=True)
    tables.close()


def request(number: int) -> types.AppendRowsRequest:
    """One batch of events, at the offset where it belongs in the stream."""
    first = number * ROWS
    ids = range(first, first + ROWS)
    rows = [{"id": id, "page": f"/{id % 7}", "at": MORNING + timedelta(seconds=id)} for id in ids]
    append = types.AppendRowsRequest(offset=first)
    batch = pa.RecordBatch.from_pylist(rows, SCHEMA).serialize()
    append.arrow_rows.rows.serialized_record_batch = batch.to_pybytes()
    return append


def stream_in(channel: grpc.Channel) -> None:
    client = WRITER(transport=BigQueryWriteGrpcTransport(channel=channel))
    wanted = types.WriteStream(type_=types.WriteStream.Type.COMMITTED)
    name = client.create_write_stream(parent=TABLE, write_stream=wanted).name
    template = types.AppendRowsRequest(write_stream=name)
    template.arrow_rows.writer_schema.serialized_schema = SCHEMA.serialize().to_pybytes()
    stream = STREAM(client, template)
    for future in [stream.send(request(number)) for number in range(BATCHES)]:
        future.result()  # every acknowledged row is stored and visible
    try:
        stream.send(request(3)).result()  # as after a lost answer
    except AlreadyExists as error:
        print(f"sent again, not stored again: {error.message}")
    stream.close()
    client.finalize_write_stream(name=name)


def read_back(channel: grpc.Channel) -> pa.Table:
    client = READER(transport=BigQueryReadGrpcTransport(channel=channel))
    wanted = types.ReadSession(table=TABLE, data_format=types.DataFormat.ARROW)
    session = client.create_read_session(parent="projects/shop", read_session=wanted, max_stream_count=1)
    rows: pa.Table = client.read_rows(session.streams[0].name).to_arrow(session)
    return rows


def main(address: str, rest: str) -> None:
    create_table(rest)
    with grpc.insecure_channel(address) as channel:
        stream_in(channel)
        rows = read_back(channel)
    print(f"{rows.num_rows} events read back, {len(rows['id'].unique())} of them different")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        main(*sys.argv[1:])
    else:
        lake = tempfile.TemporaryDirectory()
        with lake, RunningServer(Settings(root=lake.name, port=0, http_port=0)) as own:
            main(own.grpc_address, own.http_url)
