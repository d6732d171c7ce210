"""The write contract: what ``Dataset.stream_write_records`` promises."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import pytest

import lode
from lode.store import Fault, FaultStore, MemoryStore
from support.codecs import CountedStreamedLines, StreamedLines, WholeLines
from support.stores import contents, data_files, manifests, names, writes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lode.store import CountingStore


def rows(count: int) -> Iterator[dict[str, Any]]:
    return ({"id": number} for number in range(count))


def test_stream_write_records_takes_none_metadata_as_an_empty_object(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store, codec="jsonl")
    snapshot = dataset.stream_write_records(rows(1), None)
    assert dataset.snapshot(snapshot.id).metadata == {}


def test_without_an_iterator_it_is_an_error_before_any_call(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store, codec="jsonl")
    with pytest.raises(lode.NilIteratorError, match="iterator of records, got None"):
        dataset.stream_write_records(None)  # type: ignore[arg-type]
    assert store.total == 0


def test_records_are_pulled_while_they_are_encoded(memory: CountingStore) -> None:
    codec = StreamedLines()
    encoded_when_pulled: list[int] = []

    def source() -> Iterator[str]:
        for number in range(20_000):
            if number == 19_999:
                encoded_when_pulled.append(len(codec.log))
            yield str(number)

    snapshot = lode.Dataset("events", memory, codec=codec).stream_write_records(source())
    assert snapshot.row_count == 20_000
    assert encoded_when_pulled[0] > 0, "earlier records were encoded before the last one was pulled"


def test_a_codec_that_cannot_stream_is_an_error_before_any_call(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store, codec=WholeLines())
    with pytest.raises(lode.CodecNotStreamableError, match=r"codec 'lines'.*use write\(\)"):
        dataset.stream_write_records(iter(["a"]))
    assert store.total == 0


def test_no_codec_at_all_is_the_same_error(store: CountingStore) -> None:
    with pytest.raises(lode.CodecNotStreamableError):
        lode.Dataset("events", store).stream_write_records(iter([b"a"]))
    assert contents(store) == {}


def test_a_partitioned_dataset_is_an_error_before_any_call(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store, codec="jsonl", layout=lode.HiveLayout("day"))
    with pytest.raises(lode.PartitioningNotSupportedError, match=r"partitioned by day.*write_records"):
        dataset.stream_write_records(rows(1))
    assert store.total == 0


@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
def test_streamed_records_go_to_their_final_path_in_a_single_pass(store: CountingStore, large: bool) -> None:
    dataset = lode.Dataset("events", store, codec="jsonl")
    records = ({"id": number, "text": "x" * 500_000 * large} for number in range(12))
    store.reset()
    snapshot = dataset.stream_write_records(records)
    (file,) = snapshot.files
    assert writes(store)[file.path] == 1
    assert [name for name in names(store) if name[1] == "data.jsonl"] == (
        [("open_writer", "data.jsonl"), ("commit", "data.jsonl")] if large else [("put", "data.jsonl")]
    )


def test_streamed_record_writes_change_no_existing_object(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store, codec="jsonl")
    dataset.stream_write_records(rows(1))
    before = contents(store)
    dataset.stream_write_records(rows(1))
    changed = {path for path, data in contents(store).items() if before.get(path, data) != data}
    assert changed == {"datasets/events/latest"}


def test_on_success_the_manifest_is_written_and_the_snapshot_returned(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store, codec="jsonl")
    snapshot = dataset.stream_write_records(rows(3), {"k": 1})
    assert dataset.latest() == snapshot
    assert dataset.read(snapshot) == list(rows(3))
    assert snapshot.metadata == {"k": 1}


@pytest.mark.parametrize("after", [0, 3, 10_000])
def test_an_iterator_failure_leaves_no_object_and_passes_through(store: CountingStore, after: int) -> None:
    def source() -> Iterator[dict[str, Any]]:
        yield from rows(after)
        raise KeyError("the source broke")

    dataset = lode.Dataset("events", store, codec="jsonl")
    with pytest.raises(KeyError, match="the source broke"):
        dataset.stream_write_records(source())
    assert contents(store) == {}


@pytest.mark.parametrize("fail_at", [0, 15_000])
def test_a_codec_error_leaves_no_object(store: CountingStore, fail_at: int) -> None:
    dataset = lode.Dataset("events", store, codec=StreamedLines(fail_at))
    with pytest.raises(ValueError, match="cannot be encoded"):
        dataset.stream_write_records(map(str, range(20_000)))
    assert contents(store) == {}


def test_a_value_the_codec_cannot_carry_names_its_row_and_leaves_no_object(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store, codec="jsonl")
    with pytest.raises(lode.SchemaViolationError, match="row 1, field 'id'"):
        dataset.stream_write_records(iter([{"id": 1}, {"id": float("nan")}]))
    assert contents(store) == {}


BIG = [{"text": "x" * 1_000_000} for _ in range(6)]


@pytest.mark.parametrize(
    ("method", "path", "records"),
    [
        ("put", "*/data/*", [{"id": 1}]),
        ("open_writer", "*", BIG),
        ("write", "*", BIG),
        ("commit", "*", BIG),
        ("put", "*/intent.json", [{"id": 1}]),
        ("put", "*/intent.json", BIG),
    ],
)
def test_a_storage_error_leaves_no_object_and_no_manifest(method: str, path: str, records: list[Any]) -> None:
    inner = MemoryStore()
    store = FaultStore(inner, Fault(method, path, error=lode.StoreError("disk full")))
    with pytest.raises(lode.StoreError, match="disk full"):
        lode.Dataset("events", store, codec="jsonl").stream_write_records(iter(records))
    # A definition may remain: it is named by its content and refers to nothing.
    assert [path for path in contents(inner) if "/definition/" not in path] == []


@pytest.mark.parametrize("records", [[{"id": 1}], BIG], ids=["small", "large"])
def test_an_upload_whose_answer_was_lost_is_cleaned_up_too(records: list[Any]) -> None:
    inner = MemoryStore()
    lost = lode.OutcomeUnknownError("no answer")
    store = FaultStore(
        inner,
        Fault("put", "*/data/*", when="after", error=lost),
        Fault("commit", "*/data/*", when="after", error=lost),
    )
    with pytest.raises(lode.OutcomeUnknownError):
        lode.Dataset("events", store, codec="jsonl").stream_write_records(iter(records))
    assert data_files(inner) == []


def test_a_cleanup_that_fails_changes_nothing_about_the_error() -> None:
    inner = MemoryStore()
    store = FaultStore(
        inner,
        Fault("put", "*/intent.json", error=lode.StoreError("disk full")),
        Fault("delete", "*", times=None, error=lode.StoreError("cannot delete either")),
    )
    dataset = lode.Dataset("events", store, codec="jsonl")
    with pytest.raises(lode.StoreError, match="disk full"):
        dataset.stream_write_records(rows(1))
    assert manifests(inner) == []
    assert len(data_files(inner)) == 1
    assert dataset.snapshots() == []
    store.clear()
    assert dataset.stream_write_records(rows(1)).parent_id is None


def test_an_abort_that_fails_changes_nothing_about_the_error() -> None:
    inner = MemoryStore()
    store = FaultStore(
        inner,
        Fault("write", "*", nth=2, error=lode.StoreError("disk full")),
        Fault("abort", "*", error=lode.StoreError("cannot abort either")),
    )
    with pytest.raises(lode.StoreError, match="disk full"):
        lode.Dataset("events", store, codec="jsonl").stream_write_records(iter(BIG))
    assert contents(inner) == {}


@pytest.mark.parametrize("count", [0, 1, 9000])
def test_the_row_count_is_the_number_of_records_consumed(store: CountingStore, count: int) -> None:
    dataset = lode.Dataset("events", store, codec="jsonl")
    snapshot = dataset.stream_write_records(rows(count))
    assert snapshot.row_count == count
    assert len(dataset.read(snapshot)) == count


@pytest.mark.parametrize("records", [[{"id": 1}], BIG], ids=["small", "large"])
def test_the_checksum_of_streamed_records_is_computed_on_the_way(
    store: CountingStore, records: list[Any]
) -> None:
    dataset = lode.Dataset("events", store, codec="jsonl", checksum="sha256", compressor="gzip")
    snapshot = dataset.stream_write_records(iter(records))
    assert store.bytes_out == 0
    (file,) = snapshot.files
    assert file.checksum == hashlib.sha256(contents(store)[file.path]).hexdigest()


def test_statistics_of_a_stream_are_collected_after_it_is_finished(memory: CountingStore) -> None:
    codec = CountedStreamedLines()
    snapshot = lode.Dataset("events", memory, codec=codec).stream_write_records(iter("bac"))
    assert codec.log == ["write", "close", "statistics"]
    stats = snapshot.files[0].stats
    assert stats is not None
    assert (stats.row_count, stats.columns[0].min, stats.columns[0].max) == (3, "a", "c")


def test_a_stream_encoder_without_statistics_records_none(memory: CountingStore) -> None:
    snapshot = lode.Dataset("events", memory, codec=StreamedLines()).stream_write_records(iter("abc"))
    assert snapshot.files[0].stats is None
