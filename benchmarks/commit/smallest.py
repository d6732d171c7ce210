"""The least one can write: overhead of the library, with hardly any data."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import lode
from benchmarks.peers.floor import put, swap
from benchmarks.progress import progress
from benchmarks.rounds import reason, verify
from benchmarks.table import Cell, Row, Table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benchmarks.options import Options

# The Go implementation's smallest writes, measured on the same kind of disk.
_GO = {"one JSON record": 0.36, "two hive partitions": 0.46}


def table(options: Options) -> Table:
    count = 100 if options.quick else 400
    columns = list(_GO)
    times: dict[tuple[str, str], list[float]] = {}
    failed = None
    with options.scratch() as root:
        try:
            times = _times(root, count)
        except Exception as error:
            failed = reason(error)
    progress("the smallest writes: " + (failed or f"{count} of each"))
    ours = [Cell(times.get(("Lode", column), [])) for column in columns]
    return Table(
        "smallest",
        "The smallest writes, disk, not synced, ms",
        columns,
        [
            Row("floor", [Cell(times.get(("floor", column), [])) for column in columns], None, failed),
            Row("Lode", ours, "floor", failed),
            Row("Lode, compared with Go", ours, "Go", failed),
            Row("Go", [Cell([_GO[column]]) for column in columns]),
        ],
        ratios=columns,
        notes=[
            f"Medians of {count} writes, in turn. The floor writes as many small files and swaps.",
            "Go: as recorded in the project's performance notes, not measured in this run.",
        ],
    )


def _times(root: Path, count: int) -> dict[tuple[str, str], list[float]]:
    """Milliseconds of each write, in turn; refused unless the histories are as long as they must be."""
    record = {"id": 1, "part": "a"}
    pair = [record, {"id": 2, "part": "b"}]
    store = lode.open_store(root / "smallest", durable=False)
    line = lode.Dataset("line", store, codec=lode.JSONL())
    hive = lode.Dataset("hive", store, codec=lode.JSONL(), layout=lode.HiveLayout("part"))
    (root / "plain").mkdir()
    works: dict[tuple[str, str], Callable[[], Any]] = {
        ("Lode", "one JSON record"): lambda: line.write([record]),
        ("floor", "one JSON record"): _plain(root / "plain", 1),
        ("Lode", "two hive partitions"): lambda: hive.write(pair),
        ("floor", "two hive partitions"): _plain(root / "plain", 2),
    }
    times: dict[tuple[str, str], list[float]] = {key: [] for key in works}
    for _ in range(count):
        for key, work in works.items():
            began = time.perf_counter()
            work()
            times[key].append((time.perf_counter() - began) * 1000)
    for dataset in (line, hive):
        verify(sum(1 for _ in dataset.history()), count, f"snapshots of {dataset.id}")
    return times


def _plain(root: Path, files: int) -> Callable[[], None]:
    count = 0

    def write() -> None:
        nonlocal count
        count += 1
        for number in range(files):
            put(f"{root}/{os.getpid()}-{files}-{count}-{number}", b'{"id":1,"part":"a"}\n', durable=False)
        swap(f"{root}/latest-{files}", str(count).encode(), durable=False)

    return write
