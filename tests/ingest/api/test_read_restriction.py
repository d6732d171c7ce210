"""Row restrictions: the matching rows, with SQL's logic of nulls, and refusals."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pytest
from google.api_core.exceptions import InvalidArgument
from hypothesis import given, settings
from hypothesis import strategies as st

from lode.filter.syntax import MAX_BRACKETS, MAX_CONDITIONS
from lode.ingest.api.grpc_read.restriction import parse_restriction
from lode.ingest.api.grpc_read.session import decode_session
from lode.ingest.status import Code, Refused
from lode.ingest.types.columns import Column, TableSchema
from lode.sql import condition
from lode.sql.database import Database
from support.ingest.reading import Lake, Served, read, session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

COLUMNS = (
    Column("id", "INT64", "REQUIRED"),
    Column("i", "INT64"),
    Column("f", "FLOAT64"),
    Column("n", "NUMERIC"),
    Column("bn", "BIGNUMERIC"),
    Column("s", "STRING"),
    Column("y", "BYTES"),
    Column("b", "BOOL"),
    Column("d", "DATE"),
    Column("t", "TIME"),
    Column("dt", "DATETIME"),
    Column("ts", "TIMESTAMP"),
    Column("date", "DATE"),
    Column(
        "st", "STRUCT", fields=(Column("x", "INT64"), Column("in", "STRUCT", fields=(Column("z", "STRING"),)))
    ),
    Column("many", "INT64", "REPEATED"),
    Column("j", "JSON"),
)
SCHEMA = TableSchema(COLUMNS)


def passed(text: str, rows: list[dict[str, Any]]) -> list[int]:
    """Return the ids of the rows that match a restriction."""
    restriction = parse_restriction(text, SCHEMA)
    assert restriction is not None
    filled = [{"id": number} | row for number, row in enumerate(rows)]
    batch = pa.RecordBatch.from_pylist(filled, schema=SCHEMA.arrow)
    ids: list[Any] = restriction.apply(batch)["id"].to_pylist()
    return ids


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("i = 5", {"i": 5}),
        ("I = 5", {"i": 5}),
        ("`i` = 5", {"i": 5}),
        ("5 < i", {"i": 6}),
        ("i = -3", {"i": -3}),
        ("i < 9223372036854775808", {"i": 2**63 - 1}),
        ("i > -1e30", {"i": -(2**63)}),
        ("i > 2.5", {"i": 3}),
        ("i NOT IN (1, 2.5)", {"i": 2}),
        ("f = .5", {"f": 0.5}),
        ("f = 0", {"f": -0.0}),
        ("f IN (0, 7)", {"f": -0.0}),
        ("f = 1e3", {"f": 1000.0}),
        ("f != 1", {"f": float("nan")}),
        ("NOT f < 1", {"f": float("nan")}),
        ("n = NUMERIC '1.000000001'", {"n": Decimal("1.000000001")}),
        ("n < 1.0000000011", {"n": Decimal("1.000000001")}),
        ("n BETWEEN 1.0 AND 5.0", {"n": Decimal(5)}),
        ("bn = BIGNUMERIC '0.00000000000000000000000000000000000001'", {"bn": Decimal("1e-38")}),
        ("s = 'it\\'s'", {"s": "it's"}),
        ('s = "a\\u00e9\\x41\\101\\n"', {"s": "aéAA\n"}),
        ("s = r'\\n'", {"s": "\\n"}),
        ("s > ''", {"s": "ü"}),
        ("y = b'\\xff\\101a'", {"y": b"\xffAa"}),
        ('y >= B""', {"y": b""}),
        ("b", {"b": True}),
        ("NOT b", {"b": False}),
        ("NOT NOT b", {"b": True}),
        ("b = FALSE", {"b": False}),
        ("b < true", {"b": False}),
        ("d = '2024-02-29'", {"d": date(2024, 2, 29)}),
        ("d >= DATE '2024-2-9'", {"d": date(2024, 2, 9)}),
        ("d = CAST('2014-9-27' AS DATE)", {"d": date(2014, 9, 27)}),
        ("date = DATE '2024-01-01'", {"date": date(2024, 1, 1)}),
        ("t < TIME '12:00:00.5'", {"t": time(12)}),
        ("dt = DATETIME '2024-01-01T10:00:00.000001'", {"dt": datetime(2024, 1, 1, 10, 0, 0, 1)}),
        ("dt = DATE '2024-01-01'", {"dt": datetime(2024, 1, 1)}),
        ("ts = '2024-01-01 10:00:00'", {"ts": datetime(2024, 1, 1, 10, tzinfo=UTC)}),
        ("ts = TIMESTAMP '2024-01-01 12:00:00+02'", {"ts": datetime(2024, 1, 1, 10, tzinfo=UTC)}),
        ("ts = TIMESTAMP '2024-01-01 05:00 America/New_York'", {"ts": datetime(2024, 1, 1, 10, tzinfo=UTC)}),
        ("ts = TIMESTAMP '2024-01-01'", {"ts": datetime(2024, 1, 1, tzinfo=UTC)}),
        ("st.x = 1 AND ST.in.Z = 'q'", {"st": {"x": 1, "in": {"z": "q"}}}),
        ("st.in.z IS NULL", {"st": None}),
        ("st IS NOT NULL", {"st": {"x": None, "in": None}}),
        ("j IS NOT NULL", {"j": "{}"}),
        ("(i = 1 OR i = 2) AND NOT (s = 'a' AND b)", {"i": 2, "s": "a", "b": False}),
        ("i IS NULL", {}),
    ],
)
def test_a_row_for_which_it_is_true_is_included(text: str, row: dict[str, Any]) -> None:
    assert passed(text, [row]) == [0]


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("i = 5", {}),
        ("i != 5", {}),
        ("NOT i = 5", {}),
        ("i NOT IN (1, 2)", {}),
        ("i NOT IN (2.5)", {}),
        ("NOT (i > 1e30)", {}),
        ("i NOT BETWEEN 1 AND 2", {}),
        ("NOT b", {}),
        ("i = 5 AND b", {"i": 5}),
        ("f < 1", {"f": float("nan")}),
        ("f > 1", {"f": float("nan")}),
        ("f = 0.1", {"f": 0.2}),
        ("i = 2.5", {"i": 2}),
        ("i = 1e30", {"i": 2**63 - 1}),
        ("i IN (1e30, 2.5)", {"i": 2}),
        ("d BETWEEN '2024-01-02' AND '2024-01-03'", {"d": date(2024, 1, 1)}),
        ("s = 'a'", {"s": "A"}),
    ],
)
def test_a_row_for_which_it_is_false_or_unknown_is_excluded(text: str, row: dict[str, Any]) -> None:
    assert passed(text, [row]) == []


@pytest.mark.parametrize(
    "text",
    [
        "nope = 1",
        "i",
        "i =",
        "= 1",
        "i = 'five'",
        "s = 5",
        "s = b'x'",
        "b = 1",
        "i IN ()",
        "i IN (1",
        "i IN (SELECT 1)",
        "i = s",
        "s + 1 = 2",
        "i LIKE 'a%'",
        "s LIKE 'a\\\\'",
        "SUM(i) = 1",
        "i = (SELECT 1)",
        "CASE WHEN b THEN 3 END",
        "LOGICAL_OR(b)",
        "ROW_NUMBER() OVER () = 1",
        "IF(b, TRUE, FALSE), b",
        "IF(b, TRUE, FALSE) AS x",
        "IF(b, TRUE, FALSE) FROM t",
        "IF(nope, TRUE, FALSE)",
        "CASE WHEN b THEN bn + 1 > 1 END",
        "NOPE(i) = 1",
        "RAND() < 0.5",
        "EXISTS(SELECT 1 FROM UNNEST(many) AS x WHERE x = 1)",
        "read_csv('/etc/passwd') IS NULL",
        "i = 1 -- nothing more",
        "i = /* one */ 1",
        "SUM(i) OVER () = 1",
        "i = ?",
        "i = CAST('x' AS INT64)",
        "_PARTITIONTIME > '2024-01-01'",
        "_PARTITIONDATE IS NULL",
        "i = 1 i = 2",
        "i = 1 AND",
        "i NOT = 1",
        "i IS 1",
        "(i = 1",
        "i = 1)",
        "st = 1",
        "st.x.y = 1",
        "st.nope = 1",
        "many = 1",
        "j = '{}'",
        "d = '2024-02-30'",
        "ts = DATE '2024-01-01'",
        "ts = '2024-01-01 25:00:00'",
        "ts = '2024-01-01 10:00:00 Nowhere/Land'",
        "ts = '2024-01-01 10:00:00 America'",
        "ts = '0001-01-01 00:00:00+10:00'",
        "dt = '2024-01-01 10:00:00Z'",
        "t = '24:00:00'",
        "i = 1e999999999",
        "i = 1x",
        "n = NUMERIC 'NaN'",
        "s = 'open",
        "s = '\\q'",
        "s = '\\ud800'",
        "s = '\\UFFFFFFFF'",
        "y = b'\\u0041'",
        "s = bb'x'",
        "i = 1; DROP TABLE t",
        "i = @p",
        "CAST(i AS DATE) = '2024-01-01'",
        "d = CAST('2024-01-01' AS GEOGRAPHY)",
        "CAST(",
        "(" * (MAX_BRACKETS + 1) + "b" + ")" * (MAX_BRACKETS + 1),
        " AND ".join(["b"] * (MAX_CONDITIONS + 1)),
        "\ud800",
    ],
)
def test_anything_else_is_refused_with_a_message(text: str) -> None:
    with pytest.raises(Refused) as refused:
        parse_restriction(text, SCHEMA)
    assert refused.value.code == Code.INVALID_ARGUMENT
    assert "row_restriction" in refused.value.message
    assert refused.value.message.endswith(".")


ROW: dict[str, Any] = {
    "i": 5,
    "f": 1.5,
    "n": Decimal("1.5"),
    "bn": Decimal("1e-18"),
    "s": "abc",
    "y": b"x",
    "b": True,
    "d": date(2024, 2, 29),
    "t": time(12),
    "dt": datetime(2024, 1, 1, 10),
    "ts": datetime(2024, 1, 1, 10, tzinfo=UTC),
    "st": {"x": 1, "in": {"z": "q"}},
    "many": [1, 2, 3],
    "j": '{"a": 1}',
}
# Conditions that only the SQL engine has. Each is true for the row above, and not for one of nulls.
COMPUTED = [
    "CASE WHEN i > 3 THEN b ELSE FALSE END",
    "CASE i WHEN 5 THEN 'x' ELSE 'y' END = 'x'",
    "DATE_DIFF(d, DATE '2024-01-01', DAY) = 59 AND DATETIME_DIFF(dt, DATETIME '2024-01-01', HOUR) = 10",
    "TIMESTAMP_DIFF(ts, TIMESTAMP '2024-01-01', MINUTE) = 600 AND TIME_DIFF(t, TIME '11:00:00', MINUTE) = 60",
    "PARSE_DATE('%Y%m%d', '20240229') = d AND PARSE_TIMESTAMP('%Y-%m-%d', '2024-01-02') > ts",
    "FORMAT_DATE('%Y-%m', d) = '2024-02' AND FORMAT_TIMESTAMP('%H', ts) = '10' AND FORMAT('%d', i) = '5'",
    "many[SAFE_OFFSET(0)] = 1 AND 3 IN UNNEST(many) AND ARRAY_LENGTH(many) = 3",
    "JSON_VALUE(j, '$.a') = '1' AND TO_HEX(y) = '78'",
    "n / 2 > NUMERIC '0.7' AND POW(f, 2) > 2 AND bn > 0 AND i << 1 = 10",
    "s LIKE CONCAT('a', '%') AND REGEXP_EXTRACT(s, r'b(.)') = 'c' AND SAFE_CAST(s AS INT64) IS NULL",
    "CURRENT_DATE('Europe/Berlin') > d AND DATE(ts, 'America/New_York') = '2024-01-01'",
    "i BETWEEN 1 AND 7 AND (CASE WHEN st.in.z = 'q' THEN st.x END) = 1",
]


@pytest.mark.parametrize("text", COMPUTED)
def test_the_sql_engine_computes_what_filters_do_not_have(text: str) -> None:
    assert passed(text, [{}, ROW, {}]) == [1]


def test_a_geography_is_restricted_by_its_distance() -> None:
    schema = TableSchema((Column("id", "INT64"), Column("g", "GEOGRAPHY")))
    restriction = parse_restriction("ST_DWITHIN(g, ST_GEOGPOINT(0, 0), 112000) OR ST_X(g) = 9", schema)
    assert restriction is not None
    texts = ["POINT(0 1)", "POINT(0 2)", None, "POINT(9 9)"]
    rows = [{"id": number, "g": text} for number, text in enumerate(texts)]
    found = restriction.apply(pa.RecordBatch.from_pylist(rows, schema=schema.arrow))
    assert found["id"].to_pylist() == [0, 3]


def test_conditions_beside_a_computed_one_still_leave_out_files() -> None:
    restriction = parse_restriction(
        "i > 3 AND (s = 'a' OR d = '2024-02-29') AND LENGTH(s) IN (POW(i, 2))", SCHEMA
    )
    assert restriction is not None
    assert str(restriction.where).startswith("((i > 3) and ((s == ")
    assert restriction.columns == ("i", "s", "d")


def test_a_value_that_cannot_be_computed_ends_the_read_with_its_reason() -> None:
    with pytest.raises(Refused, match=r"^row_restriction: Bad int64 value: abc\.$"):
        passed("CAST(s AS INT64) = 1", [{"s": "abc"}])


def test_the_current_time_is_that_of_the_session() -> None:
    text = "CASE WHEN CURRENT_TIMESTAMP() < TIMESTAMP '2024-01-01' THEN CURRENT_DATE() = d END"
    restriction = parse_restriction(text, SCHEMA, now_micros=1_000_000)
    assert restriction is not None
    assert restriction.now_micros == 1_000_000
    batch = pa.RecordBatch.from_pylist([{"id": 1, "d": date(1970, 1, 1)}], schema=SCHEMA.arrow)
    assert restriction.apply(batch).num_rows == 1


def test_a_refusal_names_the_position_and_the_supported_syntax() -> None:
    with pytest.raises(Refused, match=r"at 12: .~ .* is not understood; supported are =, !=") as refused:
        parse_restriction("i = 1 AND s ~ 'a%'", SCHEMA)
    assert "IN (…)" in refused.value.message


# Filters as Spark's official connector writes them, by the name of the filter and the type of the value.
SPARK: dict[str, tuple[str, list[dict[str, Any]], list[int]]] = {
    "EqualTo": ("(`s` = 'it\\'s')", [{"s": "it's"}, {"s": "x"}, {}], [0]),
    "EqualTo, Double": ('`f` = CAST("1.5" AS FLOAT64)', [{"f": 1.5}, {"f": 2.0}], [0]),
    "EqualTo, Double beyond numbers": (
        '`f` = CAST("Infinity" AS FLOAT64)',
        [{"f": float("inf")}, {"f": 2.0}],
        [0],
    ),
    "EqualTo, Double that is none": ('`f` = CAST("NaN" AS FLOAT64)', [{"f": float("nan")}], []),
    "EqualTo, Float": ("`f` > 1.0E10", [{"f": 2e10}, {"f": 1.0}], [0]),
    "EqualTo, Decimal": ("`n` = NUMERIC '1.500000000'", [{"n": Decimal("1.5")}, {"n": Decimal(2)}], [0]),
    "EqualTo, Boolean": ("`b` = true", [{"b": True}, {"b": False}], [0]),
    "EqualTo, binary": ("`y` = b'a\\'b'", [{"y": b"a'b"}], [0]),
    "EqualNullSafe": (
        "(`i` IS NULL AND 1 IS NULL OR `i` IS NOT NULL AND 1 IS NOT NULL AND `i` = 1)",
        [{"i": 1}, {"i": 2}, {}],
        [0],
    ),
    "EqualNullSafe, null": (
        "`i` IS NULL AND null IS NULL OR `i` IS NOT NULL AND null IS NOT NULL AND `i` = null",
        [{"i": 1}, {}],
        [1],
    ),
    "Not EqualNullSafe": (
        "(NOT (`i` IS NULL AND 1 IS NULL OR `i` IS NOT NULL AND 1 IS NOT NULL AND `i` = 1))",
        [{"i": 1}, {"i": 2}, {}],
        [1, 2],
    ),
    "GreaterThan": ("(`i` > 2)", [{"i": 2}, {"i": 3}], [1]),
    "GreaterThanOrEqual, Date": (
        "`d` >= DATE '2020-09-01'",
        [{"d": date(2020, 9, 1)}, {"d": date(2020, 8, 31)}],
        [0],
    ),
    "LessThan, Timestamp": (
        "`ts` < TIMESTAMP '2020-01-25 02:10:10.0Z'",
        [
            {"ts": datetime(2020, 1, 25, 2, 10, 9, tzinfo=UTC)},
            {"ts": datetime(2020, 1, 25, 2, 10, 10, tzinfo=UTC)},
        ],
        [0],
    ),
    "LessThanOrEqual, Instant": (
        "`ts` <= TIMESTAMP '2020-01-25T02:10:10Z'",
        [{"ts": datetime(2020, 1, 25, 2, 10, 10, tzinfo=UTC)}],
        [0],
    ),
    "In": ("`i` IN (6, 7, 8)", [{"i": 7}, {"i": 9}, {}], [0]),
    "In, null": ("`i` IN (6, null)", [{"i": 6}, {"i": 9}, {}], [0]),
    "Not In, null": ("(NOT (`i` IN (6, null)))", [{"i": 6}, {"i": 9}, {}], []),
    "In, Date": ("`d` IN (DATE '2020-09-01', DATE '2020-11-03')", [{"d": date(2020, 11, 3)}, {}], [0]),
    "IsNull and IsNotNull": ("((`i` IS NULL) AND (`s` IS NOT NULL))", [{"s": "a"}, {"i": 1, "s": "a"}], [0]),
    "Or": ("((`i` IS NULL) OR (`s` IS NOT NULL))", [{"i": 1}, {"i": 1, "s": "a"}, {}], [1, 2]),
    "Not IsNull": ("(NOT (`i` IS NULL))", [{"i": 1}, {}], [0]),
    "StringStartsWith": ("`s` LIKE 'b\\'ar%'", [{"s": "b'art"}, {"s": "xb'ar"}, {}], [0]),
    "StringEndsWith": ("`s` LIKE '%bar'", [{"s": "xbar"}, {"s": "bart"}], [0]),
    "StringContains": ("`s` LIKE '%bar%'", [{"s": "xbart"}, {"s": "ba r"}], [0]),
    "And of nested Or": (
        "(((((`i` >= 100) OR (`i` <= 70))) OR (`f` <= 9)) AND ((((`i` >= 50) OR (`i` <= 7))) OR "
        "(((`i` >= 9) OR (`i` <= 5)))) AND ((`i` >= 5000) OR (`i` <= 701)))",
        [{"i": 60, "f": 1.0}, {"i": 800, "f": 1.0}],
        [0],
    ),
    "an option and a filter": ("(i>1) AND (`s` = 'a')", [{"i": 2, "s": "a"}, {"i": 1, "s": "a"}], [0]),
}


@pytest.mark.parametrize("name", SPARK)
def test_every_filter_that_spark_pushes_down_is_supported(name: str) -> None:
    text, rows, expected = SPARK[name]
    assert passed(text, rows) == expected


def test_deep_filters_of_spark_are_supported() -> None:
    text = "`i` = 0"
    for number in range(1, MAX_BRACKETS // 2):
        text = f"(({text}) OR (`i` = {number}))"
    assert passed(text, [{"i": MAX_BRACKETS // 2 - 1}, {"i": MAX_BRACKETS // 2}]) == [0]


@pytest.mark.parametrize("text", ["", "  ", "\n"])
def test_an_empty_restriction_includes_everything(text: str) -> None:
    assert parse_restriction(text, SCHEMA) is None


def test_the_maximum_number_of_conditions_is_evaluated() -> None:
    text = " OR ".join(f"i = {number}" for number in range(MAX_CONDITIONS))
    assert passed(text, [{"i": MAX_CONDITIONS - 1}, {"i": MAX_CONDITIONS}]) == [0]
    assert passed("(" * MAX_BRACKETS + "b" + ")" * MAX_BRACKETS, [{"b": True}]) == [0]


# -- against an oracle in plain Python ---------------------------------------------------------------

# For each type: values of rows, and literals with their values in Python.
INTEGERS = [-(2**63), -2, 0, 1, 2, 3, 2**63 - 1]
NUMBERS = ["-9223372036854775809", "-2", "0", "1", "1.5", "2", "2.000000001", "3e0", "1e30", "-.5"]
DATES = [date(1, 1, 1), date(2024, 1, 1), date(2024, 1, 2), date(9999, 12, 31)]
MOMENTS = [
    datetime(1969, 12, 31, 23, 59, 59, 999_999),
    datetime(2024, 1, 1),
    datetime(2024, 1, 1, 0, 0, 0, 1),
]
VALUES: dict[str, list[Any]] = {
    "i": INTEGERS,
    "f": [float("nan"), float("inf"), float("-inf"), -0.0, 0.0, 1.5, 2.0, 1e30],
    "n": [Decimal(text) for text in ("-2", "0", "1.5", "2.000000001", "3")],
    "s": ["", "a", "A", "ab", "it's", "ü"],
    "y": [b"", b"a", b"\xff"],
    "b": [True, False],
    "d": DATES,
    "ts": [moment.replace(tzinfo=UTC) for moment in MOMENTS],
    "dt": MOMENTS,
    "t": [time(0), time(12, 30), time(23, 59, 59, 999_999)],
}
LITERALS: dict[str, list[tuple[str, Any]]] = {
    "i": [(text, Decimal(text)) for text in NUMBERS],
    "n": [(text, Decimal(text)) for text in NUMBERS],
    "f": [(text, float(text)) for text in NUMBERS],
    "s": [(repr(text), text) for text in VALUES["s"]],
    "y": [("b''", b""), ("b'a'", b"a"), (r"b'\xff'", b"\xff")],
    "b": [("TRUE", True), ("FALSE", False)],
    "d": [(f"DATE '{day.isoformat()}'", day) for day in DATES],
    "ts": [(f"TIMESTAMP '{moment.isoformat()}'", moment) for moment in VALUES["ts"]],
    "dt": [(f"DATETIME '{moment.isoformat()}'", moment) for moment in MOMENTS],
    "t": [(f"TIME '{clock.isoformat()}'", clock) for clock in VALUES["t"]],
}
Truth = bool | None
Predicate = tuple[str, "Callable[[dict[str, Any]], Truth]"]

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def unless_null(name: str, test: Callable[[Any], bool]) -> Callable[[dict[str, Any]], Truth]:
    return lambda row: None if row[name] is None else test(row[name])


def negation(truth: Truth) -> Truth:
    return None if truth is None else not truth


def conjunction(a: Truth, b: Truth) -> Truth:
    if a is False or b is False:
        return False
    return None if a is None or b is None else True


@st.composite
def conditions(draw: st.DrawFn) -> Predicate:
    name = draw(st.sampled_from(sorted(VALUES)))
    kind = draw(st.sampled_from(["compare", "flipped", "in", "between", "null", "bare"]))
    turned = draw(st.booleans())
    literal = st.sampled_from(LITERALS[name])
    word = "NOT " if turned else ""
    test: Callable[[dict[str, Any]], Truth]
    match kind:
        case "compare" | "flipped":
            sign = draw(st.sampled_from(sorted(COMPARISONS)))
            text, value = draw(literal)
            compare = COMPARISONS[sign]
            if kind == "compare":
                return f"{name} {sign} {text}", unless_null(name, lambda own: compare(own, value))
            return f"{text} {sign} {name}", unless_null(name, lambda own: compare(value, own))
        case "in":
            chosen = draw(st.lists(literal, min_size=1, max_size=3))
            test = unless_null(name, lambda own: any(own == value for _, value in chosen))
            text = f"{name} {word}IN ({', '.join(text for text, _ in chosen)})"
        case "between":
            (low_text, low), (high_text, high) = draw(literal), draw(literal)
            test = unless_null(name, lambda own: low <= own <= high)
            text = f"{name} {word}BETWEEN {low_text} AND {high_text}"
        case "null":
            return f"{name} IS {word}NULL", lambda row: (row[name] is None) != turned
        case _:
            return "b", lambda row: row["b"]
    return text, (lambda row: negation(test(row))) if turned else test


def combined(parts: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
    def both(pair: tuple[Predicate, Predicate]) -> Predicate:
        (a, x), (b, y) = pair
        return f"({a}) AND {b}", lambda row: conjunction(x(row), y(row))

    def either(pair: tuple[Predicate, Predicate]) -> Predicate:
        (a, x), (b, y) = pair
        return f"({a} OR ({b}))", lambda row: negation(conjunction(negation(x(row)), negation(y(row))))

    def turned(part: Predicate) -> Predicate:
        return f"(NOT ({part[0]}))", lambda row: negation(part[1](row))

    two = st.tuples(parts, parts)
    return st.one_of(two.map(both), two.map(either), parts.map(turned))


PREDICATES = st.recursive(conditions(), combined, max_leaves=4)
ROWS = st.fixed_dictionaries({name: st.none() | st.sampled_from(values) for name, values in VALUES.items()})


@settings(deadline=None, max_examples=300)
@given(PREDICATES, st.lists(ROWS, max_size=8))
def test_any_restriction_equals_a_plain_filter(predicate: Predicate, rows: list[dict[str, Any]]) -> None:
    text, test = predicate
    assert passed(text, rows) == [number for number, row in enumerate(rows) if test(row) is True]


@pytest.fixture(scope="module")
def lake() -> Lake:
    return Lake()


@pytest.fixture(scope="module")
def served(lake: Lake) -> Iterator[Served]:
    with Served(lake.service()) as server:
        yield server


NUMBER = count()


@settings(deadline=None, max_examples=50)
@given(PREDICATES, st.lists(st.lists(ROWS, min_size=1, max_size=3), min_size=1, max_size=3))
def test_pruning_does_not_change_the_result_of_any_restriction(
    lake: Lake, served: Served, predicate: Predicate, writes: list[list[dict[str, Any]]]
) -> None:
    text, test = predicate
    table = lake.table(f"t{next(NUMBER)}", COLUMNS)
    expected = []
    number = 0
    for rows in writes:
        numbered = [{"id": number + index} | row for index, row in enumerate(rows)]
        number += len(rows)
        lake.write(table, numbered)
        expected += [row["id"] for row in numbered if test(row) is True]
    made = session(served.client, table, row_restriction=text, selected_fields=["id"], max_stream_count=2)
    assert [row["id"] for row in read(served.client, made)] == expected


HOSTILE = "s = '" + "\\x" * 26


def test_a_hostile_restriction_is_refused_while_others_are_answered(lake: Lake, served: Served) -> None:
    table = lake.table("hostile", [Column("id", "INT64"), Column("s", "STRING")])
    lake.write(table, [{"id": 1, "s": "a"}])
    with ThreadPoolExecutor(4) as threads:
        refusals = [threads.submit(session, served.client, table, row_restriction=HOSTILE) for _ in range(4)]
        made = session(served.client, table, row_restriction="s LIKE 'a%' AND TRUE")
        assert [row["id"] for row in read(served.client, made)] == [1]
        for refusal in refusals:
            with pytest.raises(InvalidArgument, match="is not understood"):
                refusal.result(120)


def test_a_computed_restriction_is_read_from_any_offset_and_in_parts(lake: Lake, served: Served) -> None:
    table = lake.table("computed", [Column("id", "INT64"), Column("day", "DATE"), Column("s", "STRING")])
    for start in (0, 40):
        days = [date(2024, 1, 1 + number % 31) for number in range(start, start + 40)]
        lake.write(table, [{"id": start + n, "day": day, "s": "x" * n} for n, day in enumerate(days)])
    text = (
        "id < 70 AND CASE WHEN DATE_DIFF(day, DATE '2024-01-01', DAY) > 3 THEN MOD(LENGTH(s), id + 7) = 1 END"
    )
    expected = [n for n in range(70) if n % 31 > 3 and (n % 40) % (n + 7) == 1]
    made = session(served.client, table, row_restriction=text, selected_fields=["id"], max_stream_count=2)
    assert [row["id"] for row in read(served.client, made)] == expected
    last = served.client.read_rows(made.streams[-1].name, offset=1)
    assert [row["id"] for row in last.rows(made)] == [n for n in expected if len(made.streams) < 2 or n > 39][
        1:
    ]


class CountedDatabase(Database):
    """A database that counts how many were opened and closed."""

    opened: ClassVar[list[Any]] = []
    closed: ClassVar[list[Any]] = []

    def __init__(self, limits: Any) -> None:
        super().__init__(limits)
        self.opened.append(self)

    def close(self) -> None:
        super().close()
        self.closed.append(self)


def test_a_computed_restriction_is_planned_once_for_all_batches_and_streams(
    lake: Lake, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(condition, "Database", CountedDatabase)
    table = lake.table("counted", [Column("id", "INT64"), Column("s", "STRING")])
    for start in range(0, 60, 10):
        lake.write(table, [{"id": start + n, "s": "x" * 500_000} for n in range(10)])
    made = session(served.client, table, row_restriction="CASE WHEN TRUE THEN LENGTH(s) > 7 END")
    assert len(read(served.client, made)) == 60
    assert len(CountedDatabase.opened) == 1
    with pytest.raises(InvalidArgument, match="Bad int64 value"):
        read(served.client, session(served.client, table, row_restriction="CAST(s AS INT64) = 1"))
    for number in range(10):
        session(served.client, table, row_restriction=f"CASE WHEN TRUE THEN LENGTH(s) > {number} END")
    # The oldest are closed.
    assert len(CountedDatabase.opened) - len(CountedDatabase.closed) == 8


def test_a_restriction_without_columns_is_answered(lake: Lake, served: Served) -> None:
    table = lake.table("constant", [Column("id", "INT64")])
    lake.write(table, [{"id": 1}, {"id": 2}])
    for text, expected in (("TRUE", [1, 2]), ("1 = 0", []), ("NULL", [])):
        made = session(served.client, table, row_restriction=text)
        assert [row["id"] for row in read(served.client, made)] == expected


def test_the_current_time_of_a_session_is_that_of_its_creation(lake: Lake, served: Served) -> None:
    table = lake.table("now", [Column("ts", "TIMESTAMP")])
    lake.write(table, [{"ts": datetime(2020, 1, 1, tzinfo=UTC)}])
    made = session(served.client, table, row_restriction="ts < CURRENT_TIMESTAMP()")
    _, token = made.name.rsplit("/", 1)
    before = decode_session(token, lake.store).now_micros
    assert before is not None
    assert abs(before - datetime.now(UTC).timestamp() * 1e6) < 60e6
    assert len(read(served.client, made)) == 1
