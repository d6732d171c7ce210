"""Columns with a length or a number of digits, and arrays: SQL stores only what other writers may store."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from lode.ingest.catalog.catalog import Catalog
from lode.ingest.catalog.dataset import DatasetName
from lode.ingest.jobs.job import Job
from lode.ingest.jobs.query import QueryJobs
from lode.ingest.status import Refused
from lode.sql.errors import QueryError
from lode.store.memory import MemoryStore
from support.ingest.engines import engine_on
from support.ingest.sql import run, select

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lode.ingest.core.engine import Engine

ROW = [{"s": "abc", "n": Decimal("1.24"), "tags": ["x"], "r": {"b": b"ab"}}]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    store = MemoryStore()
    Catalog(store).create_dataset(DatasetName("p", "d"))
    engine = engine_on(store, tmp_path / "state")
    run(
        engine,
        "CREATE TABLE d.t (s STRING(3), n NUMERIC(5, 2), tags ARRAY<STRING(2)>, r STRUCT<b BYTES(2)>)",
    )
    run(engine, "INSERT INTO d.t VALUES ('abc', 1.239, ['x'], STRUCT(b'ab'))")
    yield engine
    engine.close()


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO d.t (s) VALUES ('abcd')",
        "INSERT INTO d.t (n) VALUES (1000)",
        "INSERT INTO d.t (tags) VALUES (['xyz'])",
        "INSERT INTO d.t (tags) SELECT ['x', NULL]",
        "INSERT INTO d.t (r) VALUES (STRUCT(b'abc'))",
        "UPDATE d.t SET s = CONCAT(s, 'd') WHERE TRUE",
        "UPDATE d.t SET n = n * 1000 WHERE TRUE",
        "MERGE d.t USING (SELECT 'abcd' AS v) ON FALSE WHEN NOT MATCHED THEN INSERT (s) VALUES (v)",
        "CREATE OR REPLACE TABLE d.t (s STRING(3)) AS SELECT 'abcd' AS s",
        "CREATE OR REPLACE TABLE d.t AS SELECT [1, NULL] AS s",
    ],
)
def test_a_value_that_does_not_fit_its_column_is_refused(engine: Engine, statement: str) -> None:
    with pytest.raises(QueryError, match=r"Column '(s|n|tags|r\.b)'"):
        run(engine, statement)
    assert select(engine, "SELECT * FROM d.t") == ROW


def test_a_number_is_rounded_to_the_digits_of_its_column(engine: Engine) -> None:
    assert select(engine, "SELECT * FROM d.t") == ROW
    run(engine, "UPDATE d.t SET n = n / 4 WHERE TRUE")
    assert select(engine, "SELECT n FROM d.t") == [{"n": Decimal("0.31")}]


def test_a_destination_table_takes_only_what_fits(engine: Engine) -> None:
    settings: dict[str, Any] = {
        "query": "SELECT 'abcd' AS s",
        "destinationTable": {"projectId": "p", "datasetId": "d", "tableId": "t"},
        "writeDisposition": "WRITE_APPEND",
    }
    with pytest.raises(Refused, match="Column 's'"):
        QueryJobs(engine).run(Job("p", "the job", "US", {"query": settings}, "query"))
    assert select(engine, "SELECT * FROM d.t") == ROW


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("i", "1.7"),
        ("i", "NUMERIC '1.5'"),
        ("i", "TRUE"),
        ("b", "1"),
        ("day", "TIMESTAMP '2024-01-01 05:00:00+00'"),
        ("day", "DATETIME '2024-01-01 05:00:00'"),
        ("text", "12"),
        ("text", "b'x'"),
        ("list", "[1.5]"),
        ("pair", "STRUCT(1 AS y, 2 AS x)"),
    ],
)
def test_a_value_of_another_type_is_refused_and_not_rounded(engine: Engine, column: str, value: str) -> None:
    columns = "i INT64, b BOOL, day DATE, text STRING, list ARRAY<INT64>, pair STRUCT<x INT64, y INT64>"
    run(engine, f"CREATE TABLE d.u ({columns}); INSERT INTO d.u (i) VALUES (1)")
    for statement in (
        f"INSERT INTO d.u ({column}) SELECT {value}",
        f"UPDATE d.u SET {column} = {value} WHERE TRUE",
        f"MERGE d.u USING (SELECT {value} AS v) ON FALSE WHEN NOT MATCHED THEN INSERT ({column}) VALUES (v)",
    ):
        with pytest.raises(QueryError, match=r"cannot be (assigned|inserted)|Value of type"):
            run(engine, statement)
    settings: dict[str, Any] = {
        "query": f"SELECT {value} AS {column}",
        "destinationTable": {"projectId": "p", "datasetId": "d", "tableId": "u"},
        "writeDisposition": "WRITE_APPEND",
    }
    if column != "pair":  # which is assigned by its names there
        with pytest.raises(Refused, match=f"Field {column} has changed type"):
            QueryJobs(engine).run(Job("p", "the job", "US", {"query": settings}, "query"))
    assert select(engine, "SELECT COUNT(*) AS c, MAX(i) AS i FROM d.u") == [{"c": 1, "i": 1}]


def test_a_wider_column_and_one_for_times_take_other_values(engine: Engine) -> None:
    columns = (
        "f FLOAT64, n NUMERIC, day DATE, at TIMESTAMP, list ARRAY<STRING>, pair STRUCT<x INT64, y FLOAT64>"
    )
    run(engine, f"CREATE TABLE d.u ({columns})")
    values = "1, 1.5, '2024-01-01', '2024-01-01 00:00:00+00', [], STRUCT(1, 2)"
    run(engine, f"INSERT INTO d.u VALUES ({values})")
    run(engine, "INSERT INTO d.u SELECT NULL, NULL, NULL, NULL, NULL, NULL")
    run(engine, "INSERT INTO d.u (f, n, day, list) SELECT 2, 3, '2024-01-01', []")
    run(engine, "UPDATE d.u SET f = 5, n = 1.25, day = '2024-02-01', list = NULL, pair = NULL WHERE TRUE")
    found = select(engine, "SELECT DISTINCT f, n, CAST(day AS STRING) AS day FROM d.u")
    assert found == [{"f": 5.0, "n": Decimal("1.25"), "day": "2024-02-01"}]
