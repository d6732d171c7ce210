"""Idempotency keys: a second write under one key is the first one's snapshot, at any depth of history."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

import lode
from lode.runtime import Runtime
from lode.store import CountingStore, Fault, FaultStore, MemoryStore
from support.stores import data_files

if TYPE_CHECKING:
    from collections.abc import Callable

WAYS: dict[str, Callable[[lode.Dataset, Any], lode.Snapshot]] = {
    "write": lambda dataset, key: dataset.write([{"id": 1}], idempotency_key=key),
    "stream_write_records": lambda dataset, key: dataset.stream_write_records(
        [{"id": 1}], idempotency_key=key
    ),
    "transaction": lambda dataset, key: dataset.transaction(idempotency_key=key).commit(),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_second_write_under_a_key_returns_the_first_snapshot(store: CountingStore, way: str) -> None:
    dataset = lode.Dataset("events", store, codec="jsonl")
    first = WAYS[way](dataset, "order-17")
    dataset.write([{"id": 2}])
    second = WAYS[way](dataset, "order-17")
    assert second == first
    assert second.commit is not None
    assert second.commit.replayed
    assert len(dataset.snapshots()) == 2


@pytest.mark.parametrize("way", WAYS)
def test_the_key_holds_from_a_new_dataset_object_too(store: CountingStore, way: str) -> None:
    first = WAYS[way](lode.Dataset("events", store, codec="jsonl"), ("loader", "17"))
    lode.Dataset("events", store, codec="jsonl").write([{"id": 2}])
    assert WAYS[way](lode.Dataset("events", store, codec="jsonl"), ("loader", "17")) == first


def test_a_stream_under_a_used_key_returns_the_first_and_leaves_no_blob(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store)
    first = dataset.write(b"x", idempotency_key="k")
    writer = dataset.stream_write(idempotency_key="k")
    writer.write(b"again")
    assert writer.commit() == first
    assert data_files(store) == [first.files[0].path]


def test_a_replayed_write_stages_no_data(memory: CountingStore) -> None:
    dataset = lode.Dataset("events", memory)
    dataset.write(b"x", idempotency_key="k")
    memory.reset()
    dataset.write(b"x", idempotency_key="k")
    assert set(memory.counts) == {"get"}


def test_other_keys_and_other_writers_are_other_commits(memory: CountingStore) -> None:
    dataset = lode.Dataset("events", memory)
    keys: list[Any] = ["a", "b", ("w", "a"), ("v", "a"), ("", "ab"), ("a", "b")]
    snapshots = [dataset.write(b"x", idempotency_key=key) for key in keys]
    assert len({snapshot.id for snapshot in snapshots}) == len(keys)
    assert dataset.write(b"x", idempotency_key=("", "a")) == snapshots[0], "a bare key has the writer ''"


def test_the_pair_is_in_the_manifest_under_x(memory: CountingStore) -> None:
    snapshot = lode.Dataset("events", memory).write(b"x", idempotency_key=("loader", "17"))
    assert snapshot.manifest.idempotency == ("loader", "17")
    assert (snapshot.manifest.x or {})["idempotency"] == {"writer": "loader", "key": "17"}


@pytest.mark.parametrize("key", ["", ("w", ""), 7, ("a", "b", "c"), ["w", 1], (1, "k"), "\ud800"])
def test_what_is_no_key_is_refused_before_any_call(memory: CountingStore, key: Any) -> None:
    with pytest.raises(lode.InvalidOptionError, match="idempotency_key"):
        lode.Dataset("events", memory).write(b"x", idempotency_key=key)
    assert memory.total == 0


def calls_of_a_keyed_write(commits: int, key: str) -> tuple[int, int]:
    """The calls a cold process makes for a keyed write and for its repetition, after so many commits."""
    inner = MemoryStore()
    at_once = Runtime(background=lambda chore: chore())
    history = lode.Dataset("events", inner, runtime=at_once)
    history.write(b"old", idempotency_key="the very first")
    for _ in range(commits - 1):
        history.write(b"x")
    counts = []
    for _ in range(2):
        store = CountingStore(inner)
        lode.Dataset("events", store, runtime=at_once).write(b"y", idempotency_key=key)
        assert store.counts["list"] == 0
        counts.append(store.total)
    return counts[0], counts[1]


@pytest.mark.parametrize("key", ["new", "the very first"])
def test_asking_for_a_key_costs_the_same_after_five_and_after_sixty_commits(key: str) -> None:
    assert calls_of_a_keyed_write(5, key) == calls_of_a_keyed_write(60, key)


def test_two_writers_that_race_with_one_key_make_one_snapshot(store: CountingStore) -> None:
    lode.Dataset("events", store).write(b"base")
    start = threading.Barrier(4)

    def write(number: int) -> lode.Snapshot:
        dataset = lode.Dataset("events", store)
        dataset.transaction().abort()
        start.wait()
        return dataset.write(str(number).encode(), idempotency_key="once")

    with ThreadPoolExecutor(4) as pool:
        ids = {snapshot.id for snapshot in pool.map(write, range(4))}
    assert len(ids) == 1
    assert len(lode.Dataset("events", store).snapshots()) == 2


def test_the_loser_of_such_a_race_leaves_no_file(memory: CountingStore) -> None:
    ours, theirs = lode.Dataset("events", memory), lode.Dataset("events", memory)
    transaction = ours.transaction(idempotency_key="k")
    transaction.stage(b"ours")
    winner = theirs.write(b"theirs", idempotency_key="k")
    assert transaction.commit() == winner
    assert data_files(memory) == [winner.files[0].path]


@pytest.mark.parametrize("path", ["*/keys/*", "*/manifest.json"])
def test_a_keyed_write_that_died_before_publication_is_found_by_its_repetition(path: str) -> None:
    inner = MemoryStore()
    store = FaultStore(inner, Fault("put", path, error=lode.StoreError("unplugged")))
    with pytest.raises(lode.CommitUnpublishedError):
        lode.Dataset("events", store).write(b"x", idempotency_key="k")
    dataset = lode.Dataset("events", inner)
    again = dataset.write(b"x", idempotency_key="k")
    assert dataset.snapshots() == [again]
