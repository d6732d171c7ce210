"""What it costs a new process to open a table with a long history and plan a full scan."""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING, Any

from bench.data import rows
from bench.measure import in_child, progress
from bench.peers import contender, contenders
from bench.peers.contender import Contender, Place
from bench.peers.ours import Lode, dataset_at, store_at
from bench.table import Row, Table
from lode.store.wrappers import CountingStore

if TYPE_CHECKING:
    from pathlib import Path

    from bench.options import Options

DEPTHS = (10, 100, 1000, 5000)
QUICK_DEPTHS = (10, 100, 1000)


def run(options: Options) -> list[Table]:
    depths = QUICK_DEPTHS if options.quick else DEPTHS
    with options.scratch() as root:
        return [_latencies(options, root, depths)]


def _latencies(options: Options, root: Path, depths: tuple[int, ...]) -> Table:
    repeats = 3 if options.quick else 5
    budget = 20.0 if options.quick else 60.0
    chosen = [each for each in contenders() if options.wants(each.name) and "synced" not in each.name]
    places = {each.name: _place(root / str(at), each) for at, each in enumerate(chosen)}
    left = dict.fromkeys(places, budget)
    reached = dict.fromkeys(places, 0)
    found: dict[str, list[float | str | None]] = {name: [] for name in places}
    reads: list[float | str | None] = []
    for depth in depths:
        ready = [each for each in chosen if _build(each, places, reached, left, depth)]
        times: dict[str, list[float]] = {each.name: [] for each in ready}
        for _ in range(repeats):
            for each in ready:
                times[each.name].append(_plan_cold(each, places[each.name], depth))
        progress(f"{depth}: { {name: median(taken) for name, taken in times.items()} }")
        for each in chosen:
            found[each.name].append(median(times[each.name]) * 1000 if each in ready else None)
        if "Lode" in places:
            reads.append(in_child(count_reads, root=places["Lode"].root))
    table_rows = [Row(each.name, found[each.name], each.floor) for each in chosen]
    if reads:
        table_rows.append(Row("Lode: store reads", reads))
    columns = [f"{depth:,}" for depth in depths]
    return Table(
        "Open and plan a full scan in a cold process, local, ms after so many commits",
        columns,
        table_rows,
        ratios=columns,
        notes=[
            f"Medians of {repeats} processes, each after its imports and with a warm page cache. The floor "
            "lists and reads every commit.",
            "Lode, Iceberg and Lance: real commits of one row. Delta: its log written by hand, with the "
            "checkpoint it makes every 100 commits.",
            f"A dash: building that history took longer than {budget:.0f} s.",
        ],
    )


def _place(folder: Path, each: Contender) -> Place:
    folder.mkdir()
    place = Place(str(folder / "table"), str(folder))
    each.create(place)
    return place


def _build(
    each: Contender, places: dict[str, Place], reached: dict[str, int], left: dict[str, float], depth: int
) -> bool:
    data = rows(1)
    name = each.name
    while reached[name] < depth and left[name] > 0:
        began = time.monotonic()
        step = depth if each.name in ("floor", "Delta") else min(depth, reached[name] + 50)
        each.build(places[name], data, reached[name], step)
        reached[name] = step
        left[name] -= time.monotonic() - began
    return reached[name] == depth


def _plan_cold(each: Contender, place: Place, depth: int) -> float:
    took, files = in_child(plan, name=each.name, root=place.root, local=place.local)
    if files != depth:
        raise RuntimeError(f"{each.name} plans {files} files after {depth} commits")
    return float(took)


def plan(name: str, root: str, local: str) -> tuple[float, int]:
    """In a child: seconds to open and plan, and the number of files."""
    _import(name)
    place = Place(root, local)
    began = time.perf_counter()
    files = contender(name).plan(place)
    return time.perf_counter() - began, files


def count_reads(root: str) -> int:
    """In a child: how many calls Lode makes to its store to open and plan."""
    place = Place(root, root)
    store = CountingStore(store_at(place, durable=False))
    dataset_at(place, store).plan()
    return store.total


def _import(name: str) -> None:
    """Import what the plan will, so that it is not timed."""
    import importlib

    modules: dict[str, tuple[str, ...]] = {
        "Delta": ("deltalake",),
        "Iceberg": ("pyiceberg.catalog.sql", "pyiceberg.io.pyarrow", "pyiceberg.table"),
        "Lance": ("lance",),
        Lode().name: ("lode", "zstandard"),
    }
    loaded: list[Any] = [importlib.import_module(module) for module in modules.get(name, ())]
    del loaded
