"""The newest snapshot that one object has seen: a history that does not contain it was lost or replaced.

A disk that is not mounted, or a bucket that was emptied, looks like a dataset without snapshots. A writer
that began a new history there would acknowledge writes that nobody finds when the old history is back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from lode.errors import HistoryLostError
from lode.format.manifest import DROP
from lode.read.resolve import AnyManifest, Head
from lode.write.draft import CommitSummary
from lode.write.rebase import commits_after

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lode.read.resolve import Chain

M = TypeVar("M", bound=AnyManifest)


class KnownHistory(Generic[M]):
    """What one object knows of a history. It forgets nothing; a drop is part of the history.

    Every method compares with what was known *before* the head was read: a commit of another thread may be
    newer than a head that was read meanwhile.
    """

    def __init__(self, chain: Chain[M]) -> None:
        self._chain = chain
        self._newest: M | None = None

    @property
    def newest(self) -> M | None:
        """The newest snapshot that was seen, or a drop."""
        return self._newest

    def saw(self, head: Head[M], known: M | None) -> None:
        """Take in a head that a reader has read. Only a history without anything is refused."""
        if known is None:
            self._newest = self._newest or head.parent
        elif head.parent is None and head.pending is None:
            raise self.lost(known.snapshot_id)

    def check_not_older(self, head: Head[M], known: M | None) -> None:
        """Refuse a head that comes before a snapshot that was known, or beside it. That costs no call."""
        newest = head.parent if head.pending is None else head.pending.manifest
        if known is None or (newest is not None and newest.snapshot_id == known.snapshot_id):
            return
        if newest is None or _is_before(newest, known):
            raise self.lost(known.snapshot_id)

    def settle(self, read: Callable[[], Head[M]]) -> Head[M]:
        """Read a head for a writer. It must contain what was known."""
        known = self._newest
        head = read()
        self.check(head, known)
        return head

    def check(self, head: Head[M], known: M | None) -> None:
        """Refuse a head whose history does not contain a snapshot that was known; else remember the head."""
        newest = head.parent
        if known is not None:
            self.check_not_older(head, known)
            if newest is not None and newest.snapshot_id != known.snapshot_id:
                self._walk(head, known)
        if newest is not None:
            self.advance(newest)

    def advance(self, manifest: M) -> None:
        """Remember a snapshot whose history contains the newest one."""
        if self._newest is None or not _is_before(manifest, self._newest):
            self._newest = manifest

    def lost(self, snapshot_id: str | None) -> HistoryLostError:
        """The error for a history that does not contain a snapshot."""
        return HistoryLostError(
            f"{self._chain.name} in {self._chain.store.url} does not contain snapshot {snapshot_id}, which "
            "this object has read or written, so its history was lost or replaced; nothing was written: "
            "bring the history back, or open it again to go on with what is there",
            snapshot_id=snapshot_id,
        )

    def _walk(self, head: Head[M], known: M) -> None:
        later = commits_after(Head(None, known), head.parent, _Links(), self._chain)
        # Walks end at a drop. What was known is before it only if the history of the head begins later.
        is_kept = later is not None and (
            not later
            or later[-1].operation != DROP
            or known.sequence is None
            or self._chain.begins_after(head) > known.sequence
        )
        if not is_kept:
            raise self.lost(known.snapshot_id)


class _Links:
    """Reads no more of a manifest than its place."""

    def commits_in(self, manifest: AnyManifest) -> Iterator[CommitSummary]:
        yield CommitSummary(manifest.snapshot_id, operation=manifest.operation)


def _is_before(manifest: AnyManifest, other: AnyManifest) -> bool:
    """Whether by its number it is not after another one. Snapshots of the Go implementation have none."""
    return (
        manifest.sequence is not None and other.sequence is not None and manifest.sequence <= other.sequence
    )
