"""A cache of row decoders by table and writer's schema, shared by all calls and requests."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, TypeAlias

from cachetools import LRUCache
from google.protobuf.descriptor_pb2 import DescriptorProto
from google.protobuf.message import DecodeError

from lode.ingest.decode.arrow import ArrowRows
from lode.ingest.decode.packed import MAX_UNPACKED_BYTES
from lode.ingest.decode.proto.decoder import ProtoRows
from lode.ingest.status import invalid

if TYPE_CHECKING:
    from lode.ingest.catalog.table import TableDefinition
    from lode.ingest.names import TableName

Decoder: TypeAlias = ArrowRows | ProtoRows

# Of all cached writers' schemas together; a decoder takes up to a hundred times the bytes of its schema.
_MAX_SCHEMA_BYTES: Final = 4 << 20
# A smaller schema counts as this many bytes, which limits the number of decoders to 256.
_MIN_SCHEMA_BYTES: Final = _MAX_SCHEMA_BYTES // 256


class Decoders:
    """An LRU cache of decoders.

    Args:
        max_unpacked_bytes: The memory that the decoded rows of one request may take.
    """

    def __init__(self, max_unpacked_bytes: int = MAX_UNPACKED_BYTES) -> None:
        self._max_unpacked_bytes = max_unpacked_bytes
        # Each with the size it counts for.
        self._kept: LRUCache[tuple[str, TableName, int, int, bytes], tuple[Decoder, int]] = LRUCache(
            _MAX_SCHEMA_BYTES, getsizeof=lambda kept: kept[1]
        )
        self._lock = threading.Lock()

    def find(self, kind: str, definition: TableDefinition, schema: bytes) -> Decoder | None:
        with self._lock:
            found = self._kept.get(_key(kind, definition, schema))
        return None if found is None else found[0]

    def make(self, kind: str, definition: TableDefinition, schema: bytes) -> Decoder:
        """Create a decoder; refuses a writer's schema that does not fit the table."""
        made: Decoder
        if kind == "arrow_rows":
            made = ArrowRows(definition.schema, schema, max_unpacked_bytes=self._max_unpacked_bytes)
        else:
            descriptor = _descriptor(schema)
            made = ProtoRows(definition.schema, descriptor, max_unpacked_bytes=self._max_unpacked_bytes)
        size = min(max(len(schema), _MIN_SCHEMA_BYTES), _MAX_SCHEMA_BYTES)
        with self._lock:
            self._kept[_key(kind, definition, schema)] = (made, size)
        return made


def _key(kind: str, definition: TableDefinition, schema: bytes) -> tuple[str, TableName, int, int, bytes]:
    return kind, definition.name, definition.generation, definition.version, schema


def _descriptor(schema: bytes) -> DescriptorProto:
    try:
        return DescriptorProto.FromString(schema)
    except DecodeError:
        raise invalid("The writer_schema's proto_descriptor cannot be read.", ends_call=True) from None
