"""How much memory rows take is known before they are unpacked, and rows that take too much are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from google.cloud.bigquery_storage_v1 import types
from google.protobuf.message import DecodeError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.decode.test_arrow import message as arrow_message
from ingest.decode.test_proto_hostile import DECODER, ROW
from lode.ingest.api.append_call import request_weight
from lode.ingest.decode.arrow import MAX_MESSAGES, ArrowRows
from lode.ingest.decode.json import JsonRows
from lode.ingest.decode.packed import MAX_UNPACKED_BYTES
from lode.ingest.decode.proto.decoder import ProtoRows
from lode.ingest.status import Code, Refused
from lode.ingest.types.columns import Column, TableSchema
from lode.ingest.types.row_errors import MAX_BAD_ROWS
from support.ingest.appending import arrow_request, batch_of, proto_request
from support.ingest.proto_messages import F, field, message, repeated
from support.ingest.strategies import rows_for, schemas, writer_schemas

if TYPE_CHECKING:
    from collections.abc import Sequence

    from google.protobuf.descriptor_pb2 import DescriptorProto

    from lode.ingest.decode.packed import PackedRows

LIMIT = 1 << 20


def of(*columns: Column) -> TableSchema:
    return TableSchema(columns)


def arrow(schema: TableSchema, batch: pa.RecordBatch, defaults: Sequence[str] = ()) -> PackedRows:
    rows = ArrowRows(schema, batch.schema.serialize().to_pybytes(), max_unpacked_bytes=LIMIT)
    return rows.open(arrow_message(batch, "zstd"), defaults)


def proto(
    schema: TableSchema, descriptor: DescriptorProto, rows: list[bytes], defaults: Sequence[str] = ()
) -> PackedRows:
    return ProtoRows(schema, descriptor, max_unpacked_bytes=LIMIT).open(rows, defaults)


def refused(work: Any) -> None:
    with pytest.raises(Refused, match=r"when unpacked, the limit is 1,048,576: send fewer rows") as caught:
        work()
    assert caught.value.code is Code.INVALID_ARGUMENT
    assert not caught.value.ends_call


def is_bounded(packed: PackedRows, batch: pa.RecordBatch) -> bool:
    """Whether the rows took no more than was said, but for the ends of offsets and bitmaps."""
    return batch.nbytes <= packed.unpacked_bytes + 64 * sum(_leaves(field.type) for field in batch.schema)


def _leaves(kind: Any) -> int:
    return 1 + sum(_leaves(kind.field(at).type) for at in range(kind.num_fields))


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), schema=schemas())
def test_any_arrow_rows_take_no_more_than_was_said(data: st.DataObject, schema: TableSchema) -> None:
    rows = data.draw(rows_for(schema))
    writer = data.draw(writer_schemas(schema))
    times = data.draw(st.sampled_from([1, 40]))
    compression = data.draw(st.sampled_from([None, "lz4", "zstd"]))
    sent = arrow_message(pa.RecordBatch.from_pylist(rows * times, writer), compression)
    packed = ArrowRows(schema, writer.serialize().to_pybytes()).open(sent)
    assert is_bounded(packed, packed.decode())


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_protobuf_rows_take_no_more_than_was_said(data: st.DataObject) -> None:
    inner = st.fixed_dictionaries(
        {}, optional={"x": st.integers(-5, 5), "ys": st.lists(st.integers(-5, 5)), "s": st.text(max_size=9)}
    )
    parts = st.fixed_dictionaries(
        {},
        optional={
            "a": st.integers(-5, 5),
            "c": st.text(max_size=20),
            "f": st.lists(st.integers(-5, 5), max_size=30),
            "g": st.lists(st.binary(max_size=3), max_size=30),
            "h": inner,
            "i": st.lists(inner, max_size=20),
        },
    )
    rows = [ROW(**values).SerializeToString() for values in data.draw(st.lists(parts, max_size=8))]
    packed = DECODER.open(rows * 20)
    batch = packed.decode()
    assert is_bounded(packed, batch)
    # When the size alone does not decide, the rows are counted, which is not far off.
    sent = 20 * sum(map(len, rows))
    counted = DECODER._parser.survey.unpacked_bytes(rows * 20, sent, packed.unpacked_bytes - 1)
    assert batch.nbytes <= counted + 1_000


ARROW_BOMBS: dict[str, tuple[Column, pa.Array[Any]]] = {
    "numbers": (Column("a", "INT64"), pa.repeat(pa.scalar(0, pa.int64()), 200_000)),
    "narrow numbers": (Column("a", "INT64"), pa.repeat(pa.scalar(0, pa.int8()), 100_000)),
    "decimals of narrow numbers": (Column("a", "BIGNUMERIC"), pa.repeat(pa.scalar(0, pa.int8()), 30_000)),
    "decimals of text": (Column("a", "NUMERIC"), pa.repeat(pa.scalar("1"), 12_000)),
    "text": (Column("a", "STRING"), pa.array(["x" * 2_000_000])),
    "nulls": (Column("a", "BIGNUMERIC"), pa.nulls(40_000)),
    "lists": (
        Column("a", "INT64", "REPEATED"),
        pa.array([[0] * 70_000], pa.list_(pa.int8())),
    ),
    "structs without their fields": (
        Column("a", "STRUCT", fields=tuple(Column(f"f{number}", "INT64") for number in range(50))),
        pa.StructArray.from_arrays([pa.nulls(3_000)], ["f0"]),
    ),
}


@pytest.mark.parametrize("bomb", list(ARROW_BOMBS))
def test_a_small_arrow_request_that_becomes_large_is_refused(bomb: str) -> None:
    column, values = ARROW_BOMBS[bomb]
    batch = pa.record_batch({"a": values})
    refused(lambda: arrow(of(column), batch))
    few = batch.slice(0, 10) if batch.num_rows > 10 else None
    if few is not None:
        assert arrow(of(column), few).decode().num_rows == 10


def test_many_rows_that_leave_out_columns_are_refused() -> None:
    schema = of(Column("a", "BOOL"), *(Column(f"f{number}", "INT64") for number in range(20)))
    batch = pa.record_batch({"a": pa.repeat(True, 10_000)})
    refused(lambda: arrow(schema, batch))
    assert arrow(schema, batch.slice(0, 100)).decode().num_rows == 100


def test_a_long_default_in_many_rows_is_refused() -> None:
    schema = of(Column("a", "BOOL"), Column("b", "STRING", default=f"'{'x' * 1_000}'"))
    sent = pa.record_batch({"a": pa.repeat(True, 2_000)})
    assert arrow(schema, sent).decode().num_rows == 2_000
    refused(lambda: arrow(schema, sent, ["b"]))
    filled = arrow(schema, sent.slice(0, 10), ["b"])
    assert is_bounded(filled, filled.decode())


def test_a_long_default_in_the_place_of_nulls_is_refused() -> None:
    schema = of(Column("b", "STRING", default=f"'{'x' * 1_000}'"))
    sent = pa.record_batch({"b": pa.array([None] * 1_000, pa.string())})
    refused(lambda: arrow(schema, sent, ["b"]))


def test_views_onto_the_same_bytes_are_counted_before_they_are_copied() -> None:
    count, length = 1_000, 10_000
    view = length.to_bytes(4, "little") + b"xxxx" + (0).to_bytes(8, "little")
    array = pa.Array.from_buffers(
        pa.string_view(), count, [None, pa.py_buffer(view * count), pa.py_buffer(b"x" * length)]
    )
    batch = pa.record_batch({"a": array})
    rows = ArrowRows(of(Column("a", "STRING")), batch.schema.serialize().to_pybytes())
    with pytest.raises(Refused, match="views onto 10,000,000 bytes, the limit is 4,194,304"):
        rows.decode(arrow_message(batch))
    assert rows.decode(arrow_message(batch.slice(0, 400))).num_rows == 400


def test_the_largest_request_may_be_of_views() -> None:
    texts = pa.array(["a text that is longer than a view has room for"] * 100_000, pa.string_view())
    batch = pa.record_batch({"a": texts})
    sent = arrow_message(batch)
    limit = 3 * len(sent)
    rows = ArrowRows(
        of(Column("a", "STRING")), batch.schema.serialize().to_pybytes(), max_unpacked_bytes=limit
    )
    packed = rows.open(sent)
    assert packed.unpacked_bytes <= limit
    assert packed.decode().num_rows == 100_000


def test_more_messages_than_a_client_sends_are_refused() -> None:
    schema, batch = of(Column("a", "INT64")), pa.record_batch({"a": [1]})
    rows = ArrowRows(schema, batch.schema.serialize().to_pybytes())
    assert rows.decode(arrow_message(batch) * 3).num_rows == 3
    with pytest.raises(Refused, match="more than 1000 record batches"):
        rows.decode(arrow_message(batch) * (MAX_MESSAGES + 1))


WIDE = tuple(Column(f"f{number}", "INT64") for number in range(50))
WIDE_ROW = message(*(field(column.name, F.TYPE_INT64) for column in WIDE), name="Wide")


def enum_row(length: int) -> DescriptorProto:
    row = message(field("a", F.TYPE_ENUM, type_name="E"), repeated("b", F.TYPE_ENUM, type_name="E"))
    row.enum_type.add(name="E").value.add(name="x" * length, number=0)
    return row


PROTO_BOMBS: dict[str, tuple[TableSchema, DescriptorProto, list[bytes]]] = {
    "rows without bytes": (of(*WIDE), WIDE_ROW, [b""] * 3_000),
    "columns that are left out": (
        of(Column("a", "INT64"), *WIDE),
        message(field("a", F.TYPE_INT64)),
        [b""] * 3_000,
    ),
    "packed numbers": (
        of(Column("a", "INT64", "REPEATED")),
        message(repeated("a", F.TYPE_INT64)),
        [b"\x0a\xa0\x8d\x06" + bytes(100_000)] * 2,
    ),
    "packed numbers that become decimals": (
        of(Column("a", "BIGNUMERIC", "REPEATED")),
        message(repeated("a", F.TYPE_INT64)),
        [b"\x0a\xb0\xea\x01" + bytes(30_000)],
    ),
    "numbers one by one": (
        of(Column("a", "BIGNUMERIC", "REPEATED")),
        message(repeated("a", F.TYPE_INT64)),
        [b"\x08\x00" * 30_000],
    ),
    "empty texts": (
        of(Column("a", "STRING", "REPEATED")),
        message(repeated("a", F.TYPE_STRING)),
        [b"\x0a\x00" * 250_000],
    ),
    "messages without bytes": (
        of(Column("a", "STRUCT", "REPEATED", fields=WIDE)),
        message(repeated("a", F.TYPE_MESSAGE, type_name="Wide"), nested=(WIDE_ROW,)),
        [b"\x0a\x00" * 3_000],
    ),
    "long names of enums": (
        of(Column("a", "STRING"), Column("b", "STRING", "REPEATED")),
        enum_row(10_000),
        [b"\x08\x00"] * 200,
    ),
    "long names of many enums in a row": (
        of(Column("a", "STRING"), Column("b", "STRING", "REPEATED")),
        enum_row(1_000),
        [b"\x12\xd0\x0f" + bytes(2_000)],
    ),
    "durations": (
        of(Column("a", "INTERVAL", "REPEATED")),
        message(repeated("a", F.TYPE_MESSAGE, type_name=".google.protobuf.Duration")),
        [b"\x0a\x00" * 20_000],
    ),
}


@pytest.mark.parametrize("bomb", list(PROTO_BOMBS))
def test_a_small_protobuf_request_that_becomes_large_is_refused(bomb: str) -> None:
    schema, descriptor, rows = PROTO_BOMBS[bomb]
    assert sum(map(len, rows)) < LIMIT
    refused(lambda: proto(schema, descriptor, rows))
    packed = ProtoRows(schema, descriptor).open(rows[:10])
    assert is_bounded(packed, packed.decode())


def test_dense_rows_of_the_largest_request_are_taken() -> None:
    """Rows with every column set take no more than the limit, whatever the request's size."""
    row = b"".join(bytes([number << 3, 0x7F]) for number in range(1, 9))
    columns = tuple(Column(f"f{number}", "INT64") for number in range(8))
    descriptor = message(*(field(column.name, F.TYPE_INT64) for column in columns))
    rows = [row] * ((20 << 20) // (len(row) + 2))
    packed = ProtoRows(TableSchema(columns), descriptor).open(rows)
    assert packed.unpacked_bytes <= MAX_UNPACKED_BYTES


def test_packed_numbers_among_other_columns_are_counted_only_where_they_decide() -> None:
    schema = of(Column("a", "BIGNUMERIC", "REPEATED"), Column("b", "STRING"))
    descriptor = message(repeated("a", F.TYPE_INT64), field("b", F.TYPE_STRING))
    rows = [b"\x0a\x02\x01\x02" + b"\x12\x90\x4e" + b"x" * 10_000] * 50
    assert proto(schema, descriptor, rows).unpacked_bytes < LIMIT


def test_the_parsed_rows_of_a_request_are_weighed_before_it_is_parsed() -> None:
    rows = 50_000
    request = proto_request("s", [b""] * rows)
    data = type(request).serialize(request)
    assert len(data) < 3 * rows
    assert request_weight(data) >= 64 * rows
    # A tag may be written with more bytes than it needs.
    assert request_weight(b"\x8a\x00\x00" * rows) >= 64 * rows


@pytest.mark.parametrize("rows", [MAX_BAD_ROWS - 1, MAX_BAD_ROWS, 3 * MAX_BAD_ROWS])
def test_no_more_bad_rows_are_named_than_an_answer_has_room_for(rows: int) -> None:
    schema, descriptor = of(Column("a", "INT64", "REQUIRED")), message(field("a", F.TYPE_INT64))
    for bad in (b"", b"\x08"):
        with pytest.raises(Refused) as caught:
            ProtoRows(schema, descriptor).decode([b"\x08\x01", *[bad] * rows])
        assert [problem.index for problem in caught.value.rows] == list(range(1, min(rows, MAX_BAD_ROWS) + 1))
        assert ("or more of them bad" in caught.value.message) == (rows >= MAX_BAD_ROWS)


@given(
    st.lists(
        st.tuples(st.sampled_from([0x0A, 0x2A, 0x30, 0x82, 0x0B, 0x21, 0x00]), st.binary(max_size=9)),
        max_size=6,
    )
)
def test_no_request_hides_its_rows_from_the_weighing(fields: list[tuple[int, bytes]]) -> None:
    """Fields of any number and kind before the rows, well formed or not, as hostile clients send them."""
    request: Any = types.AppendRowsRequest.pb()
    hidden = request()
    hidden.proto_rows.rows.serialized_rows.extend([b""] * 100)
    data = b"".join(bytes([tag]) + value for tag, value in fields) + hidden.SerializeToString()
    try:
        rows = len(request.FromString(data).proto_rows.rows.serialized_rows)
    except DecodeError:
        return
    assert request_weight(data) >= len(data) + 64 * rows


def test_a_request_of_arrow_rows_weighs_what_it_is() -> None:
    data = types.AppendRowsRequest.serialize(arrow_request("s", batch_of(range(1_000))))
    assert request_weight(data) == len(data)


def with_long_vtable(sent: bytes) -> bytes:
    """The same message, whose record batch lists its fields in more than 32 KiB, most of them left out."""
    size = int.from_bytes(sent[4:8], "little")
    metadata, body = bytearray(sent[8 : 8 + size]), sent[8 + size :]

    def number(at: int) -> int:
        return int.from_bytes(metadata[at : at + 4], "little", signed=True)

    def field_of(table: int, position: int) -> int:
        entry = table - number(table) + 4 + 2 * position
        return table + int.from_bytes(metadata[entry : entry + 2], "little")

    header = field_of(number(0), 2)
    batch = header + number(header)
    vtable = batch - number(batch)
    known = int.from_bytes(metadata[vtable : vtable + 2], "little")
    entries = metadata[vtable + 2 : vtable + known]
    long = 0x8000 + 8
    metadata[batch : batch + 4] = (batch - len(metadata)).to_bytes(4, "little", signed=True)
    metadata += long.to_bytes(2, "little") + entries + bytes(long - known)
    metadata += bytes(-len(metadata) % 8)
    return sent[:4] + len(metadata).to_bytes(4, "little") + bytes(metadata) + body


def test_a_compressed_batch_with_a_long_list_of_fields_is_refused() -> None:
    batch = pa.record_batch({"a": pa.repeat(pa.scalar(0, pa.int64()), 200_000)})
    schema, sent = of(Column("a", "INT64")), with_long_vtable(arrow_message(batch, "zstd"))
    assert pa.ipc.read_record_batch(pa.py_buffer(sent), batch.schema).num_rows == 200_000
    rows = ArrowRows(schema, batch.schema.serialize().to_pybytes(), max_unpacked_bytes=LIMIT)
    refused(lambda: rows.open(sent))


JSON_BOMBS: dict[str, tuple[TableSchema, list[Any]]] = {
    "columns that are left out": (of(*(Column(f"f{at}", "INT64") for at in range(1000))), [{}] * 200),
    "fields of structs in a list": (
        of(Column("l", "STRUCT", "REPEATED", tuple(Column(f"f{at}", "INT64") for at in range(1000)))),
        [{"l": [{}] * 200}],
    ),
    "structs in structs": (
        of(Column("s", "STRUCT", fields=(Column("l", "STRUCT", "REPEATED", (Column("f", "BIGNUMERIC"),)),))),
        [{"s": {"l": [{}] * 40_000}}],
    ),
    "defaults": (of(Column("a", "STRING", default=f"'{'x' * 5000}'"), Column("b", "INT64")), [{}] * 200),
    "ranges": (of(Column("l", "RANGE", "REPEATED", range_element="DATE")), [{"l": [{}] * 200_000}]),
}


@pytest.mark.parametrize("bomb", list(JSON_BOMBS))
def test_small_json_that_becomes_large_is_refused(bomb: str) -> None:
    schema, rows = JSON_BOMBS[bomb]
    refused(lambda: JsonRows(schema, max_unpacked_bytes=LIMIT).decode(rows))
    assert JsonRows(schema, max_unpacked_bytes=LIMIT).decode([{}] * 2).num_rows == 2


def test_the_rows_of_each_request_are_counted_for_themselves() -> None:
    decoder = JsonRows(of(Column("a", "INT64")), max_unpacked_bytes=100)
    for _ in range(3):
        assert decoder.decode([{}] * 10).num_rows == 10


@pytest.mark.parametrize("kind", ["STRUCT", "STRING", "BYTES", "JSON", "RANGE"])
@pytest.mark.parametrize("mode", ["NULLABLE", "REPEATED"])
def test_a_deep_value_is_a_bad_row(kind: str, mode: Any) -> None:
    value: Any = 1
    for _ in range(100_000):
        value = {"x": value}
    fields = (Column("y", "INT64"),) if kind == "STRUCT" else ()
    element = "DATE" if kind == "RANGE" else ""
    column = Column("a", kind, mode, fields, range_element=element)
    with pytest.raises(Refused) as caught:
        JsonRows(of(column)).decode([{"a": value}])
    assert [problem.index for problem in caught.value.rows] == [0]
