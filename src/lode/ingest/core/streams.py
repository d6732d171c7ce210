"""Write streams: a position, the rules of its type, and the log in which its rows and state survive."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from lode.errors import StoreError
from lode.ingest.core.append import Append, succeed
from lode.ingest.core.group import Group
from lode.ingest.core.position import Position, State, StreamType
from lode.ingest.core.strategies import select_strategy
from lode.ingest.log.record import RowsEncoder
from lode.ingest.status import Code, Refused

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future
    from datetime import datetime

    import pyarrow as pa

    from lode.ingest.core.limits import StagedBytes
    from lode.ingest.core.table_writer import TableWriter
    from lode.ingest.log.stream_log import StreamLog
    from lode.ingest.names import StreamName

logger = logging.getLogger("lode.ingest")

# How much staged data one sync to disk covers at most.
_BYTES_PER_SYNC: Final = 32 << 20


class Underway(Exception):  # noqa: N818, a matter of time rather than an error
    """The offset is taken by an append on its way: when that is done, it is known whether it is there."""

    def __init__(self, until: Future[int | None]) -> None:
        super().__init__("an append with this offset is on its way")
        self.until = until


class Stream:
    """One write stream of a table.

    Args:
        name: Its name.
        kind: Its type.
        created: When it was created; the default stream is as old as its table.
        writer: The writer of its table, which commits what it does not stage.
        log: Where it survives a restart; None for the default stream, which has nothing to lose.
        pool: The threads that write to the log.
        staged: What all streams together have staged.
    """

    def __init__(
        self,
        name: StreamName,
        kind: StreamType,
        created: datetime,
        writer: TableWriter,
        log: StreamLog | None,
        pool: Executor,
        staged: StagedBytes,
    ) -> None:
        self.name = name
        self.id = name.stream
        self.created = created
        self.writer = writer
        self.log = log
        self.position = Position(str(name), kind)
        self.strategy = select_strategy(kind)
        self.committed_at: datetime | None = None
        self.last_used = time.monotonic()
        self._staged = staged
        self._counted = 0
        self._counting = threading.Lock()
        self._encoder = RowsEncoder()
        self._lock = threading.Lock()
        # Held while the state says FINALIZED and rows are still under way.
        self._finalizing = threading.Lock()
        self._last: Future[int | None] | None = None
        self._sink: Group[Append] = (
            Group(pool, self._write_log, weigh=lambda append: append.weight, most=_BYTES_PER_SYNC)
            if self.strategy.stages
            else writer.appends
        )

    @property
    def type(self) -> StreamType:
        return self.position.type

    @property
    def is_done(self) -> bool:
        """Whether nothing more can become of it."""
        at = self.position
        match self.type:
            case StreamType.COMMITTED | StreamType.BUFFERED:
                return at.state is State.FINALIZED
            case StreamType.PENDING:
                return at.state is State.COMMITTED
        return False

    def check(self, offset: int | None) -> None:
        """Refuse an append whose offset or moment is wrong, before its rows are decoded.

        Raises:
            Underway: It is too soon to tell.
        """
        with self._lock:
            self._check_underway(offset)
            self.strategy.check(self.position, offset)

    def append(self, batch: pa.RecordBatch, offset: int | None) -> Future[int | None]:
        """Accept rows in order; the future is done when they are durable.

        Raises:
            Underway: It is too soon to tell.
        """
        self.last_used = time.monotonic()
        with self._lock:
            self._check_underway(offset)
            self.strategy.check(self.position, offset)
            reserved = self._encoder.size(batch) if self.strategy.stages else 0
            if reserved:
                self._staged.reserve(reserved)
            first = self.strategy.accept(self.position, offset, batch.num_rows)
            append = Append(self, batch, first, self.position.epoch)
            append.reserved = reserved
            self._last = append.answer
            self._sink.put(append)
        return append.answer

    def advance(self, rows: int, *, visible: bool) -> None:
        """Rows up to here are on disk, and visible."""
        with self._lock:
            self.position.durable = rows
            if visible:
                self.position.visible = rows

    def step_back(self) -> None:
        """An append failed: those accepted after it must be sent again."""
        with self._lock:
            self.position.step_back()

    def moved(self, rows: int) -> None:
        """A commit nobody waited for any more, of an earlier life of this server, showed rows up to here."""
        with self._lock:
            self.position.visible = max(self.position.visible, rows)
            if not self.strategy.stages and rows > self.position.durable:
                self.position.step_back(durable=rows)

    def finalize(self) -> bool:
        """Take no more rows; tells whether it did until now. Blocks until those under way are done."""
        with self._finalizing:
            with self._lock:
                self.strategy.check_finalize(self.position)
                last = self._last
                was_open = self.position.state is State.OPEN
                if was_open:
                    self.position.state = State.FINALIZED
            if last is not None:
                last.exception()  # waits; its caller hears of it
            if was_open:
                self._mark_finalized()
        self.count_staged()
        self.last_used = time.monotonic()
        return was_open

    def check_commit(self) -> None:
        """Refuse a batch commit that cannot be; waits for a finalize under way, with the last of its rows."""
        with self._finalizing:
            self.strategy.check_commit(self.position)

    def show(self, rows: int, at: datetime) -> None:
        """Rows up to here are in a snapshot: the log need not keep them."""
        with self._lock:
            self.position.visible = max(self.position.visible, rows)
            if self.type is StreamType.PENDING:
                self.position.state = State.COMMITTED
                self.committed_at = at
        self.last_used = time.monotonic()
        if self.log is not None and self.strategy.stages:
            try:
                self.log.trim(rows)
            except OSError as error:  # the commit stands; the room comes back with the next one, or a restart
                logger.warning("the log of %s could not be trimmed: %s", self.name, error)
            self.count_staged()

    def count_staged(self, reserved: int = 0) -> None:
        """Count what its log holds by now, in place of what was reserved for it.

        Appends and flushes change that at the same time.
        """
        if self.log is not None and self.strategy.stages:
            with self._counting:
                held = 0 if self.is_done else self.log.bytes
                self._staged.add(held - self._counted - reserved)
                self._counted = held

    def compact(self) -> None:
        """Give back the room of rows nobody needs any more; not worth its syncs while somebody waits."""
        if self.log is None or not self.strategy.stages or not self.is_done:
            return
        # A flush that began before the stream was finalized still reads its rows, and a finalize that fails
        # opens the stream again.
        with self.writer.staged_lock, self._finalizing:
            if self.is_done:
                self.log.trim(self.log.end, to_nothing=True)

    def remove(self) -> None:
        """Delete its log, and all it staged."""
        assert self.log is not None
        self.log.remove()
        with self._counting:
            self._staged.add(-self._counted)
            self._counted = 0

    def facts(self) -> dict[str, Any]:
        """What the console and the command line show of it."""
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

    def _write_log(self, group: list[Append]) -> None:
        assert self.log is not None
        live = [append for append in group if append.begin()]
        refusal: Refused | None = None
        try:
            self.log.append([append.batch for append in live])
        except Exception as error:  # an answer is owed whatever went wrong
            refusal = Refused(
                Code.UNAVAILABLE, f"Stream {self.name} could not be written ({error}): try again."
            )
        self.count_staged(sum(append.reserved for append in group))
        if refusal is None:
            succeed(live, visible=False)
            return
        for append in live:
            append.fail(refusal)

    def _mark_finalized(self) -> None:
        assert self.log is not None
        try:
            self.log.mark("finalized", True)
        except (OSError, StoreError) as error:
            self.position.state = State.OPEN
            raise Refused(
                Code.UNAVAILABLE, f"Stream {self.name} could not be finalized ({error}): try again."
            ) from error

    def _check_underway(self, offset: int | None) -> None:
        """An offset is there when its rows are on disk, not when they were accepted: they may yet fail."""
        at = self.position
        if offset is None or at.state is not State.OPEN or not at.durable <= offset < at.accepted:
            return
        assert self._last is not None
        raise Underway(self._last)
