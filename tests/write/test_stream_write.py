"""The write contract: what ``Dataset.stream_write`` promises."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

import lode
from lode.store import Fault, FaultStore, MemoryStore
from support.stores import contents, data_files, manifests, names, writes

if TYPE_CHECKING:
    from lode.store import CountingStore

# More than a writer holds back to upload in one request.
LARGE = bytes(5 << 20)


def test_stream_write_takes_none_metadata_as_an_empty_object(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store)
    snapshot = dataset.stream_write(None).commit()
    assert dataset.snapshot(snapshot.id).metadata == {}


def test_stream_write_returns_a_writer_of_one_binary_unit(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store)
    writer = dataset.stream_write()
    assert isinstance(writer, lode.StreamWriter)
    assert [writer.write(b"one "), writer.write(bytearray(b"two "))] == [4, 4]
    assert writer.write(memoryview(b"three")) == 5
    snapshot = writer.commit()
    assert len(snapshot.files) == 1
    assert dataset.read(snapshot) == b"one two three"


def test_commit_writes_the_manifest_and_returns_the_new_snapshot(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store)
    first = dataset.write(b"x")
    writer = dataset.stream_write({"kind": "backup"})
    writer.write(b"y")
    snapshot = writer.commit()
    assert (snapshot.parent_id, snapshot.metadata) == (first.id, {"kind": "backup"})
    assert f"datasets/events/snapshots/{snapshot.id}/manifest.json" in manifests(store)


@pytest.mark.parametrize("data", [b"small", LARGE], ids=["small", "large"])
def test_a_streamed_snapshot_is_not_visible_before_commit(store: CountingStore, data: bytes) -> None:
    dataset = lode.Dataset("events", store)
    writer = dataset.stream_write()
    writer.write(data)
    assert lode.Dataset("events", store).snapshots() == []
    assert (manifests(store), data_files(store)) == ([], [])
    snapshot = writer.commit()
    assert lode.Dataset("events", store).latest() == snapshot


@pytest.mark.parametrize("data", [b"small", LARGE], ids=["small", "large"])
@pytest.mark.parametrize("ending", ["abort", "close"])
def test_a_stream_that_is_aborted_or_closed_writes_no_manifest(
    store: CountingStore, ending: str, data: bytes
) -> None:
    writer = lode.Dataset("events", store).stream_write()
    writer.write(data)
    getattr(writer, ending)()
    assert contents(store) == {}
    assert writer.closed


def test_leaving_the_with_block_without_commit_aborts(store: CountingStore) -> None:
    with lode.Dataset("events", store).stream_write() as writer:
        writer.write(b"lost")
    assert contents(store) == {}


def test_an_exception_in_the_with_block_aborts_and_passes_through(store: CountingStore) -> None:
    def fail() -> None:
        with lode.Dataset("events", store).stream_write() as writer:
            writer.write(b"lost")
            raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        fail()
    assert contents(store) == {}


def test_leaving_the_with_block_after_commit_keeps_the_snapshot(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store)
    with dataset.stream_write() as writer:
        writer.write(b"kept")
        snapshot = writer.commit()
    assert dataset.read(dataset.latest()) == b"kept"
    assert dataset.latest() == snapshot


@pytest.mark.parametrize("ending", ["abort", "close"])
def test_abort_and_close_after_commit_change_nothing(store: CountingStore, ending: str) -> None:
    dataset = lode.Dataset("events", store)
    writer = dataset.stream_write()
    snapshot = writer.commit()
    getattr(writer, ending)()
    assert dataset.latest() == snapshot
    assert data_files(store) == [snapshot.files[0].path]


@pytest.mark.parametrize("ending", ["abort", "commit"])
def test_a_finished_stream_takes_neither_bytes_nor_a_second_commit(store: CountingStore, ending: str) -> None:
    writer = lode.Dataset("events", store).stream_write()
    getattr(writer, ending)()
    with pytest.raises(lode.TransactionClosedError, match="stream_write"):
        writer.write(b"late")
    with pytest.raises(lode.TransactionClosedError):
        writer.commit()


def test_a_streamed_blob_goes_to_its_final_path_in_a_single_pass(store: CountingStore) -> None:
    writer = lode.Dataset("events", store).stream_write()
    store.reset()
    writer.write(LARGE)
    writer.write(b"tail")
    snapshot = writer.commit()
    assert writes(store)[snapshot.files[0].path] == 1
    assert names(store)[:2] == [("open_writer", "blob"), ("commit", "blob")]
    assert store.bytes_in < len(LARGE) + 4096


def test_streamed_writes_change_no_existing_object(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store)
    dataset.write(b"first")
    before = contents(store)
    with dataset.stream_write() as writer:
        writer.write(b"second")
        writer.commit()
    changed = {path for path, data in contents(store).items() if before.get(path, data) != data}
    assert changed == {"datasets/events/latest"}
    assert {path for path, times in writes(store).items() if times > 1} <= {"datasets/events/latest"}


def test_a_streamed_blob_has_a_row_count_of_one(store: CountingStore) -> None:
    writer = lode.Dataset("events", store).stream_write()
    writer.write(b"a\nb\n")
    assert writer.commit().row_count == 1


@pytest.mark.parametrize("compressor", ["noop", "gzip", "zstd"])
@pytest.mark.parametrize("data", [b"small", LARGE], ids=["small", "large"])
def test_the_checksum_is_computed_while_streaming_and_recorded(
    store: CountingStore, data: bytes, compressor: str
) -> None:
    dataset = lode.Dataset("events", store, checksum="md5", compressor=compressor)
    writer = dataset.stream_write()
    writer.write(data)
    snapshot = writer.commit()
    assert store.bytes_out == 0
    (file,) = snapshot.files
    stored = contents(store)[file.path]
    assert (file.checksum, file.size_bytes) == (hashlib.md5(stored).hexdigest(), len(stored))
    assert snapshot.manifest.checksum_algorithm == "md5"
    assert dataset.read(snapshot, verify=True) == data


def test_stream_write_with_a_codec_is_an_error_before_any_call(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store, codec="jsonl")
    with pytest.raises(lode.CodecConfiguredError, match=r"'events' has the codec 'jsonl'.*write\(\)"):
        dataset.stream_write()
    assert store.total == 0


@pytest.mark.parametrize(
    ("method", "data"),
    [("put", b"small"), ("open_writer", LARGE), ("write", LARGE), ("commit", LARGE)],
)
def test_a_storage_error_while_streaming_leaves_nothing_behind(method: str, data: bytes) -> None:
    inner = MemoryStore()
    store = FaultStore(inner, Fault(method, "*/data/*", error=lode.StoreError("disk full")))
    writer = lode.Dataset("events", store).stream_write()

    def write_and_commit() -> None:
        writer.write(data)
        writer.commit()

    with pytest.raises(lode.StoreError, match="disk full"):
        write_and_commit()
    assert contents(inner) == {}
    assert writer.closed
