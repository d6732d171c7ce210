"""Parquet: options, bounded memory, and what happens when things go wrong."""

from __future__ import annotations

import gc
import io
import pickle
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings

from lode.codec import ArrowIPC, Parquet, chunks_of, to_schema
from lode.codec.dictionary import _leaves
from lode.errors import InvalidFormatError, InvalidOptionError, SchemaViolationError, StoreError
from support.codec.sinks import CountingSink, Failing, Unseekable, decoded, encoded
from support.codec.strategies import tables

SCHEMA = {"id": "int64!", "name": "string"}


def footer(data: bytes) -> Any:
    return pq.ParquetFile(io.BytesIO(data)).metadata


def test_a_file_without_rows_is_valid_and_knows_its_schema() -> None:
    codec = Parquet(SCHEMA)
    data = encoded(codec, [])
    (batch,) = codec.decode(io.BytesIO(data))
    assert isinstance(batch, pa.RecordBatch)
    assert batch.num_rows == 0
    assert batch.schema.equals(to_schema(SCHEMA))


def test_without_a_schema_arrow_data_brings_its_own() -> None:
    data = encoded(Parquet(), pl.DataFrame({"a": ["x", None]}))
    assert decoded(Parquet(), data) == [{"a": "x"}, {"a": None}]


def test_without_a_schema_the_first_batch_of_a_file_decides() -> None:
    first, second = pa.table({"a": [1], "b": ["x"]}), pa.table({"b": ["y"], "a": pa.array([2], pa.int8())})
    data = encoded(Parquet(), [first, second])
    assert decoded(Parquet(), data) == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    with pytest.raises(SchemaViolationError, match="column 'c'"):
        encoded(Parquet(), [first, pa.table({"c": [1]})])


def test_a_type_parquet_does_not_know_is_refused() -> None:
    for kind in (pa.struct([]), pa.month_day_nano_interval()):
        with pytest.raises(InvalidOptionError, match="Parquet cannot hold"):
            encoded(Parquet(), pa.table({"a": pa.array([None], kind)}))


def test_categories_that_differ_between_batches_come_back_as_they_were() -> None:
    batches = [pa.table({"a": pa.array(values).dictionary_encode()}) for values in (["x", "y"], ["z", "x"])]
    for codec in (Parquet(), ArrowIPC(), Parquet(distinct_count=True)):
        rows = decoded(codec, encoded(codec, batches))
        assert [row["a"] for row in rows] == ["x", "y", "z", "x"]


def test_arrow_data_without_columns_is_refused() -> None:
    with pytest.raises(InvalidOptionError, match="no columns"):
        encoded(Parquet(), pa.table({}))


def test_without_a_schema_records_and_empty_files_ask_for_one() -> None:
    with pytest.raises(InvalidOptionError, match="create the dataset with one"):
        encoded(Parquet(), [{"a": 1}])
    with pytest.raises(InvalidOptionError, match="needs a schema"):
        encoded(Parquet(), [])


def test_an_error_names_the_row_counted_over_the_whole_file() -> None:
    rows: list[dict[str, Any]] = [{"id": index} for index in range(20_000)]
    rows[15_000] = {"id": "x"}
    with pytest.raises(SchemaViolationError, match="row 15000, column 'id'"):
        encoded(Parquet(SCHEMA), rows)


def test_row_groups_are_bounded_by_rows() -> None:
    data = encoded(Parquet(SCHEMA, row_group_rows=1000), [{"id": index} for index in range(2500)])
    groups = [footer(data).row_group(index).num_rows for index in range(footer(data).num_row_groups)]
    assert groups == [1000, 1000, 500]


def test_what_is_buffered_is_bounded_by_bytes() -> None:
    sink = CountingSink()
    encoder = Parquet({"text": "string"}, compression=None, row_group_bytes=1 << 20).stream_encoder(sink)
    written = 0
    for chunk in chunks_of({"text": f"{index:01000d}"} for index in range(20_000)):
        encoder.write(chunk)
        written += 1000 * len(chunk)
        assert written - sum(sink.sizes) <= (1 << 20) + 1000 * len(chunk)
    encoder.close()


def test_small_chunks_share_a_row_group() -> None:
    data = encoded(Parquet(SCHEMA), [{"id": index} for index in range(1000)], rows_per_chunk=10)
    assert footer(data).num_row_groups == 1


def test_a_look_at_a_whole_sample_serves_larger_files_until_a_look_costs_nothing_beside_them() -> None:
    samples = Parquet({"often": "int64"})._samples
    unique = pa.table({"often": range(10_000)})
    again = pa.table({"often": [7] * 100_001})
    assert samples.repeating(unique) == []
    assert samples.repeating(again.slice(0, 100_000)) == []
    assert samples.repeating(again) == ["often"]


def test_a_file_without_rows_does_not_change_what_was_seen_in_others() -> None:
    codec = Parquet({"often": "string"})
    rows = pa.table({"often": ["x"] * 1_000})
    assert codec._samples.repeating(rows) == ["often"]
    seen = codec._samples._seen
    assert codec._samples.repeating(rows.slice(0, 0)) == []
    assert codec._samples._seen is seen


@pytest.mark.parametrize(
    ("dictionary", "expected"),
    [
        ("auto", {"often", "tags.list.element"}),
        (True, {"often", "once", "tags.list.element"}),
        (False, set()),
        (["once"], {"once"}),
        (["tags"], {"tags.list.element"}),
    ],
)
def test_a_dictionary_is_made_where_values_repeat_or_where_asked(dictionary: Any, expected: set[str]) -> None:
    codec = Parquet({"often": "string", "once": "int64", "tags": "list<string>"}, dictionary=dictionary)
    rows = [{"often": f"v{index % 7}", "once": index, "tags": ["a", "b"]} for index in range(1000)]
    group = footer(encoded(codec, rows)).row_group(0)
    columns = [group.column(index) for index in range(3)]
    assert {c.path_in_schema for c in columns if any("DICTIONARY" in e for e in c.encodings)} == expected


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(tables())
def test_the_paths_of_nested_columns_are_parquets_own(table: tuple[pa.Schema, Any]) -> None:
    schema, rows = table
    metadata = footer(encoded(Parquet(schema), rows))
    paths = [metadata.schema.column(index).path for index in range(metadata.num_columns)]
    assert [path for field in schema for path, _ in _leaves(field.name, field.type, None)] == paths


def test_a_run_of_small_files_shares_one_look_and_a_larger_one_gets_its_own() -> None:
    codec = Parquet({"often": "string"})

    def has_dictionary(rows: list[dict[str, str]]) -> bool:
        return bool(footer(encoded(codec, rows)).row_group(0).column(0).has_dictionary_page)

    unique = [{"often": str(number)} for number in range(100)]
    assert not has_dictionary(unique)
    assert not has_dictionary([{"often": "again"}] * 100)
    assert has_dictionary([{"often": "again"}] * 500)
    assert has_dictionary(unique)
    assert not any([has_dictionary(unique) for _ in range(100)][-30:])


def test_what_was_seen_of_small_files_is_not_pickled() -> None:
    codec = Parquet({"often": "string"})
    fresh = len(pickle.dumps(codec))
    encoded(codec, [{"often": "again"}] * 100)
    assert len(pickle.dumps(codec)) == fresh
    assert pickle.loads(pickle.dumps(codec)) == codec


def test_a_dictionary_for_an_unknown_column_is_refused() -> None:
    with pytest.raises(InvalidOptionError, match="'nope'"):
        encoded(Parquet(SCHEMA, dictionary=["nope"]), [{"id": 1}])


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "rar"},
        {"row_group_rows": 0},
        {"row_group_bytes": 0},
        {"dictionary": "yes"},
        {"compression": "snappy", "level": 3},
    ],
)
def test_an_option_out_of_its_range_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOptionError):
        Parquet(SCHEMA, **options)


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "brotli", "lz4", "zstd", None])
def test_every_page_compression_reads_back(compression: str | None) -> None:
    codec = Parquet(SCHEMA, compression=compression)
    assert decoded(codec, encoded(codec, [{"id": 1}])) == [{"id": 1, "name": None}]


@pytest.mark.parametrize(
    ("options", "rows", "expected"),
    [
        ({}, 10, "SNAPPY"),
        ({}, 40_000, "ZSTD"),
        ({"level": 3}, 10, "ZSTD"),
        ({"compression": "zstd"}, 10, "ZSTD"),
        # Small row groups do not make a small file.
        ({"row_group_rows": 100}, 40_000, "ZSTD"),
    ],
)
def test_only_small_files_are_compressed_by_snappy_unless_the_caller_chooses(
    options: dict[str, Any], rows: int, expected: str
) -> None:
    data = encoded(Parquet(SCHEMA, **options), [{"id": index, "name": "x" * 8} for index in range(rows)])
    footer: Any = pq.read_metadata(io.BytesIO(data))
    assert footer.row_group(0).column(0).compression == expected


@pytest.mark.parametrize("garbage", [b"", b"PAR1", b"garbage" * 100, b"PAR1" + bytes(100) + b"PAR1"])
def test_garbage_is_not_a_parquet_file(garbage: bytes) -> None:
    sources: list[Any] = [io.BytesIO(garbage), Unseekable(garbage)]
    for source in sources:
        with pytest.raises(InvalidFormatError, match="not a Parquet file"):
            decoded(Parquet(), source)


def test_a_damaged_page_is_noticed() -> None:
    data = bytearray(
        encoded(
            Parquet(SCHEMA, dictionary=False), [{"id": index, "name": str(index)} for index in range(5000)]
        )
    )
    data[200:400] = bytes(200)
    with pytest.raises(InvalidFormatError):
        decoded(Parquet(), bytes(data))


def test_an_error_of_the_source_or_the_sink_passes_through_unchanged() -> None:
    error = StoreError("unplugged")
    source: Any = Failing(error)
    with pytest.raises(StoreError) as caught:
        decoded(Parquet(), source)
    assert caught.value is error

    class Broken:
        def write(self, _: Any, /) -> int:
            raise error

    encoder = Parquet(SCHEMA).stream_encoder(Broken())
    encoder.write([{"id": 1}])
    with pytest.raises(StoreError) as caught:
        encoder.close()
    assert caught.value is error


def test_an_encoder_that_is_given_up_writes_no_footer() -> None:
    sink = CountingSink()
    encoder = Parquet(SCHEMA, row_group_rows=50_000, compression=None).stream_encoder(sink)
    encoder.write([{"id": index} for index in range(120_000)])
    before = sum(sink.sizes)
    assert before
    del encoder
    gc.collect()
    assert sum(sink.sizes) == before


def test_a_small_file_reaches_its_sink_in_one_piece() -> None:
    sink = CountingSink()
    encoder = Parquet(SCHEMA).stream_encoder(sink)
    encoder.write([{"id": index, "name": str(index)} for index in range(1000)])
    encoder.close()
    assert len(sink.sizes) == 1


def test_a_row_group_that_is_full_goes_to_the_sink_at_once() -> None:
    sink = CountingSink()
    encoder = Parquet(SCHEMA, row_group_rows=100).stream_encoder(sink)
    encoder.write([{"id": index, "name": str(index)} for index in range(99)])
    assert not sink.sizes
    encoder.write([{"id": 99, "name": "99"}])
    assert sum(sink.sizes) > 100


def test_rows_are_conformed_before_they_are_split() -> None:
    batch = Parquet(SCHEMA).conform([{"id": 1.0}], 0)
    assert isinstance(batch, pa.RecordBatch)
    assert batch.to_pylist() == [{"id": 1, "name": None}]
