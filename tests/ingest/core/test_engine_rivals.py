"""Two servers, each with its own state, write to the same tables of one lake."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import msgspec
import pytest

from lode.errors import StoreError
from lode.ingest.core.progress import METADATA
from lode.ingest.core.strategies import StreamType
from lode.ingest.status import Code, Refused
from lode.store.wrappers import CountingStore, Fault, FaultStore
from support.ingest.engines import (
    PLAIN,
    TABLES,
    WIDER,
    append,
    dataset_of,
    engine_on,
    ids_in,
    is_one_line,
    lake,
    refusal_of,
    rows,
    until_done,
)
from support.ingest.jobs import JOBS, OTHERS, Job, check
from support.ingest.late import LateStore, lost

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lode.ingest.core.engine import Engine
    from lode.ingest.names import TableName

COMMITTED, PENDING, BUFFERED = StreamType.COMMITTED, StreamType.PENDING, StreamType.BUFFERED


class Client(threading.Thread):
    """Writes its hundreds to a table through one server, with every type of stream; keeps its error."""

    def __init__(self, engine: Engine, table: TableName, first: int) -> None:
        super().__init__()
        self._engine = engine
        self._table = table
        self._first = first
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self._write()
        except BaseException as error:
            self.error = error

    def _write(self) -> None:
        committed, buffered, pending = (
            self._engine.create_stream(self._table, kind) for kind in (COMMITTED, BUFFERED, PENDING)
        )
        for at in range(0, 20, 2):
            first = self._first + at
            under_way = [
                committed.append(rows([first, first + 1]), at),
                buffered.append(rows([first + 20, first + 21]), at),
                pending.append(rows([first + 40, first + 41]), at),
                self._engine.append(self._table, rows([first + 60, first + 61])),
            ]
            assert [refusal_of(answer) for answer in under_way] == [None] * 4
            until_done(lambda at=at: self._engine.flush(buffered.name, at + 1))  # type: ignore[misc]
        self._engine.finalize(pending.name)
        assert not self._engine.batch_commit(self._table, [pending.name]).problems


def test_rows_without_offsets_are_committed_without_reading_the_history_of_others_first(
    tmp_path: Path,
) -> None:
    store = lake()
    counted = CountingStore(store)
    engines = engine_on(counted, tmp_path / "one"), engine_on(store, tmp_path / "two")
    default = [engine.stream(PLAIN.default_stream) for engine in engines]
    for number in range(3):
        append(default[0], [number])
        append(default[1], [number])
    before = len(counted.events)
    append(default[0], [3])
    looks = [path for method, path in counted.events[before:] if method == "get" and path.endswith("/latest")]
    assert len(looks) == 1
    for engine in engines:
        engine.close()


def test_rows_with_offsets_find_a_late_commit_behind_commits_that_were_not_read(tmp_path: Path) -> None:
    store = lake()
    engine = engine_on(store, tmp_path)
    committed, default = engine.create_stream(PLAIN, COMMITTED), engine.stream(PLAIN.default_stream)
    append(default, [0])
    # As if a commit that this server had sent, and that got no answer, landed now.
    late = {METADATA: {"streams": {committed.name.stream: 2}}}
    dataset_of(store, PLAIN).write([{"id": 1, "text": ""}, {"id": 2, "text": ""}], late)
    append(default, [3])
    append(default, [4])
    refusal = refusal_of(committed.append(rows([1, 2]), 0))
    assert refusal is not None
    assert refusal.code is Code.ABORTED
    with pytest.raises(Refused) as again:
        committed.append(rows([1, 2]), 0)
    assert again.value.code is Code.ALREADY_EXISTS
    assert sorted(ids_in(store, PLAIN)) == [0, 1, 2, 3, 4]
    engine.close()


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.table)
def test_no_row_is_lost_or_doubled_by_two_servers_on_one_table(table: TableName, tmp_path: Path) -> None:
    store = lake()
    engines = [engine_on(store, tmp_path / name) for name in ("one", "two")]
    clients = [Client(engines[number % 2], table, first) for number, first in enumerate(range(0, 400, 100))]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    for engine in engines:
        engine.close()
    assert [client.error for client in clients] == [None] * 4
    found = ids_in(store, table)
    assert sorted(found) == [id for id in range(400) if id % 100 < 80]
    if table == PLAIN:
        for start in range(0, 400, 20):
            mine = [id for id in found if start <= id < start + 20]
            assert mine == sorted(mine)
    assert is_one_line(store, table)


@pytest.mark.parametrize("make", JOBS)
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.table)
def test_reading_the_history_may_fail_at_any_call(
    make: Callable[[TableName], Job], table: TableName, tmp_path: Path
) -> None:
    """A commit landed late, and others followed it; then a call fails while the server reads them."""
    calls = retry_with_a_fault(make(table), None, tmp_path / "all")
    assert calls > 5
    for call in range(1, calls + 1):
        retry_with_a_fault(make(table), call, tmp_path / str(call))


def retry_with_a_fault(job: Job, call: int | None, state: Path) -> int:
    """Return the number of calls of the retry."""
    late = LateStore(lake())
    counted = CountingStore(late)
    store = FaultStore(counted)
    other = engine_on(late, state / "two")
    other.append(job.table, rows([OTHERS])).result(timeout=120)
    engine = lost(late, job, state / "one", store)
    assert late.land()
    for id in range(OTHERS + 1, OTHERS + 4):
        other.append(job.table, rows([id])).result(timeout=120)
    other.close()
    # Its writer opens the dataset again, and has to read all of it.
    engine.catalog.update_table(job.table, lambda found: msgspec.structs.replace(found, schema=WIDER))
    before = counted.total
    if call is not None:
        store.add(Fault(nth=call, error=StoreError("a fault")))
    job.insist(engine)
    calls = counted.total - before
    engine.close()
    check(late, job)
    return calls
