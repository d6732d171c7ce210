"""Rows a second, by format, rows of an append, connections and type of stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from benchmarks.ingest.load import Load
from benchmarks.ingest.runs import CEILING, MEMORY, PEER, Runs
from benchmarks.ingest.servers import LodeServer
from benchmarks.rounds import in_rounds, row_of
from benchmarks.table import Cell, Curve, Row, Table

if TYPE_CHECKING:
    from benchmarks.ingest.servers import Server
    from benchmarks.rounds import Outcome, Sample

STREAMS: Final = ("default", "committed", "pending")


@dataclass(frozen=True, slots=True)
class Kind:
    """Loads that are alike but for the type of stream; ``rows`` and ``pending`` are how many one load has.

    So many that the slower server needs some seconds. What one append costs bqemulator grows with its table,
    so both get equally many.
    """

    form: str
    size: int
    connections: int
    rows: int
    pending: int

    @property
    def name(self) -> str:
        return f"{self.form.lower()}-{self.size}-{self.connections}"

    @property
    def calls(self) -> str:
        return "1 connection" if self.connections == 1 else f"{self.connections} connections"

    def load(self, stream: str, *, quick: bool) -> Load:
        total = (self.pending if stream == "pending" else self.rows) // (8 if quick else 1)
        # At least one append for each that may be in flight.
        return Load(
            self.form, stream, self.size, self.connections, max(total, self.size * self.connections * 2)
        )


KINDS: Final = (
    Kind("Arrow", 1_000, 1, rows=400_000, pending=1_000_000),
    Kind("Arrow", 1_000, 4, rows=400_000, pending=1_000_000),
    Kind("Arrow", 50_000, 1, rows=1_000_000, pending=2_500_000),
    Kind("Protobuf", 1_000, 1, rows=400_000, pending=400_000),
)


def tables(runs: Runs) -> list[Table]:
    return [_table(runs, kind) for kind in KINDS if kind.connections == 1 or not runs.options.quick]


def _table(runs: Runs, kind: Kind) -> Table:
    loads = {stream: kind.load(stream, quick=runs.options.quick) for stream in STREAMS}
    outcomes = runs.in_turn(loads.values(), "rates")
    rows = []
    for server in runs.appended:
        found = [outcomes[server.name, load] for load in loads.values()]
        rows.append(_row(server, found))
    counts = ", ".join(f"{load.total:,} {stream}" for stream, load in loads.items())
    said = f"{kind.form}, {kind.size:,} rows an append, {kind.calls}"
    return Table(
        kind.name,
        f"Ingest: {said}, 8 in flight on each, rows/s",
        [*STREAMS, MEMORY],
        rows,
        ratios=[*STREAMS, MEMORY],
        notes=[f"Rows of one load: {counts}; pending with finalize and commit.", *runs.notes(outcomes)],
        curves=[
            Curve(
                "ingest", said.replace(" rows an append", "/append"), "", "times bqemulator's rows/s",
                kind="bars", columns=[*STREAMS], ratio=True,
            )
        ],
    )  # fmt: skip


def _row(server: type[Server], found: list[Outcome]) -> Row:
    """The rates of the streams, and the most memory of them all in each round that has all of them."""
    rates = [Cell(note=each.failed) if each.failed else Cell(_column(each.samples, 0)) for each in found]
    peaks = [_column(each.samples, 3) for each in found if not each.failed]
    memory = Cell([max(at_once) for at_once in zip(*peaks, strict=False)])
    failed = found[0].failed if all(each.failed for each in found) else None
    return Row(server.name, [*rates, memory], None if server.name in (PEER, CEILING) else PEER, failed)


def _column(samples: list[Sample], at: int) -> list[float]:
    return [value for sample in samples if (value := sample[at]) is not None]


def throughout(runs: Runs) -> list[Table]:
    """All loads on one server of ours, to see what it keeps."""
    if runs.options.quick or LodeServer not in runs.servers:
        return []
    loads = [kind.load(stream, quick=False) for kind in KINDS for stream in STREAMS]

    def work() -> Sample:
        with runs.server(LodeServer) as server:
            peaks = [runs.put(server, load)[3] for load in loads]
        return [sum(load.total for load in loads), peaks[0], peaks[-1]]

    outcomes = in_rounds({LodeServer.name: work}, 1, label="all loads on one server")
    return [
        Table(
            "throughout",
            f"Ingest: all {len(loads)} loads one after the other on one server",
            ["rows", f"{MEMORY}, after the first load", f"{MEMORY}, after the last"],
            [row_of(name, outcome) for name, outcome in outcomes.items()],
        )
    ]
