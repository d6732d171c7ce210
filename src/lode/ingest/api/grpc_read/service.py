"""BigQuery's Storage Read API: sessions over a snapshot of a table, read as Arrow in parallel streams.

The way of a read: ``session.py`` (names that carry everything) → ``plan.py`` (files, and where to
cut them) → ``stream.py`` (rows), with ``selection.py`` (columns) and ``restriction.py``
(conditions).
"""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

import grpc
import grpc.aio
from google.cloud.bigquery_storage_v1 import types

from lode.errors import NoSnapshotsError
from lode.ingest.api.error_details import end_call, internal, parsed
from lode.ingest.api.grpc_read.message import message_of
from lode.ingest.api.grpc_read.plan import Plans, cut, cut_at_row, row_groups
from lode.ingest.api.grpc_read.request import (
    ARROW,
    check_format,
    check_partition_filter,
    compression_of,
    moment_of,
    stream_limit,
)
from lode.ingest.api.grpc_read.restriction import parse_restriction
from lode.ingest.api.grpc_read.selection import follow, outline, select, shown
from lode.ingest.api.grpc_read.session import (
    EXPIRES,
    Session,
    SessionName,
    Span,
    parse_project,
    parse_read_stream,
    remove_expired,
    session_of,
    token_of,
)
from lode.ingest.api.grpc_read.stream import Reader
from lode.ingest.names import parse_table
from lode.ingest.status import Code, Refused, invalid

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

    from lode.ingest.catalog.catalog import Catalog
    from lode.ingest.catalog.table import TableDefinition
    from lode.store.protocol import Store

SERVICE: Final = "google.cloud.bigquery.storage.v1.BigQueryRead"
THREADS: Final = 16
FETCHERS: Final = 32

# The generated classes are made at run time, so that type checkers know nothing of them.
_CreateReadSession: Any = types.CreateReadSessionRequest.pb()
_ReadSession: Any = types.ReadSession.pb()
_ReadRows: Any = types.ReadRowsRequest.pb()
_ReadRowsResponse: Any = types.ReadRowsResponse.pb()
_SplitReadStream: Any = types.SplitReadStreamRequest.pb()
_SplitReadStreamResponse: Any = types.SplitReadStreamResponse.pb()

_log = logging.getLogger(__name__)


class _Opened(NamedTuple):
    """A stream by its name."""

    session: Session
    name: SessionName
    span: Span
    reader: Reader


class ReadService:
    """Serves the tables of a catalog. Keeps nothing but a cache: every server on the store can go on.

    Args:
        catalog: The tables.
        store: Where their rows are.
    """

    def __init__(self, catalog: Catalog, store: Store) -> None:
        self._catalog = catalog
        self._store = store
        self._plans = Plans(store)
        # Its own threads: reads that wait for a slow store must not keep writers waiting.
        self._threads = ThreadPoolExecutor(THREADS, "lode-read")
        self._fetchers = ThreadPoolExecutor(FETCHERS, "lode-fetch")

    def handlers(self) -> grpc.GenericRpcHandler:
        """What a gRPC server of asyncio adds. Messages stay bytes: coding them is left to the threads."""
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
        """Let the threads go; calls that still run end with an error."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._fetchers.shutdown(wait=False, cancel_futures=True)

    def expire(self) -> int:
        """Remove what sessions have left on the store when nobody can read them any more."""
        return remove_expired(self._store, datetime.now(UTC))

    # -- on the event loop ---------------------------------------------------------------------

    def _unary(self, work: Callable[[bytes], bytes]) -> Callable[[bytes, Any], Awaitable[bytes]]:
        async def answer(request: bytes, context: Any) -> bytes:
            try:
                return await asyncio.wrap_future(self._threads.submit(work, request))
            except Exception as error:
                await _end(context, error)
                raise

        return answer

    async def _read_rows(self, request: bytes, context: Any) -> None:
        responses = self._responses(request)
        step = self._threads.submit(next, responses, None)
        try:
            while (response := await asyncio.wrap_future(step)) is not None:
                # One response is made while the one before is sent, as fast as the client takes it.
                step = self._threads.submit(next, responses, None)
                await context.write(response)
        except Exception as error:
            await _end(context, error)
        finally:
            # A generator cannot be closed while a thread is in it.
            step.add_done_callback(lambda _: responses.close())

    # -- in threads ----------------------------------------------------------------------------

    def _create(self, data: bytes) -> bytes:
        request = parsed(_CreateReadSession, data)
        wanted = request.read_session
        project = parse_project(request.parent)
        check_format(wanted)
        at_most = stream_limit(request.max_stream_count, request.preferred_min_stream_count)
        table = self._catalog.table(parse_table(wanted.table))
        options = wanted.read_options
        columns = select(table.schema, options.selected_fields)
        restriction = parse_restriction(options.row_restriction, table.schema)
        check_partition_filter(table, () if restriction is None else restriction.columns)
        session = Session(
            table.name,
            table.generation,
            self._snapshot(table, wanted.table_modifiers),
            outline(columns),
            options.row_restriction,
            compression_of(options.arrow_serialization_options),
            restriction.now_micros if restriction else None,
        )
        location = self._catalog.location_of(table.name).lower()
        # Any text may be a dataset's location, but not a part of a name.
        name = SessionName(project, quote(location, safe="")[:64], token_of(session, self._store))
        made = _ReadSession(
            name=str(name),
            data_format=ARROW,
            table=str(table.name),
            table_modifiers=wanted.table_modifiers if wanted.HasField("table_modifiers") else None,
            read_options=options if wanted.HasField("read_options") else None,
            trace_id=wanted.trace_id,
        )
        made.arrow_schema.serialized_schema = columns.arrow.serialize().to_pybytes()
        made.expire_time.FromDatetime(datetime.now(UTC) + EXPIRES)
        if session.snapshot:
            self._add_streams(made, name, self._reader(session, table), at_most)
        encoded: bytes = made.SerializeToString()
        return encoded

    def _add_streams(
        self, made: Any, name: SessionName, reader: Reader, at_most: Callable[[int], int]
    ) -> None:
        whole = Span(0, reader.plan.rows)
        kept = list(reader.kept(whole))
        if not kept:
            return
        size = sum(piece.file.size_bytes for piece in kept)
        count = at_most(size)
        shares = [index / count for index in range(1, count)]
        cuts = cut(kept, whole, shares, row_groups(self._store)) if shares else []
        ends = [0, *cuts, whole.stop]
        for start, stop in pairwise(ends):
            made.streams.add(name=name.stream(Span(start, stop)))
        made.estimated_row_count = sum(piece.rows for piece in kept)
        made.estimated_total_bytes_scanned = made.estimated_total_physical_file_size = size

    def _snapshot(self, table: TableDefinition, modifiers: Any) -> str:
        """The snapshot that the session stays with; empty if there is none yet."""
        dataset = table.open(self._store)
        moment = moment_of(modifiers.snapshot_time) if modifiers.HasField("snapshot_time") else None
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

    def _responses(self, data: bytes) -> Generator[bytes, None, None]:
        request = parsed(_ReadRows, data)
        if request.offset < 0:
            raise invalid(
                f"The offset is {request.offset}: it must not be negative, offsets count rows from 0."
            )
        opened = self._open(request.read_stream)
        compression = opened.session.compression
        if request.HasField("arrow_serialization_options"):
            compression = compression_of(request.arrow_serialization_options) or compression
        schema: bytes | None = opened.reader.columns.arrow.serialize().to_pybytes()
        start = 0.0
        for batch, done in opened.reader.read(opened.span, request.offset):
            response = _ReadRowsResponse(row_count=batch.num_rows)
            response.arrow_record_batch.serialized_record_batch = message_of(batch, compression)
            response.stats.progress.at_response_start = start
            response.stats.progress.at_response_end = start = done
            if schema is not None:
                response.arrow_schema.serialized_schema = schema
                schema = None
            yield response.SerializeToString()

    def _split(self, data: bytes) -> bytes:
        request = parsed(_SplitReadStream, data)
        if not 0 < request.fraction < 1:
            raise invalid(f"The fraction is {request.fraction}: it must be between 0 and 1, and neither.")
        opened = self._open(request.name)
        response = _SplitReadStreamResponse()
        kept = list(opened.reader.kept(opened.span))
        middles = cut(kept, opened.span, [request.fraction], row_groups(self._store))
        for middle in middles or cut_at_row(kept, opened.span, request.fraction):
            response.primary_stream.name = opened.name.stream(opened.span._replace(stop=middle))
            response.remainder_stream.name = opened.name.stream(opened.span._replace(start=middle))
        encoded: bytes = response.SerializeToString()
        return encoded

    def _open(self, stream: str) -> _Opened:
        name, span = parse_read_stream(stream)
        session = session_of(name.token, self._store)
        table = self._catalog.table(session.table)
        if table.generation != session.generation:
            raise Refused(
                Code.NOT_FOUND,
                f"Not found: the session's table {table.name.short} was deleted, and created "
                "again since: create another session.",
            )
        reader = self._reader(session, table)
        if span.stop > reader.plan.rows:
            raise invalid(
                f"Invalid read stream name {shown(stream)}: its snapshot has fewer rows, use one "
                "that CreateReadSession has returned."
            )
        return _Opened(session, name, span, reader)

    def _reader(self, session: Session, table: TableDefinition) -> Reader:
        return Reader(
            table,
            self._plans.plan(table, session.snapshot),
            follow(table.schema, session.columns),
            parse_restriction(session.restriction, table.schema, session.now_micros),
            self._fetchers,
        )


async def _end(context: Any, error: Exception) -> None:
    """End a call with the status that an error deserves."""
    if context.done():
        return  # the client is gone, which is no failure of the read
    if not isinstance(error, Refused):
        _log.error("a read failed", exc_info=error)
    await end_call(context, error if isinstance(error, Refused) else internal(error))
