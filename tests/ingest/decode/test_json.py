"""JSON rows: every form in which clients write a value, and every row that is bad told by its number."""

from __future__ import annotations

import json
import math
from base64 import b64encode
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lode.ingest.api.rest.cells import cells
from lode.ingest.decode.json import JsonRows
from lode.ingest.status import Refused
from lode.ingest.types.columns import TYPES, Column, TableSchema


def decoded(kind: str, value: Any) -> Any:
    column = Column("x", kind, range_element="DATE" if kind == "RANGE" else "")
    batch = JsonRows(TableSchema((column,))).decode([{"x": value}])
    return batch.column(0)[0].as_py()


def problems(schema: TableSchema, *rows: Any) -> dict[int, str]:
    with pytest.raises(Refused) as caught:
        JsonRows(schema).decode(rows)
    return {problem.index: problem.message for problem in caught.value.rows}


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("STRING", "ü", "ü"),
        ("STRING", 12, "12"),
        ("STRING", Decimal("1.50"), "1.50"),
        ("STRING", True, "true"),
        ("BYTES", "AP8=", b"\x00\xff"),
        ("BYTES", "-_8=", b"\xfb\xff"),
        ("INT64", "-9223372036854775808", -(2**63)),
        ("INT64", " 12 ", 12),
        ("INT64", Decimal("12.0"), 12),
        ("INT64", "1e3", 1000),
        ("FLOAT64", 1, 1.0),
        ("FLOAT64", Decimal("0.1"), 0.1),
        ("FLOAT64", "-0.5e-3", -0.0005),
        ("FLOAT64", "Infinity", math.inf),
        ("FLOAT64", "-inf", -math.inf),
        ("FLOAT64", -math.inf, -math.inf),
        ("BOOL", "TRUE", True),
        ("BOOL", "f", False),
        ("BOOL", 1, True),
        ("TIMESTAMP", "2026-01-02T03:04:05.000006Z", datetime(2026, 1, 2, 3, 4, 5, 6, UTC)),
        ("TIMESTAMP", "2026-01-02 03:04:05+02:00", datetime(2026, 1, 2, 1, 4, 5, tzinfo=UTC)),
        ("TIMESTAMP", "2026-01-02 03:04:05 UTC", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("TIMESTAMP", "2026-01-02", datetime(2026, 1, 2, tzinfo=UTC)),
        ("TIMESTAMP", "1-01-01T00:00:00.000000Z", datetime(1, 1, 1, tzinfo=UTC)),
        ("TIMESTAMP", 1767225600, datetime(2026, 1, 1, tzinfo=UTC)),
        ("TIMESTAMP", Decimal("1767225600.000001"), datetime(2026, 1, 1, 0, 0, 0, 1, UTC)),
        ("TIMESTAMP", "1.7672256E9", datetime(2026, 1, 1, tzinfo=UTC)),
        ("TIMESTAMP", -0.25, datetime(1969, 12, 31, 23, 59, 59, 750000, UTC)),
        ("DATE", "2026-1-2", date(2026, 1, 2)),
        ("TIME", "01:02:03.5", time(1, 2, 3, 500000)),
        ("DATETIME", "2026-01-02T03:04:05", datetime(2026, 1, 2, 3, 4, 5)),
        ("NUMERIC", "1.5", Decimal("1.5")),
        ("NUMERIC", 12, Decimal(12)),
        (
            "NUMERIC",
            "-99999999999999999999999999999.999999999",
            Decimal("-99999999999999999999999999999.999999999"),
        ),
        # The tail of a binary fraction is noise.
        ("NUMERIC", Decimal("0.30000000000000004"), Decimal("0.3")),
        ("NUMERIC", "0.0000000005", Decimal("1e-9")),
        ("BIGNUMERIC", "1e-38", Decimal("1e-38")),
        ("JSON", '{"a": 1}', '{"a": 1}'),
        ("JSON", {"a": [1, None, Decimal("2.50"), "ü"]}, '{"a":[1,null,2.50,"ü"]}'),
        ("JSON", 5, "5"),
        ("JSON", False, "false"),
        ("GEOGRAPHY", "POINT(1 2)", "POINT(1 2)"),
        ("INTERVAL", "1-2 3 4:5:6", "1-2 3 4:5:6"),
        ("RANGE", "[2026-01-01, UNBOUNDED)", {"start": date(2026, 1, 1), "end": None}),
        ("RANGE", {"start": None, "end": "2026-01-01"}, {"start": None, "end": date(2026, 1, 1)}),
        ("RANGE", {}, {"start": None, "end": None}),
        *[(kind, None, None) for kind in TYPES if kind != "STRUCT"],
    ],
)
def test_a_value_is_read_in_every_form_clients_write(kind: str, value: Any, expected: Any) -> None:
    assert decoded(kind, value) == expected


def test_nan_is_a_number_only_as_a_float() -> None:
    assert math.isnan(decoded("FLOAT64", "NaN"))
    assert math.isnan(decoded("FLOAT64", math.nan))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("STRING", {"a": 1}),
        ("STRING", "\ud800"),
        ("BYTES", "###"),
        ("BYTES", 1),
        ("INT64", "x"),
        ("INT64", ""),
        ("INT64", "1_000"),
        ("INT64", "\u0661"),
        ("INT64", Decimal("1.5")),
        ("INT64", 2**63),
        ("INT64", "1e99999999999"),
        ("INT64", Decimal("1e999999")),
        ("INT64", True),
        ("INT64", math.nan),
        ("INT64", "9" * 5000),
        ("FLOAT64", "1e400"),
        ("FLOAT64", []),
        ("BOOL", "maybe"),
        ("BOOL", 2),
        ("TIMESTAMP", "yesterday"),
        ("TIMESTAMP", "2026-13-01"),
        ("TIMESTAMP", "2026-01-01 00:00:00 Nowhere/Land"),
        ("TIMESTAMP", 10**15),
        ("TIMESTAMP", Decimal("1e999999")),
        ("TIMESTAMP", math.inf),
        ("TIMESTAMP", 253402300800),
        ("DATE", "2026-02-30"),
        ("DATE", 5),
        ("TIME", "24:00:01"),
        ("DATETIME", "2026-01-01T00:00:00Z"),
        ("NUMERIC", "1e29"),
        ("NUMERIC", "NaN"),
        ("NUMERIC", Decimal("99999999999999999999999999999.9999999999")),
        ("BIGNUMERIC", "1e39"),
        ("JSON", "{not json"),
        ("JSON", {"a": math.nan}),
        ("JSON", {"a": "\ud800"}),
        ("INTERVAL", "soon"),
        ("RANGE", "2026-01-01"),
        ("RANGE", {"start": "2026-01-01", "finish": "2026-01-01"}),
        ("RANGE", "[2026-02-01, 2026-01-01)"),
        ("RANGE", {"start": "x"}),
    ],
)
def test_a_value_that_does_not_fit_is_told_with_its_column(kind: str, value: Any) -> None:
    column = Column("x", kind, range_element="DATE" if kind == "RANGE" else "")
    found = problems(TableSchema((column,)), {}, {"x": value}, {"x": None})
    assert found.keys() == {1}
    assert found[1].startswith("Column 'x")


NESTED = TableSchema(
    (
        Column("id", "INT64", "REQUIRED"),
        Column(
            "outer",
            "STRUCT",
            fields=(
                Column("inner", "STRUCT", "REPEATED", fields=(Column("n", "INT64", "REQUIRED"),)),
                Column("day", "DATE"),
            ),
        ),
    )
)


def test_every_bad_row_is_named_with_the_place_in_it() -> None:
    found = problems(
        NESTED,
        {"id": 1},
        {},
        {"id": 2, "outer": {"inner": [{"n": 1}, {"n": "x"}]}},
        {"id": 3, "outer": {"inner": [{}]}},
        {"id": 4, "outer": {"inner": [None]}},
        {"id": 5, "outer": {"inner": {"n": 1}}},
        {"id": 6, "outer": {"nope": 1}},
        {"id": 7, "nope": 1},
        {"id": 8, "outer": [], "ID": 8},
        "row",
        {"id": None},
        {"id": 9, "outer": {"inner": None, "day": "2026-01-01"}},
    )
    assert found == {
        1: "Column 'id': it is REQUIRED, and null or missing.",
        2: "Column 'outer.inner.n': Cannot convert value to integer (bad value): x",
        3: "Column 'outer.inner.n': it is REQUIRED, and null.",
        4: "Column 'outer.inner': an element of a REPEATED column is null.",
        5: "Column 'outer.inner': {'n': 1} is not a list, and the column is REPEATED.",
        6: "Column 'outer.nope': no such field.",
        7: "Column 'nope': no such field.",
        8: "A row names a column twice: names differ in more than their case.",
        9: "A row must be a JSON object with a value for each column.",
        10: "Column 'id': it is REQUIRED, and null or missing.",
    }


def test_unknown_values_are_passed_over_when_asked_for() -> None:
    rows = [{"Id": 1, "nope": 2, "outer": {"NOPE": 1, "Inner": [{"N": 1, "x": []}]}}]
    batch = JsonRows(NESTED, ignore_unknown=True).decode(rows)
    assert batch.to_pylist() == [{"id": 1, "outer": {"inner": [{"n": 1}], "day": None}}]
    assert batch.schema == NESTED.arrow


def test_left_out_is_the_default_and_null_is_null() -> None:
    schema = TableSchema(
        (
            Column("id", "INT64", default="7"),
            Column("many", "STRING", "REPEATED", default="['a']"),
            Column("at", "TIMESTAMP", "REQUIRED", default="CURRENT_TIMESTAMP()"),
        )
    )
    rows = JsonRows(schema, now_ns=lambda: 1_000_000_000)
    assert rows.decode([{}, {"id": None, "many": [], "at": "2026-01-01"}]).to_pylist() == [
        {"id": 7, "many": ["a"], "at": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)},
        {"id": None, "many": [], "at": datetime(2026, 1, 1, tzinfo=UTC)},
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.decimals() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
EVERYTHING = TableSchema(
    tuple(
        Column(
            f"{kind.lower()}_{mode[:3].lower()}",
            kind,
            mode,
            fields=(Column("n", "INT64"), Column("s", "STRING")) if kind == "STRUCT" else (),
            range_element="DATETIME" if kind == "RANGE" else "",
        )
        for kind in TYPES
        for mode in ("NULLABLE", "REPEATED")
    )
)


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.dictionaries(st.sampled_from(EVERYTHING.arrow.names), JSON, max_size=4) | JSON, max_size=4)
)
def test_whatever_is_sent_is_a_batch_or_a_refusal_by_rows(rows: list[Any]) -> None:
    result: pa.RecordBatch | Refused
    try:
        result = JsonRows(EVERYTHING).decode(rows)
    except Refused as refused:
        result = refused
    if isinstance(result, Refused):
        assert result.rows
        assert all(0 <= problem.index < len(rows) for problem in result.rows)
    else:
        result.validate(full=True)
        assert result.schema == EVERYTHING.arrow
        json.dumps(cells(result, EVERYTHING))


@pytest.mark.parametrize("value", ["NaN", "sNaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize("kind", ["INT64", "NUMERIC", "BIGNUMERIC", "TIMESTAMP"])
def test_a_decimal_that_is_no_number_is_refused_by_its_row(kind: str, value: str) -> None:
    rows = JsonRows(TableSchema((Column("c", kind),)))
    with pytest.raises(Refused) as refused:
        rows.decode([{"c": 1}, {"c": Decimal(value)}])
    assert [problem.index for problem in refused.value.rows] == [1]


TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))
# How a value goes in and what it is: both are compared with what comes out.
PAIRS: dict[str, Any] = {
    "STRING": TEXT.map(lambda text: (text, text)),
    "BYTES": st.binary(max_size=8).map(lambda data: (b64encode(data).decode(), data)),
    "INT64": st.integers(-(2**63), 2**63 - 1).map(lambda n: (str(n), n)),
    "FLOAT64": st.floats(allow_nan=False).map(lambda x: (x if math.isfinite(x) else str(x), x)),
    "BOOL": st.booleans().map(lambda yes: (str(yes).lower(), yes)),
    "TIMESTAMP": MOMENTS.map(lambda at: (at.isoformat() + "Z", at.replace(tzinfo=UTC))),
    "DATETIME": MOMENTS.map(lambda at: (at.isoformat(), at)),
    "DATE": st.dates().map(lambda day: (day.isoformat(), day)),
    "TIME": st.times().map(lambda clock: (clock.isoformat(), clock)),
    "NUMERIC": st.decimals(-(10**28), 10**28, places=9).map(lambda n: (str(n), n)),
    "BIGNUMERIC": st.decimals(-(10**20), 10**20, places=7).map(lambda n: (str(n), n)),
}
MICROSECOND = timedelta(microseconds=1)


def shown(kind: str, value: Any) -> str:
    """A value as the text of a cell, said once more in another way."""
    match kind:
        case "BYTES":
            return b64encode(value).decode()
        case "BOOL":
            return "true" if value else "false"
        case "TIMESTAMP":
            return str((value - datetime(1970, 1, 1, tzinfo=UTC)) // MICROSECOND)
        case "DATE" | "TIME" | "DATETIME":
            return str(value.isoformat())
    return str(value)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_what_goes_in_comes_out_by_column_list_and_record(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(sorted(PAIRS)))
    inner = (Column("one", kind), Column("many", kind, "REPEATED"))
    schema = TableSchema((*inner, Column("record", "STRUCT", fields=inner)))
    pair = st.none().map(lambda _: (None, None)) | PAIRS[kind]
    draws = data.draw(st.lists(st.tuples(pair, st.lists(PAIRS[kind], max_size=3), st.booleans()), max_size=4))

    def row(side: int) -> list[dict[str, Any]]:
        made = []
        for one, many, nested in draws:
            values = {"one": one[side], "many": [item[side] for item in many]}
            made.append({**values, "record": values if nested else None})
        return made

    batch = JsonRows(schema).decode(row(0))
    assert batch.to_pylist() == row(1)
    for cell, expected in zip(cells(batch, schema, timestamps="INT64"), row(1), strict=True):
        one, many, record = (item["v"] for item in cell["f"])
        assert _same(kind, one, expected["one"])
        assert len(many) == len(expected["many"])
        assert all(_same(kind, item["v"], value) for item, value in zip(many, expected["many"], strict=True))
        assert (record is None) == (expected["record"] is None)
        assert record is None or record["f"][0]["v"] == one


def _same(kind: str, cell: Any, value: Any) -> bool:
    if value is None or cell is None:
        return cell is None and value is None
    if kind in ("NUMERIC", "BIGNUMERIC"):
        return bool(Decimal(cell) == value)
    same: bool = float(cell) == value if kind == "FLOAT64" else cell == shown(kind, value)
    return same


def test_cells_of_a_slice_are_those_of_its_rows() -> None:
    schema = TableSchema(
        (Column("many", "INT64", "REPEATED"), Column("s", "STRUCT", fields=(Column("n", "INT64"),)))
    )
    rows: list[dict[str, Any]] = [
        {"many": [1], "s": {"n": 1}},
        {"many": [], "s": None},
        {"many": [2, 3], "s": {"n": None}},
    ]
    batch = pa.RecordBatch.from_pylist(rows, schema=schema.arrow).slice(1, 2)
    assert cells(batch, schema) == [
        {"f": [{"v": []}, {"v": None}]},
        {"f": [{"v": [{"v": "2"}, {"v": "3"}]}, {"v": {"f": [{"v": None}]}}]},
    ]


def test_times_of_text_columns_are_read_in_every_form() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    forms = [
        "2026-01-02 03:04:05 UTC",
        "2026-01-02 03:04:05",
        "2026-01-02T03:04:05Z",
        "2026-01-02 04:04:05+01:00",
    ]
    schema = TableSchema(
        (Column("x", "TIMESTAMP"), Column("d", "DATE"), Column("b", "BOOL"), Column("n", "NUMERIC"))
    )
    columns: list[list[str | None]] = [*([form, None, form] for form in forms), [*forms]]
    for texts in columns:
        sent = {
            "x": pa.array(texts),
            "d": pa.array(["2026-01-02"] * len(texts)),
            "b": pa.array(["true", "F", "yes", "0"][: len(texts)]),
            "n": pa.array(["1.50"] * len(texts)),
        }
        batch = JsonRows(schema).decode_text(sent, len(texts))
        assert batch.column(0).to_pylist() == [None if text is None else moment for text in texts]
        assert batch.column(1).to_pylist() == [date(2026, 1, 2)] * len(texts)
        assert batch.column(2).to_pylist() == [True, False, True, False][: len(texts)]
        assert batch.column(3).to_pylist() == [Decimal("1.5")] * len(texts)
    with pytest.raises(Refused) as caught:
        JsonRows(schema).decode_text({"x": pa.array(["2026-01-02 03:04:05 UTC", "no UTC", None])}, 3)
    assert [problem.index for problem in caught.value.rows] == [1]
