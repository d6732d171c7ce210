"""PENDING: rows are staged until the stream is finalized and then committed, with others, at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from lode.ingest.core.position import State, StreamType
from lode.ingest.core.strategies.base import Strategy
from lode.ingest.status import Code, Refused, StorageCode

if TYPE_CHECKING:
    from lode.ingest.core.position import Position


class PendingStrategy(Strategy):
    """Staged rows become visible together, once."""

    type: ClassVar[StreamType] = StreamType.PENDING
    stages: ClassVar[bool] = True

    def check_commit(self, position: Position) -> None:
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
