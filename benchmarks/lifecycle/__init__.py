"""Correcting and maintaining a dataset: delete, merge, overwrite, compaction, and reading afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.lifecycle import appends, changes, compaction, partitions, plans, scans

if TYPE_CHECKING:
    from benchmarks.options import Options
    from benchmarks.table import Table

CONTENDERS = tuple(dict.fromkeys((*changes.CONTENDERS, scans.DUCKDB, scans.ONE_FILE)))


def run(options: Options) -> list[Table]:
    parts = (scans, changes, partitions, appends, compaction, plans)
    return [part.run(options) for part in parts]
