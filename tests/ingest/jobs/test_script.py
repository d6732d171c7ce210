"""Scripts: variables, control flow, errors, and what is refused by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from sqlglot import exp

from lode.ingest.catalog.catalog import Catalog
from lode.ingest.catalog.dataset import DatasetName
from lode.ingest.jobs.sql.script import Script
from lode.ingest.jobs.sql.session import Session
from lode.sql.database import Limits
from lode.sql.errors import LimitError, QueryError, UnsupportedError
from lode.store.memory import MemoryStore
from support.ingest.engines import engine_on
from support.ingest.sql import host_of, run, select

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lode.ingest.core.engine import Engine


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    store = MemoryStore()
    Catalog(store).create_dataset(DatasetName("p", "d"))
    engine = engine_on(store, tmp_path_factory.mktemp("script") / "state")
    run(engine, "CREATE TABLE d.t (n INT64)")
    yield engine
    engine.close()


ANSWERS: dict[str, list[dict[str, Any]]] = {
    "DECLARE x INT64 DEFAULT 1; DECLARE a, b STRING; SET x = x + 1; SET (a, b) = ('p', 'q'); "
    "SELECT x AS x, a AS a, b AS b": [{"x": 2, "a": "p", "b": "q"}],
    "DECLARE x DEFAULT CASE WHEN TRUE THEN 4 ELSE 5 END; SELECT x AS r": [{"r": 4}],
    "DECLARE x INT64 DEFAULT 2; IF x = 1 THEN SELECT 'one' AS r; ELSEIF x = 2 THEN SELECT 'two' AS r; "
    "ELSE SELECT 'more' AS r; END IF": [{"r": "two"}],
    "DECLARE x INT64 DEFAULT 0; WHILE x < 5 DO SET x = x + 1; IF x = 3 THEN BREAK; END IF; END WHILE; "
    "SELECT x AS r": [{"r": 3}],
    "DECLARE x INT64 DEFAULT 0; LOOP SET x = x + 1; IF x < 4 THEN CONTINUE; END IF; LEAVE; END LOOP; "
    "SELECT x AS r": [{"r": 4}],
    "DECLARE x INT64 DEFAULT 0; REPEAT SET x = x + 2; UNTIL x >= 5 END REPEAT; SELECT x AS r": [{"r": 6}],
    "DECLARE x INT64 DEFAULT 0; FOR row IN (SELECT v FROM UNNEST([1, 2, 3]) AS v) DO SET x = x + row.v; "
    "END FOR; SELECT x AS r": [{"r": 6}],
    "DECLARE x INT64 DEFAULT 1; BEGIN DECLARE y INT64 DEFAULT 2; SET x = x + y; END; SELECT x AS r": [
        {"r": 3}
    ],
    "SELECT 1 AS r; RETURN; SELECT 2 AS r": [{"r": 1}],
    "BEGIN RAISE USING MESSAGE = 'mine'; EXCEPTION WHEN ERROR THEN SELECT @@error.message AS r; END": [
        {"r": "mine"}
    ],
    "ASSERT 1 < 2 AS 'order'; SELECT 1 AS r": [{"r": 1}],
    "IF EXISTS (SELECT 1) THEN SELECT 'yes' AS r; END IF": [{"r": "yes"}],
    "IF NOT EXISTS (SELECT 1) THEN SELECT 'no' AS r; ELSE SELECT 'yes' AS r; END IF": [{"r": "yes"}],
    "DECLARE x INT64 DEFAULT 2; CASE x WHEN 1 THEN SELECT 'one' AS r; WHEN 2 THEN SELECT CASE WHEN TRUE THEN "
    "'two' END AS r; ELSE SELECT 'more' AS r; END CASE": [{"r": "two"}],
    "CASE WHEN FALSE THEN SELECT 1 AS r; ELSE SELECT 2 AS r; END CASE; ": [{"r": 2}],
    "SELECT 0 AS r; CASE WHEN FALSE THEN SELECT 1 AS r; END CASE": [{"r": 0}],
    "EXECUTE IMMEDIATE 'SELECT 1 AS r'": [{"r": 1}],
    "DECLARE t STRING DEFAULT 'b'; EXECUTE IMMEDIATE FORMAT('SELECT 1 AS a, 2 AS %s', t)": [{"a": 1, "b": 2}],
    "DECLARE y INT64 DEFAULT 3; EXECUTE IMMEDIATE 'SELECT ? + ? AS r' USING y, y + 1": [{"r": 7}],
    "EXECUTE IMMEDIATE 'SELECT @b || @a || @b AS r' USING 'x' AS a, 'y' AS b": [{"r": "yxy"}],
    "DECLARE a INT64; DECLARE b STRING; EXECUTE IMMEDIATE 'SELECT ? * 2, \"s\"' INTO a, b USING 4; "
    "SELECT a AS a, b AS b": [{"a": 8, "b": "s"}],
    "DECLARE a INT64 DEFAULT 1; EXECUTE IMMEDIATE 'SELECT 1 FROM UNNEST([]) AS x' INTO a; SELECT a AS r": [
        {"r": None}
    ],
    "EXECUTE IMMEDIATE 'CREATE TEMP TABLE q AS SELECT 5 AS a'; EXECUTE IMMEDIATE 'SELECT a AS r FROM q'": [
        {"r": 5}
    ],
    "CREATE TEMP TABLE q AS SELECT 1 AS a; INSERT INTO q VALUES (2); UPDATE q SET a = a + 1 WHERE TRUE; "
    "DELETE FROM q WHERE a = 2; SELECT a AS r FROM q": [{"r": 3}],
    "CREATE TEMP FUNCTION f(x INT64) AS (x * 2); SELECT f(4) AS r": [{"r": 8}],
    "DROP TABLE IF EXISTS d.missing; SELECT 1 AS r": [{"r": 1}],
}


@pytest.mark.parametrize("script", ANSWERS)
def test_a_script_answers_with_its_last_query(engine: Engine, script: str) -> None:
    assert select(engine, script) == ANSWERS[script]


def test_statements_of_a_script_see_what_earlier_ones_changed(engine: Engine) -> None:
    script = """DECLARE x INT64 DEFAULT 5; INSERT INTO d.t VALUES (x), (x + 1), (1);
        UPDATE d.t SET n = n * x WHERE n > x; DELETE FROM d.t WHERE n = 1;
        SELECT SUM(n) AS r, @@row_count AS c FROM d.t"""
    assert select(engine, script) == [{"r": 35, "c": 1}]
    # A column hides a variable of its name.
    assert select(engine, "DECLARE n INT64 DEFAULT 100; SELECT MAX(n) AS r FROM d.t") == [{"r": 30}]


@pytest.mark.parametrize(
    ("script", "construct"),
    [
        ("EXECUTE IMMEDIATE 'EXECUTE IMMEDIATE 1'", "EXECUTE IMMEDIATE"),
        ("EXECUTE IMMEDIATE 'BEGIN TRANSACTION'", "BEGIN TRANSACTION"),
        ("BEGIN TRANSACTION; SELECT 1; COMMIT TRANSACTION", "BEGIN TRANSACTION"),
        ("BEGIN; SELECT 1; COMMIT", "BEGIN TRANSACTION"),
        ("SELECT 1; ROLLBACK", "ROLLBACK TRANSACTION"),
        ("outer_loop: LOOP BREAK outer_loop; END LOOP", "A label"),
        ("SELECT @@time_zone", "@@time_zone"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(engine: Engine, script: str, construct: str) -> None:
    with pytest.raises(UnsupportedError, match=f"^{construct}.* is not supported") as raised:
        run(engine, script)
    assert raised.value.reason == "notImplemented"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("RAISE USING MESSAGE = CONCAT('my', ' own')", "^my own$"),
        ("ASSERT 2 < 1 AS 'order'", "^order$"),
        ("SET y = 1", "Undeclared variable: y"),
        ("BEGIN DECLARE y INT64; END; SELECT y", "Unrecognized name: y"),
        ("BREAK", "need a loop"),
        ("IF TRUE THEN SELECT 1", "has no END"),
        ("EXECUTE IMMEDIATE CAST(NULL AS STRING)", "text of one statement"),
        ("EXECUTE IMMEDIATE 'SELECT 1; SELECT 2'", "text of one statement"),
        ("DECLARE a INT64; EXECUTE IMMEDIATE 'SELECT a'", "Unrecognized name: a"),
        (
            "DECLARE a INT64; EXECUTE IMMEDIATE 'SELECT 1, 2' INTO a",
            "the query has 2 columns",
        ),
        ("DECLARE a INT64; EXECUTE IMMEDIATE 'SELECT x FROM UNNEST([1, 2]) x' INTO a", "at most one row"),
        ("EXECUTE IMMEDIATE 'SELECT ?'", "number 1 is not defined"),
        ("EXECUTE IMMEDIATE 'SELECT 1' INTO nothing", "Undeclared variable: nothing"),
    ],
)
def test_an_error_ends_a_script(engine: Engine, script: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        run(engine, script)


def test_a_loop_without_an_end_is_ended(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lode.ingest.jobs.sql.script.MAX_STATEMENTS", 20)
    with pytest.raises(QueryError, match="more than 20 times"):
        run(engine, "DECLARE x INT64 DEFAULT 0; LOOP SET x = x + 1; END LOOP")


@pytest.mark.parametrize(
    "statement",
    [
        "BEGIN TRANSACTION",
        "COMMIT",
        "GRANT `roles/x` ON SCHEMA d TO 'user:a'",
        "SELEC 1",
        "CREATE MODEL d.m AS SELECT 1",
        "CREATE FUNCTION d.f() RETURNS STRING LANGUAGE js AS 'x'",
        "ALTER TABLE d.once ALTER COLUMN n SET DATA TYPE FLOAT64",
        "SHOW TABLES",
        "SELECT n FROM d.once TABLESAMPLE SYSTEM (10 PERCENT)",
        "IF TRUE THEN SELECT 1; ELSE BEGIN ROLLBACK; END; END IF",
        "WHILE FALSE DO CREATE MODEL d.m AS SELECT 1; END WHILE",
        "here: LOOP BREAK here; END LOOP",
    ],
)
def test_a_script_with_a_statement_that_cannot_run_changes_nothing(engine: Engine, statement: str) -> None:
    run(engine, "CREATE OR REPLACE TABLE d.once (n INT64)")
    for dry in (True, False):
        with pytest.raises(QueryError):
            run(engine, f"INSERT INTO d.once VALUES (1); {statement}", dry=dry)
    assert select(engine, "SELECT n FROM d.once") == []


def test_positional_parameters_count_through_a_script(engine: Engine) -> None:
    script = "DECLARE x INT64 DEFAULT ?; IF x = ? THEN SELECT x AS x, ? AS y, '?' AS z; END IF"
    given: list[exp.Expression] = [exp.Literal.number(number) for number in (1, 1, 2)]
    with Session(host_of(engine), "p", "d", key=("jobs", "positional"), limits=Limits()) as session:
        outcome = Script(session, script, {}, given).run()
        assert outcome.batches is not None
        assert [row for batch in outcome.batches for row in batch.to_pylist()] == [{"x": 1, "y": 2, "z": "?"}]


def test_a_script_cannot_go_on_after_its_time(engine: Engine) -> None:
    endless = "BEGIN LOOP CONTINUE; END LOOP; EXCEPTION WHEN ERROR THEN END;"
    with pytest.raises(LimitError, match="time limit"):
        run(engine, f"LOOP LOOP {endless} END LOOP; END LOOP", limits=Limits(seconds=0.3))


def test_a_script_has_a_number_of_steps(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lode.ingest.jobs.sql.script.MAX_STEPS", 30)
    with pytest.raises(LimitError, match="more than 30 statements and rounds"):
        run(engine, "LOOP BEGIN LOOP CONTINUE; END LOOP; EXCEPTION WHEN ERROR THEN SELECT 1; END; END LOOP")
