"""The readers of the bulk benchmark, each run in a process of its own."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.data import SCHEMA
from benchmarks.measure import measured
from benchmarks.rounds import Sample, require, verify
from benchmarks.tables.write import dataset_at, iceberg_at

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

PLAIN = "pyarrow.dataset on Lode's files"


@dataclass(frozen=True, slots=True)
class Scanner:
    """Whose files it reads, and how it opens them; what ``open`` returns scans them all."""

    package: str
    writer: str
    open: Callable[[str], Callable[[], pa.Table]]


def measure(name: str, target: str, count: int) -> Sample:
    """In a child: seconds, CPU seconds and peak over idle of the second scan, if both have all rows."""
    scanner = SCANNERS[name]
    require(scanner.package)
    scan = scanner.open(target)
    verify(scan().num_rows, count, "rows scanned to warm up")
    found: list[int] = []
    numbers = measured(lambda: found.append(scan().num_rows))
    verify(found, [count], "rows scanned")
    return [*numbers]


def _plain(target: str) -> Callable[[], pa.Table]:
    dataset: Any = importlib.import_module("pyarrow.dataset")
    files = [f"{target}/{file.path}" for file in dataset_at(target).plan().files]
    return lambda: dataset.dataset(files, schema=SCHEMA, format="parquet").to_table()


def _lode(target: str) -> Callable[[], pa.Table]:
    dataset = dataset_at(target)
    return lambda: dataset.scan().read_all()


def _delta(target: str) -> Callable[[], pa.Table]:
    package = importlib.import_module("deltalake")
    return lambda: package.DeltaTable(f"{target}/table").to_pyarrow_table()


def _iceberg(target: str) -> Callable[[], pa.Table]:
    table = iceberg_at(target)
    return lambda: table.scan().to_arrow()


def _lance(target: str) -> Callable[[], pa.Table]:
    package = importlib.import_module("lance")
    return lambda: package.dataset(f"{target}/table").to_table()


SCANNERS = {
    PLAIN: Scanner("pyarrow", "Lode", _plain),
    "Lode": Scanner("lode", "Lode", _lode),
    "Delta": Scanner("deltalake", "Delta", _delta),
    "Iceberg": Scanner("pyiceberg", "Iceberg", _iceberg),
    "Lance": Scanner("lance", "Lance", _lance),
}
