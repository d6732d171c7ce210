"""Batches out of a writer's columns: what is missing, what is required, defaults, and which rows are bad."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

import lode
from lode.ingest.decode.fill import Filler, fill
from lode.ingest.status import Code, Refused, StorageCode
from lode.ingest.types.check import check_schema
from lode.ingest.types.columns import Column, TableSchema

NOW_NS = 1_700_000_000_123_456_789


def of(*columns: Column) -> TableSchema:
    return TableSchema(columns)


def bad(refused: pytest.ExceptionInfo[Refused]) -> dict[int, str]:
    return {row.index: row.message for row in refused.value.rows}


def problems(schema: TableSchema, columns: dict[str, Any], rows: int) -> dict[int, str]:
    with pytest.raises(Refused) as refused:
        fill(schema, columns, rows)
    assert refused.value.code is Code.INVALID_ARGUMENT
    assert not refused.value.ends_call
    return bad(refused)


def test_columns_that_fit_pass_through_without_a_copy() -> None:
    schema = of(Column("a", "INT64", "REQUIRED"), Column("b", "STRING", "REPEATED"))
    a: Any = pa.array([1, 2])
    b: Any = pa.array([["x"], []], pa.list_(pa.string()))
    batch: Any = fill(schema, {"B": b, "A": a}, 2)
    assert batch.schema.equals(schema.arrow, check_metadata=True)
    assert batch.column(0).buffers()[1].address == a.buffers()[1].address
    assert batch.column(1).buffers()[-1].address == b.buffers()[-1].address


def test_a_missing_column_is_null_and_a_missing_repeated_one_empty() -> None:
    schema = of(
        Column("a", "BIGNUMERIC"),
        Column("b", "STRUCT", "REPEATED", (Column("x", "INT64", "REQUIRED"),)),
        Column("c", "STRUCT", fields=(Column("x", "INT64", "REQUIRED"),)),
    )
    assert fill(schema, {}, 2).to_pylist() == [{"a": None, "b": [], "c": None}] * 2


def test_null_structs_with_required_fields_can_be_stored_whoever_made_them() -> None:
    deep = Column(
        "d", "STRUCT", "REQUIRED", (Column("x", "BOOL", "REQUIRED"), Column("y", "JSON", "REPEATED"))
    )
    fields = (deep, Column("n", "BIGNUMERIC", "REQUIRED"), Column("t", "STRING", "REQUIRED"))
    schema = of(Column("s", "STRUCT", fields=fields), Column("r", "STRUCT", fields=fields, default="NULL"))
    value = {"d": {"x": True, "y": ["1"]}, "n": Decimal(1), "t": "x"}
    sent: Any = pa.array([None, value, None], schema.arrow.field("s").type)
    plain: Any = pa.array([None, value, None])
    dataset = lode.Dataset("t", "memory://", codec=lode.Parquet(schema.arrow))
    for array in (sent, plain, plain.slice(1)):
        batch = fill(schema, {"s": array}, len(array), ["r"])
        expected = [{"s": row, "r": None} for row in array.to_pylist()]
        assert dataset.read(dataset.write(batch)).to_pylist() == expected
    assert dataset.read(dataset.write(fill(schema, {}, 2))).to_pylist() == [{"s": None, "r": None}] * 2


def test_a_missing_required_column_makes_every_row_bad() -> None:
    found = problems(of(Column("a", "INT64", "REQUIRED"), Column("b", "INT64")), {"b": pa.array([1, 2])}, 2)
    assert list(found) == [0, 1]
    assert "'a'" in found[0]


def test_a_null_in_a_required_column_makes_its_row_bad() -> None:
    assert list(problems(of(Column("a", "INT64", "REQUIRED")), {"a": pa.array([1, None, 3, None])}, 4)) == [
        1,
        3,
    ]


def test_a_required_field_may_be_null_only_where_its_struct_is() -> None:
    schema = of(Column("s", "STRUCT", fields=(Column("x", "INT64", "REQUIRED"), Column("y", "INT64"))))
    values = pa.array([{"x": 1, "y": None}, None, {"x": None, "y": 2}])
    assert problems(schema, {"s": values}, 3) == {2: "Column 's.x': it is REQUIRED, and null."}
    assert fill(schema, {"s": values.slice(0, 2)}, 2).to_pylist() == [{"s": {"x": 1, "y": None}}, {"s": None}]


def test_null_lists_become_empty_and_null_elements_are_bad() -> None:
    schema = of(Column("a", "INT64", "REPEATED"))
    assert fill(schema, {"a": pa.array([None, [1]])}, 2).to_pylist() == [{"a": []}, {"a": [1]}]
    assert list(problems(schema, {"a": pa.array([[1], None, [2, None], []])}, 4)) == [2]


def test_what_hides_under_a_null_list_is_not_looked_at() -> None:
    hidden: Any = pa.ListArray.from_arrays(
        pa.array([0, 2, 3], pa.int32()), pa.array([1, None, 3]), mask=pa.array([True, False])
    )
    assert fill(of(Column("a", "INT64", "REPEATED")), {"a": hidden}, 2).to_pylist() == [{"a": []}, {"a": [3]}]


def test_problems_deep_inside_are_told_of_the_row_they_are_in() -> None:
    inner = Column("x", "STRING", "REPEATED", max_length=2)
    schema = of(Column("s", "STRUCT", "REPEATED", (inner, Column("r", "DATE", "REQUIRED"))))
    day = dt.date(2024, 1, 1)
    values = pa.array(
        [
            [{"x": ["ok"], "r": day}, {"x": ["ok", "long"], "r": day}],
            [],
            None,
            [{"x": None, "r": day}],
            [{"x": ["ok"], "r": day}, {"x": [], "r": None}],
        ]
    )
    found = problems(schema, {"s": values}, 5)
    assert list(found) == [0, 4]
    assert "'s.x'" in found[0]
    assert "'s.r'" in found[4]


def test_every_bad_row_is_named_whichever_column_is_at_fault() -> None:
    schema = of(Column("a", "INT64", "REQUIRED"), Column("j", "JSON"), Column("n", "NUMERIC"))
    columns = {
        "a": pa.array([1, None, 3, 4]),
        "j": pa.array(["{}", "{}", "{", "[]"]),
        "n": pa.array(["1", "1", "1", "one"]),
    }
    found = problems(schema, columns, 4)
    assert list(found) == [1, 2, 3]
    assert "JSON" in found[2]
    assert "'one'" in found[3]


MOST = 10**6
CHECKS: list[tuple[Column, pa.Array[Any], list[int]]] = [
    (Column("a", "STRING", max_length=2), pa.array(["éé", "abc", None]), [1]),
    (Column("a", "BYTES", max_length=2), pa.array([b"ab", "é!".encode()]), [1]),
    (Column("a", "NUMERIC", precision=4, scale=1), pa.array(["123.4", "1234.5", "999.95", None]), [1, 2]),
    (
        Column("a", "BIGNUMERIC", precision=3, scale=0),
        pa.array([Decimal(999), Decimal(1000)], pa.decimal256(76, 38)),
        [1],
    ),
    (Column("a", "JSON"), pa.array(["1", "", "nul", '{"a":}', "[" * 100_000, '"\\ud800"']), [1, 2, 3, 4, 5]),
    (Column("a", "INTERVAL"), pa.array(["1-2 3 4:5:6.7", "-0-1 -2 -3:0:0", "P1Y2M3DT4H", "a day"]), [3]),
    (
        Column("a", "DATE"),
        pa.array([-719162, -719163, 2932896, 2932897], pa.int32()).view(pa.date32()),
        [1, 3],
    ),
    (Column("a", "TIME"), pa.array([0, -1, 86_399_999_999, 86_400_000_000]).view(pa.time64("us")), [1, 3]),
    (
        Column("a", "DATETIME"),
        pa.array([-62135596800 * MOST, -62135596800 * MOST - 1, 253402300800 * MOST]).view(
            pa.timestamp("us")
        ),
        [1, 2],
    ),
    (
        Column("a", "TIMESTAMP"),
        pa.array([253402300800 * MOST - 1, 253402300800 * MOST, None]).view(pa.timestamp("us", "UTC")),
        [1],
    ),
    (
        Column("a", "RANGE", range_element="DATE"),
        pa.array(
            [{"start": dt.date(2024, 1, day), "end": dt.date(2024, 1, 2)} for day in (1, 2, 3)]
            + [{"start": None, "end": dt.date(2024, 1, 2)}]
        ),
        [1, 2],
    ),
]


@pytest.mark.parametrize(("column", "values", "expected"), CHECKS, ids=[str(c.type) for c, _, _ in CHECKS])
def test_values_beyond_what_the_type_allows_make_their_rows_bad(
    column: Column, values: pa.Array[Any], expected: list[int]
) -> None:
    assert list(problems(of(column), {"a": values}, len(values))) == expected
    good = [index for index in range(len(values)) if index not in expected]
    assert fill(of(column), {"a": values.take(pa.array(good))}, len(good)).num_rows == len(good)


def test_a_decimal_with_more_digits_than_its_type_says_is_bad() -> None:
    raw = (10**38).to_bytes(16, "little") + (10**38 - 1).to_bytes(16, "little")
    values = pa.Array.from_buffers(pa.decimal128(38, 9), 2, [None, pa.py_buffer(raw)])
    assert list(problems(of(Column("a", "NUMERIC")), {"a": values}, 2)) == [0]


def test_unknown_columns_are_refused_by_name_at_any_depth() -> None:
    schema = of(Column("s", "STRUCT", fields=(Column("x", "INT64"),)))
    for name, kind in (("t", pa.int64()), ("s", pa.struct([("X", pa.int64()), ("y", pa.int64())]))):
        with pytest.raises(Refused) as refused:
            Filler(schema, [name], [kind])
        assert refused.value.storage is StorageCode.SCHEMA_MISMATCH_EXTRA_FIELDS
        assert refused.value.ends_call
        assert ("'t'" if name == "t" else "'s.y'") in refused.value.message


def test_a_column_sent_twice_is_refused() -> None:
    with pytest.raises(Refused, match="twice"):
        Filler(of(Column("a", "INT64")), ["a", "A"], [pa.int64(), pa.int64()])


def test_rows_without_columns_cannot_cost_memory_without_end() -> None:
    with pytest.raises(Refused, match="fewer rows"):
        fill(of(Column("a", "INT64")), {}, 1 << 40)
    with pytest.raises(Refused, match="fewer rows"):
        fill(of(Column("a", "INT64")), {"a": pa.Array.from_buffers(pa.null(), 1 << 40, [None])}, 1 << 40)


DEFAULTS: list[tuple[Column, object]] = [
    (Column("a", "INT64", default="-5"), -5),
    (Column("a", "INT64", default="0xFF"), 255),
    (Column("a", "FLOAT64", default="1e3"), 1000.0),
    (Column("a", "FLOAT64", default="2"), 2.0),
    (Column("a", "NUMERIC", default="1.5"), Decimal("1.5")),
    (Column("a", "NUMERIC", default="-0x10"), Decimal(-16)),
    (Column("a", "NUMERIC", default="1.0000000005"), Decimal("1.000000001")),
    (Column("a", "NUMERIC", default="123.45", precision=4, scale=1), Decimal("123.5")),
    (Column("a", "BIGNUMERIC", default="NULL"), None),
    (Column("a", "BIGNUMERIC", default="-5.7e38"), Decimal("-5.7e38")),
    (Column("a", "BIGNUMERIC", "REPEATED", default="[1, 5.7e38]"), [Decimal(1), Decimal("5.7e38")]),
    (Column("a", "BIGNUMERIC", default=" BIGNUMERIC '1e-38' "), Decimal("1e-38")),
    (Column("a", "STRING", default=r"'it\'s \u00e9'"), "it's é"),
    (Column("a", "STRING", default='r"\\d"'), "\\d"),
    (Column("a", "STRING", default="'''two\nlines'''"), "two\nlines"),
    (Column("a", "BYTES", default=r"b'\xff\000a'"), b"\xff\x00a"),
    (Column("a", "BOOL", default="true"), True),
    (Column("a", "DATE", default="DATE '2024-02-29'"), dt.date(2024, 2, 29)),
    (Column("a", "TIME", default="'01:02:03.5'"), dt.time(1, 2, 3, 500_000)),
    (Column("a", "DATETIME", default="DATETIME '2024-02-29 01:02:03'"), dt.datetime(2024, 2, 29, 1, 2, 3)),
    (
        Column("a", "TIMESTAMP", default="TIMESTAMP '2024-02-29 01:02:03+02'"),
        dt.datetime(2024, 2, 28, 23, 2, 3, tzinfo=dt.UTC),
    ),
    (Column("a", "TIMESTAMP", default="'2024-02-29 00:00:00 UTC'"), dt.datetime(2024, 2, 29, tzinfo=dt.UTC)),
    (Column("a", "JSON", default="""JSON '{"a": 1}'"""), '{"a": 1}'),
    (Column("a", "JSON", default="NULL"), None),
    (Column("a", "INT64", "REPEATED", default="[1, 2]"), [1, 2]),
    (Column("a", "STRING", "REPEATED", default="ARRAY<STRING>['x']"), ["x"]),
    (Column("a", "STRING", "REPEATED", default="[]"), []),
    (
        Column("a", "TIMESTAMP", default="CURRENT_TIMESTAMP()"),
        dt.datetime(2023, 11, 14, 22, 13, 20, 123456, dt.UTC),
    ),
    (Column("a", "DATETIME", default="current_datetime"), dt.datetime(2023, 11, 14, 22, 13, 20, 123456)),
    (Column("a", "DATE", default="CURRENT_DATE ( )"), dt.date(2023, 11, 14)),
    (Column("a", "TIME", default="CURRENT_TIME()"), dt.time(22, 13, 20, 123456)),
]


@pytest.mark.parametrize(("column", "value"), DEFAULTS, ids=[f"{c.type} {c.default}" for c, _ in DEFAULTS])
def test_a_default_fills_missing_values_where_it_is_asked_for(column: Column, value: object) -> None:
    schema = check_schema(of(column))
    empty: object = [] if column.mode == "REPEATED" else None
    assert fill(schema, {}, 2).to_pylist() == [{"a": empty}] * 2
    assert fill(schema, {}, 2, ["A"], now_ns=lambda: NOW_NS).to_pylist() == [{"a": value}] * 2


def test_a_default_fills_nulls_and_leaves_values() -> None:
    schema = of(
        Column("a", "INT64", "REQUIRED", default="7"), Column("b", "INT64", "REPEATED", default="[7]")
    )
    columns: dict[str, Any] = {"a": pa.array([1, None]), "b": pa.array([[], None], pa.list_(pa.int64()))}
    assert fill(schema, columns, 2, ["a", "b", "unknown"]).to_pylist() == [
        {"a": 1, "b": []},
        {"a": 7, "b": [7]},
    ]


def test_a_default_satisfies_a_required_column_only_where_it_is_asked_for() -> None:
    schema = of(Column("a", "INT64", "REQUIRED", default="7"))
    assert fill(schema, {}, 1, ["a"]).to_pylist() == [{"a": 7}]
    assert list(problems(schema, {}, 1)) == [0]


def test_each_row_gets_a_uuid_of_its_own() -> None:
    rows = fill(of(Column("a", "STRING", default="GENERATE_UUID()")), {}, 3, ["a"]).to_pylist()
    assert len({UUID(row["a"]) for row in rows}) == 3


@pytest.mark.parametrize(
    "column",
    [
        Column("a", "INT64", default="'1'"),
        Column("a", "INT64", default="1.5"),
        Column("a", "INT64", default="9223372036854775808"),
        Column("a", "INT64", default="[1]"),
        Column("a", "INT64", default="1 2"),
        Column("a", "INT64", default="(SELECT 1)"),
        Column("a", "INT64", default="  "),
        Column("a", "INT64", "REQUIRED", default="NULL"),
        Column("a", "INT64", "REPEATED", default="1"),
        Column("a", "INT64", "REPEATED", default="[1, NULL]"),
        Column("a", "INT64", "REPEATED", default="[1, 2"),
        Column("a", "INT64", "REPEATED", default="[1 2]"),
        Column("a", "STRING", default="CURRENT_TIMESTAMP()"),
        Column("a", "STRING", default="SESSION_USER()"),
        Column("a", "STRING", default="'abc'", max_length=2),
        Column("a", "STRING", default=r"'\q'"),
        Column("a", "STRING", default=r"'\UFFFFFFFF'"),
        Column("a", "STRING", default=r"'\ud800'"),
        Column("a", "STRING", default="'open"),
        Column("a", "TIMESTAMP", "REPEATED", default="CURRENT_TIMESTAMP()"),
        Column("a", "NUMERIC", default="1e29"),
        Column("a", "BIGNUMERIC", "REPEATED", default="[1, 1e39]"),
        Column("a", "NUMERIC", default="NUMERIC 'NaN'"),
        Column("a", "NUMERIC", default="999.95", precision=4, scale=1),
        Column("a", "DATE", default="DATE '2024-02-30'"),
        Column("a", "DATETIME", default="'2024-02-29 00:00:00+01'"),
        Column("a", "JSON", default="JSON '{'"),
        Column("a", "JSON", default="'{}'"),
        Column("a", "GEOGRAPHY", default="'POINT(0 0)'"),
        Column("a", "BYTES", default="'x'"),
    ],
    ids=lambda column: f"{column.type} {column.default}",
)
def test_a_default_that_is_not_understood_is_refused_with_the_table(column: Column) -> None:
    with pytest.raises(Refused, match="'a'") as refused:
        check_schema(of(column))
    assert refused.value.code is Code.INVALID_ARGUMENT
