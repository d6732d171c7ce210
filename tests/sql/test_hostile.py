"""Queries that try to leave their tables, or to use more than they may."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from sqlglot import exp

from lode.sql import Engine, LimitError, Limits, QueryError, Source, parse
from lode.sql.rewrite import name_columns

if TYPE_CHECKING:
    from pathlib import Path


class OneTable:
    """A lake with the table ``t``; it remembers the names it was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    def table(self, parts: tuple[str, ...], as_of: object) -> Source:
        self.asked.append(parts)
        if parts != ("t",):
            raise QueryError(f"Not found: Table {'.'.join(parts)}", reason="notFound", location="")
        rows = pa.table({"id": [1, 2, 3]})
        return Source(rows, rows.schema)


def run(query: str, **limits: Any) -> list[dict[str, Any]]:
    with Engine(OneTable(), Limits(**limits)) as engine:
        rows: list[dict[str, Any]] = []
        for tree in parse(query):
            rows = [row for batch in engine.run(tree).batches for row in batch.to_pylist()]
        return rows


FILES = [
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT read_blob('/etc/passwd')",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM `/etc/passwd`",
    "SELECT * FROM parquet_scan('/tmp/x.parquet')",
    "SELECT * FROM glob('/*')",
    "SELECT getenv('HOME')",
    "SELECT current_setting('memory_limit')",
    "SELECT * FROM duckdb_settings()",
    "SELECT * FROM sqlite_master",
    "SELECT * FROM pg_catalog.pg_tables",
    "COPY t TO '/tmp/x'",
    "ATTACH '/tmp/x.db'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "PRAGMA database_list",
    "SET memory_limit = '100GB'",
    "CALL pragma_version()",
    "EXPORT DATABASE '/tmp/x'",
    "SELECT bq_numeric_divide(1, 0)",
    "SELECT query('SELECT 1')",
    "SELECT * FROM query_table(['t'])",
]


@pytest.mark.parametrize("query", FILES)
def test_a_query_reaches_no_file_no_setting_and_no_function_of_duckdb(query: str) -> None:
    with pytest.raises(QueryError):
        run(query)


def test_the_database_itself_refuses_files_and_settings(tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    with Engine(OneTable()) as engine:
        for statement in (
            f"SELECT * FROM read_csv('{secret}')",
            f"COPY (SELECT 1) TO '{tmp_path / 'out'}'",
            f"ATTACH '{tmp_path / 'x.db'}'",
            "SET enable_external_access = true",
            "SET memory_limit = '1TB'",
            "INSTALL httpfs",
        ):
            with pytest.raises(QueryError):
                engine._execute(statement)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["secret.csv"]


def test_the_name_of_a_python_variable_is_no_table() -> None:
    hidden = pa.table({"x": [1]})
    assert hidden.num_rows == 1
    with pytest.raises(QueryError, match="Not found: Table hidden"):
        run("SELECT * FROM hidden")


@pytest.mark.parametrize(
    "name",
    ['t"; DROP TABLE t; --', "t' OR '1'='1", "../../state", "a.b.c.d", "t\\x00", "table$0", "rows$table$0"],
)
def test_a_name_is_never_part_of_the_sql(name: str) -> None:
    with pytest.raises(QueryError):
        run(f"SELECT * FROM `{name}`, t")


def test_text_is_never_part_of_the_sql() -> None:
    text = "'); DROP TABLE t; -- \x01 bq_x("
    assert run(f'SELECT "{text}" AS v, SUM(id) AS s FROM t') == [{"v": text, "s": 6}]


def test_a_query_that_needs_too_much_memory_ends_with_an_error() -> None:
    numbers = "UNNEST([1, 2, 3]) b, UNNEST(GENERATE_ARRAY(1, 1000000))"
    with pytest.raises(LimitError, match="Resources exceeded"):
        run(
            f"SELECT ARRAY_AGG(CONCAT('x', CAST(a AS STRING)) ORDER BY a DESC) FROM {numbers} a",
            memory_bytes=24 << 20,
        )


def test_a_query_that_takes_too_long_is_interrupted() -> None:
    rows = "UNNEST(GENERATE_ARRAY(1, 100000))"
    with pytest.raises(LimitError, match=r"time limit of 0\.2 seconds"):
        run(f"SELECT SUM(a * b) FROM {rows} a CROSS JOIN {rows} b CROSS JOIN {rows} c", seconds=0.2)


def test_a_result_is_bounded() -> None:
    with pytest.raises(LimitError, match="Response too large"):
        run("SELECT a FROM UNNEST(GENERATE_ARRAY(1, 1000000)) a", result_bytes=1 << 20)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT " + "(" * 5000 + "1" + ")" * 5000,
        "SELECT " + "-" * 1 + "-1 " * 0 + " + ".join(["1"] * 20000),
        "SELECT " + "ABS(" * 3000 + "1" + ")" * 3000,
        "SELECT * FROM " + "(SELECT * FROM " * 2000 + "t" + ")" * 2000,
        "SELECT " + "[" * 3000 + "]" * 3000,
        "SELECT " + "CASE WHEN TRUE THEN " * 2000 + "1" + " END" * 2000,
        "SELECT 1 " + "UNION ALL SELECT 1 " * 5000,
        "SELECT '" + "a" * 2_000_000 + "'",
    ],
    ids=["parentheses", "sum", "calls", "subqueries", "arrays", "cases", "unions", "long"],
)
def test_a_query_that_is_nested_too_deep_or_too_long_is_refused(query: str) -> None:
    with pytest.raises(QueryError, match=r"nested too deep|too large|Syntax error"):
        run(query)


def test_a_select_with_too_many_columns_is_refused() -> None:
    with pytest.raises(QueryError, match="Too many columns: a SELECT has 10,001, the most is 10,000"):
        parse(f"SELECT * FROM (SELECT {', '.join('1' * 10_001)})")


def test_unnamed_columns_are_named_in_linear_time() -> None:
    (tree,) = parse(f"SELECT {', '.join(['1'] * 9_999)}, id FROM t")
    name_columns(tree)
    assert [each.alias for each in tree.expressions] == [*(f"f{number}_" for number in range(9_999)), "id"]


@pytest.mark.parametrize(
    "query",
    [
        # Each function calls the one before it twice.
        "SELECT f30(1)",
        # The argument is there twice in every body.
        f"SELECT {'f0(' * 30}1{')' * 30}",
    ],
)
def test_functions_that_grow_without_measure_are_refused(query: str) -> None:
    with Engine(OneTable()) as engine:
        for number in range(31):
            body = f"f{number - 1}(x) + f{number - 1}(x)" if number else "x + x"
            (made,) = parse(f"CREATE TEMP FUNCTION f{number}(x INT64) AS ({body})")
            assert isinstance(made, exp.Create)
            engine.functions[f"f{number}"] = made
        with pytest.raises(QueryError, match="more than 50,000 expressions"):
            engine.run(parse(query)[0])
        assert engine.value(parse("SELECT f3(f2(1))")[0].expressions[0])[1] == 128


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (" + ".join(["id"] * 100), 100),
        ("ABS(" * 30 + "id" + ")" * 30, 1),
        ("(id + (" * 20 + "id" + "))" * 20, 21),
        (" + ".join(["SUM(id)"] * 50), 300),
        ("CONCAT('a'" + ", 'b'" * 60 + ")", "a" + "b" * 60),
    ],
)
def test_operators_in_a_row_are_planned_in_linear_time(expression: str, expected: object) -> None:
    # Planned twice at each level, this would take years.
    assert run(f"SELECT {expression} AS v FROM t LIMIT 1") == [{"v": expected}]
    if "SUM" not in expression:
        assert len(run(f"SELECT {expression} AS v, COUNT(*) AS n FROM t GROUP BY v ORDER BY v")) in (1, 3)


@pytest.mark.parametrize("literal", ["1" * 5_000, "9223372036854775809"])
def test_a_number_that_no_type_has_is_refused(literal: str) -> None:
    with pytest.raises(QueryError, match="Invalid integer literal"):
        run(f"SELECT {literal}")
    assert run("SELECT -9223372036854775808 AS n") == [{"n": -(2**63)}]


@pytest.mark.parametrize("name", ["DATE", "TIMESTAMP", "STRUCT", "NUMERIC"])
def test_calls_inside_of_each_other_are_parsed_once(name: str) -> None:
    # Parsed twice at each level, this would take years.
    (tree,) = parse(f"SELECT {f'{name}(' * 30}'2024-01-01'{')' * 30}")
    assert tree.sql("bigquery").count(f"{name}(") == 30


@pytest.mark.parametrize(
    "expression",
    [
        "REPEAT('x', 2000000000)",
        "LPAD('x', 2000000000, 'y')",
        "RPAD('x', 2000000000)",
        "FORMAT('%2000000000d', 1)",
        "FORMAT('%*d', 2000000000, 1)",
        "FORMAT('%.2000000000f', 1.5)",
        "GENERATE_ARRAY(1, 1000000000)",
        "GENERATE_ARRAY(-9223372036854775808, 9223372036854775807)",
        "GENERATE_ARRAY(1, 1e12, 0.5)",
        "GENERATE_ARRAY(id, id * 1000000000)",
        "GENERATE_TIMESTAMP_ARRAY(TIMESTAMP '2020-01-01', TIMESTAMP '2030-01-01', INTERVAL 1 MICROSECOND)",
        "REPLACE(REPEAT('a', 1000000), 'a', REPEAT('b', 1000000))",
        "REGEXP_REPLACE(REPEAT('a', 1000000), 'a', REPEAT('b', 1000000))",
    ],
)
def test_one_value_does_not_use_up_the_memory(expression: str) -> None:
    with pytest.raises(QueryError, match=r"max allowed output size|too many elements"):
        run(f"SELECT {expression} AS v FROM t")


@pytest.mark.parametrize(
    "form", ["REGEXP_EXTRACT({})", "REGEXP_EXTRACT({}, 1, 1)", "REGEXP_SUBSTR({}, 1, 2)"]
)
def test_a_regular_expression_takes_linear_time(form: str) -> None:
    call = form.format(r"REPEAT('a', 5000) || '!', r'^(a+)+$'")
    assert run(
        f"SELECT {call} AS v, REGEXP_INSTR(REPEAT('a', 5000) || '!', r'^(a+)+$') AS p FROM t LIMIT 1"
    ) == [{"v": None, "p": 0}]
    assert run(r"SELECT ARRAY_LENGTH(REGEXP_EXTRACT_ALL(REPEAT('a', 5000) || '!', r'(a*)*b')) AS n") == [
        {"n": 0}
    ]


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("PARSE_NUMERIC('1e999999999')", "Invalid NUMERIC value"),
        ("PARSE_BIGNUMERIC('1e999999999')", "Invalid NUMERIC value"),
        ("CAST('1e999999999' AS BIGNUMERIC)", "more digits than a query has"),
        ("CAST('1e-999999999' AS BIGNUMERIC)", "more digits than a query has"),
        ("CAST(REPEAT('9', 1000000) AS BIGNUMERIC)", "more digits than a query has"),
        ("EDIT_DISTANCE(REPEAT('a', 1000000), REPEAT('b', 1000000))", "EDIT_DISTANCE are too long"),
        ("FORMAT_DATE(REPEAT('%A', 500000), DATE '2020-01-01')", "A format has at most 10,000 characters"),
        ("PARSE_JSON(REPEAT('[', 100000) || REPEAT(']', 100000))", "nested too deep"),
        ("FORMAT('%s %s', 'a')", "The argument of a function is refused"),
    ],
)
def test_a_value_that_would_take_hours_or_all_memory_is_refused(expression: str, reason: str) -> None:
    with pytest.raises(QueryError, match=reason):
        run(f"SELECT {expression} AS v")


def test_numbers_are_rounded_to_any_number_of_digits() -> None:
    query = "SELECT ROUND(NUMERIC '1.5', -1000000000) AS a, ROUND(1.5, -1000000000) AS b"
    assert run(f"{query}, PARSE_NUMERIC('1e-99') AS c") == [{"a": 0, "b": 0, "c": 0}]
    assert run("SELECT ROUND(NUMERIC '1.5', 1000000000) AS a, EDIT_DISTANCE('ab', 'b') AS b") == [
        {"a": Decimal("1.5"), "b": 1}
    ]
