"""The ingest server against bqemulator: the same appends, queries and load jobs to both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks.ingest import beside, idle, in_flight, lone, rates, several, sql, upserts
from benchmarks.ingest.runs import CEILING, SERVERS, Runs
from benchmarks.ingest.servers import LodeServer

if TYPE_CHECKING:
    from benchmarks.options import Options
    from benchmarks.table import Table

CONTENDERS: Final = (*(each.name for each in SERVERS), CEILING)


def run(options: Options) -> list[Table]:
    with options.scratch() as root:
        runs = Runs(root, options)
        found = [
            *rates.tables(runs),
            in_flight.table(runs),
            lone.table(runs),
            idle.table(runs),
            sql.queries(runs, root),
            sql.loads(runs, root),
            upserts.table(runs),
            beside.table(runs, root),
            *rates.throughout(runs),
        ]
        return [*found, several.table(runs)] if options.wants(LodeServer.name) else found
