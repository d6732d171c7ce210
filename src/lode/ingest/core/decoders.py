"""A cache of row decoders by table and writer's schema, shared by all calls and requests."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, TypeAlias

from cachetools import LRUCache
from google.protobuf.descriptor_pb2 import DescriptorProto
from google.protobuf.message import DecodeError

from lode.ingest.decode.arrow import ArrowRows
from lode.ingest.decode.changes import ChangeRows, may_have_changes, schema_of_changes
from lode.ingest.decode.packed import MAX_UNPACKED_BYTES
from lode.ingest.decode.proto.decoder import ProtoRows
from lode.ingest.status import invalid
from lode.ingest.types.changes import CHANGE_SEQUENCE, CHANGE_TYPE

if TYPE_CHECKING:
    from lode.ingest.catalog.table import TableDefinition
    from lode.ingest.names import TableName
    from lode.ingest.types.columns import TableSchema

Decoder: TypeAlias = ArrowRows | ProtoRows | ChangeRows

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
        changes = self._of_changes(kind, definition, schema) if may_have_changes(schema) else None
        made = changes or self._rows(kind, definition.schema, schema)
        size = min(max(len(schema), _MIN_SCHEMA_BYTES), _MAX_SCHEMA_BYTES)
        with self._lock:
            self._kept[_key(kind, definition, schema)] = (made, size)
        return made

    def _rows(self, kind: str, schema: TableSchema, sent: bytes) -> ArrowRows | ProtoRows:
        if kind == "arrow_rows":
            return ArrowRows(schema, sent, max_unpacked_bytes=self._max_unpacked_bytes)
        return ProtoRows(schema, _descriptor(sent), max_unpacked_bytes=self._max_unpacked_bytes)

    def _of_changes(self, kind: str, definition: TableDefinition, sent: bytes) -> ChangeRows | None:
        """The decoder of a writer that sends the columns of changes; None if it does not."""
        rows = self._rows(kind, schema_of_changes(definition.schema), sent)
        names = {name.upper() for name in rows.names}
        if CHANGE_TYPE in names:
            return ChangeRows(
                definition.schema,
                definition.primary_key,
                rows,
                max_unpacked_bytes=self._max_unpacked_bytes,
            )
        if CHANGE_SEQUENCE in names:
            raise invalid(
                f"The writer's schema has {CHANGE_SEQUENCE} without {CHANGE_TYPE}: send both.", ends_call=True
            )
        return None


def _key(kind: str, definition: TableDefinition, schema: bytes) -> tuple[str, TableName, int, int, bytes]:
    return kind, definition.name, definition.generation, definition.version, schema


def _descriptor(schema: bytes) -> DescriptorProto:
    try:
        return DescriptorProto.FromString(schema)
    except DecodeError:
        raise invalid("The writer_schema's proto_descriptor cannot be read.", ends_call=True) from None
