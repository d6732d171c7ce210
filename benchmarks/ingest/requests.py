"""The rows of the ingest benchmark as requests of the Storage Write API, serialised before the clock runs."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
from google.cloud.bigquery_storage_v1 import types
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from benchmarks.data import rows

# As REST v2 says them, and what their values are in Arrow.
COLUMNS: Final = {
    "id": "INT64",
    "at": "TIMESTAMP",
    "kind": "STRING",
    "place": "STRING",
    "value": "FLOAT64",
    "count": "INT64",
}
_ARROW: Final[dict[str, pa.DataType]] = {
    "INT64": pa.int64(),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
    "STRING": pa.string(),
    "FLOAT64": pa.float64(),
}
_PROTO: Final = {
    "INT64": descriptor_pb2.FieldDescriptorProto.TYPE_INT64,
    "TIMESTAMP": descriptor_pb2.FieldDescriptorProto.TYPE_INT64,
    "STRING": descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
    "FLOAT64": descriptor_pb2.FieldDescriptorProto.TYPE_DOUBLE,
}
# So many different ones are sent over and over: as many as are in flight, so that no commit has rows twice.
DIFFERENT: Final = 8
# The raw protobuf class, which the client's own wraps; its types are made at run time.
_Request: Final[Any] = types.AppendRowsRequest.pb()
_OFFSET: Final = bytes([_Request.DESCRIPTOR.fields_by_name["offset"].number << 3 | 2])


class Requests:
    """Appends of ``count`` rows to one stream: the first says its schema, all of them the stream.

    Those of another ``number`` have other rows.
    """

    def __init__(self, stream: str, form: str, count: int, number: int = 0) -> None:
        make = {"Arrow": _arrow, "Upserts": _arrow, "Protobuf": _protobuf}[form]
        schema = pa.schema([(name, _ARROW[kind]) for name, kind in COLUMNS.items()])
        seeds = range(number * DIFFERENT, (number + 1) * DIFFERENT)
        tables = [rows(count, seed=seed).cast(schema) for seed in seeds]
        if form == "Upserts":
            change = pa.array(["UPSERT"] * count)
            tables = [table.append_column("_CHANGE_TYPE", change) for table in tables]
        self._first = make(stream, tables[0], with_schema=True)
        self._later = [make(stream, table, with_schema=False) for table in tables]

    def at(self, number: int, offset: int | None) -> bytes:
        """The append of this number; its offset is one more field behind the others."""
        body = self._later[number % DIFFERENT] if number else self._first
        if offset is None:
            return body
        value = b"\x08" + _varint(offset) if offset else b""
        return body + _OFFSET + _varint(len(value)) + value


def _arrow(stream: str, table: pa.Table, *, with_schema: bool) -> bytes:
    request = _Request(write_stream=stream)
    if with_schema:
        request.arrow_rows.writer_schema.serialized_schema = table.schema.serialize().to_pybytes()
    (batch,) = table.combine_chunks().to_batches()
    request.arrow_rows.rows.serialized_record_batch = batch.serialize().to_pybytes()
    return bytes(request.SerializeToString())


def _protobuf(stream: str, table: pa.Table, *, with_schema: bool) -> bytes:
    request = _Request(write_stream=stream)
    if with_schema:
        request.proto_rows.writer_schema.proto_descriptor.CopyFrom(_DESCRIPTOR)
    # Microseconds since 1970, which is what the service takes for a TIMESTAMP.
    at = table.schema.get_field_index("at")
    plain = table.set_column(at, "at", table.column(at).cast(pa.int64()))
    request.proto_rows.rows.serialized_rows.extend(
        _Row(**row).SerializeToString() for row in plain.to_pylist()
    )
    return bytes(request.SerializeToString())


def _descriptor() -> descriptor_pb2.DescriptorProto:
    descriptor = descriptor_pb2.DescriptorProto(name="Row")
    for number, (name, kind) in enumerate(COLUMNS.items(), 1):
        optional = descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL
        descriptor.field.add(name=name, number=number, type=_PROTO[kind], label=optional)
    return descriptor


def _message(descriptor: descriptor_pb2.DescriptorProto) -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="bench_row.proto", syntax="proto2", package="bench")
    file.message_type.add().CopyFrom(descriptor)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("bench.Row"))


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


_DESCRIPTOR: Final = _descriptor()
_Row: Final = _message(_DESCRIPTOR)
