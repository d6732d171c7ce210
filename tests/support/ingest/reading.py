"""A lake with tables, served over gRPC by the read service, and the official client."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, Self

import grpc
import grpc.aio
import msgspec
import pyarrow as pa
from google.cloud.bigquery_storage_v1 import BigQueryReadClient, types
from google.cloud.bigquery_storage_v1.services.big_query_read.transports import BigQueryReadGrpcTransport

from lode.ingest.api.grpc_read.service import ReadService
from lode.ingest.catalog.catalog import Catalog
from lode.ingest.catalog.dataset import DatasetName
from lode.ingest.names import TableName
from lode.ingest.types.columns import Column, TableSchema
from lode.store import MemoryStore
from support.ingest.writing import write_rows

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable

    import lode
    from lode.ingest.catalog.partitioning import Partitioning
    from lode.store import CountingStore, Store

PARENT = "projects/p"
ID = Column("id", "INT64", "REQUIRED")
NAME = Column("name", "STRING")


class Served:
    """A real asyncio server on its own port, in its own thread."""

    def __init__(self, service: ReadService) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._service = service
        self._server, self.port = self._run(self._start(service))
        self._channel = grpc.insecure_channel(f"localhost:{self.port}")
        # The client is partly untyped.
        make: Any = BigQueryReadClient
        self.client: Any = make(transport=BigQueryReadGrpcTransport(channel=self._channel))

    async def _start(self, service: ReadService) -> tuple[grpc.aio.Server, int]:
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((service.handlers(),))
        port = server.add_insecure_port("localhost:0")
        await server.start()
        return server, port

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(120)

    def raw(self, method: str, request: bytes) -> bytes:
        """Call a unary method with any bytes."""
        call: Any = self._channel.unary_unary(f"/google.cloud.bigquery.storage.v1.BigQueryRead/{method}")
        answer: bytes = call(request, timeout=120)
        return answer

    def raw_rows(self, request: bytes) -> list[bytes]:
        """Call ReadRows with any bytes."""
        call: Any = self._channel.unary_stream("/google.cloud.bigquery.storage.v1.BigQueryRead/ReadRows")
        return list(call(request, timeout=120))

    def close(self) -> None:
        self._channel.close()
        self._run(self._server.stop(None))
        self._service.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Lake:
    """Tables on a store."""

    def __init__(self, store: Store | None = None) -> None:
        self.store: Store = store if store is not None else MemoryStore()
        self.catalog = Catalog(self.store, max_age=0)
        self.catalog.create_dataset(DatasetName("p", "d"))

    def service(self) -> ReadService:
        return ReadService(self.catalog, self.store)

    def table(
        self, name: str, columns: Iterable[Column], *, partitioning: Partitioning | None = None
    ) -> TableName:
        full = TableName("p", "d", name)
        self.catalog.create_table(full, TableSchema(tuple(columns)), partitioning=partitioning)
        return full

    def write(self, name: TableName, rows: list[dict[str, Any]]) -> lode.Snapshot:
        """Add a snapshot of one file."""
        table = self.catalog.table(name)
        batch = pa.RecordBatch.from_pylist(rows, schema=table.schema.arrow)
        return write_rows(table, self.store, batch)


def session(client: Any, table: TableName, **options: Any) -> types.ReadSession:
    """Create a session over a table; options of the session, of reading and of the request by name."""
    request = {
        key: options.pop(key) for key in ("max_stream_count", "preferred_min_stream_count") if key in options
    }
    wanted = types.ReadSession(table=str(table), data_format=options.pop("data_format", "ARROW"))
    if "snapshot_time" in options:
        wanted.table_modifiers = types.ReadSession.TableModifiers(snapshot_time=options.pop("snapshot_time"))
    wanted.read_options = types.ReadSession.TableReadOptions(options)
    made: types.ReadSession = client.create_read_session(
        types.CreateReadSessionRequest(parent=PARENT, read_session=wanted, **request)
    )
    return made


def read(client: Any, made: types.ReadSession) -> list[dict[str, Any]]:
    """Return all rows of a session, stream by stream."""
    return [row for stream in made.streams for row in rows_of(client, stream.name)]


def rows_of(client: Any, stream: str, offset: int = 0) -> list[dict[str, Any]]:
    """Return the rows of one stream."""
    return [row for batch in batches_of(client, stream, offset) for row in batch.to_pylist()]


def batches_of(client: Any, stream: str, offset: int = 0) -> list[pa.RecordBatch]:
    """Return the responses of one stream; the first has the schema of all."""
    found: list[pa.RecordBatch] = []
    for response in client.read_rows(stream, offset):
        message = response.arrow_record_batch
        schema = (
            found[0].schema
            if found
            else pa.ipc.read_schema(pa.py_buffer(response.arrow_schema.serialized_schema))
        )
        batch = pa.ipc.read_record_batch(pa.py_buffer(message.serialized_record_batch), schema)
        batch.validate(full=True)
        assert batch.num_rows == response.row_count
        assert message.row_count == 0  # the service omits it: the response has it
        found.append(batch)
    return found


def three_writes(lake: Lake, name: str = "t") -> TableName:
    """Ids 0-9, 10-19 and 20-29, in one snapshot of one file each."""
    table = lake.table(name, [ID, NAME])
    for ten in range(0, 30, 10):
        lake.write(table, [{"id": ten + one, "name": "ab"[one % 2]} for one in range(10)])
    return table


def ids(rows: list[dict[str, Any]]) -> list[int]:
    return [row["id"] for row in rows]


def opened(store: CountingStore) -> int:
    """Return the number of opened data files."""
    reading = ("open_reader", "get", "get_range")
    return len({path for method, path in store.events if method in reading and "/data/" in path})


def grown(lake: Lake, table: TableName, *columns: Column) -> None:
    """Add columns to a table."""
    lake.catalog.update_table(
        table,
        lambda old: msgspec.structs.replace(old, schema=TableSchema((*old.schema.columns, *columns))),
    )
