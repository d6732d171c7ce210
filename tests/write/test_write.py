"""The write contract: what ``Dataset.write`` promises."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import lode
from support.codecs import CountedLines
from support.stores import contents, data_files, manifests, writes

if TYPE_CHECKING:
    from lode.store import CountingStore


def test_write_creates_a_new_snapshot(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store)
    first, second = dataset.write(b"one"), dataset.write(b"two")
    assert first.id != second.id
    assert [snapshot.id for snapshot in dataset.snapshots()] == [first.id, second.id]
    assert [dataset.read(first), dataset.read(second)] == [b"one", b"two"]


def test_write_takes_none_metadata_as_an_empty_object(store: CountingStore) -> None:
    snapshot = lode.Dataset("events", store).write(b"x", None)
    assert snapshot.metadata == {}
    (path,) = manifests(store)
    assert json.loads(contents(store)[path])["metadata"] == {}


def test_empty_metadata_is_valid_and_persisted(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store)
    dataset.write(b"x", {})
    (path,) = manifests(store)
    assert b'"metadata": {}' in contents(store)[path]
    assert lode.Dataset("events", store).latest().metadata == {}


def test_a_new_snapshot_names_the_previous_one_as_its_parent(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store)
    ids = [dataset.write(b"x").id for _ in range(3)]
    assert [snapshot.parent_id for snapshot in dataset.snapshots()] == [None, ids[0], ids[1]]


def test_a_write_from_a_new_dataset_object_links_to_the_stored_head(store: CountingStore) -> None:
    first = lode.Dataset("events", store).write(b"x")
    assert lode.Dataset("events", store).write(b"y").parent_id == first.id


def test_write_changes_no_existing_snapshot_or_manifest(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store, codec="jsonl")
    dataset.write([{"id": 1}])
    before = contents(store)
    dataset.write([{"id": 2}], {"again": True})
    after = contents(store)
    assert {path: after[path] for path in before if not path.endswith("/latest")} == {
        path: data for path, data in before.items() if not path.endswith("/latest")
    }


def test_no_path_but_the_pointer_is_written_twice(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store, codec="jsonl")
    for number in range(3):
        dataset.write([{"id": number}])
    assert {path for path, times in writes(store).items() if times > 1} == {"datasets/events/latest"}


def test_the_manifest_has_every_required_field(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store, codec="jsonl", timestamp_column="at")
    dataset.write([{"at": "2026-01-01T00:00:00Z"}])
    snapshot = dataset.write([{"at": "2026-01-02T00:00:00Z"}], {"k": "v"})
    stored = json.loads(contents(store)[f"datasets/events/snapshots/{snapshot.id}/manifest.json"])
    assert list(stored) == [
        "schema_name", "format_version", "dataset_id", "snapshot_id", "created_at", "metadata", "files",
        "parent_snapshot_id", "row_count", "min_timestamp", "max_timestamp", "codec", "compressor",
        "partitioner", "sequence", "x",
    ]  # fmt: skip
    assert stored["row_count"] == 1


def test_statistics_are_collected_after_encoding_and_recorded_on_the_file(memory: CountingStore) -> None:
    codec = CountedLines()
    snapshot = lode.Dataset("events", memory, codec=codec).write(["b", "a"])
    assert codec.asked == ["encode", "statistics"]
    (file,) = snapshot.files
    assert file.stats is not None
    assert (file.stats.row_count, file.stats.columns[0].min, file.stats.columns[0].max) == (2, "a", "b")


def test_without_a_codec_the_row_count_is_one(store: CountingStore) -> None:
    assert lode.Dataset("events", store).write(b"many\nlines\nof\ntext").row_count == 1


def test_without_a_codec_an_empty_blob_is_still_one_row(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store)
    snapshot = dataset.write(b"")
    assert (snapshot.row_count, snapshot.size_bytes, dataset.read(snapshot)) == (1, 0, b"")


@pytest.mark.parametrize(
    "data",
    [bytearray(b"abc"), memoryview(b"abc"), memoryview(b"a-b-c-")[::2]],
    ids=["bytearray", "memoryview", "with gaps"],
)
def test_a_blob_may_be_any_buffer(store: CountingStore, data: Any) -> None:
    dataset = lode.Dataset("events", store)
    assert dataset.read(dataset.write(data)) == b"abc"
    with dataset.stream_write() as writer:
        assert writer.write(data) == 3
        assert dataset.read(writer.commit()) == b"abc"


def test_records_without_a_codec_are_refused_with_a_way_out(store: CountingStore) -> None:
    with pytest.raises(lode.InvalidOptionError, match=r"no codec and stores bytes, got list.*codec="):
        lode.Dataset("events", store).write([{"id": 1}])
    assert contents(store) == {}


def test_a_refused_record_leaves_nothing_behind(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store, codec=lode.Parquet({"id": "int64"}))
    with pytest.raises(lode.SchemaViolationError, match="row 1, column 'id'"):
        dataset.write([{"id": 1}, {"id": "one"}])
    assert contents(store) == {}


def test_a_failed_write_of_partitions_removes_those_that_were_written(store: CountingStore) -> None:
    dataset = lode.Dataset(
        "events", store, codec=lode.Parquet({"day": "string", "id": "int64"}), layout=lode.HiveLayout("day")
    )
    with pytest.raises(lode.SchemaViolationError):
        dataset.write([{"day": "1", "id": 1}, {"day": "2", "id": "two"}])
    assert data_files(store) == []
