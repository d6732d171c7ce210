"""Arrow data is brought into a schema by the same rules as Python values, without a copy where possible."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from lode.codec import to_batch, to_schema
from lode.errors import SchemaViolationError
from support.codec.strategies import tables

NEW_YEAR = datetime(2024, 1, 1, tzinfo=UTC)


def batch_of(kind: Any, values: list[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(values, kind)], names=["c"])


def test_a_batch_of_the_same_schema_shares_its_memory() -> None:
    batch = batch_of(pa.int64(), [1, 2, 3])
    same = to_batch(batch, to_schema({"c": "int64!"}), first_row=0)
    assert same.column(0).buffers()[1].address == batch.column(0).buffers()[1].address  # type: ignore[union-attr]
    assert not same.schema.field("c").nullable


def test_columns_are_matched_by_name() -> None:
    batch = pa.RecordBatch.from_pydict({"b": ["x"], "a": [1]})
    schema = to_schema({"a": "int64", "b": "string", "late": "date"})
    assert to_batch(batch, schema, first_row=0).to_pylist() == [{"a": 1, "b": "x", "late": None}]


@pytest.mark.parametrize(
    ("kind", "values", "target", "expected"),
    [
        (pa.int32(), [1, None], "int64", [1, None]),
        (pa.int64(), [1], "int32", [1]),
        (pa.int64(), [2**60], "float64", [2.0**60]),
        (pa.float64(), [4.0], "int64", [4]),
        (pa.float64(), [0.5, float("inf")], "float32", [0.5, float("inf")]),
        (pa.large_string(), ["x"], "string", ["x"]),
        (pa.string_view(), ["x", None], "string", ["x", None]),
        (pa.dictionary(pa.int8(), pa.string()), ["x", None], "string", ["x", None]),
        (pa.string(), ["x"], pa.dictionary(pa.int32(), pa.string()), ["x"]),
        (pa.binary(2), [b"ab"], "bytes", [b"ab"]),
        (pa.int64(), [5], "decimal(5,2)", [Decimal("5.00")]),
        (pa.decimal128(10, 4), [Decimal("1.5000")], "decimal(5,2)", [Decimal("1.50")]),
        (pa.timestamp("ns", "UTC"), [NEW_YEAR], "timestamp", [NEW_YEAR]),
        (pa.timestamp("us", "Europe/Paris"), [0], "timestamp", [datetime(1970, 1, 1, tzinfo=UTC)]),
        (pa.string(), ["2024-01-01T00:00:00Z"], "timestamp", [NEW_YEAR]),
        (pa.string(), ["2024-01-01"], "date", [date(2024, 1, 1)]),
        (pa.large_list(pa.string_view()), [["a", None], None], "list<string>", [["a", None], None]),
        (pa.struct([("a", pa.int32())]), [{"a": 1}], "struct<a:int64>", [{"a": 1}]),
        (pa.struct([("a", pa.int32())]), [{"a": 1}], "struct<a:int64,b:string>", [{"a": 1, "b": None}]),
        (pa.list_(pa.float64()), [[0.5]], "list<float32>", [[0.5]]),
        (pa.null(), [None], "string", [None]),
    ],
)  # fmt: skip
def test_a_cast_that_keeps_every_value_is_made(
    kind: Any, values: list[Any], target: Any, expected: Any
) -> None:
    batch = to_batch(batch_of(kind, values), to_schema({"c": target}), first_row=0)
    assert batch.column(0).to_pylist() == expected


@pytest.mark.parametrize(
    ("kind", "values", "target"),
    [
        (pa.int64(), [1, None, 2**40], "int32"),
        (pa.int64(), [1, 2, 2**53 + 1], "float64"),
        (pa.float64(), [1.0, 2.0, 2.5], "int64"),
        (pa.float64(), [1.0, float("nan"), 1e300], "float32"),
        (pa.float64(), [None, None, 1.5], "decimal(5,2)"),
        (pa.bool_(), [None, None, True], "int64"),
        (pa.int64(), [None, None, 1], "bool"),
        (pa.int64(), [None, None, 1], "string"),
        (pa.string(), [None, None, "1"], "int64"),
        (pa.string(), [None, None, "x"], "bytes"),
        (pa.binary(), [None, None, b"x"], "string"),
        (pa.decimal128(10, 4), [None, Decimal("1.5000"), Decimal("1.5001")], "decimal(5,2)"),
        (pa.timestamp("ns", "UTC"), [0, 1000, 1], "timestamp"),
        (pa.timestamp("us"), [None, None, 0], "timestamp"),
        (pa.timestamp("ns"), [None, None, 1], "timestamp"),
        (pa.timestamp("us", "UTC"), [None, None, 0], pa.timestamp("us")),
        (pa.timestamp("us"), [None, None, 5], "date"),
        (pa.int64(), [None, None, 5], "timestamp"),
        (pa.string(), [None, None, "yesterday"], "timestamp"),
    ],
)
def test_a_cast_that_would_change_a_value_names_the_first_row(
    kind: Any, values: list[Any], target: Any
) -> None:
    with pytest.raises(SchemaViolationError) as caught:
        to_batch(batch_of(kind, values), to_schema({"c": target}), first_row=100)
    assert (caught.value.row, caught.value.column) == (102, "c")


def test_a_null_in_a_required_column_names_its_row() -> None:
    for kind in (pa.int64(), pa.int32()):
        with pytest.raises(SchemaViolationError, match="row 11, column 'c': null in a required column"):
            to_batch(batch_of(kind, [1, None]), to_schema({"c": "int64!"}), first_row=10)


@pytest.mark.parametrize(
    ("target", "values", "path"),
    [
        ("list<int64!>", [[1], None, [1, None]], "c[1]"),
        ("struct<a:int64!>", [{"a": 1}, None, {"a": None}], "c.a"),
        ("map<string,int64!>", [[("k", 1)], None, [("k", None)]], "c['k']"),
        ("list<struct<a:int64!>>", [[None], [], [{"a": None}]], "c[0].a"),
    ],
)
def test_a_null_inside_of_a_nested_value_names_row_and_way(target: str, values: list[Any], path: str) -> None:
    schema = to_schema({"c": target})
    loose = to_schema({"c": target.replace("!", "")})
    for kind in (schema.field("c").type, loose.field("c").type):
        batch = batch_of(kind, [*values[:1], *values])
        with pytest.raises(SchemaViolationError) as caught:
            to_batch(batch.slice(1), schema, first_row=0)
        assert (caught.value.row, caught.value.column) == (2, path)


def test_an_unknown_column_is_refused_by_name() -> None:
    with pytest.raises(SchemaViolationError, match="column 'c': not in the schema, which has a"):
        to_batch(batch_of(pa.int64(), [1]), to_schema({"a": "int64"}), first_row=0)


def test_a_required_column_that_is_missing_is_refused() -> None:
    with pytest.raises(SchemaViolationError, match="row 7, column 'a': a required column is missing"):
        to_batch(batch_of(pa.int64(), [1]), to_schema({"c": "int64", "a": "int64!"}), first_row=7)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(tables())
def test_arrow_data_of_a_schema_fits_that_schema(table: tuple[pa.Schema, list[dict[str, Any]]]) -> None:
    schema, rows = table
    batch = to_batch(rows, schema, first_row=0)
    assert to_batch(batch, schema, first_row=0).equals(batch)
