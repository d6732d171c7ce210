"""The engine of the server: tables and their streams, without a word of gRPC or HTTP.

Everything here is safe for threads. What waits for a disk or a store blocks; ``Stream.append`` does not.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from lode.errors import ComponentMismatchError
from lode.ingest.batch_commit import BatchCommit, commit_streams
from lode.ingest.budget import StagedBytes
from lode.ingest.catalog.catalog import Catalog
from lode.ingest.damaged import Damaged
from lode.ingest.flush import flush_rows
from lode.ingest.log.stream_log import LogDamaged, LogIncomplete, StreamLog
from lode.ingest.metrics import Metrics
from lode.ingest.names import StreamName, TableName, parse_stream
from lode.ingest.position import State, StreamType
from lode.ingest.state import hold
from lode.ingest.status import Code, Refused, StorageCode, not_found
from lode.ingest.strategies import select_strategy
from lode.ingest.streams import Stream
from lode.ingest.table import TableWriter

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future
    from pathlib import Path

    import pyarrow as pa

    from lode.ingest.catalog.table import TableDefinition
    from lode.ingest.settings import Settings
    from lode.store.protocol import Store

_THREADS: Final = 16

logger = logging.getLogger("lode.ingest")


class Engine:
    """The tables and streams of one lake, as one server holds them.

    Args:
        store: The lake.
        state: A local directory that is this server's alone.
        settings: Limits.
    """

    def __init__(self, store: Store, state: Path, settings: Settings) -> None:
        self.store = store
        self.settings = settings
        self.metrics = Metrics()
        self.catalog = Catalog(store, location=settings.location)
        self.staged = StagedBytes(settings.staged_bytes)
        self._state = state
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="lode-ingest")
        self._lock = threading.Lock()
        self._writers: dict[tuple[TableName, int], TableWriter] = {}
        self._streams: dict[str, Stream] = {}
        self._defaults: dict[TableName, Stream] = {}
        self.damaged = Damaged()
        self._held = hold(state)
        try:
            self._recover()
        except BaseException:
            os.close(self._held)
            raise
        self.metrics.watch(self)

    # -- streams -------------------------------------------------------------------------------

    def create_stream(self, table: TableName, kind: StreamType) -> Stream:
        """A new stream, which survives from here on."""
        writer = self._writer(table)
        self._check_room()
        if select_strategy(kind).stages:
            writer.make_ready()
        name = StreamName(table, f"s-{uuid.uuid4().hex}")
        created = datetime.now(UTC)
        facts = {
            "name": str(name),
            "type": kind.name,
            "created": created.isoformat(),
            "generation": writer.generation,
            "dataset": writer.open()[0].dataset_id,
        }
        log = StreamLog.create(self._state / "streams" / name.stream, facts)
        stream = Stream(name, kind, created, writer, log, self._pool, self.staged)
        stream.count_staged()
        writer.progress.follow(stream.id)
        with self._lock:
            self._streams[name.stream] = stream
        self.metrics.created(stream)
        return stream

    def stream(self, name: StreamName) -> Stream:
        """The stream of this name; the default one exists as soon as its table does."""
        if name.is_default:
            return self._default(name.table)
        found = self._streams.get(name.stream)
        self.damaged.check(name)
        if found is None or found.name != name or not self._is_current(found):
            raise not_found(str(name), StorageCode.STREAM_NOT_FOUND)
        return found

    def append(self, table: TableName, batch: pa.RecordBatch) -> Future[int | None]:
        """Append to a table's default stream."""
        return self._default(table).append(batch, None)

    def flush(self, name: StreamName, offset: int) -> int:
        """Show the rows of a BUFFERED stream up to and including ``offset``."""
        return flush_rows(self.stream(name), offset)

    def finalize(self, name: StreamName) -> int:
        """Close a stream for rows; returns how many it has."""
        stream = self.stream(name)
        if stream.finalize():
            self.metrics.finalized(stream)
        return stream.position.durable

    def batch_commit(self, table: TableName, names: Sequence[StreamName]) -> BatchCommit:
        """Show the rows of many PENDING streams of one table at once, or of none."""
        return commit_streams(self._writer(table), names, self.stream)

    def streams(self) -> list[Stream]:
        """Every stream but the default ones, oldest first."""
        with self._lock:
            return sorted(self._streams.values(), key=lambda stream: stream.created)

    # -- life ----------------------------------------------------------------------------------

    def expire(self) -> int:
        """Remove the streams nobody has used for longer than they live, and dead rows; returns how many.

        Streams that are done are kept for clients that ask again, but not more of them than may be open.
        """
        limit = time.monotonic() - self.settings.stream_ttl
        by_use = sorted(self.streams(), key=lambda stream: stream.last_used)
        expired = [stream for stream in by_use if stream.last_used < limit]
        done = [stream for stream in by_use[len(expired) :] if stream.is_done]
        expired += done[: max(0, len(done) - self.settings.streams)]
        for stream in expired:
            with self._lock:
                self._streams.pop(stream.id, None)
            logger.info("write stream %s was not used for long and is removed", stream.name)
            self._remove(stream)
        for stream in self.streams():
            stream.compact()
        return len(expired)

    def close(self) -> None:
        """Wait for what is under way, and let the state go."""
        self._pool.shutdown(wait=True)
        for stream in self.streams():
            if stream.log is not None:
                stream.log.close()
        for writer in self._writers.values():
            writer.progress.save()
        os.close(self._held)

    # -- inside --------------------------------------------------------------------------------

    def _check_room(self) -> None:
        if len(self._streams) < self.settings.streams:
            return
        unfinished = sum(not stream.is_done for stream in self.streams())
        if unfinished >= self.settings.streams:
            raise Refused(
                Code.RESOURCE_EXHAUSTED,
                f"{unfinished} write streams are open, the limit is {self.settings.streams}: "
                "finalize and commit some, or raise the limit.",
            )

    def _writer(self, table: TableName) -> TableWriter:
        definition = self.catalog.table(table)
        key = (table, definition.generation)
        writer = self._writers.get(key)
        if writer is not None:
            return writer
        with self._lock:
            if key not in self._writers:
                writer = self._new_writer(definition)
                self._recover_progress(writer, [])
                self._writers[key] = writer
            return self._writers[key]

    def _new_writer(self, definition: TableDefinition) -> TableWriter:
        # A dataset's id may hold what a file's name may not.
        file = self._state / "tables" / f"{sha256(definition.dataset_id.encode()).hexdigest()[:32]}.json"
        return TableWriter(
            definition.name,
            definition.generation,
            self.catalog,
            self.store,
            self._pool,
            file,
            self.metrics,
            self._moved,
        )

    def _default(self, table: TableName) -> Stream:
        writer = self._writer(table)
        found = self._defaults.get(table)
        if found is None or found.writer is not writer:
            created = datetime.fromtimestamp(writer.open()[0].created_ms / 1000, UTC)
            found = Stream(
                table.default_stream, StreamType.DEFAULT, created, writer, None, self._pool, self.staged
            )
            self._defaults[table] = found
        return found

    def _is_current(self, stream: Stream) -> bool:
        """Whether the stream's table is still the one it was created for; refuses if there is none."""
        assert stream.log is not None
        return bool(self.catalog.table(stream.name.table).generation == stream.log.facts["generation"])

    def _moved(self, stream_id: str, rows: int) -> None:
        stream = self._streams.get(stream_id)
        if stream is not None:
            stream.moved(rows)

    def _recover(self) -> None:
        """Find the streams of an earlier life as they were at its last answer."""
        by_writer: dict[TableWriter, list[Stream]] = {}
        for directory in sorted((self._state / "streams").iterdir()):
            try:
                log = StreamLog.open(directory)
            except LogIncomplete:
                shutil.rmtree(directory, ignore_errors=True)  # nobody was told of it
                continue
            except (LogDamaged, OSError) as error:
                self.damaged.add(directory.name, error)
                continue
            stream = self._reopen(log)
            if stream is None:
                log.remove()
                continue
            self._streams[stream.id] = stream
            by_writer.setdefault(stream.writer, []).append(stream)
        for writer, streams in by_writer.items():
            self._recover_progress(writer, streams)
            for stream in streams:
                self._resume(stream)
        if self._streams:
            logger.info("%d write streams continue where they were", len(self._streams))

    def _reopen(self, log: StreamLog) -> Stream | None:
        """The stream of a log; None if its table is gone."""
        facts = log.facts
        name = parse_stream(facts["name"])
        try:
            definition = self.catalog.table(name.table)
        except Refused:
            return None
        if definition.generation != facts["generation"]:
            return None
        key = (name.table, definition.generation)
        if key not in self._writers:
            self._writers[key] = self._new_writer(definition)
        created = datetime.fromisoformat(facts["created"])
        kind = StreamType[facts["type"]]
        return Stream(name, kind, created, self._writers[key], log, self._pool, self.staged)

    def _recover_progress(self, writer: TableWriter, streams: Sequence[Stream]) -> None:
        # Those of damaged logs as well, whichever table they are of: their logs may be brought back.
        created = {**self.damaged.created, **{stream.id: stream.created for stream in streams}}
        try:
            writer.progress.recover(writer.open()[1], created)
        except ComponentMismatchError as error:
            raise writer.mismatched(error) from error

    def _resume(self, stream: Stream) -> None:
        log, position = stream.log, stream.position
        assert log is not None
        shown = stream.writer.progress.shown(stream.id)
        position.visible = shown.rows if shown else 0
        position.durable = log.end if stream.strategy.stages else position.visible
        position.accepted = position.durable
        if log.marks.get("finalized"):
            position.state = State.FINALIZED
        stream.count_staged()
        if shown is not None:
            stream.show(shown.rows, shown.at)

    def _remove(self, stream: Stream) -> None:
        if stream.position.state is State.OPEN:
            self.metrics.finalized(stream)
        stream.remove()
        stream.writer.progress.forget(stream.id)
