"""Scan many small files, and the same rows after compaction."""

from __future__ import annotations

import importlib
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow.parquet as pq

import lode
from benchmarks.data import rows
from benchmarks.lifecycle.peers import PEERS
from benchmarks.rounds import in_rounds, row_of, verify
from benchmarks.table import Table

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.options import Options
    from benchmarks.rounds import Sample

DUCKDB: Final = "DuckDB's reader on Lode's files"
ONE_FILE: Final = "pyarrow, one file written at once"
_COLUMNS = ["one column, s", "all columns, s", "compacted: one column, s", "compacted: all columns, s"]
_FILES_WITH = 1_000


def run(options: Options) -> Table:
    files = 200 if options.quick else 1_000
    names = [name for name in PEERS if options.wants(name)]
    with options.scratch() as root:
        peers: dict[str, Any] = {}
        works = {name: partial(_peer, peers, name, root, files) for name in names}
        if "Lode" in names:
            works[DUCKDB] = partial(_duckdb, root / "Lode", files)
            works[ONE_FILE] = partial(_one_file, root / "one.parquet", files)
        outcomes = in_rounds(works, options.rounds, label="scan")
        for peer in filter(None, peers.values()):
            peer.close()
    return Table(
        "scan",
        f"Scan {files:,} files of {_FILES_WITH:,} rows, before and after compaction, disk",
        _COLUMNS,
        [row_of(name, outcome, DUCKDB if name == "Lode" else None) for name, outcome in outcomes.items()],
        ratios=_COLUMNS,
        notes=[
            "The table is opened and read into memory as Arrow each time; warm page cache. The first round "
            "writes the files; the two sizes of each contender are read one after the other.",
            "DuckDB reads the paths that Lode's plan names.",
        ],
    )


def _peer(peers: dict[str, Any], name: str, root: Path, files: int) -> Sample:
    total = files * _FILES_WITH
    small, large = f"{name}, small", f"{name}, compacted"
    if small not in peers:
        peers[small] = _filled(name, root / name, files)
        peers[large] = None
        if name != "Iceberg":  # pyiceberg has no compaction
            peers[large] = _filled(name, root / f"{name}-compacted", files)
            peers[large].compact()
    return [
        *seconds_of_both(peers[small].scan, total),
        *(seconds_of_both(peers[large].scan, total) if peers[large] else [None] * 2),
    ]


def _filled(name: str, folder: Path, files: int) -> Any:
    peer = PEERS[name](folder)
    tables = (rows(_FILES_WITH, seed=number) for number in range(files))
    if name == "Iceberg":
        # With one append for each file this takes many minutes, since each append takes longer.
        peer.add_files(tables)
    else:
        for table in tables:
            peer.append(table)
    return peer


def seconds_of_both(scan: Any, total: int) -> Sample:
    """The median of three scans of one column, and of all; each has to find so many rows."""
    return [_timed(partial(scan, columns), total) for columns in (["value"], None)]


def _timed(work: Any, total: int) -> float:
    best = []
    for _ in range(3):
        began = time.perf_counter()
        found = work()
        best.append(time.perf_counter() - began)
        verify(found, total, "rows")
    return sorted(best)[1]


def _duckdb(folder: Path, files: int) -> Sample:
    found: list[float | None] = []
    for place in (folder, folder.with_name("Lode-compacted")):
        paths = lode.Dataset("d", f"file://{place}").plan().locations
        found += seconds_of_both(partial(read_with_duckdb, paths), files * _FILES_WITH)
    return found


def read_with_duckdb(paths: list[str], columns: list[str] | None) -> int:
    """The rows that DuckDB finds in these files, as Arrow in memory."""
    duckdb: Any = importlib.import_module("duckdb")
    found = duckdb.read_parquet(paths).project(", ".join(columns) if columns else "*")
    return int(found.to_arrow_reader(65_536).read_all().num_rows)


def _one_file(path: Path, files: int) -> Sample:
    if not path.exists():
        pq.write_table(rows(files * _FILES_WITH), path, compression="zstd")

    def scan(columns: list[str] | None) -> int:
        found: Any = pq.read_table(path, columns=columns)
        return int(found.num_rows)

    one = seconds_of_both(scan, files * _FILES_WITH)
    return [*one, *one]
