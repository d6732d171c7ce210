"""What a dataset or volume that is shared with Go costs, who knows that it is, and how its pointer looks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import lode
from lode.errors import InvalidPathError, OutcomeUnknownError, StoreError
from lode.store import CountingStore, MemoryStore
from lode.store.wrappers import Fault, FaultStore
from support.groups import always_wait, write_group

if TYPE_CHECKING:
    from pathlib import Path

    from support.real_go import GoProcess

POINTER = "datasets/events/latest"


def shared(store: Any) -> lode.Dataset:
    return lode.Dataset.create("events", store, codec="jsonl", shared_with_go=True)


def test_a_warm_write_takes_one_call_more_than_to_a_dataset_that_is_not_shared() -> None:
    calls = []
    for is_shared in (False, True):
        store = CountingStore(MemoryStore())
        dataset = lode.Dataset.create("events", store, codec="jsonl", shared_with_go=is_shared)
        dataset.write([{"n": 1}])
        store.reset()
        dataset.write([{"n": 2}])
        calls.append(store.total)
    assert calls == [4, 5]


def test_every_later_snapshot_says_that_it_is_shared() -> None:
    store = MemoryStore()
    shared(store)
    for number in range(3):
        written = lode.Dataset("events", store).write([{"n": number}])
        assert b'"shared_with_go": true' in store.get(f"datasets/events/snapshots/{written.id}/manifest.json")
    assert lode.open_dataset("events", store).definition.shared_with_go


def test_a_snapshot_after_one_of_go_says_that_it_is_shared(go: GoProcess, tmp_path: Path) -> None:
    go.dataset(tmp_path).write([{"n": 1}])
    written = lode.Dataset("events", tmp_path).write([{"n": 2}])
    path = tmp_path / f"datasets/events/snapshots/{written.id}/manifest.json"
    assert b'"shared_with_go": true' in path.read_bytes()


def test_a_snapshot_of_what_is_not_shared_says_nothing() -> None:
    store = MemoryStore()
    written = lode.Dataset("events", store, codec="jsonl").write([{"n": 1}])
    assert b"shared_with_go" not in store.get(f"datasets/events/snapshots/{written.id}/manifest.json")


@pytest.mark.parametrize("error", [StoreError, OutcomeUnknownError])
def test_a_pointer_that_could_not_be_opened_fails_no_write_and_is_opened_by_the_next(
    error: type[StoreError],
) -> None:
    inner = MemoryStore()
    store = FaultStore(inner)
    dataset = shared(store)
    store.add(Fault("compare_and_swap", POINTER, nth=2, error=error("the store does not answer")))
    first = dataset.write([{"n": 1}])
    assert inner.get(POINTER) == f"{first.id}~closed\n".encode()
    assert lode.Dataset("events", inner).latest().id == first.id
    assert lode.verify(lode.Dataset("events", inner)).ok
    second = dataset.write([{"n": 2}])
    assert second.parent_id == first.id
    assert inner.get(POINTER) == second.id.encode()


def test_settling_opens_the_pointer() -> None:
    store = MemoryStore()
    newest = shared(store).write([{"n": 1}])
    store.compare_and_swap(POINTER, newest.id.encode(), f"{newest.id}~closed\n".encode())
    lode.Dataset("events", store).settle()
    assert store.get(POINTER) == newest.id.encode()


def test_a_group_of_writers_commits_to_what_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    always_wait(monkeypatch)
    store = MemoryStore()
    lode.Dataset.create("events", store, codec="jsonl", shared_with_go=True).write([{"n": 0}])
    written = write_group(store, "events", 3)
    newest = lode.Dataset("events", store).latest()
    assert {snapshot.id for snapshot in written} <= {
        snapshot.id for snapshot in lode.Dataset("events", store).snapshots()
    }
    assert store.get(POINTER) == newest.id.encode()


def test_a_copy_of_what_is_shared_is_shared_and_open() -> None:
    source, target = MemoryStore(), MemoryStore()
    dataset = shared(source)
    for number in range(3):
        newest = dataset.write([{"n": number}])
    lode.copy(dataset, target)
    assert target.get(POINTER) == newest.id.encode()
    newest = dataset.write([{"n": 3}])
    lode.copy(dataset, target)
    assert target.get(POINTER) == newest.id.encode()
    assert lode.open_dataset("events", target).definition.shared_with_go


def test_a_volume_stays_shared() -> None:
    store = MemoryStore()
    volume = lode.Volume("disk", store, 10, shared_with_go=True)
    volume.commit([volume.stage_write_at(0, b"x")])
    again = lode.Volume("disk", store, 10)
    written = again.commit([again.stage_write_at(1, b"y")])
    assert b'"shared_with_go": true' in store.get(f"volumes/disk/snapshots/{written.id}/manifest.json")
    assert store.get("volumes/disk/latest") == written.id.encode()


def test_an_id_that_looks_like_a_closed_pointer_is_refused() -> None:
    dataset = shared(MemoryStore())
    with pytest.raises(InvalidPathError, match="ends like a closed pointer"):
        dataset.transaction(snapshot_id="1~closed")
