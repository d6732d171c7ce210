"""A snapshot before it has its place in history."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar

from lode.errors import DatasetDroppedError
from lode.format.pointer import SHARED, is_shared
from lode.read.resolve import AnyManifest
from lode.times import ns_to_rfc3339, rfc3339_to_ns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lode.format.group import Follows
    from lode.format.manifest import Removes
    from lode.read.resolve import EncodedManifest, Head
    from lode.write.uploads import HeldUploads

M = TypeVar("M", bound=AnyManifest)

# Clocks that are kept by a time service differ by less.
_MAX_CLOCK_DIFFERENCE_NS: Final = 60 * 10**9
logger = logging.getLogger("lode.commit")


@dataclass(frozen=True, slots=True)
class CommitSummary:
    """A commit of another writer: all that a writer must know to follow it.

    ``partitions`` are those that it added to or removed from; the empty name is the whole dataset.
    """

    snapshot_id: str
    partitions: frozenset[str] = frozenset()
    operation: str = "append"
    removes: Removes | None = None
    restores: str | None = None


class Refreshed(NamedTuple, Generic[M]):
    """A head that ``latest()`` has read, and what was known before."""

    head: Head[M]
    known: M | None


class Line(Protocol[M]):
    """The drafts of other writers that become members of a group, in order."""

    def place(self, other: M, follows: Follows) -> M | None:
        """Return a draft as the next member, the child of the one before it; None if it cannot follow.

        Args:
            other: The draft as a child of the head.
            follows: Which members it may follow.
        """
        ...


@dataclass(slots=True)
class Draft(ABC, Generic[M]):
    """A snapshot that has its files but not yet its place in history.

    ``base`` is the head it expects to follow: None until one is captured, and after a conflict the head it
    lost to. ``declared`` is its intent as stored. So a draft can be committed again after a conflict.
    """

    snapshot_id: str
    base: Head[M] | None = None
    idempotency: tuple[str, str] | None = None
    declared: EncodedManifest[M] | None = None
    # Name of the writer, recorded in the manifest.
    writer: str | None = None
    # Whether it may follow other commits that do not overlap with it, and how often it has.
    rebase: bool = True
    rebases: int = 0
    # How many writers are expected after it, if it is committed among many but without them.
    crowd: int = 0
    # Whether it may follow any commit, also one that overlaps.
    append: bool = False
    # Whether the head that this process knows is certainly not the newest.
    is_behind: bool = False
    # Whether the id is known to be unused. False for an id that the caller chose, until it is checked.
    fresh: bool = True
    # What the caller had read with ``latest()`` when this began, if no commit has taken it in.
    refreshed: Refreshed[M] | None = None
    # The head that was known when the idempotency key was last looked up.
    key_checked_at: Head[M] | None = None
    # The sequence of the first snapshot of its history.
    begins: int = 1
    # Whether a swap of this draft has taken effect; None while that is unknown.
    landed: bool | None = False
    # Its files that are uploaded beside its intent.
    uploads: HeldUploads | None = None
    # What the caller can do after a conflict.
    remedy: str = (
        'read what came first and commit error.transaction again, or write with on_conflict="append" to '
        "follow anybody"
    )

    def origin(self) -> dict[str, Any]:
        """The part of the manifest's extension that describes this commit."""
        found: dict[str, Any] = {}
        if self.idempotency is not None:
            found["idempotency"] = {"writer": self.idempotency[0], "key": self.idempotency[1]}
        if self.writer is not None:
            found["writer"] = self.writer
        if self.rebases:
            found["rebases"] = self.rebases
        if self.crowd > 1:
            found["crowd"] = self.crowd
        if self.begins > 1:
            found["begins"] = self.begins
        parent = self.base.parent if self.base is not None else None
        if parent is not None and is_shared(parent.sequence, parent.x):
            found[SHARED] = True
        if self.base is not None and not self.base.names_manifest:
            # A dangling or lost pointer: sweep must know which value the swap of this intent expects.
            found["expected"] = (self.base.pointer or b"").decode("utf-8", "replace")
        return found

    @abstractmethod
    def place_on(self, parent: M | None, sequence: int) -> M:
        """Return the manifest of this draft as a child of ``parent``."""

    @abstractmethod
    def commits_in(self, manifest: M) -> Iterator[CommitSummary]:
        """The commit of this manifest and the earlier ones that it summarizes, newest first."""

    @abstractmethod
    def overlap(self, later: Sequence[CommitSummary]) -> str | None:
        """Why it cannot follow these commits, newest first; None if it can."""

    @property
    def follows(self) -> Follows:
        """Which members of a group it may follow when another writer commits it."""
        return "any" if self.rebase else "head"

    @property
    def can_wait(self) -> bool:
        """Whether it can be part of a group. A commit that begins or ends a history is made alone."""
        base = self.base
        return base is not None and base.manifest is not None and base.names_manifest and not self.is_drop

    @property
    def is_drop(self) -> bool:
        """Whether it drops everything before it."""
        return False

    @abstractmethod
    def line(self) -> Line[M]:
        """Return an empty group that this draft, which is declared on its base, can end."""

    @property
    def may_retry(self) -> bool:
        """Whether a retry may follow a commit that overlaps."""
        return self.rebase


def behind(parent: AnyManifest, draft: AnyManifest) -> dict[str, Any]:
    """The fields of the draft of another writer as the child of ``parent`` instead of the head before it."""
    created = rfc3339_to_ns(draft.created_at)
    return {
        "parent_snapshot_id": parent.snapshot_id,
        "sequence": (parent.sequence or 0) + 1,
        "created_at": moment_after(parent.created_at, lambda: created),
    }


def dropped(name: str, snapshot_id: str) -> DatasetDroppedError:
    """The error for a commit to what another process has dropped."""
    return DatasetDroppedError(
        f"{name} was dropped by {snapshot_id} while this was written, so this did not land: write again to "
        "begin anew"
    )


def moment_after(parent: str | None, now_ns: Callable[[], int]) -> str:
    """Now, or just after the parent if the clock is behind it. ``as_of`` relies on increasing times."""
    now = now_ns()
    after = rfc3339_to_ns(parent) + 1 if parent else now
    if after - now > _MAX_CLOCK_DIFFERENCE_NS:
        logger.warning(
            "the snapshot before was created at %s, %d s after the clock of this machine: one of the two "
            "clocks is wrong, and until then as_of with a time misses this snapshot",
            parent,
            (after - now) // 10**9,
        )
    return ns_to_rfc3339(max(now, after))
