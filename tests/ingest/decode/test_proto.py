"""Serialised messages become rows of the table, or every bad one of them is named."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import Any

import pytest

from lode.ingest.decode.proto.decoder import ProtoRows
from lode.ingest.status import Code, Refused, StorageCode
from lode.ingest.types.columns import Column, TableSchema
from support.ingest.proto_messages import F, decoded, field, message, message_class, repeated, required

ID = Column("id", "INT64")
NAME = Column("name", "STRING")
ID_AND_NAME = message(field("id", F.TYPE_INT64), field("name", F.TYPE_STRING))


def refused(columns: list[Column], descriptor: Any, rows: list[Any]) -> Refused:
    with pytest.raises(Refused) as caught:
        decoded(columns, descriptor, rows)
    return caught.value


def bad(columns: list[Column], descriptor: Any, rows: list[Any]) -> dict[int, str]:
    refusal = refused(columns, descriptor, rows)
    assert refusal.code is Code.INVALID_ARGUMENT
    assert not refusal.ends_call
    assert [problem.index for problem in refusal.rows] == sorted({problem.index for problem in refusal.rows})
    return {problem.index: problem.message for problem in refusal.rows}


def test_unset_is_null_and_an_explicit_zero_is_zero() -> None:
    row = message_class(ID_AND_NAME)
    assert decoded([ID, NAME], ID_AND_NAME, [row(), row(id=0, name=""), row(id=7, name="x")]) == [
        {"id": None, "name": None},
        {"id": 0, "name": ""},
        {"id": 7, "name": "x"},
    ]


def test_a_zero_of_proto3_is_not_on_the_wire_and_so_null() -> None:
    row = message_class(ID_AND_NAME, syntax="proto3")
    assert decoded([ID, NAME], ID_AND_NAME, [row(id=0, name="x")]) == [{"id": None, "name": "x"}]


def test_an_optional_zero_of_proto3_is_zero() -> None:
    descriptor = message(field("id", F.TYPE_INT64))
    descriptor.field[0].proto3_optional = True
    descriptor.field[0].oneof_index = 0
    descriptor.oneof_decl.add(name="_id")
    row = message_class(descriptor, syntax="proto3")
    assert decoded([ID], descriptor, [row(id=0), row()]) == [{"id": 0}, {"id": None}]


def test_an_unset_field_with_a_default_of_proto2_is_null() -> None:
    descriptor = message(field("id", F.TYPE_INT64))
    descriptor.field[0].default_value = "41"
    assert decoded([ID], descriptor, [message_class(descriptor)()]) == [{"id": None}]


def test_fields_find_their_columns_whatever_their_order_numbers_and_case() -> None:
    descriptor = message(
        field("NAME", F.TYPE_STRING, 900), field("other", F.TYPE_DOUBLE, 3), field("Id", F.TYPE_INT64, 17)
    )
    row = message_class(descriptor)(NAME="x", other=1.5, Id=4)
    columns = [ID, Column("Other", "FLOAT64"), NAME]
    assert decoded(columns, descriptor, [row]) == [{"id": 4, "Other": 1.5, "name": "x"}]


def test_columns_that_are_not_sent_are_null_or_empty() -> None:
    columns = [ID, NAME, Column("tags", "STRING", "REPEATED"), Column("day", "DATE")]
    descriptor = message(field("id", F.TYPE_INT64))
    assert decoded(columns, descriptor, [message_class(descriptor)(id=1)]) == [
        {"id": 1, "name": None, "tags": [], "day": None}
    ]


@pytest.mark.parametrize("packed", [True, False])
def test_repeated_fields_may_be_packed_or_not(packed: bool) -> None:
    descriptor = message(repeated("numbers", F.TYPE_INT32))
    sent = message(repeated("numbers", F.TYPE_INT32))
    sent.field[0].options.packed = packed
    row = message_class(sent)
    columns = [Column("numbers", "INT64", "REPEATED")]
    assert decoded(columns, descriptor, [row(numbers=[1, -2, 3]), row(), row(numbers=[4])]) == [
        {"numbers": [1, -2, 3]},
        {"numbers": []},
        {"numbers": [4]},
    ]


def test_messages_become_structs_to_any_depth() -> None:
    inner = message(field("x", F.TYPE_INT64), repeated("ys", F.TYPE_INT64), name="Inner")
    outer = message(
        field("one", F.TYPE_MESSAGE, type_name="Inner"),
        repeated("many", F.TYPE_MESSAGE, type_name="Inner"),
        nested=(inner,),
    )
    parts = (Column("x", "INT64"), Column("ys", "INT64", "REPEATED"), Column("z", "STRING"))
    columns = [Column("one", "STRUCT", fields=parts), Column("many", "STRUCT", "REPEATED", fields=parts)]
    row = message_class(outer)
    rows = [row(), row(one={}, many=[{}, {"x": 0, "ys": [1, 2]}]), row(one={"x": 5, "ys": [6]})]
    nothing: dict[str, Any] = {"x": None, "ys": [], "z": None}
    assert decoded(columns, outer, rows) == [
        {"one": None, "many": []},
        {"one": nothing, "many": [nothing, {"x": 0, "ys": [1, 2], "z": None}]},
        {"one": {"x": 5, "ys": [6], "z": None}, "many": []},
    ]


def test_a_message_that_names_none_of_its_columns_is_a_struct_of_nulls() -> None:
    descriptor = message(field("one", F.TYPE_MESSAGE, type_name="Inner"), nested=(message(name="Inner"),))
    columns = [Column("one", "STRUCT", fields=(Column("x", "INT64"),))]
    row = message_class(descriptor)
    assert decoded(columns, descriptor, [row(), row(one={})]) == [{"one": None}, {"one": {"x": None}}]


def test_no_rows_are_an_empty_batch() -> None:
    inner = message(field("x", F.TYPE_BYTES), name="Inner")
    descriptor = message(
        field("id", F.TYPE_INT64), repeated("many", F.TYPE_MESSAGE, type_name="Inner"), nested=(inner,)
    )
    many = Column("many", "STRUCT", "REPEATED", fields=(Column("x", "NUMERIC"),))
    assert decoded([ID, many, Column("tags", "STRING", "REPEATED")], descriptor, []) == []


def test_a_column_the_table_lacks_is_refused_by_name() -> None:
    refusal = refused([ID], ID_AND_NAME, [b""])
    assert refusal.storage is StorageCode.SCHEMA_MISMATCH_EXTRA_FIELDS
    assert refusal.ends_call
    assert "'name'" in refusal.message


def test_a_nested_column_the_table_lacks_is_refused_by_its_path() -> None:
    inner = message(field("y", F.TYPE_INT64), name="Inner")
    descriptor = message(field("a", F.TYPE_MESSAGE, type_name="Inner"), nested=(inner,))
    refusal = refused([Column("a", "STRUCT", fields=(Column("x", "INT64"),))], descriptor, [b""])
    assert refusal.storage is StorageCode.SCHEMA_MISMATCH_EXTRA_FIELDS
    assert "'a.y'" in refusal.message


def test_every_row_without_a_required_column_is_named() -> None:
    row = message_class(ID_AND_NAME)
    rows = [row(id=1), row(name="x"), row(id=0), row()]
    assert bad([Column("id", "INT64", "REQUIRED"), NAME], ID_AND_NAME, rows).keys() == {1, 3}


def test_a_required_column_that_no_row_has_makes_every_row_bad() -> None:
    row = message_class(ID_AND_NAME)
    columns = [ID, NAME, Column("missing", "INT64", "REQUIRED")]
    assert bad(columns, ID_AND_NAME, [row(), row(id=1)]).keys() == {0, 1}


def test_every_row_without_a_required_field_of_the_message_is_named() -> None:
    inner = message(required("x", F.TYPE_INT64), name="Inner")
    descriptor = message(
        required("id", F.TYPE_INT64), field("inner", F.TYPE_MESSAGE, type_name="Inner"), nested=(inner,)
    )
    row = message_class(descriptor)
    columns = [ID, Column("inner", "STRUCT", fields=(Column("x", "INT64"),))]
    rows = [row(id=1), row(), row(id=2, inner={}), row(id=3, inner={"x": 1})]
    problems = bad(columns, descriptor, rows)
    assert problems.keys() == {1, 2}
    assert "'id'" in problems[1]
    assert "'inner.x'" in problems[2]


def test_every_malformed_row_is_named_and_so_are_rows_that_are_bad_otherwise() -> None:
    row = message_class(ID_AND_NAME)
    rows = [row(id=1, name="x"), b"\xff", row(name="no id"), b"\x08", row(id=2), b"\x12\x02\xff\xfe"]
    problems = bad([Column("id", "INT64", "REQUIRED"), NAME], ID_AND_NAME, rows)
    assert problems.keys() == {1, 2, 3, 5}
    assert all("malformed" in problems[index] for index in (1, 3, 5))
    assert "UTF-8" in problems[5]
    assert "REQUIRED" in problems[2]


def test_when_all_of_many_rows_are_malformed_all_are_named() -> None:
    assert bad([ID, NAME], ID_AND_NAME, [b"\x08"] * 1000).keys() == set(range(1000))


def test_a_bad_value_deep_in_a_list_is_blamed_on_its_row() -> None:
    inner = message(repeated("days", F.TYPE_INT64), name="Inner")
    descriptor = message(repeated("many", F.TYPE_MESSAGE, type_name="Inner"), nested=(inner,))
    columns = [Column("many", "STRUCT", "REPEATED", fields=(Column("days", "DATE", "REPEATED"),))]
    row = message_class(descriptor)
    rows = [
        row(many=[{"days": [1]}, {}]),
        row(),
        row(many=[{}, {"days": [1, 2**40]}]),
        row(many=[{"days": [2_932_897]}]),
    ]
    problems = bad(columns, descriptor, rows)
    assert problems.keys() == {2, 3}
    assert "'many.days'" in problems[2]


def test_a_missing_value_becomes_its_default_only_where_that_is_asked_for() -> None:
    schema = TableSchema(
        (Column("id", "INT64", default="41"), Column("at", "TIMESTAMP", default="CURRENT_TIMESTAMP()"))
    )
    rows = [b"", b"\x08\x07"]
    proto = ProtoRows(schema, message(field("id", F.TYPE_INT64)))
    assert proto.decode(rows).to_pylist() == [{"id": None, "at": None}, {"id": 7, "at": None}]
    first, second = proto.decode(rows, defaults=["id", "AT"]).to_pylist()
    assert (first["id"], second["id"]) == (41, 7)
    assert abs(first["at"] - datetime.now(UTC)).total_seconds() < 60


def test_fields_on_the_wire_that_the_descriptor_lacks_are_ignored() -> None:
    row = message_class(message(field("id", F.TYPE_INT64), field("later", F.TYPE_STRING)))
    assert decoded([ID], message(field("id", F.TYPE_INT64)), [row(id=3, later="x")]) == [{"id": 3}]


def test_of_a_field_that_is_there_twice_the_last_counts_and_messages_are_merged() -> None:
    inner = message(field("x", F.TYPE_INT64), field("y", F.TYPE_INT64), name="Inner")
    descriptor = message(
        field("id", F.TYPE_INT64), field("inner", F.TYPE_MESSAGE, type_name="Inner"), nested=(inner,)
    )
    columns = [ID, Column("inner", "STRUCT", fields=(Column("x", "INT64"), Column("y", "INT64")))]
    row = message_class(descriptor)
    twice = row(id=1, inner={"x": 1}).SerializeToString() + row(id=2, inner={"y": 2}).SerializeToString()
    assert decoded(columns, descriptor, [twice]) == [{"id": 2, "inner": {"x": 1, "y": 2}}]


def test_threads_share_a_decoder() -> None:
    row = message_class(ID_AND_NAME)
    rows = [row(id=number, name=f"{number}").SerializeToString() for number in range(500)]
    proto = ProtoRows(TableSchema((ID, NAME)), ID_AND_NAME)
    expected = proto.decode(rows)
    same: list[bool] = []

    def work() -> None:
        same.extend(proto.decode(rows).equals(expected) for _ in range(20))

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert same == [True] * 80
