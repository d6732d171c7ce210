"""Overwrite and delete one of many partitions: store calls, and what they grow with."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Final

import lode
from benchmarks.rounds import in_rounds, row_of, verify
from benchmarks.table import Table
from lode.runtime import REAL
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
_DAYS: Final = 100
_POINTER: Final = "datasets/d/latest"
# Files and snapshots of a history. Its reads rise and fall with the manifests and small segments since the
# last large one. So each has 100 snapshots after a large segment, of 256 or of 4,096 snapshots.
_SIZES: Final = ((100, 100), (1_000, 256 + 100), (5_000, 4_096 + 100))
# A segment that is written in the background may be late.
_AT_ONCE: Final = replace(REAL, background=lambda chore: chore())


def run(options: Options) -> Table:
    works = {}
    with options.scratch() as root:
        for files, snapshots in _SIZES[:2] if options.quick else _SIZES:
            works[f"Lode, {files:,} files"] = partial(_measure, root / str(files), files, snapshots)
        outcomes = in_rounds(works, options.rounds, label="partitions")
    first = next(iter(works))
    return Table(
        "partition",
        "Overwrite one of 100 partitions, or delete one, disk",
        _COLUMNS,
        [row_of(name, outcome, None if name == first else first) for name, outcome in outcomes.items()],
        ratios=[_COLUMNS[0], _COLUMNS[3]],
        notes=[
            "Store calls of a dataset that was just opened, for its first change. Files of other partitions "
            "are not opened.",
            "History is read to count what is removed: at most 15 manifests since the last history segment, "
            "three segments of each size, and one for 4,096 commits. So its calls rise and fall.",
            "Each is measured at the same place: with 100 snapshots, with 100 after a segment of 256, and "
            "with 100 after one of 4,096. That segment is the one call more.",
        ],
    )


def _measure(folder: Path, files: int, snapshots: int) -> Sample:
    store = LocalStore(folder, durable=False)
    if not folder.exists() or not any(store.list("datasets/")):
        _fill(store, files, snapshots)
    found: list[float | None] = []
    opened = 0
    for work, added in ((_overwrite, 1), (_delete, 0)):
        head = store.get(_POINTER)
        counted = CountingStore(store)
        dataset = lode.Dataset("d", counted, runtime=_AT_ONCE)
        began = perf_counter()
        work(dataset)
        took = (perf_counter() - began) * 1000
        history = sum(method == "get" and _is_history(path) for method, path in counted.events)
        found += [float(counted.total), float(history), took]
        touched = {path for _, path in counted.events if "/data/" in path}
        opened += sum("day=3/" not in path and "day=4/" not in path for path in touched)
        verify(lode.Dataset("d", store).count(), files - files // _DAYS + added, "rows")
        # Not by a restore, which is a commit: the next change has to be made at the same place.
        store.compare_and_swap(_POINTER, store.get(_POINTER), head)
    return [*found, float(opened)]


def _fill(store: LocalStore, files: int, snapshots: int) -> None:
    """Write as many files to each partition, of a row each. The first snapshot creates the dataset."""
    lode.Dataset.create("d", store, schema={"day": "int64!", "n": "int64"}, partition_by=["day"])
    dataset = lode.Dataset("d", store, runtime=_AT_ONCE)
    writes = snapshots - 1
    for number in range(writes):
        numbers = range(files * number // writes, files * (number + 1) // writes)
        dataset.write([{"day": each % _DAYS, "n": each // _DAYS} for each in numbers])
    verify(dataset.latest().sequence, snapshots, "snapshots")


def _is_history(path: str) -> bool:
    return path.endswith("/manifest.json") or "/history/" in path or "/state/" in path


def _overwrite(dataset: lode.Dataset) -> None:
    dataset.overwrite([{"day": 3, "n": -1}])


def _delete(dataset: lode.Dataset) -> None:
    dataset.delete("day = 4")
