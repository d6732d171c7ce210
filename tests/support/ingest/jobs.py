"""Jobs of clients that end in a commit, and can be interrupted at any point and retried."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from lode.ingest.core.strategies import StreamType
from lode.ingest.status import Refused, StorageCode
from support.ingest.engines import PLAIN, append, ids_in, is_one_line, rows, until_done, until_stored

if TYPE_CHECKING:
    from concurrent.futures import Future

    from lode.ingest.core.engine import Engine
    from lode.ingest.names import StreamName, TableName
    from lode.store.protocol import Store

# Rows with ids from here on do not belong to the job.
OTHERS = 1000
COMMITTED, PENDING, BUFFERED = StreamType.COMMITTED, StreamType.PENDING, StreamType.BUFFERED


class Job:
    """A job that makes rows visible with a commit.

    ``prepare`` runs on a store without faults. ``begin`` tries once and waits no longer than necessary;
    ``insist`` retries until it succeeds.
    """

    ids: tuple[int, ...]

    def __init__(self, table: TableName) -> None:
        self.table = table

    def prepare(self, engine: Engine) -> None:
        raise NotImplementedError

    def begin(self, engine: Engine) -> None:
        raise NotImplementedError

    def settle(self) -> None:
        """Wait for work that ``begin`` left in progress."""

    def insist(self, engine: Engine) -> None:
        raise NotImplementedError


class Appends(Job):
    """Appends of two streams, all in flight at once, so that they share commits."""

    ids = (*range(5), *range(100, 106))

    def prepare(self, engine: Engine) -> None:
        self.in_flight: list[Future[int | None]] = []
        self.names = [engine.create_stream(self.table, COMMITTED).name for _ in range(2)]

    def begin(self, engine: Engine) -> None:
        first, second = (engine.stream(name) for name in self.names)
        for stream, ids, offset in (
            (first, range(2), 0),
            (second, range(100, 103), 0),
            (first, range(2, 5), 2),
            (second, range(103, 106), 3),
        ):
            with suppress(Refused):  # the previous one may have failed by now
                self.in_flight.append(stream.append(rows(ids), offset))

    def settle(self) -> None:
        for answer in self.in_flight:
            answer.exception(timeout=120)

    def insist(self, engine: Engine) -> None:
        first, second = self.names
        until_stored(lambda: engine.stream(first), range(2), 0)
        until_stored(lambda: engine.stream(first), range(2, 5), 2)
        until_stored(lambda: engine.stream(second), range(100, 103), 0)
        until_stored(lambda: engine.stream(second), range(103, 106), 3)


class Flush(Job):
    ids = tuple(range(15))

    def prepare(self, engine: Engine) -> None:
        stream = engine.create_stream(self.table, BUFFERED)
        self.name = stream.name
        append(stream, range(20))

    def begin(self, engine: Engine) -> None:
        engine.flush(self.name, 14)

    def insist(self, engine: Engine) -> None:
        until_done(lambda: engine.flush(self.name, 14))


class BatchOfStreams(Job):
    ids = (*range(15), *range(100, 105))

    def prepare(self, engine: Engine) -> None:
        self.names: list[StreamName] = []
        for ids in (range(15), range(100, 105)):
            stream = engine.create_stream(self.table, PENDING)
            append(stream, ids)
            engine.finalize(stream.name)
            self.names.append(stream.name)

    def begin(self, engine: Engine) -> None:
        problems = engine.batch_commit(self.table, self.names).problems
        # After a lost response the streams may be committed already, all of them.
        assert {problem.storage for problem in problems} <= {StorageCode.STREAM_ALREADY_COMMITTED}
        assert len(problems) in (0, len(self.names))

    def insist(self, engine: Engine) -> None:
        until_done(lambda: self.begin(engine))


JOBS = [Appends, Flush, BatchOfStreams]


def check(store: Store, job: Job) -> None:
    """Check that each row is stored once and in order, and that the history is linear."""
    found = [id for id in ids_in(store, job.table) if id < OTHERS]
    assert sorted(found) == sorted(job.ids)
    if job.table == PLAIN:
        for first in (0, 100):
            mine = [id for id in found if id // 100 == first // 100]
            assert mine == sorted(mine), "rows of a stream are not in order"
    assert is_one_line(store, job.table)
