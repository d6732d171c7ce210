"""What the writers get done next to calls that are open and send nothing."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from benchmarks.ingest.load import IDLE_PATIENCE, Load
from benchmarks.ingest.runs import MEMORY, NOTES, PEER, Runs, title
from benchmarks.rounds import Sample, about_slow, in_rounds, row_of
from benchmarks.table import Table

if TYPE_CHECKING:
    from benchmarks.ingest.servers import Server

CALLS: Final = 1_000
HELD: Final = "idle calls answered"


def table(runs: Runs) -> Table:
    load = Load("Arrow", "default", 1_000, 4, 50_000 if runs.options.quick else 200_000)
    works = {each.name: partial(_once, runs, each, load) for each in runs.servers}
    outcomes = in_rounds(works, runs.options.rounds, label=f"{CALLS:,} idle calls", may_be_slow=(PEER,))
    return Table(
        "idle",
        f"Ingest: {CALLS:,} idle calls held open while 4 connections write: {title(load)}",
        [HELD, "rows/s without them", "rows/s with them", MEMORY],
        [row_of(name, outcome) for name, outcome in outcomes.items()],
        notes=[
            f"Each idle call has sent one append and stays open; {IDLE_PATIENCE:.0f} s for its answer.",
            *NOTES,
            *about_slow(outcomes, runs.options.rounds),
        ],
    )


def _once(runs: Runs, server: type[Server], load: Load) -> Sample:
    """A server that does not hold them all is not given the load."""
    beside = runs.fresh(server, msgspec.structs.replace(load, idle=CALLS))
    held = beside[4]
    if held != CALLS:
        return [held, None, None, None]
    alone = runs.fresh(server, load)
    return [held, alone[0], beside[0], beside[3]]
