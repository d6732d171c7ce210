"""The write contract: how many store calls each operation makes, counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import lode
from lode.runtime import Runtime
from lode.store import CountingStore, SupportsLink, SupportsVolatilePut
from support.stores import SwaplessStore, names

if TYPE_CHECKING:
    from collections.abc import Callable


def commit(store: CountingStore) -> list[tuple[str, str]]:
    """The calls of a commit. On a disk the first intent is not synced, and copies of a manifest are links."""
    declare = "put_volatile" if isinstance(store, SupportsVolatilePut) else "put"
    return [(declare, "intent.json"), ("compare_and_swap", "latest"), ("put", "manifest.json")]


def stream(dataset: lode.Dataset) -> None:
    with dataset.stream_write() as writer:
        writer.write(b"x")
        writer.commit()


def warm(dataset: lode.Dataset, write: Callable[[lode.Dataset], object]) -> CountingStore:
    """The calls of a write by a dataset object that has written before."""
    store = dataset.store
    assert isinstance(store, CountingStore)
    write(dataset)
    store.reset()
    write(dataset)
    return store


def test_a_warm_unpartitioned_write_makes_four_calls(store: CountingStore) -> None:
    counted = warm(lode.Dataset("events", store), lambda dataset: dataset.write(b"x"))
    assert names(counted) == [("put", "blob"), *commit(counted)]
    assert counted.total == 4


def test_a_warm_write_of_records_makes_four_calls(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store, codec="jsonl", checksum="md5", compressor="zstd")
    counted = warm(dataset, lambda dataset: dataset.write([{"id": 1}]))
    assert names(counted) == [("put", "data.jsonl.zst"), *commit(counted)]


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_a_warm_write_of_p_partitions_makes_two_p_plus_three_calls(
    store: CountingStore, partitions: int
) -> None:
    dataset = lode.Dataset("events", store, codec="jsonl", layout=lode.HiveLayout("day"))
    rows = [{"day": str(number % partitions)} for number in range(20)]
    counted = warm(dataset, lambda dataset: dataset.write(rows))
    assert counted.total == 2 * partitions + 3
    calls = names(counted)
    assert calls.count(("put", "data.jsonl")) == partitions
    copy = "link" if isinstance(store, SupportsLink) else "put"
    copies = [method for method, name in calls if name == "manifest.json"]
    assert copies == [copy] * partitions + ["put"]
    assert [calls.count(call) for call in commit(counted)[:2]] == [1, 1]


def test_a_warm_stream_write_makes_four_calls(store: CountingStore) -> None:
    counted = warm(lode.Dataset("events", store), stream)
    assert names(counted) == [("put", "blob"), *commit(counted)]


def test_a_large_stream_opens_and_completes_one_upload_instead_of_one_put(store: CountingStore) -> None:
    def large(dataset: lode.Dataset) -> None:
        with dataset.stream_write() as writer:
            for _ in range(6):
                writer.write(bytes(1 << 20))
            writer.commit()

    counted = warm(lode.Dataset("events", store), large)
    assert names(counted) == [("open_writer", "blob"), ("commit", "blob"), *commit(counted)]


def test_a_warm_stream_write_of_records_makes_four_calls(store: CountingStore) -> None:
    counted = warm(
        lode.Dataset("events", store, codec="jsonl"),
        lambda dataset: dataset.stream_write_records({"id": number} for number in range(100)),
    )
    assert names(counted) == [("put", "data.jsonl"), *commit(counted)]


def test_the_swap_is_one_call_per_commit_whatever_is_written(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store, codec="jsonl", layout=lode.HiveLayout("day"))
    counted = warm(dataset, lambda dataset: dataset.write([{"day": str(n)} for n in range(9)] * 100))
    assert counted.counts["compare_and_swap"] == 1


def test_a_store_without_swap_pays_for_looking_deleting_and_putting() -> None:
    counted = warm(
        lode.Dataset("events", CountingStore(SwaplessStore())), lambda dataset: dataset.write(b"x")
    )
    assert counted.total == 6


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_store_without_swap_takes_two_p_plus_five_calls_for_p_partitions(partitions: int) -> None:
    store = CountingStore(SwaplessStore())
    dataset = lode.Dataset("events", store, codec="jsonl", layout=lode.HiveLayout("day"))
    rows = [{"day": str(number % partitions)} for number in range(20)]
    assert warm(dataset, lambda dataset: dataset.write(rows)).total == 2 * partitions + 5


def test_resolving_the_parent_warm_makes_no_call(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store)
    dataset.write(b"x")
    store.reset()
    dataset.transaction().abort()
    assert store.total == 0


def test_resolving_the_parent_and_the_definition_cold_makes_three_calls(store: CountingStore) -> None:
    lode.Dataset("events", store, codec="jsonl").write([{"id": 1}])
    store.reset()
    lode.Dataset("events", store).transaction().abort()
    assert [method for method, _ in names(store)] == ["get", "get", "get"]
    assert [path.split("/")[2] for _, path in store.events] == ["latest", "snapshots", "definition"]


@pytest.mark.parametrize("commits", [1, 10])
def test_resolving_the_parent_cold_with_the_options_of_its_creation_makes_two_calls(
    store: CountingStore, commits: int
) -> None:
    dataset = lode.Dataset("events", store)
    for _ in range(commits):
        dataset.write(b"x")
    store.reset()
    lode.Dataset("events", store).transaction().abort()
    assert names(store) == [("get", "latest"), ("get", "manifest.json")]


def test_reading_the_latest_snapshot_makes_two_calls(store: CountingStore) -> None:
    lode.Dataset("events", store).write(b"x")
    store.reset()
    lode.Dataset("events", store).latest()
    assert names(store) == [("get", "latest"), ("get", "manifest.json")]


def test_only_a_missing_pointer_makes_a_writer_list(store: CountingStore) -> None:
    lode.Dataset("events", store).write(b"x")
    store.delete("datasets/events/latest")
    store.reset()
    lode.Dataset("events", store).write(b"y")
    assert store.counts["list"] == 2, "one for any layout, one for the head"


def test_a_missing_pointer_heals_with_the_next_commit(store: CountingStore) -> None:
    first = lode.Dataset("events", store).write(b"x")
    store.delete("datasets/events/latest")
    second = lode.Dataset("events", store).write(b"y")
    assert second.parent_id == first.id
    store.reset()
    assert lode.Dataset("events", store).latest() == second
    assert store.counts["list"] == 0


def test_a_dangling_pointer_heals_with_the_next_commit(store: CountingStore) -> None:
    first = lode.Dataset("events", store).write(b"x")
    store.delete("datasets/events/latest")
    store.put("datasets/events/latest", b"1234567890123456789\n")
    # It gives the writer of the pointer three seconds.
    second = lode.Dataset("events", store, runtime=Runtime(sleep=lambda _: None)).write(b"y")
    assert second.parent_id == first.id
    store.reset()
    assert lode.Dataset("events", store).latest() == second
    assert store.counts["list"] == 0


@pytest.mark.parametrize("cold", [False, True], ids=["warm", "cold"])
def test_with_a_pointer_no_write_ever_lists(store: CountingStore, cold: bool) -> None:
    blobs = lode.Dataset("blobs", store)
    events = lode.Dataset("events", store, codec="jsonl")
    days = lode.Dataset("days", store, codec="jsonl", layout=lode.HiveLayout("day"))

    def all_writes() -> None:
        blobs.write(b"x")
        stream(blobs)
        events.write([{"id": 1}])
        events.stream_write_records([{"id": 1}])
        days.write([{"day": "1"}])

    all_writes()
    if cold:
        blobs = lode.Dataset("blobs", store)
        events = lode.Dataset("events", store, codec="jsonl")
        days = lode.Dataset("days", store, codec="jsonl", layout=lode.HiveLayout("day"))
    store.reset()
    all_writes()
    assert store.counts["list"] == 0
