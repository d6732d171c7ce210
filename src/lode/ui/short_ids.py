"""Snapshot ids as people type them: the shortest beginning that the command line understands."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

# The command line reads up to 12 digits as the number of a snapshot.
MIN_LENGTH: Final = 13


def short_id(id: str, ids: Sequence[str]) -> str:
    """The shortest beginning of ``id`` that no other of the sorted ``ids`` has; at least 13 characters."""
    place = bisect_left(ids, id)
    beside = [*ids[max(0, place - 1) : place], *ids[place + 1 : place + 2]]
    shared = max((_shared(id, other) for other in beside), default=0)
    return id[: max(MIN_LENGTH, shared + 1)]


def _shared(one: str, other: str) -> int:
    """How many characters both begin with."""
    length = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        length += 1
    return length
