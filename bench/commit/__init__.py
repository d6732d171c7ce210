"""Commits: many writers on one table, small appends onto long histories, and the smallest writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.commit import contention, latency, smallest
from bench.peers import names

if TYPE_CHECKING:
    from bench.options import Options
    from bench.table import Table

CONTENDERS = names()


def run(options: Options) -> list[Table]:
    return [*contention.tables(options), *latency.tables(options), smallest.table(options)]
