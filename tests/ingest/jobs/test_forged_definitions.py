"""Definitions that this server has not written: their text is translated when it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from lode.ingest.catalog.catalog import Catalog
from lode.ingest.catalog.dataset import DatasetName
from lode.ingest.jobs.sql.names import CatalogTables
from lode.ingest.types.columns import TableSchema
from lode.sql.errors import QueryError
from lode.store.memory import MemoryStore
from support.ingest.engines import engine_on
from support.ingest.sql import run, select

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lode.ingest.core.engine import Engine

DATASET = DatasetName("p", "d")


@pytest.fixture
def engine(tmp_path: Any) -> Iterator[Engine]:
    store = MemoryStore()
    Catalog(store).create_dataset(DATASET)
    engine = engine_on(store, tmp_path / "state")
    run(engine, "CREATE TABLE d.t (x INT64, y INT64 DEFAULT 1)")
    run(engine, "INSERT INTO d.t (x) VALUES (1)")
    yield engine
    engine.close()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1 AS a; COPY (SELECT 1) TO 'x'",
        "COPY d.t TO 'x'",
        "SELECT sql AS a FROM duckdb_views",
        "WITH b AS (SELECT sql AS a FROM duckdb_views), duckdb_views AS (SELECT 1 AS sql) SELECT * FROM b",
        "SELECT version() AS a",
        "SELECT CAST(1 AS NUMERIC(`10, 2)) AS NUMERIC), version(), CAST(CAST(1 AS DECIMAL(10`, 2)) AS a",
    ],
)
def test_a_forged_view_is_refused_when_it_is_read(engine: Engine, text: str) -> None:
    run(engine, "CREATE VIEW d.v AS SELECT 1 AS a")
    name = CatalogTables(engine.catalog, "p", "d").name(("d", "v"))
    engine.catalog.update_table(
        name, lambda now: msgspec.structs.replace(now, info={**now.info, "view": {"query": text}})
    )
    with pytest.raises(QueryError):
        select(engine, "SELECT a FROM d.v")


@pytest.mark.parametrize(
    "text",
    [
        "CREATE FUNCTION d.f() AS (version())",
        "CREATE FUNCTION d.f() AS ((SELECT COUNT(*) FROM duckdb_views))",
        "CREATE FUNCTION d.f() AS (1); COPY d.t TO 'x'",
        "SELECT 1",
    ],
)
def test_a_forged_function_is_refused_when_it_is_called(engine: Engine, text: str) -> None:
    run(engine, "CREATE FUNCTION d.f() AS (1)")
    engine.catalog.update_dataset(
        DATASET, lambda now: msgspec.structs.replace(now, routines={**now.routines, "f": text})
    )
    with pytest.raises(QueryError):
        select(engine, "SELECT d.f() AS a")


def forged(monkeypatch: pytest.MonkeyPatch, change: Callable[[TableSchema], TableSchema]) -> None:
    """Give tables other columns than the catalog would store."""
    stored = CatalogTables.definition

    def definition(self: CatalogTables, name: Any) -> Any:
        found = stored(self, name)
        return msgspec.structs.replace(found, schema=change(found.schema))

    monkeypatch.setattr(CatalogTables, "definition", definition)


@pytest.mark.parametrize(
    "text", ["version()", "1 FROM duckdb_views", "1, 2", "(SELECT COUNT(*) FROM duckdb_views)", "1; SELECT 2"]
)
def test_a_forged_default_of_a_column_is_refused_when_it_is_used(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    forged(
        monkeypatch,
        lambda now: TableSchema(
            tuple(msgspec.structs.replace(each, default=text if each.name == "y" else "") for each in now)
        ),
    )
    for statement in ("INSERT INTO d.t (x) VALUES (2)", "INSERT INTO d.t (x, y) VALUES (2, DEFAULT)"):
        with pytest.raises(QueryError):
            run(engine, statement)
    assert select(engine, "SELECT COUNT(*) AS n FROM d.t") == [{"n": 1}]


@pytest.mark.parametrize("column", ['x"; DROP TABLE t; --', "x', version(), '"])
def test_a_forged_column_is_a_name(engine: Engine, monkeypatch: pytest.MonkeyPatch, column: str) -> None:
    forged(
        monkeypatch,
        lambda now: TableSchema((*now.columns, msgspec.structs.replace(now.columns[0], name=column))),
    )
    assert select(engine, "SELECT * FROM d.t") == [{"x": 1, "y": 1, column: None}]
