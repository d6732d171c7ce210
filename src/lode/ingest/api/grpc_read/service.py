"""BigQuery's Storage Read API: sessions over a snapshot of a table, read in parallel streams."""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

import grpc
import grpc.aio
from google.cloud.bigquery_storage_v1 import types

from lode.errors import NoSnapshotsError
from lode.format.ids import shortened
from lode.ingest.api.errors import end_call, internal, parse_request
from lode.ingest.api.grpc_read.avro import AvroRows
from lode.ingest.api.grpc_read.computed import NeedsSqlError, NoConditions
from lode.ingest.api.grpc_read.parquet import row_group_starts
from lode.ingest.api.grpc_read.plan import Plans, cut, cut_at_row
from lode.ingest.api.grpc_read.restriction import check_partition_filter, parse_restriction
from lode.ingest.api.grpc_read.selection import follow, outline, select
from lode.ingest.api.grpc_read.session import (
    AVRO,
    EXPIRES,
    Session,
    SessionName,
    SnapshotRange,
    check_format,
    decode_session,
    encode_session,
    parse_project,
    parse_read_stream,
    parse_snapshot_time,
    remove_expired,
    stream_count,
)
from lode.ingest.api.grpc_read.stream import Reader, compression_of, encode_batch
from lode.ingest.jobs.queue import WorkQueue
from lode.ingest.names import parse_table
from lode.ingest.status import Code, Refused, invalid

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

    from lode.ingest.api.grpc_read.computed import Conditions
    from lode.ingest.api.grpc_read.restriction import Restriction
    from lode.ingest.catalog.catalog import Catalog
    from lode.ingest.catalog.table import TableDefinition
    from lode.store.protocol import Store

SERVICE: Final = "google.cloud.bigquery.storage.v1.BigQueryRead"
READ_THREADS: Final = 16
PREFETCH_THREADS: Final = 32

# Generated at run time, so type checkers do not know them.
_CreateReadSession: Any = types.CreateReadSessionRequest.pb()
_ReadSession: Any = types.ReadSession.pb()
_ReadRows: Any = types.ReadRowsRequest.pb()
_ReadRowsResponse: Any = types.ReadRowsResponse.pb()
_SplitReadStream: Any = types.SplitReadStreamRequest.pb()
_SplitReadStreamResponse: Any = types.SplitReadStreamResponse.pb()

# Reads with conditions in SQL that compute at the same time.
CONDITIONS: Final = 4
_NO_CONDITIONS: Final = NoConditions()

_log = logging.getLogger(__name__)


class _OpenStream(NamedTuple):
    """The session and the rows that a stream's name refers to."""

    session: Session
    name: SessionName
    rows: SnapshotRange
    reader: Reader


class ReadService:
    """Serves the tables of a catalog. It only keeps a cache: any server on the store can continue a session.

    Args:
        catalog: The tables.
        store: The store of their rows.
        conditions: Computes what filters do not have; this process does if not given.
        queue: Where reads with such conditions wait; one of its own if not given.
        client_of: The name of the client of a call.
    """

    def __init__(
        self,
        catalog: Catalog,
        store: Store,
        conditions: Conditions | None = None,
        queue: WorkQueue | None = None,
        client_of: Callable[[Any], str] = lambda _context: "",
    ) -> None:
        self._catalog = catalog
        self._conditions = conditions
        self._client_of = client_of
        self._queue = WorkQueue() if queue is None else queue
        self._queue.add_kind("condition", CONDITIONS)
        self._store = store
        self._plans = Plans(store)
        self._row_groups = partial(row_group_starts, store)
        # Separate threads: reads that wait for a slow store must not delay writers.
        self._threads = ThreadPoolExecutor(READ_THREADS, "lode-read")
        self._prefetchers = ThreadPoolExecutor(PREFETCH_THREADS, "lode-fetch")

    def handlers(self) -> grpc.GenericRpcHandler:
        """Return the handlers for a ``grpc.aio`` server. Threads decode and encode the messages."""
        handler: grpc.GenericRpcHandler = grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "CreateReadSession": grpc.unary_unary_rpc_method_handler(self._unary(self._create)),
                "SplitReadStream": grpc.unary_unary_rpc_method_handler(self._unary(self._split)),
                "ReadRows": grpc.unary_stream_rpc_method_handler(self._read_rows),
            },
        )
        return handler

    def close(self) -> None:
        """Stop the threads; calls that still run end with an error."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._prefetchers.shutdown(wait=False, cancel_futures=True)

    def expire(self) -> int:
        """Remove expired sessions from the store; returns their number."""
        return remove_expired(self._store, datetime.now(UTC))

    # -- on the event loop ---------------------------------------------------------------------

    def _unary(
        self, work: Callable[[bytes, Conditions | None], bytes]
    ) -> Callable[[bytes, Any], Awaitable[bytes]]:
        async def answer(request: bytes, context: Any) -> bytes:
            try:
                try:
                    return await asyncio.wrap_future(self._threads.submit(work, request, _NO_CONDITIONS))
                except NeedsSqlError:
                    run = partial(work, request, self._conditions)
                    found: bytes = await asyncio.wrap_future(self._in_turn(context, run))
                    return found
            except Exception as error:
                await _end(context, error)
                raise

        return answer

    async def _read_rows(self, request: bytes, context: Any) -> None:
        responses = self._responses(request, _NO_CONDITIONS)
        submit: Callable[[Callable[[], Any]], Future[Any]] = self._threads.submit
        step = submit(partial(next, responses, None))
        try:
            try:
                response = await asyncio.wrap_future(step)
            except NeedsSqlError:
                responses = self._responses(request, self._conditions)
                submit = partial(self._in_turn, context)
                step = submit(partial(next, responses, None))
                response = await asyncio.wrap_future(step)
            while response is not None:
                # The next response is made while the client receives the previous one.
                step = submit(partial(next, responses, None))
                await context.write(response)
                response = await asyncio.wrap_future(step)
        except Exception as error:
            await _end(context, error)
        finally:
            # A generator cannot be closed while a thread runs it.
            step.add_done_callback(lambda _: self._close(responses))

    def _in_turn(self, context: Any, run: Callable[[], Any]) -> Future[Any]:
        """Run what computes SQL when it is the turn of its client: others may not wait for it."""
        return self._queue.submit("condition", self._client_of(context), run)

    def _close(self, responses: Generator[bytes, None, None]) -> None:
        try:
            self._threads.submit(responses.close)
        except RuntimeError:  # the threads have ended
            responses.close()

    # -- on threads ----------------------------------------------------------------------------

    def _create(self, data: bytes, conditions: Conditions | None) -> bytes:
        request = parse_request(_CreateReadSession, data)
        wanted = request.read_session
        project = parse_project(request.parent)
        check_format(wanted)
        count = stream_count(request.max_stream_count, request.preferred_min_stream_count)
        table = self._catalog.table(parse_table(wanted.table)).check_readable()
        options = wanted.read_options
        columns = select(table, options.selected_fields)
        restriction = parse_restriction(options.row_restriction, table.readable, conditions=conditions)
        check_partition_filter(table, () if restriction is None else restriction.columns)
        session = Session(
            table.name,
            table.generation,
            self._snapshot(table, wanted.table_modifiers),
            outline(columns),
            options.row_restriction,
            compression_of(options.arrow_serialization_options),
            restriction.now_micros if restriction else None,
            wanted.data_format,
        )
        reader = self._reader(session, table, restriction) if session.snapshot else None
        location = self._catalog.location_of(table.name).lower()
        # A location may be any text, and a segment of a name may not.
        name = SessionName(project, quote(location, safe="")[:64], encode_session(session, self._store))
        made = _ReadSession(
            name=str(name),
            data_format=wanted.data_format,
            table=str(table.name),
            table_modifiers=wanted.table_modifiers if wanted.HasField("table_modifiers") else None,
            read_options=options if wanted.HasField("read_options") else None,
            trace_id=wanted.trace_id,
        )
        if wanted.data_format == AVRO:
            made.avro_schema.schema = AvroRows(columns).schema
        else:
            made.arrow_schema.serialized_schema = columns.arrow.serialize().to_pybytes()
        made.expire_time.FromDatetime(datetime.now(UTC) + EXPIRES)
        if reader is not None:
            self._add_streams(made, name, reader, count)
        encoded: bytes = made.SerializeToString()
        return encoded

    def _add_streams(
        self, made: Any, name: SessionName, reader: Reader, stream_count: Callable[[int], int]
    ) -> None:
        whole = SnapshotRange(0, reader.plan.rows)
        files = list(reader.files(whole))
        if not files:
            return
        size = sum(file.file.size_bytes for file in files)
        count = stream_count(size)
        shares = [index / count for index in range(1, count)]
        cuts = cut(files, whole, shares, self._row_groups) if shares else []
        for start, stop in pairwise([0, *cuts, whole.stop]):
            made.streams.add(name=name.stream(SnapshotRange(start, stop)))
        made.estimated_row_count = sum(file.rows for file in files)
        made.estimated_total_bytes_scanned = made.estimated_total_physical_file_size = size

    def _snapshot(self, table: TableDefinition, modifiers: Any) -> str:
        """Return the snapshot of the session; empty if the table has none yet."""
        dataset = table.open(self._store)
        moment = parse_snapshot_time(modifiers.snapshot_time) if modifiers.HasField("snapshot_time") else None
        if moment is not None and moment.timestamp() > time.time() + 1:
            raise invalid(
                f"snapshot_time {moment.isoformat()} is in the future: give an earlier one, or "
                "none for the newest rows."
            )
        try:
            newest = next(dataset.history(as_of=moment), None)
        except NoSnapshotsError:
            newest = None
        if newest is None and moment is not None and moment.timestamp() * 1000 < table.created_ms - 1:
            raise invalid(
                f"snapshot_time {moment.isoformat()} is before the table was created: give a later one."
            )
        return newest.id if newest else ""

    def _responses(self, data: bytes, conditions: Conditions | None) -> Generator[bytes, None, None]:
        request = parse_request(_ReadRows, data)
        if request.offset < 0:
            raise invalid(
                f"The offset is {request.offset}: it must not be negative, offsets count rows from 0."
            )
        opened = self._open(request.read_stream, conditions)
        compression = opened.session.compression
        if request.HasField("arrow_serialization_options"):
            compression = compression_of(request.arrow_serialization_options) or compression
        columns = opened.reader.columns
        avro = AvroRows(columns) if opened.session.format == AVRO else None
        is_first = True
        start = 0.0
        with closing(opened.reader.read(opened.rows, request.offset)) as batches:
            for batch, done in batches:
                response = _ReadRowsResponse(row_count=batch.num_rows)
                if avro is not None:
                    response.avro_rows.serialized_binary_rows = avro.encode(batch)
                else:
                    response.arrow_record_batch.serialized_record_batch = encode_batch(batch, compression)
                response.stats.progress.at_response_start = start
                response.stats.progress.at_response_end = start = done
                if is_first and avro is not None:
                    response.avro_schema.schema = avro.schema
                elif is_first:
                    response.arrow_schema.serialized_schema = columns.arrow.serialize().to_pybytes()
                is_first = False
                yield response.SerializeToString()

    def _split(self, data: bytes, conditions: Conditions | None) -> bytes:
        request = parse_request(_SplitReadStream, data)
        if not 0 < request.fraction < 1:
            raise invalid(f"The fraction is {request.fraction}: it must be greater than 0 and less than 1.")
        opened = self._open(request.name, conditions)
        rows = opened.rows
        files = list(opened.reader.files(rows))
        response = _SplitReadStreamResponse()
        middles = cut(files, rows, [request.fraction], self._row_groups)
        for middle in middles or cut_at_row(files, rows, request.fraction):
            response.primary_stream.name = opened.name.stream(rows._replace(stop=middle))
            response.remainder_stream.name = opened.name.stream(rows._replace(start=middle))
        encoded: bytes = response.SerializeToString()
        return encoded

    def _open(self, stream: str, conditions: Conditions | None) -> _OpenStream:
        name, rows = parse_read_stream(stream)
        session = decode_session(name.token, self._store)
        table = self._catalog.table(session.table)
        if table.generation != session.generation:
            raise Refused(
                Code.NOT_FOUND,
                f"Not found: the session's table {table.name.short} was deleted, and created "
                "again since: create another session.",
            )
        restriction = parse_restriction(session.restriction, table.readable, session.now_micros, conditions)
        reader = self._reader(session, table, restriction)
        if rows.stop > reader.plan.rows:
            raise invalid(
                f"Invalid read stream name {shortened(stream)}: its snapshot has fewer rows, use one "
                "that CreateReadSession has returned."
            )
        return _OpenStream(session, name, rows, reader)

    def _reader(self, session: Session, table: TableDefinition, restriction: Restriction | None) -> Reader:
        plan = self._plans.plan(table, session.snapshot)
        columns = follow(table.readable, session.columns)
        return Reader(table, plan, columns, restriction, self._prefetchers)


async def _end(context: Any, error: Exception) -> None:
    """End a call with the status of an error."""
    if context.done():
        return  # the client has disconnected
    if not isinstance(error, Refused):
        _log.error("a read failed", exc_info=error)
    await end_call(context, error if isinstance(error, Refused) else internal(error))
