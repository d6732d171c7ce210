"""Requests of AppendRows that ask for much time or memory: schemas and rows of Protobuf and Arrow."""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np
import pyarrow as pa
from google.cloud.bigquery_storage_v1 import types

from support.bombs.parquet import varint
from support.ingest.proto_messages import F, field, message, repeated

TABLE: Final = "projects/p/datasets/d/tables/t"
# A table with a repeated column and a record.
LISTS: Final = "projects/p/datasets/d/tables/lists"
LIST_FIELDS: Final[list[dict[str, Any]]] = [
    {"name": "id", "type": "INT64"},
    {"name": "xs", "type": "INT64", "mode": "REPEATED"},
    {"name": "ss", "type": "STRING", "mode": "REPEATED"},
    {"name": "r", "type": "STRUCT", "mode": "REPEATED", "fields": [{"name": "a", "type": "INT64"}]},
]
_ROW: Final = message(field("id", F.TYPE_INT64), field("name", F.TYPE_STRING))
_LIST_ROW: Final = message(
    field("id", F.TYPE_INT64),
    repeated("xs", F.TYPE_INT64),
    repeated("ss", F.TYPE_STRING),
    repeated("r", F.TYPE_MESSAGE, type_name="Inner"),
    nested=(message(field("a", F.TYPE_INT64), name="Inner"),),
)
_MIB: Final = 1 << 20


def proto_request(descriptor: Any, rows: list[bytes], table: str = TABLE) -> bytes:
    """A request on the default stream with a writer's schema."""
    made = types.AppendRowsRequest.pb()(write_stream=f"{table}/streams/_default")
    made.proto_rows.writer_schema.proto_descriptor.CopyFrom(descriptor)
    made.proto_rows.rows.serialized_rows.extend(rows)
    data: bytes = made.SerializeToString()
    return data


def arrow_request(schema: bytes, batch: bytes, table: str = TABLE) -> bytes:
    """A request on the default stream with serialized Arrow."""
    made = types.AppendRowsRequest.pb()(write_stream=f"{table}/streams/_default")
    made.arrow_rows.writer_schema.serialized_schema = schema
    made.arrow_rows.rows.serialized_record_batch = batch
    data: bytes = made.SerializeToString()
    return data


def _arrow(batch: Any, table: str = TABLE, codec: str | None = None) -> bytes:
    options = pa.ipc.IpcWriteOptions(compression=codec)  # type: ignore[arg-type]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    reader = pa.ipc.MessageReader.open_stream(sink.getvalue())
    found = [each.serialize().to_pybytes() for each in reader]
    return arrow_request(found[0], found[-1], table)


# -- Protobuf ------------------------------------------------------------------------------------------


def doubling_messages(levels: int = 26) -> bytes:
    """A schema whose messages each have the one before twice: 2^26 columns."""
    kinds = [message(field("a", F.TYPE_INT64), name="M0")]
    kinds += [
        message(
            field("a", F.TYPE_MESSAGE, type_name=f"M{n - 1}"),
            field("b", F.TYPE_MESSAGE, type_name=f"M{n - 1}"),
            name=f"M{n}",
        )
        for n in range(1, levels + 1)
    ]
    root = message(repeated("r", F.TYPE_MESSAGE, type_name=f"M{levels}"), nested=tuple(kinds))
    return proto_request(root, [b""], LISTS)


def recursive_message() -> bytes:
    """A schema whose record has itself."""
    inner = message(field("a", F.TYPE_INT64), repeated("r", F.TYPE_MESSAGE, type_name="Inner"), name="Inner")
    root = message(repeated("r", F.TYPE_MESSAGE, type_name="Inner"), nested=(inner,))
    return proto_request(root, [b""], LISTS)


def many_fields(count: int = 100_000) -> bytes:
    """A schema of 100,000 fields."""
    return proto_request(message(*(field(f"f{n}", F.TYPE_INT64) for n in range(count))), [b""])


def many_messages(count: int = 29_000) -> bytes:
    """A schema of 29,000 messages that nobody uses."""
    nested = tuple(message(field("a", F.TYPE_INT64), name=f"M{n}") for n in range(count))
    return proto_request(message(field("id", F.TYPE_INT64), nested=nested), [b"\x08\x01"])


def many_enum_values(count: int = 99_000) -> bytes:
    """A schema with an enum of 99,000 values."""
    values = {f"V{n}": n for n in range(count)}
    return proto_request(message(field("id", F.TYPE_ENUM, type_name="E"), enums={"E": values}), [b"\x08\x01"])


def deep_messages(depth: int = 90) -> bytes:
    """A schema of 90 messages in each other, each with 200 fields."""
    inner = message(*(field(f"f{n}", F.TYPE_INT64) for n in range(200)), name="M")
    for _ in range(depth // 2):
        inner = message(field("m", F.TYPE_MESSAGE, type_name="M"), nested=(inner,), name="M")
    return proto_request(message(repeated("r", F.TYPE_MESSAGE, type_name="M"), nested=(inner,)), [b""], LISTS)


def empty_rows(count: int = 1_000_000) -> bytes:
    """A million rows without a byte."""
    return proto_request(_ROW, [b""] * count)


def short_rows(count: int = 600_000) -> bytes:
    """600,000 rows of two bytes."""
    return proto_request(_ROW, [b"\x08\x01"] * count)


def packed_values(size: int = 4 * _MIB - 500) -> bytes:
    """A list of four million numbers in one row."""
    return proto_request(_LIST_ROW, [b"\x12" + varint(size) + bytes(size)], LISTS)


def repeated_texts(count: int = 2_000_000) -> bytes:
    """A list of two million empty texts in one row."""
    return proto_request(_LIST_ROW, [b"\x1a\x00" * count], LISTS)


def repeated_records(count: int = 2_000_000) -> bytes:
    """A list of two million empty records in one row."""
    return proto_request(_LIST_ROW, [b"\x22\x00" * count], LISTS)


def set_again(count: int = 2_000_000) -> bytes:
    """One row that sets the same field two million times."""
    return proto_request(_ROW, [b"\x08\x01" * count])


def unknown_fields(count: int = 1_300_000) -> bytes:
    """One row with 1.3 million fields that the schema does not have."""
    return proto_request(_ROW, [b"\xa8\x06\x00" * count])


def deep_groups(depth: int = 2_000_000) -> bytes:
    """One row with two million groups in each other."""
    return proto_request(_ROW, [b"\x7b" * depth + b"\x7c" * depth])


def many_deep_rows(rows: int = 15_000, depth: int = 99) -> bytes:
    """15,000 rows with groups of a depth just below the limit."""
    return proto_request(_ROW, [b"\x7b" * depth + b"\x7c" * depth] * rows)


def claimed_text() -> bytes:
    """A row whose text claims 2 GiB and has three bytes."""
    return proto_request(_ROW, [b"\x12" + varint((1 << 31) - 1) + b"abc"])


def bad_rows(count: int = 400_000) -> bytes:
    """400,000 rows, each of which is bad."""
    return proto_request(_ROW, [b"\x12\x01\xff"] * count)


# -- Arrow ---------------------------------------------------------------------------------------------


def zeros(codec: str, rows: int = 100_000_000) -> bytes:
    """800 MB of zeros, compressed."""
    return _arrow(pa.record_batch({"id": pa.array(np.zeros(rows, np.int64))}), codec=codec)


def claimed_buffer(claimed: int = 1 << 40) -> bytes:
    """A compressed buffer that claims 2^40 bytes and has some."""
    good = _arrow(pa.record_batch({"id": pa.array(np.zeros(12_345, np.int64))}), codec="zstd")
    return good.replace(struct.pack("<q", 12_345 * 8), struct.pack("<q", claimed))


def rows_without_columns(rows: int = 1 << 50) -> bytes:
    """A batch of 2^50 rows that has no column."""
    batches: Any = pa.RecordBatch
    small = batches.from_struct_array(pa.array([{}] * 12_345, pa.struct([])))
    return _arrow(small).replace(struct.pack("<q", 12_345), struct.pack("<q", rows))


def null_columns(rows: int = (1 << 31) - 1) -> bytes:
    """A batch of 2^31 rows whose only column is of type null, without a buffer."""
    return _arrow(pa.record_batch({"id": pa.nulls(rows)}))


def one_run(rows: int = (1 << 31) - 1) -> bytes:
    """A batch of 2^31 rows that is one run."""
    runs: Any = pa.RunEndEncodedArray.from_arrays(pa.array([rows], pa.int32()), pa.array([7], pa.int64()))
    return _arrow(pa.record_batch([runs], names=["id"]))


def dictionary(rows: int = 1_000_000) -> bytes:
    """A million rows of one text of 3 MB, by a dictionary."""
    column = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(rows, np.int8), pa.int8()), pa.array(["x" * 3_000_000])
    )
    return _arrow(pa.record_batch([column], names=["name"]), codec="zstd")


def views_of_one_text(rows: int = 200_000, size: int = 3_000_000) -> bytes:
    """200,000 views of one text of 3 MB."""
    value = b"x" * size
    view = struct.pack("<i4sii", size, value[:4], 0, 0)
    buffers = [None, pa.py_buffer(view * rows), pa.py_buffer(value)]
    column = pa.Array.from_buffers(pa.string_view(), rows, buffers)
    return _arrow(pa.record_batch([column], names=["name"]), codec="zstd")


def empty_lists(rows: int = 30_000_000) -> bytes:
    """30 million empty lists, whose offsets are compressed zeros."""
    offsets = pa.py_buffer(bytes(4 * (rows + 1)))
    column = pa.Array.from_buffers(
        pa.list_(pa.int64()), rows, [None, offsets], children=[pa.array([], pa.int64())]
    )
    return _arrow(pa.record_batch([column], names=["xs"]), LISTS, codec="zstd")


def null_lists(items: int = (1 << 31) - 1) -> bytes:
    """One list of 2^31 nulls of type null, without a buffer."""
    column = pa.ListArray.from_arrays(pa.array([0, items], pa.int32()), pa.nulls(items))
    return _arrow(pa.record_batch([column], names=["xs"]), LISTS)


def many_arrow_columns(count: int = 50_000) -> bytes:
    """A schema of 50,000 columns."""
    return _arrow(pa.record_batch({f"c{n}": pa.array([1], pa.int8()) for n in range(count)}))


def deep_arrow_column(depth: int = 60) -> bytes:
    """A column of 60 lists in each other."""
    kind: Any = pa.int64()
    for _ in range(depth):
        kind = pa.list_(kind)
    return _arrow(pa.record_batch([pa.nulls(1, kind)], names=["xs"]), LISTS)


def overlapping_buffers(columns: int = 5_000) -> bytes:
    """A schema of 5,000 names that are equal."""
    return _arrow(pa.record_batch([pa.array([1], pa.int64())] * columns, names=["id"] * columns))


def large_metadata(size: int = 3_900_000) -> bytes:
    """A schema with 3.9 MB of metadata."""
    schema = pa.schema({"id": pa.int64()}, metadata={"k": "x" * size})
    return _arrow(pa.record_batch([pa.array([1])], schema=schema))
