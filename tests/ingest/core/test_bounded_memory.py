"""The server's memory is bounded, no matter how many rows are staged: they are on the disk."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from google.cloud.bigquery_storage_v1 import types

from lode.ingest.catalog.catalog import Catalog
from lode.ingest.names import parse_table
from lode.store.local import LocalStore
from support.ingest.appending import Call, arrow_request
from support.ingest.memory import MEGABYTE, highest
from support.ingest.processes import process_with_table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.ingest.processes import ServerProcess

NAME = "projects/p/datasets/d/tables/t"
ROWS = 2000
APPENDS = 150
UNANSWERED = 16
BOMBS = 12


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with process_with_table(tmp_path / "lake") as process:
        yield process


def append_much(server: ServerProcess, stream: str, appends: int) -> int:
    """Send incompressible appends of 2 MB, several in flight; returns their bytes."""
    size = 0
    with Call(server.write_client()) as call:
        for number in range(appends):
            noise = os.urandom(ROWS * 500).hex()
            names = pa.array([noise[row * 1000 : row * 1000 + 1000] for row in range(ROWS)])
            ids = pa.array(range(number * ROWS, (number + 1) * ROWS), pa.int64())
            batch = pa.record_batch([ids, names], names=["id", "name"])
            size += batch.nbytes
            call.send(arrow_request(stream, batch, offset=number * ROWS, schema=number == 0))
            if number >= UNANSWERED:
                assert "append_result" in call.receive()
        for _ in range(min(appends, UNANSWERED)):
            assert "append_result" in call.receive()
    return size


def test_three_hundred_megabytes_pass_through_a_pending_stream_in_bounded_memory(
    server: ServerProcess,
) -> None:
    client = server.write_client()
    stream = client.create_write_stream(parent=NAME, write_stream=types.WriteStream(type_=2)).name
    size = append_much(server, stream, APPENDS)
    assert size > 300 * 1000 * 1000
    staged = highest(server.pid)
    assert client.finalize_write_stream(name=stream).row_count == APPENDS * ROWS
    wanted = types.BatchCommitWriteStreamsRequest(parent=NAME, write_streams=[stream])
    assert not client.batch_commit_write_streams(wanted, timeout=120).stream_errors
    assert staged < 400 * MEGABYTE, f"appends took {staged / MEGABYTE:.0f} MB"
    committed = highest(server.pid)
    assert committed < 500 * MEGABYTE, f"the commit took {committed / MEGABYTE:.0f} MB"
    store = LocalStore(server.root)
    dataset = Catalog(store).table(parse_table(NAME)).open(store)
    assert sum(snapshot.row_count for snapshot in dataset.snapshots()) == APPENDS * ROWS


def test_requests_with_large_decoded_rows_share_bounded_memory(server: ServerProcess) -> None:
    """Requests of a few kilobytes that decode to a hundred megabytes each, all sent at once."""
    batch = pa.record_batch({"id": pa.repeat(pa.scalar(0, pa.int64()), 12_000_000)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(batch)
    request = arrow_request(f"{NAME}/_default", batch.slice(0, 0))
    request.arrow_rows.rows.serialized_record_batch = sink.getvalue().to_pybytes()
    assert len(request.arrow_rows.rows.serialized_record_batch) < 50_000

    def append(_: int) -> bool:
        with Call(server.write_client()) as call:
            return "append_result" in call.ask(request)

    with ThreadPoolExecutor(BOMBS) as pool:
        assert all(pool.map(append, range(BOMBS)))
    taken = highest(server.pid)
    assert taken < 700 * MEGABYTE, f"{BOMBS} requests took {taken / MEGABYTE:.0f} MB"
