"""A cache of row decoders by table and writer's schema, shared by all calls and requests."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from google.protobuf.descriptor_pb2 import DescriptorProto
from google.protobuf.message import DecodeError

from lode.ingest.decode.arrow import ArrowRows
from lode.ingest.decode.packed import MAX_UNPACKED_BYTES
from lode.ingest.decode.proto.decoder import ProtoRows
from lode.ingest.status import invalid

if TYPE_CHECKING:
    from lode.ingest.catalog.table import TableDefinition
    from lode.ingest.names import TableName

_MAX_DECODERS: Final = 256
# Of all writers' schemas together; a decoder takes up to a hundred times the bytes of its schema.
_MAX_SCHEMA_BYTES: Final = 4 << 20


class Decoders:
    """An LRU cache of decoders.

    Args:
        max_unpacked_bytes: The memory that the decoded rows of one request may take.
    """

    def __init__(self, max_unpacked_bytes: int = MAX_UNPACKED_BYTES) -> None:
        self._max_unpacked_bytes = max_unpacked_bytes
        self._bytes = 0
        self._kept: OrderedDict[tuple[str, TableName, int, int, bytes], ArrowRows | ProtoRows] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, kind: str, definition: TableDefinition, schema: bytes) -> ArrowRows | ProtoRows | None:
        key = (kind, definition.name, definition.generation, definition.version, schema)
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
            return found

    def make(self, kind: str, definition: TableDefinition, schema: bytes) -> ArrowRows | ProtoRows:
        """Create a decoder; refuses a writer's schema that does not fit the table."""
        made: ArrowRows | ProtoRows
        if kind == "arrow_rows":
            made = ArrowRows(definition.schema, schema, max_unpacked_bytes=self._max_unpacked_bytes)
        else:
            descriptor = _descriptor(schema)
            made = ProtoRows(definition.schema, descriptor, max_unpacked_bytes=self._max_unpacked_bytes)
        key = (kind, definition.name, definition.generation, definition.version, schema)
        with self._lock:
            if key not in self._kept:
                self._bytes += len(schema)
            self._kept[key] = made
            while len(self._kept) > _MAX_DECODERS or (
                self._bytes > _MAX_SCHEMA_BYTES and len(self._kept) > 1
            ):
                (*_, unused), _ = self._kept.popitem(last=False)
                self._bytes -= len(unused)
        return made


def _descriptor(schema: bytes) -> DescriptorProto:
    try:
        return DescriptorProto.FromString(schema)
    except DecodeError:
        raise invalid("The writer_schema's proto_descriptor cannot be read.", ends_call=True) from None
