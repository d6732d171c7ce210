"""Queries of all tables whose names begin alike, and columns that ``SELECT *`` does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lode.ingest.catalog.catalog import Catalog
from lode.ingest.catalog.dataset import DatasetName
from lode.sql.database import Limits
from lode.sql.errors import QueryError
from lode.store.memory import MemoryStore
from support.ingest.engines import engine_on
from support.ingest.sql import run, select

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lode.ingest.core.engine import Engine

PREPARED = """CREATE TABLE d.day_1 (n INT64); INSERT INTO d.day_1 VALUES (1);
    CREATE TABLE d.day_2 (n INT64, s STRING); INSERT INTO d.day_2 VALUES (2, 'two');
    CREATE TABLE d.day_3 (n INT64, s STRING, a ARRAY<STRUCT<x INT64>>);
    CREATE VIEW d.day_4 AS SELECT 4 AS n;
    CREATE TABLE d.arrived (n INT64) PARTITION BY _PARTITIONDATE; INSERT INTO d.arrived VALUES (7)"""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    store = MemoryStore()
    Catalog(store).create_dataset(DatasetName("p", "d"))
    engine = engine_on(store, tmp_path_factory.mktemp("wildcards") / "state")
    run(engine, PREPARED)
    yield engine
    engine.close()


def test_a_wildcard_means_all_tables_with_the_columns_of_the_newest(engine: Engine) -> None:
    assert select(engine, "SELECT * FROM `d.day_*` ORDER BY n") == [
        {"n": 1, "s": None, "a": []},
        {"n": 2, "s": "two", "a": []},
    ]
    query = "SELECT n, _TABLE_SUFFIX AS t FROM `p.d.day_*` WHERE _TABLE_SUFFIX > '1'"
    assert select(engine, query) == [{"n": 2, "t": "2"}]
    with pytest.raises(QueryError, match="does not match any table"):
        run(engine, "SELECT 1 FROM `d.night_*`")


@pytest.mark.parametrize("star", ["*", "t.*", "* EXCEPT (s)", "DISTINCT *"])
def test_a_star_has_no_pseudo_columns(engine: Engine, star: str) -> None:
    (row,) = select(engine, f"SELECT {star} FROM `d.day_*` AS t WHERE _TABLE_SUFFIX = '2'")
    assert "_TABLE_SUFFIX" not in row
    if "EXCEPT" not in star:
        query = f"SELECT {star} FROM d.arrived AS t WHERE _PARTITIONTIME > '2020-01-01'"
        assert select(engine, query) == [{"n": 7}]


def test_a_wildcard_counts_what_it_reads_and_reads_it_in_the_database(engine: Engine) -> None:
    with pytest.raises(QueryError, match="Query exceeded limit for bytes billed"):
        run(engine, "SELECT n FROM `d.day_*`", limits=Limits(billed_bytes=1))
