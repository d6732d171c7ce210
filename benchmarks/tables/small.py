"""Scan of many small files, opened by name, beside DuckDB's reader on the same files."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import lode
from benchmarks.data import rows
from benchmarks.lifecycle.scans import DUCKDB, read_with_duckdb, seconds_of_both
from benchmarks.rounds import in_rounds, row_of
from benchmarks.table import Table

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.options import Options
    from benchmarks.rounds import Sample

OURS: Final = "Lode, open_dataset"
READERS: Final = (DUCKDB, OURS)
_COLUMNS: Final = ["one column, s", "all columns, s"]
_ROWS: Final = 1_000


def table(options: Options, root: Path) -> Table:
    files = 200 if options.quick else 1_000
    url = f"file://{root / 'small'}?durable=false"
    chosen = [name for name in READERS if options.wants(name)]
    if chosen:
        dataset = lode.Dataset("d", url, codec="parquet")
        for number in range(files):
            dataset.write(rows(_ROWS, seed=number))
    works = {name: partial(_duckdb if name == DUCKDB else _lode, url, files * _ROWS) for name in chosen}
    rounds = 1 if options.quick else 5
    outcomes = in_rounds(works, rounds, label="small files")
    return Table(
        "small",
        f"Scan of {files:,} files of {_ROWS:,} rows back to an Arrow table, disk, page cache warm",
        _COLUMNS,
        [row_of(name, each, None if name == DUCKDB else DUCKDB) for name, each in outcomes.items()],
        ratios=_COLUMNS,
        notes=[
            f"Medians of {rounds}, in turn, each the median of three scans. Lode opens the dataset by name "
            "each time; DuckDB gets the paths from a plan made before."
        ],
    )


def _lode(url: str, total: int) -> Sample:
    def scan(columns: list[str] | None) -> int:
        return lode.open_dataset("d", url).scan(columns=columns).read_all().num_rows

    return seconds_of_both(scan, total)


def _duckdb(url: str, total: int) -> Sample:
    paths = lode.open_dataset("d", url).plan().locations
    return seconds_of_both(partial(read_with_duckdb, paths), total)
