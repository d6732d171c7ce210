"""Rows a second by the number of appends that a client sends before it waits for an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks.ingest.load import Load
from benchmarks.ingest.runs import ABOUT_CEILING, CEILING, Runs
from benchmarks.ingest.servers import Ceiling, LodeServer
from benchmarks.rounds import in_rounds
from benchmarks.table import Cell, Row, Table

if TYPE_CHECKING:
    from benchmarks.rounds import Outcome

# Connections and appends in flight on each.
LOADS: Final = ((1, 1), (1, 8), (1, 32), (1, 128), (4, 8), (4, 128))


def table(runs: Runs) -> Table:
    servers = [each for each in (LodeServer, Ceiling) if runs.options.wants(each.name)]
    found: dict[str, list[Outcome]] = {each.name: [] for each in servers}
    total = 400_000 if runs.options.quick else 2_000_000
    for connections, in_flight in LOADS:
        # One at a time takes longest.
        rows = total // 4 if in_flight == 1 else total
        load = Load("Arrow", "default", 1_000, connections, rows, in_flight)
        works = {each.name: lambda each=each, load=load: runs.fresh(each, load)[:1] for each in servers}
        outcomes = in_rounds(works, runs.options.rounds, label=f"{in_flight} in flight on {connections}")
        for name, outcome in outcomes.items():
            found[name].append(outcome)
    columns = [_column(*each) for each in LOADS]
    return Table(
        "in-flight",
        "Ingest: Arrow, 1,000 rows an append, default stream, by appends in flight on a connection, rows/s",
        columns,
        [
            Row(name, [_cell(each) for each in outcomes], CEILING if name == LodeServer.name else None)
            for name, outcomes in found.items()
        ],
        ratios=columns,
        notes=[
            f"{total:,} rows of each load; a quarter of them one at a time.",
            ABOUT_CEILING,
            "With few in flight, the client waits for a commit before it sends the next ones.",
        ],
    )


def _column(connections: int, in_flight: int) -> str:
    calls = "1 connection" if connections == 1 else f"{connections} connections"
    return f"{calls}, {in_flight} in flight"


def _cell(outcome: Outcome) -> Cell:
    if outcome.failed:
        return Cell(note=outcome.failed)
    return Cell([sample[0] for sample in outcome.samples if sample[0] is not None])
