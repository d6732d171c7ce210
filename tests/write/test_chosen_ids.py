"""A snapshot id is committed at most once, whatever was swept in between."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

import lode
from lode.store import CountingStore, Fault, FaultStore, MemoryStore
from support.stores import contents, data_files

if TYPE_CHECKING:
    from collections.abc import Callable

INTENT = "datasets/events/snapshots/run-1/intent.json"
MANIFEST = "datasets/events/snapshots/run-1/manifest.json"


def opened(store: lode.Store) -> lode.Dataset:
    return lode.Dataset("events", store, codec="jsonl")


def committed(store: lode.Store) -> lode.Dataset:
    """A dataset in which run-1 was committed, built on, and swept."""
    dataset = opened(store)
    transaction = dataset.transaction(snapshot_id="run-1")
    transaction.stage([{"n": 1}])
    transaction.commit()
    dataset.write([{"n": 2}])
    lode.sweep(lode.Dataset("events", store), timedelta(0), dry_run=False)
    assert not store.exists(INTENT)
    return dataset


@pytest.mark.parametrize("cold", [False, True], ids=["warm", "cold"])
def test_an_id_that_is_committed_is_refused_before_anything_is_staged(cold: bool) -> None:
    store = MemoryStore()
    dataset = committed(store)
    before = contents(store)
    with pytest.raises(lode.TransactionClosedError, match="run-1 is committed already"):
        (opened(store) if cold else dataset).transaction(snapshot_id="run-1")
    assert contents(store) == before


@pytest.mark.parametrize("crowded", [False, True], ids=["alone", "in a crowd"])
def test_an_id_that_was_committed_meanwhile_is_refused_before_the_swap(crowded: bool) -> None:
    store = MemoryStore()
    ours = opened(store)
    if crowded:
        ours.write([{"n": 0}])
        opened(store).write([{"n": 0}])
        ours.write([{"n": 0}], on_conflict="append")
    transaction = ours.transaction(snapshot_id="run-1", on_conflict="append")
    transaction.stage([{"n": 3}])
    committed(store)
    history = opened(store).snapshots()
    with pytest.raises(lode.TransactionClosedError, match="run-1 is committed already"):
        transaction.commit()
    assert opened(store).snapshots() == history
    assert not store.exists(INTENT), "the refused commit takes its intent back"
    assert lode.verify(opened(store)).ok


def test_files_of_a_refused_commit_stay_as_they_may_be_the_other_commits() -> None:
    """Two processes commit what the same tasks staged: the one that is refused must not remove it."""
    store = MemoryStore()
    transactions = [opened(store).transaction(snapshot_id="run-1") for _ in range(2)]
    staged = transactions[0].stage([{"n": 1}])
    transactions[1].add(staged)
    first = transactions[0].commit()
    with pytest.raises(lode.TransactionClosedError), transactions[1] as second:
        second.commit()
    assert data_files(store) == [file.path for file in first.files]
    assert lode.verify(opened(store)).ok


def test_a_key_that_is_committed_under_the_same_id_is_a_replay_and_no_refusal() -> None:
    store = MemoryStore()
    for _ in range(2):
        transaction = opened(store).transaction(snapshot_id="run-1", idempotency_key="k")
        snapshot = transaction.commit()
    assert snapshot.commit is not None
    assert snapshot.commit.replayed


def test_a_check_that_fails_is_made_again_by_the_next_try() -> None:
    inner = MemoryStore()
    store = FaultStore(inner, Fault("exists", "*/manifest.json", error=lode.StoreError("unplugged")))
    transaction = opened(store).transaction(snapshot_id="run-1")
    transaction.stage([{"n": 1}])
    with pytest.raises(lode.StoreError, match="unplugged"):
        transaction.commit()
    assert transaction.commit().sequence == 1


def test_an_id_that_was_chosen_costs_three_reads_and_a_new_one_none(memory: CountingStore) -> None:
    dataset = opened(memory)
    dataset.write([{"n": 0}])

    def calls(snapshot_id: str | None) -> dict[str, int]:
        memory.reset()
        transaction = dataset.transaction(snapshot_id=snapshot_id)
        transaction.stage([{"n": 1}])
        transaction.commit()
        return dict(memory.counts)

    assert calls(None) == {"put": 3, "compare_and_swap": 1}
    assert calls("run-1") == {"put": 3, "compare_and_swap": 1, "get": 2, "exists": 1}


@pytest.mark.parametrize("other", [b"{}", b"another manifest"], ids=["json", "text"])
def test_a_manifest_that_is_not_the_declared_one_is_an_error_and_no_file_is_removed(other: bytes) -> None:
    store = MemoryStore()
    transaction = _raced(store, lambda id: store.put(f"datasets/events/snapshots/{id}/manifest.json", other))
    with pytest.raises(lode.DataError, match="another manifest than the one its intent declares"):
        transaction.commit()
    assert transaction.kept
    transaction.abort()
    assert len(data_files(store)) == 1


def test_a_manifest_that_a_helper_published_first_is_taken_as_ours() -> None:
    store = MemoryStore()
    transaction = _raced(store, lambda _: opened(store).settle())
    assert transaction.commit().sequence == 1


def _raced(store: MemoryStore, meanwhile: Callable[[str], object]) -> lode.Transaction:
    """A transaction between whose swap and publication something happens."""

    class Raced(CountingStore):
        def _compare_and_swap(self, path: str, expected: bytes | None, replacement: bytes) -> bool:
            swapped = super()._compare_and_swap(path, expected, replacement)
            meanwhile(replacement.decode())
            return swapped

    transaction = opened(Raced(store)).transaction()
    transaction.stage([{"n": 1}])
    return transaction
