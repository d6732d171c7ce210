"""What the strategies have in common: offsets that count rows from 0, and refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from lode.ingest.core.position import State, StreamType
from lode.ingest.status import Code, Refused, StorageCode, invalid

if TYPE_CHECKING:
    from lode.ingest.core.position import Position


class Strategy:
    """The rules of one type of stream. Every method checks a ``Position`` and may move it, or refuses."""

    type: ClassVar[StreamType]
    # Whether rows wait in the stream's log until they are asked to be shown.
    stages: ClassVar[bool] = False

    def check(self, position: Position, offset: int | None) -> None:
        """Refuse an append before its rows are even looked at."""
        if position.state is not State.OPEN:
            raise finalized(position)
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

    def accept(self, position: Position, offset: int | None, rows: int) -> int | None:
        """Take an append in; returns the offset of its first row."""
        self.check(position, offset)
        first = position.accepted
        position.accepted += rows
        return first

    def check_finalize(self, position: Position) -> None:
        """Refuse to finalize a stream that cannot be."""

    def flush_end(self, position: Position, offset: int) -> int:
        """The number of rows to be shown by a flush up to and including ``offset``."""
        raise Refused(
            Code.INVALID_ARGUMENT,
            f"Stream {position.name} is of type {position.type.name}: only BUFFERED streams are flushed.",
            storage=StorageCode.INVALID_STREAM_TYPE,
            entity=position.name,
        )

    def check_commit(self, position: Position) -> None:
        """Refuse a batch commit of a stream that cannot be part of one."""
        raise Refused(
            Code.INVALID_ARGUMENT,
            f"Stream {position.name} is of type {position.type.name}: only PENDING streams are committed.",
            storage=StorageCode.INVALID_STREAM_TYPE,
            entity=position.name,
        )


def finalized(position: Position) -> Refused:
    """An append or a flush after FinalizeWriteStream. Clients must not retry it, so it is no precondition."""
    return Refused(
        Code.INVALID_ARGUMENT,
        f"Stream has been finalized: create another stream. Entity: {position.name}",
        storage=StorageCode.STREAM_FINALIZED,
        entity=position.name,
    )
