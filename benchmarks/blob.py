"""Blobs and records of any size in flat memory, and what that costs over a plain file with the same hash."""

from __future__ import annotations

import hashlib
import importlib
import random
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.measure import in_child, measured
from benchmarks.rounds import Sample, in_rounds, row_of, verify
from benchmarks.table import Row, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.options import Options

CHECKSUMS = ("xxh3-128", "md5")
EIGHTH = f"Lode stream_write, {CHECKSUMS[0]}, an eighth of the bytes"
_PIECE = 1 << 20
_COLUMNS = ["seconds", "CPU seconds", "peak over idle, MB"]
_ROWS_AT_ONCE = 8192


def run(options: Options) -> list[Table]:
    size = (256 << 20) if options.quick else (1 << 30)
    records = 100_000 if options.quick else 2_000_000
    return [_blobs(options, size), _records(options, records)]


def _blobs(options: Options, size: int) -> Table:
    works: dict[str, Callable[[], Sample]] = {}
    for checksum in CHECKSUMS:
        expected = in_child(digest_of, size=size, checksum=checksum)
        order = {"size": size, "checksum": checksum, "expected": expected}
        works[f"plain file, {checksum}"] = partial(_once, options, plain_blob, **order)
        works[f"Lode stream_write, {checksum}"] = partial(_once, options, lode_blob, **order)
    eighth = size // 8
    expected = in_child(digest_of, size=eighth, checksum=CHECKSUMS[0])
    works[EIGHTH] = partial(_once, options, lode_blob, size=eighth, checksum=CHECKSUMS[0], expected=expected)
    return Table(
        "blob",
        f"stream_write of {size / (1 << 30):g} GiB in pieces of 1 MiB, disk, not synced",
        _COLUMNS,
        _rows(options, works, "stream_write"),
        ratios=["seconds", "CPU seconds"],
        notes=[
            f"Medians of {options.rounds}, each in a process of its own, in turn, after as many other bytes "
            "were written and removed. The file has all its bytes, and the digest that the bytes must have.",
        ],
    )


def _records(options: Options, count: int) -> Table:
    works: dict[str, Callable[[], Sample]] = {
        name: partial(_once, options, function, size=count, checksum=CHECKSUMS[0])
        for name, function in RECORDS.items()
    }
    return Table(
        "records",
        f"stream_write_records of {count:,} records (dicts of six values), disk, not synced, xxh3-128",
        _COLUMNS,
        _rows(options, works, "stream_write_records"),
        ratios=["seconds", "CPU seconds"],
        notes=[
            "The plain files: msgspec for JSON; pyarrow's ParquetWriter over chunks of 8,192 records, zstd. "
            "Making the records is in all of them; their number is checked in what was written.",
        ],
    )


def _rows(options: Options, works: dict[str, Callable[[], Sample]], label: str) -> list[Row]:
    chosen = {name: work for name, work in works.items() if options.wants(name)}
    outcomes = in_rounds(chosen, options.rounds, label=label)
    return [row_of(name, outcome, _AGAINST.get(name)) for name, outcome in outcomes.items()]


def _once(options: Options, function: Callable[..., Any], **order: Any) -> Sample:
    with options.scratch() as root:
        found: Sample = in_child(function, root=str(root), **order)
        return found


def digest_of(size: int, checksum: str) -> str:
    """In a child: what the bytes of a blob must hash to."""
    hasher = _hasher(checksum)
    piece = _piece()
    for _ in range(size // _PIECE):
        hasher.update(piece)
    return str(hasher.hexdigest())


def lode_blob(root: str, size: int, checksum: str, expected: str) -> Sample:
    import lode

    dataset = lode.Dataset("blobs", lode.open_store(root, durable=False), checksum=checksum)
    piece = _piece()

    def work() -> None:
        with dataset.stream_write() as stream:
            for _ in range(size // _PIECE):
                stream.write(piece)
            stream.commit()

    _warm_up(root, size)
    numbers = measured(work)
    (file,) = dataset.latest().files
    verify(Path(root, file.path).stat().st_size, size, "bytes written")
    verify(str(file.checksum).rpartition(":")[2], expected, "digest")
    return [*numbers]


def plain_blob(root: str, size: int, checksum: str, expected: str) -> Sample:
    hasher = _hasher(checksum)
    piece = _piece()
    path = Path(root, "blob")

    def work() -> None:
        with path.open("wb") as file:
            for _ in range(size // _PIECE):
                hasher.update(piece)
                file.write(piece)

    _warm_up(root, size)
    numbers = measured(work)
    verify(path.stat().st_size, size, "bytes written")
    verify(hasher.hexdigest(), expected, "digest")
    return [*numbers]


def _warm_up(root: str, size: int) -> None:
    """Write and remove as many bytes.

    A virtual machine may return memory that is free for a while to its host. To get it back takes longer than
    to write the file, and only the first that needs it would pay for that.
    """
    path, piece = Path(root, "warm-up"), bytes(_PIECE)
    with path.open("wb") as file:
        for _ in range(size // _PIECE):
            file.write(piece)
    path.unlink()


def lode_jsonl(root: str, size: int, checksum: str) -> Sample:
    import lode

    return _lode_records(root, size, checksum, lode.JSONL())


def lode_parquet(root: str, size: int, checksum: str) -> Sample:
    import lode

    return _lode_records(root, size, checksum, lode.Parquet(_SCHEMA))


def _lode_records(root: str, size: int, checksum: str, codec: Any) -> Sample:
    import lode

    dataset = lode.Dataset("records", lode.open_store(root, durable=False), codec=codec, checksum=checksum)
    numbers = measured(lambda: dataset.stream_write_records(_dicts(size)))
    counts = [_count(Path(root, file.path)) for file in dataset.latest().files]
    verify(sum(counts), size, "records written")
    return [*numbers]


def plain_jsonl(root: str, size: int, checksum: str) -> Sample:
    import msgspec

    hasher = _hasher(checksum)
    encoder = msgspec.json.Encoder()
    path = Path(root, "records.jsonl")

    def work() -> None:
        with path.open("wb") as file:
            for chunk in _chunks(_dicts(size)):
                data = encoder.encode_lines(chunk)
                hasher.update(data)
                file.write(data)

    numbers = measured(work)
    verify(_count(path), size, "records written")
    return [*numbers]


def plain_parquet(root: str, size: int, checksum: str) -> Sample:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, getattr(pa, kind)()) for name, kind in _SCHEMA.items()])
    hasher = _hasher(checksum)
    path = Path(root, "records.parquet")

    def work() -> None:
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

    numbers = measured(work)
    verify(_count(path), size, "records written")
    return [*numbers]


def _count(path: Path) -> int:
    """The records of a file that was written, by its footer or by its lines."""
    with path.open("rb") as file:
        if file.read(4) == b"PAR1":
            import pyarrow.parquet as pq

            return pq.read_metadata(path).num_rows
        file.seek(0)
        return sum(piece.count(b"\n") for piece in iter(lambda: file.read(_PIECE), b""))


def _piece() -> bytes:
    """The same for all, so that they have the same digest."""
    return random.Random(0).randbytes(_PIECE)


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
    while chunk := list(islice(records, _ROWS_AT_ONCE)):
        yield chunk


def _hasher(checksum: str) -> Any:
    if checksum == "xxh3-128":
        return importlib.import_module("xxhash").xxh3_128()
    return hashlib.new(checksum, usedforsecurity=False)


RECORDS: dict[str, Callable[..., Sample]] = {
    "plain JSONL file": plain_jsonl,
    "Lode stream_write_records, JSONL": lode_jsonl,
    "plain Parquet file": plain_parquet,
    "Lode stream_write_records, Parquet": lode_parquet,
}
_AGAINST = {
    **{f"Lode stream_write, {checksum}": f"plain file, {checksum}" for checksum in CHECKSUMS},
    **{f"Lode stream_write_records, {form}": f"plain {form} file" for form in ("JSONL", "Parquet")},
}
CONTENDERS = (*_AGAINST, *_AGAINST.values(), EIGHTH)
