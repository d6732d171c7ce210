"""What the ingest server asks of its store, for appends and for load jobs by the official clients."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lode.store.memory import MemoryStore
from lode.store.wrappers import CountingStore
from lode.testing.plugin import LodeServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.smoke.bounds import Counts

# Fewer than the 16 after which a history segment is written beside the next commit.
_APPENDS: Final = 10
_TABLE: Final = "shop.web.clicks"
_ARROW: Final = pa.schema({"id": pa.int64()})
_WRITES: Final = frozenset({"put", "compare_and_swap", "open_writer", "commit", "delete"})


@contextmanager
def _served() -> Iterator[tuple[LodeServer, CountingStore, str]]:
    """A server with a table, whose first commit was made."""
    with tempfile.TemporaryDirectory(prefix="lode-smoke-") as state:
        store = CountingStore(MemoryStore())
        server = LodeServer(store, state=Path(state))
        try:
            yield server, store, server.create_table(_TABLE, _ARROW)
        finally:
            server.stop()


def _writes(store: CountingStore) -> int:
    """Calls that write. Reads are left out: whether a table has changed is looked up once a second."""
    return sum(count for method, count in store.counts.items() if method in _WRITES)


def _stream(server: LodeServer, name: str) -> Any:
    from google.cloud.bigquery_storage_v1 import types
    from google.cloud.bigquery_storage_v1.writer import AppendRowsStream

    template = types.AppendRowsRequest(write_stream=name)
    template.arrow_rows.writer_schema.serialized_schema = _ARROW.serialize().to_pybytes()
    return AppendRowsStream(server.write_client(), template)


def _append(stream: Any) -> None:
    from google.cloud.bigquery_storage_v1 import types

    request = types.AppendRowsRequest()
    batch = pa.RecordBatch.from_pydict({"id": [1]}, _ARROW)
    request.arrow_rows.rows.serialized_record_batch = batch.serialize().to_pybytes()
    stream.send(request).result()


def _default() -> Counts:
    with _served() as (server, store, table):
        stream = _stream(server, f"{table}/streams/_default")
        _append(stream)
        store.reset()
        for _ in range(_APPENDS):
            _append(stream)
        stream.close()
        return {"calls that write": _writes(store)}


def _pending() -> Counts:
    from google.cloud.bigquery_storage_v1 import types

    with _served() as (server, store, table):
        client = server.write_client()
        wanted = types.WriteStream(type_=types.WriteStream.Type.PENDING)
        name = client.create_write_stream(parent=table, write_stream=wanted).name
        stream = _stream(server, name)
        store.reset()
        for _ in range(_APPENDS):
            _append(stream)
        stream.close()
        appends = _writes(store)
        client.finalize_write_stream(name=name)
        store.reset()
        client.batch_commit_write_streams(
            types.BatchCommitWriteStreamsRequest(parent=table, write_streams=[name])
        )
        return {
            "calls that write, of the appends": appends,
            "calls that write, of the commit": _writes(store),
        }


def _load() -> Counts:
    with _served() as (server, store, _):
        client = server.bigquery_client("shop")
        client.load_table_from_json([{"id": 1}], _TABLE).result()
        store.reset()
        client.load_table_from_json([{"id": number} for number in range(1000)], _TABLE).result()
        return {"calls that write": _writes(store), "bytes written": store.bytes_in}


SERVER: Final[dict[str, Callable[[], Counts]]] = {
    f"{_APPENDS} appends to the server, one at a time": _default,
    f"{_APPENDS} appends to a PENDING stream": _pending,
    "load job": _load,
}
