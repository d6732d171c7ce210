"""One AppendRows call: what it remembers from request to request, and how a request becomes an append."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

from google.cloud.bigquery_storage_v1 import types

from lode.ingest.names import parse_stream
from lode.ingest.status import Code, Refused, StorageCode, invalid
from lode.ingest.streams import Underway

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    import pyarrow as pa

    from lode.ingest.catalog.table import TableDefinition
    from lode.ingest.decoders import Decoders
    from lode.ingest.engine import Engine
    from lode.ingest.rows.arrow import ArrowRows
    from lode.ingest.rows.proto import ProtoRows
    from lode.ingest.schema.columns import TableSchema
    from lode.ingest.streams import Stream

T = TypeVar("T")
Request: Any = types.AppendRowsRequest.pb()
_INTERPRETATIONS: Final = Request.DESCRIPTOR.enum_types_by_name["MissingValueInterpretation"].values_by_name
_NULL_VALUE: Final = _INTERPRETATIONS["NULL_VALUE"].number
_DEFAULT_VALUE: Final = _INTERPRETATIONS["DEFAULT_VALUE"].number

# Below this a batch is decoded sooner than a thread could be handed it.
_DECODED_HERE: Final = 256 << 10


class Remembered:
    """What a call knows of one of its streams: the writer's schema, and which schema the client has seen."""

    __slots__ = ("arrow_schema", "proto_schema", "seen_schema")

    def __init__(self) -> None:
        self.arrow_schema: bytes | None = None
        self.proto_schema: bytes | None = None
        self.seen_schema: TableSchema | None = None


class Taken:
    """An append that was accepted, and what its response will say besides."""

    __slots__ = ("answer", "name", "rows", "schema", "size", "stream")

    def __init__(self, stream: Stream, name: str, rows: int, size: int, answer: Future[int | None]) -> None:
        self.stream = stream
        self.name = name
        self.rows = rows
        self.size = size
        self.answer = answer
        # The table's schema, when it has changed since the client last heard of it.
        self.schema: Any = None


class AppendCall:
    """Takes the requests of one call, in their order."""

    def __init__(self, engine: Engine, decoders: Decoders, *, nearby: bool) -> None:
        self._engine = engine
        self._decoders = decoders
        self._nearby = nearby
        self._streams: dict[str, Remembered] = {}
        self._latest = Remembered()
        self._default_interpretation = 0
        # The stream of the latest request, as the client calls it.
        self.name = ""

    async def take(self, data: bytes) -> Taken:
        """Accept one request; refuses what cannot be."""
        request = self._parse(data)
        name = request.write_stream or self.name
        if not name:
            raise invalid("The first request of a call names no write_stream.", ends_call=True)
        parsed = parse_stream(name)
        if name not in self._streams or not self._nearby:
            stream = await asyncio.to_thread(self._engine.stream, parsed)
        else:
            stream = self._engine.stream(parsed)
        self.name = name
        remembered = self._streams.setdefault(name, Remembered())
        if request.default_missing_value_interpretation:
            self._default_interpretation = _interpretation(request.default_missing_value_interpretation)
        offset = request.offset.value if request.HasField("offset") else None
        kind = request.WhichOneof("rows")
        if kind is None:
            raise invalid("The request has no rows: set arrow_rows or proto_rows.")
        self._remember(request, kind, remembered)
        definition, _ = stream.writer.open()
        if remembered.seen_schema is None:
            remembered.seen_schema = definition.schema
        decoder = await self._decoder(kind, remembered, definition, stream)
        await _settled(lambda: stream.check(offset))
        batch = await self._decode(request, kind, decoder, definition, len(data))
        if not batch.num_rows:
            raise invalid("The request has no rows: an append needs at least one.")
        answer = await _settled(lambda: stream.append(batch, offset))
        taken = Taken(stream, name, batch.num_rows, len(data), answer)
        # A table has a new version for a new label too; the client asks for its columns only.
        if remembered.seen_schema is not definition.schema:
            if remembered.seen_schema != definition.schema:
                taken.schema = definition.schema
            remembered.seen_schema = definition.schema
        return taken

    def _parse(self, data: bytes) -> Any:
        limit = self._engine.settings.request_bytes
        if len(data) > limit:
            raise invalid(
                f"The request has {len(data):,} bytes, the limit is {limit:,}: send fewer rows at a time.",
                ends_call=True,
            )
        try:
            return Request.FromString(data)
        except Exception:
            raise invalid("The request is not an AppendRowsRequest.", ends_call=True) from None

    def _remember(self, request: Any, kind: str, remembered: Remembered) -> None:
        """Keep the writer's schema: later requests leave it out."""
        if kind == "arrow_rows":
            if request.arrow_rows.HasField("writer_schema"):
                schema = request.arrow_rows.writer_schema.serialized_schema
                remembered.arrow_schema = self._latest.arrow_schema = schema
            elif remembered.arrow_schema is None:
                remembered.arrow_schema = self._latest.arrow_schema
        elif request.proto_rows.HasField("writer_schema"):
            schema = request.proto_rows.writer_schema.proto_descriptor.SerializeToString()
            remembered.proto_schema = self._latest.proto_schema = schema
        elif remembered.proto_schema is None:
            remembered.proto_schema = self._latest.proto_schema

    async def _decoder(
        self, kind: str, remembered: Remembered, definition: TableDefinition, stream: Stream
    ) -> ArrowRows | ProtoRows:
        schema = remembered.arrow_schema if kind == "arrow_rows" else remembered.proto_schema
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

    async def _decode(
        self, request: Any, kind: str, decoder: Any, definition: TableDefinition, size: int
    ) -> pa.RecordBatch:
        if kind == "arrow_rows":
            rows: Any = request.arrow_rows.rows.serialized_record_batch
        else:
            rows = list(request.proto_rows.rows.serialized_rows)
        if not rows:
            raise invalid("The request has no rows: an append needs at least one.")
        defaults = self._defaults(request, definition, decoder.defaulted)
        batch: pa.RecordBatch
        if size <= _DECODED_HERE:
            batch = decoder.decode(rows, defaults)
        else:
            batch = await asyncio.to_thread(decoder.decode, rows, defaults)
        return batch

    def _defaults(
        self, request: Any, definition: TableDefinition, defaulted: frozenset[str]
    ) -> frozenset[str]:
        """The columns whose missing values become their defaults.

        Those that the writer's schema lacks do, as in the live service; interpretations are about columns of
        the writer's schema that a row leaves out.
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


async def _settled(act: Callable[[], T]) -> T:
    """Act when it is known what is there: a client that lost its connection tries again at once."""
    while True:
        try:
            return act()
        except Underway as underway:
            until = underway.until
        with suppress(Refused):  # told to whoever sent it
            await asyncio.wrap_future(until)


def _interpretation(number: int) -> int:
    """A ``MissingValueInterpretation``, or a refusal of a number that is none."""
    if number not in (_NULL_VALUE, _DEFAULT_VALUE):
        raise invalid(f"Missing value interpretation {number} is not known: use NULL_VALUE or DEFAULT_VALUE.")
    return number
