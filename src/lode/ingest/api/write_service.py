"""The Storage Write API over gRPC: six methods on the engine, on one event loop.

A call needs no thread, so thousands of idle calls cost almost nothing. Work that waits for a disk or a store
runs on threads. Requests of one call are accepted and answered in order, and the next one is decoded while
the previous ones are made durable.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

import grpc
from google.cloud.bigquery_storage_v1 import types
from google.protobuf.timestamp_pb2 import Timestamp

from lode.ingest.api.append_call import AcceptedAppend, AppendCall, is_light, request_weight
from lode.ingest.api.audit import Audit
from lode.ingest.api.errors import code_of, end_call, internal, parse_request, status_of, storage_error
from lode.ingest.core.decoders import Decoders
from lode.ingest.core.limits import Window
from lode.ingest.core.strategies import StreamType
from lode.ingest.names import parse_stream, parse_table
from lode.ingest.status import Code, Refused, StorageCode, invalid, not_found
from lode.ingest.types.wire import to_wire
from lode.store.protocol import is_nearby

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from lode.ingest.core.engine import Engine
    from lode.ingest.core.streams import Stream
    from lode.ingest.types.columns import TableSchema

SERVICE: Final = "google.cloud.bigquery.storage.v1.BigQueryWrite"
# Of one call.
_MAX_UNANSWERED_REQUESTS: Final = 256

# Clients accept responses of 4 MB. Row errors that do not fit are omitted.
_MAX_ROW_ERROR_BYTES: Final = 2 << 20
# Of one call; with more, lines are written before its end.
_MAX_AUDITED_STREAMS: Final = 100
# More row errors are encoded on a thread.
_MAX_INLINE_ROW_ERRORS: Final = 1_000

logger = logging.getLogger("lode.ingest")
T = TypeVar("T")

_STOPPING: Final = Refused(Code.UNAVAILABLE, "The server is stopping: connect again.", ends_call=True)

_Response: Any = types.AppendRowsResponse.pb()
_WriteStream: Any = types.WriteStream.pb()
_VIEWS: Final = types.GetWriteStreamRequest.pb().DESCRIPTOR.fields_by_name["view"].enum_type.values_by_number
_FULL: Final = int(types.WriteStreamView.FULL)
_WRITE_MODES: Final = _WriteStream.DESCRIPTOR.fields_by_name["write_mode"].enum_type.values_by_number
_FIELDS_ERROR: Final = int(types.RowError.RowErrorCode.FIELDS_ERROR)


class WriteService:
    """Serves ``BigQueryWrite`` on an engine.

    Args:
        engine: The tables and streams.
        client_of: The name of the client of a call.
        audit: Records changes.
    """

    def __init__(
        self,
        engine: Engine,
        client_of: Callable[[Any], str] = lambda _context: "",
        audit: Audit | None = None,
    ) -> None:
        self._engine = engine
        self._client_of = client_of
        self._audit = audit or Audit()
        self._metrics = engine.metrics
        self._decoders = Decoders(engine.settings.unpacked_bytes)
        # Requests acquire the first before the second, never the other way round.
        self._window = Window(engine.settings.window_bytes)
        self._unpacked = Window(engine.settings.window_bytes)
        self._nearby = is_nearby(engine.store)
        self._readers: set[asyncio.Task[None]] = set()
        self._draining = False

    def handlers(self) -> grpc.GenericRpcHandler:
        """Return the handlers for a ``grpc.aio`` server."""
        of = self._unary
        methods = {
            "AppendRows": grpc.stream_stream_rpc_method_handler(self._append_rows),
            "CreateWriteStream": of(self._create, types.CreateWriteStreamRequest),
            "GetWriteStream": of(self._get, types.GetWriteStreamRequest, changes=False),
            "FinalizeWriteStream": of(self._finalize, types.FinalizeWriteStreamRequest),
            "BatchCommitWriteStreams": of(self._batch_commit, types.BatchCommitWriteStreamsRequest),
            "FlushRows": of(self._flush, types.FlushRowsRequest),
        }
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    def drain(self) -> None:
        """Accept no more requests. Accepted ones are answered, then the calls end with UNAVAILABLE."""
        self._draining = True
        for reader in self._readers:
            reader.cancel()

    # -- appends -------------------------------------------------------------------------------

    async def _append_rows(self, _: Any, context: Any) -> None:
        answers = _Answers()
        reader = asyncio.create_task(self._read(context, answers))
        stored = _Stored(self._audit, self._client_of(context))
        self._metrics.calls.inc()
        last: Refused | None = None
        try:
            last = await self._answer(context, answers, stored)
        finally:
            reader.cancel()
            self._metrics.calls.dec()
            stored.end(last)
        if last is not None:
            self._metrics.refused("AppendRows", last.code)
            await end_call(context, _reworded(last))

    async def _read(self, context: Any, answers: _Answers) -> None:
        """Accept requests until the client is done, one of them ends the call, or the server stops."""
        call = AppendCall(self._engine, self._decoders, self._unpacked, nearby=self._nearby)
        end: Refused | None = _STOPPING if self._draining else None
        # Registered by itself: a task cancelled before its start would never put the end of the call.
        task = asyncio.current_task()
        assert task is not None
        self._readers.add(task)
        task.add_done_callback(self._readers.discard)
        try:
            while end is None and await answers.has_room():
                data = await context.read()
                if data is grpc.aio.EOF:
                    break
                end = await self._accept(call, data, answers)
                del data  # an idle call must not hold on to its last request
        except asyncio.CancelledError:
            if not self._draining:
                raise
            end = _STOPPING
        except Exception as error:
            logger.exception("an AppendRows call failed")
            end = internal(error)
        answers.put(end)

    async def _accept(self, call: AppendCall, data: bytes, answers: _Answers) -> Refused | None:
        """Accept one request; returns the refusal if it ends the call."""
        light = is_light(data)
        size = request_weight(data) if light else await asyncio.to_thread(request_weight, data)
        await self._window.enter(size)
        try:
            accepted = await call.accept(data, light=light)
        except BaseException as error:
            self._window.leave(size)
            if not isinstance(error, Refused):
                raise
            if error.ends_call:
                return error
            error.stream = call.name
            answers.put(error)
            return None
        unpacked = accepted.unpacked

        def leave(_: object) -> None:
            self._unpacked.leave(unpacked)
            self._window.leave(size)

        # The rows are in memory until they are stored, also if the client disconnects.
        accepted.answer.add_done_callback(leave)
        answers.put(accepted)
        return None

    async def _answer(self, context: Any, answers: _Answers, stored: _Stored) -> Refused | None:
        """Send the answers in the order of the requests; returns the refusal that ends the call."""
        while True:
            item = await answers.get()
            if item is None or (isinstance(item, Refused) and item.ends_call):
                return item
            if isinstance(item, Refused):
                answer = (await self._refused(item, item.stream)).SerializeToString()
            else:
                try:
                    if not item.answer.done():
                        await asyncio.wrap_future(item.answer)
                    answer = _stored(item.name, item.answer.result())
                    self._metrics.appended(item.stream.type, item.rows, item.size)
                    stored.add(item.name, item.rows)
                except Refused as refusal:
                    if refusal.ends_call:
                        return refusal
                    answer = (await self._refused(refusal, item.name)).SerializeToString()
                if item.schema is not None:
                    # Messages that follow each other are merged.
                    answer += await asyncio.to_thread(_updated, item.schema)
            await context.write(answer)

    async def _refused(self, refusal: Refused, name: str) -> Any:
        if len(refusal.rows) <= _MAX_INLINE_ROW_ERRORS:
            return self._refusal(refusal, name)
        return await asyncio.to_thread(self._refusal, refusal, name)

    def _refusal(self, refusal: Refused, name: str) -> Any:
        self._metrics.refused("AppendRows", refusal.code)
        response = _Response(write_stream=name, error=status_of(refusal))
        room = _MAX_ROW_ERROR_BYTES
        for row in refusal.rows:
            room -= len(row.message) + 16
            if room < 0:
                break  # the error's message has the number of bad rows
            response.row_errors.add(index=row.index, code=_FIELDS_ERROR, message=row.message)
        return response

    # -- the other methods, on threads ---------------------------------------------------------------------

    def _create(self, request: Any, client: str) -> Any:
        table = parse_table(request.parent)
        if request.write_stream.type_ not in (1, 2, 3):
            raise invalid("The write_stream has no type: choose COMMITTED, PENDING or BUFFERED.")
        if request.write_stream.write_mode not in _WRITE_MODES:
            raise invalid(f"The write_mode {request.write_stream.write_mode} is not known: use INSERT.")
        stream = self._engine.create_stream(table, StreamType(request.write_stream.type_), client)
        described = _described(stream, str(stream.name))
        described.table_schema.CopyFrom(to_wire(stream.writer.open()[0].schema))
        return described

    def _get(self, request: Any, _client: str) -> Any:
        if request.view not in _VIEWS:
            raise invalid(f"The view {request.view} is not known: use BASIC or FULL.")
        stream, definition = self._engine.open_stream(parse_stream(request.name))
        described = _described(stream, request.name)
        # Clients that share a connection choose it by this location. The service writes it in lower case.
        described.location = self._engine.catalog.location_of(stream.name.table).lower()
        if request.view == _FULL:
            described.table_schema.CopyFrom(to_wire(definition.schema))
        return described

    def _finalize(self, request: Any, _client: str) -> Any:
        rows = self._engine.finalize(parse_stream(request.name))
        return types.FinalizeWriteStreamResponse.pb()(row_count=rows)

    def _flush(self, request: Any, _client: str) -> Any:
        name = parse_stream(request.write_stream)
        if not request.HasField("offset"):
            # Refuse the wrong type of stream first: that is the mistake the client has to fix.
            stream = self._engine.stream(name)
            stream.strategy.flush_end(stream.position, 0)
            raise invalid("FlushRows names no offset: give that of the last row to show.")
        offset = self._engine.flush(name, request.offset.value)
        return types.FlushRowsResponse.pb()(offset=offset)

    def _batch_commit(self, request: Any, _client: str) -> Any:
        names = [parse_stream(name) for name in request.write_streams]
        outcome = self._engine.batch_commit(parse_table(request.parent), names)
        response = types.BatchCommitWriteStreamsResponse.pb()()
        if outcome.at is not None:
            response.commit_time.CopyFrom(_timestamp(outcome.at))
        response.stream_errors.extend(filter(None, map(storage_error, outcome.problems)))
        return response

    def _unary(
        self, method: Callable[[Any, str], Any], request_type: Any, *, changes: bool = True
    ) -> grpc.RpcMethodHandler[Any, Any]:
        """Make a handler that runs a method on a thread. A refusal becomes the status of the call."""
        name = request_type.__name__.removesuffix("Request")

        def work(data: bytes, client: str) -> bytes:
            target, result = "", "OK"
            try:
                request = parse_request(request_type.pb(), data)
                target = _target(request)
                response: bytes = method(request, client).SerializeToString()
                return response
            except BaseException as error:
                result = code_of(error).name
                raise
            finally:
                if changes:
                    self._audit.change(client, name, target, result)

        async def answer(data: bytes, context: Any) -> bytes:
            try:
                return await asyncio.to_thread(work, data, self._client_of(context))
            except Refused as refusal:
                refused = refusal
            except Exception as error:
                logger.exception("%s failed", name)
                refused = internal(error)
            self._metrics.refused(name, refused.code)
            await end_call(context, _reworded(refused))
            raise AssertionError("end_call does not return")

        return grpc.unary_unary_rpc_method_handler(answer)


def _target(request: Any) -> str:
    """The table or the stream of a request."""
    for field in ("parent", "name", "write_stream"):
        found = getattr(request, field, "")
        if found:
            return str(found)
    return ""


class _Stored:
    """The rows that one call has stored, for the audit log: a line for the first ones, and one for all."""

    def __init__(self, audit: Audit, client: str) -> None:
        self._audit = audit
        self._client = client
        self._rows: Counter[str] = Counter()

    def add(self, stream: str, rows: int) -> None:
        if stream not in self._rows:
            if len(self._rows) >= _MAX_AUDITED_STREAMS:
                self.end(None)
            self._audit.change(self._client, "AppendRows", stream, "OK", rows=rows, begins=True)
        self._rows[stream] += rows

    def end(self, refusal: Refused | None) -> None:
        result = "OK" if refusal is None else refusal.code.name
        for stream, rows in self._rows.items():
            self._audit.change(self._client, "AppendRows", stream, result, rows=rows)
        if refusal is not None and not self._rows:
            self._audit.change(self._client, "AppendRows", refusal.entity, result)
        self._rows.clear()


class _Answers:
    """The answers of a call, in the order of its requests; None ends the call."""

    def __init__(self) -> None:
        self._room = asyncio.Semaphore(_MAX_UNANSWERED_REQUESTS)
        self._queue: asyncio.Queue[AcceptedAppend | Refused | None] = asyncio.Queue()

    async def has_room(self) -> bool:
        """Wait until another request may be accepted; its answer is then put without waiting."""
        return await self._room.acquire()

    def put(self, answer: AcceptedAppend | Refused | None) -> None:
        self._queue.put_nowait(answer)

    async def get(self) -> AcceptedAppend | Refused | None:
        answer = await self._queue.get()
        self._room.release()
        return answer


@lru_cache(1024)
def _stored(name: str, offset: int | None) -> bytes:
    """The answer to an append that is stored; those of the default stream are all the same."""
    response = _Response(write_stream=name)
    response.append_result.SetInParent()
    if offset is not None:
        response.append_result.offset.value = offset
    return bytes(response.SerializeToString())


def _updated(schema: TableSchema) -> bytes:
    return bytes(_Response(updated_schema=to_wire(schema)).SerializeToString())


def _described(stream: Stream, name: str) -> Any:
    """Return the fields of a stream that every view has."""
    kind = StreamType.COMMITTED if stream.type is StreamType.DEFAULT else stream.type
    described = _WriteStream(name=name, type_=kind.value, create_time=_timestamp(stream.created))
    committed = stream.created if kind is StreamType.COMMITTED else stream.committed_at
    if committed is not None:
        described.commit_time.CopyFrom(_timestamp(committed))
    return described


def _reworded(refusal: Refused) -> Refused:
    """Use the Storage Write API's message for a missing table, which differs from that of REST."""
    if refusal.storage is StorageCode.TABLE_NOT_FOUND:
        return not_found(refusal.entity, StorageCode.TABLE_NOT_FOUND)
    return refusal


def _timestamp(moment: datetime) -> Timestamp:
    stamp = Timestamp()
    stamp.FromDatetime(moment)
    return stamp
