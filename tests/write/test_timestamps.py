"""The write contract: where the time range of a snapshot comes from, and where it never does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import lode
from support.codecs import Reading
from support.stores import contents, manifests

if TYPE_CHECKING:
    from lode.store import CountingStore

EARLY = datetime(2026, 1, 1, tzinfo=UTC)
LATE = datetime(2026, 1, 2, 12, 30, 0, 250_000, tzinfo=UTC)
WRITERS = pytest.mark.parametrize("method", ["write", "stream_write_records"])


def bounds(snapshot: lode.Snapshot) -> tuple[datetime | None, datetime | None]:
    return snapshot.min_timestamp, snapshot.max_timestamp


@WRITERS
def test_timestamped_records_give_the_snapshot_its_range(store: CountingStore, method: str) -> None:
    dataset = lode.Dataset("events", store, codec="jsonl")
    snapshot = getattr(dataset, method)([Reading(1, LATE), Reading(2, EARLY)])
    assert bounds(snapshot) == (EARLY, LATE)
    assert bounds(dataset.snapshot(snapshot.id)) == (EARLY, LATE)


@WRITERS
def test_each_timestamped_record_is_asked_for_its_time_once(memory: CountingStore, method: str) -> None:
    asked: list[int] = []

    class Asked(Reading):
        def timestamp(self) -> datetime:
            asked.append(self.id)
            return self.at

    getattr(lode.Dataset("events", memory, codec="jsonl"), method)([Asked(7, EARLY), Asked(8, LATE)])
    assert asked == [7, 8]


@WRITERS
def test_records_without_a_time_are_ignored_beside_those_with_one(memory: CountingStore, method: str) -> None:
    dataset = lode.Dataset("events", memory, codec="jsonl")
    snapshot = getattr(dataset, method)([{"id": 0, "at": "1999-01-01T00:00:00Z"}, Reading(1, EARLY)])
    assert bounds(snapshot) == (EARLY, EARLY)
    assert snapshot.row_count == 2


@WRITERS
def test_without_timestamped_records_both_fields_are_left_out(store: CountingStore, method: str) -> None:
    dataset = lode.Dataset("events", store, codec="jsonl")
    snapshot = getattr(dataset, method)([{"id": 1}])
    assert bounds(snapshot) == (None, None)
    (path,) = manifests(store)
    assert b"_timestamp" not in contents(store)[path]


@WRITERS
def test_a_time_is_never_inferred_from_a_column(memory: CountingStore, method: str) -> None:
    table = pa.table({"timestamp": pa.array([EARLY]), "created_at": pa.array([LATE])})
    dataset = lode.Dataset("events", memory, codec="parquet")
    assert bounds(getattr(dataset, method)(table)) == (None, None)


def test_a_blob_has_no_time(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store)
    assert bounds(dataset.write(b"2026-01-01T00:00:00Z")) == (None, None)
    assert bounds(dataset.stream_write().commit()) == (None, None)


@WRITERS
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_arrow_data_has_the_range_of_the_column_that_was_named(
    memory: CountingStore, method: str, unit: Any
) -> None:
    moments = pa.array([LATE.replace(microsecond=0), None, EARLY]).cast(pa.timestamp(unit, tz="UTC"))
    dataset = lode.Dataset("events", memory, codec="parquet", timestamp_column="at")
    snapshot = getattr(dataset, method)(pa.table({"at": moments, "id": [1, 2, 3]}))
    assert bounds(snapshot) == (EARLY, LATE.replace(microsecond=0))


@WRITERS
def test_dicts_have_the_range_of_the_column_that_was_named(memory: CountingStore, method: str) -> None:
    dataset = lode.Dataset("events", memory, codec="jsonl", timestamp_column="at")
    snapshot = getattr(dataset, method)([{"at": LATE}, {"at": None}, {"at": "2026-01-01T01:00:00+01:00"}])
    assert bounds(snapshot) == (EARLY, LATE)


def test_a_named_column_that_is_not_there_is_an_error(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store, codec="parquet", timestamp_column="when")
    with pytest.raises(lode.InvalidOptionError, match="no timestamp column 'when': the columns are at"):
        dataset.write(pa.table({"at": pa.array([EARLY])}))
    with pytest.raises(lode.InvalidOptionError, match="no record has the timestamp column 'when'"):
        lode.Dataset("more", store, codec="jsonl", timestamp_column="when").write([{"at": EARLY}])
    assert contents(store) == {}


def test_a_time_in_another_zone_is_recorded_in_utc(memory: CountingStore) -> None:
    local = datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))
    snapshot = lode.Dataset("events", memory, codec="jsonl").write([Reading(1, local)])
    assert snapshot.manifest.min_timestamp == "2026-01-01T00:00:00Z"


def test_a_time_is_recorded_without_trailing_zeros(memory: CountingStore) -> None:
    snapshot = lode.Dataset("events", memory, codec="jsonl").write([Reading(1, LATE)])
    assert snapshot.manifest.max_timestamp == "2026-01-02T12:30:00.25Z"


def test_a_record_whose_time_is_no_time_names_its_row(store: CountingStore) -> None:
    class Wrong(Reading):
        def timestamp(self) -> Any:
            return "yesterday"

    with pytest.raises(lode.SchemaViolationError, match=r"row 1, .*must be a datetime"):
        lode.Dataset("events", store, codec="jsonl").write([Reading(1, EARLY), Wrong(2, EARLY)])
    assert contents(store) == {}


def test_a_transaction_has_the_range_of_all_it_staged(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store, codec="jsonl")
    with dataset.transaction() as transaction:
        transaction.stage([Reading(1, LATE)])
        transaction.stage([{"id": 2}])
        transaction.write_records([Reading(3, EARLY)])
        assert bounds(transaction.commit()) == (EARLY, LATE)
