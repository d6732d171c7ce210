"""Python values become Arrow values exactly, or an error names the row and the column."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from lode.codec import to_batch, to_schema
from lode.errors import InvalidOptionError, SchemaViolationError

PLUS_TWO = timezone(timedelta(hours=2))


class Color(Enum):
    RED = "red"


def stored(kind: Any, value: Any) -> Any:
    """Return what a nullable column holds after one value went into it, next to a null."""
    batch = to_batch([{"c": None}, {"c": value}], to_schema({"c": kind}), first_row=0)
    assert batch.column(0)[0].as_py() is None
    return batch.column(0)[1].as_py()


def complaint(kind: Any, value: Any, *, path: str = "c") -> str:
    """Return the error of the second row, having checked that it names row and column."""
    with pytest.raises(SchemaViolationError) as caught:
        to_batch([{"c": None}, {"c": value}], to_schema({"c": kind}), first_row=40)
    assert caught.value.row == 41
    assert caught.value.column == path
    assert "row 41" in str(caught.value)
    assert path in str(caught.value) or repr(path) in str(caught.value)
    return str(caught.value)


ACCEPTED: list[tuple[Any, Any, Any]] = [
    ("int64", 5, 5),
    ("int64", -(2**63), -(2**63)),
    ("int64", 4.0, 4),
    ("int32", 2.0**31 - 1, 2**31 - 1),
    ("int64", np.int64(7), 7),
    ("int64", np.float64(7.0), 7),
    (pa.uint64(), 2**64 - 1, 2**64 - 1),
    ("float64", 3, 3.0),
    ("float64", 2**60, float(2**60)),
    ("float64", np.float32(0.5), 0.5),
    ("float32", 16_777_216, 16_777_216.0),
    ("float32", 0.1, float(np.float32(0.1))),
    ("float32", float("inf"), float("inf")),
    ("string", "text", "text"),
    ("string", Color.RED, "red"),
    ("string", np.str_("n"), "n"),
    ("bool", True, True),
    ("bool", np.True_, True),
    ("bytes", bytearray(b"ab"), b"ab"),
    ("bytes", memoryview(b"ab"), b"ab"),
    (pa.binary(2), b"ab", b"ab"),
    ("timestamp", datetime(2024, 1, 1, 2, tzinfo=PLUS_TWO), datetime(2024, 1, 1, tzinfo=UTC)),
    ("timestamp", "2024-01-01T02:00:00.5+02:00", datetime(2024, 1, 1, 0, 0, 0, 500_000, tzinfo=UTC)),
    ("timestamp", "2024-01-01T00:00:00.123456000Z", datetime(2024, 1, 1, 0, 0, 0, 123_456, tzinfo=UTC)),
    ("timestamp", pd.Timestamp("2024-01-01", tz="UTC"), datetime(2024, 1, 1, tzinfo=UTC)),
    (pa.timestamp("us"), datetime(2024, 1, 1), datetime(2024, 1, 1)),
    (pa.timestamp("us"), "2024-01-01T00:00:00", datetime(2024, 1, 1)),
    (pa.timestamp("s"), datetime(2024, 1, 1), datetime(2024, 1, 1)),
    (pa.timestamp("ns"), pd.Timestamp(1_704_067_200_000_000_001), pd.Timestamp(1_704_067_200_000_000_001)),
    ("date", date(2024, 2, 29), date(2024, 2, 29)),
    ("date", "2024-02-29", date(2024, 2, 29)),
    ("time", time(1, 2, 3, 4), time(1, 2, 3, 4)),
    ("time", "01:02:03.000004", time(1, 2, 3, 4)),
    (pa.time32("s"), time(1, 2, 3), time(1, 2, 3)),
    ("decimal(5,2)", Decimal("1.500"), Decimal("1.50")),
    ("decimal(5,2)", Decimal("1E+2"), Decimal("100.00")),
    ("decimal(5,2)", 7, Decimal("7.00")),
    ("decimal(5,2)", "-1.25", Decimal("-1.25")),
    ("decimal(60,1)", "9" * 59 + ".9", Decimal("9" * 59 + ".9")),
    (pa.duration("us"), timedelta(seconds=1), timedelta(seconds=1)),
    (pa.duration("us"), "P1DT2H3M4.5S", timedelta(days=1, hours=2, minutes=3, seconds=4.5)),
    (pa.duration("s"), "-PT86399S", timedelta(seconds=-86399)),
    (pa.duration("ms"), "P0D", timedelta(0)),
    (pa.dictionary(pa.int32(), pa.string()), "a", "a"),
    ("list<int64>", (1, 2.0, None), [1, 2, None]),
    ("list<float64>", np.array([1.5, 2.5]), [1.5, 2.5]),
    ("struct<a:int64,b:string>", {"a": 1}, {"a": 1, "b": None}),
    ("struct<a:int64>", MappingProxyType({"a": 1}), {"a": 1}),
    ("map<string,int64>", {"a": 1.0}, [("a", 1)]),
    ("map<int64,string>", [(1, "a")], [(1, "a")]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "value", "expected"), ACCEPTED)
def test_a_value_that_fits_exactly_is_kept(kind: Any, value: Any, expected: Any) -> None:
    assert stored(kind, value) == expected


REFUSED: list[tuple[Any, Any, str]] = [
    ("int64", True, "bool True does not fit int64"),
    ("int64", np.True_, "does not fit int64"),
    ("int64", "5", "str '5' does not fit int64"),
    ("int64", 1.5, "1.5 is not a whole number"),
    ("int64", float("nan"), "nan is not a whole number"),
    ("int64", 2**63, "out of range for int64"),
    ("int32", 2.0**31, "out of range for int32"),
    ("int64", Decimal(5), "does not fit int64"),
    (pa.uint8(), -1, "out of range for uint8"),
    ("float64", True, "bool True does not fit float64"),
    ("float64", "1.5", "does not fit float64"),
    ("float64", 2**53 + 1, "no exact float64"),
    ("float64", 10**400, "out of range for float64"),
    ("float32", 16_777_217, "no exact float32"),
    ("float32", 1e39, "out of range for float32"),
    ("float32", -1e39, "out of range for float32"),
    ("string", 5, "int 5 does not fit string"),
    ("string", b"x", "bytes b'x' does not fit string"),
    ("string", "\ud800", "lone surrogate"),
    ("bool", 1, "int 1 does not fit bool"),
    ("bytes", "x", "str 'x' does not fit bytes"),
    (pa.binary(2), b"abc", "3 bytes in a column of exactly 2"),
    ("timestamp", datetime(2024, 1, 1), "has no time zone"),
    ("timestamp", "2024-01-01T00:00:00", "has no time zone"),
    ("timestamp", "2024-01-01", "not an RFC 3339 time"),
    ("timestamp", "2024-01-01T00:00:00.1234567Z", "finer than the column's unit, us"),
    ("timestamp", 1_704_067_200, "does not fit timestamp"),
    ("timestamp", date(2024, 1, 1), "does not fit timestamp"),
    (pa.timestamp("us"), datetime(2024, 1, 1, tzinfo=UTC), "has a time zone"),
    (pa.timestamp("us"), pd.Timestamp("2024-01-01T00:00:00.000000001"), "finer than"),
    (pa.timestamp("s"), datetime(2024, 1, 1, 0, 0, 0, 1), "finer than the column's unit, s"),
    (pa.timestamp("ms"), datetime(2024, 1, 1, 0, 0, 0, 1), "finer than the column's unit, ms"),
    (pa.timestamp("ns"), datetime(9999, 1, 1), "out of range for the column's unit, ns"),
    ("date", datetime(2024, 1, 1), "take its date() first"),
    ("date", "2024-02-30", "day"),
    ("date", "20240101", "not a date"),
    ("time", time(1, tzinfo=UTC), "has a time zone"),
    ("time", "25:00:00", "not a time of day"),
    (pa.time32("s"), time(1, 2, 3, 4), "finer than the column's unit, s"),
    ("decimal(5,2)", 1.5, "give a Decimal or text"),
    ("decimal(5,2)", True, "bool True does not fit decimal(5,2)"),
    ("decimal(5,2)", Decimal("1.234"), "needs more than 2 decimals"),
    ("decimal(5,2)", Decimal("1000"), "out of range for decimal(5,2)"),
    ("decimal(5,2)", Decimal("NaN"), "does not fit decimal(5,2)"),
    ("decimal(5,2)", Decimal("1E-1000000"), "out of range"),
    ("decimal(5,2)", "1_0", "does not fit decimal(5,2)"),
    (pa.duration("s"), timedelta(microseconds=1), "finer than the column's unit, s"),
    (pa.duration("us"), "PT0.0000001S", "finer than the column's unit, us"),
    (pa.duration("ns"), "P9999999999D", "out of range"),
    *((pa.duration("us"), text, "is not a duration") for text in ("", "P", "P1DT", "PT", "P1Y", "1 day")),
    ("list<int64>", "abc", "does not fit list"),
    ("list<int64>", {1}, "does not fit list"),
    (pa.list_(pa.int64(), 2), [1], "1 elements in a list of exactly 2"),
    ("struct<a:int64>", [1], "does not fit struct"),
    ("map<string,int64>", [1], "does not fit map"),
    (pa.null(), 1, "does not fit null"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "value", "expected"), REFUSED)
def test_a_value_that_does_not_fit_is_refused_by_row_and_column(kind: Any, value: Any, expected: str) -> None:
    assert expected in complaint(kind, value)


@pytest.mark.parametrize(
    ("kind", "value", "path"),
    [
        ("list<int64>", [1, 2, "x"], "c[2]"),
        ("list<int64!>", [1, None], "c[1]"),
        ("list<list<bool>>", [[True], [0]], "c[1][0]"),
        ("list<struct<name:string!>>", [{"name": "a"}, {"name": None}], "c[1].name"),
        ("list<struct<name:string!>>", [{"name": "a"}, {}], "c[1].name"),
        ("struct<a:struct<b:int32>>", {"a": {"b": 2**40}}, "c.a.b"),
        ("struct<a:int64>", {"a": 1, "z": 2}, "c.z"),
        ("map<string,int64>", {"k": "v"}, "c['k']"),
        ("map<string,int64!>", {"k": None}, "c['k']"),
        ("map<string,int64>", {1: 1}, "c[1]"),
    ],
)
def test_an_error_inside_of_a_value_names_the_way_to_it(kind: str, value: Any, path: str) -> None:
    complaint(kind, value, path=path)


def test_a_missing_nullable_column_is_null() -> None:
    batch = to_batch([{"a": 1}, {"b": 2}], to_schema({"a": "int64", "b": "int64"}), first_row=0)
    assert batch.to_pylist() == [{"a": 1, "b": None}, {"a": None, "b": 2}]


@pytest.mark.parametrize("row", [{"b": 1}, {"a": None, "b": 1}, {}])
def test_a_required_column_that_is_missing_or_null_names_the_row(row: dict[str, Any]) -> None:
    schema = to_schema({"a": "int64!", "b": "int64"})
    with pytest.raises(SchemaViolationError, match="row 3, column 'a'") as caught:
        to_batch([{"a": 1}, row], schema, first_row=2)
    assert (caught.value.row, caught.value.column) == (3, "a")


@pytest.mark.parametrize("row", [{"a": 1, "zz": 1}, {"a": 1, "b": 2, "zz": None}, {"zz": 1}])
def test_a_field_that_the_schema_does_not_have_names_row_and_field(row: dict[str, Any]) -> None:
    with pytest.raises(SchemaViolationError, match="row 1, column 'zz': not in the schema, which has a, b"):
        to_batch([{"a": 1, "b": 1}, row], to_schema({"a": "int64", "b": "int64"}), first_row=0)


def test_a_dict_that_makes_up_values_is_read_as_it_is_and_left_alone() -> None:
    rows: list[Any] = [defaultdict(int, a=1), defaultdict(int, b=2)]
    batch = to_batch(rows, to_schema({"a": "int64", "b": "int64"}), first_row=0)
    assert batch.to_pylist() == [{"a": 1, "b": None}, {"a": None, "b": 2}]
    assert [dict(row) for row in rows] == [{"a": 1}, {"b": 2}]


def test_something_that_is_no_record_is_refused() -> None:
    with pytest.raises(SchemaViolationError, match="row 1: int is not a record"):
        to_batch([{"a": 1}, 5], to_schema({"a": "int64"}), first_row=0)


@dataclass
class Point:
    x: int
    y: float
    tags: list[str] = field(default_factory=list)


class PointStruct(msgspec.Struct):
    x: int
    y: float | msgspec.UnsetType = msgspec.UNSET
    tags: list[str] = []


POINT = {"x": "int64!", "y": "float64", "tags": "list<string>"}


@pytest.mark.parametrize(
    "rows",
    [
        [Point(1, 2.0, ["a"])],
        [PointStruct(1, 2.0, ["a"])],
        [MappingProxyType({"x": 1, "y": 2.0, "tags": ["a"]})],
    ],
)
def test_records_may_be_dataclasses_structs_and_mappings(rows: list[Any]) -> None:
    expected = {"x": 1, "y": 2.0, "tags": ["a"]}
    assert to_batch(rows, to_schema(POINT), first_row=0).to_pylist() == [expected]
    mixed = [*rows, dict(expected)]
    assert to_batch(mixed, to_schema(POINT), first_row=0).to_pylist() == [expected, expected]


def test_an_unset_field_of_a_struct_is_missing() -> None:
    assert to_batch([PointStruct(1)], to_schema(POINT), first_row=0).to_pylist() == [
        {"x": 1, "y": None, "tags": []}
    ]


def test_a_record_class_with_a_field_too_many_is_refused_by_row_and_field() -> None:
    with pytest.raises(SchemaViolationError, match="row 0, column 'tags'"):
        to_batch([Point(1, 2.0)], to_schema({"x": "int64", "y": "float64"}), first_row=0)


def test_nested_records_may_be_dataclasses_too() -> None:
    schema = to_schema({"p": "struct<x:int64,y:float64,tags:list<string>>"})
    assert to_batch([{"p": Point(1, 2)}], schema, first_row=0).to_pylist() == [
        {"p": {"x": 1, "y": 2.0, "tags": []}}
    ]


def test_text_is_bytes_only_where_it_comes_from_json() -> None:
    schema = to_schema({"c": "bytes"})
    batch = to_batch([{"c": "YWI="}], schema, first_row=0, from_json=True)
    assert batch.to_pylist() == [{"c": b"ab"}]
    with pytest.raises(SchemaViolationError, match="not base64"):
        to_batch([{"c": "a?"}], schema, first_row=0, from_json=True)


def test_records_without_a_schema_ask_for_one() -> None:
    from lode.codec import arrow_batches

    with pytest.raises(InvalidOptionError, match="create the dataset with one"):
        list(arrow_batches([[{"a": 1}]], None))
