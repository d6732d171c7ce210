"""UPDATE, DELETE and MERGE: the files that they read and write, the rows that they count, other writers."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lode.ingest.catalog.catalog import Catalog
from lode.ingest.catalog.dataset import DatasetName
from lode.ingest.jobs.job import Job
from lode.ingest.jobs.query import QueryJobs
from lode.ingest.status import Refused
from lode.sql.database import Limits
from lode.sql.errors import LimitError, QueryError
from lode.store.memory import MemoryStore
from lode.store.wrappers import CountingStore
from support.crashes import Between, crashed_at_each_call
from support.ingest.engines import engine_on, job_on
from support.ingest.sql import counts, run, select

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lode.ingest.core.engine import Engine
    from lode.store.protocol import Store


@pytest.fixture
def store() -> CountingStore:
    inner = MemoryStore()
    Catalog(inner).create_dataset(DatasetName("p", "d"))
    return CountingStore(inner)


@pytest.fixture
def engine(store: CountingStore, tmp_path: Path) -> Iterator[Engine]:
    engine = engine_on(store, tmp_path / "state")
    yield engine
    engine.close()


@pytest.fixture
def days(engine: Engine) -> Engine:
    """A table ``d.days`` with three files of ten rows, each in the partition of its day."""
    run(engine, "CREATE TABLE d.days (day DATE, n INT64, s STRING) PARTITION BY day")
    for day in ("2026-01-01", "2026-01-02", "2026-01-03"):
        run(
            engine,
            f"INSERT INTO d.days SELECT DATE '{day}', x, 'a' FROM UNNEST(GENERATE_ARRAY(1, 10)) AS x",
        )
    return engine


def data_calls(store: CountingStore) -> list[tuple[str, str]]:
    return [(method, path) for method, path in store.events if "/data/" in path]


def numbers(engine: Engine, table: str, column: str = "n") -> list[Any]:
    return sorted(row[column] for row in select(engine, f"SELECT {column} FROM {table}"))


# -- what is read and written -------------------------------------------------------------------------------


def test_deleting_a_partition_reads_and_writes_no_file(days: Engine, store: CountingStore) -> None:
    store.reset()
    assert counts(run(days, "DELETE FROM d.days WHERE day = DATE '2026-01-02'")) == (0, 0, 10)
    assert data_calls(store) == []
    assert numbers(days, "d.days", "day").count(numbers(days, "d.days", "day")[0]) == 10
    assert len(numbers(days, "d.days")) == 20


@pytest.mark.parametrize(
    ("statement", "counted"),
    [
        ("DELETE FROM d.days WHERE day = DATE '2026-01-02' AND n > 5", (0, 0, 5)),
        ("DELETE FROM d.days WHERE day = DATE '2026-01-02' AND MOD(n, 2) = 0", (0, 0, 5)),
        ("UPDATE d.days SET n = n + 100 WHERE day = DATE '2026-01-02' AND n < 4", (0, 3, 0)),
        (
            "MERGE d.days AS t USING (SELECT 3 AS n UNION ALL SELECT 77) AS s "
            "ON t.n = s.n AND t.day = DATE '2026-01-02' "
            "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (day, n) VALUES (DATE '2026-01-02', s.n)",
            (1, 0, 1),
        ),
    ],
)
def test_a_change_of_one_partition_touches_no_other(
    days: Engine, store: CountingStore, statement: str, counted: tuple[int, int, int]
) -> None:
    store.reset()
    assert counts(run(days, statement)) == counted
    assert data_calls(store)
    assert all("day=2026-01-02" in path for _, path in data_calls(store))


def test_only_files_with_changed_rows_are_rewritten(engine: Engine, store: CountingStore) -> None:
    run(engine, "CREATE TABLE d.t (n INT64, s STRING)")
    for first in (1, 11, 21):
        run(engine, f"INSERT INTO d.t SELECT x, 'a' FROM UNNEST(GENERATE_ARRAY({first}, {first + 9})) AS x")
    before = {file.path for file in _files(store, "d.t")}
    assert counts(run(engine, "UPDATE d.t SET s = 'b' WHERE MOD(n, 100) = 15")) == (0, 1, 0)
    after = {file.path for file in _files(store, "d.t")}
    # The one row, and the nine that stay of its file.
    assert (len(before - after), len(after - before)) == (1, 2)
    assert numbers(engine, "d.t") == list(range(1, 31))


def test_a_statement_without_rows_commits_nothing(days: Engine, store: CountingStore) -> None:
    before = len(_history(store, "d.days"))
    assert counts(run(days, "DELETE FROM d.days WHERE n > 1000")) == (0, 0, 0)
    assert counts(run(days, "UPDATE d.days SET n = 1 WHERE MOD(n, 2) = 5")) == (0, 0, 0)
    assert len(_history(store, "d.days")) == before


def test_truncate_reads_no_row_and_counts_exactly(days: Engine, store: CountingStore) -> None:
    store.reset()
    assert counts(run(days, "TRUNCATE TABLE d.days")) == (0, 0, 30)
    assert data_calls(store) == []
    assert select(days, "SELECT * FROM d.days") == []


# -- memory -------------------------------------------------------------------------------------------------


NUMBERS = "UNNEST(GENERATE_ARRAY(1, 20000))"


@pytest.mark.parametrize(
    ("setting", "query", "message"),
    [
        (
            {"query_time": 0.2},
            f"SELECT SUM(MOD(a * b, c)) FROM {NUMBERS} a, {NUMBERS} b, {NUMBERS} c",
            "time limit of 0.2 seconds",
        ),
        ({"result_bytes": 1000}, f"SELECT x FROM {NUMBERS} AS x", "more than 1,000 bytes"),
        (
            {"query_bytes": 16 << 20},
            "SELECT ARRAY_AGG(CONCAT(CAST(x AS STRING), ' and more')) "
            "FROM UNNEST(GENERATE_ARRAY(1, 1000000)) AS x",
            "memory of 16,777,216 bytes",
        ),
    ],
    ids=["time", "result", "memory"],
)
def test_a_setting_of_the_server_limits_its_queries(
    setting: dict[str, Any], query: str, message: str, store: CountingStore, tmp_path: Path
) -> None:
    engine = engine_on(store, tmp_path / "limited", **setting)
    with pytest.raises(Refused, match=message):
        QueryJobs(engine).run(Job("p", "job", "US", {"query": {"query": query}}, "query"))
    engine.close()


def test_a_table_larger_than_the_memory_of_a_query_is_changed(engine: Engine) -> None:
    small = Limits(memory_bytes=24 << 20)
    rows = 600_000
    run(engine, "CREATE TABLE d.big (n INT64, s STRING)")
    run(
        engine,
        "INSERT INTO d.big SELECT a * 1000 + b, CONCAT('a text that is long enough to take memory ', "
        "CAST(a * b AS STRING), CAST(a + b AS STRING)) "
        f"FROM UNNEST(GENERATE_ARRAY(0, {rows // 1000 - 1})) AS a, UNNEST(GENERATE_ARRAY(0, 999)) AS b",
    )
    with pytest.raises(LimitError, match="memory"):
        run(engine, "CREATE TEMP TABLE copied AS SELECT * FROM d.big; SELECT 1", limits=small)
    assert run(engine, "UPDATE d.big SET n = n + 1 WHERE TRUE", limits=small).updated == rows
    merge = """MERGE d.big AS t USING (SELECT x AS n FROM UNNEST([5, 600000, 900000]) AS x) AS s ON t.n = s.n
        WHEN MATCHED THEN UPDATE SET s = 'merged' WHEN NOT MATCHED THEN INSERT (n) VALUES (s.n)
        WHEN NOT MATCHED BY SOURCE AND MOD(t.n, 2) = 0 THEN DELETE"""
    assert counts(run(engine, merge, limits=small)) == (1, 2, rows // 2 - 1)
    assert run(engine, "DELETE FROM d.big WHERE LENGTH(s) > 10", limits=small).deleted == rows // 2 - 1
    assert numbers(engine, "d.big") == [5, 600_000, 900_000]


# -- statements ---------------------------------------------------------------------------------------------


def test_an_update_takes_values_of_other_tables_and_refuses_two_for_one_row(engine: Engine) -> None:
    run(engine, "CREATE TABLE d.t (id INT64, v STRING); CREATE TABLE d.u (id INT64, v STRING)")
    run(engine, "INSERT INTO d.t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    run(engine, "INSERT INTO d.u VALUES (1, 'x'), (3, 'y'), (3, 'z'), (9, 'w')")
    with pytest.raises(QueryError, match="at most one source row"):
        run(engine, "UPDATE d.t SET v = u.v FROM d.u AS u WHERE t.id = u.id")
    assert numbers(engine, "d.t", "v") == ["a", "b", "c"]
    update = """UPDATE d.t AS t SET v = u.v FROM (SELECT id, MAX(v) AS v FROM d.u GROUP BY id) AS u
        LEFT JOIN d.u AS w ON w.id = u.id AND w.v = u.v WHERE t.id = u.id AND w.id IS NOT NULL"""
    assert counts(run(engine, update)) == (0, 2, 0)
    assert numbers(engine, "d.t", "v") == ["b", "x", "z"]


def test_a_member_of_a_struct_is_updated_alone(engine: Engine) -> None:
    run(
        engine,
        "CREATE TABLE d.t (id INT64, r STRUCT<a INT64, b STRUCT<c STRING, d INT64>>, n INT64 DEFAULT 7)",
    )
    run(engine, "INSERT INTO d.t VALUES (1, STRUCT(1, STRUCT('x', 2)), 5)")
    run(engine, "UPDATE d.t SET r.b.c = 'y', t.r.a = r.a + 1, n = DEFAULT WHERE id = 1")
    assert select(engine, "SELECT * FROM d.t") == [{"id": 1, "r": {"a": 2, "b": {"c": "y", "d": 2}}, "n": 7}]
    with pytest.raises(QueryError, match="assigned more than once"):
        run(engine, "UPDATE d.t SET n = 1, n = 2 WHERE TRUE")
    with pytest.raises(QueryError, match="Unrecognized name: m"):
        run(engine, "UPDATE d.t SET m = 1 WHERE TRUE")


def test_the_first_clause_of_a_merge_that_fits_counts(engine: Engine) -> None:
    run(engine, "CREATE TABLE d.t (id INT64, v STRING DEFAULT 'none')")
    run(engine, "INSERT INTO d.t VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')")
    run(engine, "CREATE TABLE d.s (id INT64, v STRING)")
    run(engine, "INSERT INTO d.s VALUES (1, 'x'), (2, 'y'), (7, 'z'), (8, NULL)")
    merge = """MERGE INTO d.t USING d.s ON t.id = s.id
        WHEN MATCHED AND s.v = 'x' THEN DELETE
        WHEN MATCHED THEN UPDATE SET v = CONCAT(t.v, s.v)
        WHEN NOT MATCHED AND s.v IS NULL THEN INSERT (id, v) VALUES (id, DEFAULT)
        WHEN NOT MATCHED BY TARGET THEN INSERT ROW
        WHEN NOT MATCHED BY SOURCE AND t.id = 3 THEN UPDATE SET v = 'alone'"""
    assert counts(run(engine, merge)) == (2, 2, 1)
    assert [tuple(row.values()) for row in select(engine, "SELECT * FROM d.t ORDER BY id")] == [
        (2, "by"),
        (3, "alone"),
        (4, "d"),
        (7, "z"),
        (8, "none"),
    ]
    replaced = """MERGE d.t USING d.s ON FALSE WHEN NOT MATCHED THEN INSERT VALUES (id, v)
        WHEN NOT MATCHED BY SOURCE THEN DELETE"""
    assert counts(run(engine, replaced)) == (4, 0, 5)
    assert numbers(engine, "d.t", "id") == [1, 2, 7, 8]


def test_a_statement_reads_its_own_table_as_it_was(engine: Engine) -> None:
    run(engine, "CREATE TABLE d.t (n INT64)")
    run(engine, "INSERT INTO d.t SELECT x FROM UNNEST(GENERATE_ARRAY(1, 10)) AS x")
    assert run(engine, "DELETE FROM d.t WHERE n > (SELECT AVG(n) FROM d.t)").deleted == 5
    assert (
        run(engine, "UPDATE d.t SET n = (SELECT SUM(n) FROM d.t) WHERE n IN (SELECT MAX(n) FROM d.t)").updated
        == 1
    )
    assert numbers(engine, "d.t") == [1, 2, 3, 4, 15]


def test_rows_under_older_names_and_wide_decimals_are_changed(engine: Engine) -> None:
    run(engine, "CREATE TABLE d.t (id INT64, extra STRING, wide BIGNUMERIC)")
    run(engine, "INSERT INTO d.t VALUES (1, 'old', 1.5), (2, 'old', 2.5)")
    run(engine, "ALTER TABLE d.t DROP COLUMN extra")
    run(engine, "ALTER TABLE d.t ADD COLUMN extra STRING")
    run(engine, "INSERT INTO d.t (id, wide, extra) VALUES (3, 3.5, 'new')")
    assert counts(run(engine, "UPDATE d.t SET wide = wide * 2 WHERE id <> 2 AND LENGTH('x') = 1")) == (
        0,
        2,
        0,
    )
    found = [
        tuple(map(str, row.values())) for row in select(engine, "SELECT id, extra, wide FROM d.t ORDER BY id")
    ]
    assert [(id, extra, float(wide)) for id, extra, wide in found] == [
        ("1", "None", 3.0),
        ("2", "None", 2.5),
        ("3", "new", 7.0),
    ]


def test_decimals_are_changed_without_a_digit_lost(engine: Engine) -> None:
    run(engine, "CREATE TABLE d.t (id INT64, n NUMERIC, b BIGNUMERIC)")
    run(engine, "INSERT INTO d.t VALUES (1, 1, 0.123456789012345678), (2, 0.1, 2)")
    run(engine, "UPDATE d.t SET n = n / 3 WHERE id = 1")
    run(engine, "UPDATE d.t SET b = b + 1 WHERE id = 1")
    with pytest.raises(QueryError, match="more digits after the point than a column of NUMERIC"):
        run(engine, "UPDATE d.t SET n = b WHERE id = 1")
    with pytest.raises(QueryError, match="more digits after the point than a column of NUMERIC"):
        run(engine, "INSERT INTO d.t (id, n) SELECT 3, b FROM d.t")
    found = select(engine, "SELECT CAST(n AS STRING) AS n, CAST(b AS STRING) AS b FROM d.t ORDER BY id")
    assert found == [{"n": "0.333333333", "b": "1.123456789012345678"}, {"n": "0.1", "b": "2"}]


def test_a_changed_row_stays_in_the_partition_of_its_arrival(engine: Engine, store: CountingStore) -> None:
    run(engine, "CREATE TABLE d.t (n INT64) PARTITION BY _PARTITIONDATE")
    run(engine, "INSERT INTO d.t VALUES (1), (2)")
    older = Catalog(store).table(_name("t"))
    _write_into(store, older, pa.table({"n": [3, 4], "_PARTITIONID": ["20200101", "20200101"]}))
    assert run(engine, "UPDATE d.t SET n = n * 10 WHERE _PARTITIONDATE = '2020-01-01' AND n = 3").updated == 1
    query = "SELECT n FROM d.t WHERE _PARTITIONDATE = '2020-01-01' ORDER BY n"
    assert select(engine, query) == [{"n": 4}, {"n": 30}]
    store.reset()
    assert run(engine, "DELETE FROM d.t WHERE _PARTITIONTIME = TIMESTAMP '2020-01-01'").deleted == 2
    assert data_calls(store) == []
    assert numbers(engine, "d.t") == [1, 2]


def test_a_dry_run_checks_a_statement_and_changes_nothing(days: Engine) -> None:
    run(days, "UPDATE d.days SET n = 1 WHERE TRUE", dry=True)
    with pytest.raises(QueryError, match="Unrecognized name: missing"):
        run(days, "DELETE FROM d.days WHERE missing = 1", dry=True)
    with pytest.raises(QueryError, match="Unrecognized name: missing"):
        run(days, "DELETE FROM d.days WHERE missing = 1")
    assert len(numbers(days, "d.days")) == 30


def test_a_null_for_a_required_column_is_refused_and_changes_nothing(engine: Engine) -> None:
    run(engine, "CREATE TABLE d.t (id INT64 NOT NULL, n INT64)")
    run(engine, "INSERT INTO d.t VALUES (1, 1)")
    with pytest.raises(QueryError, match="cannot be written"):
        run(engine, "UPDATE d.t SET id = NULL WHERE TRUE")
    assert numbers(engine, "d.t", "id") == [1]


# -- other writers ------------------------------------------------------------------------------------------

CHANGES = {
    "UPDATE d.t SET n = n + 100 WHERE n < 3 AND LENGTH('x') = 1": (0, 2, 0),
    "DELETE FROM d.t WHERE n < 3": (0, 0, 2),
    "DELETE FROM d.t WHERE n < 3 AND LENGTH('x') = 1": (0, 0, 2),
    "MERGE d.t USING (SELECT 1 AS n UNION ALL SELECT 50) AS s ON t.n = s.n WHEN MATCHED THEN DELETE "
    "WHEN NOT MATCHED THEN INSERT ROW": (1, 0, 1),
}


def _lake(tmp_path: Path) -> MemoryStore:
    store = MemoryStore()
    Catalog(store).create_dataset(DatasetName("p", "d"))
    engine = engine_on(store, tmp_path / "prepared")
    run(engine, "CREATE TABLE d.t (n INT64)")
    run(engine, "INSERT INTO d.t VALUES (1), (2), (3)")
    run(engine, "INSERT INTO d.t VALUES (4)")
    engine.close()
    return store


@pytest.mark.parametrize("statement", CHANGES)
def test_a_row_that_is_appended_between_reading_and_commit_is_kept(statement: str, tmp_path: Path) -> None:
    store = _lake(tmp_path)
    other = engine_on(store, tmp_path / "other")
    between = Between(store, lambda: run(other, "INSERT INTO d.t VALUES (2)"))
    engine = engine_on(between, tmp_path / "state")
    try:
        assert counts(run(engine, statement)) == CHANGES[statement]
        alone = _after(tmp_path, statement)
        assert numbers(engine, "d.t") == sorted([*alone, 2])
    finally:
        engine.close()
        other.close()


@pytest.mark.parametrize("statement", CHANGES)
@pytest.mark.parametrize(
    "other_statement", ["DELETE FROM d.t WHERE n = 1", "UPDATE d.t SET n = 2 WHERE n = 3"]
)
def test_a_change_that_comes_between_is_seen(statement: str, other_statement: str, tmp_path: Path) -> None:
    store = _lake(tmp_path)
    other = engine_on(store, tmp_path / "other")
    between = Between(store, lambda: run(other, other_statement))
    engine = engine_on(between, tmp_path / "state")
    try:
        run(engine, statement)
        assert numbers(engine, "d.t") == _after(tmp_path, other_statement, statement)
    finally:
        engine.close()
        other.close()


def _after(tmp_path: Path, *statements: str) -> list[int]:
    """The rows after statements that run one after the other."""
    engine = engine_on(_lake(tmp_path), tmp_path / "alone")
    for statement in statements:
        run(engine, statement)
    found = numbers(engine, "d.t")
    engine.close()
    return found


@pytest.mark.parametrize(("statement", "when"), list(zip(CHANGES, ["before", "after"], strict=False)))
def test_a_crash_at_any_call_leaves_all_or_nothing_and_the_same_job_counts_alike(
    statement: str, when: Any, tmp_path: Path
) -> None:
    start = _lake(tmp_path)
    complete = _after(tmp_path, statement)

    act = job_on(tmp_path / "state", lambda engine: run(engine, statement, key="the job"))
    for store in crashed_at_each_call(start, act, when):
        assert _stored(store) in ([1, 2, 3, 4], complete)
        engine = engine_on(store, tmp_path / "again")
        try:
            assert counts(run(engine, statement, key="the job")) == CHANGES[statement]
            assert _stored(store) == complete
        finally:
            engine.close()


def test_many_updates_and_appends_at_once_lose_nothing(engine: Engine) -> None:
    run(engine, "CREATE TABLE d.t (id INT64, n INT64)")
    run(engine, "INSERT INTO d.t VALUES (0, 0)")
    failed: list[BaseException] = []

    def repeat(statement: Callable[[int], str]) -> None:
        try:
            for number in range(5):
                run(engine, statement(number))
        except BaseException as error:
            failed.append(error)

    statements: list[Callable[[int], str]] = [
        lambda _: "UPDATE d.t SET n = n + 1 WHERE id = 0",
        lambda _: "UPDATE d.t SET n = n + 1 WHERE id = 0 AND LENGTH('x') = 1",
        lambda number: f"INSERT INTO d.t VALUES ({number + 1}, 0)",
        lambda number: (
            f"MERGE d.t USING (SELECT {number} AS id) AS s ON t.id = s.id + 100 "
            "WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id + 100, 0)"
        ),
    ]
    threads = [threading.Thread(target=repeat, args=(each,)) for each in statements]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert numbers(engine, "d.t", "id") == [*range(6), *range(100, 105)]
    assert select(engine, "SELECT n FROM d.t WHERE id = 0") == [{"n": 10}]


# -- helpers ------------------------------------------------------------------------------------------------


def _name(table: str) -> Any:
    from lode.ingest.names import TableName

    return TableName("p", "d", table)


def _dataset(store: Store, table: str) -> Any:
    return Catalog(store).table(_name(table.rpartition(".")[2])).open(store)


def _stored(store: Store) -> list[int]:
    """The rows of ``d.t`` by the library."""
    found: list[Any] = _dataset(store, "t").scan().read_all().column("n").to_pylist()
    return sorted(found)


def _files(store: Store, table: str) -> list[Any]:
    return list(_dataset(store, table).plan().files)


def _history(store: Store, table: str) -> list[Any]:
    return list(_dataset(store, table).history())


def _write_into(store: Store, definition: Any, rows: pa.Table) -> None:
    definition.open(store).write(rows, on_conflict="append")
