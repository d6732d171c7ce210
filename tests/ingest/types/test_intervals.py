"""INTERVAL: read in every form that BigQuery reads, bounded, and stored as it prints them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lode.ingest.api.rest.cells import cells
from lode.ingest.types.columns import Column, TableSchema
from lode.ingest.types.intervals import MAX_DAYS, MAX_HOURS, MAX_MONTHS, canonical_interval, interval_text
from support.ingest.entry_points import TEXT_WAYS, by_arrow, by_json, problems

INTERVAL = Column("x", "INTERVAL")
FORMS = {
    "1-2 3 4:5:6.789": "1-2 3 4:5:6.789",
    "+1-2 +3 +4:5:6": "1-2 3 4:5:6",
    "-1-2 -3 -4:5:6.7": "-1-2 -3 -4:5:6.700",
    "0-0 0 0:0:0.000007": "0-0 0 0:0:0.000007",
    "1-2 3 4:5:6.789000000": "1-2 3 4:5:6.789",
    "01-02 03 04:05:06": "1-2 3 4:5:6",
    "-0-0 -0 -0:0:0": "0-0 0 0:0:0",
    "0-14 0 0:90:0": "1-2 0 1:30:0",
    # Some of the fields, where it is clear which.
    "1-2 3 4:5": "1-2 3 4:5:0",
    "1-2 3 4": "1-2 3 4:0:0",
    "1-2 -3": "1-2 -3 0:0:0",
    "-1-2": "-1-2 0 0:0:0",
    "14 3 4:5:6": "1-2 3 4:5:6",
    "14 3 4:5": "1-2 3 4:5:0",
    "14 3 4": "1-2 3 4:0:0",
    "3 4:5:6": "0-0 3 4:5:6",
    "3 -4:5": "0-0 3 -4:5:0",
    "4:5:6.7": "0-0 0 4:5:6.700",
    # ISO 8601, with BigQuery's freedoms: signs, any order, parts that repeat.
    "P1Y2M3DT4H5M6.789S": "1-2 3 4:5:6.789",
    "P1Y": "1-0 0 0:0:0",
    "PT36H": "0-0 0 36:0:0",
    "P2W1D": "0-0 15 0:0:0",
    "P-1Y2M": "-0-10 0 0:0:0",
    "PT-0.5S": "0-0 0 -0:0:0.500",
    "PT1,5S": "0-0 0 0:0:1.500",
    "P3D1YT6S4H": "1-0 3 4:0:6",
    "P1D1DT1M1M": "0-0 2 0:2:0",
    # The ends.
    "10000-0 3660000 87840000:0:0": "10000-0 3660000 87840000:0:0",
    "-10000-0 -3660000 -87840000:0:0": "-10000-0 -3660000 -87840000:0:0",
}
REFUSED = [
    "",
    "soon",
    "P",
    "PT",
    "P1Y ",
    "p1y",
    "P1.5D",
    "PT1.5H",
    "P1H",
    "PT1D",
    "P1YT",
    "P+1Y",
    "1",
    "1 2",
    "1:2",
    "1-2 3 4:5:6 ",
    "1-2  3 4:5:6",
    "1--2 3 4:5:6",
    "1-2 3 4:-5:6",
    "1-2 3 4:5:6.",
    "1-2 3 4:5:6.0000001",
    "1-2 3 4:5:6.7.8",
    "1_0-2 3 4:5:6",
    "\N{ARABIC-INDIC DIGIT ONE}-2 3 4:5:6",
    "10000-1 0 0:0:0",
    "0-0 3660001 0:0:0",
    "0-0 0 -87840000:0:0.000001",
    "P10001Y",
    "P3660001D",
    "PT87840001H",
    "P9999999999999999999D",
    "1" * 10_000,
    "P" + "1D" * 10_000,
]


@pytest.mark.parametrize("way", TEXT_WAYS)
def test_every_form_is_stored_as_bigquery_prints_it(way: str) -> None:
    assert TEXT_WAYS[way](INTERVAL, [*FORMS, None]) == [*FORMS.values(), None]


@pytest.mark.parametrize("way", TEXT_WAYS)
def test_text_that_is_no_interval_makes_its_row_bad(way: str) -> None:
    found = problems(lambda: TEXT_WAYS[way](INTERVAL, ["0-0 1 0:0:0", *REFUSED]))
    assert list(found) == list(range(1, len(REFUSED) + 1))
    assert all("INTERVAL" in message for message in found.values())


def test_columns_lists_and_records_are_read_alike() -> None:
    inner = (INTERVAL, Column("many", "INTERVAL", "REPEATED"))
    record = Column("record", "STRUCT", "REPEATED", inner)
    sent = [[{"x": "P1Y", "many": ["P1D", "1-2"]}]]
    assert by_json(record, sent) == [[{"x": "1-0 0 0:0:0", "many": ["0-0 1 0:0:0", "1-2 0 0:0:0"]}]]


def test_text_that_is_canonical_is_not_copied() -> None:
    from lode.ingest.types.intervals import intervals_of_text
    from lode.ingest.types.row_errors import Origin, Problems

    canonical = pa.array([*FORMS.values(), None])[:-3]
    assert intervals_of_text(canonical, Origin(Problems(), "x")) is canonical


def test_intervals_of_arrow_are_bounded_too() -> None:
    kind = pa.month_day_nano_interval()
    fine = pa.array([(-14, 3, -3_723_000_001_000), (0, 0, 500_000_000), None], kind)
    assert by_arrow(INTERVAL, fine) == ["-1-2 3 -1:2:3.000001", "0-0 0 0:0:0.500", None]
    bad = pa.array([(120_001, 0, 0), (0, -3_660_001, 0), (0, 0, 1), (1, 1, 1000)], kind)
    assert list(problems(lambda: by_arrow(INTERVAL, bad))) == [0, 1, 2]


@given(
    st.integers(-MAX_MONTHS, MAX_MONTHS),
    st.integers(-MAX_DAYS, MAX_DAYS),
    st.integers(-MAX_HOURS * 3600 * 10**6, MAX_HOURS * 3600 * 10**6),
)
def test_what_is_written_is_read_as_the_same(months: int, days: int, micros: int) -> None:
    written = interval_text(months, days, micros)
    assert canonical_interval(written) == written
    duration = (
        f"P{months}M{days}DT{'-' if micros < 0 else ''}{abs(micros) // 10**6}.{abs(micros) % 10**6:06}S"
    )
    assert canonical_interval(duration) == written


@given(st.text("0123456789-+:. PTYMWDHS", max_size=30))
def test_any_text_is_an_interval_or_a_sentence(text: str) -> None:
    try:
        written, why = canonical_interval(text), ""
    except ValueError as error:
        written, why = "", str(error)
    assert "INTERVAL" in why or canonical_interval(written) == written


def test_text_that_an_earlier_version_stored_as_sent_is_listed_in_canonical_form() -> None:
    schema = TableSchema((INTERVAL,))
    batch = pa.RecordBatch.from_pylist([{"x": "P1Y2M"}, {"x": "nonsense"}, {"x": None}], schema.arrow)
    shown: list[Any] = [row["f"][0]["v"] for row in cells(batch, schema)]
    assert shown == ["1-2 0 0:0:0", "nonsense", None]
