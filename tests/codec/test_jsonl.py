"""JSON Lines: every value exactly, or an error that names row and field."""

from __future__ import annotations

import io
import json
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from types import MappingProxyType
from typing import Any
from uuid import UUID

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from lode.codec import JSONL
from lode.errors import InvalidFormatError, SchemaViolationError
from support.codec.sinks import CountingSink, Failing, Unseekable, decoded, encoded


@dataclass
class Reading:
    value: Any


class ReadingStruct(msgspec.Struct):
    value: Any


class Level(Enum):
    LOW = "low"
    BROKEN = float("nan")


def test_a_line_is_compact_and_keeps_the_order_of_keys() -> None:
    assert encoded(JSONL(), [{"b": 1, "a": [True, None, "é"]}]) == '{"b":1,"a":[true,null,"é"]}\n'.encode()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (datetime(2024, 1, 1, tzinfo=UTC), "2024-01-01T00:00:00Z"),
        (date(2024, 1, 1), "2024-01-01"),
        (Decimal("1.50"), "1.50"),
        (UUID(int=5), "00000000-0000-0000-0000-000000000005"),
        (b"ab", "YWI="),
        (Level.LOW, "low"),
        (np.int64(5), 5),
        (np.float64(0.5), 0.5),
        (np.str_("x"), "x"),
        (MappingProxyType({"a": 1}), {"a": 1}),
        ((1, 2), [1, 2]),
        (Reading(1), {"value": 1}),
        (ReadingStruct(None), {"value": None}),
        (2**64 - 1, 2**64 - 1),
        (-(2**63), -(2**63)),
        (1.7976931348623157e308, 1.7976931348623157e308),
    ],
)
def test_a_value_with_a_plain_json_form_is_written_as_that(value: Any, text: Any) -> None:
    assert json.loads(encoded(JSONL(), [{"v": value}])) == {"v": text}


def test_large_floats_whose_sum_overflows_are_still_written() -> None:
    rows = [{"v": 1.7e308}, {"v": 1.7e308}]
    assert decoded(JSONL(), encoded(JSONL(), rows)) == rows


BAD = [
    float("nan"), float("inf"), -float("inf"), np.float64("nan"), 2**64, -(2**63) - 1, {1, 2}, frozenset(),
    object(), 1j, "\ud800", Level.BROKEN, np.array([1]), Reading(float("nan")), ReadingStruct({1}), range(3),
]  # fmt: skip


@pytest.mark.parametrize("value", BAD, ids=range(len(BAD)))
@pytest.mark.parametrize("place", ["bare", "field", "nested", "keyed unlike the others"])
def test_a_value_json_cannot_carry_is_refused_by_row_and_path(value: Any, place: str) -> None:
    record, path = {
        "bare": (value, ""),
        "field": ({"v": value}, "v"),
        "nested": ({"v": [0, {"w": value}]}, "v[1].w"),
        "keyed unlike the others": ({"v": 1, "w": value}, "w"),
    }[place]
    sink = io.BytesIO()
    encoder = JSONL().stream_encoder(sink)
    encoder.write([{"v": 0}])
    with pytest.raises(SchemaViolationError) as caught:
        encoder.write([{"v": 1}, record, {"v": None}])
    assert caught.value.row == 2
    assert (caught.value.column or "").removesuffix(".value").removesuffix("value") == path
    assert sink.getvalue() == b'{"v":0}\n'


@pytest.mark.parametrize("key", [1, None, 1.5, True, b"k", (1,), UUID(int=1), date(2024, 1, 1)])
def test_a_key_that_is_not_text_is_refused(key: Any) -> None:
    for row in ({"v": {key: 1}}, {"v": {"a": 1, key: 1}}):
        with pytest.raises(SchemaViolationError, match=r"row 1, field 'v'.*is not text") as caught:
            encoded(JSONL(), [{"v": {"a": 1}}, row])
        assert (caught.value.row, caught.value.column) == (1, "v")


def test_a_dict_that_makes_up_values_is_written_as_it_is_and_left_alone() -> None:
    rows: list[Any] = [defaultdict(int, a=1), defaultdict(int, b=2), Counter("c")]
    assert decoded(JSONL(), encoded(JSONL(), rows)) == [{"a": 1}, {"b": 2}, {"c": 1}]
    assert [dict(row) for row in rows] == [{"a": 1}, {"b": 2}, {"c": 1}]


def test_a_record_that_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(SchemaViolationError, match="row 1: nested too deeply"):
        encoded(JSONL(), [1, loop])


def test_arrow_batches_become_objects() -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "n": pa.array([1, None]),
            "t": pa.array([1_500_000, None], pa.timestamp("us", "Europe/Paris")),
            "ns": pa.array([1, 10], pa.timestamp("ns")),
            "s": pa.array([100, 0], pa.timestamp("s", "UTC")),
            "m": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
            "l": pa.array([[1], []]),
        }
    )
    first, second = decoded(JSONL(), encoded(JSONL(), batch))
    assert first == {
        "n": 1,
        "t": "1970-01-01T00:00:01.5Z",
        "ns": "1970-01-01T00:00:00.000000001",
        "s": "1970-01-01T00:01:40Z",
        "m": {"k": 1},
        "l": [1],
    }
    assert second["t"] is None
    assert second["ns"] == "1970-01-01T00:00:00.00000001"
    assert second["s"] == "1970-01-01T00:00:00Z"


def test_what_json_cannot_carry_in_a_batch_is_refused_by_row_and_column() -> None:
    twice = pa.array([[], [("k", 1), ("k", 2)]], pa.map_(pa.string(), pa.int64()))
    for values in (pa.array([1.0, float("nan")]), twice, pa.array([0, 2**62], pa.timestamp("us"))):
        with pytest.raises(SchemaViolationError) as caught:
            encoded(JSONL(), pa.RecordBatch.from_pydict({"c": values}))
        assert (caught.value.row, caught.value.column) == (1, "c")


@pytest.mark.parametrize(
    "bad", [b"{", b'{"a":1', b"nope", b"1 2", b'"\xff"', b"[1,\n2]", b"\xef\xbb\xbf1", b"NaN", b"1e999"]
)
def test_a_bad_line_is_named_by_its_number(bad: bytes) -> None:
    content = b'{"a":1}\n' * 3 + b"\n" + bad + b"\n" + b'{"a":1}\n'
    with pytest.raises(InvalidFormatError, match="line 5 "):
        decoded(JSONL(), content)


def test_a_bad_line_far_into_a_large_file_is_named_by_its_number() -> None:
    content = b'{"text":"0123456789"}\n' * 50_000 + b"oops\n"
    with pytest.raises(InvalidFormatError, match="line 50001 "):
        decoded(JSONL(), content)


def test_blank_lines_and_a_missing_last_newline_are_harmless() -> None:
    assert decoded(JSONL(), b'{"a":1}\r\n\n  \n{"a":2}') == [{"a": 1}, {"a": 2}]
    assert decoded(JSONL(), b"") == []


def test_decoding_streams_bounded_lists_from_a_source_that_cannot_seek() -> None:
    line = json.dumps({"text": "x" * 700_000}).encode() + b"\n"
    content = b"1\n" * 200_000 + line + b"2\n"
    source: Any = Unseekable(content, piece=5000)
    chunks = list(JSONL().decode(source))
    assert max(map(len, chunks)) <= 8192
    assert sum(map(len, chunks)) == 200_002


def test_an_error_of_the_source_passes_through_while_decoding() -> None:
    error = OSError("unplugged")
    source: Any = Failing(error, b'{"a":1}\n')
    with pytest.raises(OSError, match="unplugged") as caught:
        list(JSONL().decode(source))
    assert caught.value is error


def test_nothing_is_held_back_between_chunks() -> None:
    sink = CountingSink()
    encoder = JSONL().stream_encoder(sink)
    for index in range(5):
        encoder.write([{"a": index}])
        assert sum(sink.sizes) == (index + 1) * len(b'{"a":0}\n')
