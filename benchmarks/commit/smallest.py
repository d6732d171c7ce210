"""The least one can write: overhead of the library, with hardly any data."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lode
from benchmarks.measure import in_child
from benchmarks.peers.floor import put, swap
from benchmarks.progress import progress
from benchmarks.rounds import reason, verify
from benchmarks.table import Cell, Row, Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.options import Options

# The Go implementation's smallest writes, measured on the same kind of disk.
_GO = {"one JSON record": 0.36, "two hive partitions": 0.46}


def table(options: Options) -> Table:
    count = 100 if options.quick else 400
    columns = list(_GO)
    times: dict[str, dict[str, list[float]]] = {"Lode": {}, "floor": {}}
    failed = None
    with options.scratch() as root:
        try:
            # In a process that had run the other contenders Lode took 12 times as long as the floor, not 3.
            times = in_child(measure, folder=str(root), count=count)
        except Exception as error:
            failed = reason(error)
    progress("the smallest writes: " + (failed or f"{count} of each"))
    ours, floor = ([Cell(times[name].get(column, [])) for column in columns] for name in ("Lode", "floor"))
    return Table(
        "smallest",
        "The smallest writes, disk, not synced, ms",
        columns,
        [
            Row("floor", floor, None, failed),
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


def measure(folder: str, count: int) -> dict[str, dict[str, list[float]]]:
    """Milliseconds of each write, in turn; refused unless the histories are as long as they must be."""
    root = Path(folder)
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
    times: dict[str, dict[str, list[float]]] = {name: {column: [] for column in _GO} for name, _ in works}
    for _ in range(count):
        for (name, column), work in works.items():
            began = time.perf_counter()
            work()
            times[name][column].append((time.perf_counter() - began) * 1000)
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
