"""Plan a scan of few files behind a long history."""

from __future__ import annotations

from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

import lode
from benchmarks.measure import in_child
from benchmarks.rounds import in_rounds, row_of, verify
from benchmarks.table import Table

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.options import Options
    from benchmarks.rounds import Sample

_COLUMNS = ["open and plan, ms"]
_FILES = 100


def run(options: Options) -> Table:
    commits = 2_000 if options.quick else 100_000
    with options.scratch() as root:
        fresh, long = root / "fresh", root / "long"
        _build(fresh, _FILES)
        _build(long, commits)
        works = {
            f"Lode, {_FILES} files written at once": partial(_measure, fresh),
            f"Lode, after {commits:,} commits": partial(_measure, long),
        }
        outcomes = in_rounds(works, max(options.rounds, 5), label="plan")
    first = next(iter(works))
    return Table(
        "plan",
        f"Open and plan {_FILES} files in a cold process, disk",
        _COLUMNS,
        [row_of(name, outcome, None if name == first else first) for name, outcome in outcomes.items()],
        ratios=_COLUMNS,
        notes=[f"The long history was compacted to {_FILES} files, one for each partition."],
    )


def _build(folder: Path, commits: int) -> None:
    dataset = lode.Dataset.create(
        "d", f"file://{folder}?durable=false", schema={"part": "int64!", "n": "int64"}, partition_by=["part"]
    )
    if commits == _FILES:
        dataset.write([{"part": part, "n": 0} for part in range(_FILES)])
        return
    for number in range(commits):
        dataset.write([{"part": number % _FILES, "n": number}], on_conflict="append")
    dataset.compact()


def _measure(folder: Path) -> Sample:
    took, files = in_child(plan, url=f"file://{folder}")
    verify(files, _FILES, "files planned")
    return [float(took) * 1000]


def plan(url: str) -> tuple[float, int]:
    """In a child: seconds to open and plan, and the number of files."""
    began = perf_counter()
    files = len(lode.Dataset("d", url).plan().paths)
    return perf_counter() - began, files
