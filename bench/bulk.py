"""One large write in one commit, and reading it all back."""

from __future__ import annotations

import importlib
import importlib.util
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bench.data import SCHEMA, rows
from bench.measure import forget_peak, in_child, peak_mb, progress
from bench.table import Row, Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.options import Options

TWO_FILES = "pyarrow, two files in two threads"
_COLUMNS = ["seconds", "CPU seconds", "peak over idle, MB", "bytes written, MB"]

Sample = tuple[float, float, float, float]


def run(options: Options) -> list[Table]:
    count = 2_000_000 if options.quick else 20_000_000
    with options.scratch() as root:
        source = root / "source.arrow"
        in_child(make_source, path=str(source), count=count)
        return [_writes(options, root, source, count), _scans(root, source, count)]


def _writes(options: Options, root: Path, source: Path, count: int) -> Table:
    writers: dict[str, tuple[Callable[..., Any], str]] = {
        "pyarrow, one file": (write_one_file, "pyarrow"),
        TWO_FILES: (write_two_files, "pyarrow"),
        "Lode": (write_lode, "lode"),
        "Delta": (write_delta, "deltalake"),
        "Lance": (write_lance, "lance"),
    }
    chosen = {
        name: function
        for name, (function, package) in writers.items()
        if options.wants(name) and importlib.util.find_spec(package) is not None
    }
    samples: dict[str, list[Sample]] = {name: [] for name in chosen}
    for _ in range(3):
        for name, function in chosen.items():
            with options.scratch() as target:
                samples[name].append(in_child(function, source=str(source), target=str(target)))
            progress(f"{name}: {samples[name][-1]}")
    return Table(
        f"Bulk write of {count:,} rows x 6 columns ({_megabytes(root):,.0f} MB of Arrow), zstd, local",
        _COLUMNS,
        [
            Row(
                name,
                _summary(three),
                None if name == TWO_FILES else TWO_FILES,
            )
            for name, three in samples.items()
        ],
        ratios=["seconds", "CPU seconds"],
        notes=[
            "Medians of 3, each in a process of its own, in turn, the table already in memory; not synced.",
            "Lode with statistics and an xxh3-128 checksum of every file. Lance in its own format.",
        ],
    )


def _summary(samples: list[Sample]) -> list[float | str | None]:
    wall, busy, peak, written = zip(*samples, strict=True)
    return [median(wall), median(busy), max(peak), written[0]]


def _scans(root: Path, source: Path, count: int) -> Table:
    target = root / "scanned"
    in_child(write_lode, source=str(source), target=str(target))
    plain, ours = in_child(scan_both, target=str(target))
    return Table(
        f"Full scan of {count:,} rows back to an Arrow table, local, page cache warm, s",
        ["seconds"],
        [
            Row("pyarrow.dataset on the same files", [plain]),
            Row("Lode", [ours], "pyarrow.dataset on the same files"),
        ],
        ratios=["seconds"],
        notes=["Medians of 7, in turn in one process, after one round to warm up."],
    )


def make_source(path: str, count: int) -> int:
    """In a child: write the rows once, for all to load."""
    step = 1_000_000
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, SCHEMA) as writer:
        for seed in range(-(-count // step)):
            writer.write_table(rows(min(step, count - seed * step), seed=seed))
    return count


def write_one_file(source: str, target: str) -> Sample:
    import pyarrow.parquet as pq

    table = _load(source)
    return _measured(lambda: pq.write_table(table, f"{target}/one.parquet", compression="zstd"), target)


def write_two_files(source: str, target: str) -> Sample:
    import pyarrow.parquet as pq

    table = _load(source)
    half = table.num_rows // 2

    def write(number: int) -> None:
        piece = table.slice(number * half, half if number == 0 else table.num_rows)
        pq.write_table(piece, f"{target}/{number}.parquet", compression="zstd")

    def work() -> None:
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(write, range(2)))

    return _measured(work, target)


def write_lode(source: str, target: str) -> Sample:
    dataset = _dataset(target)
    table = _load(source)
    return _measured(lambda: dataset.write(table), target)


def write_delta(source: str, target: str) -> Sample:
    package = importlib.import_module("deltalake")
    table = _load(source)
    properties = package.WriterProperties(compression="ZSTD")
    return _measured(
        lambda: package.write_deltalake(f"{target}/table", table, writer_properties=properties), target
    )


def write_lance(source: str, target: str) -> Sample:
    package = importlib.import_module("lance")
    table = _load(source)
    return _measured(lambda: package.write_dataset(table, f"{target}/table"), target)


def scan_both(target: str) -> tuple[float, float]:
    """In a child: median seconds of pyarrow's dataset and of Lode's scan over the same files."""
    import pyarrow.dataset as pads

    dataset = _dataset(target)
    files = [f"{target}/{file.path}" for file in dataset.plan().files]

    def plain() -> int:
        return pads.dataset(files, schema=SCHEMA, format="parquet").to_table().num_rows

    def ours() -> int:
        return int(dataset.scan().read_all().num_rows)

    if plain() != ours():
        raise RuntimeError("Lode and pyarrow.dataset read different numbers of rows")
    times: dict[str, list[float]] = {"plain": [], "ours": []}
    for _ in range(7):
        for name, work in (("plain", plain), ("ours", ours)):
            began = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - began)
    return median(times["plain"]), median(times["ours"])


def _dataset(target: str) -> Any:
    import lode

    store = lode.open_store(target, durable=False)
    return lode.Dataset("bulk", store, codec=lode.Parquet(SCHEMA), checksum="xxh3-128")


def _load(source: str) -> pa.Table:
    with pa.OSFile(source, "rb") as file:
        return pa.ipc.open_file(file).read_all()


def _measured(work: Callable[[], Any], target: str) -> Sample:
    idle = forget_peak()
    began, busy = time.perf_counter(), time.process_time()
    work()
    took, busy = time.perf_counter() - began, time.process_time() - busy
    peak = peak_mb() - idle
    written = sum(path.stat().st_size for path in Path(target).rglob("*") if path.is_file())
    return took, busy, peak, written / 1e6


def _megabytes(root: Path) -> float:
    return (root / "source.arrow").stat().st_size / 1e6
