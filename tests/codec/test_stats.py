"""Statistics say what is in the file, and nothing that is not certain."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings

from lode.codec import ArrowIPC, Parquet, StatisticalStreamEncoder, chunks_of, from_json_value, to_json_value
from lode.codec.stats import DistinctCounter
from support.codec.strategies import tables

if TYPE_CHECKING:
    from lode.format.manifest import ColumnStats, FileStats

EPOCH = "1970-01-01T00:00:00"
KINDS = [Parquet, ArrowIPC]


def statistics(codec: Any, data: Any, **options: Any) -> FileStats:
    encoder = codec.stream_encoder(io.BytesIO())
    assert isinstance(encoder, StatisticalStreamEncoder)
    for chunk in chunks_of(data, **options):
        encoder.write(chunk)
    encoder.close()
    return encoder.statistics()


def column(codec: Any, values: pa.Array[Any]) -> ColumnStats:
    (only,) = statistics(codec(), pa.table({"c": values})).columns
    return only


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(table=tables(flat=True))
def test_statistics_are_what_pyarrow_computes_over_the_data(
    kind: Any, table: tuple[pa.Schema, list[dict[str, Any]]]
) -> None:
    schema, rows = table
    stats = statistics(kind(schema), rows, rows_per_chunk=3)
    data = pa.Table.from_pylist(rows, schema)
    assert stats.row_count == data.num_rows
    assert [found.name for found in stats.columns] == schema.names
    for found in stats.columns:
        values = data.column(found.name)
        assert found.null_count == values.null_count
        bounds: Any = pc.min_max(values)
        for name, got in (("min", found.min), ("max", found.max)):
            expected = bounds[name]
            if got is not None:
                assert from_json_value(got, values.type) == expected
            elif expected.is_valid:
                # The one bound of these types that JSON cannot carry.
                assert expected.as_py() in (float("inf"), float("-inf"))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(table=tables())
def test_statistics_survive_a_manifest(kind: Any, table: tuple[pa.Schema, Any]) -> None:
    schema, rows = table
    stats = statistics(kind(schema), rows)
    text = msgspec.json.encode(stats)
    json.loads(text, parse_constant=pytest.fail)
    assert msgspec.json.decode(text, type=type(stats)) == stats


@pytest.mark.parametrize("kind", KINDS)
def test_a_column_with_nan_has_no_bounds_but_a_null_count(kind: Any) -> None:
    found = column(kind, pa.array([1.0, float("nan"), None]))
    assert (found.min, found.max, found.null_count) == (None, None, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_an_infinite_bound_is_left_out_alone(kind: Any) -> None:
    found = column(kind, pa.array([1.0, float("inf")]))
    assert (found.min, found.max) == (1.0, None)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", [257, 5000])
def test_a_bound_too_long_for_a_manifest_is_left_out(kind: Any, length: int) -> None:
    found = column(kind, pa.array(["a", "b" * length]))
    assert found.max is None
    assert found.null_count == 0


@pytest.mark.parametrize("kind", KINDS)
def test_nested_columns_are_left_out(kind: Any) -> None:
    table = pa.table({"l": [[1]], "n": [2], "s": [{"n": 3}]})
    assert [found.name for found in statistics(kind(), table).columns] == ["n"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "values",
    [
        pa.array([None, None], pa.int64()),
        pa.nulls(2),
        pa.array([None, None], pa.string()),
        pa.array([None, None], pa.float64()),
    ],
)
def test_a_column_of_nulls_has_only_a_null_count(kind: Any, values: pa.Array[Any]) -> None:
    found = column(kind, values)
    assert (found.min, found.max, found.null_count) == (None, None, 2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        (pa.array([1, 2**64 - 1], pa.uint64()), 1, 2**64 - 1),
        (pa.array([-1, 5], pa.timestamp("s", "UTC")), "1969-12-31T23:59:59Z", "1970-01-01T00:00:05Z"),
        (pa.array([1, 9], pa.timestamp("ns")), EPOCH + ".000000001", EPOCH + ".000000009"),
        (pa.array([0, 2**62], pa.timestamp("us")), "1970-01-01T00:00:00", None),
        (pa.array([1, 5], pa.time32("s")), "00:00:01", "00:00:05"),
        (pa.array([1, 5], pa.time64("ns")), "00:00:00.000000001", "00:00:00.000000005"),
        (pa.array(["b", "a"]).dictionary_encode(), "a", "b"),
        (pa.array(["b", "a"], pa.string_view()), "a", "b"),
        (pa.array([b"\xff", b"a"]), "YQ==", "/w=="),
        (pa.array(["é", "z"]), "z", "é"),
        (pa.array([-0.0, 0.0]), 0.0, 0.0),
        (pa.array([5, 7], pa.duration("us")), None, None),
    ],
)  # fmt: skip
def test_bounds_of_the_less_common_types(kind: Any, values: pa.Array[Any], low: Any, high: Any) -> None:
    found = column(kind, values)
    assert (found.min, found.max) == (low, high)


def test_a_name_with_a_dot_is_not_mistaken_for_a_nested_column() -> None:
    pairs = pa.array([[("k", 3)]], pa.map_(pa.string(), pa.int64()))
    table = pa.table({"a": [{"b": 1, "c": [2]}], "m": pairs, "a.b": [7]})
    (found,) = statistics(Parquet(), table).columns
    assert (found.name, found.min, found.max) == ("a.b", 7, 7)


def test_bounds_hold_over_all_row_groups() -> None:
    codec = Parquet({"c": "int64"}, row_group_rows=10)
    (found,) = statistics(codec, [{"c": index % 37} for index in range(100)] + [{"c": None}] * 25).columns
    assert (found.min, found.max, found.null_count) == (0, 36, 25)


def test_distinct_values_are_counted_when_asked_for() -> None:
    rows = [{"c": index % 37, "d": None} for index in range(1000)]
    counted = statistics(
        Parquet({"c": "int64", "d": "string"}, distinct_count=True, row_group_rows=100), rows
    )
    assert [found.distinct_count for found in counted.columns] == [37, 0]
    plain = statistics(Parquet({"c": "int64", "d": "string"}), rows)
    assert [found.distinct_count for found in plain.columns] == [0, 0]


def test_counting_stops_at_its_limit_and_says_not_computed() -> None:
    counter = DistinctCounter(limit=10)
    counter.observe(pa.array(range(10)))
    assert counter.count == 10
    counter.observe(pa.array([99]))
    assert counter.count == 0
    counter.observe(pa.array([1]))
    assert counter.count == 0


def test_a_file_without_rows_counts_none() -> None:
    for kind in KINDS:
        stats = statistics(kind({"c": "int64"}), [])
        assert stats.row_count == 0
        assert [(found.min, found.null_count) for found in stats.columns] == [(None, 0)]


@pytest.mark.parametrize(
    ("value", "text", "kind"),
    [
        (datetime(2024, 1, 1, tzinfo=UTC), "2024-01-01T00:00:00Z", pa.timestamp("us", "UTC")),
        (datetime(2024, 1, 1, 0, 0, 0, 5), "2024-01-01T00:00:00.000005", pa.timestamp("us")),
        (date(987, 1, 1), "0987-01-01", pa.date32()),
        (datetime(987, 1, 1), "0987-01-01T00:00:00", pa.timestamp("us")),
        (time(1, 2, 3, 4), "01:02:03.000004", pa.time64("us")),
        (Decimal("1E+2"), "100", pa.decimal128(5, 2)),
        (b"ab", "YWI=", pa.binary()),
        (True, True, pa.bool_()),
        (5, 5, pa.int32()),
        ("x", "x", pa.string()),
    ],
)
def test_a_bound_goes_to_json_and_back(value: Any, text: Any, kind: pa.DataType) -> None:
    assert to_json_value(value) == text
    back = from_json_value(text, kind)
    assert back is not None
    assert back.type == kind
    assert back.as_py() == value


@pytest.mark.parametrize("value", [float("nan"), float("inf"), Decimal("NaN"), object(), None, "x" * 300])
def test_what_json_cannot_carry_is_left_out(value: Any) -> None:
    assert to_json_value(value) is None


def test_a_bound_that_is_not_of_the_columns_type_is_no_bound() -> None:
    assert from_json_value("x", pa.int64()) is None
    assert from_json_value(None, pa.int64()) is None
