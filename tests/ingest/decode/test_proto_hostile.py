"""Nothing that a client can send does anything but become rows or be refused."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto
from google.protobuf.message import DecodeError
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lode.ingest.decode.packed import MAX_UNPACKED_BYTES
from lode.ingest.decode.proto.decoder import Parser, ProtoRows
from lode.ingest.decode.proto.descriptor import MAX_ENUM_VALUES, MAX_TYPES
from lode.ingest.decode.proto.plan import Field
from lode.ingest.decode.proto.survey import MAX_UNCHECKED_BYTES
from lode.ingest.status import Refused
from lode.ingest.types.columns import Column, TableSchema
from support.ingest.proto_messages import F, as_proto3, field, message, message_class, repeated
from support.ingest.strategies import schemas

if TYPE_CHECKING:
    from collections.abc import Callable

# A number takes eight bytes, set or not.
MAX_VALUES = MAX_UNPACKED_BYTES // 8

ID = TableSchema((Column("id", "INT64"),))
INT64 = message(field("id", F.TYPE_INT64))

INNER = message(
    field("x", F.TYPE_SINT64), repeated("ys", F.TYPE_INT32), field("s", F.TYPE_STRING), name="Inner"
)
MANY_KINDS = message(
    field("a", F.TYPE_INT64),
    field("b", F.TYPE_BOOL),
    field("c", F.TYPE_STRING),
    field("d", F.TYPE_DOUBLE),
    field("e", F.TYPE_FIXED32),
    repeated("f", F.TYPE_INT64),
    repeated("g", F.TYPE_BYTES),
    field("h", F.TYPE_MESSAGE, type_name="Inner"),
    repeated("i", F.TYPE_MESSAGE, type_name="Inner"),
    nested=(INNER,),
)
PARTS = (Column("x", "INT64"), Column("ys", "INT64", "REPEATED"), Column("s", "STRING"))
KINDS = TableSchema(
    (
        Column("a", "INT64"),
        Column("b", "BOOL"),
        Column("c", "STRING"),
        Column("d", "FLOAT64"),
        Column("e", "INT64"),
        Column("f", "INT64", "REPEATED"),
        Column("g", "BYTES", "REPEATED"),
        Column("h", "STRUCT", fields=PARTS),
        Column("i", "STRUCT", "REPEATED", fields=PARTS),
    )
)
# Protobuf checks that text is text only in proto3.
ROW = message_class(as_proto3(MANY_KINDS), syntax="proto3")
DECODER = ProtoRows(KINDS, MANY_KINDS)


def groups(depth: int) -> bytes:
    return b"\x7b" * depth + b"\x7c" * depth


def outcome(work: Callable[[], Any]) -> tuple[Any, Refused | None]:
    """What ``work`` returns, or how it is refused; anything else that it raises is raised."""
    try:
        return work(), None
    except Refused as refusal:
        return None, refusal


def on_a_small_stack(work: Callable[[], Any]) -> tuple[Any, Refused | None]:
    """The outcome of work on a thread with half a megabyte of stack."""
    results: list[tuple[Any, Refused | None]] = []
    before = threading.stack_size(512 * 1024)
    try:
        worker = threading.Thread(target=lambda: results.append(outcome(work)))
        worker.start()
    finally:
        threading.stack_size(before)
    worker.join()
    return results[0]


@pytest.mark.parametrize("depth", [MAX_UNCHECKED_BYTES, 100_000, 5_000_000])
@pytest.mark.parametrize("inside", [0, 1, 2])
def test_groups_nested_however_deep_exhaust_no_stack(depth: int, inside: int) -> None:
    leaf = message(field("x", F.TYPE_INT64), name="Leaf")
    middle = message(repeated("leaves", F.TYPE_MESSAGE, type_name="Leaf"), name="Middle")
    descriptor = message(repeated("middles", F.TYPE_MESSAGE, type_name="Middle"), nested=(middle, leaf))
    leaves = Column("leaves", "STRUCT", "REPEATED", fields=(Column("x", "INT64"),))
    schema = TableSchema((Column("middles", "STRUCT", "REPEATED", fields=(leaves,)),))
    decoder = ProtoRows(schema, descriptor)
    row = groups(depth)
    for _ in range(inside):
        row = message_class(message(field("inner", F.TYPE_BYTES)))(inner=row).SerializeToString()
    _, refusal = on_a_small_stack(lambda: decoder.decode([b"", row]))
    assert refusal is not None
    assert [problem.index for problem in refusal.rows] == [1]


def test_groups_that_are_not_deep_are_skipped() -> None:
    decoder = ProtoRows(ID, INT64)
    assert decoder.decode([groups(50) + b"\x08\x07"]).to_pylist() == [{"id": 7}]
    long = b"\x12" + b"\xff\xff\x03" + b"x" * 65535
    assert decoder.decode([long + groups(50) + b"\x08\x07"]).to_pylist() == [{"id": 7}]


def wide(columns: int) -> tuple[tuple[Column, ...], DescriptorProto]:
    names = [f"c{number}" for number in range(columns)]
    inner = message(*(field(name, F.TYPE_INT64) for name in names), name="Inner")
    return tuple(Column(name, "INT64") for name in names), inner


def test_many_empty_rows_of_a_wide_table_are_refused_before_they_take_memory() -> None:
    columns, descriptor = wide(1000)
    descriptor.name = "Row"
    decoder = ProtoRows(TableSchema(columns), descriptor)
    assert decoder.decode([b""] * 100).num_rows == 100
    with pytest.raises(Refused, match="send fewer rows"):
        decoder.decode([b""] * (MAX_VALUES // 1000 + 1))


def test_a_message_of_more_fields_than_protobuf_has_room_for_is_refused() -> None:
    columns, descriptor = wide(10_000)
    with pytest.raises(Refused, match="too many fields") as caught:
        ProtoRows(TableSchema(columns), descriptor)
    assert caught.value.ends_call
    columns, descriptor = wide(4_000)
    assert ProtoRows(TableSchema(columns), descriptor).decode([b"\x08\x07"]).column("c0").to_pylist() == [7]


def test_a_panic_of_the_parser_is_a_refusal() -> None:
    reserved = Field(Column("id", "INT64"), "id", 19_000, F.TYPE_INT64)
    with pytest.raises(Refused, match="invalid field number") as caught:
        Parser((reserved,))
    assert caught.value.ends_call


@pytest.mark.parametrize("rows", [1, 100])
def test_many_empty_messages_of_a_wide_struct_are_refused_before_they_take_memory(rows: int) -> None:
    columns, inner = wide(1000)
    descriptor = message(repeated("them", F.TYPE_MESSAGE, type_name="Inner"), nested=(inner,))
    decoder = ProtoRows(TableSchema((Column("them", "STRUCT", "REPEATED", fields=columns),)), descriptor)
    assert decoder.decode([b"\x0a\x00" * 3] * rows).num_rows == rows
    with pytest.raises(Refused, match="send fewer rows"):
        decoder.decode([b"\x0a\x00" * (MAX_VALUES // 1000 // rows + 1)] * rows)


def test_many_empty_messages_two_levels_down_are_refused_before_they_take_memory() -> None:
    columns, inner = wide(1000)
    middle = message(repeated("them", F.TYPE_MESSAGE, type_name="Inner"), name="Middle")
    descriptor = message(field("it", F.TYPE_MESSAGE, type_name="Middle"), nested=(middle, inner))
    them = Column("them", "STRUCT", "REPEATED", fields=columns)
    decoder = ProtoRows(TableSchema((Column("it", "STRUCT", fields=(them,)),)), descriptor)
    row = message_class(message(field("it", F.TYPE_BYTES)))
    small, large = (row(it=b"\x0a\x00" * count).SerializeToString() for count in (3, MAX_VALUES // 1000 + 1))
    assert decoder.decode([small]).to_pylist()[0]["it"]["them"][2]["c999"] is None
    with pytest.raises(Refused, match="send fewer rows"):
        decoder.decode([large])


def test_a_long_list_of_a_wide_struct_that_is_really_there_is_taken() -> None:
    columns, inner = wide(100)
    descriptor = message(repeated("them", F.TYPE_MESSAGE, type_name="Inner"), nested=(inner,))
    decoder = ProtoRows(TableSchema((Column("them", "STRUCT", "REPEATED", fields=columns),)), descriptor)
    item = {f"c{number}": 2**60 for number in range(100)}
    row = message_class(descriptor)(them=[item] * 2000).SerializeToString()
    assert len(row) // 2 * 100 > MAX_VALUES
    (taken,) = decoder.decode([row]).to_pylist()
    assert taken["them"] == [item] * 2000


def refused(make: Callable[[DescriptorProto], Any]) -> str:
    descriptor = message(field("id", F.TYPE_INT64))
    make(descriptor)
    _, refusal = outcome(lambda: ProtoRows(ID, descriptor))
    assert refusal is not None
    assert refusal.ends_call
    return refusal.message


def test_a_descriptor_of_types_without_end_is_refused() -> None:
    types = (DescriptorProto(name=f"T{number}") for number in range(MAX_TYPES))
    assert "too large" in refused(lambda descriptor: descriptor.nested_type.extend(types))


def test_an_enum_of_names_without_end_is_refused() -> None:
    def make(descriptor: DescriptorProto) -> None:
        enum = descriptor.nested_type.add(name="Inner").enum_type.add(name="E")
        for number in range(MAX_ENUM_VALUES + 1):
            enum.value.add(name=f"V{number}", number=number)

    assert "too large" in refused(make)


def test_names_without_end_are_cut_in_what_is_said_about_them() -> None:
    endless = "x" * 1_000_000
    for make in (
        lambda descriptor: setattr(descriptor.field[0], "name", endless),
        lambda descriptor: descriptor.field.add(name="id", number=2, type=F.TYPE_INT64, label=1),
        lambda descriptor: descriptor.field[0].MergeFrom(field("id", F.TYPE_MESSAGE, type_name=endless)),
        lambda descriptor: descriptor.field[0].MergeFrom(
            field("id", F.TYPE_ENUM, type_name=".".join(endless))
        ),
        lambda descriptor: descriptor.nested_type.extend([message(name=endless)] * 2),
    ):
        assert len(refused(make)) < 1000


def accepted(sent: bytes) -> Any:
    """The message that protobuf itself makes of the bytes, if it does."""
    try:
        return ROW.FromString(sent)
    except DecodeError:
        return None


def as_struct(inner: Any) -> dict[str, Any]:
    return {
        "x": inner.x if inner.HasField("x") else None,
        "ys": list(inner.ys),
        "s": inner.s if inner.HasField("s") else None,
    }


def as_row(made: Any) -> dict[str, Any]:
    return {
        **{name: getattr(made, name) if made.HasField(name) else None for name in "abcde"},
        "f": list(made.f),
        "g": list(made.g),
        "h": as_struct(made.h) if made.HasField("h") else None,
        "i": [as_struct(inner) for inner in made.i],
    }


def inners() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {},
        optional={
            "x": st.integers(-(2**63), 2**63 - 1),
            "ys": st.lists(st.integers(-(2**31), 2**31 - 1), max_size=3),
            "s": st.text(max_size=5),
        },
    )


def messages() -> st.SearchStrategy[bytes]:
    parts = st.fixed_dictionaries(
        {},
        optional={
            "a": st.integers(-(2**63), 2**63 - 1),
            "b": st.booleans(),
            "c": st.text(max_size=5),
            "d": st.floats(),
            "e": st.integers(0, 2**32 - 1),
            "f": st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3),
            "g": st.lists(st.binary(max_size=5), max_size=3),
            "h": inners(),
            "i": st.lists(inners(), max_size=3),
        },
    )
    return parts.map(lambda values: ROW(**values).SerializeToString())


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A message with some bytes changed, left out, doubled or moved."""
    sent = bytearray(draw(messages()))
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(sent)))
        end = draw(st.integers(start, min(len(sent), start + 4)))
        sent[start:end] = draw(st.binary(max_size=4)) if draw(st.booleans()) else bytes(sent[start:end]) * 2
    return bytes(sent)


@settings(deadline=None)
@given(rows=st.lists(messages() | damaged() | st.binary(max_size=40), min_size=1, max_size=6))
@example(rows=[b"\x0a\x01x", b"\x12\x01\x01"])
@example(rows=[b"\x38\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"])
def test_what_protobuf_accepts_becomes_the_same_rows_and_the_rest_is_refused(rows: list[bytes]) -> None:
    made = [accepted(row) for row in rows]
    batch, refusal = outcome(lambda: DECODER.decode(rows))
    if refusal is not None:
        bad = {problem.index for problem in refusal.rows}
        assert bad
        assert bad <= {index for index, one in enumerate(made) if one is None}
        made = [one for index, one in enumerate(made) if index not in bad]
        batch = DECODER.decode([row for index, row in enumerate(rows) if index not in bad])
    batch.validate(full=True)
    for got, one in zip(batch.to_pylist(), made, strict=True):
        assert one is None or repr(got) == repr(as_row(one))


@st.composite
def descriptors(draw: st.DrawFn, schema: TableSchema) -> DescriptorProto:
    """Any descriptor, more often than not with the names of the table's columns."""
    return draw(_message(schema.columns, 3))


def _message(columns: tuple[Column, ...], depth: int) -> st.SearchStrategy[DescriptorProto]:
    names = st.sampled_from([column.name for column in columns] * 3 + ["Row", "", "other"])

    @st.composite
    def build(draw: st.DrawFn) -> DescriptorProto:
        made = DescriptorProto(name=draw(st.sampled_from(["Row", "A", "B", ""])))
        for _ in range(draw(st.integers(0, 4))):
            added = made.field.add(
                name=draw(names),
                number=draw(
                    st.integers(1, 20) | st.integers(18_990, 20_010) | st.integers(-(2**31), 2**31 - 1)
                ),
                label=draw(st.sampled_from([1, 1, 2, 3])),
            )
            if draw(st.integers(0, 9)):
                added.type = draw(st.sampled_from([*F.Type.values(), F.TYPE_MESSAGE, F.TYPE_MESSAGE]))
            if draw(st.booleans()):
                added.type_name = draw(
                    st.sampled_from(
                        ["A", "B", ".Row.A", "Row", "E", "A.E", ".", "..", ".google.protobuf.Int64Value"]
                    )
                )
            if draw(st.integers(0, 9)) == 0:
                added.options.MergeFromString(draw(st.sampled_from([b"", b"\xaa\x8d\xbe\xc7\x0d\x01\xff"])))
        inside = [child for column in columns for child in column.children]
        if depth:
            below = _message(tuple(inside) or columns, depth - 1)
            made.nested_type.extend(draw(st.lists(below, max_size=2)))
        for name in draw(st.lists(st.sampled_from(["E", "A"]), max_size=1)):
            made.enum_type.add(name=name).value.add(name="ZERO", number=0)
        made.options.map_entry = draw(st.booleans())
        return made

    return build()


@given(data=st.data())
@settings(deadline=None)
def test_any_descriptor_is_understood_or_refused_and_any_bytes_too(data: st.DataObject) -> None:
    schema = data.draw(schemas(max_columns=3, max_depth=2))
    descriptor = data.draw(descriptors(schema))
    # As the server gets it.
    descriptor = DescriptorProto.FromString(descriptor.SerializePartialToString())
    decoder, refusal = outcome(lambda: ProtoRows(schema, descriptor))
    if refusal is not None:
        assert refusal.ends_call
        return
    rows = data.draw(st.lists(st.binary(max_size=30), max_size=4))
    batch, refusal = outcome(lambda: decoder.decode(rows))
    if refusal is not None:
        assert refusal.rows
        assert not refusal.ends_call
    else:
        batch.validate(full=True)
        assert batch.schema.equals(schema.arrow, check_metadata=True)
        assert batch.num_rows == len(rows)


@given(sent=st.binary(max_size=60))
@settings(deadline=None)
def test_any_bytes_that_are_a_descriptor_are_understood_or_refused(sent: bytes) -> None:
    try:
        descriptor = DescriptorProto.FromString(sent)
    except DecodeError:
        return
    with pytest.raises(Refused):
        ProtoRows(ID, descriptor)
