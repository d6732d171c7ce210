"""BUFFERED: rows are staged and shown up to the offset a flush names."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from lode.ingest.core.position import State, StreamType
from lode.ingest.core.strategies.base import Strategy, finalized
from lode.ingest.status import Code, Refused, StorageCode, invalid

if TYPE_CHECKING:
    from lode.ingest.core.position import Position


class BufferedStrategy(Strategy):
    """Staged rows become visible bit by bit, in their order, until the stream is finalized."""

    type: ClassVar[StreamType] = StreamType.BUFFERED
    stages: ClassVar[bool] = True

    def flush_end(self, position: Position, offset: int) -> int:
        if position.state is not State.OPEN:
            raise finalized(position)
        if offset < 0:
            raise invalid(f"The flush offset {offset} is negative: it names the last row to show, from 0.")
        if offset >= position.durable:
            raise Refused(
                Code.OUT_OF_RANGE,
                f"Offset {offset} is beyond the end of the stream Entity: {position.name}",
                storage=StorageCode.OFFSET_OUT_OF_RANGE,
                entity=position.name,
            )
        # What is shown already stays shown: flushing it again changes nothing.
        return max(offset + 1, position.visible)
