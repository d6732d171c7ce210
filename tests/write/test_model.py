"""A dataset against a list: whatever several writers do, history is what the model says."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

import lode
from lode.store.memory import MemoryStore
from lode.store.wrappers import Fault, FaultStore, SimulatedCrash

WRITERS = st.sampled_from(["one", "two", "three"])
PARTITIONS = st.sampled_from(["x", "y"])


class DatasetMachine(RuleBasedStateMachine):
    """Three writers with their own view of one store; the model is the list of committed rows."""

    snapshots: Bundle[lode.Snapshot] = Bundle("snapshots")

    @initialize()
    def begin(self) -> None:
        self.store = MemoryStore()
        self.writers = {name: self.open(self.store) for name in ("one", "two", "three")}
        self.model: list[tuple[str, dict[str, Any]]] = []
        # How much of history each writer knows: up to its last commit or the one it lost to. One that never
        # wrote looks with its first write. ``latest()`` looks again. Other reads do not count.
        self.known: dict[str, int | None] = dict.fromkeys(self.writers)
        self.keys: dict[str, str] = {}
        self.counter = 0

    def open(self, store: lode.Store) -> lode.Dataset:
        schema = {"p": "string!", "n": "int64!"}
        return lode.Dataset("d", store, codec=lode.JSONL(schema), layout=lode.HiveLayout("p"))

    def row(self, partition: str) -> dict[str, Any]:
        self.counter += 1
        return {"p": partition, "n": self.counter}

    def conflicts(self, known: int | None, partition: str) -> bool:
        return known is not None and any(row["p"] == partition for _, row in self.model[known:])

    def written(self, who: str, row: dict[str, Any], known: int | None, **options: Any) -> lode.Snapshot:
        """Write a row, a second time if the model says that the first is a conflict."""
        if self.conflicts(known, row["p"]):
            with pytest.raises(lode.SnapshotConflictError) as caught:
                self.writers[who].write([row], **options)
            snapshot: lode.Snapshot = caught.value.transaction.commit()
        else:
            snapshot = self.writers[who].write([row], **options)
        self.model.append((snapshot.id, row))
        self.known[who] = len(self.model)
        return snapshot

    @rule(target=snapshots, who=WRITERS, partition=PARTITIONS)
    def write(self, who: str, partition: str) -> lode.Snapshot:
        return self.written(who, self.row(partition), self.known[who])

    @rule(target=snapshots, who=WRITERS, partition=PARTITIONS, base=snapshots)
    def write_what_depends_on(self, who: str, partition: str, base: lode.Snapshot) -> lode.Snapshot:
        ids = [id for id, _ in self.model]
        return self.written(who, self.row(partition), ids.index(base.id) + 1, base=base)

    @rule(target=snapshots, who=WRITERS, partition=PARTITIONS)
    def append(self, who: str, partition: str) -> lode.Snapshot:
        return self.written(who, self.row(partition), None, on_conflict="append")

    @rule(who=WRITERS, partition=PARTITIONS, key=st.sampled_from(["k1", "k2"]))
    def write_once(self, who: str, partition: str, key: str) -> None:
        if self.known[who] is None:
            self.known[who] = len(self.model)
        row = self.row(partition)
        if key in self.keys:
            assert self.writers[who].write([row], idempotency_key=key).id == self.keys[key]
        else:
            self.keys[key] = self.written(who, row, self.known[who], idempotency_key=key).id

    @rule(partition=PARTITIONS, calls=st.integers(1, 9))
    def die_while_writing(self, partition: str, calls: int) -> None:
        """A process is gone before its nth call; the write is wholly there or wholly absent."""
        row = self.row(partition)
        with suppress(SimulatedCrash):
            self.open(FaultStore(self.store, Fault(nth=calls, error=SimulatedCrash))).write([row])
        self.open(self.store).settle()
        ids = [snapshot.id for snapshot in self.open(self.store).snapshots()]
        if len(ids) > len(self.model):
            self.model.append((ids[-1], row))

    @rule(who=WRITERS)
    def look(self, who: str) -> None:
        try:
            assert self.writers[who].latest().id == self.model[-1][0]
        except lode.NoSnapshotsError:
            assert not self.model
        else:
            self.known[who] = len(self.model)

    @rule(who=WRITERS)
    def read(self, who: str) -> None:
        assert self.writers[who].plan().count() == len(self.model)
        assert self.writers[who].exists == bool(self.model)

    @rule(snapshot=snapshots)
    def read_back(self, snapshot: lode.Snapshot) -> None:
        expected = [row for id, row in self.model if id == snapshot.id]
        assert self.open(self.store).read(snapshot.id) == expected

    @rule(snapshot=snapshots)
    def travel_in_time(self, snapshot: lode.Snapshot) -> None:
        ids = [id for id, _ in self.model]
        expected = [row for _, row in self.model[: ids.index(snapshot.id) + 1]]
        assert self.open(self.store).scan(as_of=snapshot).read_all().to_pylist() == expected

    @invariant()
    def history_is_the_model(self) -> None:
        snapshots = self.open(self.store).snapshots()
        assert [snapshot.id for snapshot in snapshots] == [id for id, _ in self.model]
        parents = [None, *[id for id, _ in self.model]]
        assert [snapshot.parent_id for snapshot in snapshots] == parents[: len(snapshots)]


TestDataset = DatasetMachine.TestCase
TestDataset.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
