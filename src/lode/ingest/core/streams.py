"""Write streams: a position, the rules of the stream's type, and the log that keeps its rows and state."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from lode.errors import StoreError
from lode.ingest.core.append import Append, fail_all, succeed
from lode.ingest.core.group import Group
from lode.ingest.core.strategies import State, StreamPosition, StreamType, select_strategy
from lode.ingest.log.record import LogDamaged, RowsEncoder
from lode.ingest.status import Code, Refused

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future
    from datetime import datetime

    import pyarrow as pa

    from lode.ingest.core.limits import ClientStaged
    from lode.ingest.core.table_writer import TableWriter
    from lode.ingest.log.stream_log import StreamLog
    from lode.ingest.names import StreamName

logger = logging.getLogger("lode.ingest")

# Arrow data that is written to a log with one sync.
_MAX_SYNC_BYTES: Final = 32 << 20


class AppendInFlight(Exception):  # noqa: N818, a matter of time rather than an error
    """An append with this offset is being written. ``until`` is done when its outcome is known."""

    def __init__(self, until: Future[int | None]) -> None:
        super().__init__("an append with this offset is in flight")
        self.until = until


class Stream:
    """One write stream of a table.

    Args:
        name: Its name.
        kind: Its type.
        created: When it was created; for the default stream, when its table was created.
        writer: The writer of its table, which commits the rows of streams that stage none.
        log: Keeps its rows and state over a restart; None for the default stream, which has no state.
        pool: The threads that write to the log.
        staged: The staged bytes of its client.
        client: Who created it.
    """

    def __init__(
        self,
        name: StreamName,
        kind: StreamType,
        created: datetime,
        writer: TableWriter,
        log: StreamLog | None,
        pool: Executor,
        staged: ClientStaged,
        client: str = "",
    ) -> None:
        self.name = name
        self.id = name.stream
        self.created = created
        self.writer = writer
        self.log = log
        self.position = StreamPosition(str(name), kind)
        self.strategy = select_strategy(kind)
        self.committed_at: datetime | None = None
        self.last_used = time.monotonic()
        self.client = client
        self._staged = staged
        self._counted = 0
        self._counting = threading.Lock()
        self._encoder = RowsEncoder()
        # Held while the state is FINALIZED and rows are still being written.
        self._finalizing = threading.Lock()
        self._last: Future[int | None] | None = None
        self._sink: Group[Append] = (
            Group(pool, self._write_log, weigh=lambda append: append.weight, max_weight=_MAX_SYNC_BYTES)
            if self.strategy.stages
            else writer.appends
        )

    @property
    def type(self) -> StreamType:
        return self.position.type

    @property
    def is_done(self) -> bool:
        """Whether the stream has reached its final state."""
        match self.type:
            case StreamType.COMMITTED | StreamType.BUFFERED:
                return self.position.state is State.FINALIZED
            case StreamType.PENDING:
                return self.position.state is State.COMMITTED
        return False

    def check(self, offset: int | None) -> None:
        """Refuse an append by its offset or the stream's state, before its rows are decoded.

        Raises:
            AppendInFlight: The outcome of an append with this offset is not known yet.
        """
        with self.position.lock:
            self._check(offset)

    def append(self, batch: pa.RecordBatch, offset: int | None) -> Future[int | None]:
        """Accept rows in order; the future is done when they are durable.

        Raises:
            AppendInFlight: The outcome of an append with this offset is not known yet.
        """
        self.last_used = time.monotonic()
        with self.position.lock:
            self._check(offset)
            reserved = self._encoder.size(batch) if self.strategy.stages else 0
            if reserved:
                self._staged.reserve(reserved)
            first = self.strategy.accept(self.position, batch.num_rows)
            append = Append(self.id, self.position, batch, first, reserved)
            self._last = append.answer
            self._sink.put(append)
        return append.answer

    def resume(self) -> None:
        """Restore the position after a restart, from the log and the visible rows.

        Raises:
            LogDamaged: The log does not continue the visible rows.
        """
        log, position = self.log, self.position
        assert log is not None
        visible = self.writer.progress.visible(self.id)
        position.visible = visible.rows if visible else 0
        if log.marks.get("finalized"):
            position.state = State.FINALIZED
        # The rows of a stream that is done may have been trimmed without ever being visible.
        start = 0 if self.is_done else log.start
        if self.strategy.stages and not start <= position.visible <= log.end:
            raise LogDamaged(
                log.directory,
                0,
                f"it has rows {log.start} to {log.end - 1}, but the next row to show is {position.visible}",
            )
        position.durable = log.end if self.strategy.stages else position.visible
        position.accepted = position.durable
        self.count_staged()
        if visible is not None:
            self.show(visible.rows, visible.at)

    def catch_up(self, rows: int) -> None:
        """Take in rows up to here that a commit from before a restart made visible."""
        position = self.position
        with position.lock:
            position.visible = max(position.visible, rows)
            if not self.strategy.stages and rows > position.durable:
                position.roll_back(durable=rows)

    def finalize(self) -> bool:
        """Accept no more rows; returns whether it was open. Blocks until accepted rows are durable."""
        with self._finalizing:
            with self.position.lock:
                self.strategy.check_finalize(self.position)
                last = self._last
                was_open = self.position.state is State.OPEN
                if was_open:
                    self.position.state = State.FINALIZED
            if last is not None:
                last.exception()  # waits; an error goes to the caller of that append
            if was_open:
                self._mark_finalized()
        self.count_staged()
        self.last_used = time.monotonic()
        return was_open

    def check_commit(self) -> None:
        """Refuse a batch commit in the wrong state. Waits for a finalize in progress and its last rows."""
        with self._finalizing:
            self.strategy.check_commit(self.position)

    def show(self, rows: int, at: datetime) -> None:
        """Record that the rows up to here are in a snapshot, and trim them from the log."""
        with self.position.lock:
            self.position.visible = max(self.position.visible, rows)
            if self.type is StreamType.PENDING:
                self.position.state = State.COMMITTED
                self.committed_at = at
        self.last_used = time.monotonic()
        if self.log is not None and self.strategy.stages:
            try:
                self.log.trim(rows)
            except OSError as error:  # the commit is done; the next trim or a restart frees the space
                logger.warning("the log of %s could not be trimmed: %s", self.name, error)
            self.count_staged()

    def count_staged(self, reserved: int = 0) -> None:
        """Count the bytes of its log in place of those reserved. Appends and flushes call it concurrently."""
        if self.log is not None and self.strategy.stages:
            with self._counting:
                held = 0 if self.is_done else self.log.bytes
                self._staged.add(held - self._counted - reserved)
                self._counted = held

    def compact(self) -> None:
        """Free the disk space of a stream that is done. It costs syncs, so no request waits for it."""
        if self.log is None or not self.strategy.stages or not self.is_done:
            return
        # A flush that began before the stream was finalized may still read its rows, and a finalize that
        # fails opens the stream again.
        with self.writer.staged_lock, self._finalizing:
            if self.is_done:
                self.log.trim(self.log.end, to_nothing=True)

    def remove(self) -> None:
        """Delete its log with all staged rows."""
        assert self.log is not None
        self.log.remove()
        with self._counting:
            self._staged.add(-self._counted)
            self._counted = 0

    def facts(self) -> dict[str, Any]:
        """The fields that the console and the command line show."""
        position = self.position
        return {
            "name": str(self.name),
            "type": self.type.name,
            "state": position.state.value,
            "rows": position.durable,
            "visible": position.visible,
            "staged_bytes": self.log.bytes if self.log is not None and self.strategy.stages else 0,
            "created": self.created.isoformat(),
        }

    def _check(self, offset: int | None) -> None:
        # Rows exist once they are durable. Accepted rows may still fail, so they do not exist yet.
        at = self.position
        if offset is not None and at.state is State.OPEN and at.durable <= offset < at.accepted:
            assert self._last is not None
            raise AppendInFlight(self._last)
        self.strategy.check(at, offset)

    def _write_log(self, group: list[Append]) -> None:
        assert self.log is not None
        live = [append for append in group if append.begin()]
        refusal: Refused | None = None
        try:
            self.log.append([append.batch for append in live])
        except Exception as error:  # every append needs an answer
            refusal = Refused(
                Code.UNAVAILABLE, f"Stream {self.name} could not be written ({error}): try again."
            )
        self.count_staged(sum(append.reserved for append in group))
        if refusal is None:
            succeed(live, visible=False)
        else:
            fail_all(live, refusal)

    def _mark_finalized(self) -> None:
        assert self.log is not None
        try:
            self.log.mark("finalized", True)
        except (OSError, StoreError) as error:
            self.position.state = State.OPEN
            raise Refused(
                Code.UNAVAILABLE, f"Stream {self.name} could not be finalized ({error}): try again."
            ) from error
