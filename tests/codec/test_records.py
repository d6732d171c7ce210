"""Data of any shape becomes bounded chunks, pulled as they are needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb
import msgspec
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from lode.codec import chunks_of, rows_of
from lode.codec.records import BYTES_PER_CHUNK
from lode.errors import InvalidOptionError

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass
class Row:
    a: int


class RowStruct(msgspec.Struct):
    a: int


TABLE = pa.table({"a": [1, 2, 3]})


def rows(data: Any) -> list[Any]:
    return [row for chunk in chunks_of(data) for row in rows_of(chunk)]


@pytest.mark.parametrize(
    "data",
    [
        TABLE,
        TABLE.to_batches()[0],
        TABLE.to_struct_array().combine_chunks(),
        [TABLE, TABLE.slice(0, 0)],
        iter(TABLE.to_batches()),
        pd.DataFrame({"a": [1, 2, 3]}),
        pd.DataFrame({"a": [0, 1, 2, 3]}).query("a > 0"),
        pl.DataFrame({"a": [1, 2, 3]}),
        [pl.DataFrame({"a": [1, 2]}), pd.DataFrame({"a": [3]})],
    ],
    ids=lambda data: type(data).__name__,
)
def test_whatever_exports_arrow_is_taken_as_arrow(data: Any) -> None:
    chunks = list(chunks_of(data))
    assert all(isinstance(chunk, pa.RecordBatch) for chunk in chunks)
    assert pa.Table.from_batches(chunks).to_pylist() == TABLE.to_pylist()  # type: ignore[arg-type]


def test_readers_and_duckdb_relations_are_read_once_through() -> None:
    assert rows(TABLE.to_reader()) == TABLE.to_pylist()
    assert rows(duckdb.sql("select unnest([1, 2, 3]) as a")) == TABLE.to_pylist()


@pytest.mark.parametrize(
    "data", [[{"a": 1}], ({"a": 1},), iter([Row(1)]), [RowStruct(1)], [1, "x", None, [2]], [], range(3)]
)
def test_an_iterable_of_records_becomes_lists(data: Any) -> None:
    items = list(data)
    assert rows(iter(items)) == items


@pytest.mark.parametrize(
    "data", [{"a": 1}, "text", b"bytes", Row(1), RowStruct(1), None, 5, pl.Series([1]), pa.array([1]), Row]
)
def test_one_record_or_no_iterable_is_an_error_that_says_what_to_pass(data: Any) -> None:
    with pytest.raises(InvalidOptionError, match="pass an iterable of records"):
        chunks_of(data)


@pytest.mark.parametrize("data", [[TABLE, {"a": 1}], [{"a": 1}, TABLE]])
def test_records_and_arrow_data_do_not_mix(data: Any) -> None:
    with pytest.raises(InvalidOptionError, match="give all of it as"):
        list(chunks_of(data))


def test_records_are_pulled_only_as_needed() -> None:
    pulled = 0

    def source() -> Iterator[dict[str, int]]:
        nonlocal pulled
        for pulled in range(1_000_000):
            yield {"a": pulled}

    chunks = chunks_of(source(), rows_per_chunk=100)
    assert pulled == 0
    assert len(next(chunks)) == 100
    assert pulled < 100
    next(chunks)
    assert pulled < 200


def test_arrow_batches_are_pulled_one_at_a_time() -> None:
    pulled = []

    def source() -> Iterator[pa.RecordBatch]:
        for index in range(5):
            pulled.append(index)
            yield pa.RecordBatch.from_pydict({"a": [index]})

    next(chunks_of(source()))
    assert pulled == [0]


def test_an_error_of_the_callers_iterator_passes_through_unchanged() -> None:
    error = RuntimeError("mine")

    def source() -> Iterator[int]:
        yield 1
        raise error

    with pytest.raises(RuntimeError) as caught:
        list(chunks_of(source()))
    assert caught.value is error


@pytest.mark.parametrize("size", [10, 10_000, 1_000_000])
def test_a_chunk_of_fat_records_closes_early(size: int) -> None:
    for chunk in chunks_of({"text": "x" * size} for _ in range(60_000_000 // (size + 300))):
        assert len(chunk) * size <= BYTES_PER_CHUNK * 1.5 + 16 * size
        assert len(chunk) <= 8192


def test_records_that_turn_fat_are_noticed_within_a_slice() -> None:
    sizes = [10] * 3000 + [100_000] * 600
    for chunk in chunks_of({"text": "x" * size} for size in sizes):
        assert sum(len(record["text"]) for record in rows_of(chunk)) <= 8 * BYTES_PER_CHUNK


def test_a_large_batch_is_sliced_without_a_copy() -> None:
    batch = pa.RecordBatch.from_pydict({"a": list(range(10_000))})
    chunks: Any = list(chunks_of(batch, rows_per_chunk=3000))
    assert [len(chunk) for chunk in chunks] == [3000, 3000, 3000, 1000]
    address = batch.column(0).buffers()[1].address  # type: ignore[union-attr]
    assert {chunk.column(0).buffers()[1].address for chunk in chunks} == {address}


def test_a_batch_of_fat_rows_is_sliced_by_bytes() -> None:
    batch = pa.RecordBatch.from_pydict({"a": ["x" * 1_000_000] * 40})
    assert max(chunk.nbytes for chunk in chunks_of(batch)) <= BYTES_PER_CHUNK  # type: ignore[union-attr]


def test_arrow_data_without_rows_still_tells_its_schema() -> None:
    (chunk,) = chunks_of(TABLE.slice(0, 0))
    assert isinstance(chunk, pa.RecordBatch)
    assert chunk.num_rows == 0
    assert chunk.schema == TABLE.schema


def test_an_index_that_was_named_stays_a_column() -> None:
    frame = pd.DataFrame({"a": [1]}, index=pd.Index([7], name="key"))
    assert rows(frame) == [{"a": 1, "key": 7}]


def test_pandas_leaves_no_note_of_itself_in_the_schema() -> None:
    (chunk,) = chunks_of(pd.DataFrame({"a": [1]}))
    assert isinstance(chunk, pa.RecordBatch)
    assert chunk.schema.metadata is None


def test_the_size_of_a_chunk_is_at_least_one() -> None:
    with pytest.raises(InvalidOptionError, match="at least 1"):
        chunks_of([], rows_per_chunk=0)
