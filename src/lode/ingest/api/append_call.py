"""One AppendRows call: its state between requests, and the steps from a request to an append."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from google.cloud.bigquery_storage_v1 import types

from lode.ingest.api.errors import parse_request
from lode.ingest.core.strategies import StreamType
from lode.ingest.core.streams import AppendInFlight
from lode.ingest.names import parse_stream
from lode.ingest.status import Code, Refused, StorageCode, invalid
from lode.ingest.types.changes import CHANGE_TYPE, INSERT, is_changes

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    import pyarrow as pa

    from lode.ingest.catalog.table import TableDefinition
    from lode.ingest.core.decoders import Decoder, Decoders
    from lode.ingest.core.engine import Engine
    from lode.ingest.core.limits import Window
    from lode.ingest.core.streams import Stream
    from lode.ingest.decode.packed import PackedRows
    from lode.ingest.types.columns import TableSchema

T = TypeVar("T")
Request: Any = types.AppendRowsRequest.pb()
_INTERPRETATIONS: Final = Request.DESCRIPTOR.enum_types_by_name["MissingValueInterpretation"].values_by_name
_NULL_VALUE: Final = _INTERPRETATIONS["NULL_VALUE"].number
_DEFAULT_VALUE: Final = _INTERPRETATIONS["DEFAULT_VALUE"].number

# A request below all of these is decoded on the event loop: that takes less time than a switch to a thread.
_MAX_INLINE_BYTES: Final = 256 << 10
_MAX_INLINE_ROWS: Final = 2048
_MAX_INLINE_COLUMNS: Final = 200
_MAX_INLINE_BATCH_BYTES: Final = 1 << 20
_MAX_INLINE_SLOW_VALUES: Final = 2_000

# Enough for ten thousand columns with names of 300 characters. A call keeps the schema while it is open.
MAX_SCHEMA_BYTES: Final = 4 << 20

_PROTO_ROWS: Final = Request.DESCRIPTOR.fields_by_name["proto_rows"].number
# Wire types of Protobuf: a number, and bytes after their length.
_VARINT: Final = 0
_LENGTH: Final = 2
_MAX_PLAIN_FIELDS: Final = 16

# Memory of a serialized row besides its bytes: in the parsed request, and as an object.
_ROW_OVERHEAD_BYTES: Final = 64


def request_weight(data: bytes) -> int:
    """Return an upper bound of the memory of the parsed request.

    Each row has at least two bytes on the wire and begins with one of these two tags of field 1.
    """
    if not _may_have_rows(data):
        return len(data)
    return len(data) + _ROW_OVERHEAD_BYTES * (data.count(b"\x0a") + data.count(b"\x8a"))


def is_light(data: bytes) -> bool:
    """Return whether weighing and parsing the request takes less time than a switch to a thread.

    To the parser, Arrow rows are one bytes value, and each Protobuf row is an object.
    """
    return len(data) <= _MAX_INLINE_BYTES or not _may_have_rows(data)


def _may_have_rows(data: bytes) -> bool:
    """Return False if the outermost fields prove that the request has no Protobuf rows."""
    at = 0
    for _ in range(_MAX_PLAIN_FIELDS):
        if at >= len(data):
            return at > len(data)
        number, kind = data[at] >> 3, data[at] & 7
        # Field numbers from 16 on have a tag of two bytes. No field of a request has such a number.
        if number == _PROTO_ROWS or number > 15 or kind not in (_VARINT, _LENGTH):
            return True
        length = shift = 0
        while True:
            at += 1
            if at >= len(data) or shift > 28:
                return True
            length |= (data[at] & 0x7F) << shift
            shift += 7
            if data[at] < 0x80:
                break
        at += 1 + (length if kind == _LENGTH else 0)
    return True


class _Request(NamedTuple):
    """A request, parsed without its table."""

    message: Any
    kind: str
    # The writer's schema, if the request has it.
    schema: bytes | None
    rows: Any
    bytes: int
    is_small: bool

    def decode(self, packed: PackedRows) -> pa.RecordBatch:
        """Decode and release the rows here: freeing a million objects would block the event loop."""
        try:
            return packed.decode()
        finally:
            if isinstance(self.rows, list):
                self.rows.clear()


class StreamSchemas:
    """The schemas of one stream: the writer's by kind of rows, and the table's that the client has seen."""

    __slots__ = ("changes", "seen", "writer")

    def __init__(self) -> None:
        self.writer: dict[str, bytes] = {}
        self.seen: TableSchema | None = None
        # Whether the rows of this call are changes; None before its first rows.
        self.changes: bool | None = None


@dataclass(slots=True)
class AcceptedAppend:
    """An accepted append, and the values for its response."""

    stream: Stream
    name: str
    rows: int
    size: int
    # What it holds of the window of unpacked rows.
    unpacked: int
    answer: Future[int | None]
    # The table's schema, if it differs from the last one that the client has seen on this stream.
    schema: TableSchema | None = None


class AppendCall:
    """Accepts the requests of one call, in their order.

    Args:
        engine: The engine that stores the rows.
        decoders: The decoders, shared by all calls.
        unpacked: Bounds the memory of rows, from before they are unpacked until they are stored. An accepted
            append is still inside.
        nearby: Whether the store needs no network, so that the event loop may call it.
    """

    def __init__(self, engine: Engine, decoders: Decoders, unpacked: Window, *, nearby: bool) -> None:
        self._engine = engine
        self._decoders = decoders
        self._unpacked = unpacked
        self._nearby = nearby
        self._streams: dict[str, StreamSchemas] = {}
        # The latest schema for each kind of rows: a new stream of the call may omit it.
        self._latest: dict[str, bytes] = {}
        self._default_interpretation = 0
        # The stream of the latest request, by the client's name for it.
        self.name = ""

    async def accept(self, data: bytes, *, light: bool) -> AcceptedAppend:
        """Accept one request, or refuse it. ``light`` is the result of ``is_light``."""
        self._check_size(data)
        sent = _read(data) if light else await asyncio.to_thread(_read, data)
        del data
        request = sent.message
        name = request.write_stream or self.name
        if not name:
            raise invalid("The first request of a call names no write_stream.", ends_call=True)
        parsed = parse_stream(name)
        if name not in self._streams or not self._nearby:
            stream, definition = await asyncio.to_thread(self._engine.open_stream, parsed)
        else:
            stream, definition = self._engine.open_stream(parsed)
        self.name = name
        schemas = self._streams.setdefault(name, StreamSchemas())
        if request.default_missing_value_interpretation:
            self._default_interpretation = _interpretation(request.default_missing_value_interpretation)
        offset = request.offset.value if request.HasField("offset") else None
        if not sent.kind:
            raise invalid("The request has no rows: set arrow_rows or proto_rows.")
        if sent.schema is not None:
            # Later requests omit it.
            schemas.writer[sent.kind] = self._latest[sent.kind] = sent.schema
        elif sent.kind in self._latest:
            schemas.writer.setdefault(sent.kind, self._latest[sent.kind])
        if schemas.seen is None:
            schemas.seen = definition.schema
        decoder = await self._decoder(sent.kind, schemas, definition, stream)
        await _when_settled(lambda: stream.check(offset))
        if not sent.rows:
            raise invalid("The request has no rows: an append needs at least one.")
        wide = decoder.columns > _MAX_INLINE_COLUMNS
        is_small = sent.is_small and not wide
        packed = await self._open(sent, decoder, definition, wide=wide)
        size = packed.unpacked_bytes
        await self._unpacked.enter(size)
        try:
            inline = is_small and _is_quick(packed)
            batch = packed.decode() if inline else await asyncio.to_thread(sent.decode, packed)
            if not batch.num_rows:
                raise invalid("The request has no rows: an append needs at least one.")
            _check_changes(stream, schemas, batch)
            answer = await _when_settled(lambda: stream.append(batch, offset), on_a_thread=wide)
        except BaseException:
            self._unpacked.leave(size)
            raise
        accepted = AcceptedAppend(stream, name, batch.num_rows, sent.bytes, size, answer)
        # A new label also makes a new version of a table; clients need to know about new columns only.
        if schemas.seen is not definition.schema:
            if schemas.seen != definition.schema:
                accepted.schema = definition.schema
            schemas.seen = definition.schema
        return accepted

    def _check_size(self, data: bytes) -> None:
        limit = self._engine.settings.request_bytes
        if len(data) > limit:
            raise invalid(
                f"The request has {len(data):,} bytes, the limit is {limit:,}: send fewer rows at a time.",
                ends_call=True,
            )

    async def _decoder(
        self, kind: str, schemas: StreamSchemas, definition: TableDefinition, stream: Stream
    ) -> Decoder:
        schema = schemas.writer.get(kind)
        if schema is None:
            raise invalid(
                f"The request has {kind} without a writer_schema, and none was sent before it on this call.",
                ends_call=True,
            )
        try:
            found = self._decoders.find(kind, definition, schema)
            if found is None:
                found = await asyncio.to_thread(self._decoders.make, kind, definition, schema)
            return found
        except Refused as refusal:
            if refusal.storage is StorageCode.SCHEMA_MISMATCH_EXTRA_FIELDS and not refusal.entity:
                refusal.entity = str(stream.name)
            raise

    async def _open(
        self, sent: _Request, decoder: Any, definition: TableDefinition, *, wide: bool
    ) -> PackedRows:
        def work() -> PackedRows:
            packed: PackedRows = decoder.open(
                sent.rows, self._defaults(sent.message, definition, decoder.defaulted)
            )
            return packed

        # The size of Arrow rows is in their metadata; Protobuf rows are scanned.
        inline = not wide and (sent.is_small or sent.kind == "arrow_rows")
        return work() if inline else await asyncio.to_thread(work)

    def _defaults(
        self, request: Any, definition: TableDefinition, defaulted: frozenset[str]
    ) -> frozenset[str]:
        """Return the columns whose missing values become their defaults.

        Columns that the writer's schema lacks get their defaults, as in the live service. Interpretations
        concern columns of the writer's schema that a row omits.
        """
        named = request.missing_value_interpretations
        everywhere = self._default_interpretation == _DEFAULT_VALUE
        if not named and not everywhere:
            return defaulted
        columns = {column.name.lower(): column for column in definition.schema.columns}
        chosen = {
            name
            for name, column in columns.items()
            if column.default and (everywhere or column.name in defaulted)
        }
        for name, interpretation in named.items():
            column = columns.get(name.lower())
            if column is None:
                raise Refused(
                    Code.INVALID_ARGUMENT,
                    f"missing_value_interpretations names {name!r}, "
                    f"which table {definition.name} does not have.",
                )
            if _interpretation(interpretation) == _DEFAULT_VALUE and column.default:
                chosen.add(name.lower())
            else:
                chosen.discard(name.lower())
        return frozenset(columns[name].name for name in chosen)


def _check_changes(stream: Stream, schemas: StreamSchemas, batch: pa.RecordBatch) -> None:
    """Refuse changes on another stream than the default one, and a call with changes and inserted rows.

    The messages are those of the service.
    """
    changes = is_changes(batch)
    allowed = stream.type is StreamType.DEFAULT if schemas.changes is None else schemas.changes
    if changes and not allowed:
        kind = batch.column(CHANGE_TYPE)[0].as_py()
        raise invalid(f"The given value is not a valid CHANGE_TYPE in insert mode: {kind}")
    if not changes and schemas.changes:
        raise invalid(f"The given value is not a valid CHANGE_TYPE in upsert mode: {INSERT}")
    schemas.changes = changes


def _is_quick(packed: PackedRows) -> bool:
    return packed.unpacked_bytes <= _MAX_INLINE_BATCH_BYTES and packed.slow_values <= _MAX_INLINE_SLOW_VALUES


def _read(data: bytes) -> _Request:
    """Parse a request, and extract its schema and rows."""
    message = parse_request(Request, data, ends_call=True)
    kind = message.WhichOneof("rows") or ""
    schema: bytes | None = None
    rows: Any = None
    is_small = len(data) <= _MAX_INLINE_BYTES
    if kind == "arrow_rows":
        if message.arrow_rows.HasField("writer_schema"):
            schema = message.arrow_rows.writer_schema.serialized_schema
        rows = message.arrow_rows.rows.serialized_record_batch
    elif kind == "proto_rows":
        if message.proto_rows.HasField("writer_schema"):
            # Partial: unused options may lack fields that proto2 requires.
            schema = message.proto_rows.writer_schema.proto_descriptor.SerializePartialToString()
        rows = list(message.proto_rows.rows.serialized_rows)
        is_small = is_small and len(rows) <= _MAX_INLINE_ROWS
    if schema is not None and len(schema) > MAX_SCHEMA_BYTES:
        raise invalid(
            f"The writer_schema has {len(schema):,} bytes, the limit is {MAX_SCHEMA_BYTES:,}: "
            "leave out columns that are not sent.",
            ends_call=True,
        )
    return _Request(message, kind, schema, rows, len(data), is_small)


async def _when_settled(act: Callable[[], T], *, on_a_thread: bool = False) -> T:
    """Act after appends at the same offset have ended: a client that lost its connection retries at once."""
    while True:
        try:
            return await asyncio.to_thread(act) if on_a_thread else act()
        except AppendInFlight as append:
            until = append.until
        with suppress(Refused):  # the failed request has its own response
            await asyncio.wrap_future(until)


def _interpretation(number: int) -> int:
    """Return a ``MissingValueInterpretation``, or refuse an unknown number."""
    if number not in (_NULL_VALUE, _DEFAULT_VALUE):
        raise invalid(f"Missing value interpretation {number} is not known: use NULL_VALUE or DEFAULT_VALUE.")
    return number
