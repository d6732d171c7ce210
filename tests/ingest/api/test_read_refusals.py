"""Refusals and failures of the Storage Read API."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from google.api_core import exceptions
from google.cloud.bigquery_storage_v1 import types

from lode.errors import StoreError
from lode.ingest.api.grpc_read.service import ReadService
from lode.store import CountingStore, Fault, FaultStore
from support.ingest.reading import (
    ID,
    NAME,
    PARENT,
    Lake,
    Served,
    ids,
    rows_of,
    session,
    three_writes,
)


def test_a_known_format_is_required(lake: Lake, served: Served) -> None:
    table = three_writes(lake)
    for unknown in ("DATA_FORMAT_UNSPECIFIED", 17):
        with pytest.raises(exceptions.InvalidArgument, match="data_format"):
            session(served.client, table, data_format=unknown)


@pytest.mark.parametrize(
    "options",
    [{"response_compression_codec": 17}, {"arrow_serialization_options": {"buffer_compression": 17}}],
)
def test_an_unknown_compression_is_an_invalid_argument(
    lake: Lake, served: Served, options: dict[str, Any]
) -> None:
    with pytest.raises(exceptions.InvalidArgument, match="compression"):
        session(served.client, three_writes(lake), **options)


def test_sampling_is_not_implemented(lake: Lake, served: Served) -> None:
    with pytest.raises(exceptions.MethodNotImplemented, match="sample"):
        session(served.client, three_writes(lake), sample_percentage=10.0)


def test_an_unknown_table_is_not_found(lake: Lake, served: Served) -> None:
    table = lake.table("t", [ID])
    with pytest.raises(exceptions.NotFound, match="nope"):
        session(served.client, table._replace(table="nope"))


def test_a_bad_table_name_or_parent_is_refused(served: Served) -> None:
    for parent, table in ((PARENT, "t"), ("p", "projects/p/datasets/d/tables/t"), ("", "")):
        with pytest.raises(exceptions.InvalidArgument):
            served.client.create_read_session(
                parent=parent, read_session={"table": table, "data_format": "ARROW"}
            )


def test_a_recreated_table_does_not_serve_sessions_of_the_deleted_one(lake: Lake, served: Served) -> None:
    table = three_writes(lake)
    made = session(served.client, table)
    lake.catalog.delete_table(table)
    with pytest.raises(exceptions.NotFound):
        rows_of(served.client, made.streams[0].name)
    three_writes(lake)
    with pytest.raises(exceptions.NotFound, match="created again"):
        rows_of(served.client, made.streams[0].name)


def test_a_missing_file_is_data_loss(lake: Lake, served: Served, store: CountingStore) -> None:
    table = three_writes(lake)
    made = session(served.client, table)
    for entry in list(store.list()):
        if "/data/" in entry.path:
            store.delete(entry.path)
    with pytest.raises(exceptions.DataLoss):
        rows_of(served.client, made.streams[0].name)


@pytest.mark.parametrize("where", ["whole", "middle", "footer"])
def test_a_damaged_file_is_data_loss(lake: Lake, served: Served, store: CountingStore, where: str) -> None:
    table = lake.table("t", [ID, NAME])
    lake.write(table, [{"id": number, "name": f"name {number * 7919}"} for number in range(1_000)])
    made = session(served.client, table)
    [path] = [entry.path for entry in store.list() if "/data/" in entry.path]
    data = bytearray(store.get(path))
    at = {"whole": slice(None), "middle": slice(300, 320), "footer": slice(-60, -40)}[where]
    data[at] = bytes(byte ^ 0xFF for byte in data[at])
    store.delete(path)
    store.put(path, data)
    with pytest.raises(exceptions.DataLoss, match="cannot be read"):
        rows_of(served.client, made.streams[0].name)


def test_a_store_failure_is_unavailable_and_the_client_retries(lake: Lake, store: CountingStore) -> None:
    table = three_writes(lake)
    failing = FaultStore(store, Fault("get", "*/data/*", nth=2, error=StoreError("the store is tired")))
    with Served(ReadService(lake.catalog, failing)) as served:
        [stream] = session(served.client, table).streams
        request: Any = types.ReadRowsRequest.pb()(read_stream=stream.name)
        with pytest.raises(grpc.RpcError, match="tired") as error:
            served.raw_rows(request.SerializeToString())
        status: Any = error.value
        assert status.code() == grpc.StatusCode.UNAVAILABLE
        failing.add(Fault("get", "*/data/*", error=StoreError("the store is tired again")))
        assert ids(rows_of(served.client, stream.name)) == list(range(30))
