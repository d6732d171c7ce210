"""The ingest server against bqemulator: the same appends of the Storage Write API to both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks.ingest import idle, lone, rates
from benchmarks.ingest.runs import SERVERS, Runs

if TYPE_CHECKING:
    from benchmarks.options import Options
    from benchmarks.table import Table

CONTENDERS: Final = tuple(each.name for each in SERVERS)


def run(options: Options) -> list[Table]:
    with options.scratch() as root:
        runs = Runs(root, options)
        return [*rates.tables(runs), lone.table(runs), idle.table(runs), *rates.throughout(runs)]
