"""Puts loads on servers, in rounds, and checks after each that all its rows are there."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from benchmarks.ingest.load import Load, Outcome, run_load
from benchmarks.ingest.servers import BqEmulator, Ceiling, LodeServer, Server
from benchmarks.measure import in_child
from benchmarks.options import folder_apart
from benchmarks.peers.bqemulator import VERSION
from benchmarks.rounds import Sample, about_slow, in_rounds, verify

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from benchmarks import rounds
    from benchmarks.options import Options

SERVERS: Final[tuple[type[Server], ...]] = (BqEmulator, LodeServer)
WITH_CEILING: Final[tuple[type[Server], ...]] = (*SERVERS, Ceiling)
PEER: Final = BqEmulator.name
CEILING: Final = Ceiling.name
MEMORY: Final = "server memory, MB"
NOTES: Final = (
    f"bqemulator {VERSION} as it starts by default, with its tables in memory. Lode has every row on disk, "
    "synced and visible, when it answers (pending: on disk and synced).",
    "After a few appends to warm up, in turn, each on a fresh server and table, whose rows are counted then.",
    "Server memory is the largest resident size of the server, with what it has when it is idle.",
)
ABOUT_CEILING: Final = (
    "The ceiling answers every append on the same gRPC stack and keeps nothing: what the client can send."
)


class Runs:
    """The servers that were asked for, and a fresh one for every load."""

    def __init__(self, root: Path, options: Options) -> None:
        self.options = options
        self.servers = [each for each in SERVERS if options.wants(each.name)]
        # Those of appends alone.
        self.appended = [each for each in WITH_CEILING if options.wants(each.name)]
        self._root = root
        self._number = 0

    def in_turn(self, loads: Iterable[Load], label: str) -> dict[tuple[str, Load], rounds.Outcome]:
        """Rows/s, p50 and p99 in ms, the server's peak memory and the idle calls held, with the ceiling."""
        found: dict[tuple[str, Load], rounds.Outcome] = {}
        for load in loads:
            works = {each.name: partial(self.fresh, each, load) for each in self.appended}
            outcomes = in_rounds(
                works, self.options.rounds, label=f"{label}: {title(load)}", may_be_slow=(PEER,)
            )
            found |= {(name, load): outcome for name, outcome in outcomes.items()}
        return found

    def notes(self, outcomes: dict[tuple[str, Load], rounds.Outcome]) -> list[str]:
        """What is to be said about what ``in_turn`` found."""
        named = {f"{name}, {load.stream}": outcome for (name, load), outcome in outcomes.items()}
        return [*NOTES, ABOUT_CEILING, *about_slow(named, self.options.rounds)]

    def fresh(self, contender: type[Server], load: Load) -> Sample:
        with self.server(contender) as server:
            return self.put(server, load)

    def put(self, server: Server, load: Load) -> Sample:
        """Run one load on a table of its own."""
        self._number += 1
        table = f"load_{self._number}"
        server.create_table(table)
        order = {"endpoint": server.grpc, "table": table, "load": msgspec.to_builtins(load)}
        outcome = msgspec.convert(in_child(run_load, **order), Outcome)
        if server.keeps_rows:
            verify(server.count(table), outcome.rows, "rows in the table, of those acknowledged")
        rate = outcome.rows / outcome.seconds if outcome.seconds else None
        return [rate, outcome.p50_ms, outcome.p99_ms, server.peak_mb(), outcome.held]

    def server(self, contender: type[Server]) -> Server:
        return contender(self.folder())

    def folder(self) -> Path:
        """A new folder."""
        return folder_apart(self._root)


def title(load: Load) -> str:
    calls = "1 connection" if load.connections == 1 else f"{load.connections} connections"
    idle = f", {load.idle:,} idle calls" if load.idle else ""
    return f"{load.form}, {load.stream}, {load.rows:,} rows/append, {calls}, {load.in_flight} in flight{idle}"
