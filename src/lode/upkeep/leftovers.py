"""What a sweep finds, of whatever kind: the result, and the temporary files of writers that were killed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lode.store.protocol import SupportsTemporaries

if TYPE_CHECKING:
    from datetime import datetime

    from lode.store.protocol import ObjectInfo, Store


@dataclass(frozen=True, slots=True)
class Leftover:
    """An object nothing refers to, and why it may go."""

    path: str
    size: int
    modified: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class Sweep:
    """What a sweep found; ``removed`` tells whether it also removed it."""

    leftovers: tuple[Leftover, ...]
    removed: bool
    # What was left alone, and why: uncommitted and damaged snapshots, and blocks of a volume.
    spared: dict[str, str] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """The size of everything it found."""
        return sum(item.size for item in self.leftovers)


def leftover(entry: ObjectInfo, reason: str) -> Leftover:
    return Leftover(entry.path, entry.size, entry.modified, reason)


def sweep_temporaries(store: Store, root: str, limit: datetime, *, dry_run: bool) -> list[Leftover]:
    """Find, and unless ``dry_run`` remove, the hidden files of writers that were killed below ``root``."""
    if not isinstance(store, SupportsTemporaries):
        return []
    old = [entry for entry in store.temporaries(f"{root}/") if entry.modified <= limit]
    if not dry_run:
        for entry in old:
            store.delete_temporary(entry.path)
    return [leftover(entry, "a temporary file of a writer that was killed") for entry in old]
