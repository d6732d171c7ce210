"""However much is staged, the server's memory stays bounded: rows go to the disk, not to lists."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from google.cloud.bigquery_storage_v1 import types

from ingest.appending import Call, arrow_request
from ingest.memory import MEGABYTE, highest
from ingest.processes import process_with_table
from lode.ingest.catalog.catalog import Catalog
from lode.ingest.names import parse_table
from lode.store.local import LocalStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ingest.processes import ServerProcess

NAME = "projects/p/datasets/d/tables/t"
ROWS = 2000
APPENDS = 150
UNANSWERED = 16


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with process_with_table(tmp_path / "lake") as process:
        yield process


def append_much(server: ServerProcess, stream: str, appends: int) -> int:
    """Appends of 2 MB that no compression makes small, several under way; returns how many bytes."""
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
