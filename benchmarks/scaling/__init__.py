"""How cost grows: with history, rivals, files, partitions, blocks and writers, each as a curve.

What can be counted is counted, on a store in memory; times are taken on a local disk. ``render`` makes of the
results what ``docs/understanding/costs.md`` shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.scaling.axis import Axis, measured
from benchmarks.scaling.blocks import BlocksAxis
from benchmarks.scaling.crowd import CrowdAxis
from benchmarks.scaling.files import FilesAxis
from benchmarks.scaling.history import HistoryAxis
from benchmarks.scaling.page import render
from benchmarks.scaling.partitions import PartitionsAxis
from benchmarks.scaling.processes import ProcessesAxis
from benchmarks.scaling.rivals import RivalsAxis
from benchmarks.scaling.writers import WritersAxis

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.options import Options
    from benchmarks.table import Table

__all__ = ["CONTENDERS", "render", "run"]

# Here it is the axes that can be chosen with ``--only``: there are no peers.
CONTENDERS = ("history", "rivals", "files", "partitions", "blocks", "writers", "crowd", "processes")

_QUICK: dict[str, tuple[int, ...]] = {
    "history": (10, 50, 100, 200, 500),
    "rivals": (1, 5, 20, 200, 2000),
    "files": (1, 10, 100, 300, 1000),
    "partitions": (1, 10, 30, 100, 300),
    "blocks": (1, 10, 100, 300, 1000),
    "writers": (1, 2, 4, 8),
    "crowd": (1, 4, 16, 64),
    "processes": (1, 4),
}
_FULL: dict[str, tuple[int, ...]] = {
    "history": (10, 20, 50, 100, 200, 500, 1000, 2000, 5000),
    "rivals": (1, 5, 10, 20, 50, 100, 200, 500, 2000, 20_000),
    "files": (1, 10, 100, 300, 1000, 3000, 10_000),
    "partitions": (1, 3, 10, 30, 100, 300, 1000),
    "blocks": (1, 10, 100, 300, 1000, 3000, 10_000),
    "writers": (1, 2, 4, 8, 16),
    "crowd": (1, 4, 16, 64, 256, 1000, 10_000),
    "processes": (1, 4, 16, 64),
}
# Sizes that take more than half of the time of their axis.
_SLOW = {"rivals": 20_000, "crowd": 10_000}


def run(options: Options) -> list[Table]:
    sizes = _QUICK if options.quick else _FULL
    with options.scratch() as root:
        return [
            measured(_axis(name, root / name, options), sizes[name], options.rounds, _SLOW.get(name))
            for name in CONTENDERS
            if options.wants(name)
        ]


def _axis(name: str, root: Path, options: Options) -> Axis:
    quick = options.quick
    match name:
        case "history":
            return HistoryAxis(root)
        case "rivals":
            return RivalsAxis(root)
        case "files":
            return FilesAxis(root)
        case "partitions":
            return PartitionsAxis(root)
        case "blocks":
            return BlocksAxis(root)
        case "writers":
            return WritersAxis(root, commits=10 if quick else 40)
        case "processes":
            return ProcessesAxis(options, seconds=3 if quick else 8)
        case _:
            return CrowdAxis(warm=2, watched=3) if quick else CrowdAxis(warm=3, watched=3)
