"""Filters as text on columns of any Arrow type: what passes, what is refused, and what they are about."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lode.errors import InvalidOptionError
from lode.filter import parse_filter

NAN = float("nan")


def passed(text: str, kind: Any, values: list[Any]) -> list[Any]:
    """Those of the values of column ``c`` that a filter passes."""
    table = pa.table({"c": pa.array(values, kind)})
    found: list[Any] = table.filter(parse_filter(text, table.schema).where)["c"].to_pylist()
    return found


def holds(text: str) -> bool | None:
    """Whether a filter is true, false or unknown, as far as it needs no column."""
    table = pa.table({"c": pa.array([1])})
    for answer, form in ((True, "{}"), (False, "NOT ({})"), (None, "({}) IS NULL")):
        if table.filter(parse_filter(form.format(text), table.schema).where).num_rows:
            return answer
    raise AssertionError(text)


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint64()])
def test_whole_numbers_of_every_width_compare_with_any_number(kind: Any) -> None:
    values = [0, 1, 2, 100, None]
    assert passed("c > 1.5", kind, values) == [2, 100]
    assert passed("c < 1e30 AND c > -1e30", kind, values) == [0, 1, 2, 100]
    assert passed("NOT c < 1e30", kind, values) == []
    assert passed("c = 1.5 OR c IN (2, 2.5, -1)", kind, values) == [2]
    assert passed("c + 1 = 2", kind, values) == [1]


def test_the_ends_of_whole_numbers_are_exact() -> None:
    ends = [-(2**63), 2**63 - 1]
    assert passed("c < 9223372036854775808", pa.int64(), ends) == ends
    assert passed("c >= 9223372036854775807", pa.int64(), ends) == ends[1:]
    assert passed("c - 1 < -9223372036854775808", pa.int64(), ends) == ends[:1]
    assert passed("ABS(c) = 9223372036854775808", pa.int64(), ends) == ends[:1]
    assert passed("c = 0xF", pa.int64(), [15]) == [15]
    assert passed("c > 18446744073709551614", pa.uint64(), [2**64 - 1]) == [2**64 - 1]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_nan_is_equal_to_nothing_and_not_distinct_from_itself(kind: Any) -> None:
    values = [0.5, NAN, None, float("inf")]
    found = {
        "c != 0.5": 2,
        "NOT c < 1": 2,
        "NOT c = 0.5": 2,
        "c NOT IN (0.5)": 2,
        "c = CAST('NaN' AS FLOAT64)": 0,
        "c != CAST('NaN' AS FLOAT64)": 3,
        "c IN (CAST('nan' AS FLOAT64))": 0,
        "c IS NOT DISTINCT FROM CAST('NaN' AS FLOAT64)": 1,
        "c IS DISTINCT FROM CAST('NaN' AS FLOAT64)": 3,
        "c = CAST('inf' AS FLOAT64)": 1,
        "c BETWEEN 0 AND 1": 1,
        "c NOT BETWEEN 0 AND 1": 2,
    }
    assert {text: len(passed(text, kind, values)) for text in found} == found


def test_zeros_of_both_signs_are_one_value() -> None:
    assert len(passed("c IN (0, 7)", pa.float64(), [0.0, -0.0])) == 2
    assert passed("c NOT IN (0)", pa.float64(), [0.0, -0.0]) == []


@pytest.mark.parametrize("kind", [pa.decimal128(12, 3), pa.decimal256(76, 38)])
def test_decimals_compare_exactly_with_numbers_they_cannot_hold(kind: Any) -> None:
    values = [Decimal("1.000"), Decimal("1.001")]
    assert passed("c > 1." + "0" * 40 + "1", kind, values) == values[1:]
    assert passed("c < 1e200 AND c > -1e200", kind, values) == values


def test_decimals_are_added_and_multiplied_exactly() -> None:
    values = [Decimal("1.000"), Decimal("1.001")]
    assert passed("c * 2 = 2.002 AND c + 1 = 2.001", pa.decimal128(12, 3), values) == values[1:]


def test_bignumeric_has_a_range_of_256_bits() -> None:
    kind = pa.decimal256(76, 38)
    largest = 2**255 - 1
    stored = pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(largest.to_bytes(32, "little"))])
    table = pa.table({"c": stored})
    digits = f"{largest:077d}"
    text = f"BIGNUMERIC '{digits[:-38]}.{digits[-38:]}'"
    for condition, rows in ((f"c = {text}", 1), (f"c IN ({text})", 1), (f"c > {text}", 0), ("c > 5e38", 1)):
        assert table.filter(parse_filter(condition, table.schema).where).num_rows == rows


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_times_of_every_unit_compare_with_text(unit: Any, zone: str | None) -> None:
    moment = datetime(2024, 7, 1, 10, tzinfo=UTC if zone else None)
    kind = pa.timestamp(unit, zone)
    yes = [
        "c = '2024-07-01 10:00:00'",
        "c < '2024-07-01T10:00:00.000001'",
        "c > '0001-01-01'",
        "c < '9999-01-01'",
    ]
    yes += (
        ["c = '2024-07-01T12:00+02:00'"]
        if zone
        else ["c = DATETIME '2024-07-01 10:00:00'", "c > DATE '2024-07-01'"]
    )
    yes += ["DATE(c) = DATE '2024-07-01'", "EXTRACT(HOUR FROM c) = 10", "CAST(c AS TIME) = '10:00'"]
    for text in yes:
        assert len(passed(text, kind, [moment, None])) == 1, text
    for text in ("c != '2024-07-01 10:00:00'", "c > '2024-07-01 10:00:00'", "c IN ('2024-07-01')"):
        assert passed(text, kind, [moment, None]) == [], text


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York"])
def test_functions_of_times_are_in_utc_before_1970_too(unit: Any, zone: str) -> None:
    moment = datetime(1969, 7, 20, 23, 59, 59, tzinfo=UTC)
    for text in (
        "DATE(c) = DATE '1969-07-20'",
        "CAST(c AS TIME) = TIME '23:59:59'",
        "CAST(c AS DATETIME) = DATETIME '1969-07-20 23:59:59'",
        "TIMESTAMP(DATETIME(c)) = c",
        "TIMESTAMP_TRUNC(c, HOUR) = TIMESTAMP '1969-07-20 23:00:00Z'",
        "TIMESTAMP_TRUNC(c, ISOWEEK) = TIMESTAMP '1969-07-14 00:00:00Z'",
        "TIMESTAMP_TRUNC(c, YEAR) = TIMESTAMP '1969-01-01 00:00:00Z'",
        "EXTRACT(HOUR FROM c) = 23 AND EXTRACT(SECOND FROM c) = 59 AND EXTRACT(DAYOFWEEK FROM c) = 1",
        "COALESCE(c, '2024-01-01') = '1969-07-20 23:59:59'",
    ):
        assert len(passed(text, pa.timestamp(unit, zone), [moment])) == 1, text


def test_dates_and_times_of_day_compare_with_text() -> None:
    days = [date(1969, 12, 31), date(2024, 2, 29)]
    kind: Any
    for kind in (pa.date32(), pa.date64()):
        assert passed("c >= '2024-2-29'", kind, days) == days[1:]
        assert passed("c < DATETIME '2024-02-29 12:00:00'", kind, days) == days
        assert passed("c = DATETIME '2024-02-29 12:00:00'", kind, days) == []
    for kind in (pa.time32("s"), pa.time64("us")):
        assert passed("c < '10:00:00.5'", kind, [time(10), time(11)]) == [time(10)]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_text_of_every_type_is_compared_and_matched(kind: Any) -> None:
    values = ["apple", "Pear", None]
    for text in ("c = 'apple'", "c IN ('apple')", "c LIKE 'app%'", "c != 'Pear'", "LOWER(c) < 'b'"):
        assert passed(text, kind, values) == ["apple"], text


def test_bytes_are_compared_as_bytes() -> None:
    assert passed(r"c = b'\xff\x00'", pa.binary(), [b"\xff\x00", b"a"]) == [b"\xff\x00"]
    assert passed("c = b'abc' AND LENGTH(c) = 3", pa.binary(3), [b"abc"]) == [b"abc"]
    assert passed("CONCAT(c, b'd') = b'abcd'", pa.binary(3), [b"abc"]) == [b"abc"]
    assert passed("c > b'ab' AND c != b'abcd' AND c NOT IN (b'')", pa.binary(3), [b"abc"]) == [b"abc"]


@pytest.mark.parametrize(
    ("pattern", "value", "matches"),
    [
        ("a%", "a\nb", True),
        ("%a", "ba", True),
        ("%a%", "xay", True),
        ("_", "ü", True),
        ("_", "ab", False),
        ("a_c%", "abcd", True),
        (r"a\\%", "a%", True),
        (r"a\\%", "ab", False),
        (r"\\_%", "_x", True),
        (r"a\\\\b", r"a\b", True),
        ("(a|b)", "a", False),
        ("", "", True),
        ("%", "", True),
        ("\U0010ffff%", "\U0010ffffa", True),
        ("\ud7ff%", "\ud7ffa", True),
    ],
)
def test_like_takes_wildcards_and_backslashes(pattern: str, value: str, matches: bool) -> None:
    assert passed(f"c LIKE '{pattern}'", pa.string(), [value]) == [value] * matches
    assert passed(f"c NOT LIKE '{pattern}'", pa.string(), [value, None]) == [value] * (not matches)


@pytest.mark.parametrize(
    "text",
    [
        "TRUE AND NOT FALSE",
        "1 IS NOT NULL AND NULL IS NULL",
        "LENGTH('abc') = 3 AND LENGTH(b'abc') = 3 AND CHAR_LENGTH('ü') = 1 AND BYTE_LENGTH('ü') = 2",
        "UPPER('aü') = 'AÜ' AND LOWER('AÜ') = 'aü'",
        "TRIM('  a ') = 'a' AND LTRIM('xxa', 'x') = 'a' AND RTRIM('axy', 'yx') = 'a'",
        "STARTS_WITH('abc', 'ab') AND ENDS_WITH('abc', 'bc') AND REGEXP_CONTAINS('abc', r'^a.c$')",
        "SUBSTR('abc', 2) = 'bc' AND SUBSTR('abc', 0, 1) = 'a' AND SUBSTR('abc', -2) = 'bc'",
        "CONCAT('a', 'b', 'c') = 'abc'",
        "COALESCE(NULL, 2, 3) = 2 AND IFNULL(NULL, 1.5) = 1.5 AND IF(NULL, 1, 2) = 2",
        "NULLIF(1, 2) = 1 AND NULLIF(1, 1) IS NULL",
        "ABS(-2) = 2 AND MOD(-7, 3) = -1 AND MOD(7, -3) = 1",
        "FLOOR(-1.5) = -2 AND CEIL(1.2) = 2 AND ROUND(2.5) = 3 AND ROUND(-2.5) = -3",
        "2 + 3 * 4 - 1 = 13 AND (2 + 3) * 4 = 20 AND 7 / 2 = 3.5 AND -(-2) = 2",
        "0.1 + 0.2 != 0.3 AND NUMERIC '0.1' + NUMERIC '0.2' = NUMERIC '0.3'",
        "1 / 0 IS NULL AND 1 + NULL IS NULL",
        "EXTRACT(DAYOFWEEK FROM DATE '2024-01-07') = 1 AND EXTRACT(DAYOFYEAR FROM DATE '2024-12-31') = 366",
        "EXTRACT(ISOWEEK FROM DATE '2024-12-30') = 1 AND EXTRACT(ISOYEAR FROM DATE '2024-12-30') = 2025",
        "EXTRACT(MILLISECOND FROM TIME '10:00:00.123456') = 123",
        "EXTRACT(DATE FROM TIMESTAMP '1969-12-31 23:59:59.9Z') = DATE '1969-12-31'",
        "DATE_TRUNC(DATE '2024-05-17', QUARTER) = DATE '2024-04-01'",
        "DATE_TRUNC(DATE '2024-05-17', WEEK) = DATE '2024-05-12'",
        "TIMESTAMP_TRUNC(TIMESTAMP '1969-12-31 23:59:59Z', HOUR) = TIMESTAMP '1969-12-31 23:00:00Z'",
        "DATETIME_TRUNC(DATETIME '2024-05-17 10:11:12', MINUTE) = DATETIME '2024-05-17 10:11:00'",
        "CAST(1 AS STRING) = '1' AND CAST(TRUE AS STRING) = 'true' AND CAST(FALSE AS INT64) = 0",
        "CAST('0x10' AS INT64) = 16 AND CAST(' 1.5 ' AS NUMERIC) = 1.5 AND CAST('true' AS BOOL)",
        "SAFE_CAST('x' AS INT64) IS NULL AND SAFE_CAST('2' AS INT64) = 2",
        "CAST(DATE '2024-01-02' AS STRING) = '2024-01-02'",
        "CAST(DATE '2024-01-02' AS TIMESTAMP) = TIMESTAMP '2024-01-02 00:00:00Z'",
        "CURRENT_DATE() = DATE(CURRENT_TIMESTAMP()) AND CURRENT_DATETIME > DATETIME '2020-01-01'",
        "'it''s' = 'it\\'s' AND '''a'b''' = 'a\\'b' AND r'\\n' != '\\n' AND '\\x41\\101\\u0041' = 'AAA'",
        "1 IN UNNEST([3, 2, 1]) AND 1 NOT IN UNNEST(ARRAY<INT64>[2])",
        "(1 = 1) = (2 = 2) AND (1 = NULL) IS NULL AND (NULL IS NOT TRUE)",
        "NULL IS NOT DISTINCT FROM NULL AND 1 IS DISTINCT FROM NULL",
        "1 NOT IN (2, 3) AND 1 NOT BETWEEN 2 AND 3 AND 'a' NOT LIKE 'b%'",
    ],
)
def test_a_function_of_literals_is_what_sql_says(text: str) -> None:
    assert holds(text) is True


@pytest.mark.parametrize(
    "text",
    [
        "NULL",
        "1 = NULL",
        "1 NOT IN (2, NULL)",
        "NULL LIKE 'a'",
        "NOT NULL",
        "NULL BETWEEN 1 AND 2",
        "NULL + 1 > 0",
    ],
)
def test_what_depends_on_null_is_unknown(text: str) -> None:
    assert holds(text) is None


def test_columns_of_one_kind_meet_without_loss() -> None:
    table = pa.table(
        {
            "i": pa.array([None, 1], pa.int32()),
            "j": pa.array([2**40, 2], pa.int64()),
            "u": pa.array([2**64 - 1, 2], pa.uint64()),
            "n": pa.array([Decimal("0.5"), None], pa.decimal128(5, 2)),
            "s": pa.array(["a", None], pa.string()),
            "l": pa.array(["b", "c"], pa.large_string()),
            "f": pa.array([None, 0.5], pa.float32()),
        }
    )
    for text in (
        "COALESCE(i, j) > 1000",
        "COALESCE(i, u) = 18446744073709551615",
        "IFNULL(i, 1099511627776) = 1099511627776",
        "IF(i IS NULL, n, u) = 0.5",
        "COALESCE(n, j) = 0.5",
        "COALESCE(s, l) = 'a'",
        "COALESCE(f, n) = 0.5 AND i IS NULL",
        "COALESCE(NULL, f, i, n) = 0.5 AND s = 'a'",
        "n + CAST('0.25' AS FLOAT64) = 0.75",
        "u > j AND (u != i) IS NULL",
    ):
        assert table.filter(parse_filter(text, table.schema).where)["l"].to_pylist() == ["b"], text


def test_a_name_is_the_column_of_its_case_or_the_only_one_of_another() -> None:
    schema = pa.schema([("Day", pa.int64()), ("n", pa.int64()), ("N", pa.int64())])
    assert parse_filter('day = 1 AND n = 2 AND "N" = 3', schema).columns == ("Day", "n", "N")
    with pytest.raises(InvalidOptionError, match="there is no column 'x': there are Day, n, N"):
        parse_filter("x = 1", schema)
    with pytest.raises(InvalidOptionError, match=r"'dAy\.x': there is nothing inside of it"):
        parse_filter("dAy.x = 1", schema)
    twice = pa.schema([("ab", pa.int64()), ("aB", pa.int64())])
    with pytest.raises(InvalidOptionError, match="'AB' could be ab or aB: use the column's own case"):
        parse_filter("AB = 1", twice)


def test_keywords_are_names_in_quotes_and_after_points() -> None:
    schema = pa.schema(
        [("select", pa.int64()), ("in", pa.struct([("null", pa.int64())])), ("over", pa.bool_())]
    )
    found = parse_filter('select = 1 AND `in`.null = 2 AND over AND "in" IS NULL', schema)
    assert found.columns == ("select", "in.null", "over", "in")


def test_double_quotes_are_names_unless_googlesql_is_asked_for() -> None:
    schema = pa.schema([("s", pa.string())])
    assert parse_filter('s = "s"', schema).columns == ("s",)
    googlesql = parse_filter('s = "x"', schema, double_quotes=False)
    assert pa.table({"s": ["x", "s"]}).filter(googlesql.where)["s"].to_pylist() == ["x"]


def test_a_filter_tells_its_columns_and_whether_row_groups_can_be_pruned_by_it() -> None:
    struct: Any = pa.struct([("x", pa.int64())])
    columns: list[Any] = [("i", pa.int64()), ("f", pa.float64()), ("s", pa.string()), ("st", struct)]
    schema = pa.schema(columns)
    for text in (
        "i = 1 AND f > 2",
        "i NOT IN (1) OR i IS NULL",
        "i IS NOT DISTINCT FROM 3",
        "NOT i < CAST('2' AS INT64)",
    ):
        assert parse_filter(text, schema).fits_row_groups, text
    for text in (
        "f != 1",
        "NOT f < 1",
        "f NOT IN (1)",
        "st.x = 1",
        "LOWER(s) = 'a'",
        "i + 1 = 2",
        "i = f",
        "(i = 1) IS NULL",
    ):
        assert not parse_filter(text, schema).fits_row_groups, text
    assert parse_filter("st.x = 1 OR LOWER(S) = 'a'", schema).columns == ("st.x", "s")


def test_now_is_one_moment_that_can_be_given() -> None:
    schema = pa.schema([("ts", pa.timestamp("us", "UTC"))])
    found = parse_filter("ts < CURRENT_TIMESTAMP() OR ts = CURRENT_TIMESTAMP", schema, now_micros=5)
    assert found.now_micros == 5
    assert str(found.where).count("1970-01-01 00:00:00.000005Z") == 2
    assert parse_filter("ts IS NULL", schema, now_micros=5).now_micros is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "c = 1 AND _PARTITIONTIME > '2024-01-01'",
            "at 10: the pseudo-column '_PARTITIONTIME' is not supported",
        ),
        ("SUM(c) = 1", "at 0: 'SUM' is not one of the functions ABS, "),
        ("c = CASE WHEN TRUE THEN 1 END", "'WHEN' is not expected here; supported are ="),
        ("c = (SELECT 1)", "'1' is not expected here; supported are ="),
        ("c = 1; c = 2", "at 5: '; c = 2' is not understood"),
        ("c = @p", "at 4: '@p' is not understood"),
        ("c = 'x'", "an INT64 cannot be compared with 'x', a STRING"),
        ("c LIKE 'a'", "LIKE takes a STRING, not INT64"),
        ("LOWER(c, 1) = 'a'", "LOWER takes 1 arguments, not 2"),
        ("CAST(c AS DATE) = '2024-01-01'", "a CAST of INT64 to DATE is not supported"),
        ("c = 99999999999 * 99999999999 * 99999999999 * c * c * c", "more than 76 digits to be exact"),
        ("REGEXP_CONTAINS('a', '(')", "it cannot be computed"),
        ("c IN ()", "IN must be followed by values"),
        ("c = [1]", "is not expected here"),
        ("c = 1 AND", "at 9: a value is missing at the end"),
    ],
)
def test_what_is_not_supported_is_refused_in_one_sentence(text: str, complaint: str) -> None:
    with pytest.raises(InvalidOptionError) as refused:
        parse_filter(text, pa.schema([("c", pa.int64())]), name="--where")
    message = str(refused.value)
    assert message.startswith("--where ")
    assert complaint in message
    assert "\n" not in message
