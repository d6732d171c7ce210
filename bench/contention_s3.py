"""The same contention over a network: an S3 server of its own for each contender."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from bench.contention import COLUMNS, PARTITION, cap, folder, measure, table_of
from bench.peers import contenders
from bench.peers.contender import Place
from bench.table import Row, Table
from lode.testing.servers import S3Server

if TYPE_CHECKING:
    from bench.options import Options


def run(options: Options) -> list[Table]:
    found = []
    chosen = [each for each in contenders() if options.wants(each.name) and "synced" not in each.name]
    with options.scratch() as root:
        for at, each in enumerate(chosen):
            with LoggingS3Server() as server:
                url = server.create("bench")
                place = Place(f"{url}/table", folder(root / str(at)), server.endpoint, PARTITION)
                row = measure(each, place, cap(options))
                found.append(Row(row.name, [*row.values, _per_commit(server, row)], row.against))
    table = table_of("S3 (moto)", found, cap(options))
    return [
        Table(
            table.title,
            [*table.columns, "requests/commit"],
            table.rows,
            [*table.ratios, "requests/commit"],
            [*table.notes, "Requests are those the server logged, creating the table included."],
        )
    ]


class LoggingS3Server(S3Server):
    """Counts what it was asked by the lines of its log."""

    @property
    def requests(self) -> int:
        # pread, because the server writes at the same file offset that a read would move.
        descriptor = self._log.fileno()
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0).count(b" HTTP/1.1")


def _per_commit(server: LoggingS3Server, row: Row) -> float | None:
    commits = row.values[COLUMNS.index("commits")]
    return server.requests / commits if isinstance(commits, int | float) and commits else None
