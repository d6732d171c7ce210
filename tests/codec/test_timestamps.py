"""The range of times of a write comes from what says its time, and is never guessed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from lode.codec import Timestamped, TimestampRange
from lode.errors import InvalidOptionError, SchemaViolationError

EARLY = datetime(2024, 1, 1, tzinfo=UTC)
LATE = datetime(2024, 6, 1, tzinfo=UTC)


@dataclass
class Event:
    at: datetime

    def timestamp(self) -> datetime:
        return self.at


class EventStruct(msgspec.Struct):
    at: datetime

    def timestamp(self) -> datetime:
        return self.at


class EventDict(dict[str, Any]):
    def timestamp(self) -> datetime:
        return self["at"]  # type: ignore[no-any-return]


def observed(*chunks: Any, column: str | None = None) -> tuple[datetime | None, datetime | None]:
    times = TimestampRange(column)
    for chunk in chunks:
        times.observe(chunk)
    return times.min, times.max


def batch(values: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"at": values, "n": list(range(len(values)))})


@pytest.mark.parametrize("kind", [Event, EventStruct, lambda at: EventDict(at=at)])
def test_records_with_timestamp_give_the_range(kind: Any) -> None:
    assert isinstance(kind(EARLY), Timestamped)
    assert observed([kind(LATE)], [kind(EARLY), kind(LATE)]) == (EARLY, LATE)


def test_records_without_timestamp_are_passed_over() -> None:
    assert observed([{"at": EARLY}, 5, "x", None]) == (None, None)
    assert observed([{"at": LATE}, Event(EARLY)]) == (EARLY, EARLY)


def test_a_datetime_is_no_record_with_a_time() -> None:
    assert observed([EARLY]) == (None, None)


def test_arrow_data_counts_only_by_a_named_column() -> None:
    data = batch([LATE, None, EARLY])
    assert observed(data) == (None, None)
    assert observed(data, column="at") == (EARLY, LATE)


def test_a_named_column_of_dicts_may_hold_datetimes_text_and_nulls() -> None:
    rows = [{"at": "2024-06-01T02:00:00+02:00"}, {"at": None}, {}, {"at": EARLY}]
    assert observed(rows, column="at") == (EARLY, LATE)


def test_zones_are_compared_as_moments_and_none_means_utc() -> None:
    paris = datetime(2024, 1, 1, 0, 30, tzinfo=timezone(timedelta(hours=1)))
    assert observed([Event(datetime(2024, 1, 1)), Event(paris)]) == (paris, EARLY)


def test_nanoseconds_widen_the_range_to_whole_microseconds() -> None:
    found = observed(batch(pa.array([1999, 2001], pa.timestamp("ns"))), column="at")
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert found == (epoch + timedelta(microseconds=1), epoch + timedelta(microseconds=3))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_every_unit_of_arrow_timestamps_is_read(unit: Any) -> None:
    data = batch(pa.array([EARLY, LATE], pa.timestamp(unit, "Europe/Paris")))
    assert observed(data, column="at") == (EARLY, LATE)


@pytest.mark.parametrize("data", [batch([EARLY]), [{"at": EARLY}]])
def test_an_unknown_column_is_an_error(data: Any) -> None:
    with pytest.raises(InvalidOptionError, match="'time'"):
        observed(data, column="time")


def test_a_column_that_holds_no_times_is_an_error() -> None:
    with pytest.raises(SchemaViolationError, match="'n' is int64: it must be a timestamp"):
        observed(batch([EARLY]), column="n")


@pytest.mark.parametrize("value", [5, "soon", 1.5])
def test_a_value_that_is_no_time_names_its_row(value: Any) -> None:
    with pytest.raises(SchemaViolationError) as caught:
        observed([{"at": EARLY}], [{"at": EARLY}, {"at": value}], column="at")
    assert (caught.value.row, caught.value.column) == (2, "at")


def test_a_timestamp_method_that_returns_no_time_names_its_row() -> None:
    bad: Any = 1704067200.0
    with pytest.raises(SchemaViolationError) as caught:
        observed([Event(EARLY), Event(bad)])
    assert caught.value.row == 1


def test_an_error_inside_of_timestamp_passes_through() -> None:
    with pytest.raises(KeyError):
        observed([EventDict()])


def test_no_rows_give_no_range() -> None:
    assert observed([], batch(pa.array([], pa.timestamp("us"))), column="at") == (None, None)
