"""Changes of rows: the last one of each key counts, whatever the order in which they arrive."""

from __future__ import annotations

import shutil
import tempfile
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import lode
from lode.ingest.catalog.partitioning import RangePartitioning
from lode.ingest.core import changes as changes_module
from lode.ingest.core.strategies import StreamType
from lode.ingest.names import TableName
from lode.ingest.status import Code
from lode.ingest.types.columns import Column, TableSchema
from lode.store.memory import MemoryStore
from lode.store.wrappers import CountingStore, Fault, FaultStore, SimulatedCrash
from support.ingest.changes import (
    KEYED,
    SCHEMA,
    Change,
    create_keyed,
    decoded,
    decoded_batch,
    delete,
    names_in,
    upsert,
)
from support.ingest.engines import dataset_of, die, engine_on, refusal_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lode.ingest.core.engine import Engine


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    create_keyed(store)
    return store


@pytest.fixture
def engine(store: MemoryStore, tmp_path: Path) -> Iterator[Engine]:
    engine = engine_on(store, tmp_path / "state")
    yield engine
    engine.close()


def send(engine: Engine, *changes: Change, table: TableName = KEYED) -> None:
    """Append changes in one request and wait for the answer."""
    batch = decoded(engine.catalog.table(table), changes)
    assert refusal_of(engine.append(table, batch)) is None


def test_an_upsert_inserts_a_row_and_then_replaces_it(engine: Engine, store: MemoryStore) -> None:
    send(engine, upsert(1, "a"), upsert(2, "b"))
    send(engine, upsert(1, "c"))
    assert names_in(store) == {1: "c", 2: "b"}


def test_a_deletion_needs_only_the_key_and_removes_the_row(engine: Engine, store: MemoryStore) -> None:
    send(engine, upsert(1, "a"), upsert(2, "b"))
    send(engine, delete(1), delete(3))
    assert names_in(store) == {2: "b"}


def test_the_last_change_of_a_key_in_a_request_counts(engine: Engine, store: MemoryStore) -> None:
    send(engine, upsert(1, "a"), delete(1), upsert(1, "b"), upsert(2, "x"), delete(2))
    assert names_in(store) == {1: "b"}


def test_the_largest_number_counts_within_a_request_and_across_requests(
    engine: Engine, store: MemoryStore
) -> None:
    send(engine, upsert(1, "new", "B/1"), upsert(1, "old", "A/FFFF"))
    send(engine, upsert(1, "older", "9"), upsert(2, "x", "1"))
    assert names_in(store) == {1: "new", 2: "x"}
    send(engine, upsert(1, "newest", "B/2"))
    assert names_in(store) == {1: "newest", 2: "x"}


def test_of_two_changes_with_the_same_number_the_later_one_counts(engine: Engine, store: MemoryStore) -> None:
    send(engine, upsert(1, "a", "5"))
    send(engine, upsert(1, "b", "0005/0"))
    assert names_in(store) == {1: "b"}


def test_an_older_change_that_arrives_after_a_deletion_does_not_bring_the_row_back(
    engine: Engine, store: MemoryStore
) -> None:
    send(engine, upsert(1, "a", "1"))
    send(engine, delete(1, "5"), delete(2, "5"))
    send(engine, upsert(1, "b", "4"), upsert(2, "c", "4"))
    assert names_in(store) == {}
    send(engine, upsert(1, "d", "6"))
    assert names_in(store) == {1: "d"}


def test_a_deletion_that_arrives_late_does_not_remove_a_newer_row(engine: Engine, store: MemoryStore) -> None:
    send(engine, upsert(1, "a", "7"))
    send(engine, delete(1, "6"))
    assert names_in(store) == {1: "a"}


def test_a_change_without_a_number_counts_by_its_arrival(engine: Engine, store: MemoryStore) -> None:
    send(engine, upsert(1, "a", "7"))
    send(engine, upsert(1, "b"))
    assert names_in(store) == {1: "b"}
    send(engine, upsert(1, "c", "1"))
    assert names_in(store) == {1: "c"}
    send(engine, upsert(1, "x", "9"), delete(1), upsert(1, "d", "2"))
    assert names_in(store) == {1: "d"}


def test_rows_that_were_appended_before_are_changed_too(engine: Engine, store: MemoryStore) -> None:
    definition = engine.catalog.table(KEYED)
    plain = pa.RecordBatch.from_pylist([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
    inserted = engine.append(KEYED, decoded_batch(definition, plain))
    changed = engine.append(KEYED, decoded(definition, [upsert(1, "c"), delete(2)]))
    assert refusal_of(inserted) is None
    assert refusal_of(changed) is None
    assert names_in(store) == {1: "c"}


def test_a_group_of_changes_is_one_snapshot(engine: Engine, store: MemoryStore) -> None:
    send(engine, upsert(1, "a"), upsert(2, "b"))
    before = len(dataset_of(store, KEYED).snapshots())
    send(engine, upsert(1, "c"), delete(2), upsert(3, "d"))
    snapshots = dataset_of(store, KEYED).snapshots()
    assert len(snapshots) == before + 1
    assert snapshots[-1].operation == "merge"


def test_changes_that_change_nothing_make_no_snapshot(engine: Engine, store: MemoryStore) -> None:
    send(engine, upsert(1, "a", "5"))
    before = len(dataset_of(store, KEYED).snapshots())
    send(engine, upsert(1, "b", "4"))
    assert len(dataset_of(store, KEYED).snapshots()) == before


def test_only_files_with_changed_keys_are_rewritten(engine: Engine, store: MemoryStore) -> None:
    for id in range(5):
        send(engine, upsert(id, "a"))
    files = set(dataset_of(store, KEYED).plan().paths)
    send(engine, upsert(3, "b"))
    assert len(files & set(dataset_of(store, KEYED).plan().paths)) == 4


def test_rows_move_between_partitions(store: MemoryStore, tmp_path: Path) -> None:
    name = TableName("p", "d", "parts")
    schema = TableSchema((Column("id", "INT64"), Column("name", "STRING"), Column("part", "INT64")))
    definition = create_keyed(store, name, schema=schema, partitioning=RangePartitioning("part", 0, 100, 10))
    engine = engine_on(store, tmp_path / "state")
    for part in (5, 25):
        row = {"id": 1, "name": f"in {part}", "part": part, "_CHANGE_TYPE": "UPSERT"}
        batch = decoded_batch(definition, pa.RecordBatch.from_pylist([row]))
        assert refusal_of(engine.append(name, batch)) is None
    engine.close()
    assert names_in(store, name) == {1: "in 25"}


def test_a_key_may_have_several_columns_of_every_type(store: MemoryStore, tmp_path: Path) -> None:
    name = TableName("p", "d", "wide")
    kinds = ("STRING", "BOOL", "DATE", "DATETIME", "TIMESTAMP", "NUMERIC", "BIGNUMERIC", "INT64")
    schema = TableSchema((*(Column(kind.lower(), kind) for kind in kinds), Column("name", "STRING")))
    definition = create_keyed(store, name, schema=schema, keys=[kind.lower() for kind in kinds])
    at = datetime(2026, 1, 2, 3, 4, 5, 6)
    row: dict[str, Any] = {
        "string": "x",
        "bool": True,
        "date": at.date(),
        "datetime": at,
        "timestamp": at.replace(tzinfo=UTC),
        "numeric": "1.5",
        "bignumeric": "-1.25",
        "int64": 7,
    }
    engine = engine_on(store, tmp_path / "state")
    for other, text in (({}, "first"), ({"string": "y"}, "other"), ({}, "second")):
        change = {**row, **other, "name": text, "_CHANGE_TYPE": "UPSERT", "_CHANGE_SEQUENCE_NUMBER": "1"}
        batch = decoded_batch(definition, pa.RecordBatch.from_pylist([change]))
        assert refusal_of(engine.append(name, batch)) is None
    engine.close()
    found = dataset_of(store, name).scan().read_all().column("name").to_pylist()
    assert sorted(map(str, found)) == ["other", "second"]


def test_keys_with_separators_are_not_confused() -> None:
    rows = pa.table({"a": ["x", "x;b:1:y", "1:x"], "b": ["y", "", "y"]})
    assert len(set(changes_module.key_texts(rows, ["a", "b"]).to_pylist())) == 3


def test_a_key_that_is_added_later_applies_to_the_rows_that_are_there(
    engine: Engine, store: MemoryStore
) -> None:
    name = TableName("p", "d", "later")
    definition = engine.catalog.create_table(name, SCHEMA)
    plain = pa.RecordBatch.from_pylist([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
    assert refusal_of(engine.append(name, decoded_batch(definition, plain))) is None
    info = {"tableConstraints": {"primaryKey": {"columns": ["ID"]}}}
    engine.catalog.update_table(name, lambda table: msgspec.structs.replace(table, info=info))
    send(engine, upsert(1, "c", "1"), table=name)
    assert names_in(store, name) == {1: "c", 2: "b"}


def test_a_table_that_lost_a_column_of_its_key_has_no_key(engine: Engine) -> None:
    definition = engine.catalog.table(KEYED)
    without = TableSchema((Column("name", "STRING"),))
    assert msgspec.structs.replace(definition, schema=without).primary_key == ()


def test_changes_go_on_after_a_column_was_added(engine: Engine, store: MemoryStore) -> None:
    send(engine, upsert(1, "a", "5"), upsert(2, "b", "5"))
    wider = TableSchema((*SCHEMA.columns, Column("more", "STRING")))
    engine.catalog.update_table(KEYED, lambda table: msgspec.structs.replace(table, schema=wider))
    send(engine, upsert(1, "old", "4"), upsert(2, "c", "6"))
    assert names_in(store) == {1: "a", 2: "c"}


def test_changes_of_a_table_without_a_key_are_refused(engine: Engine, store: MemoryStore) -> None:
    batch = decoded(engine.catalog.table(KEYED), [upsert(1, "a")])
    engine.catalog.update_table(KEYED, lambda table: msgspec.structs.replace(table, info={}))
    refusal = refusal_of(engine.append(KEYED, batch))
    assert refusal is not None
    assert refusal.code is Code.INVALID_ARGUMENT
    assert "primary key" in refusal.message
    assert names_in(store) == {}


def test_old_deletions_are_forgotten_and_their_files_put_together(
    engine: Engine, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes_module, "_COMMITS_PER_UPKEEP", 4)
    monkeypatch.setattr(changes_module, "RETENTION", timedelta(seconds=-60))
    for id in range(4):
        send(engine, delete(id, "5"))
    deleted = lode.Dataset("p.d.keyed.deleted", store)
    assert deleted.count() == 0
    monkeypatch.setattr(changes_module, "RETENTION", timedelta(days=2))
    for id in range(4):
        send(engine, delete(id, "5"))
    assert deleted.count() == 4
    assert len(deleted.plan().paths) == 1
    send(engine, upsert(3, "late", "4"))
    assert names_in(store) == {}


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_at_every_call_of_a_merge_loses_nothing_and_a_retry_completes_it(
    tmp_path: Path, when: Any
) -> None:
    crashed = True
    nth = 0
    while crashed:
        nth += 1
        store = MemoryStore()
        definition = create_keyed(store)
        first = engine_on(store, tmp_path / f"first-{nth}")
        send(first, upsert(1, "a", "1"), upsert(2, "b", "1"))
        first.close()
        changes = decoded(definition, [delete(1, "3"), upsert(2, "c", "3"), upsert(3, "d", "3")])
        faults = FaultStore(store, Fault(nth=nth, when=when, path="*keyed*"))
        engine = None
        with suppress(SimulatedCrash):
            engine = engine_on(faults, tmp_path / f"second-{nth}")
            engine.append(KEYED, changes)
        crashed = False
        if engine is not None:
            engine._pool.shutdown(wait=True)
            crashed = faults.crashed
            die(engine, faults)
        assert names_in(store) in ({1: "a", 2: "b"}, {2: "c", 3: "d"})
        last = engine_on(store, tmp_path / f"third-{nth}")
        assert refusal_of(last.append(KEYED, changes)) is None
        send(last, upsert(1, "late", "2"), upsert(3, "late", "2"))
        last.close()
        assert names_in(store) == {2: "c", 3: "d"}
    assert nth > 10


def test_a_deletion_whose_commit_is_lost_takes_effect_with_the_next_change_of_its_key(
    engine: Engine, store: MemoryStore
) -> None:
    send(engine, upsert(1, "a", "1"))
    changes_module.DeletedKeys("p.d.keyed", store).add(
        pa.array(["id:1:1;"]), pa.array([f"{5:016X}" + "0" * 48])
    )
    send(engine, upsert(1, "b", "4"))
    assert names_in(store) == {}


def test_a_row_with_the_number_of_an_earlier_deletion_came_after_it(
    engine: Engine, store: MemoryStore
) -> None:
    send(engine, delete(1, "5"))
    send(engine, upsert(1, "a", "5"))
    send(engine, upsert(1, "b", "4"))
    assert names_in(store) == {1: "a"}


def test_two_servers_change_the_same_keys(store: MemoryStore, tmp_path: Path) -> None:
    engines = [engine_on(store, tmp_path / str(number)) for number in range(2)]
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(8):
                at = f"{2 * turn + number:X}"
                kind = delete if turn % 3 == 2 else None
                send(
                    engines[number],
                    *(
                        kind(id, at) if kind and id % 2 else upsert(id, f"{number} at {at}", at)
                        for id in range(4)
                    ),
                )
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for engine in engines:
        engine.close()
    assert errors == []
    # The last round of both: number 1 has the largest sequence number, F.
    assert names_in(store) == dict.fromkeys(range(4), "1 at F")


def test_a_committed_stream_beside_changes_stores_its_rows_once(store: MemoryStore, tmp_path: Path) -> None:
    engine = engine_on(store, tmp_path / "state")
    definition = engine.catalog.table(KEYED)
    stream = engine.create_stream(KEYED, StreamType.COMMITTED)
    for id in range(3):
        row = pa.RecordBatch.from_pylist([{"id": 10 + id, "name": "plain"}])
        assert refusal_of(stream.append(decoded_batch(definition, row), id)) is None
        send(engine, upsert(10 + id, "changed"), upsert(id, "a"))
    engine.close()
    again = engine_on(store, tmp_path / "state")
    assert again.stream(stream.name).position.durable == 3
    again.close()
    assert names_in(store) == {0: "a", 1: "a", 2: "a", 10: "changed", 11: "changed", 12: "changed"}


def test_a_merge_reads_no_file_that_cannot_have_its_keys(tmp_path: Path) -> None:
    store = CountingStore(MemoryStore())
    create_keyed(store)
    engine = engine_on(store, tmp_path / "state")
    for id in range(6):
        send(engine, upsert(id, "a", "1"))
    paths = dataset_of(store, KEYED).plan().paths
    store.reset()
    send(engine, upsert(99, "a", "1"))
    assert not {path for _, path in store.events} & set(paths)
    engine.close()


IDS = st.integers(0, 4)
SEQUENCES = st.sampled_from([None, "1", "2", "3", "2/1", "A"])
CHANGES = st.builds(
    lambda kind, id, sequence: Change(kind, id, None if kind == "DELETE" else f"{id} {sequence}", sequence),
    st.sampled_from(["UPSERT", "UPSERT", "DELETE"]),
    IDS,
    SEQUENCES,
)
NUMBERED = CHANGES.map(lambda change: change._replace(sequence=change.sequence or "1"))


UNNUMBERED = CHANGES.map(lambda change: change._replace(sequence=None))


class ChangesMachine(RuleBasedStateMachine):
    """Random changes through two servers, compared with a dict. The library compacts beside them."""

    @initialize()
    def start(self) -> None:
        self.directory = Path(tempfile.mkdtemp())
        self.store = MemoryStore()
        create_keyed(self.store)
        self.engines = [engine_on(self.store, self.directory / str(number)) for number in range(2)]
        # By id: the order of the last change, and the name if the row is there.
        self.model: dict[int, tuple[tuple[int, ...], str | None]] = {}
        self.sent = 0

    @rule(
        server=st.integers(0, 1),
        batches=st.lists(st.lists(NUMBERED, min_size=1, max_size=5), min_size=1, max_size=3),
    )
    def change(self, server: int, batches: list[list[Change]]) -> None:
        engine = self.engines[server]
        definition = engine.catalog.table(KEYED)
        answers = []
        for batch in batches:
            named = [each._replace(name=each.name and f"{each.name} {self.sent}") for each in batch]
            self.sent += 1
            answers.append(engine.append(KEYED, decoded(definition, named)))
            for each in named:
                assert each.sequence is not None
                rank = tuple(int(part, 16) for part in f"{each.sequence}/0".split("/"))[:2]
                if rank >= self.model.get(each.id, ((), None))[0]:
                    self.model[each.id] = (rank, each.name)
        assert [refusal_of(answer) for answer in answers] == [None] * len(answers)

    @rule()
    def compact(self) -> None:
        dataset = dataset_of(self.store, KEYED)
        if dataset.exists:
            dataset.compact()

    @rule(server=st.integers(0, 1))
    def restart(self, server: int) -> None:
        self.engines[server].close()
        self.engines[server] = engine_on(self.store, self.directory / str(server))

    @invariant()
    def the_table_is_the_model(self) -> None:
        if hasattr(self, "model"):
            assert names_in(self.store) == {
                id: name for id, (_, name) in self.model.items() if name is not None
            }

    def teardown(self) -> None:
        for engine in getattr(self, "engines", ()):
            engine.close()
        shutil.rmtree(self.directory, ignore_errors=True)


TestChanges = ChangesMachine.TestCase
TestChanges.settings = settings(max_examples=15, stateful_step_count=12, deadline=None)


@settings(max_examples=40, deadline=None)
@given(st.lists(NUMBERED, min_size=1, max_size=8) | st.lists(UNNUMBERED, min_size=1, max_size=8))
def test_within_a_request_changes_count_as_if_they_came_one_by_one(changes: list[Change]) -> None:
    together, apart = MemoryStore(), MemoryStore()
    for store, sent in ((together, [changes]), (apart, [[change] for change in changes])):
        create_keyed(store)
        with tempfile.TemporaryDirectory() as state:
            engine = engine_on(store, Path(state))
            for request in sent:
                send(engine, *request)
            engine.close()
    assert names_in(together) == names_in(apart)
