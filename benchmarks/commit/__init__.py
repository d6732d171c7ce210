"""Commits: many writers on one table, small appends onto long histories, and the smallest writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.commit import contention, latency, smallest
from benchmarks.peers import names

if TYPE_CHECKING:
    from benchmarks.options import Options
    from benchmarks.table import Table

CONTENDERS = names()


def run(options: Options) -> list[Table]:
    return [*contention.tables(options), *latency.tables(options), smallest.table(options)]
