"""What functions, operators and types answer, each as one expression with its type and value."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lode.ingest.types.arrow import from_arrow
from lode.ingest.types.columns import Column, TableSchema
from lode.sql import Engine, QueryError, Source, parse

UTC = dt.UTC


class NoTables:
    """A lake without tables."""

    def table(self, parts: tuple[str, ...], as_of: dt.datetime | None) -> Any:
        raise QueryError(f"Not found: Table {'.'.join(parts)}", reason="notFound", location="")


@pytest.fixture(scope="module")
def engine() -> Any:
    with Engine(NoTables()) as engine:
        yield engine


def answer(engine: Engine, query: str) -> tuple[str, Any]:
    """The type and the value of a query with one row and one column."""
    result = engine.run(parse(query)[0])
    rows = [row for batch in result.batches for row in batch.to_pylist()]
    column = from_arrow(result.schema).columns[0]
    assert len(rows) == 1
    kind = f"ARRAY<{column.type}>" if column.mode == "REPEATED" else column.type
    return kind, rows[0][column.name]


CASES: list[tuple[str, str, Any]] = [
    # texts for times, and lists of patterns
    ("DATE_ADD('2024-01-05', INTERVAL 1 DAY)", "DATE", dt.date(2024, 1, 6)),
    ("DATE_SUB('2024-01-05', INTERVAL 1 MONTH)", "DATE", dt.date(2023, 12, 5)),
    ("UNIX_DATE('1970-01-02')", "INT64", 1),
    ("GENERATE_DATE_ARRAY('2024-01-01', '2024-01-02')", "ARRAY<DATE>", [dt.date(2024, 1, n) for n in (1, 2)]),
    ("DATETIME_ADD('2024-01-05', INTERVAL 1 HOUR)", "DATETIME", dt.datetime(2024, 1, 5, 1)),
    ("DATETIME_TRUNC('2024-01-05 01:02:03', HOUR)", "DATETIME", dt.datetime(2024, 1, 5, 1)),
    ("TIME_ADD('01:02:03', INTERVAL 1 HOUR)", "TIME", dt.time(2, 2, 3)),
    ("TIMESTAMP_SUB('2024-01-05', INTERVAL 1 HOUR)", "TIMESTAMP", dt.datetime(2024, 1, 4, 23, tzinfo=UTC)),
    ("TIMESTAMP_TRUNC('2024-01-05 01:02:03+01', DAY)", "TIMESTAMP", dt.datetime(2024, 1, 5, tzinfo=UTC)),
    ("UNIX_SECONDS('1970-01-01 00:00:05+00')", "INT64", 5),
    ("'ab' LIKE ANY ('x%', '%b')", "BOOL", True),
    ("'ab' LIKE ALL ('x%', '%b')", "BOOL", False),
    ("'ab' NOT LIKE ANY ('a%', 'b%')", "BOOL", True),
    ("'ab' NOT LIKE ALL ('x%', 'b%')", "BOOL", True),
    ("NOT 'ab' LIKE ANY ('a%')", "BOOL", False),
    # numbers
    ("1 + 2", "INT64", 3),
    ("2147483647 + 1", "INT64", 2147483648),
    ("7 / 2", "FLOAT64", 3.5),
    ("DIV(7, 2)", "INT64", 3),
    ("MOD(-7, 3)", "INT64", -1),
    ("NUMERIC '10' / 4", "NUMERIC", Decimal("2.5")),
    ("NUMERIC '1' / 3", "NUMERIC", Decimal("0.333333333")),
    ("NUMERIC '1.5' * 2.5", "NUMERIC", Decimal("3.75")),
    ("1.5 * 2", "FLOAT64", 3.0),
    ("0xFF", "INT64", 255),
    ("ROUND(2.5)", "FLOAT64", 3.0),
    ("ROUND(-2.5)", "FLOAT64", -3.0),
    ("ROUND(1234.567, -2)", "FLOAT64", 1200.0),
    ("ROUND(NUMERIC '2.345', 2)", "NUMERIC", Decimal("2.35")),
    ("TRUNC(2.789, 1)", "FLOAT64", 2.7),
    ("SAFE_DIVIDE(1, 0)", "FLOAT64", None),
    ("IEEE_DIVIDE(1, 0)", "FLOAT64", float("inf")),
    ("SAFE_ADD(9223372036854775807, 1)", "INT64", None),
    ("SAFE.LN(0)", "FLOAT64", None),
    ("SIGN(-3)", "INT64", -1),
    ("GREATEST(1, 3, 2)", "INT64", 3),
    ("GREATEST(1, NULL)", "INT64", None),
    ("1 << 3", "INT64", 8),
    ("5 & 6 | 1", "INT64", 5),
    ("BIT_COUNT(7)", "INT64", 3),
    ("RANGE_BUCKET(20, [0, 10, 20, 30])", "INT64", 3),
    ("PARSE_NUMERIC(' - 12.5 ')", "NUMERIC", Decimal("-12.5")),
    # casts
    ("CAST(1.0 AS STRING)", "STRING", "1"),
    ("CAST(1e20 AS STRING)", "STRING", "1e+20"),
    ("CAST(NUMERIC '1.50' AS STRING)", "STRING", "1.5"),
    ("CAST(2.5 AS INT64)", "INT64", 3),
    ("CAST('0x1F' AS INT64)", "INT64", 31),
    ("CAST(TRUE AS STRING)", "STRING", "true"),
    ("SAFE_CAST('x' AS INT64)", "INT64", None),
    ("SAFE_CAST('2020-13-01' AS DATE)", "DATE", None),
    ("CAST('abc' AS BYTES)", "BYTES", b"abc"),
    ("CAST(b'abc' AS STRING)", "STRING", "abc"),
    ("CAST(NULL AS NUMERIC)", "NUMERIC", None),
    ("CAST(TIMESTAMP '2020-01-02 03:04:05+00' AS STRING)", "STRING", "2020-01-02 03:04:05+00"),
    # text
    ("CONCAT('a', 'b', 'c')", "STRING", "abc"),
    ("'a' || 'b'", "STRING", "ab"),
    ("SUBSTR('hello', -3, 2)", "STRING", "ll"),
    ("SUBSTR('hello', 0, 2)", "STRING", "he"),
    ("LENGTH('äö')", "INT64", 2),
    ("BYTE_LENGTH('äö')", "INT64", 4),
    ("LENGTH(b'ab')", "INT64", 2),
    ("UPPER('straße')", "STRING", "STRASSE"),
    ("INITCAP('hello wORLD')", "STRING", "Hello World"),
    ("SPLIT('a,b')", "ARRAY<STRING>", ["a", "b"]),
    ("STRPOS('banana', 'n')", "INT64", 3),
    ("INSTR('banana', 'n', -1)", "INT64", 5),
    ("LPAD('7', 3, '0')", "STRING", "007"),
    ("REPLACE('abc', '', 'x')", "STRING", "abc"),
    ("REGEXP_CONTAINS('foobar', r'o+b')", "BOOL", True),
    ("REGEXP_EXTRACT('id=42', r'id=(\\d+)')", "STRING", "42"),
    ("REGEXP_EXTRACT('none', r'(\\d+)')", "STRING", None),
    ("REGEXP_EXTRACT_ALL('a1b22', r'\\d+')", "ARRAY<STRING>", ["1", "22"]),
    ("REGEXP_REPLACE('abc', r'b(c)', r'\\1\\1')", "STRING", "acc"),
    ("'a%c' LIKE 'a\\\\%c'", "BOOL", True),
    ("'abc' NOT LIKE 'a%'", "BOOL", False),
    ("TO_HEX(MD5('x'))", "STRING", "9dd4e461268c8034f5c8564e155c67a6"),
    ("FARM_FINGERPRINT('foo')", "INT64", 6150913649986995171),
    ("TO_BASE64(b'abc')", "STRING", "YWJj"),
    ("FROM_BASE64('YWJj')", "BYTES", b"abc"),
    ("TO_CODE_POINTS('ab')", "ARRAY<INT64>", [97, 98]),
    ("CODE_POINTS_TO_STRING([97, 98])", "STRING", "ab"),
    ("SOUNDEX('Robert')", "STRING", "R163"),
    ("NORMALIZE('\\u0041\\u030A')", "STRING", "Å"),
    ("FORMAT('%05d|%-4s|%.2f|%t', 42, 'ab', 1.5, DATE '2020-01-02')", "STRING", "00042|ab  |1.50|2020-01-02"),
    ("FORMAT('%T', 'x')", "STRING", '"x"'),
    # dates and times
    ("DATE '2020-01-31' + 1", "DATE", dt.date(2020, 2, 1)),
    ("DATE_ADD(DATE '2020-01-31', INTERVAL 1 MONTH)", "DATE", dt.date(2020, 2, 29)),
    ("DATE_SUB(DATE '2020-03-31', INTERVAL 1 MONTH)", "DATE", dt.date(2020, 2, 29)),
    ("DATE_DIFF(DATE '2020-01-05', DATE '2020-01-04', WEEK)", "INT64", 1),
    ("DATE_DIFF(DATE '2020-01-05', DATE '2020-01-04', ISOWEEK)", "INT64", 0),
    ("DATE_DIFF(DATE '2020-01-06', DATE '2020-01-05', WEEK(MONDAY))", "INT64", 1),
    ("DATE_TRUNC(DATE '2020-01-15', WEEK)", "DATE", dt.date(2020, 1, 12)),
    ("DATE_TRUNC(DATE '2020-01-15', WEEK(WEDNESDAY))", "DATE", dt.date(2020, 1, 15)),
    ("DATE_TRUNC(DATE '2020-05-15', QUARTER)", "DATE", dt.date(2020, 4, 1)),
    ("LAST_DAY(DATE '2020-02-10')", "DATE", dt.date(2020, 2, 29)),
    ("EXTRACT(DAYOFWEEK FROM DATE '2020-01-05')", "INT64", 1),
    ("EXTRACT(WEEK FROM DATE '2020-01-05')", "INT64", 1),
    ("EXTRACT(ISOWEEK FROM DATE '2020-01-05')", "INT64", 1),
    ("EXTRACT(HOUR FROM TIMESTAMP '2020-01-01 00:30:00+00' AT TIME ZONE 'America/New_York')", "INT64", 19),
    ("EXTRACT(MILLISECOND FROM TIME '10:00:01.234')", "INT64", 234),
    (
        "TIMESTAMP_DIFF(TIMESTAMP '2020-01-02 00:00:00+00', TIMESTAMP '2020-01-01 00:30:00+00', HOUR)",
        "INT64",
        23,
    ),
    ("DATETIME_DIFF(DATETIME '2020-01-02 00:00:00', DATETIME '2020-01-01 00:30:00', DAY)", "INT64", 1),
    ("TIMESTAMP_SECONDS(0)", "TIMESTAMP", dt.datetime(1970, 1, 1, tzinfo=UTC)),
    ("UNIX_MILLIS(TIMESTAMP '1969-12-31 23:59:59.9995+00')", "INT64", -1),
    ("DATETIME(TIMESTAMP '2020-01-01 00:00:00+00', '+05:45')", "DATETIME", dt.datetime(2020, 1, 1, 5, 45)),
    (
        "TIMESTAMP_TRUNC(TIMESTAMP '2020-01-01 03:00:00+00', DAY, 'America/New_York')",
        "TIMESTAMP",
        dt.datetime(2019, 12, 31, 5, tzinfo=UTC),
    ),
    ("FORMAT_DATE('%A %d %b %Y, week %V', DATE '2020-01-05')", "STRING", "Sunday 05 Jan 2020, week 01"),
    (
        "FORMAT_TIMESTAMP('%F %T%Ez', TIMESTAMP '2020-06-01 00:00:00+00', 'Europe/Berlin')",
        "STRING",
        "2020-06-01 02:00:00+02:00",
    ),
    ("PARSE_DATE('%d/%m/%y', '05/01/20')", "DATE", dt.date(2020, 1, 5)),
    (
        "PARSE_TIMESTAMP('%Y-%m-%d %H:%M:%S%z', '2020-01-01 00:00:00+0100')",
        "TIMESTAMP",
        dt.datetime(2019, 12, 31, 23, tzinfo=UTC),
    ),
    ("PARSE_TIME('%I:%M %p', '02:30 PM')", "TIME", dt.time(14, 30)),
    (
        "GENERATE_DATE_ARRAY(DATE '2020-01-01', DATE '2020-01-05', INTERVAL 2 DAY)",
        "ARRAY<DATE>",
        [dt.date(2020, 1, 1), dt.date(2020, 1, 3), dt.date(2020, 1, 5)],
    ),
    # intervals
    ("INTERVAL '1-2' YEAR TO MONTH", "INTERVAL", "1-2 0 0:0:0"),
    ("INTERVAL '3 4:5:6.5' DAY TO SECOND", "INTERVAL", "0-0 3 4:5:6.500"),
    ("MAKE_INTERVAL(1, day => 2)", "INTERVAL", "1-0 2 0:0:0"),
    ("JUSTIFY_INTERVAL(INTERVAL '40 30:0:0' DAY TO SECOND)", "INTERVAL", "0-1 11 6:0:0"),
    ("EXTRACT(MONTH FROM INTERVAL '1-2' YEAR TO MONTH)", "INT64", 2),
    # arrays and structs
    ("[1, 2, 3][OFFSET(1)]", "INT64", 2),
    ("[1, 2, 3][SAFE_ORDINAL(9)]", "INT64", None),
    ("ARRAY_LENGTH([1, NULL])", "INT64", 2),
    ("ARRAY_CONCAT([1], [2, 3])", "ARRAY<INT64>", [1, 2, 3]),
    ("ARRAY_TO_STRING(['a', NULL, 'c'], '-', '?')", "STRING", "a-?-c"),
    ("GENERATE_ARRAY(0, 10, 5)", "ARRAY<INT64>", [0, 5, 10]),
    ("ARRAY(SELECT x * 2 FROM UNNEST([3, 1]) AS x ORDER BY x)", "ARRAY<INT64>", [2, 6]),
    ("2 IN UNNEST([1, 2])", "BOOL", True),
    ("STRUCT(1 AS a, 'x' AS b).b", "STRING", "x"),
    # JSON
    ("JSON_VALUE('{\"a\": {\"b\": 1}}', '$.a.b')", "STRING", "1"),
    ("JSON_VALUE('{\"a\": {\"b\": 1}}', '$.a')", "STRING", None),
    ("JSON_QUERY(JSON '{\"a\": [1, 2]}', '$.a')", "JSON", "[1,2]"),
    ('(JSON \'{"a": {"b": 7}}\').a.b', "JSON", "7"),
    ("INT64(JSON '5')", "INT64", 5),
    ("LAX_INT64(JSON '\"12\"')", "INT64", 12),
    ("JSON_TYPE(JSON '[1]')", "STRING", "array"),
    ("TO_JSON_STRING(STRUCT(1 AS a, [2.0] AS b))", "STRING", '{"a":1,"b":[2]}'),
    ("JSON_SET(JSON '{\"a\": 1}', '$.b', 2)", "JSON", '{"a":1,"b":2}'),
    ("JSON_REMOVE(JSON '{\"a\": 1, \"b\": 2}', '$.a')", "JSON", '{"b":2}'),
    ('JSON_VALUE_ARRAY(\'["a", "b"]\')', "ARRAY<STRING>", ["a", "b"]),
    # ranges
    ("RANGE_CONTAINS(RANGE<DATE> '[2020-01-01, 2020-02-01)', DATE '2020-01-31')", "BOOL", True),
    ("RANGE_END(RANGE<DATE> '[2020-01-01, UNBOUNDED)')", "DATE", None),
    (
        "RANGE(DATE '2020-01-01', DATE '2020-01-02')",
        "RANGE",
        {"start": dt.date(2020, 1, 1), "end": dt.date(2020, 1, 2)},
    ),
    # networks
    ("NET.HOST('https://www.example.co.uk:80/x')", "STRING", "www.example.co.uk"),
    ("NET.REG_DOMAIN('https://www.example.co.uk/x')", "STRING", "example.co.uk"),
    ("NET.IP_TO_STRING(NET.IP_FROM_STRING('10.1.2.3'))", "STRING", "10.1.2.3"),
    # regular expressions
    (r"REGEXP_EXTRACT('foo@bar', r'^(\w+)@')", "STRING", "foo"),
    (r"REGEXP_EXTRACT('a(b', r'\(b')", "STRING", "(b"),
    ("REGEXP_EXTRACT('x(y', '[(]y')", "STRING", "(y"),
    ("REGEXP_EXTRACT('ab', '(?:a)b')", "STRING", "ab"),
    ("REGEXP_EXTRACT('ab', '(?P<n>a)b', 1, 1)", "STRING", "a"),
    ("REGEXP_EXTRACT('abc', 'x')", "STRING", None),
    ("REGEXP_SUBSTR('üaüb', 'ü(.)', 1, 2)", "STRING", "b"),
    ("REGEXP_INSTR('ab@cd@ef', '@[^@]*', 1, 2)", "INT64", 6),
    ("REGEXP_INSTR('ü@cd', '@(c)d', 1, 1, 1)", "INT64", 4),
    (r"REGEXP_EXTRACT_ALL('a1b2', r'[a-z](\d)')", "ARRAY<STRING>", ["1", "2"]),
    # names
    ("COALESCE(NULL, 'x')", "STRING", "x"),
    ("IF(1 > 2, 'a', 'b')", "STRING", "b"),
    ("CASE 2 WHEN 1 THEN 'a' WHEN 2 THEN 'b' END", "STRING", "b"),
]


@pytest.mark.parametrize(("expression", "kind", "value"), CASES, ids=[case[0] for case in CASES])
def test_an_expression_has_the_type_and_value_of_bigquery(
    engine: Engine, expression: str, kind: str, value: Any
) -> None:
    assert answer(engine, f"SELECT {expression} AS v") == (kind, value)


VALUES = "UNNEST([1, 2, 4, 4]) AS x"
AGGREGATES: list[tuple[str, str, Any]] = [
    (f"SUM(x) FROM {VALUES}", "INT64", 11),
    (f"ROUND(SUM(x) / COUNT(*), 2) FROM {VALUES}", "FLOAT64", 2.75),
    (f"AVG(CAST(x AS NUMERIC)) FROM {VALUES}", "NUMERIC", Decimal("2.75")),
    (f"COUNTIF(x > 1) FROM {VALUES}", "INT64", 3),
    (f"COUNT(DISTINCT x) FROM {VALUES}", "INT64", 3),
    (f"STRING_AGG(CAST(x AS STRING), '-' ORDER BY x DESC) FROM {VALUES}", "STRING", "4-4-2-1"),
    (f"ARRAY_AGG(DISTINCT x ORDER BY x LIMIT 2) FROM {VALUES}", "ARRAY<INT64>", [1, 2]),
    (f"LOGICAL_AND(x > 0) FROM {VALUES}", "BOOL", True),
    (f"APPROX_QUANTILES(x, 2) FROM {VALUES}", "ARRAY<INT64>", [1, 2, 4]),
    (f"ANY_VALUE(x HAVING MIN x) FROM {VALUES}", "INT64", 1),
    (f"MAX_BY(x, -x) FROM {VALUES}", "INT64", 1),
    (f"ROUND(STDDEV(x), 3) FROM {VALUES}", "FLOAT64", 1.5),
    (f"HLL_COUNT.EXTRACT(HLL_COUNT.INIT(x)) FROM {VALUES}", "INT64", 3),
]


@pytest.mark.parametrize(("text", "kind", "value"), AGGREGATES, ids=[case[0] for case in AGGREGATES])
def test_an_aggregate_has_the_type_and_value_of_bigquery(
    engine: Engine, text: str, kind: str, value: Any
) -> None:
    select, _, source = text.partition(" FROM ")
    assert answer(engine, f"SELECT {select} AS v FROM {source}") == (kind, value)


ERRORS: list[tuple[str, str]] = [
    ("SELECT 1 / 0", "division by zero: 1 / 0"),
    ("SELECT nothing", r"Unrecognized name: nothing at [1:8]"),
    ("SELECT NO_SUCH(1)", "Function not found: NO_SUCH at [1:8]"),
    ("SELECT CAST('x' AS DATE)", "Invalid date: 'x'"),
    ("SELECT 9223372036854775807 + 1", "Integer Overflow"),
    ("SELECT [1][OFFSET(3)]", "Array index 3 is out of bounds"),
    ("SELECT DATETIME(CURRENT_TIMESTAMP(), 'Mars/Base')", "Invalid time zone: Mars/Base"),
    ("SLECT 1", 'Syntax error: Unexpected identifier "SLECT" at [1:1]'),
    ("SELECT 'a", "Syntax error: Unclosed string literal at [1:"),
    ("SELECT @x", "Query parameter 'x' not found at [1:"),
    ("SELECT * FROM nowhere", "Not found: Table nowhere"),
    ("SELECT ERROR('stop')", "stop"),
]


@pytest.mark.parametrize(("query", "message"), ERRORS, ids=[case[0] for case in ERRORS])
def test_an_error_names_what_is_wrong_and_where(engine: Engine, query: str, message: str) -> None:
    with pytest.raises(QueryError) as raised:
        list(engine.run(parse(query)[0]).batches)
    assert message in str(raised.value)


# -- decimals -----------------------------------------------------------------------------------------------

BIG = [Decimal("0.123456789012345678"), Decimal("1.000000000000000001"), None]
DECIMALS = TableSchema((Column("id", "INT64"), Column("b", "BIGNUMERIC"), Column("n", "NUMERIC")))


class OneTable:
    """A lake with BIGNUMERIC and NUMERIC columns."""

    def table(self, parts: tuple[str, ...], as_of: dt.datetime | None) -> Source:
        rows: dict[str, Any] = {
            "id": [1, 2, 3],
            "b": pa.array(BIG, pa.decimal128(38, 18)),
            "n": pa.array([Decimal("1.5"), Decimal("0.000000001"), None], pa.decimal128(38, 9)),
        }
        return Source(pa.table(rows), DECIMALS.arrow)


@pytest.fixture(scope="module")
def lake() -> Any:
    with Engine(OneTable()) as engine:
        yield engine


EXACT: list[tuple[str, str, str]] = [
    ("SUM(b)", "BIGNUMERIC", "1.123456789012345679"),
    ("SUM(b) + 0.1", "BIGNUMERIC", "1.223456789012345679"),
    ("SUM(b) - SUM(n)", "BIGNUMERIC", "-0.376543211987654321"),
    ("SUM(b * 2)", "BIGNUMERIC", "2.246913578024691358"),
    ("SUM(COALESCE(b, 0) + 1)", "BIGNUMERIC", "4.123456789012345679"),
    ("SUM(COALESCE(b, 0.5))", "BIGNUMERIC", "1.623456789012345679"),
    ("SUM(IF(id = 1, n, b))", "BIGNUMERIC", "2.500000000000000001"),
    ("MAX(GREATEST(b, n))", "BIGNUMERIC", "1.5"),
    ("SUM(ROUND(b, 17))", "BIGNUMERIC", "1.12345678901234568"),
    ("SUM(CAST(b AS NUMERIC))", "BIGNUMERIC", "1.123456789"),
    ("AVG(IF(id = 1, b, NULL))", "BIGNUMERIC", "0.123456789012345678"),
    ("MAX(CAST(b AS STRING))", "STRING", "1.000000000000000001"),
    ("STRING_AGG(TO_JSON_STRING(b), ' ' ORDER BY id LIMIT 1)", "STRING", '"0.123456789012345678"'),
    ("COUNTIF(b = 0.123456789)", "INT64", "0"),
    ("COUNTIF(b > 1.0)", "INT64", "1"),
    ("COUNTIF(b = n)", "INT64", "0"),
    ("COUNTIF(b IN (SELECT n FROM t))", "INT64", "0"),
    ("COUNT(DISTINCT b)", "INT64", "2"),
    ("AVG(DISTINCT n)", "NUMERIC", "0.750000001"),
    ("SUM(n * n)", "NUMERIC", "2.25"),
]


@pytest.mark.parametrize(("expression", "kind", "expected"), EXACT)
def test_no_digit_of_a_bignumeric_is_lost(lake: Engine, expression: str, kind: str, expected: str) -> None:
    found, value = answer(lake, f"SELECT {expression} FROM t")
    assert (found, value) == (kind, expected if kind == "STRING" else Decimal(expected))


def test_rows_of_both_types_are_combined_without_loss(lake: Engine) -> None:
    query = "SELECT b AS x FROM t WHERE id = 1 UNION ALL SELECT n FROM t WHERE id = 2 ORDER BY x"
    result = lake.run(parse(query)[0])
    values = [value for batch in result.batches for value in batch.column(0).to_pylist()]
    assert values == [Decimal("0.000000001"), BIG[0]]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT b * b FROM t", "has more than 18 digits after the point"),
        ("SELECT b / 3 FROM t", "has more than 18 digits after the point"),
        ("SELECT AVG(b) FROM t", "has more than 18 digits after the point"),
        (
            "SELECT n * n, b + 1 FROM t",
            "has more than 9 digits after the point, which a query with NUMERIC and",
        ),
        ("SELECT b * 99999999999999999999 * 99 FROM t", "Invalid integer literal"),
        ("SELECT b * 9223372036854775807 * 100 FROM t", "has more than 20 digits before the point"),
        ("SELECT SQRT(b) FROM t", "cast them to FLOAT64"),
        ("SELECT SAFE_MULTIPLY(b, b) FROM t", "use operators"),
        ("SELECT SAFE.ABS(b * b) FROM t", "use operators"),
        ("SELECT id FROM t WHERE b = 0.12345678901234567", "write BIGNUMERIC '0.12345678901234567'"),
        ("SELECT SUM(b) FROM t HAVING SUM(b) / 2 > 1", "cannot divide in HAVING"),
        ("SELECT * FROM t UNION ALL SELECT * FROM t", "name the columns"),
        ("SELECT CAST('0.1234567890123456789' AS BIGNUMERIC)", "more digits than a query has"),
        ("SELECT SAFE_CAST('1e-19' AS BIGNUMERIC)", "more digits than a query has"),
        ("SELECT PARSE_BIGNUMERIC('123456789012345678901')", "more digits than a query has"),
    ],
)
def test_a_bignumeric_that_would_be_rounded_is_refused(lake: Engine, query: str, reason: str) -> None:
    with pytest.raises(QueryError, match=re.escape(reason)):
        list(lake.run(parse(query)[0]).batches)


def test_the_text_of_a_literal_is_no_name_of_a_macro(engine: Engine) -> None:
    assert answer(engine, "SELECT SAFE.SUBSTR('bq_abc', 1)") == ("STRING", "bq_abc")


def test_ignore_nulls_leaves_out_nulls(engine: Engine) -> None:
    numbers = "UNNEST([1, NULL, 3]) AS x"
    assert answer(engine, f"SELECT ARRAY_AGG(x IGNORE NULLS ORDER BY x) FROM {numbers}")[1] == [1, 3]
    query = (
        f"SELECT FIRST_VALUE(x IGNORE NULLS) OVER (ORDER BY x) AS v FROM {numbers} ORDER BY v DESC LIMIT 1"
    )
    assert answer(engine, query)[1] == 1


def test_a_whole_quotient_is_not_rounded_up(engine: Engine) -> None:
    query = "SELECT DIV(NUMERIC '29999999999999999.999999999', 10000000000000000)"
    assert answer(engine, query) == ("NUMERIC", Decimal(2))


def test_an_error_after_the_first_rows_is_one_of_the_query(engine: Engine) -> None:
    query = "SELECT IF(x > 200000, ERROR('too large'), x) FROM UNNEST(GENERATE_ARRAY(1, 300000)) AS x"
    with pytest.raises(QueryError, match=r"^too large$"):
        list(engine.run(parse(query)[0]).batches)


@pytest.mark.parametrize("name", ["v", "e", "q", "x", "a0", "i", "n"])
@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("SUM({0})", 7),
        ("ROUND(AVG({0}), 1)", 7.0),
        ("CONCAT(CAST(SUM({0}) AS STRING), '!')", "7!"),
        ("SUM({0}) OVER ()", 7),
        ("(SELECT SUM({0}) FROM UNNEST([STRUCT(7 AS {0})]))", 7),
        ("APPROX_TOP_COUNT({0}, 1)", [{"value": 7, "count": 1}]),
        ("APPROX_QUANTILES({0}, 1)", [7, 7]),
        ("HLL_COUNT.EXTRACT(HLL_COUNT.INIT({0}))", 1),
        ("TO_JSON_STRING(JSON_OBJECT(['k'], [{0}]))", '{"k":7}'),
        ("RANGE_BUCKET({0}, [0, 10, 20])", 1),
    ],
)
def test_a_column_may_have_any_name(engine: Engine, name: str, expression: str, expected: Any) -> None:
    query = f"SELECT {expression.format(name)} AS result FROM (SELECT 7 AS {name})"
    assert answer(engine, query)[1] == expected


def test_a_struct_of_the_parameters_name_is_not_taken_for_it(engine: Engine) -> None:
    query = "SELECT CONCAT(CAST(SUM(k) AS STRING), '!') FROM (SELECT 1 AS k, STRUCT(7 AS a0, 8 AS a1) AS v)"
    assert answer(engine, query)[1] == "1!"


@pytest.mark.parametrize(
    "expression",
    [
        "DATE_ADD(DATE '9999-12-31', INTERVAL 1 DAY)",
        "DATE '0001-01-01' - 1",
        "DATE_FROM_UNIX_DATE(999999999)",
        "DATETIME_ADD(DATETIME '9999-12-31 23:59:59', INTERVAL 1 SECOND)",
        "TIMESTAMP_SUB(TIMESTAMP '0001-01-01 00:00:00+00', INTERVAL 1 MICROSECOND)",
        "[DATE '9999-12-31' + 1]",
        "STRUCT([STRUCT(DATE '9999-12-31' + 1 AS day)] AS days)",
    ],
)
def test_a_time_that_no_client_can_read_is_refused(engine: Engine, expression: str) -> None:
    with pytest.raises(QueryError, match="out of range"):
        answer(engine, f"SELECT {expression}")


def test_the_first_and_the_last_time_are_answered(engine: Engine) -> None:
    query = "SELECT [DATE '0001-01-01', NULL, DATE '9999-12-31']"
    assert answer(engine, query)[1] == [dt.date(1, 1, 1), None, dt.date(9999, 12, 31)]
    query = "SELECT [TIMESTAMP '0001-01-01 00:00:00+00', TIMESTAMP '9999-12-31 23:59:59.999999+00']"
    first, last = answer(engine, query)[1]
    assert (first.year, last.year, last.microsecond) == (1, 9999, 999999)


def test_a_struct_as_the_row_of_a_result_has_its_members_as_columns(engine: Engine) -> None:
    result = engine.run(parse("SELECT AS STRUCT 1 AS a, 'x' AS b, 2")[0])
    assert [row for batch in result.batches for row in batch.to_pylist()] == [{"a": 1, "b": "x", "f0_": 2}]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT SUM(s.a) FROM (SELECT STRUCT(1 AS a, 'x' AS b) AS s UNION ALL SELECT STRUCT(2, 'y'))",
        "SELECT SUM(s.a) FROM (SELECT STRUCT(1 AS a) AS s UNION ALL SELECT STRUCT(1 AS b) UNION ALL "
        "SELECT STRUCT(1))",
        "SELECT SUM(x.a) FROM UNNEST([STRUCT(1 AS a, 2 AS b), (2, 4)]) x",
        "SELECT SUM(x.a) FROM UNNEST([STRUCT(1 AS a), STRUCT(2 AS b)]) x",
        "SELECT SUM(e.a) FROM (SELECT [STRUCT(1 AS a)] AS s UNION ALL SELECT [STRUCT(2)]) t, t.s AS e",
        "SELECT SUM(s.t.a) FROM (SELECT STRUCT(STRUCT(1 AS a) AS t) AS s UNION ALL SELECT STRUCT(STRUCT(2)))",
        "SELECT IF(FALSE, STRUCT(1 AS a), STRUCT(3)).a",
        "SELECT CASE 1 WHEN 2 THEN STRUCT(1 AS a) WHEN 1 THEN STRUCT(3 AS c) ELSE STRUCT(2) END.a",
        "SELECT COALESCE(NULL, IF(FALSE, STRUCT(1 AS a), NULL), STRUCT(3)).a",
        "WITH t AS (SELECT 3 AS b) SELECT IF(FALSE, STRUCT(1 AS a), STRUCT(b)).a FROM t",
    ],
)
def test_members_of_structs_of_one_type_have_the_names_of_the_first(engine: Any, query: str) -> None:
    assert answer(engine, query) == ("INT64", 3)


def test_the_name_of_a_member_is_no_sql(engine: Any) -> None:
    assert answer(engine, 'SELECT STRUCT(1 AS `a" := 2, "b`)') == ("STRUCT", {'a" := 2, "b': 1})
