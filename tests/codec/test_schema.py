"""Schemas in few words."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lode.codec import to_schema
from lode.errors import InvalidOptionError


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("int32", pa.int32()),
        ("int64", pa.int64()),
        ("float32", pa.float32()),
        ("float64", pa.float64()),
        ("string", pa.string()),
        ("bool", pa.bool_()),
        ("bytes", pa.binary()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("date", pa.date32()),
        ("time", pa.time64("us")),
        ("decimal(12,2)", pa.decimal128(12, 2)),
        ("decimal( 50 , 0 )", pa.decimal256(50, 0)),
        ("list<string>", pa.list_(pa.string())),
        ("list<list<int32>>", pa.list_(pa.list_(pa.int32()))),
        ("map<string,int64>", pa.map_(pa.string(), pa.int64())),
        ("struct<a:int64, b:list<string>>", pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])),
    ],
)
def test_a_type_is_written_in_words(text: str, kind: pa.DataType) -> None:
    assert to_schema({"c": text}) == pa.schema([("c", kind)])


def test_every_field_may_be_null_unless_marked_as_required() -> None:
    schema = to_schema(
        [("a", "int64"), ("b", "int64!"), ("c", "int64", "required"), ("d", pa.int8(), "nullable")]
    )
    assert [field.nullable for field in schema] == [True, False, False, True]
    inner: Any = to_schema({"l": "list<struct<x:int64!>!>!"}).field("l")
    assert not inner.nullable
    assert not inner.type.value_field.nullable
    assert not inner.type.value_type.field("x").nullable


def test_a_pyarrow_schema_is_taken_as_it_is() -> None:
    schema = pa.schema([pa.field("a", pa.int8(), nullable=False)], metadata={"k": "v"})
    assert to_schema(schema) is schema
    assert to_schema([schema.field("a")]).equals(schema)


@pytest.mark.parametrize(
    "spec",
    [
        {"good": "int64", "bad": "integer"},
        {"bad": "list<int64"},
        {"bad": "list<int64>>"},
        {"bad": "int64 string"},
        {"bad": "decimal(5)"},
        {"bad": "decimal(2,5)"},
        {"bad": "decimal(99,2)"},
        {"bad": "decimal(x,2)"},
        {"bad": "map<string>"},
        {"bad": "struct<>"},
        {"bad": "struct<a>"},
        {"bad": "struct<a:int64,a:string>"},
        {"bad": ""},
        {"bad": "!"},
        {"bad": 5},
        [("bad", "int64", "maybe")],
        [("bad", "int64!", "nullable")],
        [("bad", "int64"), ("bad", "string")],
        pa.schema([("bad", pa.int64()), ("bad", pa.int64())]),
    ],
)
def test_a_field_that_makes_no_sense_is_named(spec: Any) -> None:
    with pytest.raises(InvalidOptionError, match="field 'bad'"):
        to_schema(spec)


@pytest.mark.parametrize("spec", ["id int64", 5, [5], [("a",)], [(1, "int64")], None, {}, []])
def test_something_that_is_no_schema_is_refused(spec: Any) -> None:
    with pytest.raises(InvalidOptionError):
        to_schema(spec)
