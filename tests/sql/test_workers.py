"""Queries in processes of their own: the same answers and errors, and what happens when a process ends."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

import lode
from lode.sql import Engine, LimitError, Limits, QueryError, Source, parse
from lode.sql.database import Database
from lode.sql.rows import ScanRows
from lode.sql.workers import Workers
from lode.store.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_NUMBERS = "UNNEST(GENERATE_ARRAY(1, 1000000))"
ENDLESS = f"SELECT SUM(MOD(a * b, 7)) AS s FROM {_NUMBERS} a, {_NUMBERS} b"


class OneTable:
    """A lake with the table ``t``."""

    def __init__(self, rows: Any = None) -> None:
        self._rows = pa.table({"id": [1, 2, 3]}) if rows is None else rows

    def table(self, parts: tuple[str, ...], as_of: object) -> Source:
        return Source(self._rows, self._rows.schema)


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    made = Workers()
    yield made
    made.close()


def engine(workers: Workers | None, rows: Any = None, **limits: Any) -> Engine:
    return Engine(OneTable(rows), Limits(**limits), open_database=workers.open if workers else Database)


def ask(engine: Engine, query: str) -> list[dict[str, Any]]:
    return [row for batch in engine.run(parse(query)[0]).batches for row in batch.to_pylist()]


def outcome(workers: Workers | None, query: str) -> Any:
    """The rows of a query with the types of its columns, or its error."""
    try:
        with engine(workers) as made:
            result = made.run(parse(query)[0])
            return result.schema.to_string(), [batch.to_pylist() for batch in result.batches]
    except QueryError as error:
        return type(error), str(error), error.reason, error.location


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, [1, id] AS a, STRUCT(id AS x) AS s, NUMERIC '1.5' AS n, b'x' AS b FROM t",
        "SELECT FORMAT('%d-%s', id, 'x') AS f, PARSE_JSON('{\"a\": 1}') AS j, INTERVAL 1 DAY AS i FROM t",
        "SELECT id FROM t WHERE id > 10",
        "SELECT missing FROM t",
        "SELECT 1 / 0",
        "SELECT PARSE_NUMERIC('x')",
        "SELECT 9223372036854775807 + id FROM t",
    ],
)
def test_a_process_answers_as_the_server_itself_does(workers: Workers, query: str) -> None:
    assert outcome(workers, query) == outcome(None, query)


def test_a_query_whose_process_is_killed_fails_with_one_error_and_the_next_one_works(
    workers: Workers,
) -> None:
    with engine(workers) as made:
        result = made.run(parse(ENDLESS)[0])
        os.kill(made._database._process._process.pid, signal.SIGKILL)
        with pytest.raises(QueryError, match=r"has ended \(signal 9\).*send the query again") as caught:
            list(result.batches)
    assert caught.value.reason == "backendError"
    with engine(workers) as made:
        assert ask(made, "SELECT SUM(id) AS s FROM t") == [{"s": 6}]


def test_a_process_that_ended_while_it_was_idle_is_replaced(workers: Workers) -> None:
    with engine(workers) as made:
        first = made._database._process._process
    first.kill()
    first.wait()
    with engine(workers) as made:
        assert made._database._process._process.pid != first.pid
        assert ask(made, "SELECT COUNT(*) AS n FROM t") == [{"n": 3}]


def test_a_query_that_takes_too_long_ends_and_its_process_takes_the_next_one(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lode.sql.engine._MAX_INTERRUPTS", 1 << 20)  # it is never killed, however slow it is
    with engine(workers, seconds=0.2) as made:
        process = made._database._process
        with pytest.raises(LimitError, match=r"time limit of 0\.2 seconds"):
            ask(made, ENDLESS)
    with engine(workers) as made:
        assert made._database._process is process
        assert ask(made, "SELECT MAX(id) AS n FROM t") == [{"n": 3}]


def test_a_process_that_does_not_react_is_killed(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lode.sql.workers.RemoteDatabase.interrupt", lambda _self: None)
    monkeypatch.setattr("lode.sql.engine._MAX_INTERRUPTS", 2)
    with engine(workers, seconds=0.1) as made, pytest.raises(LimitError, match="time limit"):
        ask(made, ENDLESS)


def test_rows_that_are_not_read_do_not_stand_before_the_next_answer(workers: Workers) -> None:
    with engine(workers) as made:
        result = made.run(parse(f"SELECT a, REPEAT('x', 100) AS x FROM {_NUMBERS} a")[0])
        assert next(result.batches).num_rows
        assert ask(made, "SELECT COUNT(*) AS n FROM t") == [{"n": 3}]


def test_a_query_whose_rows_nobody_reads_ends(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lode.sql.workers._STOP_SECONDS", 3600.0)
    with engine(workers) as made:
        process = made._database._process
        made.run(parse(ENDLESS)[0])
    with engine(workers) as made:
        assert made._database._process is process


def test_a_result_is_bounded_in_the_server(workers: Workers) -> None:
    with engine(workers, result_bytes=1 << 20) as made, pytest.raises(LimitError, match="too large"):
        ask(made, f"SELECT a FROM {_NUMBERS} a")


def test_no_process_is_left_when_its_server_is_killed() -> None:
    program = (
        "import sys; from lode.sql.database import Limits; from lode.sql.workers import Workers\n"
        "database = Workers().open(Limits())\n"
        "rows = 'SELECT 1 AS a UNION ALL SELECT a + 1 FROM r WHERE a < 1000000000'\n"
        "database.result(f'WITH RECURSIVE r AS ({rows}) SELECT sum(a) FROM r')\n"
        "print('computing', flush=True); sys.stdin.read()"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe, stderr=pipe) as server:
        assert server.stdout is not None
        assert server.stderr is not None
        assert server.stdout.readline() == b"computing\n"
        server.kill()
        # It has this pipe from the server, so the pipe ends when both have.
        assert server.stderr.read() == b""


def test_closing_ends_every_process() -> None:
    made = Workers()
    used, idle = made.open(Limits()), made.open(Limits())
    idle.close()
    made.close()
    assert [each._process._process.poll() for each in (used, idle)] == [-signal.SIGKILL] * 2
    with pytest.raises(QueryError, match="The server stops"), engine(made):
        pass


# -- files of this machine ----------------------------------------------------------------------------------


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
        with engine(None, scanned(store, values)) as made:
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
