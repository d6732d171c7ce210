"""Tables that are replaced: readers and crashes find the old one or the new one, never none or a mixture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lode.ingest.catalog.catalog import Catalog
from lode.ingest.catalog.dataset import DatasetName
from lode.ingest.core.strategies import StreamType
from lode.ingest.jobs.job import Job
from lode.ingest.jobs.query import QueryJobs
from lode.ingest.names import TableName
from lode.ingest.status import Code, Refused
from lode.ingest.types.columns import Column, TableSchema
from lode.store.memory import MemoryStore
from lode.store.wrappers import StoreWrapper
from support.crashes import crashed_at_each_call
from support.ingest.engines import engine_on, job_on, rows
from support.ingest.sql import run, select

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lode.ingest.core.engine import Engine
    from lode.store.protocol import Store

TABLE = TableName("p", "d", "t")
OLD, NEW = {"n": [1, 2]}, {"s": ["new"], "n": ["3"]}


@pytest.fixture
def lake(tmp_path: Path) -> MemoryStore:
    store = MemoryStore()
    Catalog(store).create_dataset(DatasetName("p", "d"))
    engine = engine_on(store, tmp_path / "prepared")
    run(engine, "CREATE TABLE d.t AS SELECT x AS n FROM UNNEST([1, 2]) AS x")
    engine.close()
    return store


@pytest.fixture
def engine(lake: MemoryStore, tmp_path: Path) -> Iterator[Engine]:
    engine = engine_on(lake, tmp_path / "state")
    yield engine
    engine.close()


def statement(engine: Engine) -> None:
    run(engine, "CREATE OR REPLACE TABLE d.t AS SELECT 'new' AS s, '3' AS n", key="the job")


def destination(engine: Engine) -> None:
    settings: dict[str, Any] = {
        "query": "SELECT 'new' AS s, '3' AS n",
        "destinationTable": {"projectId": "p", "datasetId": "d", "tableId": "t"},
        "writeDisposition": "WRITE_TRUNCATE",
    }
    QueryJobs(engine).run(Job("p", "the job", "US", {"query": settings}, "query"))


REPLACEMENTS = {"statement": statement, "destination": destination}


def seen(store: Store) -> dict[str, list[Any]]:
    """The columns of the table as a reader of another process sees them."""
    definition = Catalog(store).table(TABLE)
    found = definition.open(store).scan().read_all().select([each.name for each in definition.schema])
    return found.to_pydict()


class Watched(StoreWrapper):
    """Looks at the table before and after every call."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.found: list[dict[str, list[Any]]] = []

    def around(self, method: str, path: str, call: Callable[[], Any]) -> Any:
        self.found.append(seen(self.inner))
        result = call()
        self.found.append(seen(self.inner))
        return result


@pytest.mark.parametrize("replace", REPLACEMENTS.values(), ids=REPLACEMENTS)
def test_a_reader_sees_the_old_table_or_the_new_one(
    replace: Callable[[Engine], None], lake: MemoryStore, tmp_path: Path
) -> None:
    watched = Watched(lake)
    engine = engine_on(watched, tmp_path / "state")
    replace(engine)
    engine.close()
    assert all(each in (OLD, NEW) for each in watched.found)
    assert (watched.found[0], watched.found[-1]) == (OLD, NEW)
    # Once new, it stays new.
    assert OLD not in watched.found[watched.found.index(NEW) :]


@pytest.mark.parametrize(
    ("replace", "when"), [(statement, "before"), (destination, "after")], ids=["statement", "destination"]
)
def test_a_crash_at_any_call_leaves_the_old_table_or_the_new_one(
    replace: Callable[[Engine], None], when: Any, lake: MemoryStore, tmp_path: Path
) -> None:
    act = job_on(tmp_path / "state", replace)
    for store in crashed_at_each_call(lake, act, when):
        assert seen(store) in (OLD, NEW)
        engine = engine_on(store, tmp_path / "again")
        replace(engine)
        engine.close()
        assert seen(store) == NEW


def test_rows_of_a_failed_replacement_never_appear(engine: Engine, lake: MemoryStore) -> None:
    with pytest.raises(Exception, match=r"(?i)division"):
        run(engine, "CREATE OR REPLACE TABLE d.t AS SELECT 1 / (n - 1) AS n FROM d.t")
    assert seen(lake) == OLD
    run(engine, "DROP TABLE d.t; CREATE TABLE d.t (n INT64)")
    run(engine, "INSERT INTO d.t VALUES (9)")
    assert seen(lake) == {"n": [9]}


def test_a_replacement_reads_the_table_that_it_replaces(engine: Engine, lake: MemoryStore) -> None:
    query = "SELECT n * 2 AS n, DATE '2026-01-01' AS day FROM d.t"
    run(engine, f"CREATE OR REPLACE TABLE d.t PARTITION BY day AS {query}")
    assert select(engine, "SELECT n FROM d.t ORDER BY n") == [{"n": 2}, {"n": 4}]
    run(engine, "CREATE OR REPLACE TABLE d.t (z STRING)")
    assert seen_schema(lake) == ["z"]


def seen_schema(store: Store) -> list[str]:
    return [each.name for each in Catalog(store).table(TABLE).schema]


def test_rows_of_the_same_columns_are_replaced_in_one_snapshot_of_the_same_history(
    engine: Engine, lake: MemoryStore
) -> None:
    before = Catalog(lake).table(TABLE).dataset_id
    settings: dict[str, Any] = {
        "query": "SELECT 7 AS n",
        "destinationTable": {"projectId": "p", "datasetId": "d", "tableId": "t"},
        "writeDisposition": "WRITE_TRUNCATE",
    }
    QueryJobs(engine).run(Job("p", "truncating", "US", {"query": settings}, "query"))
    assert seen(lake) == {"n": [7]}
    assert Catalog(lake).table(TABLE).dataset_id == before


def test_a_view_takes_no_rows(engine: Engine) -> None:
    run(engine, "CREATE VIEW d.v AS SELECT n AS id, 'x' AS text FROM d.t")
    view = TableName("p", "d", "v")
    for write in (
        lambda: engine.append(view, rows([1])),
        lambda: engine.create_stream(view, StreamType.PENDING),
        lambda: engine.open_stream(view.default_stream),
    ):
        with pytest.raises(Refused, match=r"Cannot add rows to a table of type VIEW: p:d\.v\.") as raised:
            write()
        assert (raised.value.code, raised.value.reason) == (Code.INVALID_ARGUMENT, "invalid")
    settings: dict[str, Any] = {
        "query": "SELECT 7 AS n",
        "destinationTable": {"projectId": "p", "datasetId": "d", "tableId": "v"},
        "writeDisposition": "WRITE_APPEND",
    }
    with pytest.raises(Refused, match="Cannot add rows to a table of type VIEW"):
        QueryJobs(engine).run(Job("p", "view", "US", {"query": settings}, "query"))
    assert select(engine, "SELECT COUNT(*) AS c FROM d.v") == [{"c": 2}]


MADE = TableName("p", "d", "made")
CREATIONS = (
    "CREATE TABLE d.made AS SELECT 'new' AS s",
    "CREATE TABLE IF NOT EXISTS d.made AS SELECT 'new' AS s",
    "CREATE OR REPLACE TABLE d.made AS SELECT 'new' AS s",
)


def made(store: Store) -> list[Any] | None:
    """The rows of the new table; None if it does not exist."""
    try:
        definition = Catalog(store).table(MADE)
    except Refused:
        return None
    dataset = definition.open(store)
    return dataset.scan().read_all()["s"].to_pylist() if dataset.exists else []


@pytest.mark.parametrize("creation", CREATIONS)
def test_a_new_table_appears_with_its_rows_and_a_crash_leaves_it_whole_or_absent(
    creation: str, lake: MemoryStore, tmp_path: Path
) -> None:
    act = job_on(tmp_path / "state", lambda engine: run(engine, creation, key="the job"))
    for store in crashed_at_each_call(lake, act, "after"):
        assert made(store) in (None, ["new"])
        engine = engine_on(store, tmp_path / "again")
        assert run(engine, creation, key="the job").ddl_operation in ("CREATE", "REPLACE")
        engine.close()
        assert made(store) == ["new"]


def query_job(engine: Engine, disposition: str) -> None:
    settings: dict[str, Any] = {
        "query": "SELECT 'new' AS s",
        "destinationTable": {"projectId": "p", "datasetId": "d", "tableId": "made"},
        "writeDisposition": disposition,
    }
    QueryJobs(engine).run(Job("p", "the job", "US", {"query": settings}, "query"))


@pytest.mark.parametrize("disposition", ["WRITE_APPEND", "WRITE_TRUNCATE", "WRITE_EMPTY"])
def test_a_table_that_a_job_creates_appears_with_its_rows(
    disposition: str, lake: MemoryStore, tmp_path: Path
) -> None:
    act = job_on(tmp_path / "state", lambda engine: query_job(engine, disposition))
    for store in crashed_at_each_call(lake, act, "after"):
        assert made(store) in (None, ["new"])
        engine = engine_on(store, tmp_path / "again")
        query_job(engine, disposition)
        assert made(store) == ["new"]
        # Rows of an attempt that ended early belong to no table.
        run(engine, "DROP TABLE d.made; CREATE TABLE d.made (s STRING)")
        assert made(store) == []
        engine.close()


def test_a_job_that_creates_a_table_appends_if_another_was_first(lake: MemoryStore, tmp_path: Path) -> None:
    class Rival(StoreWrapper):
        """Another server creates the table when the job has reserved its name."""

        done = False

        def around(self, method: str, path: str, call: Callable[[], Any]) -> Any:
            if path.endswith("/latest") and method == "compare_and_swap" and not self.done:
                self.done = True
                Catalog(lake).create_table(MADE, TableSchema((Column("s", "STRING"),)))
            return call()

    engine = engine_on(Rival(lake), tmp_path / "state")
    with pytest.raises(
        Refused, match="Other writers have changed"
    ):  # the rows of a query can be read only once
        query_job(engine, "WRITE_APPEND")
    assert made(lake) == []
    query_job(engine, "WRITE_APPEND")
    assert made(lake) == ["new"]
    engine.close()


def test_a_repeated_replacement_keeps_the_rows_that_came_after_it(engine: Engine, lake: MemoryStore) -> None:
    statement(engine)
    run(engine, "INSERT INTO d.t VALUES ('later', '4')")
    statement(engine)
    assert sorted(seen(lake)["s"]) == ["later", "new"]


class Once(StoreWrapper):
    """Runs something before the first write of a table's definition."""

    act: Callable[[], object] | None = None

    def around(self, method: str, path: str, call: Callable[[], Any]) -> Any:
        if self.act is not None and method == "compare_and_swap" and path.endswith("/made.json"):
            act, self.act = self.act, None
            act()
        return call()


@pytest.mark.parametrize("rest", ["(s STRING)", "AS SELECT 'mine' AS s"])
def test_of_two_requests_that_create_a_table_one_wins_and_the_other_is_no_error(
    rest: str, lake: MemoryStore, tmp_path: Path
) -> None:
    store, other = Once(lake), engine_on(lake, tmp_path / "other")
    engine = engine_on(store, tmp_path / "state")
    store.act = lambda: run(other, "CREATE TABLE d.made AS SELECT 'theirs' AS s")
    assert run(engine, f"CREATE TABLE IF NOT EXISTS d.made {rest}").ddl_operation == "SKIP"
    assert made(lake) == ["theirs"]
    run(other, "DROP TABLE d.made")
    store.act = lambda: run(other, "CREATE TABLE d.made AS SELECT 'theirs' AS s")
    run(engine, "CREATE OR REPLACE TABLE d.made AS SELECT 'mine' AS s")
    assert made(lake) == ["mine"]
    engine.close()
    other.close()


def test_a_repeated_insert_reports_the_rows_of_the_first(engine: Engine) -> None:
    for _ in range(2):
        assert run(engine, "INSERT INTO d.t SELECT 7", key="the job").inserted == 1
    assert select(engine, "SELECT COUNT(*) AS c FROM d.t WHERE n = 7") == [{"c": 1}]


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM d.t WHERE n = 1",
        "DELETE FROM d.t WHERE MOD(n, 2) = 1",
        "UPDATE d.t SET n = 5 WHERE TRUE",
        "INSERT INTO d.t SELECT n FROM d.t",
        "CREATE OR REPLACE TABLE d.t AS SELECT * FROM d.t UNION ALL SELECT 9",
        "MERGE d.t USING (SELECT 3 AS m) ON n = m WHEN NOT MATCHED THEN INSERT (n) VALUES (m)",
    ],
)
def test_a_statement_that_reads_more_than_it_may_changes_nothing(
    change: str, engine: Engine, lake: MemoryStore
) -> None:
    settings = {"query": change, "maximumBytesBilled": "1"}
    with pytest.raises(Refused, match="exceeded limit for bytes billed: 1"):
        QueryJobs(engine).run(Job("p", "billed", "US", {"query": settings}, "query"))
    assert seen(lake) == OLD
