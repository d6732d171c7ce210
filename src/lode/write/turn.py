"""Ask other writers for a turn.

A writer that commits again and again builds on its own last commit and reads nothing. So it does not notice a
writer that loses to it each time, because that one has to read the new head first. Likewise, the leader of a
group goes on as soon as all expected writers are there, and may never meet one that is always a bit late. The
late one puts an object under a sequence number where the others look. Only the time that writers wait depends
on it: the swap decides.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import msgspec

from lode.errors import LodeError, StoreError
from lode.read.resolve import AnyManifest

if TYPE_CHECKING:
    from lode.read.resolve import Chain, Head
    from lode.write.draft import Draft

# A writer that knows of no other looks before every eighth snapshot.
SNAPSHOTS_PER_LOOK: Final = 8
# How often a commit has lost when it asks.
LOSSES_BEFORE_REQUEST: Final = 3

M = TypeVar("M", bound=AnyManifest)


class TurnRequests(Generic[M]):
    """The requests to the writers of one history."""

    def __init__(self, chain: Chain[M]) -> None:
        self._chain = chain
        # The sequences of the last heads that this process has led a group from.
        self._led: tuple[int, ...] = ()

    def ask_winner(self, draft: Draft[M], head: Head[M]) -> None:
        """Ask the writer that commits alone for a turn after this head."""
        sequence = self._chain.sequence_of(head.parent)
        self._ask(draft, sequence + SNAPSHOTS_PER_LOOK - sequence % SNAPSHOTS_PER_LOOK)

    def ask_leader(self, draft: Draft[M], missed: Head[M]) -> None:
        """Ask the leader of the next groups to wait for this writer, which came too late for this head."""
        self._ask(draft, self._chain.sequence_of(missed.parent))

    def is_due(self, head: Head[M]) -> bool:
        """Whether a writer that commits alone looks for requests before it follows this head."""
        return (self._chain.sequence_of(head.parent) + 1) % SNAPSHOTS_PER_LOOK == 0

    def winner_is_asked(self, head: Head[M]) -> bool:
        """Whether a writer has asked for a turn since the last look."""
        return self._is_there(self._chain.sequence_of(head.parent) + 1)

    def leader_is_asked(self, head: Head[M]) -> bool:
        """Whether a writer came too late for the head before the last one that this process led from."""
        before, self._led = self._led, (*self._led, self._chain.sequence_of(head.parent))[-2:]
        return len(before) > 1 and self._is_there(before[0])

    def _ask(self, draft: Draft[M], sequence: int) -> None:
        with suppress(LodeError):  # another writer has asked, or the commit meets the same error
            data = msgspec.json.encode({"snapshot_id": draft.snapshot_id})
            self._chain.store.put(self._chain.paths.turn(sequence), data)

    def _is_there(self, sequence: int) -> bool:
        try:
            return self._chain.store.exists(self._chain.paths.turn(sequence))
        except StoreError:
            return False
