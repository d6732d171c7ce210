"""What each type of stream allows: one small file each, over a ``Position``, without gRPC or a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lode.ingest.core.position import StreamType
from lode.ingest.core.strategies.buffered import BufferedStrategy
from lode.ingest.core.strategies.committed import CommittedStrategy
from lode.ingest.core.strategies.default import DefaultStrategy
from lode.ingest.core.strategies.pending import PendingStrategy

if TYPE_CHECKING:
    from lode.ingest.core.strategies.base import Strategy

_STRATEGIES: dict[StreamType, Strategy] = {
    StreamType.DEFAULT: DefaultStrategy(),
    StreamType.COMMITTED: CommittedStrategy(),
    StreamType.PENDING: PendingStrategy(),
    StreamType.BUFFERED: BufferedStrategy(),
}


def select_strategy(kind: StreamType) -> Strategy:
    return _STRATEGIES[kind]
