"""The write contract: each situation has its error, and each error has a remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import lode
from support.codecs import WholeLines
from support.stores import contents

if TYPE_CHECKING:
    from lode.store import CountingStore


def test_an_empty_history_is_no_snapshots(store: CountingStore) -> None:
    with pytest.raises(lode.NoSnapshotsError):
        lode.Dataset("events", store).latest()


def test_an_unknown_snapshot_is_not_found(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store)
    dataset.write(b"x")
    with pytest.raises(lode.NotFoundError, match="'events' has no snapshot '42'"):
        dataset.snapshot("42")
    with pytest.raises(lode.NotFoundError):
        dataset.read("42")


def test_writing_onto_an_existing_path_is_path_exists(store: CountingStore) -> None:
    store.put("a", b"1")
    with pytest.raises(lode.PathExistsError, match="'a'"):
        store.put("a", b"2")
    assert store.get("a") == b"1"


def test_stream_write_with_a_codec_is_codec_configured(store: CountingStore) -> None:
    with pytest.raises(lode.CodecConfiguredError):
        lode.Dataset("events", store, codec="jsonl").stream_write()


def test_streaming_records_through_a_whole_file_codec_is_codec_not_streamable(store: CountingStore) -> None:
    with pytest.raises(lode.CodecNotStreamableError):
        lode.Dataset("events", store, codec=WholeLines()).stream_write_records([])


def test_streaming_records_from_nothing_is_nil_iterator(store: CountingStore) -> None:
    with pytest.raises(lode.NilIteratorError):
        lode.Dataset("events", store, codec="jsonl").stream_write_records(None)  # type: ignore[arg-type]


def test_streaming_records_into_partitions_is_partitioning_not_supported(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store, codec="jsonl", layout=lode.HiveLayout("day"))
    with pytest.raises(lode.PartitioningNotSupportedError):
        dataset.stream_write_records([])


def test_another_commit_since_the_parent_was_read_is_snapshot_conflict(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store)
    dataset.write(b"x")
    lode.Dataset("events", store).write(b"y")
    with pytest.raises(lode.SnapshotConflictError):
        dataset.write(b"z")


def test_reading_with_another_codec_names_both(store: CountingStore) -> None:
    snapshot = lode.Dataset("events", store, codec="jsonl").write([{"id": 1}])
    with pytest.raises(lode.ComponentMismatchError, match=r"codec 'jsonl'.*'parquet'.*leave the option out"):
        lode.Dataset("events", store, codec="parquet").read(snapshot.id)


def test_reading_a_blob_with_a_codec_names_both(store: CountingStore) -> None:
    snapshot = lode.Dataset("events", store).write(b"x")
    with pytest.raises(lode.ComponentMismatchError, match=r"codec None.*'jsonl'"):
        lode.Dataset("events", store, codec="jsonl").read(snapshot)


def test_reading_with_another_compressor_names_both(store: CountingStore) -> None:
    lode.Dataset("events", store, codec="jsonl", compressor="gzip").write([{"id": 1}])
    dataset = lode.Dataset("events", store, codec="jsonl", compressor="zstd")
    with pytest.raises(lode.ComponentMismatchError, match=r"compressor 'gzip'.*'zstd'.*leave the option out"):
        dataset.read(dataset.latest())
    with pytest.raises(lode.ComponentMismatchError, match="compressor 'gzip'"):
        dataset.scan()


def test_verifying_with_another_checksum_than_was_recorded_names_it(store: CountingStore) -> None:
    snapshot = lode.Dataset("events", store, checksum="md5").write(b"x")
    with pytest.raises(lode.ComponentMismatchError, match="checksum='md5'"):
        lode.Dataset("events", store, checksum="sha256").read(snapshot, verify=True)


def test_scanning_blobs_suggests_read(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store)
    dataset.write(b"x")
    with pytest.raises(lode.InvalidOptionError, match=r"holds blobs.*read\(snapshot\)"):
        dataset.scan()


def test_a_new_dataset_with_partitions_needs_a_codec(store: CountingStore) -> None:
    with pytest.raises(lode.InvalidOptionError, match="partitioned by day needs a codec"):
        lode.Dataset("events", store, layout=lode.HiveLayout("day")).write([{"day": "mon"}])
    assert contents(store) == {}


@pytest.mark.parametrize("id", ["", "a/b", "a\\b", "..", "a..b", ".", "tab\t", "nul\0", "del\x7f"])
def test_an_id_that_is_no_path_segment_is_refused_before_any_call(store: CountingStore, id: str) -> None:
    with pytest.raises(lode.InvalidPathError, match="dataset id"):
        lode.Dataset(id, store)
    with pytest.raises(lode.InvalidPathError, match="snapshot id"):
        lode.Dataset("events", store).snapshot(id)
    assert store.total == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"codec": "csv"}, "unknown codec 'csv'"),
        ({"compressor": "lzma"}, "unknown compressor 'lzma'"),
        ({"checksum": "crc"}, "unknown checksum 'crc'"),
    ],
)
def test_an_unknown_component_is_refused_with_the_known_ones(
    store: CountingStore, options: dict[str, str], message: str
) -> None:
    with pytest.raises(lode.InvalidOptionError, match=message):
        lode.Dataset("events", store, **options)  # type: ignore[arg-type]
    assert store.total == 0


def test_a_row_that_does_not_fit_names_row_and_column(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store, codec=lode.Parquet({"id": "int32!"}))
    with pytest.raises(lode.SchemaViolationError, match="row 2, column 'id'") as caught:
        dataset.write([{"id": 1}, {"id": 2}, {"id": 2**40}])
    assert (caught.value.row, caught.value.column) == (2, "id")


def test_a_row_of_a_partitioned_write_is_named_by_its_number_in_the_callers_data(
    store: CountingStore,
) -> None:
    dataset = lode.Dataset(
        "events", store, codec=lode.Parquet({"day": "string", "id": "int64"}), layout=lode.HiveLayout("day")
    )
    with pytest.raises(lode.SchemaViolationError, match="row 3, column 'id'"):
        dataset.write([{"day": "12"[n % 2], "id": n if n < 3 else "x"} for n in range(4)])


def test_an_arrow_column_of_another_type_names_it(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store, codec=lode.Parquet({"id": "int64"}))
    with pytest.raises(lode.SchemaViolationError, match="'id'"):
        dataset.write(pa.table({"id": ["one"]}))


def test_a_damaged_file_is_named(memory: CountingStore) -> None:
    dataset = lode.Dataset("events", memory, codec="jsonl")
    snapshot = dataset.write([{"id": 1}])
    path = snapshot.files[0].path
    whole = memory.get(path)
    memory.delete(path)
    memory.put(path, whole.replace(b"}", b" "))
    with pytest.raises(lode.InvalidFormatError, match=f"{path}: line 1"):
        dataset.read(snapshot)


def test_a_file_that_was_changed_fails_its_checksum(memory: CountingStore) -> None:
    dataset = lode.Dataset("events", memory, checksum="xxh3-128")
    snapshot = dataset.write(b"abc")
    path = snapshot.files[0].path
    memory.delete(path)
    memory.put(path, b"abd")
    with pytest.raises(lode.ChecksumMismatchError, match=f"{path} has xxh3-128 .*its manifest says"):
        dataset.read(snapshot, verify=True)


def test_a_manifest_that_lacks_a_field_is_never_skipped(memory: CountingStore) -> None:
    dataset = lode.Dataset("events", memory)
    first = dataset.write(b"x")
    dataset.write(b"y")
    path = f"datasets/events/snapshots/{first.id}/manifest.json"
    damaged = memory.get(path).replace(b'"row_count"', b'"rows"')
    memory.delete(path)
    memory.put(path, damaged)
    with pytest.raises(lode.ManifestInvalidError, match=f"{path}: field 'row_count'"):
        lode.Dataset("events", memory).snapshots()
