"""One append at a time: how long its answer takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks.ingest.load import Load
from benchmarks.ingest.runs import CEILING, PEER, Runs
from benchmarks.rounds import row_of
from benchmarks.table import Table

if TYPE_CHECKING:
    from benchmarks.rounds import Outcome

STREAMS: Final = ("default", "committed")


def table(runs: Runs) -> Table:
    appends = 25 if runs.options.quick else 300
    loads = [Load("Arrow", stream, 1_000, 1, 1_000 * appends, in_flight=1) for stream in STREAMS]
    outcomes = runs.in_turn(loads, "one at a time")
    rows = []
    for load in loads:
        for server in runs.appended:
            found = outcomes[server.name, load]
            _keep_latencies(found)
            against = None if server.name in (PEER, CEILING) else f"{PEER}, {load.stream}"
            rows.append(row_of(f"{server.name}, {load.stream}", found, against))
    columns = ["p50, ms", "p99, ms"]
    notes = [f"{appends} appends.", *runs.notes(outcomes)]
    return Table("lone", "Ingest: one append of 1,000 rows at a time, Arrow", columns, rows, columns, notes)


def _keep_latencies(outcome: Outcome) -> None:
    outcome.samples[:] = [sample[1:3] for sample in outcome.samples]
