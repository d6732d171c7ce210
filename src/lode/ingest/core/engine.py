"""The engine of the server: tables and their write streams, without gRPC or HTTP.

Everything here is thread-safe. Methods that use a disk or a store block; ``Stream.append`` does not.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from lode.errors import LodeError, StoreError
from lode.ingest.catalog.catalog import Catalog
from lode.ingest.catalog.partitioning import TimePartitioning, expired_rows
from lode.ingest.core.limits import StagedBytes
from lode.ingest.core.metrics import Metrics
from lode.ingest.core.progress import METADATA
from lode.ingest.core.publish import BatchCommit, commit_streams, flush_rows
from lode.ingest.core.state_dir import Quarantine, StateDir
from lode.ingest.core.strategies import State, StreamType, select_strategy
from lode.ingest.core.streams import Stream
from lode.ingest.core.table_writer import TableWriter
from lode.ingest.log.record import LogDamaged
from lode.ingest.names import StreamName, TableName, parse_stream
from lode.ingest.status import Code, Refused, StorageCode, not_found

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future
    from pathlib import Path

    import pyarrow as pa

    from lode.ingest.catalog.lake import Lake
    from lode.ingest.catalog.table import TableDefinition
    from lode.ingest.log.stream_log import StreamLog
    from lode.ingest.settings import Settings
    from lode.store.protocol import Store

_THREADS: Final = 16

logger = logging.getLogger("lode.ingest")


class Engine:
    """The tables and write streams that one server has on one lake.

    Args:
        store: The lake.
        state: A local directory that no other server uses.
        settings: Limits.
        lake: The identity of the lake, if it is known.
    """

    def __init__(self, store: Store, state: Path, settings: Settings, lake: Lake | None = None) -> None:
        self.store = store
        self._confirm: Callable[[], None] = lake.check if lake is not None else lambda: None
        self.settings = settings
        self.metrics = Metrics()
        self.catalog = Catalog(store, location=settings.location, confirm=self._confirm)
        self.staged = StagedBytes(settings.staged_bytes, settings.client_staged_bytes)
        # Where rows of queries are kept that are too many for memory.
        self.results = state / "results"
        self.quarantine = Quarantine()
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="lode-ingest")
        self._lock = threading.Lock()
        self._writers: dict[tuple[TableName, int], TableWriter] = {}
        self._streams: dict[str, Stream] = {}
        # The clients of streams that count against the limit and are not in ``_streams`` yet.
        self._creating: Counter[str] = Counter()
        self._defaults: dict[TableName, Stream] = {}
        self._state = StateDir(state)
        try:
            self._recover()
        except BaseException:
            self._state.close()
            raise
        self.metrics.watch(
            staged_bytes=lambda: self.staged.bytes,
            damaged=lambda: len(self.quarantine),
            active=self.count_active,
        )

    # -- streams -------------------------------------------------------------------------------

    def create_stream(self, table: TableName, kind: StreamType, client: str = "") -> Stream:
        """Create a stream, which survives restarts. It counts for its client until it is done."""
        writer = self.writer(self.catalog.table(table).check_writable())
        self._reserve_stream(client)
        try:
            stream = self._create_stream(writer, kind, client)
        except BaseException:
            with self._lock:
                self._creating -= Counter({client: 1})
            raise
        with self._lock:
            self._creating -= Counter({client: 1})
            self._streams[stream.id] = stream
        return stream

    def _create_stream(self, writer: TableWriter, kind: StreamType, client: str) -> Stream:
        if select_strategy(kind).stages:
            writer.make_ready()
        name = StreamName(writer.name, f"s-{uuid.uuid4().hex}")
        created = datetime.now(UTC)
        facts = {
            "name": str(name),
            "type": kind.name,
            "created": created.isoformat(),
            "generation": writer.generation,
            "dataset": writer.dataset_id,
            "client": client,
        }
        log = self._state.create_log(name.stream, facts)
        stream = Stream(name, kind, created, writer, log, self._pool, self.staged.of(client), client)
        stream.count_staged()
        writer.progress.follow(stream.id)
        return stream

    def stream(self, name: StreamName) -> Stream:
        """Return the stream of this name. A table always has its default stream."""
        return self.open_stream(name)[0]

    def open_stream(self, name: StreamName) -> tuple[Stream, TableDefinition]:
        """Return the stream of this name, and the current definition of its table."""
        if name.is_default:
            definition = self.catalog.table(name.table)
            return self._default(definition), definition
        found = self._streams.get(name.stream)
        self.quarantine.check(name)
        if found is not None and found.name == name:
            definition = self.catalog.table(name.table)
            if definition.generation == found.writer.generation:
                return found, definition
        raise not_found(str(name), StorageCode.STREAM_NOT_FOUND)

    def append(self, table: TableName, batch: pa.RecordBatch) -> Future[int | None]:
        """Append to the default stream of a table."""
        return self._default(self.catalog.table(table)).append(batch, None)

    def flush(self, name: StreamName, offset: int) -> int:
        """Show the rows of a BUFFERED stream up to and including ``offset``."""
        return flush_rows(self.stream(name), offset)

    def finalize(self, name: StreamName) -> int:
        """Finalize a stream; returns its number of rows."""
        stream = self.stream(name)
        stream.finalize()
        return stream.position.durable

    def batch_commit(self, table: TableName, names: Sequence[StreamName]) -> BatchCommit:
        """Commit PENDING streams of one table in one snapshot, all or none."""
        return commit_streams(self.writer(self.catalog.table(table)), names, self.stream)

    def streams(self) -> list[Stream]:
        """All streams but the default ones, oldest first."""
        with self._lock:
            return sorted(self._streams.values(), key=lambda stream: stream.created)

    def count_active(self, kind: StreamType) -> int:
        """Count the open streams of this type, without those whose table is known to be deleted."""
        return sum(
            stream.type is kind and stream.position.state is State.OPEN and not self._is_orphan(stream)
            for stream in self.streams()
        )

    # -- lifecycle -----------------------------------------------------------------------------

    def expire(self) -> int:
        """Remove unused streams after their time to live, and free the space of streams that are done.

        Streams that are done are kept for clients that repeat a request, but no more of them than may be
        open. Streams of deleted tables are removed at once. Returns the number of removed streams.
        """
        try:
            self._confirm()
        except StoreError as error:
            # Their rows wait for the lake. The time without it does not count.
            logger.warning("no write stream is removed while the lake is away: %s", error)
            for stream in self.streams():
                stream.last_used = time.monotonic()
            return 0
        dropped = self._drop_orphans()
        now = time.monotonic()
        by_use = sorted(self.streams(), key=lambda stream: stream.last_used)
        expired = [stream for stream in by_use if stream.last_used < now - self._time_to_live(stream)]
        removed = {stream.id for stream in expired}
        done = [stream for stream in by_use if stream.is_done and stream.id not in removed]
        expired += done[: max(0, len(done) - self.settings.streams)]
        for stream in expired:
            with self._lock:
                self._streams.pop(stream.id, None)
            logger.info("write stream %s was not used for long and is removed", stream.name)
            self._remove(stream)
        for stream in self.streams():
            stream.compact()
        return dropped + len(expired)

    def _time_to_live(self, stream: Stream) -> float:
        ttl = self.settings.stream_ttl
        return ttl if stream.position.accepted else min(ttl, self.settings.empty_stream_ttl)

    def writers(self) -> list[TableWriter]:
        """The writers of the tables that were written or opened."""
        with self._lock:
            return list(self._writers.values())

    def expire_partitions(self) -> int:
        """Remove the rows of expired partitions from every table of the lake; returns their number.

        The removal is a snapshot. Earlier snapshots keep the rows until ``lode.expire``.
        """
        removed = 0
        for project in self.catalog.list_projects():
            for dataset in self.catalog.list_datasets(project):
                for table in self.catalog.list_tables(dataset.name):
                    removed += self._expire_partitions_of(table)
        return removed

    def _expire_partitions_of(self, table: TableDefinition) -> int:
        partitioning = table.partitioning
        if not isinstance(partitioning, TimePartitioning) or not partitioning.expiration_ms:
            return 0
        dataset = table.open(self.store)
        if not dataset.exists:
            return 0
        expired = expired_rows(partitioning, table.schema, time.time_ns() // 1_000_000)
        try:
            change = dataset.delete(expired, {METADATA: {"expired": True}}, on_conflict="redo")
        except LodeError as error:  # the other tables still expire, and the next round tries again
            logger.warning("expired partitions of %s could not be removed: %s", table.name.short, error)
            return 0
        rows = change.removed.rows - change.added.rows
        if rows:
            logger.info("%d rows of expired partitions of %s were removed", rows, table.name.short)
        return rows

    def close(self) -> None:
        """Wait for work in progress, then release the state directory."""
        self._pool.shutdown(wait=True)
        for stream in self.streams():
            if stream.log is not None:
                stream.log.close()
        for writer in self._writers.values():
            writer.progress.save()
        self._state.close()

    # -- internals -----------------------------------------------------------------------------

    def _reserve_stream(self, client: str) -> None:
        """Count a stream before it is created, or refuse it."""
        if self._refusal(client) is not None:
            self._drop_orphans()
        with self._lock:
            refusal = self._refusal(client)
            if refusal is not None:
                raise refusal
            self._creating[client] += 1

    def _refusal(self, client: str) -> Refused | None:
        """Why a client may not have another stream; None if it may."""
        limit, share = self.settings.streams, self.settings.client_streams
        taken = len(self._streams) + self._creating.total()
        if taken < min(limit, share):
            return None  # without a look at each
        open_streams = [stream for stream in list(self._streams.values()) if not stream.is_done]
        own = sum(stream.client == client for stream in open_streams) + self._creating[client]
        taken = len(open_streams) + self._creating.total()
        if own >= share:
            taken, limit, whose = own, share, " of this client"
        else:
            whose = ""
        if taken < limit:
            return None
        return Refused(
            Code.RESOURCE_EXHAUSTED,
            f"{taken} write streams{whose} are open, the limit is {limit}: "
            "finalize and commit some, or raise the limit.",
        )

    def _drop_orphans(self) -> int:
        """Remove the streams of deleted tables; returns how many."""
        streams = self.streams()
        for table in {stream.name.table for stream in streams}:
            with suppress(Refused, LodeError):  # the next expiry tries again
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

    def writer(self, definition: TableDefinition) -> TableWriter:
        """The only place of this server that commits to a table."""
        key = (definition.name, definition.generation)
        writer = self._writers.get(key)
        if writer is not None:
            return writer
        with self._lock:
            if key not in self._writers:
                writer = self._new_writer(definition)
                writer.recover_progress(self.quarantine.created)
                self._writers[key] = writer
            return self._writers[key]

    def _new_writer(self, definition: TableDefinition) -> TableWriter:
        return TableWriter(
            definition,
            self.catalog,
            self.store,
            self._pool,
            self._state.checkpoint(definition.dataset_id),
            self.metrics,
            self._catch_up,
            self._confirm,
        )

    def _default(self, definition: TableDefinition) -> Stream:
        table, writer = definition.name, self.writer(definition.check_writable())
        found = self._defaults.get(table)
        if found is None or found.writer is not writer:
            found = Stream(
                table.default_stream,
                StreamType.DEFAULT,
                writer.created,
                writer,
                None,
                self._pool,
                self.staged.of(""),
            )
            self._defaults[table] = found
        return found

    def _catch_up(self, stream_id: str, rows: int) -> None:
        stream = self._streams.get(stream_id)
        if stream is not None:
            stream.catch_up(rows)

    def _recover(self) -> None:
        """Restore the streams of an earlier process as of their last response."""
        by_writer: dict[TableWriter, list[Stream]] = {}
        for log in self._state.open_logs(self.quarantine):
            stream = self._reopen(log)
            if stream is None:
                log.remove()
            else:
                by_writer.setdefault(stream.writer, []).append(stream)
        self._state.find_missing(self.quarantine)
        for writer, streams in by_writer.items():
            # Quarantined streams of all tables too: their logs may be restored later.
            created = {stream.id: stream.created for stream in streams}
            writer.recover_progress({**self.quarantine.created, **created})
            for stream in streams:
                try:
                    stream.resume()
                except LogDamaged as error:
                    self.quarantine.add(stream.id, error)
                    continue
                self._streams[stream.id] = stream
        if self._streams:
            logger.info("%d write streams continue where they were", len(self._streams))

    def _reopen(self, log: StreamLog) -> Stream | None:
        """Return the stream of a log; None if its table was deleted."""
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
        client = str(facts.get("client", ""))  # logs of earlier versions have none
        return Stream(
            name, kind, created, self._writers[key], log, self._pool, self.staged.of(client), client
        )

    def _remove(self, stream: Stream) -> None:
        stream.remove()
        stream.writer.progress.forget(stream.id)
