"""SQL over a million rows, and load jobs of files: what a user of BigQuery does besides appending."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq

from benchmarks.data import rows
from benchmarks.ingest.load import DATASET, PROJECT
from benchmarks.ingest.runs import MEMORY, PEER, Runs
from benchmarks.peers.bqemulator import VERSION
from benchmarks.rounds import Sample, in_rounds, row_of, verify
from benchmarks.table import Table

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.ingest.servers import Server

ROWS: Final = 1_000_000
# 85 bytes of CSV a row, and 25 of Parquet.
_ROWS_OF_A_GB: Final = 12_000_000
_QUERIES: Final = 3
_NOTE: Final = (
    f"bqemulator {VERSION} as it starts by default, with its tables in memory; Lode's are files on the disk."
)


def source(folder: Path, count: int = ROWS) -> Path:
    """A Parquet file of so many rows."""
    path = folder / f"rows-{count}.parquet"
    if not path.exists():
        with pq.ParquetWriter(path, _chunk(0, 0).schema) as file:
            for number, start in enumerate(range(0, count, ROWS)):
                file.write_table(_chunk(min(ROWS, count - start), number))
    return path


def _chunk(count: int, number: int) -> pa.Table:
    """Rows with ids that no other chunk has."""
    found = rows(count, seed=number)
    found = found.set_column(0, "id", pc.add(found["id"], number * (ROWS - count)))
    return found.set_column(1, "at", found["at"].cast(pa.timestamp("us", "UTC")))


def queries(runs: Runs, folder: Path) -> Table:
    """The best of a few, since the first one starts threads and fills caches."""
    path = source(folder)
    works = {each.name: partial(_ask, runs, each, path) for each in runs.servers}
    outcomes = in_rounds(works, runs.options.rounds, label=f"SQL over {ROWS:,} rows")
    columns = ["filter and aggregate, s", "group by, s", MEMORY]
    return Table(
        "sql",
        f"SQL: over {ROWS:,} rows of six columns, with jobs.query",
        columns,
        [row_of(name, each, None if name == PEER else PEER) for name, each in outcomes.items()],
        ratios=columns,
        notes=[
            f"The best of {_QUERIES}; the answers are checked. Memory is that of the queries, with their "
            "processes, and not that of the load before them.",
            _NOTE,
        ],
    )


def _ask(runs: Runs, contender: type[Server], path: Path) -> Sample:
    table = pq.read_table(path)
    wanted = table.filter(pc.field("count") < 100)
    with runs.server(contender) as server:
        server.create_table("t")
        server.load("t", path, sourceFormat="PARQUET")
        server.forget_peak()
        name = f"`{PROJECT}.{DATASET}.t`"
        found, one = _best(server, f"SELECT COUNT(*), SUM(count), MAX(id) FROM {name} WHERE count < 100")
        sums = [wanted.num_rows, pc.sum(wanted["count"]).as_py(), pc.max(wanted["id"]).as_py()]
        verify(found, [[str(value) for value in sums]], "the aggregates")
        text = f"SELECT place, COUNT(*), SUM(count), AVG(value) FROM {name} GROUP BY place ORDER BY place"
        found, two = _best(server, text)
        grouped = table.group_by("place").aggregate([([], "count_all"), ("count", "sum")]).sort_by("place")
        expected = [[str(value) for value in row.values()] for row in grouped.to_pylist()]
        verify([row[:3] for row in found], expected, "the groups")
        return [one, two, server.peak_mb()]


def _best(server: Server, text: str) -> tuple[list[list[str]], float]:
    took = []
    for _ in range(_QUERIES):
        began = time.monotonic()
        found = server.query(text)
        took.append(time.monotonic() - began)
    return found, min(took)


def loads(runs: Runs, folder: Path) -> Table:
    count = 200_000 if runs.options.quick else _ROWS_OF_A_GB
    parquet = source(folder, count)
    text = folder / f"rows-{count}.csv"
    with csv.CSVWriter(text, _text(_chunk(0, 0)).schema) as out:
        for number, start in enumerate(range(0, count, ROWS)):
            out.write_table(_text(_chunk(min(ROWS, count - start), number)))
    files = {"PARQUET": parquet, "CSV": text}
    works = {each.name: partial(_load, runs, each, files, count) for each in runs.servers}
    outcomes = in_rounds(works, runs.options.rounds, label=f"load of {count:,} rows")
    columns = ["Parquet, s", f"Parquet: {MEMORY}", "CSV, s", f"CSV: {MEMORY}"]
    sizes = ", ".join(f"{kind} {path.stat().st_size / 1e6:,.0f} MB" for kind, path in files.items())
    return Table(
        "load",
        f"SQL: load jobs of {count:,} rows in one uploaded file",
        columns,
        [row_of(name, each, None if name == PEER else PEER) for name, each in outcomes.items()],
        ratios=columns,
        notes=[
            f"{sizes}; with the upload, each on a fresh server. Rows and sums are checked.",
            _NOTE,
        ],
    )


def _text(table: pa.Table) -> pa.Table:
    """Times as both servers read them in text."""
    at = pc.strftime(table["at"], "%Y-%m-%d %H:%M:%S UTC")
    return table.set_column(1, "at", at)


def _load(runs: Runs, contender: type[Server], files: dict[str, Path], count: int) -> Sample:
    found: Sample = []
    total = pc.sum(pq.read_table(files["PARQUET"], columns=["count"])["count"]).as_py()
    expected = [[str(count), str(count * (count - 1) // 2), str(total)]]
    for kind, path in files.items():
        with runs.server(contender) as server:
            server.create_table("t")
            began = time.monotonic()
            server.load("t", path, sourceFormat=kind, **({"skipLeadingRows": 1} if kind == "CSV" else {}))
            found += [time.monotonic() - began, server.peak_mb()]
            sums = server.query(f"SELECT COUNT(*), SUM(id), SUM(count) FROM `{PROJECT}.{DATASET}.t`")
            verify(sums, expected, f"rows, ids and counts of {kind}")
    return found
