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
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from lode.errors import ComponentMismatchError, LodeError
from lode.ingest.catalog.catalog import Catalog
from lode.ingest.core.batch_commit import BatchCommit, commit_streams
from lode.ingest.core.flush import flush_rows
from lode.ingest.core.limits import StagedBytes
from lode.ingest.core.metrics import Metrics
from lode.ingest.core.position import State, StreamType
from lode.ingest.core.quarantine import Damaged
from lode.ingest.core.state_dir import hold
from lode.ingest.core.strategies import select_strategy
from lode.ingest.core.streams import Stream
from lode.ingest.core.table_writer import TableWriter
from lode.ingest.log.acknowledged import LogMissing, read_acknowledged
from lode.ingest.log.stream_log import LogDamaged, LogIncomplete, StreamLog
from lode.ingest.names import StreamName, TableName, parse_stream
from lode.ingest.status import Code, Refused, StorageCode, not_found

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
        # Streams that are counted by the limit and not in the table above yet.
        self._creating = 0
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
        self._reserve_stream()
        try:
            stream = self._create_stream(writer, kind)
        except BaseException:
            with self._lock:
                self._creating -= 1
            raise
        with self._lock:
            self._creating -= 1
            self._streams[stream.id] = stream
        return stream

    def _create_stream(self, writer: TableWriter, kind: StreamType) -> Stream:
        if select_strategy(kind).stages:
            writer.make_ready()
        table = writer.name
        name = StreamName(table, f"s-{uuid.uuid4().hex}")
        created = datetime.now(UTC)
        facts = {
            "name": str(name),
            "type": kind.name,
            "created": created.isoformat(),
            "generation": writer.generation,
            "dataset": writer.open()[0].dataset_id,
        }
        log = StreamLog.create(
            self._state / "streams" / name.stream, facts, acknowledged=self._acknowledged(name.stream)
        )
        stream = Stream(name, kind, created, writer, log, self._pool, self.staged)
        stream.count_staged()
        writer.progress.follow(stream.id)
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
        stream.finalize()
        return stream.position.durable

    def batch_commit(self, table: TableName, names: Sequence[StreamName]) -> BatchCommit:
        """Show the rows of many PENDING streams of one table at once, or of none."""
        return commit_streams(self._writer(table), names, self.stream)

    def streams(self) -> list[Stream]:
        """Every stream but the default ones, oldest first."""
        with self._lock:
            return sorted(self._streams.values(), key=lambda stream: stream.created)

    def count_active(self, kind: StreamType) -> int:
        """How many streams of this type take rows, without those whose table is known to be deleted."""
        return sum(
            stream.type is kind and stream.position.state is State.OPEN and not self._is_orphan(stream)
            for stream in self.streams()
        )

    # -- life ----------------------------------------------------------------------------------

    def expire(self) -> int:
        """Remove the streams nobody has used for longer than they live, and dead rows; returns how many.

        Streams that are done are kept for clients that ask again, but not more of them than may be open.
        Those of deleted tables go at once.
        """
        dropped = self._drop_orphans()
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
        return dropped + len(expired)

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

    def _reserve_stream(self) -> None:
        """Count a stream that is about to be created, or refuse it."""
        limit = self.settings.streams
        if len(self._streams) + self._creating >= limit:
            self._drop_orphans()
        with self._lock:
            taken = len(self._streams) + self._creating
            if taken >= limit:
                taken -= sum(stream.is_done for stream in self._streams.values())
            if taken >= limit:
                raise Refused(
                    Code.RESOURCE_EXHAUSTED,
                    f"{taken} write streams are open, the limit is {limit}: "
                    "finalize and commit some, or raise the limit.",
                )
            self._creating += 1

    def _drop_orphans(self) -> int:
        """Remove the streams of deleted tables; returns how many."""
        streams = self.streams()
        for table in {stream.name.table for stream in streams}:
            with suppress(Refused, LodeError):  # asked again with the next expiry
                self.catalog.table(table)
        orphans = [stream for stream in streams if self._is_orphan(stream)]
        for stream in orphans:
            with self._lock:
                self._streams.pop(stream.id, None)
            logger.info("write stream %s is removed, as its table was deleted", stream.name)
            self._remove(stream)
        return len(orphans)

    def _is_orphan(self, stream: Stream) -> bool:
        return self.catalog.is_known_deleted(stream.name.table, stream.writer.generation)

    def _acknowledged(self, stream: str) -> Path:
        return self._state / "acknowledged" / stream

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
                log = StreamLog.open(directory, acknowledged=self._acknowledged(directory.name))
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
            by_writer.setdefault(stream.writer, []).append(stream)
        self._find_missing()
        for writer, streams in by_writer.items():
            self._recover_progress(writer, streams)
            for stream in streams:
                try:
                    self._resume(stream)
                except LogDamaged as error:
                    self.damaged.add(stream.id, error)
                    continue
                self._streams[stream.id] = stream
        if self._streams:
            logger.info("%d write streams continue where they were", len(self._streams))

    def _find_missing(self) -> None:
        """Find the streams of which nothing but the length is left."""
        for record in sorted((self._state / "acknowledged").iterdir()):
            directory = self._state / "streams" / record.name
            if directory.exists():
                continue
            length = read_acknowledged(record)
            if length is None:
                record.unlink()  # it was never finished, as its log
            else:
                self.damaged.add(record.name, LogMissing(directory, record, length.end))

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
        if log.marks.get("finalized"):
            position.state = State.FINALIZED
        # The rows of a stream that is done may have been removed without ever being visible.
        start = 0 if stream.is_done else log.start
        if stream.strategy.stages and not start <= position.visible <= log.end:
            raise LogDamaged(
                log.directory,
                0,
                f"it has rows {log.start} to {log.end - 1}, but the next row to show is {position.visible}",
            )
        position.durable = log.end if stream.strategy.stages else position.visible
        position.accepted = position.durable
        stream.count_staged()
        if shown is not None:
            stream.show(shown.rows, shown.at)

    def _remove(self, stream: Stream) -> None:
        stream.remove()
        stream.writer.progress.forget(stream.id)
