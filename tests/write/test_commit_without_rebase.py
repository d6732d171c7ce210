"""A commit that depends on all of history follows nothing it was not told to follow."""

from __future__ import annotations

import pytest

import lode
from lode.store.memory import MemoryStore


def opened(store: MemoryStore, *, retry: lode.Retry | None = None) -> lode.Dataset:
    return lode.Dataset("d", store, codec=lode.JSONL(), layout=lode.HiveLayout("day"), retry=retry)


@pytest.mark.parametrize("retry", [lode.Retry(0), lode.Retry(5, base_delay=0)])
def test_whatever_came_first_is_a_conflict(retry: lode.Retry) -> None:
    store = MemoryStore()
    dataset = opened(store, retry=retry)
    with dataset.transaction() as transaction:
        transaction.stage([{"day": "monday", "id": 1}])
        other = opened(store).write([{"day": "tuesday", "id": 2}])
        with pytest.raises(lode.SnapshotConflictError, match=other.id) as conflict:
            transaction.commit(rebase=False)
        assert conflict.value.transaction is transaction
        snapshot = transaction.commit(rebase=False)
    assert snapshot.parent_id == other.id
    assert [found.id for found in dataset.snapshots()] == [other.id, snapshot.id]


def test_it_follows_its_base_without_ado() -> None:
    dataset = opened(MemoryStore())
    first = dataset.write([{"day": "monday", "id": 1}])
    with dataset.transaction() as transaction:
        transaction.stage([{"day": "tuesday", "id": 2}])
        assert transaction.commit(rebase=False).parent_id == first.id
