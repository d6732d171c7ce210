"""Compaction of many small files while other processes append."""

from __future__ import annotations

import shutil
import time
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

import lode
from benchmarks import measure
from benchmarks.rounds import in_rounds, row_of, verify
from benchmarks.scaling.places import AT_ONCE
from benchmarks.table import Table

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.options import Options
    from benchmarks.rounds import Sample

_COLUMNS = ["appends/s", "append p50, ms", "errors", "compactions", "files at the end"]
_WRITERS = 8


def run(options: Options) -> Table:
    files, seconds = (200, 4.0) if options.quick else (2_000, 10.0)
    with options.scratch() as root:
        _build(root / "built", files)
        works = {
            name: partial(_measure, root, files, seconds, compacts)
            for name, compacts in (("Lode, without compaction", False), ("Lode, beside compaction", True))
        }
        outcomes = in_rounds(works, options.rounds, label="compaction")
    return Table(
        "compaction",
        f"{_WRITERS} processes append to a dataset of {files:,} small files, disk",
        _COLUMNS,
        [
            row_of(name, outcome, None if name == next(iter(works)) else next(iter(works)))
            for name, outcome in outcomes.items()
        ],
        ratios=_COLUMNS[:2],
        notes=[
            f"For {seconds:.0f} s after all writers have begun. One more process compacts again and again, "
            "with a pause as long as each compaction took. Every row is found again once."
        ],
    )


def _build(folder: Path, files: int) -> None:
    """The small files, for each round to copy."""
    url = f"file://{folder}?durable=false"
    lode.Dataset.create("d", url, schema={"writer": "int64!", "n": "int64!"})
    dataset = lode.Dataset("d", url, runtime=AT_ONCE)
    for number in range(files):
        dataset.write([{"writer": -1, "n": number}])


def _measure(root: Path, files: int, seconds: float, compacts: bool) -> Sample:
    folder = root / str(time.monotonic_ns())
    shutil.copytree(root / "built", folder)
    url = f"file://{folder}?durable=false"
    context = measure.preloaded_processes()
    ready, stop, results = context.Barrier(_WRITERS + 1), context.Event(), context.Queue()
    writers = [
        context.Process(target=_write, args=(number, url, ready, stop, results)) for number in range(_WRITERS)
    ]
    for writer in writers:
        writer.start()
    ready.wait()
    compactions = _compact(url, seconds) if compacts else 0
    if not compacts:
        time.sleep(seconds)
    stop.set()
    reports = [results.get(timeout=60) for _ in writers]
    for writer in writers:
        writer.join()
    took = [each for _, times in reports for each in times]
    opened = lode.open_dataset("d", url)
    found = opened.scan().read_all()
    pairs = set(zip(found["writer"].to_pylist(), found["n"].to_pylist(), strict=True))
    verify((found.num_rows, len(pairs)), (files + len(took), files + len(took)), "rows")
    errors = sum(count for count, _ in reports)
    return [
        len(took) / seconds,
        median(took) * 1000,
        float(errors),
        float(compactions),
        float(len(opened.plan().paths)),
    ]


def _compact(url: str, seconds: float) -> int:
    dataset, done = lode.Dataset("d", url), 0
    end = time.monotonic() + seconds
    while (began := time.monotonic()) < end:
        done += dataset.compact().snapshot is not None
        time.sleep(max(min(time.monotonic() - began, end - time.monotonic()), 0))
    return done


def _write(number: int, url: str, ready: Any, stop: Any, results: Any) -> None:
    dataset = lode.Dataset("d", url)
    dataset.latest()
    took: list[float] = []
    errors = 0
    ready.wait()
    while not stop.is_set():
        began = time.perf_counter()
        try:
            dataset.write([{"writer": number, "n": len(took)}], on_conflict="append")
            took.append(time.perf_counter() - began)
        except lode.LodeError:
            errors += 1
    results.put((errors, took))
