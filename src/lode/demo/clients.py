"""BigQuery's own clients, pointed at the demo's server."""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

import grpc
from google.api_core.exceptions import GoogleAPICallError
from google.cloud.bigquery_storage_v1 import BigQueryWriteClient, types, writer
from google.cloud.bigquery_storage_v1.services.big_query_write.transports import BigQueryWriteGrpcTransport
from google.protobuf.wrappers_pb2 import Int64Value

from lode.demo.events import (
    DATASET,
    FIELDS,
    PROJECT,
    RESOURCE,
    TABLE,
    ProtoEvents,
    arrow_batch,
    descriptor,
)
from lode.demo.machine import DemoFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lode.demo.machine import ServerProcess

_ON_THE_WAY = 4
PENDING, COMMITTED = types.WriteStream.Type.PENDING, types.WriteStream.Type.COMMITTED


def write_client(server: ServerProcess) -> Any:
    """google-cloud-bigquery-storage, with nothing changed but the endpoint."""
    client: Any = BigQueryWriteClient
    return client(transport=BigQueryWriteGrpcTransport(channel=grpc.insecure_channel(server.grpc)))


def create_table(server: ServerProcess) -> None:
    """A table partitioned by day, over the REST API."""
    base = f"http://{server.http}/bigquery/v2/projects/{PROJECT}/datasets"
    dataset = {"projectId": PROJECT, "datasetId": DATASET}
    table = {
        "tableReference": {**dataset, "tableId": TABLE},
        "schema": {"fields": FIELDS},
        "timePartitioning": {"type": "DAY", "field": "at"},
    }
    for url, body in ((base, {"datasetReference": dataset}), (f"{base}/{DATASET}/tables", table)):
        urlopen(Request(url, json.dumps(body).encode(), {"content-type": "application/json"})).close()


def stream_protobuf(
    server: ServerProcess, first: int, appends: int, per_append: int, tick: Callable[[], None]
) -> None:
    """Protobuf on the default stream, through the library's own ``AppendRowsStream``."""
    template = types.AppendRowsRequest(
        write_stream=f"{RESOURCE}/streams/_default",
        proto_rows=types.AppendRowsRequest.ProtoData(
            writer_schema=types.ProtoSchema(proto_descriptor=descriptor())
        ),
    )
    stream: Any = writer.AppendRowsStream(write_client(server), template)
    events = ProtoEvents()
    waiting = []
    try:
        for number in range(appends):
            rows = events.rows(first + number * per_append, per_append, day=number % 2)
            data = types.AppendRowsRequest.ProtoData(rows=types.ProtoRows(serialized_rows=rows))
            waiting.append(stream.send(types.AppendRowsRequest(proto_rows=data)))
            if len(waiting) == 8:
                waiting.pop(0).result()
                tick()
        for future in waiting:
            future.result()
            tick()
    finally:
        stream.close()


def stage_arrow(
    server: ServerProcess, first: int, appends: int, per_append: int, tick: Callable[[], None]
) -> list[str]:
    """Arrow on two pending streams; returns their names, finalized and not yet committed."""
    client = write_client(server)
    names = []
    for part in range(2):
        name = client.create_write_stream(parent=RESOURCE, write_stream=types.WriteStream(type_=PENDING)).name
        start = first + part * appends * per_append
        requests = (
            _arrow_request(name, start + number * per_append, per_append, day=2 + part)
            for number in range(appends)
        )
        for answer in client.append_rows(requests):
            _require_stored(answer)
            tick()
        client.finalize_write_stream(name=name)
        names.append(name)
    return names


def commit(server: ServerProcess, streams: list[str]) -> None:
    """Show the rows of many pending streams at once."""
    request = types.BatchCommitWriteStreamsRequest(parent=RESOURCE, write_streams=streams)
    answer = write_client(server).batch_commit_write_streams(request)
    if answer.stream_errors:
        raise DemoFailed(f"the batch commit failed: {answer.stream_errors[0].error_message}")


class ExactlyOnce:
    """A client that appends with offsets to a committed stream and tries again when the server is away."""

    def __init__(self, server: ServerProcess, first: int, per_append: int) -> None:
        self._server = server
        self._first = first
        self._per_append = per_append
        self.acknowledged = 0
        self.retries = 0
        stream = types.WriteStream(type_=COMMITTED)
        self._stream = write_client(server).create_write_stream(parent=RESOURCE, write_stream=stream).name

    def run(self, rows: int, tick: Callable[[], None]) -> None:
        while self.acknowledged < rows:
            ended = threading.Event()
            requests = self._requests(rows, ended)
            try:
                for answer in write_client(self._server).append_rows(requests, retry=None):
                    # ALREADY_EXISTS: the rows were stored and the answer was lost with the server.
                    if answer.error.code not in (0, 6):
                        raise DemoFailed(f"an append was refused: {answer.error.message}")
                    self.acknowledged += self._per_append
                    tick()
            except GoogleAPICallError:
                self.retries += 1
                time.sleep(0.1)
            finally:
                ended.set()

    def _requests(self, rows: int, ended: threading.Event) -> Iterator[types.AppendRowsRequest]:
        for offset in range(self.acknowledged, rows, self._per_append):
            # A few on their way at once: had all been sent, the kill would come too late to hurt.
            while offset - self.acknowledged >= _ON_THE_WAY * self._per_append:
                if ended.wait(0.002):
                    return
            request = _arrow_request(self._stream, self._first + offset, self._per_append, day=4)
            request.offset = Int64Value(value=offset)
            yield request


def _arrow_request(stream: str, first: int, count: int, *, day: int) -> types.AppendRowsRequest:
    batch = arrow_batch(first, count, day=day)
    return types.AppendRowsRequest(
        write_stream=stream,
        arrow_rows=types.AppendRowsRequest.ArrowData(
            writer_schema=types.ArrowSchema(serialized_schema=batch.schema.serialize().to_pybytes()),
            rows=types.ArrowRecordBatch(serialized_record_batch=batch.serialize().to_pybytes()),
        ),
    )


def _require_stored(answer: types.AppendRowsResponse) -> None:
    if answer.error.code:
        raise DemoFailed(f"an append was refused: {answer.error.message}")
