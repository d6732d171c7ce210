"""Several servers that write to one table on an object store: what they reach together."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

import lode
from benchmarks.distance import DISTANCE, far
from benchmarks.ingest.load import DATASET, PROJECT, Load, Outcome, run_load
from benchmarks.ingest.servers import LodeServer
from benchmarks.measure import in_child
from benchmarks.peers.s3 import LoggingS3Server
from benchmarks.rounds import in_rounds, row_of, verify
from benchmarks.table import Table

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.ingest.runs import Runs
    from benchmarks.rounds import Sample

_COUNTS: Final = (1, 2, 4)
# Seconds that an answer of the store is on its way.
_TABLE: Final = "shared"
_COLUMNS: Final = ["rows/s", "p50, ms", "p99, ms", "requests per commit"]


class SharingServer(LodeServer):
    """Ours on an object store, with the tables that another server of the same lake has created."""

    def __init__(self, folder: Path, root: str, options: dict[str, Any]) -> None:
        super().__init__(folder)
        self._url = root
        self._options = options

    @property
    def _root(self) -> str:
        return self._url

    @property
    def _extra(self) -> list[str]:
        return [
            part for name, value in self._options.items() for part in ("--store-option", f"{name}={value}")
        ]

    def join(self) -> SharingServer:
        """Start without creating anything."""
        self._start()
        return self


def table(runs: Runs) -> Table:
    load = Load("Arrow", "default", 100, 1, 4_000 if runs.options.quick else 8_000)
    works = {_name(count): partial(_once, runs, count, load) for count in _COUNTS}
    outcomes = in_rounds(works, runs.options.rounds, label="servers of one table")
    first = _name(_COUNTS[0])
    return Table(
        "several",
        "Ingest: several servers write to one table, S3 server",
        _COLUMNS,
        [row_of(name, outcome, None if name == first else first) for name, outcome in outcomes.items()],
        ratios=_COLUMNS[:1],
        notes=[
            f"Each server gets {load.total:,} rows on one connection, with {load.in_flight} appends of "
            f"{load.rows} rows in flight. "
            f"Answers of the store take {DISTANCE * 1000:.0f} ms longer, so the machine is not the limit.",
            "All rows are counted after that. Servers commit together as soon as there are three of them.",
        ],
    )


def _name(count: int) -> str:
    return f"Lode, {count} server{'s' if count > 1 else ''}"


def _once(runs: Runs, count: int, load: Load) -> Sample:
    with ExitStack() as stack:
        s3 = stack.enter_context(LoggingS3Server())
        root = s3.create("lake")
        port = stack.enter_context(far(s3.port))
        options = {
            "endpoint": f"http://127.0.0.1:{port}",
            "region": "us-east-1",
            "access_key_id": "test",
            "secret_access_key": "test",
            "allow_http": "true",
        }
        servers = [SharingServer(runs.folder(), root, options) for _ in range(count)]
        for number, server in enumerate(servers):
            stack.callback(server.stop)
            server.join() if number else server.__enter__()
        servers[0].create_table(_TABLE)
        before = s3.requests
        with ThreadPoolExecutor(count) as pool:
            outcomes = list(pool.map(partial(_put, load=load), servers))
        store = lode.open_store(root, **s3.options)
        requests = s3.requests - before
        dataset = lode.open_dataset(f"{PROJECT}.{DATASET}.{_TABLE}", store)
        verify(
            dataset.count(),
            sum(outcome.rows for outcome in outcomes),
            "rows in the table, of those acknowledged",
        )
        commits = dataset.latest().sequence or 1
        return [
            sum(outcome.rows / outcome.seconds for outcome in outcomes),
            max(outcome.p50_ms for outcome in outcomes),
            max(outcome.p99_ms for outcome in outcomes),
            requests / commits,
        ]


def _put(server: SharingServer, load: Load) -> Outcome:
    found = in_child(run_load, endpoint=server.grpc, table=_TABLE, load=msgspec.to_builtins(load))
    return msgspec.convert(found, Outcome)
