"""Descriptors as clients send them: bare, with the names of files that the server never sees."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto

from lode.ingest.decode.proto.decoder import ProtoRows
from lode.ingest.status import Code, Refused
from lode.ingest.types.columns import Column, TableSchema
from support.ingest.proto_messages import F, decoded, field, message, message_class, repeated

INNER = message(field("x", F.TYPE_INT64), name="Inner")
STRUCT = Column("it", "STRUCT", fields=(Column("x", "INT64"),))


def refused(columns: list[Column], descriptor: DescriptorProto) -> str:
    with pytest.raises(Refused) as caught:
        ProtoRows(TableSchema(tuple(columns)), descriptor)
    assert caught.value.code is Code.INVALID_ARGUMENT
    assert caught.value.ends_call
    return caught.value.message


@pytest.mark.parametrize(
    "name", ["Inner", "Row.Inner", ".Row.Inner", ".my.package.Row.Inner", "my.package.Row.Inner"]
)
def test_a_nested_type_is_found_by_every_name_that_clients_give_it(name: str) -> None:
    descriptor = message(field("it", F.TYPE_MESSAGE, type_name=name), nested=(INNER,))
    assert decoded([STRUCT], descriptor, [b"\x0a\x02\x08\x05"]) == [{"it": {"x": 5}}]


def test_of_two_types_of_one_name_the_nearer_is_meant() -> None:
    near = message(field("x", F.TYPE_STRING), name="Inner")
    middle = message(field("inner", F.TYPE_MESSAGE, type_name="Inner"), name="Middle", nested=(near,))
    descriptor = message(field("it", F.TYPE_MESSAGE, type_name="Middle"), nested=(middle, INNER))
    below = Column("inner", "STRUCT", fields=(Column("x", "STRING"),))
    row = message_class(descriptor)(it={"inner": {"x": "near"}})
    assert decoded([Column("it", "STRUCT", fields=(below,))], descriptor, [row]) == [
        {"it": {"inner": {"x": "near"}}}
    ]


def test_a_type_may_be_named_without_its_kind() -> None:
    descriptor = message(field("it", F.TYPE_MESSAGE, type_name="Inner"), nested=(INNER,))
    descriptor.field[0].ClearField("type")
    assert decoded([STRUCT], descriptor, [b"\x0a\x02\x08\x05"]) == [{"it": {"x": 5}}]


def test_the_descriptor_of_a_generated_class_is_understood() -> None:
    source = message(
        field("id", F.TYPE_INT64),
        repeated("it", F.TYPE_MESSAGE, type_name="Inner"),
        nested=(INNER,),
        name="Order",
    )
    order = message_class(source, package="shop.v1")
    sent = DescriptorProto()
    order.DESCRIPTOR.CopyToProto(sent)
    assert sent.field[1].type_name == ".shop.v1.Order.Inner"
    columns = [Column("id", "INT64"), Column("it", "STRUCT", "REPEATED", fields=STRUCT.fields)]
    assert decoded(columns, sent, [order(id=1, it=[{"x": 2}])]) == [{"id": 1, "it": [{"x": 2}]}]


def test_an_enum_is_found_where_java_clients_put_it() -> None:
    home = message(field("first", F.TYPE_ENUM, type_name="p_Color_E.Color"), name="p_Home")
    home.nested_type.append(message(name="p_Color_E", enums={"Color": {"RED": 0, "BLUE": 1}}))
    descriptor = message(
        field("home", F.TYPE_MESSAGE, type_name="p_Home"),
        field("second", F.TYPE_ENUM, type_name="p_Color_E.Color"),
        nested=(home,),
    )
    columns = [Column("home", "STRUCT", fields=(Column("first", "STRING"),)), Column("second", "STRING")]
    assert decoded(columns, descriptor, [b"\x0a\x02\x08\x01\x10\x00"]) == [
        {"home": {"first": "BLUE"}, "second": "RED"}
    ]


WRAPPED: list[tuple[str, str, Any, Any, Any]] = [
    ("INT64", "Int64Value", -5, -5, 0),
    ("INT64", "Int32Value", -5, -5, 0),
    ("INT64", "UInt32Value", 5, 5, 0),
    ("BOOL", "BoolValue", True, True, False),
    ("FLOAT64", "DoubleValue", 0.1, 0.1, 0.0),
    ("FLOAT64", "FloatValue", 0.5, 0.5, 0.0),
    ("STRING", "StringValue", "x", "x", ""),
    ("BYTES", "BytesValue", b"x", b"x", b""),
    ("TIMESTAMP", "Int64Value", 1, datetime(1970, 1, 1, 0, 0, 0, 1, UTC), datetime(1970, 1, 1, tzinfo=UTC)),
    ("DATE", "Int32Value", 1, date(1970, 1, 2), date(1970, 1, 1)),
    ("NUMERIC", "BytesValue", b"\x01", Decimal("1e-9"), ...),
]


@pytest.mark.parametrize(("kind", "wrapper", "sent", "stored", "zero"), WRAPPED)
def test_a_wrapper_is_a_value_or_null_and_zero_when_empty(
    kind: str, wrapper: str, sent: Any, stored: Any, zero: Any
) -> None:
    name = f".google.protobuf.{wrapper}"
    descriptor = message(
        field("it", F.TYPE_MESSAGE, type_name=name), repeated("them", F.TYPE_MESSAGE, type_name=name)
    )
    row = message_class(descriptor)
    columns = [Column("it", kind), Column("them", kind, "REPEATED")]
    rows = [row(), row(it={"value": sent}, them=[{"value": sent}] * 2)]
    expected = [{"it": None, "them": []}, {"it": stored, "them": [stored, stored]}]
    if zero is not ...:
        rows.append(row(it={}, them=[{}, {"value": sent}]))
        expected.append({"it": zero, "them": [zero, stored]})
    assert decoded(columns, descriptor, rows) == expected


def test_a_wrapper_that_java_clients_nested_and_renamed_is_still_one() -> None:
    wrapper = message(field("value", F.TYPE_INT64), name="google_protobuf_Int64Value")
    descriptor = message(
        field("it", F.TYPE_MESSAGE, type_name="google_protobuf_Int64Value"), nested=(wrapper,)
    )
    row = message_class(descriptor)
    assert decoded([Column("it", "INT64")], descriptor, [row(), row(it={}), row(it={"value": 3})]) == [
        {"it": None},
        {"it": 0},
        {"it": 3},
    ]


def test_a_timestamp_message_becomes_a_timestamp_cut_to_microseconds() -> None:
    descriptor = message(field("it", F.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp"))
    row = message_class(descriptor)
    columns = [Column("it", "TIMESTAMP")]
    sent = [{}, {"seconds": -1, "nanos": 999_999_999}, {"seconds": 253_402_300_799, "nanos": 999_999_000}]
    assert decoded(columns, descriptor, [row(), *(row(it=one) for one in sent)]) == [
        {"it": None},
        {"it": datetime(1970, 1, 1, tzinfo=UTC)},
        {"it": datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)},
        {"it": datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)},
    ]
    outside = [
        {"seconds": 253_402_300_800},
        {"nanos": -1},
        {"nanos": 10**9},
        {"seconds": -(2**63), "nanos": -5},
    ]
    with pytest.raises(Refused) as caught:
        decoded(columns, descriptor, [row(), *(row(it=one) for one in outside)])
    assert [problem.index for problem in caught.value.rows] == [1, 2, 3, 4]


def test_a_duration_message_becomes_an_interval() -> None:
    descriptor = message(field("it", F.TYPE_MESSAGE, type_name=".google.protobuf.Duration"))
    row = message_class(descriptor)
    columns = [Column("it", "INTERVAL")]
    sent = [{}, {"seconds": 3723, "nanos": 4000}, {"seconds": -3723, "nanos": -4000}, {"nanos": -500_000_000}]
    assert [item["it"] for item in decoded(columns, descriptor, [row(), *(row(it=one) for one in sent)])] == [
        None,
        "0-0 0 0:0:0",
        "0-0 0 1:2:3.000004",
        "0-0 0 -1:2:3.000004",
        "0-0 0 -0:0:0.500",
    ]
    with pytest.raises(Refused) as caught:
        decoded(columns, descriptor, [row(), row(it={"seconds": 1, "nanos": -1}), row(it={"seconds": 2**60})])
    assert [problem.index for problem in caught.value.rows] == [1, 2]


def test_a_map_is_a_list_of_keys_and_values_none_of_them_unset() -> None:
    entry = message(field("key", F.TYPE_STRING), field("value", F.TYPE_INT64), name="CountsEntry")
    entry.options.map_entry = True
    descriptor = message(repeated("counts", F.TYPE_MESSAGE, type_name="CountsEntry"), nested=(entry,))
    columns = [
        Column(
            "counts",
            "STRUCT",
            "REPEATED",
            fields=(Column("key", "STRING", "REQUIRED"), Column("value", "INT64")),
        )
    ]
    rows = [b"\x0a\x05\x0a\x01a\x10\x07", b"\x0a\x00", b""]
    assert decoded(columns, descriptor, rows) == [
        {"counts": [{"key": "a", "value": 7}]},
        {"counts": [{"key": "", "value": 0}]},
        {"counts": []},
    ]


def test_the_option_column_name_names_the_column() -> None:
    descriptor = message(field("col_1", F.TYPE_INT64), field("name", F.TYPE_STRING))
    option = "größe 中".encode()
    # A client's extension that this process knows nothing of: field 454943157 with bytes, as a varint.
    number = 454943157 << 3 | 2
    tag = bytes((number >> shift & 127) | (128 if shift < 28 else 0) for shift in range(0, 35, 7))
    descriptor.field[0].options.MergeFromString(tag + bytes([len(option)]) + option)
    assert decoded(
        [Column("größe 中", "INT64"), Column("name", "STRING")], descriptor, [b"\x08\x03\x12\x01x"]
    ) == [{"größe 中": 3, "name": "x"}]


def test_a_oneof_is_fields_of_which_the_others_are_null() -> None:
    descriptor = message(field("a", F.TYPE_INT64), field("b", F.TYPE_STRING))
    descriptor.oneof_decl.add(name="choice")
    for one in descriptor.field:
        one.oneof_index = 0
    row = message_class(descriptor)
    assert decoded([Column("a", "INT64"), Column("b", "STRING")], descriptor, [row(a=0), row(b="x")]) == [
        {"a": 0, "b": None},
        {"a": None, "b": "x"},
    ]


def test_a_descriptor_without_fields_is_refused() -> None:
    assert "no fields" in refused([Column("it", "INT64")], DescriptorProto())


def test_a_type_that_the_descriptor_does_not_contain_is_refused() -> None:
    assert "'Elsewhere'" in refused([STRUCT], message(field("it", F.TYPE_MESSAGE, type_name="Elsewhere")))
    assert "'it'" in refused([STRUCT], message(field("it", F.TYPE_MESSAGE)))
    assert "'it'" in refused(
        [Column("it", "STRING")], message(field("it", F.TYPE_ENUM, type_name="Elsewhere"))
    )


def test_a_well_known_type_that_no_column_is_made_of_is_refused() -> None:
    any_field = field("it", F.TYPE_MESSAGE, type_name=".google.protobuf.Any")
    assert "google.protobuf.Any" in refused([STRUCT], message(any_field))
    assert "google.protobuf.Any" in refused([Column("it", "STRING")], message(any_field))


def test_a_message_for_a_column_that_is_no_struct_is_refused() -> None:
    descriptor = message(field("it", F.TYPE_MESSAGE, type_name="Inner"), nested=(INNER,))
    assert "INT64" in refused([Column("it", "INT64")], descriptor)


def test_a_message_inside_itself_is_refused() -> None:
    node = message(field("next", F.TYPE_MESSAGE, type_name="Node"), field("x", F.TYPE_INT64), name="Node")
    descriptor = message(field("it", F.TYPE_MESSAGE, type_name="Node"), nested=(node,))
    deep = Column(
        "next", "STRUCT", fields=(Column("x", "INT64"), Column("next", "STRUCT", fields=STRUCT.fields))
    )
    assert "contains itself" in refused(
        [Column("it", "STRUCT", fields=(deep, Column("x", "INT64")))], descriptor
    )
    itself = message(field("it", F.TYPE_MESSAGE, type_name="Row"))
    assert "contains itself" in refused([Column("it", "STRUCT", fields=(STRUCT,))], itself)


def test_groups_and_extensions_are_refused() -> None:
    group = message(field("it", F.TYPE_GROUP, type_name="Inner"), nested=(INNER,))
    assert "group" in refused([STRUCT], group)
    extending = message(field("it", F.TYPE_INT64))
    extending.extension.append(field("more", F.TYPE_INT64, 100))
    assert "extensions" in refused([Column("it", "INT64")], extending)
    extension = message(field("it", F.TYPE_INT64))
    extension.field[0].extendee = ".Row"
    assert "extension" in refused([Column("it", "INT64")], extension)


@pytest.mark.parametrize("number", [-1, 0, 19_000, 19_999, 1 << 29, 2**31 - 1])
def test_a_number_that_no_field_can_have_is_refused(number: int) -> None:
    descriptor = message(field("it", F.TYPE_INT64))
    descriptor.field[0].number = number
    assert str(number) in refused([Column("it", "INT64")], descriptor)


def test_two_fields_of_one_number_or_one_name_are_refused() -> None:
    columns = [Column("a", "INT64"), Column("b", "INT64")]
    assert "number 3" in refused(columns, message(field("a", F.TYPE_INT64, 3), field("b", F.TYPE_INT64, 3)))
    assert "case" in refused(columns, message(field("a", F.TYPE_INT64), field("A", F.TYPE_INT64)))


def test_a_type_declared_twice_is_refused() -> None:
    assert "twice" in refused(
        [STRUCT], message(field("it", F.TYPE_MESSAGE, type_name="Inner"), nested=(INNER, INNER))
    )


def test_a_repeated_field_needs_a_repeated_column_and_the_other_way_round() -> None:
    assert "REPEATED" in refused([Column("it", "INT64", "REPEATED")], message(field("it", F.TYPE_INT64)))
    assert "repeated" in refused([Column("it", "INT64")], message(repeated("it", F.TYPE_INT64)))
