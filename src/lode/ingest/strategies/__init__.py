"""What each type of stream allows: one small file each, over a ``Position``, without gRPC or a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lode.ingest.position import StreamType
from lode.ingest.strategies.buffered import BufferedStrategy
from lode.ingest.strategies.committed import CommittedStrategy
from lode.ingest.strategies.default import DefaultStrategy
from lode.ingest.strategies.pending import PendingStrategy

if TYPE_CHECKING:
    from lode.ingest.strategies.base import Strategy

_STRATEGIES: dict[StreamType, Strategy] = {
    StreamType.DEFAULT: DefaultStrategy(),
    StreamType.COMMITTED: CommittedStrategy(),
    StreamType.PENDING: PendingStrategy(),
    StreamType.BUFFERED: BufferedStrategy(),
}


def select_strategy(kind: StreamType) -> Strategy:
    return _STRATEGIES[kind]
