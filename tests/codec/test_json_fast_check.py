"""The quick proof that flat records are written exactly never says so of records that are not."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lode.codec import JSONL
from lode.codec.json_fast_check import fits, shape_of
from lode.codec.jsonl import _is_exact
from lode.errors import SchemaViolationError

MANY = 1000
FLAT = {
    "whole": 5, "part": 0.5, "text": "x", "flag": True, "nothing": None, "odd name.1": 1,
    "at": datetime(2026, 1, 1, tzinfo=UTC), "day": date(2026, 1, 1), "key": UUID(int=1),
}  # fmt: skip

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**66), 2**66),
    st.floats(),
    st.text(max_size=3),
    st.binary(max_size=3),
    st.decimals(),
    st.datetimes(),
    st.dates(),
    st.uuids(),
    st.sets(st.integers(), max_size=2),
    st.lists(st.floats(), max_size=2),
    st.dictionaries(st.one_of(st.text(max_size=1), st.integers()), st.floats(), max_size=2),
    st.floats().map(np.float64),
)
RECORDS = st.dictionaries(st.sampled_from(["a", "b", "c", 1]), VALUES, max_size=3)


def test_flat_records_pass() -> None:
    records = [FLAT] * MANY
    assert fits(records, shape_of(records))


def test_a_signaling_nan_does_not_pass() -> None:
    records = [*[FLAT] * MANY, FLAT | {"part": Decimal("sNaN")}]
    assert not fits(records, shape_of(records))


def test_a_record_may_lack_fields_and_change_the_kind_of_its_numbers() -> None:
    records = [FLAT] * MANY + [{"whole": 0.5}, {"part": 2, "text": None}, {}]
    assert fits(records, shape_of(records))


@pytest.mark.parametrize(
    "value",
    [
        float("nan"), float("inf"), np.float64("nan"), 2**64, -(2**63) - 1, {1}, frozenset({1}),
        [float("nan")], {1: 2}, 1j,
    ],
    ids=repr,
)  # fmt: skip
@pytest.mark.parametrize("field", ["whole", "part", "text", "flag", "nothing", "at", "day", "key", "new"])
def test_a_value_that_would_change_is_found_among_many_that_would_not(field: str, value: Any) -> None:
    encoder = JSONL().stream_encoder(io.BytesIO())
    encoder.write([FLAT] * MANY)
    with pytest.raises(SchemaViolationError) as caught:
        encoder.write([*[FLAT] * MANY, FLAT | {field: value}])
    assert caught.value.row == 2 * MANY


def test_a_key_that_is_not_text_is_found_among_many_that_are() -> None:
    with pytest.raises(SchemaViolationError, match=rf"row {MANY}.*is not text"):
        JSONL().stream_encoder(io.BytesIO()).write([*[FLAT] * MANY, {1: 2}])


def test_records_that_turn_out_not_to_be_flat_are_still_written() -> None:
    sink = io.BytesIO()
    encoder = JSONL().stream_encoder(sink)
    chunks: list[list[Any]] = [[FLAT] * MANY, [{"a": [1, {"b": 2}]}] * MANY, [FLAT] * MANY]
    for chunk in chunks:
        encoder.write(chunk)
    assert sink.getvalue() == msgspec.json.Encoder().encode_lines([row for chunk in chunks for row in chunk])


@given(st.lists(RECORDS, min_size=1, max_size=3))
def test_whatever_passes_passes_the_close_look_too(records: list[Any]) -> None:
    many = records * MANY
    shape = shape_of(many)
    if shape is not None and fits(many, shape):
        assert _is_exact(many)
