"""COMMITTED: rows are committed, then answered; exactly once, by offsets that only go forward."""

from __future__ import annotations

from typing import ClassVar

from lode.ingest.core.position import StreamType
from lode.ingest.core.strategies.base import Strategy


class CommittedStrategy(Strategy):
    """The base's offsets are all there is to it."""

    type: ClassVar[StreamType] = StreamType.COMMITTED
