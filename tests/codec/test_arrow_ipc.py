"""Arrow streams: whole, or an error."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pytest

from lode.codec import ArrowIPC
from lode.errors import InvalidFormatError, InvalidOptionError, StoreError
from support.codec.sinks import CountingSink, Failing, Unseekable, decoded, encoded

CODEC = ArrowIPC({"a": "int64!"})
ROWS = [{"a": index} for index in range(1000)]


def test_any_arrow_reader_reads_the_file() -> None:
    assert pa.ipc.open_stream(encoded(CODEC, ROWS)).read_all().to_pylist() == ROWS


def test_a_file_without_rows_is_valid_and_knows_its_schema() -> None:
    (batch,) = CODEC.decode(io.BytesIO(encoded(CODEC, [])))
    assert isinstance(batch, pa.RecordBatch)
    assert batch.schema == CODEC.schema


def test_without_a_schema_records_and_empty_files_ask_for_one() -> None:
    with pytest.raises(InvalidOptionError, match="create the dataset with one"):
        encoded(ArrowIPC(), ROWS)
    with pytest.raises(InvalidOptionError, match="needs a schema"):
        encoded(ArrowIPC(), [])


def test_a_source_that_gives_little_at_a_time_is_read_whole() -> None:
    source: Any = Unseekable(encoded(CODEC, ROWS), piece=7)
    assert decoded(CODEC, source) == ROWS


def test_a_stream_cut_anywhere_is_an_error() -> None:
    data = encoded(CODEC, ROWS, rows_per_chunk=300)
    for length in range(0, len(data), 8):
        with pytest.raises(InvalidFormatError):
            decoded(CODEC, data[:length])


def test_garbage_is_not_an_arrow_stream() -> None:
    with pytest.raises(InvalidFormatError, match="not an Arrow stream"):
        decoded(CODEC, b"garbage" * 10)


def test_an_error_of_the_source_passes_through_unchanged() -> None:
    error = StoreError("unplugged")
    source: Any = Failing(error, encoded(CODEC, ROWS)[:500])
    with pytest.raises(StoreError) as caught:
        decoded(CODEC, source)
    assert caught.value is error


def test_nothing_is_held_back_between_chunks() -> None:
    sink = CountingSink()
    encoder = CODEC.stream_encoder(sink)
    for _ in range(3):
        before = sum(sink.sizes)
        encoder.write(ROWS)
        assert sum(sink.sizes) >= before + 8 * len(ROWS)
