"""All interleavings of catalogs on one store, with crashes and lost responses at every call."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from lode.ingest.catalog.catalog import Catalog, DatasetInUse
from lode.ingest.catalog.dataset import DatasetName
from lode.ingest.names import TableName
from lode.ingest.status import Code, Refused
from lode.ingest.types.columns import Column, TableSchema
from lode.runtime import Runtime, one_by_one
from lode.store import MemoryStore
from lode.testing.explore import Report, Scenario, explore

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.testing.actor import Actor
    from lode.testing.scenario import Check, View
    from lode.testing.sim import SwapStore

DATASET = DatasetName("p", "d")
NAME = TableName("p", "d", "t")
SCHEMA = TableSchema((Column("id", "INT64"),))


def catalog_of(store: Any, number: int) -> Catalog:
    """A deterministic catalog: its clock is fixed, and its random numbers are a counter."""
    drawn = iter(range(number << 32, (number + 1) << 32))
    runtime = Runtime(
        now_ns=lambda: 0,
        monotonic=lambda: 0.0,
        sleep=lambda _: None,
        random=lambda: 0.0,
        random_bits=lambda _: next(drawn),
        each=one_by_one,
    )
    return Catalog(store, runtime=runtime)


def actor(number: int, work: Callable[[Catalog], Any]) -> Actor:
    """Run the work; a refusal becomes the name of its code."""

    def run(store: SwapStore) -> Any:
        try:
            return work(catalog_of(store, number))
        except DatasetInUse:
            return "in use"
        except Refused as refused:
            return refused.code.name

    return run


def create(catalog: Catalog) -> str:
    return catalog.create_table(NAME, SCHEMA).etag


def add(column: str) -> Callable[[Catalog], str]:
    def work(catalog: Catalog) -> str:
        return catalog.update_table(
            NAME,
            lambda now: msgspec.structs.replace(
                now, schema=TableSchema((*now.schema.columns, Column(column, "INT64")))
            ),
        ).etag

    return work


def delete_empty(catalog: Catalog) -> str:
    catalog.delete_dataset(DATASET)
    return "deleted"


def start_over(catalog: Catalog) -> str:
    catalog.delete_dataset(DATASET, delete_contents=True)
    catalog.create_dataset(DATASET)
    return create(catalog)


def drop_and_create(catalog: Catalog) -> int:
    catalog.delete_table(NAME)
    return catalog.create_table(NAME, SCHEMA).generation


@cache
def initial(*, table: bool) -> dict[str, bytes]:
    store = MemoryStore()
    catalog = catalog_of(store, 99)
    catalog.create_dataset(DATASET)
    if table:
        catalog.create_table(NAME, SCHEMA)
    return {info.path: store.get(info.path) for info in store.list("")}


def table_of(store: SwapStore) -> Any:
    """The table, or None."""
    try:
        return catalog_of(store, 98).table(NAME)
    except Refused:
        return None


@pytest.fixture
def explored(record_property: Any) -> Callable[[Scenario, Check], Report]:
    def run(scenario: Scenario, check: Check) -> Report:
        report = explore(scenario, check_end=check)
        record_property("interleavings", report.interleavings)
        return report

    return run


MADE = ("ALREADY_EXISTS", "NOT_FOUND", "UNAVAILABLE", "in use")


def was_made(value: Any) -> bool:
    return value is not None and value not in MADE


def test_an_empty_dataset_is_deleted_or_gets_its_first_table_never_both(
    explored: Callable[[Scenario, Check], Report],
) -> None:
    def check(view: View) -> None:
        made, deleted = view.returned.get("maker"), view.returned.get("deleter")
        assert not (was_made(made) and deleted == "deleted"), (made, deleted)
        if was_made(made):
            assert view.ask(table_of).etag == made

    actors = {"maker": actor(1, create), "deleter": actor(2, delete_empty)}
    report = explored(Scenario(actors=actors, initial=initial(table=False), crashes=1, unknown=1), check)
    assert report.count(lambda view: view.returned.get("deleter") == "deleted") > 0
    assert report.count(lambda view: was_made(view.returned.get("maker"))) > 0


def test_exactly_one_of_two_catalogs_creates_a_table(
    explored: Callable[[Scenario, Check], Report],
) -> None:
    def check(view: View) -> None:
        made = [value for value in view.returned.values() if was_made(value)]
        assert len(made) <= 1
        if len(view.returned) == 2 and "UNAVAILABLE" not in view.returned.values():
            assert [view.ask(table_of).etag] == made

    actors = {"a": actor(1, create), "b": actor(2, create)}
    explored(Scenario(actors=actors, initial=initial(table=False), unknown=1), check)


def test_neither_of_two_changes_is_lost(explored: Callable[[Scenario, Check], Report]) -> None:
    def check(view: View) -> None:
        names = view.ask(table_of).schema.arrow.names
        for column in ("x", "y"):
            assert names.count(column) <= 1
            if was_made(view.returned.get(column)):
                assert column in names

    actors = {"x": actor(1, add("x")), "y": actor(2, add("y"))}
    explored(Scenario(actors=actors, initial=initial(table=True), crashes=1, unknown=1), check)


def test_a_table_of_a_recreated_dataset_does_not_look_deleted(
    explored: Callable[[Scenario, Check], Report],
) -> None:
    def check(view: View) -> None:
        over, made = view.returned.get("over"), view.returned.get("maker")
        if was_made(over):
            assert view.ask(table_of).etag == over
        elif over == "ALREADY_EXISTS":
            assert view.ask(table_of).etag == made

    actors = {"over": actor(1, start_over), "maker": actor(2, create)}
    for table in (False, True):
        explored(Scenario(actors=actors, initial=initial(table=table)), check)


def test_generations_never_repeat(explored: Callable[[Scenario, Check], Report]) -> None:
    def check(view: View) -> None:
        generations = [value for value in view.returned.values() if isinstance(value, int)]
        assert len(set(generations)) == len(generations)
        assert all(generation > 1 for generation in generations)

    actors = {"a": actor(1, drop_and_create), "b": actor(2, drop_and_create)}
    report = explored(Scenario(actors=actors, initial=initial(table=True), crashes=1), check)
    codes = {value for ending in report.endings for value in ending.view.returned.values()}
    assert {Code.NOT_FOUND.name, 2, 3} <= codes
