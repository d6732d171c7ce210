"""The default stream: rows are committed, then answered; at least once, no offsets, never finalized."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from lode.ingest.core.position import StreamType
from lode.ingest.core.strategies.base import Strategy
from lode.ingest.status import StorageCode, invalid, not_found

if TYPE_CHECKING:
    from lode.ingest.core.position import Position


class DefaultStrategy(Strategy):
    """No state at all: every append stands for itself."""

    type: ClassVar[StreamType] = StreamType.DEFAULT

    def check(self, position: Position, offset: int | None) -> None:
        if offset is not None:
            raise invalid(
                f"The default stream takes no offset, received {offset}: "
                "leave it out, or create a COMMITTED stream for exactly-once appends."
            )

    def accept(self, position: Position, offset: int | None, rows: int) -> int | None:
        self.check(position, offset)
        return None

    def check_finalize(self, position: Position) -> None:
        # As the live service answers: only streams that were created can be finalized.
        raise not_found(position.name, StorageCode.STREAM_NOT_FOUND)
