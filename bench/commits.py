"""How long one small append takes, and whether it takes longer when history is long."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import lode
from bench.data import rows
from bench.measure import median_ms, progress
from bench.peers import contenders
from bench.peers.contender import Contender, Handle, Place
from bench.peers.floor import put, swap
from bench.table import Row, Table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bench.options import Options

DEPTHS = (10, 100, 500, 1000, 2000)
QUICK_DEPTHS = (10, 100, 500)
_WINDOW = 31
_SMALLEST_WRITES = 400
# The Go implementation's smallest writes, measured on the same kind of disk; see design/performance.md.
_GO = {"one JSON record": 0.36, "two hive partitions": 0.46}


@dataclass(slots=True)
class _Runner:
    contender: Contender
    handle: Handle
    budget: float
    done: int = 0
    latencies: dict[int, list[float]] = field(default_factory=dict)

    def append(self, data: Any) -> float:
        began = time.perf_counter()
        self.handle.append(data)
        took = time.perf_counter() - began
        self.done += 1
        self.budget -= took
        return took

    def reach(self, commit: int, data: Any) -> bool:
        """Commit up to there, unless that takes too long."""
        while self.done < commit and self.budget > 0:
            self.append(data)
        return self.budget > 0


def run(options: Options) -> list[Table]:
    with options.scratch() as root:
        return [_depths(options, root), _smallest(root)]


def _depths(options: Options, root: Path) -> Table:
    depths = QUICK_DEPTHS if options.quick else DEPTHS
    budget = 15.0 if options.quick else 60.0
    chosen = [each for each in contenders() if options.wants(each.name)]
    runners = [runner for group in _groups(chosen) for runner in _in_turn(group, root, depths, budget)]
    runners.sort(key=lambda runner: chosen.index(runner.contender))
    return Table(
        "Commit latency of small appends (1,000 rows x 6 columns, Parquet), local, ms at commit",
        [f"{depth:,}" for depth in depths],
        [
            Row(
                runner.contender.name,
                [median_ms(runner.latencies.get(depth, [])) for depth in depths],
                runner.contender.floor,
            )
            for runner in runners
        ],
        ratios=[f"{depth:,}" for depth in depths],
        notes=[
            f"Medians of up to {_WINDOW} commits; in brackets the ratio to the floor with the same sync "
            "setting. Delta and Lance do not sync.",
            "In turn, commit by commit: all that do not sync; then those that do. One that syncs makes the "
            "file system's journal wait, and with it whoever comes next.",
            f"A dash: building that history would have taken the contender more than {budget:.0f} s.",
        ],
    )


def _groups(chosen: list[Contender]) -> list[list[Contender]]:
    """Who may take turns: Iceberg's catalog syncs with every commit, so it is on its own."""
    synced = [each for each in chosen if "synced" in each.name]
    alone = [each for each in chosen if each.name == "Iceberg"]
    return [[each for each in chosen if each not in synced and each not in alone], synced, alone]


def _in_turn(group: list[Contender], root: Path, depths: tuple[int, ...], budget: float) -> list[_Runner]:
    data = rows(1000)
    runners = []
    for contender in group:
        folder = root / contender.name.replace(", ", "-")
        folder.mkdir()
        place = Place(str(folder / "table"), str(folder))
        contender.create(place)
        runners.append(_Runner(contender, contender.open(place), budget))
    for depth in depths:
        window = min(_WINDOW, depth - 2)
        ready = [runner for runner in runners if runner.reach(depth - window, data)]
        for _ in range(window):
            for runner in ready:
                runner.latencies.setdefault(depth, []).append(runner.append(data))
        progress(f"{depth}: { {each.contender.name: median_ms(each.latencies[depth]) for each in ready} }")
    return runners


def _smallest(root: Path) -> Table:
    """The least one can write: overhead of the library, with hardly any data."""
    record = {"id": 1, "part": "a"}
    pair = [record, {"id": 2, "part": "b"}]
    store = lode.open_store(root / "smallest", durable=False)
    line = lode.Dataset("line", store, codec=lode.JSONL())
    hive = lode.Dataset("hive", store, codec=lode.JSONL(), layout=lode.HiveLayout("part"))
    (root / "plain").mkdir()
    writes: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "one JSON record": (lambda: line.write([record]), _plain(root / "plain", 1)),
        "two hive partitions": (lambda: hive.write(pair), _plain(root / "plain", 2)),
    }
    times: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in writes}
    for _ in range(_SMALLEST_WRITES):
        for name, pair_of_works in writes.items():
            for work, durations in zip(pair_of_works, times[name], strict=True):
                began = time.perf_counter()
                work()
                durations.append(time.perf_counter() - began)
    columns = list(writes)
    return Table(
        "The smallest writes, local, not synced, ms",
        columns,
        [
            Row("floor", [median_ms(times[name][1]) for name in columns]),
            Row("Lode", [median_ms(times[name][0]) for name in columns], "floor"),
            Row("Lode, compared with Go", [median_ms(times[name][0]) for name in columns], "Go"),
            Row("Go", [_GO[name] for name in columns]),
        ],
        ratios=columns,
        notes=[
            f"Medians of {_SMALLEST_WRITES} writes. The floor writes as many small files and swaps.",
            "Go: as recorded in the project's performance notes, not measured in this run.",
        ],
    )


def _plain(root: Path, files: int) -> Callable[[], None]:
    count = 0

    def write() -> None:
        nonlocal count
        count += 1
        for number in range(files):
            put(f"{root}/{os.getpid()}-{files}-{count}-{number}", b'{"id":1,"part":"a"}\n', durable=False)
        swap(f"{root}/latest-{files}", str(count).encode(), durable=False)

    return write
