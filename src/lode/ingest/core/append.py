"""One append on its way: from being accepted to being answered."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING

from lode.ingest.status import Code, Refused

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from lode.ingest.core.streams import Stream


class Append:
    """Rows that a stream has accepted and that are not yet where they are going.

    ``answer`` gives the offset of the first row, None on the default stream, or a ``Refused``.
    """

    __slots__ = ("answer", "batch", "epoch", "first", "reserved", "rows", "stream", "weight")

    def __init__(self, stream: Stream, batch: pa.RecordBatch, first: int | None, epoch: int) -> None:
        self.stream = stream
        self.batch = batch
        self.rows = batch.num_rows
        # What it holds in memory; of rows that share no buffers with others, that is what they are.
        self.weight = batch.get_total_buffer_size()
        # Bytes of staged rows that are counted already, until the log counts them.
        self.reserved = 0
        self.first = first
        self.epoch = epoch
        self.answer: Future[int | None] = Future()
        # It cannot be called off: a client that goes away takes nothing back.
        self.answer.set_running_or_notify_cancel()

    @property
    def stale(self) -> bool:
        """Whether something accepted before it failed since."""
        return self.first is not None and self.epoch != self.stream.position.epoch

    def begin(self) -> bool:
        """Tell whether it is still to be done; one that has become stale is refused here."""
        if self.answer.done():
            return False
        if self.stale:
            expected = self.stream.position.accepted
            self.fail(
                Refused(
                    Code.ABORTED,
                    f"An earlier append to {self.stream.name} did not come through: "
                    f"expected offset {expected}, received {self.first}. Go on from there.",
                )
            )
            return False
        return True

    def fail(self, refusal: Refused) -> None:
        if self.answer.done():
            return
        if not self.stale and self.first is not None:
            self.stream.step_back()
        self.answer.set_exception(refusal)


def succeed(group: Sequence[Append], *, visible: bool) -> None:
    """Answer appends that became durable together.

    Last to first: who waits for the first of them wakes up once and finds all of them answered.
    """
    for append in group:
        if append.first is not None:
            append.stream.advance(append.first + append.rows, visible=visible)
    for append in reversed(group):
        append.answer.set_result(append.first)
