# ruff: noqa: E501, statements are one line each
"""Statements that end too early, and functions with other arguments than they take: errors of the query."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest

from lode.ingest.catalog.catalog import Catalog
from lode.ingest.catalog.dataset import DatasetName
from lode.ingest.jobs.sql.routines import tokens
from lode.ingest.jobs.sql.script import Script
from lode.ingest.jobs.sql.session import Session
from lode.ingest.status import Code, Refused
from lode.sql.database import Limits
from lode.sql.errors import QueryError
from lode.sql.functions import FUNCTIONS
from lode.sql.parser import parse_expression
from lode.store.memory import MemoryStore
from support.ingest.engines import engine_on
from support.ingest.sql import host_of, run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lode.ingest.core.engine import Engine


_keys = count(1)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    store = MemoryStore()
    Catalog(store).create_dataset(DatasetName("p", "d"))
    engine = engine_on(store, tmp_path_factory.mktemp("broken") / "state")
    run(engine, "CREATE TABLE d.t (x INT64, s STRING)")
    yield engine
    engine.close()


@pytest.fixture
def session(engine: Engine) -> Iterator[Session]:
    with Session(host_of(engine), "p", None, key=("jobs", f"j{next(_keys)}"), limits=Limits()) as made:
        yield made


def complaint(session: Session, query: str) -> str:
    """What is wrong with a query; empty if nothing is. Any other error than those of a query is a fault."""
    try:
        outcome = Script(session, query, {}, []).run()
        for _ in outcome.batches or ():
            pass
    except QueryError as error:
        return str(error)
    except Refused as refused:
        if refused.code is Code.INTERNAL:
            raise
        return refused.message
    return ""


NAMED = {
    "INSERT INTO d.t": "Syntax error",
    "INSERT INTO d.t(x, x) VALUES (1, 2)": "more than once",
    "CREATE VIEW d.v AS": "Syntax error",
    "ASSERT": "Unexpected end of script",
    "EXECUTE IMMEDIATE": "Unexpected end of script",
    "SELECT FORMAT()": "No matching signature for function FORMAT with no arguments",
    "SELECT DATE_DIFF()": "No matching signature for function DATE_DIFF with no arguments",
    "SELECT NORMALIZE()": "No matching signature for function NORMALIZE with no arguments",
    "COPY d.t TO 'x'": "is not supported",
    "": "Unexpected end of script",
    ";": "Unexpected end of script",
}


@pytest.mark.parametrize("query", NAMED)
def test_a_statement_that_once_failed_inside_is_an_error_of_the_query(session: Session, query: str) -> None:
    assert NAMED[query] in complaint(session, query)


STATEMENTS = [
    "SELECT DISTINCT a.x, SUM(b.x) OVER (PARTITION BY a.s ORDER BY a.x ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) "
    "FROM d.t AS a LEFT JOIN d.t AS b ON a.x = b.x WHERE a.x > 1 QUALIFY ROW_NUMBER() OVER (ORDER BY a.x) = 1 "
    "ORDER BY a.x DESC NULLS LAST LIMIT 1 OFFSET 1",
    "WITH RECURSIVE q AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM q WHERE n < 3) SELECT * EXCEPT (n) FROM q",
    "SELECT s, COUNT(*) FROM d.t GROUP BY ROLLUP (s) HAVING COUNT(*) > 1",
    "SELECT CAST(x AS NUMERIC(10, 2)), [1, 2][OFFSET(0)], STRUCT<a INT64>(1), CASE WHEN x = 1 THEN 2 ELSE 3 END FROM d.t",
    "SELECT EXTRACT(WEEK(MONDAY) FROM DATE '2020-01-01'), INTERVAL 1 DAY, x BETWEEN 1 AND 2, s LIKE ANY ('a') FROM d.t",
    "SELECT ARRAY_AGG(DISTINCT x IGNORE NULLS ORDER BY x LIMIT 1), STRING_AGG(s, ',' ORDER BY s) FROM d.t",
    "SELECT * FROM d.t, UNNEST([1]) AS u WITH OFFSET AS o PIVOT (SUM(x) FOR s IN ('a' AS b))",
    "INSERT INTO d.t (x, s) VALUES (1, 'a'), (2, DEFAULT)",
    "INSERT d.t SELECT 1, 'a'",
    "UPDATE d.t SET x = 1, s = DEFAULT FROM d.t AS u WHERE t.x = u.x",
    "DELETE FROM d.t WHERE x = 1",
    "MERGE d.t AS t USING (SELECT 1 AS x) AS u ON t.x = u.x WHEN MATCHED AND u.x > 1 THEN UPDATE SET x = 2 "
    "WHEN NOT MATCHED BY TARGET THEN INSERT (x) VALUES (1) WHEN NOT MATCHED BY SOURCE THEN DELETE",
    "TRUNCATE TABLE d.t",
    "CREATE OR REPLACE TABLE d.n (a INT64 NOT NULL DEFAULT 1 OPTIONS (description = 'x'), b STRUCT<c ARRAY<STRING>>, "
    "PRIMARY KEY (a) NOT ENFORCED) PARTITION BY DATE_TRUNC(a, MONTH) CLUSTER BY b OPTIONS (labels = [('a', 'b')])",
    "CREATE TABLE IF NOT EXISTS d.n AS SELECT 1 AS a",
    "CREATE TEMP TABLE n (a INT64)",
    "CREATE TABLE d.n PARTITION BY RANGE_BUCKET(a, GENERATE_ARRAY(0, 10, 1)) AS SELECT 1 AS a",
    "CREATE TABLE d.n LIKE d.t",
    "CREATE TABLE d.n CLONE d.t",
    "CREATE SNAPSHOT TABLE d.n CLONE d.t FOR SYSTEM_TIME AS OF CURRENT_TIMESTAMP()",
    "CREATE OR REPLACE VIEW d.v (a) OPTIONS (description = 'x') AS SELECT 1 AS a",
    "CREATE MATERIALIZED VIEW d.v AS SELECT 1 AS a",
    "CREATE SCHEMA IF NOT EXISTS other OPTIONS (location = 'US')",
    "CREATE TEMP FUNCTION f(a INT64, b ANY TYPE) RETURNS INT64 AS (a + 1)",
    "CREATE OR REPLACE FUNCTION d.f(a INT64) AS (a)",
    "CREATE OR REPLACE PROCEDURE d.p(IN a INT64, OUT b STRING) BEGIN SET b = 'x'; END",
    "CALL d.p(1, y)",
    "ALTER TABLE IF EXISTS d.t ADD COLUMN IF NOT EXISTS z INT64, ALTER COLUMN s DROP NOT NULL",
    "ALTER TABLE d.t ALTER COLUMN s SET DEFAULT 'x'",
    "ALTER TABLE d.t SET OPTIONS (description = 'a')",
    "ALTER TABLE d.t DROP COLUMN IF EXISTS zz",
    "ALTER TABLE d.t RENAME TO u2",
    "ALTER TABLE d.t ADD PRIMARY KEY (x) NOT ENFORCED",
    "DROP TABLE IF EXISTS d.none",
    "DROP VIEW IF EXISTS d.none",
    "DROP SCHEMA IF EXISTS nothing CASCADE",
    "DROP FUNCTION IF EXISTS d.none",
    "EXPORT DATA OPTIONS (uri = 'gs://b/*.csv', format = 'CSV') AS SELECT 1 AS a",
    "DECLARE a, b INT64 DEFAULT 1; SET (a, b) = (1, 2); SELECT @@row_count, a",
    "IF TRUE THEN SELECT 1; ELSEIF FALSE THEN SELECT 2; ELSE SELECT 3; END IF",
    "CASE 1 WHEN 1 THEN SELECT 1; ELSE SELECT 2; END CASE",
    "BEGIN SELECT ERROR('x'); EXCEPTION WHEN ERROR THEN SELECT @@error.message; END",
    "FOR r IN (SELECT 1 AS v) DO SELECT r.v; END FOR",
    "WHILE FALSE DO BREAK; END WHILE",
    "LOOP LEAVE; END LOOP",
    "REPEAT SELECT 1; UNTIL TRUE END REPEAT",
    "RAISE USING MESSAGE = 'x'",
    "ASSERT 1 = 1 AS 'x'",
    "EXECUTE IMMEDIATE 'SELECT ? + @a' INTO b USING 1, 2 AS a",
    "COPY d.t TO 'x'",
    "LOAD DATA INTO d.t FROM FILES (format = 'CSV', uris = ['gs://b/x'])",
    "GRANT `roles/x` ON TABLE d.t TO 'user:a'",
    "EXPLAIN SELECT 1",
    "SHOW TABLES",
    "DESCRIBE d.t",
    "BEGIN TRANSACTION",
]


def broken(statement: str) -> set[str]:
    """A statement that begins or ends at any word, or lacks one."""
    ends = [each.end for each in tokens(statement)]
    starts = (0, *ends[:-1])
    return {
        *(statement[start:] for start in starts),
        *(statement[:end] for end in ends),
        *(statement[:start] + statement[end:] for start, end in zip(starts, ends, strict=True)),
    }


@pytest.mark.parametrize("statement", STATEMENTS, ids=range(len(STATEMENTS)))
def test_a_statement_without_some_of_its_words_is_an_error_of_the_query(
    session: Session, statement: str
) -> None:
    faults = {}
    for query in sorted(broken(statement)):
        try:
            complaint(session, query)
        except Exception as error:
            faults[query] = repr(error)
    assert not faults


KINDS = ("NULL", "'x'", "1", "[1]", "STRUCT(1 AS a)", "DATE '2020-01-01'", "a => 1", "*", "(SELECT 1)")


def test_a_function_with_other_arguments_than_it_takes_is_an_error_of_the_query(session: Session) -> None:
    for number, name in enumerate(sorted(FUNCTIONS)):
        # DuckDB counts the arguments of macros.
        for size in (0, 2) if isinstance(FUNCTIONS[name], str) else range(5):
            given = ", ".join(KINDS[(number + size + each) % len(KINDS)] for each in range(size))
            error = refusal(session, f"(SELECT {name}({given}))")
            assert "bq_" not in error, f"{name}({given}): {error}"
            assert "Macro" not in error, f"{name}({given}): {error}"


def refusal(session: Session, expression: str) -> str:
    """Why an expression is refused; empty if it is not."""
    try:
        session.sql.schema(parse_expression(expression))
    except QueryError as error:
        return str(error)
    return ""
