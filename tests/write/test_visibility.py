"""The write contract: empty datasets, and the moment at which a snapshot exists."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import lode
from lode.store import Fault, FaultStore, LocalStore, MemoryStore
from support.stores import contents, manifests

if TYPE_CHECKING:
    from pathlib import Path

    from lode.store import CountingStore


def test_the_first_successful_write_creates_the_initial_snapshot(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store)
    snapshot = dataset.write(b"x")
    assert (snapshot.parent_id, snapshot.sequence) == (None, 1)
    assert dataset.snapshots() == [snapshot]


def test_a_failed_first_write_leaves_the_dataset_empty(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store, codec="jsonl")
    with pytest.raises(lode.SchemaViolationError):
        dataset.write([object()])
    assert dataset.snapshots() == []
    assert dataset.write([{"id": 1}]).parent_id is None


def test_latest_of_an_empty_dataset_says_that_there_are_no_snapshots(store: CountingStore) -> None:
    with pytest.raises(lode.NoSnapshotsError, match=r"'events' in .* has no snapshots yet: write one first"):
        lode.Dataset("events", store).latest()


def test_snapshots_of_an_empty_dataset_is_an_empty_list(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store, codec="jsonl")
    assert dataset.snapshots() == []
    assert list(dataset.history()) == []
    assert dataset.changes() == []


def test_a_scan_of_a_dataset_that_does_not_exist_is_an_error(store: CountingStore) -> None:
    with pytest.raises(lode.NoSnapshotsError, match=r"dataset 'events' in .* has no snapshots yet"):
        lode.Dataset("events", store, codec="jsonl").scan()


def test_snapshot_by_id_of_an_empty_dataset_is_not_found(store: CountingStore) -> None:
    with pytest.raises(lode.NotFoundError, match="no snapshot '123'"):
        lode.Dataset("events", store).snapshot("123")


def test_looking_at_an_empty_dataset_writes_nothing(store: CountingStore) -> None:
    lode.Dataset("events", store).snapshots()
    assert contents(store) == {}


def failing_before_the_manifest(inner: lode.Store) -> FaultStore:
    return FaultStore(inner, Fault("put", "*/manifest.json", error=lode.StoreError("unplugged")))


@pytest.fixture(params=["memory", "local"])
def inner(request: pytest.FixtureRequest, tmp_path: Path) -> lode.Store:
    return MemoryStore() if request.param == "memory" else LocalStore(tmp_path / "lake", durable=False)


def test_a_snapshot_is_visible_only_after_its_manifest_is_persisted(inner: lode.Store) -> None:
    first = lode.Dataset("events", inner).write(b"first")
    with pytest.raises(lode.CommitUnpublishedError, match=r"do not write it again") as caught:
        lode.Dataset("events", failing_before_the_manifest(inner)).write(b"second")
    assert caught.value.landed is True
    onlooker = lode.Dataset("events", inner)
    assert onlooker.latest() == first
    assert onlooker.snapshots() == [first]
    assert [ref.snapshot_id for ref in lode.DatasetReader(inner).list_manifests("events")] == [first.id]
    pointed_at = inner.get("datasets/events/latest").decode()
    with pytest.raises(lode.NotFoundError):
        onlooker.snapshot(pointed_at)


def test_the_presence_of_the_manifest_is_the_commit_signal(inner: lode.Store) -> None:
    with pytest.raises(lode.CommitUnpublishedError):
        lode.Dataset("events", failing_before_the_manifest(inner)).write(b"x")
    assert manifests(inner) == []
    snapshot_id = inner.get("datasets/events/latest").decode()
    folder = f"datasets/events/snapshots/{snapshot_id}"
    inner.put(f"{folder}/manifest.json", inner.get(f"{folder}/intent.json"))
    assert [snapshot.id for snapshot in lode.Dataset("events", inner).snapshots()] == [snapshot_id]


def test_the_next_write_publishes_what_was_left_unpublished(inner: lode.Store) -> None:
    with pytest.raises(lode.CommitUnpublishedError):
        lode.Dataset("events", failing_before_the_manifest(inner)).write(b"first")
    dataset = lode.Dataset("events", inner)
    second = dataset.write(b"second")
    assert [dataset.read(snapshot) for snapshot in dataset.snapshots()] == [b"first", b"second"]
    assert second.sequence == 2


def test_settle_publishes_what_was_left_unpublished(inner: lode.Store) -> None:
    with pytest.raises(lode.CommitUnpublishedError):
        lode.Dataset("events", failing_before_the_manifest(inner)).write(b"x")
    dataset = lode.Dataset("events", inner)
    dataset.settle()
    assert dataset.read(dataset.latest()) == b"x"


def test_staged_files_alone_are_not_visible(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store)
    dataset.transaction().stage(b"staged")
    assert lode.Dataset("events", store).snapshots() == []
