"""Change data capture: upserts by primary key through the default stream."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from benchmarks.ingest.load import DATASET, PROJECT, Load, Outcome, run_load
from benchmarks.ingest.requests import DIFFERENT
from benchmarks.ingest.runs import MEMORY, Runs
from benchmarks.measure import in_child
from benchmarks.rounds import Sample, in_rounds, row_of, verify
from benchmarks.table import Table

if TYPE_CHECKING:
    from benchmarks.ingest.servers import Server

_APPEND: Final = 1_000
_KEY: Final = {"tableConstraints": {"primaryKey": {"columns": ["id"]}}, "maxStaleness": "0-0 0 0:0:0"}


def table(runs: Runs) -> Table:
    # Every key at least twice.
    count = 2 * _APPEND * DIFFERENT if runs.options.quick else 100_000
    load = Load("Upserts", "default", _APPEND, 1, count)
    works = {each.name: partial(_once, runs, each, load) for each in runs.servers}
    outcomes = in_rounds(works, runs.options.rounds, label=f"{count:,} upserts")
    return Table(
        "upserts",
        f"Ingest: {count:,} upserts of {_APPEND * DIFFERENT:,} keys by change data capture",
        ["upserts/s", "p50, ms", "p99, ms", MEMORY],
        [row_of(name, outcome) for name, outcome in outcomes.items()],
        notes=[
            f"Arrow, {_APPEND:,} rows an append, 8 in flight. Rows and keys are counted then. bqemulator "
            "1.4.0 has no change data capture: it refuses the column _CHANGE_TYPE or stores every row.",
        ],
    )


def _once(runs: Runs, contender: type[Server], load: Load) -> Sample:
    with runs.server(contender) as server:
        for name in ("t", "warm"):
            server.create_table(name, **_KEY)
        order = {"endpoint": server.grpc, "load": msgspec.to_builtins(load)}
        outcome = msgspec.convert(in_child(run_load, table="t", warm_up="warm", **order), Outcome)
        found = server.query(f"SELECT COUNT(*), COUNT(DISTINCT id) FROM `{PROJECT}.{DATASET}.t`")
        keys = str(min(load.total, load.rows * DIFFERENT))
        verify(found, [[keys, keys]], "rows and keys")
        return [outcome.rows / outcome.seconds, outcome.p50_ms, outcome.p99_ms, server.peak_mb()]
