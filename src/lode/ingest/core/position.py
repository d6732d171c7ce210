"""Where a write stream stands: its type, its state and how far its rows have come. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum


class StreamType(IntEnum):
    """The wire's numbers of ``WriteStream.Type``; the default stream has none of its own."""

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
class Position:
    """How far the rows of a stream have come; each count is at most the one before.

    Appends are accepted one after another while earlier ones are still on their way to the disk. When one
    of those fails, everything accepted after it fails too: ``epoch`` moves on and ``accepted`` goes back.
    """

    name: str
    type: StreamType
    state: State = State.OPEN
    accepted: int = 0
    durable: int = 0
    visible: int = 0
    epoch: int = 0

    def step_back(self, durable: int | None = None) -> None:
        """Forget what was accepted and is not on disk."""
        if durable is not None:
            self.durable = durable
        self.accepted = self.durable
        self.epoch += 1
