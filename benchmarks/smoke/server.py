"""What the ingest server asks of its store, for appends and for load jobs by the official clients."""

from __future__ import annotations

import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

from lode.store.memory import MemoryStore
from lode.store.wrappers import CountingStore, StoreWrapper
from lode.testing.plugin import LodeServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.smoke.bounds import Counts
    from lode.store.protocol import Store

T = TypeVar("T")

# Fewer than the 16 after which a history segment is written beside the next commit.
_APPENDS: Final = 10
_TOGETHER: Final = 100
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


class _Gate(StoreWrapper):
    """A store that holds writes back while it is shut."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self._open = threading.Event()
        self._open.set()
        self.arrived = threading.Event()

    def shut(self) -> None:
        self._open.clear()

    def open(self) -> None:
        self._open.set()

    def around(self, method: str, path: str, call: Callable[[], T]) -> T:
        if method in _WRITES and not self._open.is_set():
            self.arrived.set()
            self._open.wait()
        return call()


def _together() -> Counts:
    """The appends that arrive during a commit share the next one: two commits, whatever their number."""
    from lode.ingest.catalog.catalog import Catalog
    from lode.ingest.catalog.dataset import DatasetName
    from lode.ingest.core.engine import Engine
    from lode.ingest.names import TableName
    from lode.ingest.settings import Settings
    from lode.ingest.types.arrow import from_arrow

    gate = _Gate(MemoryStore())
    store = CountingStore(gate)
    name, batch = TableName(*_TABLE.split(".")), pa.RecordBatch.from_pydict({"id": [1]}, _ARROW)
    catalog = Catalog(store)
    catalog.create_dataset(DatasetName(name.project, name.dataset))
    catalog.create_table(name, from_arrow(_ARROW))
    with tempfile.TemporaryDirectory(prefix="lode-smoke-") as folder:
        engine = Engine(store, Path(folder), Settings(root=store, state=Path(folder)))
        engine.append(name, batch).result()
        store.reset()
        gate.shut()
        answers = [engine.append(name, batch)]
        gate.arrived.wait()
        answers += [engine.append(name, batch) for _ in range(_TOGETHER - 1)]
        gate.open()
        for answer in answers:
            answer.result()
        engine.close()
    return {"calls that write": _writes(store)}


def _load() -> Counts:
    with _served() as (server, store, _):
        client = server.bigquery_client("shop")
        client.load_table_from_json([{"id": 1}], _TABLE).result()
        store.reset()
        client.load_table_from_json([{"id": number} for number in range(1000)], _TABLE).result()
        return {"calls that write": _writes(store), "bytes written": store.bytes_in}


SERVER: Final[dict[str, Callable[[], Counts]]] = {
    f"{_APPENDS} appends to the server, one at a time": _default,
    f"{_TOGETHER} appends to the server during a commit": _together,
    f"{_APPENDS} appends to a PENDING stream": _pending,
    "load job": _load,
}
