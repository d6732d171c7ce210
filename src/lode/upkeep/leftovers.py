"""What the sweeps of datasets and volumes share: the result, the pointer, and temporary files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from lode.format.manifest import expected_pointer
from lode.store.protocol import SupportsTemporaries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from lode.read.resolve import EncodedManifest
    from lode.store.protocol import ObjectInfo, Store


@dataclass(frozen=True, slots=True)
class Leftover:
    """An object that nothing refers to, and the reason why it may be removed."""

    path: str
    size: int
    modified: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class Sweep:
    """The result of a sweep; ``removed`` is False after a dry run."""

    leftovers: tuple[Leftover, ...]
    removed: bool
    # What was not removed, with the reason: uncommitted and damaged snapshots, and blocks of a volume.
    spared: dict[str, str] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """The size of everything it found."""
        return sum(item.size for item in self.leftovers)


@dataclass(frozen=True, slots=True)
class Pointer:
    """The pointer as a sweep has read it, after the intents that it is compared with."""

    value: bytes | None
    # Whether it names a snapshot that has a manifest or an intent. Otherwise it is lost or dangles.
    firm: bool

    @property
    def id(self) -> str | None:
        return None if self.value is None else self.value.decode("utf-8", "replace")

    def may_win(self, intent: EncodedManifest[Any]) -> str | None:
        """Why the snapshot of an intent could still be committed with this intent; None if it cannot.

        The intent was read before the pointer, and pointer values are never used twice. So an intent that
        expects any other value can no longer win.
        """
        if self.value is not None and self.id != self.value.decode("utf-8", "surrogateescape"):
            return "the pointer is not text, so what may follow it is not known"
        extension = intent.manifest.x
        if expected_pointer(intent.follows, extension) == self.value:
            return "it can still be committed onto the current head"
        if not self.firm and "expected" not in (extension or {}):
            # Version 0.1 does not record which value it expects.
            return "the pointer is lost or names nothing: it may be what this commit expects"
        return None


@dataclass(frozen=True, slots=True)
class Errand:
    """Objects to remove, unless an object at another path exists by then. Pickles."""

    paths: tuple[str, ...]
    unless: str | None = None

    def run(self, store: Store) -> bool:
        """Remove them; False if they stay."""
        if self.unless is not None and store.exists(self.unless):
            return False
        for path in self.paths:
            store.delete(path)
        return True


# Runs errands, and returns the result of each.
Remover: TypeAlias = "Callable[[list[Errand]], list[bool]]"


def leftover(entry: ObjectInfo, reason: str) -> Leftover:
    """The entry of a listing as a leftover."""
    return Leftover(entry.path, entry.size, entry.modified, reason)


def sweep_slots(
    store: Store, slots: Iterable[ObjectInfo], pointer: Pointer, limit: datetime, *, dry_run: bool
) -> list[Leftover]:
    """Find, and unless ``dry_run`` remove, the drafts that waited for a head which the pointer has left.

    The snapshots that were committed from there have manifests, and the others wait for a later head.
    """
    if not pointer.firm:
        return []
    dead = [slot for slot in slots if slot.modified <= limit and slot.path.split("/")[-2] != pointer.id]
    if not dry_run:
        for slot in dead:
            store.delete(slot.path)
    return [leftover(slot, "a draft that waited for a leader") for slot in dead]


def sweep_temporaries(store: Store, root: str, limit: datetime, *, dry_run: bool) -> list[Leftover]:
    """Find, and unless ``dry_run`` remove, the hidden files of writers that were killed below ``root``."""
    if not isinstance(store, SupportsTemporaries):
        return []
    old = [entry for entry in store.temporaries(f"{root}/") if entry.modified <= limit]
    if not dry_run:
        for entry in old:
            store.delete_temporary(entry.path)
    return [leftover(entry, "a temporary file of a writer that was killed") for entry in old]
