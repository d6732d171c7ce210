"""Several catalogs on one store concurrently: exactly one succeeds, and no change is lost."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from lode.ingest.catalog.catalog import Catalog, DatasetInUse
from lode.ingest.catalog.dataset import DatasetName
from lode.ingest.names import TableName
from lode.ingest.status import Code, Refused
from lode.ingest.types.columns import Column, TableSchema
from lode.store import LocalStore, MemoryStore, open_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lode.ingest.catalog.table import TableDefinition
    from lode.store import Store
    from lode.testing.servers import S3Server

T = TypeVar("T")
DATASET = DatasetName("p", "d")
NAME = TableName("p", "d", "t")
SCHEMA = TableSchema((Column("id", "INT64"),))


@pytest.fixture(params=["memory", "local"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else LocalStore(tmp_path)


def together(*tasks: Callable[[], T]) -> list[T | Refused]:
    """Run tasks concurrently; a refusal is a result like any other."""
    start = threading.Barrier(len(tasks))

    def run(task: Callable[[], T]) -> T | Refused:
        start.wait()
        try:
            return task()
        except Refused as refused:
            return refused

    with ThreadPoolExecutor(len(tasks)) as pool:
        return list(pool.map(run, tasks))


def catalogs(store: Store, count: int) -> list[Catalog]:
    made = [Catalog(store) for _ in range(count)]
    made[0].create_dataset(DATASET)
    return made


def with_column(name: str) -> Callable[[TableDefinition], TableDefinition]:
    column = Column(name, "STRING")
    return lambda current: msgspec.structs.replace(
        current, schema=TableSchema((*current.schema.columns, column))
    )


def test_one_of_many_concurrent_creations_succeeds(store: Store) -> None:
    results = together(*[lambda each=each: each.create_table(NAME, SCHEMA) for each in catalogs(store, 6)])
    made = [result for result in results if not isinstance(result, Refused)]
    assert len(made) == 1
    assert {result.code for result in results if isinstance(result, Refused)} == {Code.ALREADY_EXISTS}
    assert Catalog(store).table(NAME) == made[0]


def test_generations_never_repeat_under_concurrent_deletions_and_creations(store: Store) -> None:
    each = catalogs(store, 4)

    def churn(catalog: Catalog) -> list[int]:
        generations = []
        for _ in range(5):
            # Another task may have created or deleted it.
            with suppress(Refused):
                generations.append(catalog.create_table(NAME, SCHEMA).generation)
                catalog.delete_table(NAME)
        return generations

    results = together(*[lambda catalog=catalog: churn(catalog) for catalog in each])
    made = [generation for result in results if isinstance(result, list) for generation in result]
    assert made
    assert sorted(made) == list(range(1, len(made) + 1))


def test_columns_that_are_added_concurrently_are_all_kept(store: Store) -> None:
    first, *others = catalogs(store, 6)
    first.create_table(NAME, SCHEMA)
    results = together(
        *[
            lambda each=each, n=n: each.update_table(NAME, with_column(f"c{n}"))
            for n, each in enumerate([first, *others])
        ]
    )
    assert not any(isinstance(result, Refused) for result in results)
    final = Catalog(store).table(NAME)
    assert {column.name for column in final.schema} == {"id", *(f"c{n}" for n in range(6))}
    assert final.version == 7


def test_one_of_many_changes_with_the_same_etag_succeeds(store: Store) -> None:
    first, *others = catalogs(store, 5)
    etag = first.create_table(NAME, SCHEMA).etag
    results = together(
        *[
            lambda each=each, n=n: each.update_table(NAME, with_column(f"c{n}"), etag=etag)
            for n, each in enumerate([first, *others])
        ]
    )
    refused = [result.code for result in results if isinstance(result, Refused)]
    assert refused == [Code.FAILED_PRECONDITION] * 4
    assert Catalog(store).table(NAME).version == 2


def test_a_dataset_is_not_deleted_under_a_table_that_was_just_created(store: Store) -> None:
    maker, deleter = catalogs(store, 2)
    for number in range(20):
        name = TableName("p", "d", f"t{number}")
        tasks: list[Callable[[], Any]] = [
            partial(maker.create_table, name, SCHEMA),
            partial(deleter.delete_dataset, DATASET),
        ]
        made, deleted = together(*tasks)
        look = Catalog(store)
        if isinstance(made, Refused):
            assert made.code is Code.NOT_FOUND
            assert deleted is None
            look.create_dataset(DATASET)
        else:
            assert isinstance(deleted, DatasetInUse)
            assert look.table(name) == made
            look.delete_table(name)


def test_on_s3_one_creation_succeeds_and_no_column_is_lost(s3_server: S3Server) -> None:
    store = open_store(s3_server.create("catalog"), **s3_server.options)
    first, second, third = catalogs(store, 3)
    made = together(*[partial(each.create_table, NAME, SCHEMA) for each in (first, second, third)])
    assert sum(not isinstance(result, Refused) for result in made) == 1
    added = together(
        *[
            partial(each.update_table, NAME, with_column(f"c{n}"))
            for n, each in enumerate([first, second, third])
        ]
    )
    assert not any(isinstance(result, Refused) for result in added)
    [table] = Catalog(store).list_tables(DATASET)
    assert {column.name for column in table.schema} == {"id", "c0", "c1", "c2"}
    second.delete_dataset(DATASET, delete_contents=True)
    assert Catalog(store).list_datasets("p") == []
    first.create_dataset(DATASET)
    assert third.create_table(NAME, SCHEMA).dataset_id == "p.d.t.2"


NAMES = st.sampled_from(["t", "u"])


class TwoServers(RuleBasedStateMachine):
    """Two catalogs without caches, compared with one dict."""

    def __init__(self) -> None:
        super().__init__()
        store = MemoryStore()
        self.servers = [Catalog(store, max_age=-1), Catalog(store, max_age=-1)]
        self.dataset: int = 0
        self.alive = False
        # By table: its generation, whether it exists, its version, its columns.
        self.tables: dict[str, dict[str, Any]] = {}

    def refused(self, code: Code) -> Any:
        return pytest.raises(Refused, check=lambda refused: refused.code is code)

    def living(self, name: str) -> bool:
        return self.alive and self.tables.get(name, {}).get("alive", False)

    @rule(server=st.integers(0, 1))
    def create_dataset(self, server: int) -> None:
        if self.alive:
            with self.refused(Code.ALREADY_EXISTS):
                self.servers[server].create_dataset(DATASET)
            return
        self.dataset += 1
        self.alive = True
        assert self.servers[server].create_dataset(DATASET).generation == self.dataset

    @rule(server=st.integers(0, 1), contents=st.booleans())
    def delete_dataset(self, server: int, contents: bool) -> None:
        if not self.alive:
            with self.refused(Code.NOT_FOUND):
                self.servers[server].delete_dataset(DATASET, delete_contents=contents)
        elif not contents and any(self.living(name) for name in self.tables):
            with pytest.raises(DatasetInUse):
                self.servers[server].delete_dataset(DATASET)
        else:
            self.servers[server].delete_dataset(DATASET, delete_contents=contents)
            self.alive = False
            for table in self.tables.values():
                table["alive"] = False

    @rule(server=st.integers(0, 1), name=NAMES)
    def create_table(self, server: int, name: str) -> None:
        table = TableName("p", "d", name)
        if not self.alive or self.living(name):
            with self.refused(Code.ALREADY_EXISTS if self.alive else Code.NOT_FOUND):
                self.servers[server].create_table(table, SCHEMA)
            return
        generation = self.tables.get(name, {}).get("generation", 0) + 1
        self.tables[name] = {"generation": generation, "alive": True, "version": 1, "columns": ["id"]}
        assert self.servers[server].create_table(table, SCHEMA).generation == generation

    @rule(server=st.integers(0, 1), name=NAMES, stale=st.booleans())
    def add_column(self, server: int, name: str, stale: bool) -> None:
        catalog, table = self.servers[server], TableName("p", "d", name)
        if not self.living(name):
            with self.refused(Code.NOT_FOUND):
                catalog.update_table(table, with_column("x"))
            return
        if stale:
            with self.refused(Code.FAILED_PRECONDITION):
                catalog.update_table(table, with_column("x"), etag="another")
            return
        model = self.tables[name]
        column = f"c{model['version']}"
        catalog.update_table(table, with_column(column), etag=catalog.table(table).etag)
        model["version"] += 1
        model["columns"].append(column)

    @rule(server=st.integers(0, 1), name=NAMES)
    def delete_table(self, server: int, name: str) -> None:
        if not self.living(name):
            with self.refused(Code.NOT_FOUND):
                self.servers[server].delete_table(TableName("p", "d", name))
            return
        self.servers[server].delete_table(TableName("p", "d", name))
        self.tables[name]["alive"] = False

    @invariant()
    def both_see_what_the_dict_says(self) -> None:
        expected = {
            name: (table["generation"], table["version"], table["columns"])
            for name, table in self.tables.items()
            if self.living(name)
        }
        for server in self.servers:
            assert [dataset.generation for dataset in server.list_datasets("p")] == [
                self.dataset
            ] * self.alive
            if self.alive:
                listed = {table.name.table: table for table in server.list_tables(DATASET)}
                assert {
                    name: (table.generation, table.version, table.schema.arrow.names)
                    for name, table in listed.items()
                } == expected
                assert all(server.table(table.name) == table for table in listed.values())


TestTwoServers = TwoServers.TestCase
TestTwoServers.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
