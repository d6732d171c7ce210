"""Records of any shape are read back as they were written."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import msgspec
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lode
from lode.codec import to_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lode.store import CountingStore

SCHEMA = to_schema({"id": "int64", "name": "string", "score": "float64", "ok": "bool"})
ROWS: list[dict[str, Any]] = [
    {"id": 1, "name": "ünï", "score": 1.5, "ok": True},
    {"id": -(2**62), "name": None, "score": -0.0, "ok": False},
    {"id": 3, "name": "", "score": 1e300, "ok": None},
]
TABLE = pa.Table.from_pylist(ROWS, schema=SCHEMA)


@dataclass
class Record:
    id: int
    name: str | None
    score: float
    ok: bool | None


class Struct(msgspec.Struct):
    id: int
    name: str | None
    score: float
    ok: bool | None


class Mapped(dict[str, Any]):
    """A custom mapping."""


def batches() -> Iterator[pa.RecordBatch]:
    yield from TABLE.slice(0, 1).to_batches()
    yield from TABLE.slice(1).to_batches()


def duck() -> Any:
    return duckdb.connect().from_arrow(TABLE)


class Capsule:
    """An object with the Arrow stream protocol only."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        exported: object = TABLE.__arrow_c_stream__(requested_schema)  # type: ignore[no-untyped-call]
        return exported


PLAIN: dict[str, Callable[[], Any]] = {
    "dicts": lambda: ROWS,
    "a generator of dicts": lambda: (dict(row) for row in ROWS),
    "dicts of one's own class": lambda: [Mapped(row) for row in ROWS],
    "dataclasses": lambda: [Record(**row) for row in ROWS],
    "msgspec structs": lambda: [Struct(**row) for row in ROWS],
    "a mixture": lambda: [ROWS[0], Record(**ROWS[1]), Struct(**ROWS[2])],
}
ARROW: dict[str, Callable[[], Any]] = {
    "a table": lambda: TABLE,
    "a table of many chunks": lambda: pa.Table.from_batches(list(batches())),
    "a batch": lambda: TABLE.to_batches()[0],
    "a reader": lambda: pa.RecordBatchReader.from_batches(SCHEMA, batches()),
    "an iterator of batches": batches,
    "pandas": lambda: pd.DataFrame(ROWS).astype({"ok": "boolean"}),
    "polars": lambda: pl.DataFrame(ROWS),
    "a duckdb relation": duck,
    "an Arrow capsule": Capsule,
}
CODECS: dict[str, Any] = {
    "jsonl": lode.JSONL(),
    "parquet": lode.Parquet(SCHEMA),
    "arrow": lode.ArrowIPC(SCHEMA),
}


def rows_of(read: Any) -> list[dict[str, Any]]:
    return read if isinstance(read, list) else read.to_pylist()


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("shape", [*PLAIN, *ARROW])
def test_records_of_any_shape_are_read_back_equal(memory: CountingStore, shape: str, codec: str) -> None:
    dataset = lode.Dataset("events", memory, codec=CODECS[codec])
    snapshot = dataset.write((PLAIN | ARROW)[shape]())
    assert snapshot.row_count == 3
    assert rows_of(dataset.read(snapshot)) == ROWS
    assert dataset.scan().read_all().to_pylist() == ROWS


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("shape", [*PLAIN, *ARROW])
def test_records_of_any_shape_are_streamed_equal(memory: CountingStore, shape: str, codec: str) -> None:
    dataset = lode.Dataset("events", memory, codec=CODECS[codec])
    snapshot = dataset.stream_write_records((PLAIN | ARROW)[shape]())
    assert snapshot.row_count == 3
    assert rows_of(dataset.read(snapshot)) == ROWS


@pytest.mark.parametrize("codec", ["parquet", "arrow"])
@pytest.mark.parametrize("shape", ARROW)
def test_arrow_data_brings_its_own_schema(memory: CountingStore, shape: str, codec: str) -> None:
    dataset = lode.Dataset("events", memory, codec=codec)
    assert rows_of(dataset.read(dataset.write(ARROW[shape]()))) == ROWS


@pytest.mark.parametrize("codec", ["parquet", "arrow"])
def test_plain_records_without_a_schema_are_refused(memory: CountingStore, codec: str) -> None:
    with pytest.raises(lode.InvalidOptionError, match="create the dataset with one"):
        lode.Dataset("events", memory, codec=codec).write(ROWS)


@pytest.mark.parametrize("compressor", ["noop", "gzip", "zstd"])
@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_reads_back_through_every_compressor(
    store: CountingStore, codec: str, compressor: str
) -> None:
    dataset = lode.Dataset("events", store, codec=CODECS[codec], compressor=compressor, checksum="xxh3-128")
    snapshot = dataset.write(ROWS)
    extension = {"noop": "", "gzip": ".gz", "zstd": ".zst"}[compressor]
    assert snapshot.files[0].path.endswith(f"/data/data{extension}")
    assert rows_of(dataset.read(snapshot, verify=True)) == ROWS
    assert dataset.scan().read_all() == TABLE


@pytest.mark.parametrize("codec", ["jsonl", "parquet", "arrow"])
def test_no_records_at_all_are_read_back_as_none(memory: CountingStore, codec: str) -> None:
    dataset = lode.Dataset("events", memory, codec=CODECS[codec])
    snapshot = dataset.write([])
    assert (snapshot.row_count, rows_of(dataset.read(snapshot))) == (0, [])
    assert dataset.scan().read_all().num_rows == 0


@pytest.mark.parametrize("codec", ["parquet", "arrow"])
def test_no_records_and_no_schema_is_either_refused_or_readable(memory: CountingStore, codec: str) -> None:
    """Every committed file can be read."""
    dataset = lode.Dataset("events", memory, codec=codec)
    try:
        dataset.write([])
    except lode.InvalidOptionError:
        assert dataset.snapshots() == []
    else:
        assert dataset.read(dataset.latest()).num_rows == 0


@pytest.mark.parametrize("codec", ["parquet", "arrow"])
def test_an_empty_table_keeps_its_columns(memory: CountingStore, codec: str) -> None:
    dataset = lode.Dataset("events", memory, codec=codec)
    assert dataset.read(dataset.write(TABLE.slice(0, 0))).schema == SCHEMA


RICH: dict[str, tuple[str, Any]] = {
    "timestamp": ("timestamp", datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)),
    "date": ("date", date(2026, 1, 2)),
    "decimal": ("decimal(10,2)", Decimal("12.50")),
    "bytes": ("bytes", b"\x00\xff"),
    "list": ("list<int64>", [1, None, 3]),
    "struct": ("struct<a:int64,b:string>", {"a": 1, "b": "x"}),
    "map": ("map<string,int64>", [("a", 1)]),
}


@pytest.mark.parametrize("codec", [lode.JSONL, lode.Parquet, lode.ArrowIPC])
@pytest.mark.parametrize("kind", RICH)
def test_a_schema_brings_every_type_back_in_a_scan(memory: CountingStore, kind: str, codec: Any) -> None:
    spec, value = RICH[kind]
    dataset = lode.Dataset("events", memory, codec=codec({"v": spec}))
    dataset.write([{"v": dict(value) if kind == "map" else value}, {"v": None}])
    assert dataset.scan().read_all().to_pylist() == [{"v": value}, {"v": None}]


@pytest.mark.parametrize("data", [{"id": 1}, "text", b"bytes", 7, Record(1, "", 0.0, None)])
def test_a_value_that_is_no_collection_of_records_is_refused(memory: CountingStore, data: Any) -> None:
    with pytest.raises(lode.InvalidOptionError):
        lode.Dataset("events", memory, codec="jsonl").write(data)
    assert memory.counts["put"] == 0
