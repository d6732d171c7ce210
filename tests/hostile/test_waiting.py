"""Hostile and damaged slots: a leader passes over them, commits the others, and needs little memory."""

from __future__ import annotations

import json
import tracemalloc
from typing import TYPE_CHECKING, Any, Final

import pytest

import lode
from lode.format.group import encode_waiting
from lode.runtime import Runtime
from lode.store.memory import MemoryStore
from lode.store.wrappers import CountingStore
from lode.write import group

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.snapshot import Snapshot

ROOT: Final = "datasets/d"
# In the past of every clock.
NOW: Final = 1_700_000_000_000_000_000
VALID: Final = "valid"


class Distant(CountingStore):
    """A store that is not nearby, so writers commit in groups."""

    nearby = False


def dataset(store: lode.Store, dataset_id: str = "d") -> lode.Dataset:
    # The clock stands still, so the head is always young. Chance 0 makes a writer try to lead.
    runtime = Runtime(
        now_ns=lambda: NOW, sleep=lambda _: None, random=lambda: 0.0, background=lambda chore: chore()
    )
    return lode.Dataset(dataset_id, store, codec="jsonl", layout=lode.HiveLayout("part"), runtime=runtime)


def write(store: lode.Store, part: str, **options: Any) -> Snapshot:
    return dataset(store).write([{"part": part}], on_conflict="append", **options)


@pytest.fixture
def store() -> Distant:
    """A dataset of three snapshots, whose newest one was committed in a crowd."""
    store = Distant(MemoryStore())
    for part in ("first", "second", "third"):
        head = write(store, part)
    for entry in list(store.list(f"{ROOT}/")):
        if f"/{head.id}/" in entry.path and entry.path.endswith(".json"):
            crowd(store, entry.path)
    return store


def crowd(store: lode.Store, path: str) -> None:
    """Let a manifest say that its commit was rebased often."""
    document = json.loads(store.get(path))
    document["x"] = {**(document.get("x") or {}), "rebases": 9}
    store.delete(path)
    store.put(path, json.dumps(document).encode())


def draft(store: lode.Store, part: str, **options: Any) -> dict[str, Any]:
    """The manifest of another writer that waits, whose file and intent are on the store."""
    aside = Distant(MemoryStore())
    for entry in store.list(""):
        if "/waiting/" not in entry.path:
            aside.put(entry.path, store.get(entry.path))
    snapshot = write(aside, part, **options)
    for entry in aside.list(f"{ROOT}/"):
        is_staged = "/data/" in entry.path or entry.path.endswith("/intent.json")
        if is_staged and not store.exists(entry.path):
            store.put(entry.path, aside.get(entry.path))
    found: dict[str, Any] = json.loads(aside.get(f"{ROOT}/segments/{snapshot.id}/manifest.json"))
    return found


def wait(store: lode.Store, slot: int, content: dict[str, Any] | bytes, follows: Any = "any") -> None:
    """Put a draft, or whatever it is, into a slot of the head."""
    data = content if isinstance(content, bytes) else encode_waiting(follows, json.dumps(content).encode())
    store.put(f"{ROOT}/waiting/{dataset(store).latest().id}/{slot}.json", data)


def committed(store: Distant, *expected: str) -> list[Snapshot]:
    """Lead a group; check that these parts were committed behind the first three, in one line."""
    snapshot = write(store, "leader")
    found = dataset(store).snapshots()
    assert [each.sequence for each in found] == list(range(1, len(found) + 1))
    assert lode.verify(dataset(store)).problems == ()
    rows = [row["part"] for row in dataset(store).scan().read_all().to_pylist()]
    assert sorted(rows) == sorted(["first", "second", "third", *expected, "leader"])
    assert found[-1].id == snapshot.id
    assert snapshot.commit is not None
    assert snapshot.commit.group == len(expected) + 1
    return found


def test_drafts_in_slots_are_committed_with_the_leader(store: Distant) -> None:
    drafts = [draft(store, f"p{number}") for number in range(3)]
    for slot, content in enumerate(drafts, 1):
        wait(store, slot, content)
    found = committed(store, "p0", "p1", "p2")
    assert [each.id for each in found[3:-1]] == [content["snapshot_id"] for content in drafts]


GARBAGE: Final[dict[str, bytes]] = {
    "nothing": b"",
    "zeros": b"\0" * 100,
    "no text": b"\xff\xfe" * 50,
    "cut short": b'{"follows": "any", "manifest": {"schema_na',
    "deep": b"[" * 100_000,
    "deep manifest": b'{"follows": "any", "manifest": ' + b'{"x":' * 50_000 + b"1" + b"}" * 50_000 + b"}",
    "no object": b"[1, 2]",
    "no draft": b'{"swept": true}',
    "no manifest": b'{"follows": "any", "manifest": 7}',
    "too large": b'{"follows": "any", "manifest": {"x": "' + b"x" * (3 << 20) + b'"}}',
}


@pytest.mark.parametrize("name", GARBAGE)
def test_a_slot_with_garbage_is_passed_over(store: Distant, name: str) -> None:
    wait(store, 1, GARBAGE[name])
    wait(store, 2, draft(store, VALID))
    committed(store, VALID)


CHANGES: Final[dict[str, Callable[[dict[str, Any]], Any]]] = {
    "of another dataset": lambda found: found.update(dataset_id="e"),
    "of another head": lambda found: found.update(parent_snapshot_id="20270101T000000Z-0000000000000001"),
    "without a parent": lambda found: found.update(parent_snapshot_id=None),
    "of another number": lambda found: found.update(sequence=found["sequence"] + 1),
    "of the first number": lambda found: found.update(sequence=1),
    "without a number": lambda found: found.pop("sequence"),
    "of another beginning": lambda found: found["x"].update(begins=3),
    "that drops": lambda found: found["x"].update(operation="drop"),
    "under an id that is a path": lambda found: found.update(snapshot_id="../../other"),
    "under the id of the head": lambda found: found.update(snapshot_id=found["parent_snapshot_id"]),
    "with rows that are no number": lambda found: found.update(row_count="many"),
    "with a file in no partition": lambda found: found["files"][0].update(path="datasets/e/data/other"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_draft_that_does_not_belong_there_is_passed_over(store: Distant, name: str) -> None:
    wrong = draft(store, "wrong")
    CHANGES[name](wrong)
    wait(store, 1, wrong)
    wait(store, 2, draft(store, VALID))
    committed(store, VALID)


def test_a_draft_that_follows_in_an_unknown_way_is_passed_over(store: Distant) -> None:
    wait(store, 1, draft(store, "wrong"), follows="everybody")
    wait(store, 2, draft(store, VALID))
    committed(store, VALID)


def test_a_draft_in_two_slots_is_committed_once(store: Distant) -> None:
    twice = draft(store, VALID)
    wait(store, 1, twice)
    wait(store, 3, twice)
    committed(store, VALID)


def test_two_drafts_under_one_id_are_one(store: Distant) -> None:
    one, other = draft(store, VALID), draft(store, "other")
    wait(store, 1, one)
    wait(store, 2, {**other, "snapshot_id": one["snapshot_id"]})
    committed(store, VALID)


def test_two_drafts_under_one_key_are_committed_once(store: Distant) -> None:
    wait(store, 1, draft(store, VALID, idempotency_key=("w", "k")))
    wait(store, 2, draft(store, "again", idempotency_key=("w", "k")))
    committed(store, VALID)


def test_a_draft_under_the_key_of_the_leader_is_left_out(store: Distant) -> None:
    wait(store, 1, draft(store, "again", idempotency_key=("w", "k")))
    write(store, "leader", idempotency_key=("w", "k"))
    assert sorted(row["part"] for row in dataset(store).scan().read_all().to_pylist()) == [
        "first", "leader", "second", "third",
    ]  # fmt: skip
    assert write(store, "leader", idempotency_key=("w", "k")).id == dataset(store).latest().id


def test_a_draft_of_an_unknown_definition_is_not_committed(store: Distant) -> None:
    wrong = draft(store, "wrong")
    wrong["x"]["definition"] = "0" * 64
    wait(store, 1, wrong)
    committed(store)


def test_a_thousand_slots_are_committed_with_one_swap(store: Distant) -> None:
    like = draft(store, VALID)
    for slot in range(1, 1000):
        wait(store, slot, {**like, "snapshot_id": f"{like['snapshot_id'][:-4]}{slot:04}", "files": []})
    store.reset()
    snapshot = write(store, "leader")
    swaps = [
        path for method, path in store.events if method == "compare_and_swap" and path.endswith("latest")
    ]
    assert len(swaps) == 1
    assert snapshot.sequence == 3 + 1000
    assert [each.sequence for each in dataset(store).snapshots()] == list(range(1, 1004))


def test_a_thousand_large_slots_take_little_memory(store: Distant) -> None:
    like = draft(store, VALID)
    like["metadata"] = {"text": "x" * (group.MAX_WAITING_BYTES - 4096)}
    for slot in range(1, 500):
        small = {**like, "snapshot_id": f"{like['snapshot_id'][:-4]}{slot:04}", "files": [], "metadata": {}}
        wait(store, slot, small)
    head = dataset(store).latest().id
    large = encode_waiting("any", json.dumps(like).encode())
    for slot in range(500, 1000):
        store.put(f"{ROOT}/waiting/{head}/{slot}.json", large)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        snapshot = write(store, "leader")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert snapshot.commit is not None
    assert snapshot.commit.group > 100
    assert peak - before < 10 * group.MAX_GROUP_BYTES
