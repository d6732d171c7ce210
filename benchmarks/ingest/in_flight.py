"""Rows a second by the number of appends that a client sends before it waits for an answer."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from benchmarks.ingest.load import Load
from benchmarks.ingest.runs import ABOUT_CEILING, CEILING, Runs
from benchmarks.ingest.servers import Ceiling, LodeServer
from benchmarks.rounds import Sample, in_rounds, row_of
from benchmarks.table import Table

if TYPE_CHECKING:
    from benchmarks.ingest.servers import Server

# Connections and appends in flight on each.
LOADS: Final = ((1, 1), (1, 8), (1, 32), (1, 128), (4, 8), (4, 128))


def table(runs: Runs) -> Table:
    servers = [each for each in (LodeServer, Ceiling) if runs.options.wants(each.name)]
    total = 400_000 if runs.options.quick else 2_000_000
    works = {each.name: partial(_once, runs, each, total) for each in servers}
    outcomes = in_rounds(works, runs.options.rounds, label="by appends in flight")
    columns = [_column(*each) for each in LOADS]
    return Table(
        "in-flight",
        "Ingest: Arrow, 1,000 rows an append, default stream, by appends in flight on a connection, rows/s",
        columns,
        [
            row_of(name, outcome, CEILING if name == LodeServer.name else None)
            for name, outcome in outcomes.items()
        ],
        ratios=columns,
        notes=[
            f"{total:,} rows of each load; a quarter of them one at a time. In each round one fresh server "
            "gets all loads, each for a table of its own.",
            ABOUT_CEILING,
            "With few in flight, the client waits for a commit before it sends the next ones.",
        ],
    )


def _column(connections: int, in_flight: int) -> str:
    calls = "1 connection" if connections == 1 else f"{connections} connections"
    return f"{calls}, {in_flight} in flight"


def _once(runs: Runs, contender: type[Server], total: int) -> Sample:
    found: Sample = []
    with runs.server(contender) as server:
        for connections, in_flight in LOADS:
            # One at a time takes longest.
            rows = total // 4 if in_flight == 1 else total
            found += runs.put(server, Load("Arrow", "default", 1_000, connections, rows, in_flight))[:1]
    return found
