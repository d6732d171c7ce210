"""The most memory that a bulk write and a scan need at once, by the allocators of Python and of Arrow."""

from __future__ import annotations

import os
import tempfile
import tracemalloc
from typing import TYPE_CHECKING, Final

import pyarrow as pa

import lode
from benchmarks.data import SCHEMA, rows
from benchmarks.measure import in_child
from benchmarks.rounds import verify
from lode.store.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.smoke.bounds import Counts

_ROWS: Final = 1_000_000
_BATCH: Final = 50_000
_CORES: Final = 2


def _batches() -> Iterator[pa.RecordBatch]:
    """The rows as a stream, so that only what the writer holds is in memory."""
    for seed in range(_ROWS // _BATCH):
        yield from rows(_BATCH, seed=seed).to_batches()


def write(folder: str) -> Counts:
    """In a child: the peaks of a write."""
    dataset = _dataset(folder)
    found = _peaks("to write", lambda: dataset.write(pa.RecordBatchReader.from_batches(SCHEMA, _batches())))
    return {**found, "files": len(dataset.plan().files)}


def scan(folder: str) -> Counts:
    """In a child: the peaks of a scan that keeps nothing."""
    dataset = _dataset(folder)
    return _peaks(
        "to scan", lambda: verify(sum(batch.num_rows for batch in dataset.scan()), _ROWS, "rows scanned")
    )


def _dataset(folder: str) -> lode.Dataset:
    """On two cores, since more cores hold more at a time."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:_CORES])
    pa.set_cpu_count(_CORES)
    store = lode.open_store(folder, durable=False)
    return lode.Dataset("d", store, codec=lode.Parquet(SCHEMA), checksum="xxh3-128")


def _peaks(what: str, work: Callable[[], object]) -> Counts:
    # What is imported at the first use does not count.
    small = lode.Dataset("d", MemoryStore(), codec=lode.Parquet(SCHEMA))
    small.write(rows(1))
    small.scan().read_all()
    tracemalloc.start()
    work()
    _, python = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    arrow = pa.default_memory_pool().max_memory() or 0
    return {f"MB of Arrow {what}": arrow / 1e6, f"MB of Python {what}": python / 1e6}


def _write_and_scan() -> Counts:
    with tempfile.TemporaryDirectory(prefix="lode-smoke-") as folder:
        return {**in_child(write, folder=folder), **in_child(scan, folder=folder)}


MEMORY: Final[dict[str, Callable[[], Counts]]] = {
    f"bulk write and scan of a stream of {_ROWS:,} rows": _write_and_scan
}
