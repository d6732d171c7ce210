"""Intervals, ``||`` and functions of text and numbers in filters."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest

from lode.errors import InvalidOptionError
from lode.filter import parse_filter

_TYPES: dict[str, pa.DataType] = {
    "id": pa.int64(),
    "d": pa.date32(),
    "ts": pa.timestamp("us", "UTC"),
    "dt": pa.timestamp("ms"),
    "s": pa.string(),
    "i": pa.int64(),
    "f": pa.float64(),
}
AT = datetime(2024, 2, 29, 12, 30, tzinfo=UTC)
ROWS: list[dict[str, Any]] = [
    {"id": 0, "d": AT.date(), "ts": AT, "dt": AT.replace(tzinfo=None), "s": "übaba", "i": 3, "f": 1.5},
    {"id": 1, "d": date(1, 1, 1), "ts": datetime(1, 1, 1, tzinfo=UTC), "s": "", "i": -1, "f": float("nan")},
    {"id": 2, "d": None, "ts": None, "s": None, "i": None, "f": float("inf")},
]
BATCH = pa.RecordBatch.from_pylist(ROWS, pa.schema(_TYPES))
NOW = int(datetime(2024, 3, 31, 12, tzinfo=UTC).timestamp() * 1_000_000)


def found(text: str) -> list[Any]:
    where = parse_filter(text, BATCH.schema, double_quotes=False, now_micros=NOW)
    rows: list[Any] = where.apply(BATCH).column("id").to_pylist()
    return rows


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("d = DATE_SUB(DATE '2024-03-31', INTERVAL 1 MONTH)", [0]),
        ("d = DATE_ADD('2023-02-28', INTERVAL 366 DAY)", [0]),
        ("d = DATE_SUB(DATE '2028-02-29', INTERVAL 4 YEAR)", [0]),
        ("d = DATE_SUB(CURRENT_DATE(), INTERVAL 1 QUARTER)", []),
        ("d < DATE_SUB(CURRENT_DATE(), INTERVAL 30 DAY)", [0, 1]),
        ("DATE_ADD(d, INTERVAL 1 WEEK) = '2024-03-07'", [0]),
        ("DATE_SUB(d, INTERVAL -1 DAY) > '2024-02-29'", [0]),
        ("ts > TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL 31 DAY)", [0]),
        ("ts BETWEEN TIMESTAMP_SUB(TIMESTAMP '2024-03-01', INTERVAL 1 DAY) AND CURRENT_TIMESTAMP()", [0]),
        ("TIMESTAMP_ADD(ts, INTERVAL 90 MINUTE) = TIMESTAMP '2024-02-29 14:00:00'", [0]),
        ("TIMESTAMP_ADD(ts, INTERVAL 1 MICROSECOND) > ts", [0, 1]),
        ("DATETIME_ADD(dt, INTERVAL 1 HOUR) = DATETIME '2024-02-29 13:30:00'", [0]),
        ("DATETIME_SUB(DATETIME '2024-03-31 12:30:00', INTERVAL 1 MONTH) = dt", [0]),
        ("DATE_ADD(NULL, INTERVAL 1 DAY) IS NULL AND id = 2", [2]),
        ("s || 'x' = 'übabax'", [0]),
        ("'<' || s || '>' = '<>'", [1]),
        ("REPLACE(s, 'ba', 'c') = 'ücc'", [0]),
        ("REPLACE(s, '', 'c') = s", [0, 1]),
        ("LEFT(s, 2) = 'üb'", [0]),
        ("RIGHT(s, 2) = 'ba'", [0]),
        ("RIGHT(s, 0) = ''", [0, 1]),
        ("IS_NAN(f)", [1]),
        ("IS_INF(f)", [2]),
        ("NOT IS_NAN(f)", [0, 2]),
        ("GREATEST(i, 1) = 1", [1]),
        ("LEAST(i, 1, 2) = -1", [1]),
        ("GREATEST(i, NULL) IS NULL", [0, 1, 2]),
        ("GREATEST(d, DATE '2000-01-01') = '2000-01-01'", [1]),
    ],
)
def test_a_filter_passes_these_rows(text: str, ids: list[int]) -> None:
    assert found(text) == ids


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("d = DATE_SUB(DATE '2024-01-01', 1)", "is written DATE_SUB"),
        ("d = DATE_SUB(DATE '2024-01-01', INTERVAL i DAY)", "literal INT64"),
        ("d = DATE_SUB(DATE '2024-01-01', INTERVAL 1 HOUR)", "not one of DAY"),
        ("DATE_ADD(d, INTERVAL 1 MONTH) = d", "shift the other side"),
        ("d = DATE_ADD(DATE '2024-01-01', INTERVAL 9999999999999999999999 DAY)", "out of the range"),
        ("d = DATE_ADD(DATE '2024-01-01', INTERVAL 99999999999 YEAR)", "out of the range"),
        ("DATE_ADD(d, INTERVAL 9999999999999999999999 DAY) = d", "longer than all dates"),
        ("DATE_ADD(ts, INTERVAL 1 DAY) = ts", "takes a DATE"),
        ("d = INTERVAL 1 DAY", "not expected"),
        ("GREATEST(f, 1.5) = 1.5", "FLOAT64"),
        ("LEFT(s, -1) = ''", "not negative"),
        ("REPLACE(s, s, 'x') = ''", "literal STRING"),
        ("i || 'x' = ''", "STRING"),
    ],
)
def test_what_cannot_be_computed_is_refused(text: str, says: str) -> None:
    with pytest.raises(InvalidOptionError, match=says):
        found(text)


def test_an_interval_of_literals_prunes_row_groups() -> None:
    text = "d > DATE_SUB(CURRENT_DATE(), INTERVAL 7 DAY)"
    assert parse_filter(text, BATCH.schema).fits_row_groups
