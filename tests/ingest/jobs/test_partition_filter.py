"""Tables that require a partition filter: which statements are refused, and which are not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lode.ingest.catalog.catalog import Catalog
from lode.ingest.catalog.dataset import DatasetName
from lode.sql.errors import QueryError
from lode.store.memory import MemoryStore
from support.ingest.engines import engine_on
from support.ingest.sql import run, select

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lode.ingest.core.engine import Engine

PREPARED = """CREATE TABLE d.t (n INT64, day DATE) PARTITION BY day OPTIONS (require_partition_filter = TRUE);
    CREATE TABLE d.arrived (n INT64) PARTITION BY _PARTITIONDATE OPTIONS (require_partition_filter = TRUE);
    CREATE TABLE d.u (n INT64, day DATE);
    CREATE VIEW d.v AS SELECT n, day FROM d.t;
    CREATE VIEW d.w AS SELECT * FROM d.v;
    INSERT INTO d.t VALUES (1, '2026-01-01'), (2, '2026-01-02')"""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    store = MemoryStore()
    Catalog(store).create_dataset(DatasetName("p", "d"))
    engine = engine_on(store, tmp_path_factory.mktemp("filters") / "state")
    run(engine, PREPARED)
    yield engine
    engine.close()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM d.t",
        "SELECT COUNT(*) FROM d.t",
        "SELECT n FROM d.t WHERE n = 1",
        "SELECT n, day FROM d.t ORDER BY day",
        "SELECT n FROM d.t WHERE day = '2026-01-01' OR n = 1",
        "SELECT n FROM d.t WHERE day = '2026-01-01' UNION ALL SELECT n FROM d.t",
        "SELECT a.n FROM d.t AS a JOIN d.t AS b ON a.n = b.n WHERE a.day = '2026-01-01'",
        "SELECT n FROM d.u WHERE n IN (SELECT n FROM d.t)",
        "SELECT n FROM d.v",
        "SELECT n FROM d.w WHERE n = 1",
        "INSERT INTO d.u SELECT * FROM d.t",
        "CREATE TABLE d.made AS SELECT * FROM d.t",
        "UPDATE d.t SET n = 3 WHERE n = 1",
        "DELETE FROM d.t WHERE TRUE",
        "MERGE d.t AS t USING d.u AS u ON t.n = u.n WHEN MATCHED THEN DELETE",
        "MERGE d.u AS u USING d.t AS t ON t.n = u.n WHEN MATCHED THEN DELETE",
    ],
)
def test_a_statement_without_a_filter_is_refused(engine: Engine, query: str) -> None:
    message = (
        r"^Cannot query over table 'p\.d\.t' without a filter over column\(s\) 'day' that can be used for "
        "partition elimination$"
    )
    for dry in (True, False):
        with pytest.raises(QueryError, match=message) as raised:
            run(engine, query, dry=dry)
        assert (raised.value.reason, raised.value.location) == ("invalidQuery", "query")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT n FROM d.t WHERE day = '2026-01-01'",
        "SELECT n FROM d.t AS x WHERE n = 1 AND (x.DAY < '2026-01-02' AND TRUE)",
        "SELECT n FROM (SELECT n, day FROM d.t) WHERE day BETWEEN '2025-12-31' AND '2026-01-01'",
        "WITH c AS (SELECT * FROM d.t) SELECT n FROM c WHERE day = '2026-01-01'",
        "SELECT n FROM d.v WHERE day = '2026-01-01'",
        "SELECT n FROM d.w WHERE day = '2026-01-01'",
        "DECLARE x DATE DEFAULT '2026-01-01'; SELECT n FROM d.t WHERE day = x",
        "SELECT n FROM d.t WHERE day = '2026-01-01' OR (day = '2026-01-02' AND n = 7)",
    ],
)
def test_a_filter_on_the_column_is_enough(engine: Engine, query: str) -> None:
    assert select(engine, query) == [{"n": 1}]


def test_changes_and_copies_of_the_table(engine: Engine) -> None:
    run(engine, "CREATE TABLE d.copied CLONE d.t")
    assert select(engine, "SELECT COUNT(*) AS c FROM d.copied WHERE day IS NOT NULL") == [{"c": 2}]
    assert run(engine, "UPDATE d.t SET n = 9 WHERE day = '2026-02-01'").updated == 0
    assert run(engine, "DELETE FROM d.t WHERE day = '2026-02-01'").deleted == 0
    merge = "MERGE d.t AS t USING d.u AS u ON t.day = u.day WHEN MATCHED THEN DELETE"
    assert run(engine, merge).deleted == 0


def test_a_table_by_arrival_has_its_pseudo_columns_filtered(engine: Engine) -> None:
    with pytest.raises(QueryError, match="column\\(s\\) '_PARTITIONDATE', '_PARTITIONTIME' that"):
        run(engine, "SELECT n FROM d.arrived")
    assert select(engine, "SELECT n FROM d.arrived WHERE _PARTITIONTIME > '2026-01-01'") == []
