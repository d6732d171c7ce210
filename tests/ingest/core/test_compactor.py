"""``lode serve --compact``: small files become few beside the writers, and no row changes."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from lode.change.compact import CompactLimits, Group
from lode.errors import StoreError
from lode.format.manifest import FileRef
from lode.ingest.core import compactor as module
from lode.ingest.core.compactor import MIN_FILES, Compactor
from lode.ingest.core.strategies import StreamType
from lode.store.wrappers import Fault, FaultStore
from lode.testing.plugin import LodeServer
from support.ingest.appending import FIELDS, Call, arrow_request, batch_of
from support.ingest.changes import KEYED, create_keyed, decoded, names_in, upsert
from support.ingest.engines import PARTS, PLAIN, dataset_of, engine_on, ids_in, lake, refusal_of, rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lode.ingest.core.engine import Engine
    from lode.store.memory import MemoryStore
    from lode.store.protocol import Store


@pytest.fixture
def store() -> MemoryStore:
    return lake()


@pytest.fixture
def engine(store: MemoryStore, tmp_path: Path) -> Iterator[Engine]:
    engine = engine_on(store, tmp_path / "state")
    yield engine
    engine.close()


@pytest.fixture(autouse=True)
def without_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WORK_SHARE", 1.0)
    monkeypatch.setattr(module, "_PAUSE_SECONDS", 0.01)


def append(engine: Engine, ids: range, table: Any = PLAIN) -> None:
    """One commit, and so one file, for each row."""
    for id in ids:
        assert refusal_of(engine.append(table, rows([id]))) is None


def files_in(store: Store, table: Any = PLAIN) -> int:
    return len(dataset_of(store, table).plan().paths)


def compactor_of(engine: Engine) -> Compactor:
    return Compactor(engine.writers, engine.metrics)


def test_small_files_become_one_and_the_rows_stay(engine: Engine, store: MemoryStore) -> None:
    append(engine, range(20))
    assert files_in(store) == 20
    assert compactor_of(engine).run_once() == 1
    assert files_in(store) == 1
    assert sorted(ids_in(store, PLAIN)) == list(range(20))


def test_a_table_with_few_new_commits_is_left_alone(engine: Engine, store: MemoryStore) -> None:
    append(engine, range(MIN_FILES - 1))
    compactor = compactor_of(engine)
    assert compactor.run_once() == 0
    append(engine, range(MIN_FILES - 1, MIN_FILES))
    assert compactor.run_once() == 1
    assert compactor.run_once() == 0
    assert files_in(store) == 1


def test_each_partition_is_compacted_for_itself(engine: Engine, store: MemoryStore) -> None:
    append(engine, range(10), PARTS)
    append(engine, range(10, 13), PARTS)
    assert compactor_of(engine).run_once() == 1
    assert files_in(store, PARTS) == 1 + 3


def test_two_servers_do_not_compact_in_a_ring(store: MemoryStore, tmp_path: Path) -> None:
    engines = [engine_on(store, tmp_path / str(number)) for number in range(2)]
    compactors = [compactor_of(engine) for engine in engines]
    for number, engine in enumerate(engines):
        append(engine, range(number * 10, number * 10 + 10))
    done = [sum(compactor.run_once() for compactor in compactors) for _ in range(4)]
    assert done == [1, 0, 0, 0]
    for engine in engines:
        engine.close()
    assert sorted(ids_in(store, PLAIN)) == list(range(20))


def test_two_servers_that_write_and_compact_at_once_lose_nothing(store: MemoryStore, tmp_path: Path) -> None:
    engines = [engine_on(store, tmp_path / str(number)) for number in range(2)]
    compactors = [compactor_of(engine) for engine in engines]
    for compactor in compactors:
        compactor.start()
    threads = [
        threading.Thread(target=append, args=(engine, range(number * 100, number * 100 + 40)))
        for number, engine in enumerate(engines)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for compactor in compactors:
        compactor.stop()
    for engine in engines:
        engine.close()
    assert sorted(ids_in(store, PLAIN)) == [*range(40), *range(100, 140)]


def test_streams_keep_their_offsets_through_a_compaction(engine: Engine, store: MemoryStore) -> None:
    stream = engine.create_stream(PLAIN, StreamType.COMMITTED)
    compactor = compactor_of(engine)
    for offset in range(20):
        assert refusal_of(stream.append(rows([offset]), offset)) is None
        compactor.run_once()
    assert ids_in(store, PLAIN) == list(range(20))
    assert files_in(store) < 10


def test_changes_go_on_beside_a_compaction(tmp_path: Path, store: MemoryStore) -> None:
    definition = create_keyed(store)
    engine = engine_on(store, tmp_path / "state")
    compactor = compactor_of(engine)
    for id in range(12):
        change = decoded(definition, [upsert(id, "a", "1"), upsert(0, f"{id}", f"{id + 1:X}")])
        assert refusal_of(engine.append(KEYED, change)) is None
        compactor.run_once()
    engine.close()
    assert names_in(store) == {0: "11"} | dict.fromkeys(range(1, 12), "a")


def test_a_failed_compaction_changes_nothing_and_later_commits_try_again(
    store: MemoryStore, tmp_path: Path
) -> None:
    is_down = False
    faults = FaultStore(store, Fault(path=lambda _: is_down, times=None, error=StoreError("down")))
    engine = engine_on(faults, tmp_path / "state")
    append(engine, range(MIN_FILES))
    compactor = compactor_of(engine)
    is_down = True
    assert compactor.run_once() == 0
    is_down = False
    assert files_in(store) == MIN_FILES
    append(engine, range(MIN_FILES, 2 * MIN_FILES))
    assert compactor.run_once() == 1
    engine.close()
    assert sorted(ids_in(store, PLAIN)) == list(range(2 * MIN_FILES))


def test_a_commit_that_lands_during_a_compaction_does_not_fail_it(engine: Engine, store: MemoryStore) -> None:
    append(engine, range(MIN_FILES))
    compactor = compactor_of(engine)
    rewrite = compactor._workers.each

    def rewrite_then_append(*given: Any) -> list[Any]:
        done = rewrite(*given)
        append(engine, range(100, 103))
        return done

    compactor._workers.each = rewrite_then_append  # type: ignore[assignment,method-assign]
    assert compactor.run_once() == 1
    assert files_in(store) == 1 + 3
    assert sorted(ids_in(store, PLAIN)) == [*range(MIN_FILES), 100, 101, 102]


def test_the_work_of_one_commit_is_bounded() -> None:
    groups = [Group("", [FileRef(f"{number}-{each}", 10) for each in range(8)]) for number in range(5)]
    small = Group("", [FileRef("a", 1), FileRef("b", 1)])
    assert CompactLimits(8, 20).apply([small, *groups]) == groups[:2]
    assert CompactLimits(8, None, 100).apply(groups) == groups[:1]
    assert CompactLimits(8, 1, 1).apply(groups) == groups[:1]


def test_a_compactor_stops_between_groups_and_leaves_no_file_behind(
    engine: Engine, store: MemoryStore
) -> None:
    append(engine, range(20))
    before = sorted(info.path for info in store.list(""))
    compactor = compactor_of(engine)
    compactor._stopping.set()
    assert compactor._compact(engine.writers()[0]) is False
    assert sorted(info.path for info in store.list("")) == before


def test_a_server_with_the_option_compacts_and_counts_it(tmp_path: Path) -> None:
    server = LodeServer(tmp_path / "lake", compact=True)
    try:
        name = server.create_table("p.d.t", FIELDS)
        with Call(server.write_client()) as call:
            for id in range(20):
                call.ask(arrow_request(f"{name}/streams/_default", batch_of([id])))
        deadline = time.monotonic() + 120
        while len(server.dataset("p.d.t").plan().paths) > 12 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert len(server.dataset("p.d.t").plan().paths) <= 12
        ids: list[Any] = server.rows("p.d.t").column("id").to_pylist()
        assert sorted(ids) == list(range(20))
        assert "lode_compactions_total" in server._running.engine.metrics.text().decode()
    finally:
        server.stop()


def test_a_server_without_the_option_does_not_compact(tmp_path: Path) -> None:
    server = LodeServer(tmp_path / "lake")
    try:
        assert server._running._server._compactor._thread is None
    finally:
        server.stop()
