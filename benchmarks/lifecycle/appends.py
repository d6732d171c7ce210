"""A small durable append, beside DuckLake's."""

from __future__ import annotations

from functools import partial
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

import lode
from benchmarks.data import rows
from benchmarks.lifecycle.peers import DuckLake
from benchmarks.rounds import in_rounds, row_of, verify
from benchmarks.table import Table
from lode.store import LocalStore

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.options import Options
    from benchmarks.rounds import Sample

_COLUMNS = ["1 row, ms", "10 rows, ms", "1,000 rows, ms"]
_SIZES = (1, 10, 1_000)


def run(options: Options) -> Table:
    count = 20 if options.quick else 100
    with options.scratch() as root:
        peers: dict[str, Any] = {}
        works = {
            name: partial(work, peers, root / name.replace(" ", "-"), count)
            for name, work in (("DuckLake", _ducklake), ("Lode, synced", _lode))
            if options.wants(name)
        }
        outcomes = in_rounds(works, options.rounds, label="append")
        for peer in peers.values():
            peer.close()
    return Table(
        "append",
        "A small durable append, disk, median of a commit",
        _COLUMNS,
        [
            row_of(name, outcome, None if name == "DuckLake" else "DuckLake")
            for name, outcome in outcomes.items()
        ],
        ratios=_COLUMNS,
        notes=[
            "Both sync what they acknowledge. DuckLake gets its rows as a small Parquet file, written "
            "before the clock runs."
        ],
    )


def _lode(_peers: dict[str, Any], folder: Path, count: int) -> Sample:
    dataset = lode.Dataset("d", LocalStore(folder), codec="parquet")
    before = dataset.count() if dataset.exists else 0
    found: list[float | None] = []
    for size in _SIZES:
        data = rows(size)
        found.append(_median(lambda data=data: dataset.write(data), count))
    verify(lode.Dataset("d", LocalStore(folder)).count() - before, sum(_SIZES) * count, "rows")
    return found


def _ducklake(peers: dict[str, Any], folder: Path, count: int) -> Sample:
    if "peer" not in peers:
        peers["peer"] = DuckLake(folder)
        peers["peer"].write(rows(1))
    peer = peers["peer"]
    before = peer.scan(["id"])
    found: list[float | None] = []
    for size in _SIZES:
        path = peer.stored(rows(size))
        found.append(_median(lambda path=path: peer.insert(path), count))
    verify(peer.scan(["id"]) - before, sum(_SIZES) * count, "rows")
    return found


def _median(work: Any, count: int) -> float:
    took = []
    for _ in range(count):
        began = perf_counter()
        work()
        took.append(perf_counter() - began)
    return median(took) * 1000
