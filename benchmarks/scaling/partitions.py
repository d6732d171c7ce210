"""The number of partitions one write touches."""

from __future__ import annotations

import shutil
from itertools import count
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

import lode
from benchmarks.scaling.axis import counted, timed
from benchmarks.scaling.places import Places

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.rounds import Sample
    from lode.write.transaction import Transaction

_SCHEMA = {"part": "string!", "n": "int64"}


class PartitionsAxis:
    """A write of one row into each of so many partitions."""

    name = "partitions"
    title = "Partitions of one write"
    x = "partitions"
    rows = (
        "write, calls",
        "scan of one partition, calls",
        "manifest, bytes",
        "copies of the manifest, bytes",
        "write, bytes",
        "write, ms",
        "scan of one partition, ms",
    )
    drawn = ("calls", "bytes", "ms")
    notes = ("One row in one Parquet file for each partition. The scan asks for one of them by name.",)

    def __init__(self, root: Path) -> None:
        self._root = root
        self._numbers = count()

    def measure(self, size: int) -> Sample:
        # New stores each time: the write has to be the first one.
        places = Places(self._root / str(next(self._numbers)))
        memory, disk = places.memory, places.disk
        table = pa.table({"part": [f"p{number:05d}" for number in range(size)], "n": [1] * size})

        transaction = _dataset(memory).transaction()
        write, written, _ = counted(memory, lambda: _write(transaction, table))
        scan, _, _ = counted(memory, lambda: _scan(memory))
        manifest = len(memory.get(f"datasets/parts/segments/{transaction.snapshot_id}/manifest.json"))
        copies = sum(
            entry.size
            for entry in memory.list("datasets/parts/partitions/")
            if entry.path.endswith("/manifest.json")
        )

        on_disk = _dataset(disk).transaction()
        took = timed(lambda: _write(on_disk, table), times=1)
        scanned = timed(lambda: _scan(disk))
        shutil.rmtree(places.directory)
        return [write, scan, manifest, copies, written, took, scanned]


def _write(transaction: Transaction, table: pa.Table) -> None:
    transaction.stage(table)
    transaction.commit()


def _scan(store: lode.Store) -> None:
    found = _dataset(store).scan(where=pc.field("part") == "p00000").read_all()
    if len(found) != 1:
        raise RuntimeError(f"one row was written to the partition, {len(found)} were read")


def _dataset(store: lode.Store) -> lode.Dataset:
    return lode.Dataset("parts", store, codec=lode.Parquet(_SCHEMA), layout=lode.HiveLayout("part"))
