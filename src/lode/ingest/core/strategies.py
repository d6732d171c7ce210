"""The rules of the four stream types, as functions of a ``StreamPosition``. No I/O.

DEFAULT: rows are committed before the response. At least once: no offsets, never finalized.
COMMITTED: rows are committed before the response. Exactly once: offsets only increase.
PENDING: rows are staged. Once finalized, a batch commit shows them together with those of other streams.
BUFFERED: rows are staged. Each flush shows them up to an offset.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import ClassVar, Final

from lode.ingest.status import Code, Refused, StorageCode, invalid, not_found


class StreamType(IntEnum):
    """The numbers of ``WriteStream.Type`` in the protocol, which has none for the default stream."""

    DEFAULT = 0
    COMMITTED = 1
    PENDING = 2
    BUFFERED = 3


class State(Enum):
    """OPEN → FINALIZED (→ COMMITTED for PENDING); the default stream stays OPEN."""

    OPEN = "open"
    FINALIZED = "finalized"
    COMMITTED = "committed"


@dataclass(slots=True)
class StreamPosition:
    """How many rows of a stream are accepted, durable and visible; each count is at most the one before.

    Appends are accepted in order while earlier ones are still being written. If one fails, all that were
    accepted after it fail too: ``epoch`` increases and ``accepted`` is reset. Change it under ``lock``.
    """

    name: str
    type: StreamType
    state: State = State.OPEN
    accepted: int = 0
    durable: int = 0
    visible: int = 0
    epoch: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def roll_back(self, durable: int | None = None) -> None:
        """Forget rows that were accepted and are not durable."""
        if durable is not None:
            self.durable = durable
        self.accepted = self.durable
        self.epoch += 1


class Strategy:
    """The rules of a COMMITTED stream; the subclasses change what differs. Methods raise ``Refused``."""

    # Whether rows wait in the stream's log until a request shows them.
    stages: ClassVar[bool] = False

    def check(self, position: StreamPosition, offset: int | None) -> None:
        """Refuse an append by its offset, before its rows are decoded."""
        if position.state is not State.OPEN:
            raise _finalized(position)
        if offset is None or offset == position.accepted:
            return
        if offset < 0:
            raise invalid(f"The offset {offset} is negative: offsets count rows from 0.")
        # The Java client reads the two numbers from the end of the sentence.
        expected = f"expected offset {position.accepted}, received {offset}"
        if offset < position.accepted:
            raise Refused(
                Code.ALREADY_EXISTS,
                f"The offset is within stream, {expected}",
                storage=StorageCode.OFFSET_ALREADY_EXISTS,
                entity=position.name,
            )
        raise Refused(
            Code.OUT_OF_RANGE,
            f"The offset is beyond stream, {expected}",
            storage=StorageCode.OFFSET_OUT_OF_RANGE,
            entity=position.name,
        )

    def accept(self, position: StreamPosition, rows: int) -> int | None:
        """Count the rows of an append that passed ``check``; returns the offset of the first."""
        first = position.accepted
        position.accepted += rows
        return first

    def check_finalize(self, position: StreamPosition) -> None:
        """Refuse to finalize a stream of a type that cannot be finalized."""

    def flush_end(self, position: StreamPosition, offset: int) -> int:
        """The number of rows that are visible after a flush up to and including ``offset``."""
        raise _wrong_type(position, "only BUFFERED streams are flushed")

    def check_commit(self, position: StreamPosition) -> None:
        """Refuse a batch commit of a stream in the wrong state or of the wrong type."""
        raise _wrong_type(position, "only PENDING streams are committed")


class DefaultStrategy(Strategy):
    """Appends are independent of each other: the stream has no state."""

    def check(self, position: StreamPosition, offset: int | None) -> None:
        if offset is not None:
            raise invalid(
                f"The default stream takes no offset, received {offset}: "
                "leave it out, or create a COMMITTED stream for exactly-once appends."
            )

    def accept(self, position: StreamPosition, rows: int) -> int | None:
        return None

    def check_finalize(self, position: StreamPosition) -> None:
        # The live service answers the same: only streams that were created can be finalized.
        raise not_found(position.name, StorageCode.STREAM_NOT_FOUND)


class PendingStrategy(Strategy):
    """Staged rows become visible all at once."""

    stages: ClassVar[bool] = True

    def check_commit(self, position: StreamPosition) -> None:
        if position.state is State.COMMITTED:
            raise Refused(
                Code.FAILED_PRECONDITION,
                f"Stream {position.name} is already committed.",
                storage=StorageCode.STREAM_ALREADY_COMMITTED,
                entity=position.name,
            )
        if position.state is State.OPEN:
            raise Refused(
                Code.FAILED_PRECONDITION,
                f"Stream {position.name} is not finalized: call FinalizeWriteStream before committing it.",
                storage=StorageCode.INVALID_STREAM_STATE,
                entity=position.name,
            )


class BufferedStrategy(Strategy):
    """Staged rows become visible in order, up to the offset of each flush, until the stream is finalized."""

    stages: ClassVar[bool] = True

    def flush_end(self, position: StreamPosition, offset: int) -> int:
        if position.state is not State.OPEN:
            raise _finalized(position)
        if offset < 0:
            raise invalid(f"The flush offset {offset} is negative: it names the last row to show, from 0.")
        if offset >= position.durable:
            raise Refused(
                Code.OUT_OF_RANGE,
                f"Offset {offset} is beyond the end of the stream Entity: {position.name}",
                storage=StorageCode.OFFSET_OUT_OF_RANGE,
                entity=position.name,
            )
        # Visible rows stay visible: flushing them again changes nothing.
        return max(offset + 1, position.visible)


_STRATEGIES: Final[dict[StreamType, Strategy]] = {
    StreamType.DEFAULT: DefaultStrategy(),
    StreamType.COMMITTED: Strategy(),
    StreamType.PENDING: PendingStrategy(),
    StreamType.BUFFERED: BufferedStrategy(),
}


def select_strategy(kind: StreamType) -> Strategy:
    return _STRATEGIES[kind]


def _finalized(position: StreamPosition) -> Refused:
    """The refusal of an append or a flush after FinalizeWriteStream.

    The code is not FAILED_PRECONDITION, because clients would retry that.
    """
    return Refused(
        Code.INVALID_ARGUMENT,
        f"Stream has been finalized: create another stream. Entity: {position.name}",
        storage=StorageCode.STREAM_FINALIZED,
        entity=position.name,
    )


def _wrong_type(position: StreamPosition, rule: str) -> Refused:
    return Refused(
        Code.INVALID_ARGUMENT,
        f"Stream {position.name} is of type {position.type.name}: {rule}.",
        storage=StorageCode.INVALID_STREAM_TYPE,
        entity=position.name,
    )
