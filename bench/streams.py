"""Blobs and records of any size in flat memory, and what that costs over a plain file with the same hash."""

from __future__ import annotations

import hashlib
import importlib
import os
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from bench.measure import forget_peak, in_child, peak_mb, progress
from bench.table import Row, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.options import Options

Sample = tuple[float, float, float]

_PIECE = 1 << 20
_CHECKSUMS = ("xxh3-128", "md5")
_COLUMNS = ["seconds", "CPU seconds", "peak over idle, MB"]
_ROWS_AT_ONCE = 8192


def run(options: Options) -> list[Table]:
    size = (512 << 20) if options.quick else (4 << 30)
    records = 500_000 if options.quick else 10_000_000
    return [_blobs(options, size), _records(options, records)]


def _blobs(options: Options, size: int) -> Table:
    found = []
    for checksum in _CHECKSUMS:
        plain, ours = f"plain file, {checksum}", f"Lode stream_write, {checksum}"
        measured = _alternate(
            options,
            2 if options.quick else 3,
            {plain: (plain_blob, size, checksum), ours: (lode_blob, size, checksum)},
        )
        found += [Row(plain, measured[plain]), Row(ours, measured[ours], plain)]
    return Table(
        f"stream_write of {size / (1 << 30):g} GiB in pieces of 1 MiB, local, not synced",
        _COLUMNS,
        found,
        ratios=["seconds", "CPU seconds"],
        notes=["Medians; each in a process of its own, in turn; the file is removed after each."],
    )


def _records(options: Options, count: int) -> Table:
    found = []
    for name, plain, ours in (
        ("JSONL", plain_jsonl, lode_jsonl),
        ("Parquet", plain_parquet, lode_parquet),
    ):
        base, contender = f"plain {name} file", f"Lode stream_write_records, {name}"
        measured = _alternate(
            options, 1, {base: (plain, count, "xxh3-128"), contender: (ours, count, "xxh3-128")}
        )
        found += [Row(base, measured[base]), Row(contender, measured[contender], base)]
    return Table(
        f"stream_write_records of {count:,} records (dicts of six values), local, not synced, xxh3-128",
        _COLUMNS,
        found,
        ratios=["seconds", "CPU seconds"],
        notes=[
            "The plain files: msgspec for JSON; pyarrow's ParquetWriter over chunks of 8,192 records, zstd. "
            "Making the records is in all of them.",
        ],
    )


def _alternate(
    options: Options, repeats: int, works: dict[str, tuple[Callable[..., Any], int, str]]
) -> dict[str, list[float | str | None]]:
    samples: dict[str, list[Sample]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, (function, size, checksum) in works.items():
            with options.scratch() as root:
                samples[name].append(in_child(function, root=str(root), size=size, checksum=checksum))
            progress(f"{name}: {samples[name][-1]}")
    return {name: _summary(found) for name, found in samples.items()}


def _summary(samples: list[Sample]) -> list[float | str | None]:
    wall, busy, peak = zip(*samples, strict=True)
    return [median(wall), median(busy), max(peak)]


def _measured(work: Callable[[], Any]) -> Sample:
    idle = forget_peak()
    began, busy = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - began, time.process_time() - busy, peak_mb() - idle


def lode_blob(root: str, size: int, checksum: str) -> Sample:
    import lode

    dataset = lode.Dataset("blobs", lode.open_store(root, durable=False), checksum=checksum)
    piece = os.urandom(_PIECE)

    def work() -> None:
        with dataset.stream_write() as stream:
            for _ in range(size // _PIECE):
                stream.write(piece)
            stream.commit()

    return _measured(work)


def plain_blob(root: str, size: int, checksum: str) -> Sample:
    hasher = _hasher(checksum)
    piece = os.urandom(_PIECE)

    def work() -> None:
        with Path(root, "blob").open("wb") as file:
            for _ in range(size // _PIECE):
                hasher.update(piece)
                file.write(piece)

    return _measured(work)


def lode_jsonl(root: str, size: int, checksum: str) -> Sample:
    import lode

    dataset = lode.Dataset(
        "records", lode.open_store(root, durable=False), codec=lode.JSONL(), checksum=checksum
    )
    return _measured(lambda: dataset.stream_write_records(_dicts(size)))


def plain_jsonl(root: str, size: int, checksum: str) -> Sample:
    import msgspec

    hasher = _hasher(checksum)
    encoder = msgspec.json.Encoder()

    def work() -> None:
        with Path(root, "records").open("wb") as file:
            for chunk in _chunks(_dicts(size)):
                data = encoder.encode_lines(chunk)
                hasher.update(data)
                file.write(data)

    return _measured(work)


def lode_parquet(root: str, size: int, checksum: str) -> Sample:
    import lode

    dataset = lode.Dataset(
        "records", lode.open_store(root, durable=False), codec=lode.Parquet(_SCHEMA), checksum=checksum
    )
    return _measured(lambda: dataset.stream_write_records(_dicts(size)))


def plain_parquet(root: str, size: int, checksum: str) -> Sample:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, getattr(pa, kind)()) for name, kind in _SCHEMA.items()])
    hasher = _hasher(checksum)

    def work() -> None:
        path = Path(root, "records.parquet")
        # A row group of the size that Lode makes.
        with pq.ParquetWriter(path, schema, compression="zstd") as writer:
            batches: list[pa.RecordBatch] = []
            for chunk in _chunks(_dicts(size)):
                batches.append(pa.RecordBatch.from_pylist(chunk, schema=schema))
                if len(batches) * _ROWS_AT_ONCE >= 1 << 19:
                    writer.write_table(pa.Table.from_batches(batches))
                    batches = []
            if batches:
                writer.write_table(pa.Table.from_batches(batches))
        with path.open("rb") as file:
            while piece := file.read(_PIECE):
                hasher.update(piece)

    return _measured(work)


_SCHEMA = {
    "id": "int64",
    "at": "int64",
    "kind": "string",
    "place": "string",
    "value": "float64",
    "count": "int64",
}


def _dicts(count: int) -> Iterator[dict[str, Any]]:
    for number in range(count):
        yield {
            "id": number,
            "at": 1_700_000_000_000 + number,
            "kind": f"kind-{number & 7}",
            "place": f"place-{number % 500}",
            "value": number * 0.37,
            "count": number % 1000,
        }


def _chunks(records: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    from itertools import islice

    while chunk := list(islice(records, _ROWS_AT_ONCE)):
        yield chunk


def _hasher(checksum: str) -> Any:
    if checksum == "xxh3-128":
        return importlib.import_module("xxhash").xxh3_128()
    return hashlib.new(checksum, usedforsecurity=False)
