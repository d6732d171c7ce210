"""A query is translated in time and size that grow with its text, however its parts are nested."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from sqlglot import parser as sqlglot_parser

from lode.sql import Engine, QueryError, Source, parse
from lode.sql.dialect import Generator
from lode.sql.functions import FUNCTIONS

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterator


class AnyTable:
    def table(self, parts: tuple[str, ...], as_of: datetime.datetime | None) -> Source:
        rows = pa.table({"id": [1, 2, 3]})
        return Source(rows, rows.schema)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine(AnyTable()) as made:
        yield made


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Counts the tokens that the parser reads and the nodes that the generator writes."""
    found = {"read": 0, "written": 0}
    advance, sql = sqlglot_parser.Parser._advance, Generator.sql

    def counted_advance(self: Any, times: int = 1) -> None:
        found["read"] += abs(times)
        advance(self, times)

    def counted_sql(self: Any, *args: Any, **options: Any) -> str:
        found["written"] += 1
        return str(sql(self, *args, **options))

    monkeypatch.setattr(sqlglot_parser.Parser, "_advance", counted_advance)
    monkeypatch.setattr(Generator, "sql", counted_sql)
    return found


def nested(form: str, levels: int, start: str) -> str:
    made = start
    for _ in range(levels):
        made = form.replace("{}", made, 1)
    return made


def growth(engine: Engine, steps: dict[str, int], query: str) -> tuple[int, int, int]:
    """What a query needs: tokens read, nodes written, characters written. Its text if it is refused."""
    steps.update(read=0, written=0)
    size = 0
    with suppress(QueryError):
        size = len(engine.write(parse(query)[0]))
    return steps["read"], steps["written"], size


def check(engine: Engine, steps: dict[str, int], form: str, start: str, query: str) -> None:
    few, many = (growth(engine, steps, query.format(nested(form, levels, start))) for levels in (8, 16))
    for name, one, other in zip(("tokens read", "nodes written", "characters"), few, many, strict=True):
        # Twice as many levels; some macros get a lambda from the eighth on.
        assert other <= 2.4 * one + 1_500, f"{form}: {name} grow from {one} to {other}"


EXPRESSIONS = [
    *(
        "({})",
        "-({})",
        "- {}",
        "NOT {}",
        "NOT ({})",
        "~ {}",
        "1 + ({})",
        "({}) * 2.5",
        "({}) / 2",
        "'a' || ({})",
    ),
    *("({}) = 1", "1 IN ({})", "({}) IN (1, 2)", "1 IN UNNEST([{}])", "({}) BETWEEN 1 AND 2", "({}) IS NULL"),
    *(
        "({}) LIKE 'a'",
        "({}) LIKE ANY ('a', 'b', 'c')",
        "({}) IS DISTINCT FROM 1",
        "({}) AND TRUE",
        "({}) OR TRUE",
    ),
    *(
        "CAST({} AS INT64)",
        "SAFE_CAST({} AS NUMERIC(10, 2))",
        "CAST({} AS STRUCT<a INT64>)",
        "STRUCT({} AS a)",
    ),
    *("STRUCT<a INT64>({})", "STRUCT({} AS a).a", "({}, 1)", "[{}]", "ARRAY<INT64>[{}]", "[{}][OFFSET(0)]"),
    *(
        "[1][SAFE_OFFSET({})]",
        "ARRAY(SELECT {})",
        "(SELECT {})",
        "EXISTS(SELECT {})",
        "(SELECT AS STRUCT {} AS a)",
    ),
    *(
        "(WITH a AS (SELECT {} AS x) SELECT x FROM a)",
        "CASE WHEN {} THEN 1 ELSE 2 END",
        "CASE {} WHEN 1 THEN 2 END",
    ),
    *(
        "IF({}, 1, 2)",
        "IF(TRUE, {}, 1)",
        "IFNULL({}, 1)",
        "COALESCE({}, 1)",
        "NULLIF({}, 1)",
        "INTERVAL ({}) DAY",
    ),
    *(
        "EXTRACT(DAY FROM {})",
        "EXTRACT(HOUR FROM {} AT TIME ZONE 'UTC')",
        "SAFE.ABS({})",
        "SAFE.SUBSTR({}, 1)",
    ),
    *(
        "NET.HOST({})",
        "HLL_COUNT.INIT({})",
        "d.f({})",
        "p.d.f({})",
        "ML.X({})",
        "AI.X({})",
        "GREATEST({}, 1, 2)",
    ),
    *(
        "LEAST(1, {})",
        "FORMAT('%T %s', {}, 1)",
        "ARRAY_AGG({} IGNORE NULLS ORDER BY 1 LIMIT 2)",
        "COUNTIF(DISTINCT {})",
    ),
    *(
        "STRING_AGG({}, ',' LIMIT 1)",
        "STRING_AGG(DISTINCT {})",
        "ARRAY_CONCAT_AGG({})",
        "AVG({})",
        "AVG(DISTINCT {})",
    ),
    *(
        "SUM({})",
        "APPROX_QUANTILES({}, 4)",
        "APPROX_TOP_COUNT({}, 2)",
        "ANY_VALUE({} HAVING MAX 1)",
        "COUNT(DISTINCT {})",
    ),
    *(
        "SUM({}) OVER (PARTITION BY 1)",
        "ARRAY_AGG({} IGNORE NULLS) OVER ()",
        "AVG({}) OVER ()",
        "LAG({}) OVER (ORDER BY 1)",
    ),
    *(
        "ROW_NUMBER() OVER (ORDER BY {})",
        "(SELECT AVG({}) OVER ())",
        "(SELECT SUM({}) OVER ())",
        "(SELECT AVG({}))",
    ),
    *(
        "TIMESTAMP_TRUNC({}, DAY, 'UTC')",
        "TIMESTAMP_TRUNC(CURRENT_TIMESTAMP(), WEEK, {})",
        "FORMAT_TIMESTAMP('%F', {}, 'UTC')",
    ),
    *(
        "FORMAT_TIMESTAMP('%F', CURRENT_TIMESTAMP(), {})",
        "JSON_SET({}, '$.a', 1, '$.b', 2)",
        "JSON_REMOVE({}, '$.a', '$.b')",
    ),
    *("MAKE_INTERVAL(day => {})", "MAKE_INTERVAL({})", "PARSE_JSON({})", "x -> {}", "f(x -> {})"),
    "(SELECT COUNT(*) FROM UNNEST([{}]) AS u WITH OFFSET)",
    "(SELECT COUNT(*) FROM UNNEST([STRUCT({} AS a)]) WITH OFFSET AS o)",
]
TABLES = [
    *("(SELECT * FROM {})", "({} JOIN t ON TRUE)", "(t JOIN {} ON TRUE)", "((SELECT * FROM {}))", "({})"),
    *("(SELECT 1 UNION ALL SELECT * FROM {})", "UNNEST(ARRAY(SELECT 1 FROM {})) WITH OFFSET", "(t, {})"),
    *("(WITH a AS (SELECT * FROM {}) SELECT * FROM a)", "(SELECT * FROM t WHERE id IN (SELECT id FROM {}))"),
]
TYPES = ["ARRAY<{}>", "STRUCT<a {}>", "STRUCT<{}>", "STRUCT<a INT64, b {}>"]


@pytest.mark.parametrize("form", EXPRESSIONS)
def test_a_nested_expression_is_translated_in_linear_steps(
    engine: Engine, steps: dict[str, int], form: str
) -> None:
    check(engine, steps, form, "1", "SELECT {} AS v FROM t")
    check(engine, steps, form, "t t t", "SELECT {}")  # which does not parse


@pytest.mark.parametrize("form", TABLES)
def test_a_nested_table_is_translated_in_linear_steps(
    engine: Engine, steps: dict[str, int], form: str
) -> None:
    check(engine, steps, form, "t", "SELECT * FROM {}")
    check(engine, steps, form, "t t t", "SELECT * FROM {}")


@pytest.mark.parametrize("form", TYPES)
def test_a_nested_type_is_translated_in_linear_steps(
    engine: Engine, steps: dict[str, int], form: str
) -> None:
    check(engine, steps, form, "INT64", "SELECT CAST(NULL AS {}) AS v")


def test_every_function_is_translated_in_linear_steps(engine: Engine, steps: dict[str, int]) -> None:
    for name in sorted(FUNCTIONS):
        for form in (f"{name}({{}})", f"{name}('%F', {{}}, 'UTC')"):
            check(engine, steps, form, "1", "SELECT {} AS v FROM t")


@pytest.mark.parametrize(
    "expression",
    [
        "GREATEST({}, id)",
        "LEAST(id, {}, 2)",
        "IF({} > 1, 1, 2)",
        "CAST(CAST({} AS STRING) AS INT64)",
        "ABS(({}) / 2)",
        "ARRAY_LENGTH([{}])",
        "(SELECT MAX({}) FROM t)",
        "LENGTH(FORMAT('%T', {}))",
        "UNIX_SECONDS(TIMESTAMP_TRUNC(TIMESTAMP '2020-01-01', DAY, CONCAT('UT', SUBSTR('C', {}))))",
        "(SELECT COUNT(*) FROM UNNEST([{}]) AS u WITH OFFSET)",
    ],
)
def test_a_nested_expression_is_bound_in_linear_steps(expression: str) -> None:
    # Bound several times at each level, this would not end.
    with Engine(AnyTable()) as engine:
        levels = 14 if expression.count("(") < 4 else 8
        tree = parse(f"SELECT {nested(expression, levels, 'id')} AS v FROM t")[0]
        assert engine.schema(tree).names == ["v"]


def test_averages_of_averages_that_would_be_bound_too_often_are_refused() -> None:
    with Engine(AnyTable()) as engine, pytest.raises(QueryError, match="nested too deep"):
        engine.write(parse(f"SELECT {nested('(SELECT AVG({}) FROM t)', 24, 'id')}")[0])


@pytest.mark.parametrize(
    "query",
    [
        "SELECT {}".format(", ".join(f"id AS c{number}" for number in range(3_000)))
        + " FROM t ORDER BY c1, c2",
        "SELECT id FROM t WHERE id IN ({})".format(", ".join(map(str, range(8_000)))),
        "SELECT [{}] AS v".format(", ".join(["1"] * 8_000)),
        "WITH {} SELECT * FROM c0".format(", ".join(f"c{number} AS (SELECT 1)" for number in range(500))),
    ],
    ids=["columns", "numbers", "elements", "queries"],
)
def test_a_wide_query_is_translated_in_linear_steps(
    engine: Engine, steps: dict[str, int], query: str
) -> None:
    read, written, size = growth(engine, steps, query)
    tokens = len(query) // 4
    assert 0 < read < 40 * tokens
    assert 0 < written < 20 * tokens
    assert 0 < size < 20 * len(query)
