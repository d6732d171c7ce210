"""What it costs a new process to open a table with a long history and plan a full scan."""

from __future__ import annotations

import importlib
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.data import rows
from benchmarks.measure import in_child
from benchmarks.peers import contender, contenders
from benchmarks.peers.contender import Place
from benchmarks.peers.ours import dataset_at, store_at
from benchmarks.progress import progress
from benchmarks.rounds import Outcome, Sample, in_rounds, reason, require, row_of, verify
from benchmarks.table import Cell, Curve, Row, Table
from lode.store.wrappers import CountingStore

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.options import Options
    from benchmarks.peers.contender import Contender

CONTENDERS = tuple(each.name for each in contenders() if "synced" not in each.name)
READS = "Lode: store reads"
STATISTICS = "Lode, with statistics"
_OURS = "Lode"
# Imported before the clock runs.
_MODULES: dict[str, tuple[str, ...]] = {
    "Delta": ("deltalake",),
    "Iceberg": ("pyiceberg.catalog.sql", "pyiceberg.io.pyarrow", "pyiceberg.table"),
    "Lance": ("lance",),
    _OURS: ("lode", "zstandard"),
    STATISTICS: ("lode", "zstandard"),
}


class History:
    """One contender's table, which grows from depth to depth."""

    def __init__(self, contender: Contender, folder: Path, budget: float) -> None:
        self.contender = contender
        self.place = Place(str(folder / "table"), str(folder))
        self.failed: str | None = None
        self._left = budget
        self._reached = -1
        folder.mkdir()

    def grow(self, depth: int) -> bool:
        """Whether it could be brought there in the time it has."""
        if self.failed is not None:
            return False
        try:
            if self._reached < 0:
                require(self.contender.package)
                self.contender.create(self.place)
                self._reached = 0
            self._build(depth)
        except Exception as error:
            self.failed = reason(error)
            progress(f"{self.contender.name}: {self.failed}")
        return self.failed is None and self._reached == depth

    def _build(self, depth: int) -> None:
        """Until it is there, or has no time left.

        Iceberg's commits get slower and slower: it stops when it could not make it at the pace it has.
        """
        data = rows(1)
        needed = 0.0
        while self._reached < depth and self._left > needed:
            began = time.monotonic()
            step = depth if self.contender.by_hand else min(depth, self._reached + 50)
            self.contender.build(self.place, data, self._reached, step)
            took = time.monotonic() - began
            if self.contender.name == "Iceberg":
                needed = took / (step - self._reached) * (depth - step)
            self._reached = step
            self._left -= took

    def plan_cold(self, depth: int, name: str = "") -> Sample:
        name = name or self.contender.name
        took, files = in_child(plan, name=name, root=self.place.root, local=self.place.local)
        verify(files, depth, "files planned")
        return [float(took) * 1000]


def run(options: Options) -> list[Table]:
    depths = (10, 100, 500) if options.quick else (10, 500, 2000, 5000)
    budget = 5.0 if options.quick else 60.0
    chosen = [each for each in contenders() if each.name in CONTENDERS and options.wants(each.name)]
    cells: dict[str, list[Cell]] = {each.name: [] for each in chosen}
    reads, with_statistics = [], []
    with options.scratch() as root:
        histories = [History(each, root / str(at), budget) for at, each in enumerate(chosen)]
        for depth in depths:
            ready = [each for each in histories if each.grow(depth)]
            works = {each.contender.name: partial(each.plan_cold, depth) for each in ready}
            for each in ready:
                if each.contender.name == _OURS:
                    works[STATISTICS] = partial(each.plan_cold, depth, STATISTICS)
            outcomes = in_rounds(works, options.rounds, label=f"open after {depth:,} commits")
            reads += [_reads(each) for each in ready if each.contender.name == _OURS]
            samples = outcomes.get(STATISTICS, Outcome()).samples
            with_statistics.append(Cell([each[0] or 0.0 for each in samples]))
            for history in histories:
                outcome = outcomes.get(history.contender.name, Outcome())
                history.failed = history.failed or outcome.failed
                cells[history.contender.name].append(Cell([each[0] or 0.0 for each in outcome.samples]))
        failed = {each.contender.name: each.failed for each in histories}
    columns = [f"{depth:,}" for depth in depths]
    found = [Row(each.name, cells[each.name], each.floor, failed[each.name]) for each in chosen]
    return [
        Table(
            "open",
            "Open and plan a full scan in a cold process, disk, ms after so many commits",
            columns,
            found + ([Row(STATISTICS, with_statistics, "floor"), Row(READS, reads)] if reads else []),
            ratios=columns,
            notes=[
                f"Medians of {options.rounds} processes, in turn, each after its imports and with a warm "
                "page cache; each plans as many files as there were commits. The floor lists and reads them "
                "all.",
                "Lode, Iceberg and Lance: real commits of one row. Delta: its log written by hand, with the "
                "checkpoint it makes every 100 commits.",
                "All of them name the files. Lode, with statistics: also what is known about each of them, "
                "which a plan reads only when it prunes.",
                f"A dash: building that history would have taken more than {budget:.0f} s.",
            ],
            curves=[
                Curve(
                    "open",
                    "Open and plan in a cold process, disk",
                    "commits",
                    "ms",
                    rows=[each.name for each in chosen],
                    log_x=True,
                    log_y=True,
                )
            ],
        )
    ]


def _reads(history: History) -> Cell:
    counted = in_rounds({READS: lambda: [in_child(count_reads, root=history.place.root)]}, 1, label="open")
    return row_of(READS, counted[READS]).cells[0] if not counted[READS].failed else Cell(note="failed")


def plan(name: str, root: str, local: str) -> tuple[float, int]:
    """In a child: seconds to open and plan, and the number of files."""
    loaded: list[Any] = [importlib.import_module(module) for module in _MODULES.get(name, ())]
    del loaded
    place = Place(root, local)
    began = time.perf_counter()
    if name == STATISTICS:
        files = len(dataset_at(place, store_at(place, durable=False)).plan().files)
    else:
        files = contender(name).plan(place)
    return time.perf_counter() - began, files


def count_reads(root: str) -> int:
    """In a child: how many calls Lode makes to its store to open and plan."""
    place = Place(root, root)
    store = CountingStore(store_at(place, durable=False))
    dataset_at(place, store).plan()
    return store.total
