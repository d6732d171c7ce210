"""The writers of the bulk benchmark, each run in a process of its own."""

from __future__ import annotations

import importlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from benchmarks.data import SCHEMA
from benchmarks.measure import measured
from benchmarks.rounds import Sample, require, verify

if TYPE_CHECKING:
    from collections.abc import Callable

TWO_FILES = "pyarrow, two files in two threads"
READER = "Lode, from a RecordBatchReader"
STREAM = "Lode, stream_write_records of batches"
_ICEBERG = "bench.table"
_BATCH_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class Writer:
    """``prepare`` gets ready and returns the work to measure; ``count`` finds its rows afterwards."""

    package: str
    prepare: Callable[[pa.Table, str], Callable[[], Any]]
    count: Callable[[str], int]


def measure(name: str, source: str, target: str, count: int) -> Sample:
    """In a child: seconds, CPU seconds, peak over idle, bytes and files, once the rows are there."""
    writer = WRITERS[name]
    require(writer.package)
    table = _load(source)
    numbers = measured(writer.prepare(table, target))
    verify(writer.count(target), count, "rows written")
    sizes = [path.stat().st_size for path in Path(target).rglob("*") if path.is_file()]
    return [*numbers, sum(sizes) / 1e6, len(sizes)]


def dataset_at(target: str) -> Any:
    import lode

    store = lode.open_store(target, durable=False)
    return lode.Dataset("bulk", store, codec=lode.Parquet(SCHEMA), checksum="xxh3-128")


def iceberg_at(target: str, *, create: bool = False) -> Any:
    catalog = importlib.import_module("pyiceberg.catalog.sql").SqlCatalog(
        "bench", uri=f"sqlite:///{target}/catalog.db", warehouse=f"file://{target}"
    )
    if not create:
        return catalog.load_table(_ICEBERG)
    catalog.create_namespace("bench")
    return catalog.create_table(_ICEBERG, schema=SCHEMA)


def _one_file(table: pa.Table, target: str) -> Callable[[], Any]:
    pq = importlib.import_module("pyarrow.parquet")
    return lambda: pq.write_table(table, f"{target}/one.parquet", compression="zstd")


def _two_files(table: pa.Table, target: str) -> Callable[[], Any]:
    pq = importlib.import_module("pyarrow.parquet")
    half = table.num_rows // 2

    def write(number: int) -> None:
        piece = table.slice(number * half, half if number == 0 else table.num_rows)
        pq.write_table(piece, f"{target}/{number}.parquet", compression="zstd")

    def work() -> None:
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(write, range(2)))

    return work


def _count_files(target: str) -> int:
    pq: Any = importlib.import_module("pyarrow.parquet")
    return sum(pq.read_metadata(file).num_rows for file in Path(target).glob("*.parquet"))


def _lode(table: pa.Table, target: str) -> Callable[[], Any]:
    dataset = dataset_at(target)
    return lambda: dataset.write(table)


def _lode_reader(table: pa.Table, target: str) -> Callable[[], Any]:
    dataset, reader = dataset_at(target), table.to_reader(_BATCH_ROWS)
    return lambda: dataset.write(reader)


def _lode_stream(table: pa.Table, target: str) -> Callable[[], Any]:
    dataset, batches = dataset_at(target), iter(table.to_batches(_BATCH_ROWS))
    return lambda: dataset.stream_write_records(batches)


def _count_lode(target: str) -> int:
    pq: Any = importlib.import_module("pyarrow.parquet")
    return sum(pq.read_metadata(f"{target}/{file.path}").num_rows for file in dataset_at(target).plan().files)


def _delta(table: pa.Table, target: str) -> Callable[[], Any]:
    package = importlib.import_module("deltalake")
    properties = package.WriterProperties(compression="ZSTD")
    return lambda: package.write_deltalake(f"{target}/table", table, writer_properties=properties)


def _count_delta(target: str) -> int:
    return int(
        importlib.import_module("deltalake").DeltaTable(f"{target}/table").to_pyarrow_dataset().count_rows()
    )


def _iceberg(table: pa.Table, target: str) -> Callable[[], Any]:
    opened = iceberg_at(target, create=True)
    return lambda: opened.append(table)


def _count_iceberg(target: str) -> int:
    return sum(task.file.record_count for task in iceberg_at(target).scan().plan_files())


def _lance(table: pa.Table, target: str) -> Callable[[], Any]:
    package = importlib.import_module("lance")
    return lambda: package.write_dataset(table, f"{target}/table")


def _count_lance(target: str) -> int:
    return int(importlib.import_module("lance").dataset(f"{target}/table").count_rows())


def _load(source: str) -> pa.Table:
    with pa.OSFile(source, "rb") as file:
        return pa.ipc.open_file(file).read_all()


WRITERS = {
    "pyarrow, one file": Writer("pyarrow", _one_file, _count_files),
    TWO_FILES: Writer("pyarrow", _two_files, _count_files),
    "Lode": Writer("lode", _lode, _count_lode),
    READER: Writer("lode", _lode_reader, _count_lode),
    STREAM: Writer("lode", _lode_stream, _count_lode),
    "Delta": Writer("deltalake", _delta, _count_delta),
    "Iceberg": Writer("pyiceberg", _iceberg, _count_iceberg),
    "Lance": Writer("lance", _lance, _count_lance),
}
