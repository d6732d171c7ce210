"""The ingest server against bqemulator: the same appends of the Storage Write API to both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.ingest import idle, lone, rates
from bench.ingest.runs import SERVERS, Runs

if TYPE_CHECKING:
    from bench.options import Options
    from bench.table import Table

CONTENDERS: Final = tuple(each.name for each in SERVERS)


def run(options: Options) -> list[Table]:
    with options.scratch() as root:
        runs = Runs(root, options)
        return [*rates.tables(runs), lone.table(runs), idle.table(runs), *rates.throughout(runs)]
