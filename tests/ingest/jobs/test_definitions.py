"""CREATE and ALTER: keys, options and names are stored, and what is not supported is refused by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lode.ingest.catalog.catalog import Catalog
from lode.ingest.catalog.dataset import DatasetName
from lode.ingest.catalog.partitioning import TimePartitioning
from lode.ingest.names import TableName
from lode.ingest.status import Code, Refused
from lode.sql.errors import QueryError, UnsupportedError
from lode.store.memory import MemoryStore
from lode.store.wrappers import StoreWrapper
from support.crashes import crashed_at_each_call
from support.ingest.engines import engine_on
from support.ingest.sql import run, select

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lode.ingest.catalog.table import TableDefinition
    from lode.ingest.core.engine import Engine


@pytest.fixture
def lake() -> MemoryStore:
    store = MemoryStore()
    Catalog(store).create_dataset(DatasetName("p", "d"))
    return store


@pytest.fixture
def engine(lake: MemoryStore, tmp_path: Path) -> Iterator[Engine]:
    engine = engine_on(lake, tmp_path / "state")
    yield engine
    engine.close()


def definition(engine: Engine, table: str = "t") -> TableDefinition:
    return engine.catalog.table(TableName("p", "d", table), fresh=True)


REFERENCE = {
    "referencedTable": {"projectId": "p", "datasetId": "d", "tableId": "o"},
    "columnReferences": [{"referencingColumn": "b", "referencedColumn": "x"}],
}


@pytest.mark.parametrize(
    ("columns", "constraints"),
    [
        ("a INT64, b INT64, PRIMARY KEY (a, b) NOT ENFORCED", {"primaryKey": {"columns": ["a", "b"]}}),
        ("a INT64 PRIMARY KEY NOT ENFORCED, b INT64", {"primaryKey": {"columns": ["a"]}}),
        ("a INT64, b INT64 REFERENCES d.o(x) NOT ENFORCED", {"foreignKeys": [REFERENCE]}),
        (
            "a INT64, b INT64, CONSTRAINT k FOREIGN KEY (b) REFERENCES d.o(x) NOT ENFORCED",
            {"foreignKeys": [{"name": "k", **REFERENCE}]},
        ),
        ("a INT64, b INT64", None),
    ],
)
def test_keys_of_a_table_are_stored(engine: Engine, columns: str, constraints: Any) -> None:
    run(engine, f"CREATE TABLE d.t ({columns})")
    assert definition(engine).info.get("tableConstraints") == constraints
    run(engine, "CREATE TABLE d.like_t LIKE d.t")
    assert definition(engine, "like_t").info.get("tableConstraints") == constraints


def test_a_primary_key_is_added_and_dropped(engine: Engine) -> None:
    run(engine, "CREATE TABLE d.t (a INT64, b STRUCT<x INT64>)")
    run(engine, "INSERT INTO d.t (a) VALUES (1)")
    run(engine, "ALTER TABLE d.t ADD PRIMARY KEY (a) NOT ENFORCED")
    assert definition(engine).primary_key == ("a",)
    assert select(engine, "SELECT a FROM d.t") == [{"a": 1}]
    with pytest.raises(QueryError, match="Already Exists: Primary key"):
        run(engine, "ALTER TABLE d.t ADD PRIMARY KEY (a) NOT ENFORCED")
    run(engine, "ALTER TABLE d.t DROP PRIMARY KEY")
    assert definition(engine).primary_key == ()
    run(engine, "ALTER TABLE d.t DROP PRIMARY KEY IF EXISTS")
    with pytest.raises(QueryError, match="Not found: Primary key"):
        run(engine, "ALTER TABLE d.t DROP PRIMARY KEY")
    for wrong in ("b", "missing"):
        with pytest.raises(QueryError, match="primaryKey names"):
            run(engine, f"ALTER TABLE d.t ADD PRIMARY KEY ({wrong}) NOT ENFORCED")


def test_options_are_stored_and_changed(engine: Engine) -> None:
    run(
        engine,
        """CREATE TABLE d.t (a INT64, day DATE) PARTITION BY day CLUSTER BY a OPTIONS (
            description = CONCAT('a', 'b'), labels = [('k', 'v')], partition_expiration_days = 1.5,
            expiration_timestamp = TIMESTAMP '2099-01-01 00:00:00 UTC',
            max_staleness = INTERVAL 10 MINUTE)""",
    )
    made = definition(engine)
    assert made.info == {
        "description": "ab",
        "labels": {"k": "v"},
        "expirationTime": "4070908800000",
        "maxStaleness": "0-0 0 0:10:0",
        "clustering": {"fields": ["a"]},
    }
    assert isinstance(made.partitioning, TimePartitioning)
    assert made.partitioning.expiration_ms == 129_600_000
    run(
        engine,
        """ALTER TABLE d.t SET OPTIONS (expiration_timestamp = NULL, partition_expiration_days = 2,
            description = NULL, friendly_name = 'f')""",
    )
    made = definition(engine)
    assert {"expirationTime", "description"}.isdisjoint(made.info)
    assert made.info["friendlyName"] == "f"
    assert isinstance(made.partitioning, TimePartitioning)
    assert made.partitioning.expiration_ms == 172_800_000
    run(engine, "ALTER TABLE d.t SET OPTIONS (partition_expiration_days = NULL)")
    made = definition(engine)
    assert isinstance(made.partitioning, TimePartitioning)
    assert made.partitioning.expiration_ms == 0


def test_options_of_a_dataset_are_stored(engine: Engine) -> None:
    run(
        engine,
        "CREATE SCHEMA e OPTIONS (location = 'EU', description = 'x', default_table_expiration_days = 2)",
    )
    made = engine.catalog.dataset(DatasetName("p", "e"))
    assert (made.location, made.info) == (
        "EU",
        {"description": "x", "defaultTableExpirationMs": "172800000"},
    )


@pytest.mark.parametrize(
    ("statement", "construct"),
    [
        (
            "CREATE EXTERNAL TABLE d.e (a INT64) OPTIONS (format = 'CSV', uris = ['/etc/passwd'])",
            "CREATE EXTERNAL",
        ),
        ("CREATE TABLE d.e (a INT64) OPTIONS (kms_key_name = 'k')", "The option kms_key_name"),
        ("CREATE SCHEMA e OPTIONS (max_time_travel_hours = 48)", "The option max_time_travel_hours"),
        ("ALTER TABLE d.e SET OPTIONS (enable_change_history = TRUE)", "The option enable_change_history"),
        ("CREATE TABLE d.e (a STRING COLLATE 'und:ci')", "A column with COLLATE"),
        ("CREATE TABLE d.e (a INT64, CHECK (a > 1))", "CHECK"),
        ("ALTER TABLE d.e RENAME COLUMN a TO b", "ALTER TABLE … RENAME COLUMN"),
    ],
)
def test_what_would_be_lost_is_refused_by_name(engine: Engine, statement: str, construct: str) -> None:
    for dry in (True, False):
        with pytest.raises(UnsupportedError, match=f"^{construct}"):
            run(engine, statement, dry=dry)
    assert engine.catalog.list_tables(DatasetName("p", "d")) == []


def test_a_table_is_renamed_with_its_rows_and_its_past(engine: Engine) -> None:
    run(engine, "CREATE TABLE d.t (a INT64 PRIMARY KEY NOT ENFORCED); INSERT INTO d.t VALUES (1)")
    old = definition(engine)
    assert run(engine, "ALTER TABLE d.t RENAME TO u").statement == "ALTER_TABLE"
    run(engine, "INSERT INTO d.u VALUES (2); UPDATE d.u SET a = 3 WHERE a = 1")
    assert select(engine, "SELECT a FROM d.u ORDER BY a") == [{"a": 2}, {"a": 3}]
    assert definition(engine, "u").dataset_id == old.dataset_id
    with pytest.raises(QueryError, match=r"Not found: Table p:d\.t"):
        run(engine, "SELECT * FROM d.t")
    # The name is free for a table with rows of its own, which may take the other name back.
    run(engine, "CREATE TABLE d.t (b STRING); INSERT INTO d.t VALUES ('x')")
    with pytest.raises(QueryError, match=r"Already Exists: Table p:d\.t"):
        run(engine, "ALTER TABLE d.u RENAME TO t")
    run(engine, "DROP TABLE d.u; ALTER TABLE d.t RENAME TO u")
    assert select(engine, "SELECT * FROM d.u") == [{"b": "x"}]
    with pytest.raises(QueryError, match="without a dataset"):
        run(engine, "ALTER TABLE d.u RENAME TO d.v")


def test_a_change_during_a_rename_is_not_lost(lake: MemoryStore, tmp_path: Path) -> None:
    class Late(StoreWrapper):
        """Another server adds a column when the new name is stored."""

        def around(self, method: str, path: str, call: Any) -> Any:
            done = call()
            if path.endswith("tables/u.json") and method not in ("get", "list"):
                Catalog(lake).update_table(TableName("p", "d", "t"), lambda now: now)
            return done

    engine = engine_on(Late(lake), tmp_path / "late")
    run(engine, "CREATE TABLE d.t (a INT64)")
    with pytest.raises(Refused) as raised:
        run(engine, "ALTER TABLE d.t RENAME TO u")
    engine.close()
    assert raised.value.code is Code.FAILED_PRECONDITION
    assert [each.name.table for each in Catalog(lake).list_tables(DatasetName("p", "d"))] == ["t"]


def test_a_crash_during_a_rename_leaves_the_rows_under_a_name(lake: MemoryStore, tmp_path: Path) -> None:
    engine = engine_on(lake, tmp_path / "prepared")
    run(engine, "CREATE TABLE d.t (a INT64); INSERT INTO d.t VALUES (1)")
    engine.close()
    old, new = TableName("p", "d", "t"), TableName("p", "d", "u")
    for store in crashed_at_each_call(lake, lambda each: Catalog(each).rename_table(old, new), "after"):
        catalog = Catalog(store)
        found = catalog.list_tables(DatasetName("p", "d"))
        assert [each.open(store).scan().read_all().to_pydict() for each in found] == [{"a": [1]}] * len(found)
        if any(each.name == old for each in found):
            catalog.rename_table(old, new)
        assert [each.name for each in catalog.list_tables(DatasetName("p", "d"))] == [new]
