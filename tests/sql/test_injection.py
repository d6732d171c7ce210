"""No text of a query becomes SQL of DuckDB: injections that once worked, and what stops others."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lode.sql import Engine, QueryError, Source, parse
from lode.sql.database import Database, Limits
from lode.sql.native import NATIVE
from lode.sql.parser import parse_expression
from lode.sql.rewrite import SYSTEM

if TYPE_CHECKING:
    import datetime

ROWS = pa.table({"id": [1, 2, 3]})


class Lake:
    """The table ``t``, and views by their queries."""

    def __init__(self, **views: str) -> None:
        self._views = views

    def table(self, parts: tuple[str, ...], as_of: datetime.datetime | None) -> Source:
        if parts[-1] in self._views:
            return Source(None, ROWS.schema, query=self._views[parts[-1]])
        if parts != ("t",):
            raise QueryError(f"Not found: Table {'.'.join(parts)}", reason="notFound", location="")
        return Source(ROWS, ROWS.schema)


def run(query: str, lake: Lake | None = None) -> list[dict[str, Any]]:
    with Engine(lake or Lake()) as engine:
        return [row for batch in engine.run(parse(query)[0]).batches for row in batch.to_pylist()]


def answer(query: str, lake: Lake | None = None) -> str:
    """The columns of a query, or its error."""
    try:
        return str(list(run(query, lake)[0]))
    except QueryError as error:
        return f"error: {error}"


# Each of them once put text of the query into the SQL of DuckDB.
FAULTS = [
    'SELECT CAST(NULL AS STRUCT<`a" INTEGER)) AS z, version() AS w, CAST(NULL AS STRUCT("b` INT64>)',
    "SELECT MAKE_INTERVAL(`day(1)) AS a, version() AS w, (bq_interval_day` => 1)",
    "SELECT EXTRACT(`WEEK_monday(now()), version()) --` FROM DATE '2020-01-01')",
    "SELECT CAST(1 AS NUMERIC(`10, 2)) AS NUMERIC), version(), CAST(CAST(1 AS DECIMAL(10`, 2))",
]


@pytest.mark.parametrize("query", FAULTS)
def test_a_known_injection_is_refused_or_a_name(query: str) -> None:
    found = answer(query)
    assert "syntax error at" not in found
    assert found.startswith("error: ") or found == "['f0_']"


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT CAST(1 AS NUMERIC(30))", "P must be between 1 and 29"),
        ("SELECT CAST(1 AS NUMERIC(10, 10))", "S must be between 0 and 9"),
        ("SELECT CAST(1 AS NUMERIC(1, 2))", "P must be between 2 and 31"),
        ("SELECT CAST(1 AS NUMERIC(1, 2, 3))", "."),
        ("SELECT CAST(1 AS NUMERIC(x))", "."),
        ("SELECT CAST('a' AS STRING(x))", "."),
        ("SELECT EXTRACT(WEEK(x) FROM DATE '2020-01-01')", "."),
        ("SELECT EXTRACT(WEEK_MONDAY FROM DATE '2020-01-01')", "A valid date part name is required"),
        ("SELECT INTERVAL 1 DAYOFWEEK", "A valid date part name is required"),
        ("SELECT MAKE_INTERVAL(week => 1)", "No matching signature for function MAKE_INTERVAL"),
        ("SELECT APPROX_QUANTILES(id, 1000000000) FROM t", "integer literal from 1 to 10,000"),
        ("SELECT * FROM t TABLESAMPLE SYSTEM (1 PERCENT)", "not supported"),
        ("SELECT * FROM t JOIN t AS u ON TRUE FOR UPDATE", "."),
        ("SELECT 1 AS a LEFT UNION ALL BY NAME SELECT 2 AS a", "not supported"),
    ],
)
def test_a_parameter_that_no_list_has_is_refused(query: str, reason: str) -> None:
    with pytest.raises(QueryError, match=reason):
        run(query)


@pytest.mark.parametrize(
    "query",
    [
        "WITH a AS (SELECT sql FROM duckdb_views), duckdb_views AS (SELECT 1 AS sql) SELECT * FROM a",
        "WITH a AS (SELECT * FROM (WITH sqlite_master AS (SELECT 1) SELECT 1)) SELECT * FROM sqlite_master",
        "SELECT (WITH pg_tables AS (SELECT 1 AS x) SELECT 1), (SELECT COUNT(*) FROM pg_tables)",
        "WITH b AS (SELECT * FROM c), c AS (SELECT 1 AS x) SELECT * FROM b",
        "WITH duckdb_tables AS (SELECT * FROM duckdb_tables) SELECT * FROM duckdb_tables",
        "SELECT * FROM main.duckdb_views",
        "SELECT * FROM information_schema.tables",
        "SELECT * FROM `table$0`, t",
        "SELECT * FROM `rows$table$0`, t",
    ],
)
def test_a_name_is_found_where_it_is_declared_and_not_in_the_catalog_of_duckdb(query: str) -> None:
    with pytest.raises(QueryError, match="Not found"):
        run(query)


def test_a_query_of_with_may_have_the_name_of_a_table_of_duckdb_or_of_the_lake() -> None:
    query = "WITH duckdb_views AS (SELECT 1 AS sql), b AS (SELECT * FROM duckdb_views)"
    assert run(f"{query} SELECT duckdb_views.sql, b.sql AS s FROM duckdb_views, b") == [{"sql": 1, "s": 1}]
    assert run("WITH t AS (SELECT id + 1 AS id FROM t) SELECT SUM(id) AS s FROM t") == [{"s": 9}]
    recursive = "WITH RECURSIVE pg_x AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM pg_x WHERE n < 3)"
    assert run(f"{recursive} SELECT SUM(n) AS s FROM pg_x") == [{"s": 6}]


def test_every_table_of_duckdb_without_a_schema_has_a_reserved_name() -> None:
    database = Database(Limits())
    names = "SELECT view_name FROM duckdb_views() WHERE internal AND schema_name IN ('main', 'pg_catalog')"
    found = [name for (name,) in database._connection.execute(names).fetchall()]
    assert len(found) > 20
    assert all(name.startswith(SYSTEM) for name in found)
    database.close()


FORGED = [
    *FAULTS,
    "SELECT 1 AS id; COPY (SELECT 1) TO 'x'",
    "COPY t TO 'x'",
    "DROP TABLE t",
    "SELECT sql AS id FROM duckdb_views",
    'SELECT id AS `a"; DROP TABLE x; --` FROM t',
    ";",
]


@pytest.mark.parametrize("text", FORGED)
def test_the_stored_query_of_a_view_is_translated_again_when_it_runs(text: str) -> None:
    found = answer("SELECT COUNT(*) AS n FROM v", Lake(v=text))
    assert "syntax error at" not in found
    assert found.startswith("error: ") or found == "['n']"


@pytest.mark.parametrize(
    "text", ["1 FROM duckdb_views", "1; DROP TABLE t", "1, 2", "", "1 UNION ALL SELECT 2"]
)
def test_the_stored_default_of_a_column_is_one_expression(text: str) -> None:
    with pytest.raises(QueryError, match="Syntax error"):
        parse_expression(text)


COMMANDS = [
    "SELECT 1; SELECT 2",
    "CREATE TEMP VIEW \"table$9\" AS SELECT 1; COPY (SELECT 1) TO 'x'",
    'CREATE TEMP VIEW "table$9" AS SELECT * FROM duckdb_views',
    'CREATE TEMP VIEW "table$9" AS SELECT * FROM duckdb_views()',
    "CREATE TEMP VIEW \"table$9\" AS SELECT getenv('HOME')",
    'CREATE TEMP VIEW "other" AS SELECT 1',
    'CREATE VIEW "table$9" AS SELECT 1',
    'CREATE TEMP TABLE "local$9" AS SHOW TABLES',
    'DROP TABLE "local$0"; DROP VIEW "table$0"',
    'DROP VIEW "table$0"',
    "SET memory_limit = '1TB'",
    "COPY (SELECT 1) TO 'x'",
]


@pytest.mark.parametrize("written", COMMANDS)
def test_the_database_runs_one_statement_of_its_kind(written: str) -> None:
    database = Database(Limits())
    database.view("table$0", ROWS, '"id"')
    database.execute('CREATE TEMP TABLE "local$0" AS SELECT * FROM "table$0"')
    for ask in (database.execute, database.changed, database.schema, database.result):
        with pytest.raises(QueryError, match="cannot be translated"):
            ask(written)
    assert database.changed('DELETE FROM "local$0" WHERE "id" = 1') == {"": 1}
    for other in ('DELETE FROM "table$0"', 'INSERT INTO "local$1" SELECT 1', 'UPDATE "x" SET a = 1'):
        with pytest.raises(QueryError, match="cannot be translated"):
            database.changed(other)
    database.close()


def test_no_function_that_a_query_may_call_reads_files_or_settings() -> None:
    words = (
        "read",
        "glob",
        "setting",
        "getenv",
        "query",
        "duckdb",
        "pragma",
        "secret",
        "variable",
        "version",
    )
    assert not [name for name in NATIVE if any(word in name for word in words)]


def test_text_of_a_query_is_not_written_to_a_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        for query in (
            "SHOW \x1b[31mforged\nline",
            "CALL x.y(1) forged",
            "SELECT 1 FROM t PIVOT forged",
            "GRANT forged",
        ):
            with pytest.raises(QueryError):
                run(query)
    assert not [each for each in caplog.records if "forged" in each.getMessage()]


@pytest.mark.parametrize(
    "query",
    [
        "select sum(id) over (order by id rows between 1 preceding and 1 following) as s from t",
        "select sum(x) over (order by x Range Unbounded Preceding) as s from unnest([1, 2, 3]) x",
        "select a.id from t a left outer join t b on a.id = b.id order by a.id desc nulls last",
        "select id from t union all select id from t except distinct select 1",
        "select as struct id from t",
        "select date_add(date '2026-01-01', interval 1 day) as d, extract(year from date '2026-01-01') as y",
    ],
)
def test_keywords_may_have_any_case(query: str) -> None:
    assert run(query)
