"""One append: rows that a stream has accepted, and the answer that its client waits for."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING

from lode.ingest.status import Code, Refused
from lode.ingest.types.changes import is_changes

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from lode.ingest.core.strategies import StreamPosition


class Append:
    """Rows that a stream has accepted and that are not yet committed, or written to its log.

    ``answer`` resolves to the offset of the first row, to None on the default stream, or to a ``Refused``.
    """

    __slots__ = (
        "answer",
        "batch",
        "epoch",
        "first",
        "is_changes",
        "position",
        "reserved",
        "rows",
        "stream_id",
        "weight",
    )

    def __init__(
        self,
        stream_id: str,
        position: StreamPosition,
        batch: pa.RecordBatch,
        first: int | None,
        reserved: int,
    ) -> None:
        self.stream_id = stream_id
        self.position = position
        self.batch = batch
        self.rows = batch.num_rows
        self.is_changes = is_changes(batch)
        # Its memory. Decoded rows share no buffers with other batches.
        self.weight = batch.get_total_buffer_size()
        # Bytes that count as staged already, until the log counts them.
        self.reserved = reserved
        self.first = first
        self.epoch = position.epoch
        self.answer: Future[int | None] = Future()
        # Not cancellable: rows stay accepted if the client disconnects.
        self.answer.set_running_or_notify_cancel()

    @property
    def stale(self) -> bool:
        """Whether an append that was accepted before this one has failed."""
        return self.first is not None and self.epoch != self.position.epoch

    def begin(self) -> bool:
        """Return whether it still has to be written. A stale append is refused here."""
        if self.answer.done():
            return False
        if self.stale:
            self.fail(
                Refused(
                    Code.ABORTED,
                    f"An earlier append to {self.position.name} failed: "
                    f"expected offset {self.position.accepted}, received {self.first}. Resume from there.",
                )
            )
            return False
        return True

    def fail(self, refusal: Refused) -> None:
        if self.answer.done():
            return
        if not self.stale and self.first is not None:
            with self.position.lock:
                self.position.roll_back()
        self.answer.set_exception(refusal)


def succeed(group: Sequence[Append], *, visible: bool) -> None:
    """Answer appends that became durable together.

    Last to first: a caller that waits for the first wakes up once and finds all of them answered.
    """
    for append in group:
        if append.first is not None:
            position = append.position
            with position.lock:
                position.durable = append.first + append.rows
                if visible:
                    position.visible = position.durable
    for append in reversed(group):
        append.answer.set_result(append.first)


def fail_all(group: Sequence[Append], refusal: Refused) -> None:
    for append in group:
        append.fail(refusal)
