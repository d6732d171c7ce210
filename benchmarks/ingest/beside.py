"""Appends while queries run: what the slowest of them wait."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from benchmarks.ingest.load import DATASET, PROJECT, Load, Outcome, run_load
from benchmarks.ingest.runs import PEER, Runs
from benchmarks.ingest.sql import ROWS, source
from benchmarks.measure import in_child
from benchmarks.rounds import Sample, in_rounds, row_of, verify
from benchmarks.table import Table

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.ingest.servers import Server

_ASKING: Final = 4
_TABLE: Final = f"`{PROJECT}.{DATASET}.t`"
# One sorts and hashes in DuckDB, one calls a function of Lode's that is written in Python for each row.
_HEAVY: Final = (
    f"SELECT COUNT(*), COUNT(DISTINCT place || CAST(id AS STRING)), SUM(value) FROM {_TABLE}",
    f"SELECT SUM(LENGTH(FORMAT('%d-%s', id, place))) FROM {_TABLE}",
)
_COLUMNS: Final = ("p50 alone, ms", "p99 alone, ms", "p50 beside, ms", "p99 beside, ms", "queries/s")


def table(runs: Runs, folder: Path) -> Table:
    appends = 100 if runs.options.quick else 500
    # The aim is a tenth of a second. bqemulator stops answering, and this ends its round.
    load = Load("Arrow", "default", 100, 1, 100 * appends, in_flight=1, patience=20)
    path = source(folder)
    works = {each.name: partial(_once, runs, each, load, path) for each in runs.servers}
    outcomes = in_rounds(works, runs.options.rounds, label="appends beside queries")
    return Table(
        "beside",
        f"Ingest: one append of 100 rows at a time, while {_ASKING} clients query {ROWS:,} rows",
        list(_COLUMNS),
        [row_of(name, each, None if name == PEER else PEER) for name, each in outcomes.items()],
        ratios=list(_COLUMNS),
        notes=[
            f"{appends} appends alone, then {appends} beside queries, on one server. Half of the queries "
            "sort and hash, half format a text for each row.",
        ],
    )


def _once(runs: Runs, contender: type[Server], load: Load, path: Path) -> Sample:
    with runs.server(contender) as server:
        server.create_table("t")
        server.load("t", path, sourceFormat="PARQUET")
        alone = _appends(server, "alone", load)
        asking = _Asking(server)
        beside = _appends(server, "beside", load)
        answered = asking.stop()
        return [alone.p50_ms, alone.p99_ms, beside.p50_ms, beside.p99_ms, answered / beside.seconds]


def _appends(server: Server, name: str, load: Load) -> Outcome:
    server.create_table(name)
    order = {"endpoint": server.grpc, "table": name, "load": msgspec.to_builtins(load)}
    outcome = msgspec.convert(in_child(run_load, **order), Outcome)
    verify(server.count(name), outcome.rows, "rows in the table, of those acknowledged")
    return outcome


class _Asking:
    """Clients that send one query after the other."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._over = threading.Event()
        self._answered: list[str] = []
        self._failed: list[BaseException] = []
        self._threads = [threading.Thread(target=self._ask, args=(number,)) for number in range(_ASKING)]
        for each in self._threads:
            each.start()

    def stop(self) -> int:
        """Wait for the last answers; returns how many there were."""
        self._over.set()
        for each in self._threads:
            each.join()
        if self._failed:
            raise self._failed[0]
        return len(self._answered)

    def _ask(self, number: int) -> None:
        try:
            while not self._over.is_set():
                found = self._server.query(_HEAVY[number % len(_HEAVY)])
                verify(len(found), 1, "rows of the answer")
                self._answered.append(found[0][0])
        except BaseException as error:  # raised by stop
            self._failed.append(error)
