"""DatasetReader lists and reads the content of a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import lode
from lode.discover import volume_names
from lode.store import Fault, FaultStore, MemoryStore
from support.stores import contents

if TYPE_CHECKING:
    from pathlib import Path

    from lode.store import CountingStore

HIVE = lode.HiveLayout("day")


def lake(store: lode.Store) -> None:
    for name in ("b", "a", "a-b", "a0", "a.b"):
        dataset = lode.Dataset(name, store, codec="jsonl", layout=HIVE)
        dataset.write([{"day": str(day)} for day in range(3)])
        dataset.write([{"day": "1"}])


def test_datasets_are_listed_in_order_and_limited(store: CountingStore) -> None:
    lake(store)
    reader = lode.DatasetReader(store, layout=HIVE)
    assert sorted(reader.list_datasets()) == ["a", "a-b", "a.b", "a0", "b"]
    assert reader.list_datasets(limit=2) == reader.list_datasets()[:2]
    assert reader.list_datasets(limit=0) == []


def test_partitions_are_listed_in_order_and_limited(store: CountingStore) -> None:
    lake(store)
    reader = lode.DatasetReader(store, layout=HIVE)
    assert reader.list_partitions("a") == ["day=0", "day=1", "day=2"]
    assert reader.list_partitions("a", limit=1) == ["day=0"]
    assert reader.list_partitions("a", limit=0) == []


def test_manifests_are_listed_by_dataset_and_by_partition(store: CountingStore) -> None:
    lake(store)
    reader = lode.DatasetReader(store, layout=HIVE)
    first, second = lode.Dataset("a", store, codec="jsonl", layout=HIVE).snapshots()
    assert [ref.snapshot_id for ref in reader.list_manifests("a")] == [first.id, second.id]
    assert [ref.snapshot_id for ref in reader.list_manifests("a", partition="day=0")] == [first.id]
    both = reader.list_manifests("a", partition="day=1")
    assert [(ref.dataset_id, ref.snapshot_id, ref.partition) for ref in both] == [
        ("a", first.id, "day=1"),
        ("a", second.id, "day=1"),
    ]
    assert reader.list_manifests("a", partition="day=1", limit=1) == both[:1]
    assert reader.list_manifests("a", partition="day=9") == []


def test_a_manifest_is_read_by_reference_or_by_ids(store: CountingStore) -> None:
    lake(store)
    reader = lode.DatasetReader(store, layout=HIVE)
    expected = lode.Dataset("a", store, codec="jsonl", layout=HIVE).latest().manifest
    assert reader.get_manifest("a", expected.snapshot_id) == expected
    for ref in (*reader.list_manifests("a"), *reader.list_manifests("a", partition="day=1")):
        if ref.snapshot_id == expected.snapshot_id:
            assert reader.get_manifest(ref) == expected
    with pytest.raises(lode.InvalidOptionError, match="a dataset id and a snapshot id"):
        reader.get_manifest("a")
    with pytest.raises(lode.NotFoundError, match="no snapshot '123'"):
        reader.get_manifest("a", "123")


def test_an_object_opens_as_a_seekable_file_and_at_random(store: CountingStore) -> None:
    snapshot = lode.Dataset("blobs", store).write(b"0123456789")
    reader = lode.DatasetReader(store)
    for file in (snapshot.files[0], snapshot.files[0].path):
        with reader.open_object(file) as opened:
            assert opened.read(3) == b"012"
            opened.seek(-2, 2)
            assert opened.read() == b"89"
        with reader.reader_at(file) as random:
            assert (random.size, random.read_at(4, 3), random.read_at(8, 100)) == (10, b"456", b"89")
    with pytest.raises(lode.NotFoundError):
        reader.open_object("datasets/blobs/nope")


def test_a_reader_needs_no_codec_and_writes_nothing(store: CountingStore) -> None:
    lake(store)
    before = contents(store)
    store.reset()
    reader = lode.DatasetReader(store, layout=HIVE)
    for name in reader.list_datasets():
        for ref in reader.list_manifests(name):
            for file in reader.get_manifest(ref).files:
                reader.open_object(file).close()
    assert set(store.counts) <= {"list", "get", "open_reader", "read_at", "head", "exists"}
    assert contents(store) == before


def test_a_layout_that_cannot_enumerate_datasets_raises(store: CountingStore) -> None:
    lode.Dataset("events", store, layout=lode.FlatLayout()).write(b"x")
    reader = lode.DatasetReader(store, layout=lode.FlatLayout())
    with pytest.raises(lode.DatasetsNotModeledError, match="FlatLayout"):
        reader.list_datasets()
    assert len(reader.list_manifests("events")) == 1


def test_an_empty_store_has_no_datasets(store: CountingStore) -> None:
    assert lode.DatasetReader(store).list_datasets() == []


def test_objects_without_a_manifest_among_them_are_no_manifests(store: CountingStore) -> None:
    store.put("datasets/events/notes.txt", b"hello")
    reader = lode.DatasetReader(store)
    with pytest.raises(lode.NoManifestsError, match="no manifest"):
        reader.list_datasets()
    with pytest.raises(lode.NoManifestsError, match="'events'"):
        reader.list_manifests("events")
    with pytest.raises(lode.NoManifestsError, match="DefaultLayout"):
        reader.list_partitions("events")


@pytest.mark.parametrize("written", [lode.DefaultLayout(), lode.FlatLayout()])
def test_a_dataset_of_another_layout_is_no_manifests_or_not_found(
    store: CountingStore, written: lode.DefaultLayout | lode.FlatLayout
) -> None:
    lode.Dataset("events", store, layout=written).write(b"x")
    with pytest.raises((lode.NoManifestsError, lode.NotFoundError)):
        lode.DatasetReader(store, layout=HIVE).list_manifests("events")


@pytest.mark.parametrize("layout", [lode.DefaultLayout(), lode.FlatLayout(), HIVE])
def test_an_unknown_dataset_is_not_found(store: CountingStore, layout: Any) -> None:
    lode.Dataset("events", store).write(b"x")
    reader = lode.DatasetReader(store, layout=layout)
    with pytest.raises(lode.NotFoundError, match="no dataset 'other'"):
        reader.list_manifests("other")
    with pytest.raises(lode.NotFoundError, match="no dataset 'other'"):
        reader.list_partitions("other")


@pytest.mark.parametrize("layout", [lode.DefaultLayout(), lode.FlatLayout()])
def test_an_unpartitioned_layout_has_no_partitions(store: CountingStore, layout: Any) -> None:
    lode.Dataset("events", store, layout=layout).write(b"x")
    reader = lode.DatasetReader(store, layout=layout)
    assert reader.list_partitions("events") == []
    with pytest.raises(lode.ComponentMismatchError, match="has no partitions"):
        reader.list_manifests("events", partition="day=1")


@pytest.mark.parametrize("limit", [-1, -100])
def test_a_negative_limit_is_refused(store: CountingStore, limit: int) -> None:
    lode.Dataset("events", store, codec="jsonl", layout=HIVE).write([{"day": "1"}])
    reader = lode.DatasetReader(store, layout=HIVE)
    for ask in (reader.list_datasets, lambda **k: reader.list_manifests("events", **k),
                lambda **k: reader.list_partitions("events", **k)):  # fmt: skip
        with pytest.raises(lode.InvalidOptionError, match=f"limit is {limit}"):
            ask(limit=limit)


@pytest.mark.parametrize("id", ["", "..", "a/b"])
def test_a_bad_id_is_refused_before_any_call(store: CountingStore, id: str) -> None:
    reader = lode.DatasetReader(store)
    for ask in (reader.list_manifests, reader.list_partitions, lambda id: reader.get_manifest(id, "1")):
        with pytest.raises(lode.InvalidPathError):
            ask(id)
    assert store.total == 0


def test_partition_copies_of_an_unpublished_snapshot_are_hidden() -> None:
    inner = MemoryStore()
    first = lode.Dataset("events", inner, codec="jsonl", layout=HIVE).write([{"day": "1"}])
    fault = Fault("put", "datasets/events/segments/*/manifest.json", error=lode.StoreError("unplugged"))
    dying = lode.Dataset("events", FaultStore(inner, fault), codec="jsonl", layout=HIVE)
    with pytest.raises(lode.CommitUnpublishedError):
        dying.write([{"day": "1"}, {"day": "2"}])
    assert sum(path.endswith("/manifest.json") for path in contents(inner)) == 4, "both copies are there"
    reader = lode.DatasetReader(inner, layout=HIVE)
    assert reader.list_partitions("events") == ["day=1"]
    assert [ref.snapshot_id for ref in reader.list_manifests("events", partition="day=1")] == [first.id]
    lode.Dataset("events", inner, codec="jsonl", layout=HIVE).settle()
    assert reader.list_partitions("events") == ["day=1", "day=2"]
    assert len(reader.list_manifests("events", partition="day=1")) == 2


def test_a_damaged_manifest_is_named_and_not_skipped(memory: CountingStore) -> None:
    snapshot = lode.Dataset("events", memory).write(b"x")
    path = f"datasets/events/snapshots/{snapshot.id}/manifest.json"
    memory.delete(path)
    memory.put(path, b"{}")
    reader = lode.DatasetReader(memory)
    (ref,) = reader.list_manifests("events")
    with pytest.raises(lode.ManifestInvalidError, match=f"{path}.*schema_name"):
        reader.get_manifest(ref)


def test_a_reader_without_a_layout_finds_each_datasets_own(store: CountingStore) -> None:
    partitioned = lode.Dataset("visits", store, codec="jsonl", layout=HIVE)
    snapshot = partitioned.write([{"day": "1"}])
    reader = lode.DatasetReader(store)
    assert reader.list_datasets() == ["visits"]
    lode.Dataset("events", store).write(b"x")
    assert reader.list_datasets() == ["events", "visits"]
    assert reader.list_partitions("visits") == ["day=1"]
    assert reader.list_partitions("events") == []
    assert [ref.snapshot_id for ref in reader.list_manifests("visits")] == [snapshot.id]
    assert reader.get_manifest("visits", snapshot.id) == snapshot.manifest


def test_listing_skips_from_dataset_to_dataset(memory: CountingStore) -> None:
    """The cost of finding datasets grows with their number, not with their content."""
    for name in ("a", "b"):
        dataset = lode.Dataset(name, memory)
        for _ in range(12):
            dataset.write(b"x")
    memory.reset()
    assert lode.DatasetReader(memory).list_datasets() == ["a", "b"]
    assert memory.counts["list"] <= 5


def test_a_directory_with_a_name_that_no_dataset_has_hides_nothing(tmp_path: Path) -> None:
    lode.Dataset("good", tmp_path).write(b"x")
    for odd in ("datasets/a\\b/junk", "datasets/z\\y/snapshots/1/manifest.json", "volumes/a\\b/junk"):
        path = tmp_path / odd
        path.parent.mkdir(parents=True)
        path.touch()
    assert lode.DatasetReader(tmp_path).list_datasets() == ["good"]
    assert volume_names(lode.open_store(tmp_path)) == []
