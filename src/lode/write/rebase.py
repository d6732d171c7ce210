"""Decide whether a draft can follow the commits of other writers: which they are, and what they touch."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

from lode.format.manifest import DROP
from lode.format.paths import canonical_partition
from lode.read.resolve import AnyManifest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from lode.format.manifest import FileRef, Manifest
    from lode.format.paths import Layout
    from lode.read.resolve import Chain
    from lode.write.draft import CommitSummary, Draft

# How many earlier commits a manifest summarizes, and in how much text: two rounds of sixteen writers.
MAX_RECENT_COMMITS: Final = 32
MAX_RECENT_CHARS: Final = 4096

M = TypeVar("M", bound=AnyManifest)


def commits_after(
    base: str | None, head: M | None, draft: Draft[M], chain: Chain[M]
) -> list[CommitSummary] | None:
    """The commits after ``base`` up to ``head``, newest first; None if ``base`` is not an ancestor.

    They end with a drop if there is one after ``base``: what was before it is gone.
    """
    found: list[CommitSummary] = []
    for commit in _walk_back(head, draft, chain):
        if commit.snapshot_id == base:
            return found
        found.append(commit)
    return found if base is None or (found and found[-1].operation == DROP) else None


def _walk_back(manifest: M | None, draft: Draft[M], chain: Chain[M]) -> Iterator[CommitSummary]:
    """Walk back to the root. One read covers all commits that a manifest summarizes."""
    seen: set[str] = set()
    yielded = 0
    while manifest is not None:
        if manifest.snapshot_id in seen:
            raise chain.damaged(manifest.snapshot_id, "is its own ancestor: the parents form a cycle")
        seen.add(manifest.snapshot_id)
        commits = list(draft.commits_in(manifest))
        # The intent of a leader holds all members of its group. That of another member may hold a group that
        # it led in vain.
        is_covered = len(commits) >= manifest.group.size or not manifest.group.leads
        group = None if is_covered else chain.intent(manifest.snapshot_id)
        if group is not None and group.before:
            members = [next(iter(draft.commits_in(each.manifest))) for each in reversed(group.before)]
            commits = [commits[0], *members]
        yield from commits[yielded:]
        if manifest.operation == DROP:
            return
        # The walk continues with the last commit of the summary. It has been yielded.
        yielded = int(len(commits) > 1)
        before = commits[-1].snapshot_id if yielded else manifest.parent_snapshot_id
        manifest = chain.require(before) if before else None


def find_overlap(ours: AbstractSet[str], later: Sequence[CommitSummary]) -> str | None:
    """Which of these commits touched one of our partitions; None if none did."""
    # Nearly all commits are disjoint, so check all of them at once first.
    if common_partition(ours, frozenset().union(*(commit.partitions for commit in later))) is None:
        return None
    for commit in later:
        common = common_partition(ours, commit.partitions)
        if common is not None:
            return f"snapshot {commit.snapshot_id} also wrote {common}"
    return None


def partitions_of(dataset_id: str, files: Iterable[FileRef], layout: Layout) -> frozenset[str]:
    """The partitions of files. The empty name means the whole dataset; no files have no partition."""
    if not layout.keys:
        return frozenset({""} if any(True for _ in files) else ())
    return frozenset(layout.partition_of(dataset_id, file.path) for file in files)


def recent_commits(parent: Manifest | None, layout: Layout, *, crowded: bool) -> dict[str, list[str]]:
    """The commits before a child of ``parent``, with the partitions they touched, newest first.

    Under contention a writer is many snapshots behind whenever it reads the head. With this it catches up in
    one read. If neither the parent nor the child was rebased, the child summarizes one commit less. So the
    summaries disappear when the contention ends.
    """
    if parent is None or not layout.keys:
        return {}
    before = parent.recent
    # A summary has no room for what a commit removed, so it ends at one that removes.
    if not (crowded or before) or not parent.is_append:
        return {}
    past = {parent.snapshot_id: sorted(partitions_of(parent.dataset_id, parent.files, layout))}
    past |= before
    count = MAX_RECENT_COMMITS if crowded or parent.rebases else len(before) - 1
    recent: dict[str, list[str]] = {}
    room = MAX_RECENT_CHARS
    for snapshot_id, partitions in islice(past.items(), count):
        room -= len(snapshot_id) + sum(map(len, partitions))
        if room < 0:
            break
        recent[snapshot_id] = partitions
    return recent


class Touched:
    """The partitions that the members of a group touch, to be compared with those of many others."""

    def __init__(self) -> None:
        self._partitions: set[str] = set()
        self._depths: set[int] = set()

    def add(self, partitions: Iterable[str]) -> None:
        """Add the partitions of a member. The empty name means the whole dataset."""
        for partition in partitions:
            name = canonical_partition(partition) if partition else ""
            self._partitions.add(name)
            self._depths.add(name.count("/") if name else -1)

    def overlaps(self, partitions: AbstractSet[str]) -> bool:
        """Whether any of these is among them, around them or inside them."""
        if "" in partitions or -1 in self._depths or len(self._depths) > 1:
            return common_partition(partitions, self._partitions) is not None
        names = {canonical_partition(partition) for partition in partitions}
        if {name.count("/") for name in names} <= self._depths:
            return not names.isdisjoint(self._partitions)
        return common_partition(partitions, self._partitions) is not None


def common_partition(ours: AbstractSet[str], theirs: AbstractSet[str]) -> str | None:
    """Name a partition that both touch, or None.

    Conservative: unpartitioned data overlaps with everything, and a partition with those inside it.
    """
    if not ours or not theirs:
        return None
    if "" in ours or "" in theirs:
        return "the whole dataset, which is not partitioned"
    # Go and Python may write one partition under two paths.
    here = {canonical_partition(path): path for path in sorted(ours)}
    there = set(map(canonical_partition, theirs))
    for partition, path in here.items():
        if partition in there:
            return f"partition {path}"
    if len({partition.count("/") for partition in here.keys() | there}) == 1:
        return None
    for partition, path in here.items():
        for other in there:
            if partition.startswith(f"{other}/") or other.startswith(f"{partition}/"):
                return f"partition {path}"
    return None
