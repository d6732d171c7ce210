"""Decoders of rows, kept by table and writer's schema: many calls and many requests share one."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from google.protobuf.descriptor_pb2 import DescriptorProto
from google.protobuf.message import DecodeError

from lode.ingest.rows.arrow import ArrowRows
from lode.ingest.rows.proto import ProtoRows
from lode.ingest.status import invalid

if TYPE_CHECKING:
    from lode.ingest.catalog.table import TableDefinition
    from lode.ingest.names import TableName

_MOST_KEPT: Final = 256


class Decoders:
    """The decoders in use; those unused for longest are let go."""

    def __init__(self) -> None:
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
        """A decoder for this table and writer's schema; refuses a schema that does not fit the table."""
        made: ArrowRows | ProtoRows
        if kind == "arrow_rows":
            made = ArrowRows(definition.schema, schema)
        else:
            made = ProtoRows(definition.schema, _descriptor(schema))
        with self._lock:
            self._kept[(kind, definition.name, definition.generation, definition.version, schema)] = made
            if len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        return made


def _descriptor(schema: bytes) -> DescriptorProto:
    try:
        return DescriptorProto.FromString(schema)
    except DecodeError:
        raise invalid("The writer_schema's proto_descriptor cannot be read.", ends_call=True) from None
