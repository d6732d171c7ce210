"""The core model: what a manifest says, and what never changes."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import lode
from lode.times import is_rfc3339
from support.codecs import Reading
from support.stores import contents

if TYPE_CHECKING:
    from lode.store import CountingStore

OPTIONAL = {
    "parent_snapshot_id",
    "min_timestamp",
    "max_timestamp",
    "codec",
    "checksum_algorithm",
    "x",
}


def manifest_of(store: CountingStore, snapshot: lode.Snapshot) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        contents(store)[f"datasets/{snapshot.manifest.dataset_id}/snapshots/{snapshot.id}/manifest.json"]
    )
    return found


def test_a_dataset_keeps_its_id(store: CountingStore) -> None:
    lode.Dataset("events", store).write(b"x")
    assert lode.Dataset("events", store).latest().manifest.dataset_id == "events"
    assert lode.DatasetReader(store).list_datasets() == ["events"]


def test_a_snapshot_keeps_its_id_and_content(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store)
    first = dataset.write(b"first")
    dataset.write(b"second")
    again = lode.Dataset("events", store).snapshot(first.id)
    assert again == first
    assert dataset.read(again) == b"first"


def test_a_manifest_describes_itself(store: CountingStore) -> None:
    """A manifest alone, without the dataset object that wrote it, is enough to find and read the data."""
    dataset = lode.Dataset("events", store, codec="jsonl", compressor="gzip", checksum="md5")
    dataset.write([{"id": 1}], {"k": "v"})
    manifest = lode.DatasetReader(store).get_manifest("events", dataset.latest().id)
    reopened = lode.Dataset(
        manifest.dataset_id,
        store,
        codec=manifest.codec,
        compressor=manifest.compressor,
        checksum=manifest.checksum_algorithm,
    )
    assert reopened.read(manifest.snapshot_id, verify=True) == [{"id": 1}]


def test_a_manifest_names_its_schema_and_version(store: CountingStore) -> None:
    stored = manifest_of(store, lode.Dataset("events", store).write(b"x"))
    assert (stored["schema_name"], stored["format_version"]) == ("lode-manifest", "1.0.0")


def test_a_manifest_names_its_dataset_and_snapshot(store: CountingStore) -> None:
    snapshot = lode.Dataset("events", store).write(b"x")
    stored = manifest_of(store, snapshot)
    assert (stored["dataset_id"], stored["snapshot_id"]) == ("events", snapshot.id)


def test_a_manifest_has_its_creation_time_in_utc(store: CountingStore) -> None:
    snapshot = lode.Dataset("events", store).write(b"x")
    text = manifest_of(store, snapshot)["created_at"]
    assert is_rfc3339(text)
    assert text.endswith("Z")
    assert abs(datetime.now(UTC) - snapshot.created_at) < timedelta(minutes=1)


def test_a_manifest_lists_its_files_with_their_sizes(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store, codec="jsonl", layout=lode.HiveLayout("day"))
    snapshot = dataset.write([{"day": "2"}, {"day": "1"}])
    assert [file.path for file in snapshot.files] == sorted(file.path for file in snapshot.files)
    stored = contents(store)
    assert [file.size_bytes for file in snapshot.files] == [len(stored[file.path]) for file in snapshot.files]
    assert len(snapshot.files) == 2


def test_a_manifest_names_its_parent_except_at_the_root(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store)
    first, second = dataset.write(b"x"), dataset.write(b"y")
    assert "parent_snapshot_id" not in manifest_of(store, first)
    assert manifest_of(store, second)["parent_snapshot_id"] == first.id


def test_a_manifest_counts_its_rows(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store, codec="jsonl")
    assert manifest_of(store, dataset.write([{"id": n} for n in range(5)]))["row_count"] == 5
    assert manifest_of(store, dataset.write([]))["row_count"] == 0


def test_a_manifest_has_the_range_of_its_times_only_if_records_have_any(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store, codec="jsonl")
    moment = datetime(2026, 5, 1, tzinfo=UTC)
    timed = manifest_of(store, dataset.write([Reading(1, moment)]))
    assert timed["min_timestamp"] == timed["max_timestamp"] == "2026-05-01T00:00:00Z"
    untimed = manifest_of(store, dataset.write([{"id": 1}]))
    assert untimed.keys().isdisjoint({"min_timestamp", "max_timestamp"})


def test_a_manifest_names_its_codec_only_if_there_is_one(store: CountingStore) -> None:
    raw = manifest_of(store, lode.Dataset("events", store).write(b"x"))
    assert "codec" not in raw
    coded = manifest_of(store, lode.Dataset("records", store, codec="jsonl").write([{"id": 1}]))
    assert coded["codec"] == "jsonl"


def test_a_field_that_does_not_apply_is_left_out_and_never_null(store: CountingStore) -> None:
    stored = manifest_of(store, lode.Dataset("events", store).write(b"x"))
    assert stored.keys().isdisjoint(OPTIONAL - {"x"})
    assert list(stored["x"]) == ["definition"]
    assert None not in stored.values()
    assert list(stored["files"][0]) == ["path", "size_bytes"]


def test_manifests_are_immutable_once_written(store: CountingStore) -> None:
    snapshot = lode.Dataset("events", store).write(b"x")
    path = f"datasets/events/snapshots/{snapshot.id}/manifest.json"
    with pytest.raises(lode.PathExistsError):
        store.put(path, b"{}")
    with pytest.raises(AttributeError):
        snapshot.manifest.row_count = 7  # type: ignore[misc]
    with pytest.raises(AttributeError):
        snapshot.manifest = snapshot.manifest  # type: ignore[misc]


def test_data_files_are_immutable_once_written(store: CountingStore) -> None:
    snapshot = lode.Dataset("events", store).write(b"x")
    with pytest.raises(lode.PathExistsError):
        store.put(snapshot.files[0].path, b"y")
    assert contents(store)[snapshot.files[0].path] == b"x"


def test_history_has_one_head_and_one_root(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store)
    for _ in range(4):
        dataset.write(b"x")
    snapshots = dataset.snapshots()
    parents = {snapshot.parent_id for snapshot in snapshots}
    assert [snapshot.id for snapshot in snapshots if snapshot.id not in parents] == [dataset.latest().id]
    assert [snapshot.id for snapshot in snapshots if snapshot.parent_id is None] == [snapshots[0].id]
    assert [snapshot.sequence for snapshot in snapshots] == [1, 2, 3, 4]


def test_a_commit_adds_objects_and_changes_only_the_pointer(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store, codec="jsonl", layout=lode.HiveLayout("day"))
    dataset.write([{"day": "1"}])
    before = contents(store)
    dataset.write([{"day": "1"}])
    after = contents(store)
    assert [path for path in before if before[path] != after.get(path)] == ["datasets/events/latest"]


def test_a_snapshot_holds_facts_and_reading_it_twice_is_the_same(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store, codec="jsonl")
    snapshot = dataset.write([{"a": 1, "b": "1", "c": None, "d": [1.0, True]}])
    assert (
        dataset.read(snapshot) == dataset.read(snapshot) == [{"a": 1, "b": "1", "c": None, "d": [1.0, True]}]
    )


def test_one_layout_means_the_same_paths_on_every_store(store: CountingStore) -> None:
    snapshot = lode.Dataset("events", store).write(b"x")
    folder = f"datasets/events/snapshots/{snapshot.id}"
    assert set(contents(store)) == {
        "datasets/events/latest",
        f"datasets/events/definition/{snapshot.manifest.definition}.json",
        f"{folder}/data/blob",
        f"{folder}/intent.json",
        f"{folder}/manifest.json",
    }
