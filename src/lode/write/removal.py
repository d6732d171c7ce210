"""What a commit removes, and which commits of other writers it can follow."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from lode.format.manifest import COMPACT, Removed, Removes
from lode.format.paths import canonical_partition
from lode.write.rebase import common_partition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lode.format.manifest import Manifest
    from lode.write.draft import CommitSummary
    from lode.write.stage import Staged


# A compaction of more files names partitions where it can.
MAX_NAMED_FILES: Final = 1000


def nowhere(_partition: str) -> bool:
    """Say of every partition that it does not matter."""
    return False


def everywhere(_partition: str) -> bool:
    """Say of every partition that it matters."""
    return True


@dataclass(frozen=True, slots=True)
class Rewritten:
    """Files that were read, and the staged files that hold what is kept of their rows."""

    inputs: frozenset[str]
    staged: Staged


@dataclass(slots=True)
class Removal:
    """What a commit removes: all files of some partitions, and single files.

    It depends on the partitions whose content it has read, or replaces. A commit of another writer that
    changes rows there is a conflict. A compaction changes no rows. If it has replaced single files that are
    removed here, the commit is ``superseded``: it must be prepared again on the new files.
    """

    operation: str
    partitions: tuple[str, ...] = ()
    files: frozenset[str] = frozenset()
    # Staged files whose rows come from removed files.
    carried: tuple[str, ...] = ()
    # Whether rows of this partition matter to the commit.
    depends_on: Callable[[str], bool] = everywhere
    # The snapshot whose state the commit restores, and its place in history.
    restores: str | None = None
    restored_sequence: int = 0
    # The snapshot that the commit was prepared on, and how much it removes from that.
    prepared_on: str | None = None
    removed: Removed = field(default_factory=Removed)
    # Counts what the commit removes from its parent, if that depends on which commits came first.
    count_on: Callable[[Manifest], Removed] | None = None
    superseded: bool = False
    # Whether the commit writes a checkpoint of its state, and names it.
    has_checkpoint: bool = False

    @property
    def removes(self) -> Removes | None:
        """What the manifest says of it."""
        if not self.partitions and not self.files:
            return None
        return Removes(self.partitions, tuple(sorted(self.files)))

    def clear(self, prepared_on: str) -> None:
        """Begin again on another snapshot."""
        self.files, self.carried, self.superseded = frozenset(), (), False
        self.prepared_on = prepared_on

    def overlap(self, later: Iterable[CommitSummary]) -> str | None:
        """Why the commit cannot follow these, oldest first; None if it can."""
        compacted: str | None = None
        for commit in later:
            if commit.operation == COMPACT:
                if commit.removes is not None and self._has_lost(commit.removes):
                    compacted = commit.snapshot_id
            elif any(map(self.depends_on, commit.partitions)):
                return f"snapshot {commit.snapshot_id} also changed what this {self.operation} depends on"
        self.superseded = compacted is not None
        return f"snapshot {compacted} has compacted files that this replaces" if compacted else None

    def _has_lost(self, removes: Removes) -> bool:
        """Whether a compaction may have replaced files that are removed here."""
        if not self.files:
            return False
        return bool(self.files.intersection(removes.files)) or any(map(self.depends_on, removes.partitions))

    def staged(self, staged: tuple[Staged, ...]) -> tuple[Staged, ...]:
        """What of the staged files is committed."""
        return staged


@dataclass(slots=True)
class Drop(Removal):
    """Everything is removed, whatever others have committed; or only if no other writer has committed."""

    exactly: bool = False

    def overlap(self, later: Iterable[CommitSummary]) -> str | None:
        for commit in later if self.exactly else ():
            return f"snapshot {commit.snapshot_id} was committed"
        return None


@dataclass(slots=True)
class Compaction(Removal):
    """Files that are replaced by fewer with the same rows.

    It follows every commit. If another one has removed input files of a group, that group is given up.

    A manifest that names a hundred thousand files takes long to read. So if there are many, and all files of
    a partition are replaced, it names the partition, unless others have committed there. If all files of the
    dataset are replaced and no other writer has committed, it names the whole dataset. Its own files are then
    the state, and a reader needs nothing else.
    """

    groups: tuple[Rewritten, ...] = ()
    # The files of those partitions of which every file is replaced.
    whole: dict[str, frozenset[str]] = field(default_factory=dict)
    # Whether others have committed since the files were read.
    is_late: bool = False
    given_up: list[Rewritten] = field(default_factory=list)
    # The partition of a file.
    partition_of: Callable[[str], str] = field(kw_only=True, default=lambda _: "")
    # How much some of the files are.
    count: Callable[[Iterable[str]], Removed] = field(kw_only=True, default=lambda _: Removed())

    def overlap(self, later: Iterable[CommitSummary]) -> str | None:
        kept = self.groups
        for commit in later:
            self.is_late = True
            if commit.restores:
                kept, self.whole = (), {}
            elif commit.removes is not None:
                kept = tuple(group for group in kept if not self._is_hit(group, commit.removes))
            self.whole = {
                name: files
                for name, files in self.whole.items()
                if common_partition({name}, commit.partitions) is None
            }
        self.given_up += [group for group in self.groups if group not in kept]
        self.choose(kept)
        return None if kept else "other writers have replaced all files that this compacts"

    def staged(self, staged: tuple[Staged, ...]) -> tuple[Staged, ...]:
        return tuple(group.staged for group in self.groups)

    def choose(self, groups: tuple[Rewritten, ...]) -> None:
        """Commit these groups only."""
        self.groups = groups
        replaced = frozenset().union(*(group.inputs for group in groups))
        self.removed = self.count(replaced)
        whole = [name for name, files in self.whole.items() if files <= replaced]
        is_everything = bool(whole) and len(whole) == len(self.whole) and not self.is_late
        if len(replaced) <= MAX_NAMED_FILES and not is_everything:
            whole = []
        self.partitions = ("",) if is_everything else tuple(sorted(whole))
        self.files = replaced.difference(*(self.whole[name] for name in whole))
        self.carried = tuple(file.path for group in groups for file in group.staged.files)

    def _is_hit(self, group: Rewritten, removes: Removes) -> bool:
        if group.inputs.intersection(removes.files) or "" in removes.partitions:
            return True
        gone = [canonical_partition(partition) for partition in removes.partitions]
        inside = {canonical_partition(self.partition_of(path)) for path in group.inputs} if gone else ()
        return any(f"{each}/".startswith(f"{partition}/") for each in inside for partition in gone)
