"""The rows of tables in DuckDB: files that it reads itself, and those that it cannot reach."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

import lode
from lode.sql import Engine, Limits, QueryError, Source, parse
from lode.sql.database import Database
from lode.sql.rows import ScanRows
from lode.store.memory import MemoryStore

if TYPE_CHECKING:
    from pathlib import Path


class OneTable:
    """A lake with the table ``t``."""

    def __init__(self, rows: Any) -> None:
        self._rows = rows

    def table(self, parts: tuple[str, ...], as_of: object) -> Source:
        return Source(self._rows, self._rows.schema)


def ask(engine: Engine, query: str) -> list[dict[str, Any]]:
    return [row for batch in engine.run(parse(query)[0]).batches for row in batch.to_pylist()]


def scanned(store: Any, values: list[list[float | None]]) -> ScanRows:
    fields: list[pa.Field[Any]] = [pa.field("x", pa.float64()), pa.field("n", pa.int64())]
    schema = pa.schema(fields)
    dataset = lode.Dataset("t", store, codec=lode.Parquet(schema=schema))
    for each in values:
        dataset.write(pa.table({"x": each, "n": list(range(len(each)))}, schema=schema))
    return ScanRows(dataset.plan())


@pytest.mark.parametrize("condition", ["x > 100", "x <= 2", "x = 2.5", "NOT x < 100", "x IS NULL", "n > 1"])
def test_files_that_duckdb_reads_itself_have_the_same_rows_as_through_arrow(
    tmp_path: Path, condition: str
) -> None:
    values: list[list[float | None]] = [[1.0, math.nan, 3.0, None], [math.nan], [2.0, 2.5, math.inf, -0.0]]
    found = []
    for store, read_itself in ((str(tmp_path), True), (MemoryStore(), False)):
        with Engine(OneTable(scanned(store, values))) as made:
            found.append(repr(ask(made, f"SELECT x, n FROM t WHERE {condition} ORDER BY n, x")))
            assert bool(made._database._files) == read_itself
    assert found[0] == found[1]


def test_a_database_opens_the_files_of_its_tables_and_no_others(tmp_path: Path) -> None:
    own, other = (scanned(str(tmp_path / name), [[1.0]]) for name in ("own", "other"))
    database = Database(Limits())
    database.view("v", own, "x")
    assert database.schema("SELECT * FROM v").names == ["x"]
    for statement in (
        f"SELECT * FROM read_parquet('{other.local_files()[0]}')",
        f"COPY (SELECT 1) TO '{tmp_path / 'out'}'",
        f"SELECT * FROM glob('{tmp_path}/*')",
        "SET allowed_paths = []",
    ):
        with pytest.raises(QueryError, match="cannot be translated"):
            database.execute(statement)
        # DuckDB itself refuses it, too.
        with pytest.raises(duckdb.Error):
            database._connection.execute(statement)
    # A table that is named later is read through Arrow.
    database.view("w", other, "x")
    assert [batch.to_pylist() for batch in database.result("SELECT * FROM w")[1]] == [[{"x": 1.0}]]
    database.close()
