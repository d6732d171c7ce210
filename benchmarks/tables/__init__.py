"""One large write in one commit, reading it all back, and reading many small files."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from benchmarks.data import SCHEMA, rows
from benchmarks.measure import in_child
from benchmarks.rounds import Sample, in_rounds, row_of
from benchmarks.table import Curve, Table
from benchmarks.tables import scan, small, write

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.options import Options

CONTENDERS = tuple(dict.fromkeys((*write.WRITERS, *scan.SCANNERS, *small.READERS)))


def run(options: Options) -> list[Table]:
    count = 1_000_000 if options.quick else 20_000_000
    with options.scratch() as root:
        source = root / "source.arrow"
        in_child(make_source, path=str(source), count=count)
        return [
            _writes(options, source, count),
            _scans(options, root, source, count),
            small.table(options, root),
        ]


def _writes(options: Options, source: Path, count: int) -> Table:
    chosen = {name: each for name, each in write.WRITERS.items() if options.wants(name)}
    works = {name: partial(_write, options, name, source, count) for name in chosen}
    outcomes = in_rounds(works, options.rounds, label="bulk write")
    megabytes = source.stat().st_size / 1e6
    return Table(
        "write",
        f"Bulk write of {count:,} rows x 6 columns ({megabytes:,.0f} MB of Arrow), zstd, disk",
        ["seconds", "CPU seconds", "peak over idle, MB", "bytes written, MB", "files"],
        [
            row_of(name, each, None if name == write.TWO_FILES else write.TWO_FILES)
            for name, each in outcomes.items()
        ],
        ratios=["seconds", "CPU seconds"],
        notes=[
            f"Medians of {options.rounds}, each in a process of its own, in turn, the table already in "
            "memory; not synced. After each, the rows are counted in what was written.",
            "Lode with statistics and an xxh3-128 checksum of every file. Lance in its own format.",
            f"{write.READER} and {write.STREAM}: 65,536 rows in a batch.",
        ],
        curves=[
            Curve("bulk", "Bulk write, seconds", "", "s", kind="bars", columns=["seconds"]),
            Curve(
                "bulk", "Bulk write, memory", "", "MB over idle", kind="bars", columns=["peak over idle, MB"]
            ),
        ],
    )


def _write(options: Options, name: str, source: Path, count: int) -> Sample:
    with options.scratch() as target:
        found: Sample = in_child(
            write.measure, name=name, source=str(source), target=str(target), count=count
        )
        return found


def _scans(options: Options, root: Path, source: Path, count: int) -> Table:
    chosen = [name for name in scan.SCANNERS if options.wants(name)]
    works = {name: partial(_scan, root, name, source, count) for name in chosen}
    rounds = 1 if options.quick else 5
    outcomes = in_rounds(works, rounds, label="full scan")
    return Table(
        "scan",
        f"Full scan of {count:,} rows back to an Arrow table, disk, page cache warm",
        ["seconds", "CPU seconds", "peak over idle, MB"],
        [row_of(name, each, None if name == scan.PLAIN else scan.PLAIN) for name, each in outcomes.items()],
        ratios=["seconds", "CPU seconds", "peak over idle, MB"],
        notes=[
            f"Medians of {rounds}, each in a process of its own, in turn, which opens the table, scans it "
            "once to warm up, and then again for the clock. Every scan has all rows.",
            "Lance from its own format, the others from Parquet files of their own.",
        ],
    )


def _scan(root: Path, name: str, source: Path, count: int) -> Sample:
    """Scan what the contender's writer made, which it makes when it is first asked for."""
    writer = scan.SCANNERS[name].writer
    target = root / f"scanned-{writer}"
    if not target.exists():
        target.mkdir()
        in_child(write.measure, name=writer, source=str(source), target=str(target), count=count)
    found: Sample = in_child(scan.measure, name=name, target=str(target), count=count)
    return found


def make_source(path: str, count: int) -> int:
    """In a child: write the rows once, for all to load."""
    step = 1_000_000
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, SCHEMA) as writer:
        for seed in range(-(-count // step)):
            writer.write_table(rows(min(step, count - seed * step), seed=seed))
    return count
