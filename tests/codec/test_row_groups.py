"""Row groups of one Parquet file that are encoded at the same time."""

from __future__ import annotations

import io
import threading
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lode.codec import Parquet, chunks_of
from lode.codec.row_groups import Footer
from lode.codec.thrift import read_struct, write_struct
from lode.errors import InvalidFormatError, InvalidOptionError, StoreError
from support.codec.sinks import encoded
from support.codec.strategies import tables

ROWS = pa.table(
    {
        "id": pa.array(range(1_000), pa.int64()),
        "kind": ["a", "b", None, "d"] * 250,
        "x": [0.5, float("nan"), -1.0, None] * 250,
        "tags": [["x"], [], None, ["y", "z"]] * 250,
    }
)


def joined(codec: Parquet, data: Any, threads: int = 2) -> tuple[bytes, Any]:
    sink = io.BytesIO()
    encoder = codec.threaded_encoder(sink, threads)
    for chunk in chunks_of(data):
        encoder.write(chunk)
    encoder.close()
    return sink.getvalue(), encoder.statistics()


def serial(codec: Parquet, data: Any) -> tuple[bytes, Any]:
    sink = io.BytesIO()
    encoder = codec.stream_encoder(sink)
    for chunk in chunks_of(data):
        encoder.write(chunk)
    encoder.close()
    return sink.getvalue(), encoder.statistics()


def footer_of(data: bytes) -> bytes:
    length = int.from_bytes(data[-8:-4], "little")
    return data[-8 - length : -8]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(tables(), st.integers(1, 5))
def test_the_file_has_the_rows_and_statistics_of_one_that_a_single_thread_writes(
    drawn: tuple[pa.Schema, list[Any]], rows: int
) -> None:
    schema, records = drawn
    codec = Parquet(schema, row_group_rows=rows)
    (data, stats), (expected, expected_stats) = joined(codec, records), serial(codec, records)
    found, wanted = pq.ParquetFile(io.BytesIO(data)), pq.ParquetFile(io.BytesIO(expected))
    assert found.read().equals(wanted.read())
    assert found.metadata.num_row_groups == wanted.metadata.num_row_groups
    assert stats == expected_stats


def test_every_row_group_says_where_its_pages_are() -> None:
    data, _ = joined(Parquet(row_group_rows=90), ROWS)
    file = pq.ParquetFile(io.BytesIO(data), page_checksum_verification=True)
    assert file.num_row_groups == 12
    for number in range(file.num_row_groups):
        found, wanted = file.read_row_group(number), ROWS.slice(number * 90, 90)
        for name in ("id", "kind", "tags"):
            assert found.column(name).to_pylist() == wanted.column(name).to_pylist()


def test_other_readers_read_the_file(tmp_path: Any) -> None:
    path = tmp_path / "joined.parquet"
    path.write_bytes(joined(Parquet(row_group_rows=90), ROWS)[0])
    assert pl.read_parquet(path).equals(pl.DataFrame(ROWS))
    assert pl.read_parquet(path, use_pyarrow=True).equals(pl.DataFrame(ROWS))
    last = duckdb.execute(f"select id, kind from '{path}' where id >= 995 order by id").fetchall()
    assert last == [(995, "d"), (996, "a"), (997, "b"), (998, None), (999, "d")]


def test_one_row_group_is_the_file_that_a_single_thread_writes() -> None:
    codec = Parquet()
    assert joined(codec, ROWS)[0] == encoded(codec, ROWS)


@pytest.mark.parametrize(("threads", "mebibytes", "groups"), [(2, 7, 1), (2, 8, 2), (4, 12, 3), (4, 20, 4)])
def test_a_file_that_ends_before_its_first_row_group_is_full_has_one_for_each_thread(
    threads: int, mebibytes: int, groups: int
) -> None:
    codec = Parquet(row_group_rows=1 << 23)
    rows = pa.table({"id": pa.array(range(mebibytes << 17), pa.int64())})
    data, stats = joined(codec, rows, threads)
    file = pq.ParquetFile(io.BytesIO(data))
    assert file.num_row_groups == groups
    assert file.read().equals(rows)
    assert stats == serial(codec, rows)[1]


def test_a_file_without_rows_is_valid() -> None:
    data, stats = joined(Parquet(ROWS.schema), [])
    assert pq.read_table(io.BytesIO(data)).equals(ROWS.schema.empty_table())
    assert stats.row_count == 0


@pytest.mark.parametrize("options", [{"distinct_count": True}, {"dictionary": False}, {"dictionary": ["id"]}])
def test_the_options_of_the_codec_hold_for_every_row_group(options: dict[str, Any]) -> None:
    codec = Parquet(row_group_rows=300, compression="gzip", **options)
    (data, stats), (expected, expected_stats) = joined(codec, ROWS, 3), serial(codec, ROWS)
    assert stats == expected_stats
    found, wanted = (pq.ParquetFile(io.BytesIO(each)).metadata for each in (data, expected))
    for group in range(4):
        for column in range(4):
            mine, theirs = (each.row_group(group).column(column) for each in (found, wanted))
            assert (mine.compression, mine.encodings) == (theirs.compression, theirs.encodings)


def test_a_type_parquet_does_not_know_is_refused() -> None:
    encoder = Parquet(row_group_rows=1).threaded_encoder(io.BytesIO(), 2)
    with pytest.raises(InvalidOptionError, match="Parquet cannot hold"):
        encoder.write(pa.record_batch([pa.array([None], pa.struct([]))], names=["a"]))


def test_an_error_of_the_sink_is_raised_and_no_thread_goes_on() -> None:
    class Full(io.BytesIO):
        def write(self, data: Any, /) -> int:
            if len(data) > 4:
                raise StoreError("the disk is full")
            return super().write(data)

    others = set(threading.enumerate())
    encoder = Parquet(row_group_rows=100).threaded_encoder(Full(), 2)
    with pytest.raises(StoreError, match="full"):
        encoder.write(ROWS.to_batches()[0])
    encoder.abort()
    left = set(threading.enumerate()) - others
    assert not [each for each in left if each.name.startswith("lode-encode")]


def test_nothing_is_written_after_an_abort() -> None:
    sink = io.BytesIO()
    encoder = Parquet(row_group_rows=10).threaded_encoder(sink, 2)
    for batch in ROWS.to_batches():
        encoder.write(batch)
    encoder.abort()
    size = len(sink.getvalue())
    del encoder
    assert len(sink.getvalue()) == size


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(tables())
def test_a_footer_is_written_as_it_was_read(drawn: tuple[pa.Schema, list[Any]]) -> None:
    schema, records = drawn
    footer = footer_of(encoded(Parquet(schema, row_group_rows=3), records))
    assert write_struct(read_struct(footer)[0]) == footer


def test_a_footer_with_fields_of_every_type_is_written_as_it_was_read() -> None:
    # A bool, a byte, a list of bools, a double, a field with a far number, and a long list.
    data = bytes.fromhex("11 13ff 1931010201 17000000000000f03f 062802 19f56f") + bytes(111) + b"\0"
    assert write_struct(read_struct(data)[0]) == data


def test_a_damaged_footer_is_an_error() -> None:
    footer = footer_of(encoded(Parquet(), ROWS))
    for size in range(0, len(footer) - 1, 7):
        with pytest.raises(InvalidFormatError, match="a Parquet footer"):
            read_struct(footer[:size])
    for hostile in (b"\x1c" * 10_000, b"\x19\x9c" * 10_000, b"\x19\xf5\xff\xff\xff\xff\x0f", b"\x1b\x00"):
        with pytest.raises(InvalidFormatError, match="a Parquet footer"):
            read_struct(hostile)
    with pytest.raises(InvalidFormatError, match="the end of a Parquet file"):
        Footer.of(b"x" * 20, 20)


def test_a_footer_with_an_endless_number_is_refused_at_once() -> None:
    with pytest.raises(InvalidFormatError, match="too long"):
        read_struct(b"\x16" + b"\x80" * 100_000 + b"\x01\x00")


def test_a_damaged_footer_never_ends_the_process() -> None:
    # pyarrow calls std::terminate for statistics that contradict the schema.
    codec = Parquet(ROWS.schema, row_group_rows=400)
    data, _ = serial(codec, ROWS)
    start = Footer.of(data, len(data)).start
    reader = codec.footer_reader(ROWS.schema)
    read = 0
    for at in range(start, len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 1 << (at % 8)
        try:
            footer = Footer.of(damaged, len(damaged))
            metadata = pq.read_metadata(pa.BufferReader(footer.for_statistics()))
            for group in range(metadata.num_row_groups):
                reader.stats(metadata, unbounded=frozenset(), distinct={}, row_group=group)
        except (InvalidFormatError, pa.ArrowException, OSError, LookupError, TypeError, UnicodeError):
            continue
        read += 1
    assert read


@pytest.mark.parametrize("bound", [1, 2, 5, 6])
def test_a_bound_of_another_size_than_its_type_is_refused(bound: int) -> None:
    data, _ = serial(Parquet(ROWS.schema), ROWS)
    footer = Footer.of(data, len(data))
    statistics = footer.row_groups[0][1].value.values[0][3].value[12].value
    assert len(footer.for_statistics()) > 100
    if bound in statistics:
        statistics[bound] = statistics[bound]._replace(value=b"short")
        with pytest.raises(InvalidFormatError, match="a bound of a column has another size"):
            footer.for_statistics()
