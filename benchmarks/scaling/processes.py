"""The simulation of a crowd beside real processes, on a store with the same latency."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from benchmarks.commit.contention import on_far_s3
from benchmarks.commit.writers import Race, check, compete
from benchmarks.distance import DISTANCE
from benchmarks.peers.ours import Lode
from benchmarks.scaling.crowd import simulate

if TYPE_CHECKING:
    from benchmarks.options import Options
    from benchmarks.rounds import Sample

# More commits than a writer makes before the cap.
_ENDLESS = 1_000_000
# What the server itself takes for a small request, in seconds, when it is not busy.
_SERVER = 0.003


class ProcessesAxis:
    """So many writers on a server whose answers come late, and as many in virtual time."""

    name = "processes"
    title = "Writers to one dataset on an object store, simulated and as processes"
    x = "writers"
    rows = (
        "simulated, commits/s",
        "processes, commits/s",
        "simulated commit, requests",
        "commit of a process, requests",
    )
    drawn = ("commits/s", "requests")

    def __init__(self, options: Options, seconds: float) -> None:
        self._options = options
        self._seconds = seconds
        self._seeds = count()
        self.notes = (
            f"Processes: {seconds:.0f} s from a common start, on this machine, which also runs the server; "
            f"answers are {DISTANCE * 1000:.0f} ms late. Simulated: the same number of seconds, requests of "
            f"{(DISTANCE + _SERVER) * 1000:.0f} ms, and processors that are never busy.",
            "The server logs the requests, creating the table included. Every row is read back.",
        )

    def measure(self, size: int) -> Sample:
        latency = DISTANCE + _SERVER
        simulated = simulate(
            size, seconds=self._seconds, seed=next(self._seeds), read=latency, write=latency, stagger=0
        )
        contender = Lode(durable=False)
        with on_far_s3(self._options) as (place, near, requests):
            contender.create(place)
            work = compete(contender, place, Race(size, _ENDLESS, self._seconds))
            asked = requests() if requests is not None else 0
            check(contender.read(near), work)
        commits = sum(len(writer.done) for writer in work)
        return [
            simulated.commits_per_second,
            commits / self._seconds,
            simulated.reads_per_commit + simulated.writes_per_commit,
            asked / commits,
        ]
