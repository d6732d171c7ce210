"""The ingest server against bqemulator: the same appends of the Storage Write API to both."""

from __future__ import annotations

from itertools import product
from statistics import median
from typing import TYPE_CHECKING, Final

import msgspec

from bench.ingest_load import IDLE_PATIENCE, Load, Outcome, run_load
from bench.ingest_servers import BqEmulator, LodeServer, Server
from bench.measure import in_child, progress
from bench.peers.bqemulator import VERSION, UnavailableError
from bench.table import Row, Table

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from bench.options import Options

FORMS: Final = ("Arrow", "Protobuf")
STREAMS: Final = ("default", "committed", "pending")
SIZES: Final = (1_000, 50_000)
CONNECTIONS: Final = (1, 4)
IDLE_CALLS: Final = 1_000
MEMORY: Final = "server memory, MB"
_LONE_APPENDS: Final = 200
# Rows of one load, by format, rows of an append and whether they are pending: so many that the slower server
# needs some seconds. What one append costs bqemulator grows with its table, so both get equally many.
_TOTALS: Final = {
    ("Arrow", 1_000, False): 400_000,
    ("Arrow", 1_000, True): 1_000_000,
    ("Arrow", 50_000, False): 2_000_000,
    ("Arrow", 50_000, True): 5_000_000,
    ("Protobuf", 1_000, False): 400_000,
    ("Protobuf", 1_000, True): 400_000,
    ("Protobuf", 50_000, False): 600_000,
    ("Protobuf", 50_000, True): 600_000,
}
_PEER: Final = BqEmulator.name


class Sample(msgspec.Struct, frozen=True):
    """One load on one server, and the most memory that server had."""

    outcome: Outcome
    memory: float

    @property
    def rate(self) -> float:
        return self.outcome.rows / self.outcome.seconds


Samples = dict[tuple[str, Load], list[Sample]]


def run(options: Options) -> list[Table]:
    rounds = 1 if options.quick else 3
    with options.scratch() as root:
        bench = Bench(root)
        contenders, notes = bench.contenders(options)
        loads = [_load(options, *each) for each in product(FORMS, SIZES, CONNECTIONS, STREAMS)]
        samples = bench.in_turn(contenders, loads, rounds)
        lone = [_lone(options, stream) for stream in ("default", "committed")]
        lone_samples = bench.in_turn(contenders, lone, rounds)
        tables = [
            *(_rates(samples, contenders, options, form, size) for form, size in product(FORMS, SIZES)),
            _latencies(lone_samples, contenders, lone),
            bench.idle(contenders, _load(options, "Arrow", 1_000, 4, "default"), rounds),
        ]
        throughout = [bench.throughout(each, loads) for each in contenders if each is LodeServer]
    common = [
        f"Medians of {rounds} after a few appends to warm up, in turn, each on a fresh server and table.",
        "Lode has every row on disk, synced and visible, when it answers (pending: on disk and synced).",
        *notes,
    ]
    noted = [msgspec.structs.replace(table, notes=[*table.notes, *common]) for table in tables]
    return [*noted, *throughout]


class Bench:
    """Puts loads on servers and checks after each that all its rows are there."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._number = 0

    def contenders(self, options: Options) -> tuple[list[type[Server]], list[str]]:
        """Whom to run, and what there is to say about it."""
        everyone: list[type[Server]] = [BqEmulator, LodeServer]
        wanted = [each for each in everyone if options.wants(each.name)]
        if BqEmulator not in wanted:
            return wanted, []
        try:
            with self._server(BqEmulator):
                return wanted, [f"bqemulator {VERSION} as it starts by default, with its tables in memory."]
        except UnavailableError as error:
            progress(f"bqemulator cannot be run here: {error}")
            reason = str(error).splitlines()[0]
            return [LodeServer], [f"Lode alone: bqemulator cannot be run on this machine ({reason})."]

    def in_turn(self, contenders: list[type[Server]], loads: list[Load], rounds: int) -> Samples:
        samples: Samples = {}
        for _, load, contender in product(range(rounds), loads, contenders):
            with self._server(contender) as server:
                sample = self.put(server, load)
            samples.setdefault((contender.name, load), []).append(sample)
        return samples

    def put(self, server: Server, load: Load) -> Sample:
        """Run one load on a table of its own."""
        self._number += 1
        table = f"load_{self._number}"
        server.create_table(table)
        order = {"endpoint": server.grpc, "table": table, "load": msgspec.to_builtins(load)}
        outcome = msgspec.convert(in_child(run_load, **order), Outcome)
        found = server.count(table)
        if found != outcome.rows:
            raise RuntimeError(f"{server.name} acknowledged {outcome.rows} rows of {load} and has {found}")
        sample = Sample(outcome, server.peak_mb())
        if outcome.rows:
            progress(
                f"{server.name}, {_title(load)}: {sample.rate:,.0f} rows/s, p50 {outcome.p50_ms:.1f} ms, "
                f"{sample.memory:,.0f} MB (the client {outcome.cpu:.2f} of {outcome.seconds:.2f} s)"
            )
        return sample

    def idle(self, contenders: list[type[Server]], load: Load, rounds: int) -> Table:
        """What the writers get done next to calls that are open and send nothing."""
        beside = msgspec.structs.replace(load, idle=IDLE_CALLS)
        rows = []
        for contender in contenders:
            with self._server(contender) as server:
                held = self.put(server, beside).outcome.held
            progress(f"{contender.name}: {held} idle calls held open")
            values: list[float | None] = [held, None, None, None]
            if held == IDLE_CALLS:
                samples = self.in_turn([contender], [load, beside], rounds)
                alone, next_to = samples[contender.name, load], samples[contender.name, beside]
                values[1:] = [_rate(alone), _rate(next_to), max(each.memory for each in next_to)]
            rows.append(Row(contender.name, [*values]))
        return Table(
            f"Ingest: {IDLE_CALLS:,} idle calls held open while 4 connections write: {_title(load)}",
            ["idle calls answered", "rows/s without them", "rows/s with them", MEMORY],
            rows,
            notes=[
                f"Each idle call has sent one append and stays open; {IDLE_PATIENCE:.0f} s for its answer."
            ],
        )

    def throughout(self, contender: type[Server], loads: list[Load]) -> Table:
        """All loads on one server, to see what it keeps."""
        total = 0
        peaks = []
        with self._server(contender) as server:
            for load in loads:
                sample = self.put(server, load)
                total += sample.outcome.rows
                peaks.append(sample.memory)
        return Table(
            f"Ingest: all {len(loads)} loads one after the other on one server",
            ["rows", f"{MEMORY}, after the first load", f"{MEMORY}, after the last"],
            [Row(contender.name, [total, peaks[0], peaks[-1]])],
        )

    def _server(self, contender: type[Server]) -> Server:
        self._number += 1
        folder = self._root / str(self._number)
        folder.mkdir()
        return contender(folder)


def _load(options: Options, form: str, size: int, connections: int, stream: str) -> Load:
    total = _TOTALS[form, size, stream == "pending"] // (4 if options.quick else 1)
    # At least one append for each that may be in flight.
    return Load(form, stream, size, connections, max(total, size * connections * 2))


def _lone(options: Options, stream: str) -> Load:
    appends = _LONE_APPENDS // (4 if options.quick else 1)
    return Load("Arrow", stream, 1_000, 1, 1_000 * appends, in_flight=1)


def _title(load: Load) -> str:
    calls = "1 connection" if load.connections == 1 else f"{load.connections} connections"
    idle = f", {load.idle:,} idle calls" if load.idle else ""
    return f"{load.form}, {load.stream}, {load.rows:,} rows/append, {calls}, {load.in_flight} in flight{idle}"


def _rates(
    samples: Samples, contenders: Iterable[type[Server]], options: Options, form: str, size: int
) -> Table:
    rows = []
    for connections, contender in product(CONNECTIONS, contenders):
        loads = [_load(options, form, size, connections, stream) for stream in STREAMS]
        found = [samples[contender.name, load] for load in loads]
        memory = max(sample.memory for each in found for sample in each)
        calls = "1 connection" if connections == 1 else f"{connections} connections"
        against = None if contender.name == _PEER else f"{_PEER}, {calls}"
        rows.append(Row(f"{contender.name}, {calls}", [*map(_rate, found), memory], against))
    counts = ", ".join(f"{_load(options, form, size, 1, stream).total:,} {stream}" for stream in STREAMS)
    return Table(
        f"Ingest: {form}, {size:,} rows an append, 8 in flight on each connection, rows/s",
        [*STREAMS, MEMORY],
        rows,
        ratios=[*STREAMS, MEMORY],
        notes=[f"Rows of one load: {counts}; pending with finalize and commit."],
    )


def _latencies(samples: Samples, contenders: Iterable[type[Server]], loads: Iterable[Load]) -> Table:
    rows = []
    for load, contender in product(loads, contenders):
        outcomes = [sample.outcome for sample in samples[contender.name, load]]
        values = [median(each.p50_ms for each in outcomes), median(each.p99_ms for each in outcomes)]
        against = None if contender.name == _PEER else f"{_PEER}, {load.stream}"
        rows.append(Row(f"{contender.name}, {load.stream}", [*values], against))
    return Table(
        "Ingest: one append of 1,000 rows at a time, Arrow",
        ["p50, ms", "p99, ms"],
        rows,
        ratios=["p50, ms", "p99, ms"],
    )


def _rate(samples: Iterable[Sample]) -> float:
    return median(sample.rate for sample in samples)
