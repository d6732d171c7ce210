"""The copies of a manifest in partitions: each has the files of its own, and their bytes grow with P."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lode
from lode.errors import ManifestInvalidError
from lode.format.copies import PartitionCopies
from lode.format.manifest import decode_manifest, encode_manifest
from lode.store import CountingStore, Fault, FaultStore, MemoryStore, SimulatedCrash
from support.clock import Clock
from support.stores import contents, data_files

LAYOUT = lode.HiveLayout("day")
SCHEMA = {"day": "string!", "n": "int64"}


def events(store: lode.Store, codec: Any = None, **options: Any) -> lode.Dataset:
    return lode.Dataset("events", store, codec=codec or lode.Parquet(SCHEMA), layout=LAYOUT, **options)


def rows(partitions: int) -> pa.Table:
    """One row for the first partition, two for the second, and so on."""
    days = [f"d{number:04d}" for number in range(partitions) for _ in range(number % 3 + 1)]
    return pa.table({"day": days, "n": list(range(len(days)))})


def copies(store: lode.Store, snapshot: lode.Snapshot) -> dict[str, bytes]:
    """The copies of one snapshot by partition, in the order of a listing."""
    found: dict[str, bytes] = {}
    for path, data in contents(store).items():
        place = LAYOUT.place(path)
        if place is not None and place.partition and place.snapshot_id == snapshot.id:
            found[place.partition] = data
    return found


def manifest_of(store: lode.Store, snapshot: lode.Snapshot) -> bytes:
    return store.get(f"datasets/events/segments/{snapshot.id}/manifest.json")


def replace(store: lode.Store, path: str, data: bytes) -> None:
    store.delete(path)
    store.put(path, data)


# -- content -----------------------------------------------------------------------------------------------


def test_a_copy_is_a_valid_manifest_of_the_snapshot_with_the_files_and_rows_of_its_partition() -> None:
    store = MemoryStore()
    snapshot = events(store).write(rows(5), {"source": "test"})
    whole = decode_manifest(manifest_of(store, snapshot), "manifest")
    first, *others = copies(store, snapshot).items()
    assert first[1] == manifest_of(store, snapshot)
    assert len(others) == 4
    for partition, data in others:
        copy = decode_manifest(data, partition)
        own = tuple(file for file in whole.files if f"/{partition}/" in file.path)
        assert copy.files == own
        assert copy.row_count == sum(file.stats.row_count for file in own if file.stats)
        assert copy.partition == partition
        same = {"files": whole.files, "row_count": whole.row_count, "x": whole.x}
        assert msgspec.structs.replace(copy, **same) == whole
        assert copy.x == {**(whole.x or {}), "partition": partition}


def test_a_copy_of_files_without_statistics_has_the_row_count_of_the_snapshot() -> None:
    store = MemoryStore()
    snapshot = events(store, "jsonl").write([{"day": "a"}, {"day": "b"}, {"day": "b"}])
    _, copy = copies(store, snapshot).values()
    assert decode_manifest(copy, "copy").row_count == 3


def test_a_copy_lists_what_the_commit_removes_from_its_own_partition() -> None:
    store = MemoryStore()
    dataset = events(store)
    dataset.write(rows(4))
    dataset.delete("n = 1 or n = 3")
    rewritten = dataset.latest()
    removes = rewritten.manifest.removes
    assert removes is not None
    assert len(removes.files) == 2
    assert len(rewritten.manifest.carried) == 2
    _, copy = (decode_manifest(data, partition) for partition, data in copies(store, rewritten).items())
    partition = copy.partition or ""
    assert copy.removes == lode.Removes(files=tuple(path for path in removes.files if partition in path))
    assert copy.carried == tuple(path for path in rewritten.manifest.carried if partition in path)
    assert "removed" not in (copy.x or {})

    replaced = dataset.overwrite(rows(4)).snapshot
    assert replaced is not None
    for partition, data in list(copies(store, replaced).items())[1:]:
        assert decode_manifest(data, partition).removes == lode.Removes(partitions=(partition,))


def test_fields_that_this_version_does_not_know_stay_in_a_copy_byte_for_byte() -> None:
    store = MemoryStore()
    snapshot = events(store).write(rows(3))
    document = json.loads(manifest_of(store, snapshot))
    document |= {"new": {"large": 10**40, "real": 1e-7}, "metadata": {"large": 10**30}}
    data = json.dumps(document).encode()
    paths = LAYOUT.copies("events", snapshot.id, ["day=d0000", "day=d0001", "day=d0002"])
    partitions = dict(zip(paths, ["day=d0000", "day=d0001", "day=d0002"], strict=True))
    made = PartitionCopies(data, partitions, lambda path: LAYOUT.partition_of("events", path))
    assert made[paths[0]] == data
    for path in paths[1:]:
        copy = json.loads(made[path])
        assert copy["new"] == document["new"]
        assert copy["metadata"] == document["metadata"]
        assert len(copy["files"]) == 1


@given(st.lists(st.text("ab-.+%!0", min_size=1, max_size=3), min_size=1, max_size=12, unique=True))
def test_the_copies_that_a_listing_shows_first_are_whole_and_at_most_two(days: list[str]) -> None:
    """Object stores list by whole paths, file systems folder by folder; Go reads the first it finds."""
    partitions = [f"day={day}" for day in days]
    paths = LAYOUT.copies("events", "s", partitions)
    manifest = msgspec.convert(
        {
            "schema_name": "lode-manifest",
            "format_version": "1.0.0",
            "dataset_id": "events",
            "snapshot_id": "s",
            "created_at": "2026-11-17T00:00:00Z",
            "metadata": {},
            "files": [
                {"path": LAYOUT.data_path("events", "s", each, "data"), "size_bytes": 1}
                for each in sorted(partitions)
            ],
            "row_count": 1,
            "compressor": "noop",
            "partitioner": "hive",
        },
        lode.Manifest,
    )
    data = encode_manifest(manifest)
    made = PartitionCopies(
        data,
        dict(zip(paths, partitions, strict=True)),
        lambda path: LAYOUT.partition_of("events", path),
    )
    whole = {path for path in made if made[path] == data}
    assert whole == {min(paths), min(paths, key=lambda path: path.split("/"))}
    listed = [file.path for path in made for file in decode_manifest(made[path], path).files]
    assert set(listed) == {file.path for file in manifest.files}


# -- cost --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("partitions", [10, 100, 400])
def test_all_copies_together_are_two_manifests_and_a_constant_for_each_partition(partitions: int) -> None:
    store = CountingStore(MemoryStore())
    dataset = events(store)
    dataset.write(rows(1))
    store.reset()
    snapshot = dataset.write(rows(partitions))
    assert store.total == 2 * partitions + 3
    size = len(manifest_of(store, snapshot))
    made = sum(map(len, copies(store, snapshot).values()))
    assert made <= 2 * size + 700 * partitions
    data = sum(file.size_bytes for file in snapshot.files)
    assert store.bytes_in <= data + 4 * size + 700 * partitions + 100


def test_a_write_to_one_partition_has_a_copy_of_the_whole_manifest() -> None:
    store = MemoryStore()
    snapshot = events(store).write(rows(1))
    assert list(copies(store, snapshot).values()) == [manifest_of(store, snapshot)]


# -- publishing --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("made", range(5))
def test_a_helper_puts_the_same_copies_as_the_writer_that_died(made: int) -> None:
    store = MemoryStore()
    dataset = events(FaultStore(store, Fault("put", "datasets/events/segments/*/manifest.json")))
    transaction = dataset.transaction()
    transaction.stage(rows(4))
    with pytest.raises(SimulatedCrash):
        transaction.commit()
    places = LAYOUT.copies("events", transaction.snapshot_id, [f"day=d{number:04d}" for number in range(4)])
    by_writer = list(map(store.get, places))
    for path in places[made:]:
        store.delete(path)
    events(store).settle()
    assert list(map(store.get, places)) == by_writer
    assert lode.verify(events(store)).ok


def test_a_copied_dataset_has_copies_for_its_own_name() -> None:
    origin, target = MemoryStore(), MemoryStore()
    events(origin).write(rows(3))
    lode.copy(events(origin), target, name="twin")
    twin = lode.open_dataset("twin", target)
    assert lode.verify(twin).ok
    paths = [path for path in contents(target) if "/partitions/" in path and path.endswith("manifest.json")]
    for path in paths[1:]:
        copy = decode_manifest(target.get(path), path)
        assert copy.dataset_id == "twin"
        assert all(file.path.startswith("datasets/twin/partitions/") for file in copy.files)
        assert copy.row_count < twin.latest().row_count


# -- readers -----------------------------------------------------------------------------------------------


def test_a_reader_of_a_partition_gets_the_copy_and_of_the_dataset_the_manifest() -> None:
    store = MemoryStore()
    snapshot = events(store).write(rows(3))
    reader = lode.DatasetReader(store)
    (ref,) = reader.list_manifests("events", partition="day=d0002")
    copy = reader.get_manifest(ref)
    assert (copy.partition, len(copy.files), copy.row_count) == ("day=d0002", 1, 3)
    (ref,) = reader.list_manifests("events")
    assert reader.get_manifest(ref) == snapshot.manifest
    assert reader.list_partitions("events") == ["day=d0000", "day=d0001", "day=d0002"]


def restored_from_copy(store: lode.Store, snapshot: lode.Snapshot) -> str:
    """The manifest, replaced by the copy of a partition as if it had been restored from there."""
    path = f"datasets/events/segments/{snapshot.id}/manifest.json"
    replace(store, path, list(copies(store, snapshot).values())[-1])
    return path


def test_a_copy_in_the_place_of_the_manifest_is_refused_and_reported() -> None:
    store = MemoryStore()
    snapshot = events(store).write(rows(3))
    path = restored_from_copy(store, snapshot)
    with pytest.raises(ManifestInvalidError, match=r"x\.partition.*day=d0002.*only its files"):
        events(store).scan().read_all()
    assert problems(store)[0] == ("manifest-invalid", path)


def test_a_sweep_removes_no_file_because_a_copy_is_in_the_place_of_the_manifest() -> None:
    clock = Clock()
    store = MemoryStore(now_ns=clock)
    snapshot = events(store).write(rows(3))
    kept = data_files(store)
    restored_from_copy(store, snapshot)
    for path in copies(store, snapshot):
        store.delete(f"datasets/events/partitions/{path}/segments/{snapshot.id}/manifest.json")
    clock.pass_by(timedelta(hours=2))
    found = lode.sweep(events(store), timedelta(0), dry_run=False, runtime=lode.runtime.Runtime(now_ns=clock))
    assert "copy of one partition" in found.spared[snapshot.id]
    assert data_files(store) == kept


# -- verify ------------------------------------------------------------------------------------------------


def problems(store: lode.Store) -> list[tuple[str, str]]:
    return [(problem.kind, problem.path) for problem in lode.verify(events(store)).problems]


def test_copies_of_the_whole_manifest_are_valid() -> None:
    """As version 0.1, the Go implementation and stores with links put them."""
    store = MemoryStore()
    snapshot = events(store).write(rows(4))
    for partition in copies(store, snapshot):
        path = f"datasets/events/partitions/{partition}/segments/{snapshot.id}/manifest.json"
        replace(store, path, manifest_of(store, snapshot))
    assert problems(store) == []


def test_the_form_of_a_copy_does_not_matter() -> None:
    store = MemoryStore()
    snapshot = events(store).write(rows(3))
    for partition, data in copies(store, snapshot).items():
        path = f"datasets/events/partitions/{partition}/segments/{snapshot.id}/manifest.json"
        replace(store, path, json.dumps(json.loads(data)).encode() + b"\n")
    assert problems(store) == []


def without_files(copy: dict[str, Any]) -> None:
    copy["files"] = []


def with_more_rows(copy: dict[str, Any]) -> None:
    copy["row_count"] += 1


def of_another_size(copy: dict[str, Any]) -> None:
    copy["files"][0]["size_bytes"] += 1


def of_another_parent(copy: dict[str, Any]) -> None:
    copy["parent_snapshot_id"] = "1794769330328501180"


def of_another_partition(copy: dict[str, Any]) -> None:
    copy["x"]["partition"] = "day=d0001"


def without_its_mark(copy: dict[str, Any]) -> None:
    del copy["x"]["partition"]


def without_a_field(copy: dict[str, Any]) -> None:
    del copy["compressor"]


@pytest.mark.parametrize(
    "change",
    [
        without_files,
        with_more_rows,
        of_another_size,
        of_another_parent,
        of_another_partition,
        without_its_mark,
        without_a_field,
    ],
)
def test_a_copy_that_says_something_else_than_the_manifest_is_reported(change: Any) -> None:
    store = MemoryStore()
    snapshot = events(store).write(rows(3))
    path = f"datasets/events/partitions/day=d0002/segments/{snapshot.id}/manifest.json"
    document = json.loads(store.get(path))
    change(document)
    replace(store, path, json.dumps(document).encode())
    assert problems(store) == [("copy-invalid", path)]


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"swept": true}'])
def test_a_damaged_copy_is_reported(damage: bytes) -> None:
    store = MemoryStore()
    snapshot = events(store).write(rows(3))
    path = f"datasets/events/partitions/day=d0001/segments/{snapshot.id}/manifest.json"
    replace(store, path, damage)
    assert problems(store) == [("copy-invalid", path)]
    assert path in lode.verify(events(store)).problems[0].message


def test_the_copy_of_another_partition_or_snapshot_is_reported() -> None:
    store = MemoryStore()
    dataset = events(store)
    first, second = dataset.write(rows(3)), dataset.write(rows(3))
    places = [
        f"datasets/events/partitions/day=d000{number}/segments/{snapshot.id}/manifest.json"
        for number, snapshot in ((1, first), (2, second))
    ]
    one, other = map(store.get, places)
    replace(store, places[0], other)
    replace(store, places[1], one)
    assert sorted(problems(store)) == [("copy-invalid", place) for place in sorted(places)]


def test_a_damaged_copy_changes_no_answer_and_is_reported() -> None:
    store = MemoryStore()
    dataset = events(store)
    snapshot = dataset.write(rows(2))
    reader = lode.DatasetReader(store)

    def answers() -> list[object]:
        partitions = reader.list_partitions("events")
        refs = [ref for name in partitions for ref in reader.list_manifests("events", partition=name)]
        whole = reader.list_manifests("events")
        return [reader.list_datasets(), partitions, refs, *map(reader.get_manifest, [*refs, *whole])]

    expected = answers()
    for partition, data in copies(store, snapshot).items():
        path = f"datasets/events/partitions/{partition}/segments/{snapshot.id}/manifest.json"
        for at in range(len(data)):
            damaged = bytearray(data)
            damaged[at] ^= 1 << (at % 8)
            replace(store, path, bytes(damaged))
            assert answers() == expected, (path, at)
            if at % 16 == 0:
                # White space around it is not part of a document.
                reported = [problem.path for problem in lode.verify(dataset).problems]
                assert reported == [path] or bytes(damaged).strip() == data.strip(), (path, at)
        for forged in (b"", b"{}", data.replace(b'"row_count": ', b'"row_count": 1'), b"\xff" * 9):
            replace(store, path, forged)
            assert answers() == expected
            assert [problem.path for problem in lode.verify(dataset).problems] == [path]
        replace(store, path, data)
    assert lode.verify(dataset).ok


def test_a_forged_copy_of_a_partition_without_files_is_refused() -> None:
    store = MemoryStore()
    snapshot = events(store).write(rows(1))
    ((partition, data),) = copies(store, snapshot).items()
    assert partition == "day=d0000"
    store.put(f"datasets/events/partitions/day=d0009/segments/{snapshot.id}/manifest.json", data)
    reader = lode.DatasetReader(store)
    (ref,) = reader.list_manifests("events", partition="day=d0009")
    with pytest.raises(lode.NotFoundError, match="has no file in partition day=d0009"):
        reader.get_manifest(ref)
