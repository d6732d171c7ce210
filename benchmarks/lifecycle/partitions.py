"""Overwrite and delete one of many partitions: store calls, and what they grow with."""

from __future__ import annotations

from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

import lode
from benchmarks.rounds import in_rounds, row_of, verify
from benchmarks.table import Table
from lode.store import CountingStore, LocalStore

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.options import Options
    from benchmarks.rounds import Sample

_COLUMNS = [
    "overwrite, store calls",
    "overwrite, history reads",
    "overwrite, ms",
    "delete, store calls",
    "delete, history reads",
    "delete, ms",
    "other files opened",
]


def run(options: Options) -> Table:
    works = {}
    with options.scratch() as root:
        for files in (1, 10) if options.quick else (1, 10, 50):
            name = f"Lode, {files * 100:,} files"
            works[name] = partial(_measure, root / str(files), files)
        outcomes = in_rounds(works, options.rounds, label="partitions")
    first = next(iter(works))
    return Table(
        "partition",
        "Overwrite one of 100 partitions, then delete another one, disk",
        _COLUMNS,
        [row_of(name, outcome, None if name == first else first) for name, outcome in outcomes.items()],
        ratios=[_COLUMNS[0], _COLUMNS[3]],
        notes=[
            "Store calls of a dataset that was just opened. Files of other partitions are not opened.",
            "History is read to count what is removed: at most 15 manifests since the last history segment, "
            "three segments of each size, and one for 4,096 commits. So its calls rise and fall.",
        ],
    )


def _measure(folder: Path, files: int) -> Sample:
    store = LocalStore(folder, durable=False)
    if not folder.exists() or not any(store.list("datasets/")):
        made = lode.Dataset.create("d", store, schema={"day": "int64!", "n": "int64"}, partition_by=["day"])
        for number in range(files):
            made.write([{"day": day, "n": number} for day in range(100)])
    found: list[float | None] = []
    opened = 0
    for work in (_overwrite, _delete):
        counted = CountingStore(store)
        dataset = lode.Dataset("d", counted)
        began = perf_counter()
        work(dataset)
        took = (perf_counter() - began) * 1000
        history = sum(method == "get" and _is_history(path) for method, path in counted.events)
        found += [float(counted.total), float(history), took]
        touched = {path for _, path in counted.events if "/data/" in path}
        opened += sum("day=3/" not in path and "day=4/" not in path for path in touched)
        lode.Dataset("d", store).restore("latest~1")
    verify(lode.Dataset("d", store).count(), files * 100, "rows")
    return [*found, float(opened)]


def _is_history(path: str) -> bool:
    return path.endswith("/manifest.json") or "/history/" in path


def _overwrite(dataset: lode.Dataset) -> None:
    dataset.overwrite([{"day": 3, "n": -1}])


def _delete(dataset: lode.Dataset) -> None:
    dataset.delete("day = 4")
