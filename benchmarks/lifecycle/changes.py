"""Delete 0.1 % of the rows and merge 100,000 keys, in processes of their own, with their memory."""

from __future__ import annotations

import importlib
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.lifecycle.peers import PEERS
from benchmarks.measure import forget_peak, in_child, peak_mb
from benchmarks.rounds import about_slow, in_rounds, row_of, verify
from benchmarks.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.options import Options
    from benchmarks.rounds import Sample

FLOOR = "pyarrow, files without history"
# A contender that takes longer has lost the round; Iceberg's upsert in Python does.
_LIMIT_SECONDS = 300
CONTENDERS = (*PEERS, FLOOR)
_FLOOR_ROWS = 500_000
_TABLE = "table.arrow"
_SOURCE = "source.arrow"
_COLUMNS = ["delete 0.1 %, s", "merge, s", "peak over idle, MB"]


def run(options: Options) -> Table:
    count = 1_000_000 if options.quick else 20_000_000
    keys = 100_000
    with options.scratch() as root:
        in_child(make_rows, folder=str(root), count=count, keys=keys)
        works = {
            name: partial(_measure, name, count, keys, str(root))
            for name in CONTENDERS
            if options.wants(name)
        }
        outcomes = in_rounds(works, options.rounds, label="delete and merge", may_be_slow=("Iceberg",))
    return Table(
        "change",
        f"Delete 0.1 % of {count:,} rows, then merge {keys:,} keys (99 % of them are there), disk",
        _COLUMNS,
        [row_of(name, outcome, None if name == "Lode" else "Lode") for name, outcome in outcomes.items()],
        ratios=_COLUMNS[:2],
        notes=[
            f"{FLOOR}: reads, filters and writes as many rows on two threads, with the compression of Lode.",
            "Each in a process of its own; the rows are counted after each step. The rows to delete and the "
            "keys are spread over all files.",
            "Lode and Delta rewrite the files, so that every reader of Parquet sees the rows that are left. "
            "Lance and DuckLake write which rows are gone, and every reader has to leave them out.",
            "The memory of DuckLake is that of another process and is not measured.",
            *about_slow(outcomes, options.rounds),
        ],
    )


def _measure(name: str, count: int, keys: int, root: str) -> Sample:
    return list(in_child(change, limit=_LIMIT_SECONDS, name=name, count=count, keys=keys, root=root))


def make_rows(folder: str, count: int, keys: int) -> None:
    """In a child: write the rows and those to merge once, for all to load."""
    for name, table in zip((_TABLE, _SOURCE), _rows(count, keys), strict=True):
        with pa.OSFile(f"{folder}/{name}", "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)


def _load(path: str) -> pa.Table:
    with pa.OSFile(path, "rb") as file:
        return pa.ipc.open_file(file).read_all()


def change(name: str, count: int, keys: int, root: str) -> list[float | None]:
    """In a child: seconds to delete, seconds to merge, and the peak of both."""
    table, source = (_load(f"{root}/{file}") for file in (_TABLE, _SOURCE))
    with tempfile.TemporaryDirectory(dir=root) as folder:
        peer = (PEERS | {FLOOR: _Files})[name](Path(folder) / "table")
        peer.write(table)
        del table
        idle = forget_peak()
        began = time.perf_counter()
        peer.delete("bucket = 7")
        deleted = time.perf_counter() - began
        left = count - count // 1000
        verify(peer.scan(["id"]), left, "rows after the delete")
        began = time.perf_counter()
        peer.merge(source)
        merged = time.perf_counter() - began
        peak = peak_mb() - idle
        verify(peer.scan(["id"]), left + keys // 100, "rows after the merge")
        peer.close()
    return [deleted, merged, None if name == "DuckLake" else peak]


class _Files:
    """Parquet files that are rewritten one by one, two at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()

    def write(self, table: pa.Table) -> None:
        def store(start: int) -> None:
            self._store(table.slice(start, _FLOOR_ROWS), self._folder / f"{start:012d}.parquet")

        with ThreadPoolExecutor(2) as threads:
            list(threads.map(store, range(0, table.num_rows, _FLOOR_ROWS)))

    def delete(self, condition: str) -> None:
        column, value = condition.split(" = ")
        self._each(lambda table: table.filter(pc.field(column) != int(value)))

    def merge(self, rows: pa.Table) -> None:
        keys: Any = rows.column("id").combine_chunks()
        compute: Any = pc
        self._each(lambda table: table.filter(compute.invert(compute.is_in(table["id"], value_set=keys))))
        self._store(rows, self._folder / "merged.parquet")

    def scan(self, columns: list[str] | None) -> int:
        return pq.read_table(self._folder, columns=columns).num_rows

    def close(self) -> None:
        pass

    def _each(self, change: Callable[[pa.Table], pa.Table]) -> None:
        def rewrite(path: Path) -> None:
            self._store(change(pq.read_table(path, use_threads=False)), path.with_suffix(".new"))
            path.with_suffix(".new").replace(path)

        with ThreadPoolExecutor(2) as threads:
            list(threads.map(rewrite, sorted(self._folder.iterdir())))

    def _store(self, table: pa.Table, path: Path) -> None:
        parquet: Any = pq  # the stubs do not know that a dictionary can be chosen by column
        parquet.write_table(
            table, path, compression="zstd", use_dictionary=["bucket"], write_page_checksum=True
        )


def _rows(count: int, keys: int) -> tuple[pa.Table, pa.Table]:
    numpy: Any = importlib.import_module("numpy")
    chance = numpy.random.default_rng(1)

    def made(ids: Any) -> pa.Table:
        return pa.table(
            {
                "id": ids,
                "bucket": ids % 1000,
                "price": chance.random(len(ids)),
                "text": pa.array(chance.integers(0, 1 << 40, len(ids))).cast(pa.string()),
            }
        )

    # Keys that the delete leaves alone, and one in a hundred that is new.
    present = numpy.arange(count)
    chosen = chance.choice(present[present % 1000 != 7], keys - keys // 100, replace=False)
    new = numpy.arange(count, count + keys // 100)
    return made(present), made(numpy.concatenate([chosen, new]))
