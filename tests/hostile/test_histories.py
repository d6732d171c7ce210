"""Contradictory histories raise one clear error, in bounded time and memory."""

from __future__ import annotations

import json
import resource
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import zstandard

import lode
from lode.format.manifest import MAX_MANIFEST_BYTES
from lode.read.segment import MAX_SEGMENT_BYTES, encode_segment
from lode.runtime import REAL
from lode.store import CountingStore, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

AT_ONCE = replace(REAL, background=lambda chore: chore())
WALKS: dict[str, Callable[[lode.Dataset], object]] = {
    "snapshots": lambda ds: ds.snapshots(),
    "history": lambda ds: list(ds.history()),
    "plan": lambda ds: ds.plan().paths,
    "scan": lambda ds: ds.scan().read_all(),
    "changes": lambda ds: ds.changes(since="no-such-snapshot"),
}


def grown(count: int, **options: Any) -> MemoryStore:
    store = MemoryStore()
    dataset = opened(store)
    for number in range(count):
        dataset.write([{"n": number}], **options)
    return store


def opened(store: lode.Store | Path) -> lode.Dataset:
    return lode.Dataset("d", store, codec=lode.JSONL(), runtime=AT_ONCE)


def path_of(snapshot: lode.Snapshot) -> str:
    return f"datasets/d/snapshots/{snapshot.id}/manifest.json"


def replaced(store: lode.Store, path: str, data: bytes) -> None:
    store.delete(path)
    store.put(path, data)


def changed(store: lode.Store, snapshot: lode.Snapshot, **fields: Any) -> None:
    """Write other values into a published manifest; None removes the field."""
    found = json.loads(store.get(path_of(snapshot))) | fields
    kept = {name: value for name, value in found.items() if value is not None}
    replaced(store, path_of(snapshot), json.dumps(kept).encode())


def without_sequences(store: lode.Store) -> None:
    """As the Go implementation writes manifests."""
    for snapshot in opened(store).snapshots():
        changed(store, snapshot, sequence=None)


@pytest.mark.parametrize("numbered", [True, False], ids=["numbered", "unnumbered"])
@pytest.mark.parametrize("walk", WALKS)
def test_a_cycle_of_parents_is_an_error_that_names_a_snapshot(walk: str, numbered: bool) -> None:
    store = grown(4)
    snapshots = opened(store).snapshots()
    if not numbered:
        without_sequences(store)
    changed(store, snapshots[0], parent_snapshot_id=snapshots[2].id)
    with pytest.raises(lode.ManifestInvalidError, match=r"snapshot '[^']+'.*lode verify") as refused:
        WALKS[walk](opened(store))
    assert any(snapshot.id in str(refused.value) for snapshot in snapshots)


def test_a_cycle_without_a_pointer_is_not_taken_for_an_empty_dataset() -> None:
    store = grown(3)
    snapshots = opened(store).snapshots()
    changed(store, snapshots[0], parent_snapshot_id=snapshots[2].id)
    store.delete("datasets/d/latest")
    with pytest.raises(lode.ManifestInvalidError, match="cycle"):
        opened(store).write([{"n": 9}])


def test_a_cycle_of_recent_commits_does_not_stop_a_writer() -> None:
    store = MemoryStore()
    hive = lode.Dataset("d", store, codec=lode.JSONL(), layout=lode.HiveLayout("k"))
    first = hive.write([{"k": "a"}])
    other = lode.Dataset("d", store, codec=lode.JSONL(), layout=lode.HiveLayout("k"))
    transaction = other.transaction()
    transaction.stage([{"k": "b"}])
    second = hive.write([{"k": "c"}])
    for snapshot in (first, second):
        path = f"datasets/d/segments/{snapshot.id}/manifest.json"
        found = json.loads(store.get(path))
        # The older commit lists the newer one as recent: a cycle.
        found["x"] = {"recent": {"unknown": ["k=x"], second.id: ["k=c"]}}
        found["parent_snapshot_id"] = second.id
        replaced(store, path, json.dumps(found).encode())
    with pytest.raises(lode.LodeError):
        transaction.commit()


@pytest.mark.parametrize("sequence", [1, 3, 7, 16, 2**50, 2**53 - 1, 2**62])
@pytest.mark.parametrize("place", [0, 1, -1])
def test_a_wrong_sequence_is_an_error_after_few_reads(place: int, sequence: int) -> None:
    inner = grown(5)
    snapshots = opened(inner).snapshots()
    right = (place % 5) + 1 == sequence
    changed(inner, snapshots[place], sequence=sequence)
    store = CountingStore(inner)
    for walk in WALKS.values():
        error: lode.LodeError | None = None
        try:
            walk(opened(store))
        except lode.LodeError as raised:
            error = raised
        # Where the sequence is the right one, "changes" still looks for a missing snapshot.
        assert isinstance(error, lode.ManifestInvalidError) != right
        assert right or "sequence" in str(error)
    assert store.total < 1000


def test_a_first_snapshot_that_claims_ancestors_is_an_error_and_not_a_short_history() -> None:
    store = grown(5)
    snapshots = opened(store).snapshots()
    changed(store, snapshots[3], parent_snapshot_id=None)
    for walk in ("snapshots", "history", "plan"):
        with pytest.raises(lode.ManifestInvalidError, match="names no parent"):
            WALKS[walk](opened(store))


def test_the_largest_sequence_has_no_child() -> None:
    store = grown(1)
    changed(store, opened(store).latest(), sequence=2**53 - 1)
    with pytest.raises(lode.ManifestInvalidError, match="after which there is none"):
        opened(store).write([{"n": 1}])


def test_a_missing_parent_is_an_error_that_names_both_snapshots() -> None:
    store = grown(3)
    first, second, _ = opened(store).snapshots()
    store.delete(path_of(first))
    for walk in ("snapshots", "history", "scan"):
        with pytest.raises(lode.ManifestInvalidError, match=f"{first.id}.* is missing.*{second.id}"):
            WALKS[walk](opened(store))


@pytest.mark.parametrize(
    "start", [b"", b'{"schema_name":"lode-history","first":1,"last":16,"listing":{"parent":"']
)
def test_a_segment_that_unpacks_to_gigabytes_is_ignored_in_bounded_memory(start: bytes) -> None:
    store = grown(20)
    expected = opened(store).snapshots()
    packer = zstandard.ZstdCompressor(level=1).compressobj()
    zeros = b"0" * (1 << 24)
    bomb = [packer.compress(start), *(packer.compress(zeros) for _ in range(16)), packer.flush()]
    replaced(store, "datasets/d/history/16/000000000016.json.zst", b"".join(bomb))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert opened(store).snapshots() == expected
    assert list(opened(store).history()) == expected[::-1]
    assert len(opened(store).plan().paths) == 20
    grown_by = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_by * 1024 < 5 * MAX_SEGMENT_BYTES


def test_a_segment_that_readers_would_refuse_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lode.read.segment.MAX_SEGMENT_BYTES", 4096)
    monkeypatch.setattr("lode.write.segments.MAX_SEGMENT_BYTES", 4096)
    store = grown(16, metadata={"long": "x" * 1000})
    assert not list(store.list("datasets/d/history/"))
    with pytest.raises(lode.ManifestInvalidError, match="larger than 4096"):
        encode_segment([store.get(path_of(snapshot)) for snapshot in opened(store).snapshots()], 16)


def test_a_history_that_claims_more_snapshots_than_it_has_gets_no_segment() -> None:
    store = grown(3)
    snapshots = opened(store).snapshots()
    for number, snapshot in enumerate(snapshots):
        changed(store, snapshot, sequence=4096 * 4 - 3 + number)
    opened(store).write([{"n": 9}])
    assert not list(store.list("datasets/d/history/"))


@pytest.mark.parametrize("name", ["latest", "manifest"])
def test_an_object_of_a_terabyte_is_refused_without_reading_it(tmp_path: Path, name: str) -> None:
    snapshot = opened(tmp_path).write([{"n": 1}])
    path = tmp_path / ("datasets/d/latest" if name == "latest" else path_of(snapshot))
    with path.open("r+b") as file:
        file.truncate(1 << 40)
    with pytest.raises(lode.ManifestInvalidError, match="bytes"):
        opened(tmp_path).latest()


def test_a_manifest_that_readers_would_refuse_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lode.format.manifest.MAX_MANIFEST_BYTES", 4096)
    store = grown(1)
    with pytest.raises(lode.ManifestInvalidError, match="commit fewer"):
        opened(store).write([{"n": 1}], {"long": "x" * 5000})
    assert len(opened(store).snapshots()) == 1
    assert MAX_MANIFEST_BYTES == 256 << 20


def test_a_repaired_manifest_is_read_by_the_object_that_saw_it_damaged() -> None:
    store = grown(3)
    snapshots = opened(store).snapshots()
    intact = store.get(path_of(snapshots[1]))
    for damage in (b"{", json.dumps({**json.loads(intact), "snapshot_id": "other"}).encode()):
        dataset = opened(store)
        replaced(store, path_of(snapshots[1]), damage)
        for walk in ("snapshots", "history"):
            with pytest.raises(lode.ManifestInvalidError):
                WALKS[walk](dataset)
        replaced(store, path_of(snapshots[1]), intact)
        assert dataset.snapshots() == snapshots


def test_a_manifest_stored_as_another_snapshot_is_refused_by_both_names() -> None:
    store = grown(2)
    first, second = opened(store).snapshots()
    replaced(store, path_of(second), store.get(path_of(first)))
    with pytest.raises(
        lode.ManifestInvalidError, match=f"'{first.id}'.*stored as snapshot '{second.id}'"
    ) as caught:
        opened(store).latest()
    assert caught.value.field == "snapshot_id"


@pytest.mark.parametrize("count", [2, 20])
def test_a_dataset_copied_by_hand_is_refused_with_a_remedy(count: int) -> None:
    store = grown(count)
    for entry in list(store.list("datasets/d/")):
        store.put(entry.path.replace("datasets/d/", "datasets/copy/"), store.get(entry.path))
    copy = lode.Dataset("copy", store, codec=lode.JSONL())
    for walk in ("snapshots", "history", "scan"):
        with pytest.raises(
            lode.ManifestInvalidError, match=r"'d'.*'copy'.*move it back.*a-copy-under-another-name"
        ):
            WALKS[walk](copy)
    with pytest.raises(lode.ManifestInvalidError, match="dataset_id"):
        copy.write([{"n": 1}])


def test_an_intent_of_another_dataset_is_never_published() -> None:
    store = grown(1)
    found = json.loads(store.get(path_of(opened(store).latest())))
    forged = {**found, "dataset_id": "other", "snapshot_id": "forged", "sequence": 2}
    store.put("datasets/d/snapshots/forged/intent.json", json.dumps(forged).encode())
    replaced(store, "datasets/d/latest", b"forged")
    with pytest.raises(lode.ManifestInvalidError, match="'other'"):
        opened(store).latest()
    with pytest.raises(lode.ManifestInvalidError, match="'other'"):
        opened(store).write([{"n": 2}])
    assert not store.exists("datasets/d/snapshots/forged/manifest.json")


def test_a_volume_manifest_of_another_volume_is_refused() -> None:
    store = MemoryStore()
    volume = lode.Volume("v", store, 10)
    volume.commit([volume.stage_write_at(0, b"x")])
    for entry in list(store.list("volumes/v/")):
        store.put(entry.path.replace("volumes/v/", "volumes/w/"), store.get(entry.path))
    with pytest.raises(lode.ManifestInvalidError, match=r"field 'volume_id' is 'v'.*'w'"):
        lode.Volume("w", store, 10).latest()


@pytest.mark.parametrize(
    "content", [b"", b"../../x", b"a/b", b"\xff\xfe", b"a\0b", b"x" * 1_000_000, b"x" * 2000, b"."]
)
def test_a_pointer_that_is_no_id_is_an_error_with_a_remedy(content: bytes) -> None:
    store = grown(2)
    replaced(store, "datasets/d/latest", content)
    calls = (lambda: opened(store).latest(), lambda: opened(store).write([{"n": 1}]))
    for call in (*calls, lambda: lode.open_dataset("d", store)):
        with pytest.raises(lode.ManifestInvalidError, match="datasets/d/latest") as caught:
            call()
        assert len(str(caught.value)) < 500
    (problem,) = lode.verify(opened(store)).problems
    assert problem.kind == "pointer"
    store.delete("datasets/d/latest")
    opened(store).write([{"n": 2}])
    assert len(opened(store).snapshots()) == 3


@pytest.mark.parametrize(
    "record",
    [
        b"{",
        b"[" * 100_000,
        b'{"writer": "", "key": "k", "snapshot_id": "../../x"}',
        b'{"writer": "", "key": "k", "snapshot_id": "unknown"}',
        None,
    ],
)
def test_a_damaged_key_neither_hides_nor_doubles_its_write_and_is_repaired(record: bytes | None) -> None:
    store = grown(1)
    dataset = opened(store)
    first = dataset.write([{"n": 1}], idempotency_key="k")
    other = dataset.write([{"n": 2}], idempotency_key="other")
    (path,) = [
        entry.path
        for entry in store.list("datasets/d/keys/")
        if other.id.encode() not in store.get(entry.path)
    ]
    good = store.get(path)
    named = json.dumps({"writer": "", "key": "k", "snapshot_id": other.id}).encode()
    replaced(store, path, named if record is None else record)
    assert opened(store).write([{"n": 3}], idempotency_key="k").id == first.id
    assert len(opened(store).snapshots()) == 3
    assert store.get(path) == good


def test_a_key_that_names_nothing_does_not_keep_its_job_from_running_once() -> None:
    store = grown(1)
    path = opened(store).chain.paths.key("", "k")
    store.put(path, b'{"writer": "", "key": "k", "snapshot_id": "lost"}')
    first = opened(store).write([{"n": 3}], idempotency_key="k")
    assert opened(store).write([{"n": 3}], idempotency_key="k").id == first.id
    assert len(opened(store).snapshots()) == 2
    assert json.loads(store.get(path))["snapshot_id"] == first.id


@pytest.mark.parametrize("name", ["latest", "newest"])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("x.idempotency", {"idempotency": 7}),
        ("x.idempotency", {"idempotency": {"writer": "w"}}),
        ("x.recent", {"recent": [1]}),
        ("x.rebases", {"rebases": "many"}),
        ("x.writer", {"writer": {}}),
    ],
)
def test_an_extension_of_another_shape_is_an_error_that_names_its_field(
    name: str, field: str, value: dict[str, Any]
) -> None:
    store = grown(2)
    changed(store, opened(store).snapshots()[-1 if name == "newest" else 0], x=value)
    with pytest.raises(lode.ManifestInvalidError) as caught:
        opened(store).snapshots()
    assert str(caught.value.field).startswith(field)


@pytest.mark.parametrize(
    "text",
    [
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
        "9999-12-31T23:59:59.999999999Z",
    ],
)
def test_a_time_that_no_datetime_can_hold_is_an_error(text: str) -> None:
    store = grown(1)
    changed(store, opened(store).latest(), created_at=text)
    with pytest.raises(lode.ManifestInvalidError, match="created_at"):
        opened(store).latest()


def test_the_first_year_is_a_valid_time() -> None:
    """The Go implementation writes it for a time that was never set."""
    store = grown(1)
    changed(store, opened(store).latest(), created_at="0001-01-01T00:00:00Z")
    assert opened(store).latest().created_at.year == 1
    assert opened(store).write([{"n": 1}]).created_at.year > 2000


@pytest.mark.parametrize("depth", [200, 500, 100_000])
def test_deeply_nested_json_is_an_error_everywhere(depth: int) -> None:
    store = grown(2)
    newest = opened(store).latest()
    data = store.get(path_of(newest)).replace(
        b'"metadata": {}', b'"metadata": {"a": %s}' % (b"[" * depth + b"]" * depth)
    )
    replaced(store, path_of(newest), data)
    with pytest.raises(lode.ManifestInvalidError, match="nested"):
        opened(store).latest()
    assert not lode.verify(opened(store)).ok


def test_metadata_that_readers_would_refuse_is_not_written() -> None:
    deep: Any = 1
    for _ in range(200):
        deep = [deep]
    with pytest.raises(lode.InvalidMetadataError, match="nested"):
        opened(MemoryStore()).write([{"n": 1}], {"deep": deep})


@pytest.mark.parametrize("codec", ["jsonl", "parquet", "arrow"])
@pytest.mark.parametrize("where", ["disk", "memory"])
def test_a_missing_or_damaged_file_is_an_error_that_names_it(codec: str, where: str, tmp_path: Path) -> None:
    store: lode.Store = MemoryStore() if where == "memory" else lode.open_store(tmp_path)
    codecs = {"jsonl": lode.JSONL, "parquet": lode.Parquet, "arrow": lode.ArrowIPC}
    dataset = lode.Dataset("d", store, codec=codecs[codec]({"n": "int64"}))
    file = dataset.write([{"n": number} for number in range(100)]).files[0]
    data = store.get(file.path)
    for damage in (b"", b"\xff" * len(data), data[: len(data) // 2 + 1], b"PAR1" + bytes(20) + b"PAR1"):
        replaced(store, file.path, damage)
        for read in (lambda: dataset.scan().read_all(), lambda: dataset.read(dataset.latest())):
            if codec == "jsonl" and damage == b"":
                continue  # an empty text file is valid
            with pytest.raises(lode.DataError, match=file.path):
                read()
    store.delete(file.path)
    for read in (lambda: dataset.scan().read_all(), lambda: dataset.read(dataset.latest())):
        with pytest.raises(lode.NotFoundError, match=file.path):
            read()


def test_a_scan_opens_no_file_outside_of_the_lake(tmp_path: Path) -> None:
    outside = lode.Dataset("secret", tmp_path, codec=lode.Parquet({"n": "int64"})).write([{"n": 7}])
    dataset = lode.Dataset("d", tmp_path / "lake", codec=lode.Parquet({"n": "int64"}))
    snapshot = dataset.write([{"n": 1}])
    secret = tmp_path / outside.files[0].path
    path = f"../{secret.relative_to(tmp_path)}"
    file = {**json.loads((tmp_path / "lake" / path_of(snapshot)).read_text())["files"][0], "path": path}
    changed(lode.open_store(tmp_path / "lake"), snapshot, files=[file])
    with pytest.raises(lode.LodeError, match=r"\.\."):
        lode.open_dataset("d", tmp_path / "lake").scan().read_all()
