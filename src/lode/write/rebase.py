"""Decide whether a draft can follow the commits of other writers: which they are, and what they touch."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from lode.errors import LodeError
from lode.format.manifest import DROP
from lode.format.paths import canonical_partition, enclosing
from lode.read.history import fetch_segment
from lode.read.resolve import AnyManifest, Named, digest_of, named_parent
from lode.read.segment import LEVELS, open_segment
from lode.write.draft import CommitSummary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from lode.format.manifest import FileRef, Manifest
    from lode.format.paths import Layout
    from lode.read.resolve import Chain, Head

# How many earlier commits a manifest summarizes, and in how much text: two rounds of sixteen writers.
MAX_RECENT_COMMITS: Final = 32
MAX_RECENT_CHARS: Final = 4096
# With fewer commits to go, manifests are read one by one: a segment may be missing.
MIN_SEGMENT_COMMITS: Final = 4

# The digest of a snapshot that the summary of a later commit names: only its own manifest has it.
UNREAD: Final = "unread"

M = TypeVar("M", bound=AnyManifest)


class Summarizes(Protocol):
    """What knows which commits a manifest tells about: a draft."""

    def commits_in(self, manifest: Any) -> Iterator[CommitSummary]:
        """The commit of this manifest and the earlier ones that it summarizes, newest first."""
        ...


def commits_after(
    base: Head[M], head: M | None, draft: Summarizes, chain: Chain[M]
) -> list[CommitSummary] | None:
    """The commits after ``base`` up to ``head``, newest first; None if ``base`` is not an ancestor.

    They end with a drop if there is one after ``base``: what was before it is gone.
    """
    found: list[CommitSummary] = []
    for commit in _WalkBack(base, draft, chain).run(head):
        if commit.snapshot_id == base.id:
            return found
        found.append(commit)
    return found if base.id is None or (found and found[-1].operation == DROP) else None


class _WalkBack(Generic[M]):
    """Walks back to a base, or to the root if it is not an ancestor.

    One read covers all commits that a manifest summarizes, or that a history segment holds. A segment only
    repeats manifests: one that is missing, damaged or of another history is left out.
    """

    def __init__(self, base: Head[M], draft: Summarizes, chain: Chain[M]) -> None:
        self._base = base.id
        self._lowest = (base.parent.sequence or 0) if base.parent else 0
        self._draft = draft
        self._chain = chain
        self._seen: set[str] = set()
        # The places in history where no segment that fits was found to end.
        self._without_segment: set[int] = set()
        # The oldest snapshot of the last segment. The walk continues from there.
        self._oldest = Named("")

    def run(self, manifest: M | None) -> Iterator[CommitSummary]:
        """The commits from this one back."""
        yielded = 0
        while manifest is not None:
            if manifest.snapshot_id in self._seen:
                raise self._chain.damaged(
                    manifest.snapshot_id, "is its own ancestor: the parents form a cycle"
                )
            commits = list(self._draft.commits_in(manifest))
            if manifest.operation == DROP:
                yield from commits[yielded:]
                return
            newer, segment = self._segment_before(manifest, commits)
            members = [] if segment else self._members_before(manifest, len(commits))
            if members:
                known = [commits[0], *(next(self._draft.commits_in(each)) for each in members)]
                newer, segment = self._segment_before(manifest, known)
                commits = known if segment else commits
            self._seen.add(manifest.snapshot_id)
            if members and not segment:
                self._seen.update(each.snapshot_id for each in members[:-1])
                yield from known[yielded:-1]
                manifest, yielded = members[-1], 0
                continue
            if segment:
                yield from commits[yielded:newer]
                for each in segment[:-1]:
                    self._seen.add(each.snapshot_id)
                    yield next(self._draft.commits_in(each))
                    if each.operation == DROP:
                        return
                manifest, yielded = segment[-1], 0
                continue
            yield from commits[yielded:]
            # The walk continues with the last commit of the summary. It has been yielded.
            yielded = int(len(commits) > 1)
            before = commits[-1].snapshot_id if yielded else manifest.parent_snapshot_id
            if before == self._base and before is not None:
                yield CommitSummary(before)
                return
            manifest = self._chain.require(before) if before else None

    def _members_before(self, manifest: M, known: int) -> list[M]:
        """The members of its group before this one, newest first, from the intent of the leader.

        Args:
            manifest: One that may be a member of a group.
            known: How many commits its manifest summarizes. One member more is read from its manifest.
        """
        place, leader = manifest.group.place, manifest.group.leader or manifest.snapshot_id
        intent = self._chain.intent(leader) if place > known + 1 else None
        members = [] if intent is None else [*intent.before, intent]
        named = named_parent(manifest)
        found: list[M] = []
        for member in members[: place - 1][::-1]:
            # An intent stays where it is after its commit, and nothing but this reads it again.
            if named is None or member.manifest.snapshot_id != named.snapshot_id:
                return []
            if named.sha256 not in (None, member.sha256):
                self._chain.report_ignored(self._chain.paths.intent(leader), "a member has another digest")
                return []
            found.append(member.manifest)
            named = named_parent(member.manifest)
        return found if len(found) == place - 1 else []

    def _segment_before(self, manifest: M, commits: Sequence[CommitSummary]) -> tuple[int, list[M]]:
        """Manifests before another one, newest first, from a segment that ends there or soon before.

        Args:
            manifest: The other one.
            commits: Its own commit and earlier ones that are known without a read.

        Returns:
            How many commits come before the segment, and its manifests as far as they are needed.
        """
        sequence = manifest.sequence
        if sequence is None or not self._chain.has_segments:
            return 0, []
        # Below the place of the base the walk has missed it, and goes on to the root.
        end = self._lowest if self._lowest < sequence else 0
        ids = [commit.snapshot_id for commit in commits]
        parent = named_parent(manifest)
        if len(ids) == 1 and parent is not None:
            ids.append(parent.snapshot_id)
        if sequence + 1 - len(ids) - end < MIN_SEGMENT_COMMITS:
            return 0, []
        for place, newest in reversed(list(enumerate(ids))):
            last = sequence - place
            if last % LEVELS[-1] == 0:
                named = parent if parent is not None and parent.snapshot_id == newest else self._known(newest)
                segment = self._ending_with(named, last, last - end + 1)
                # The other manifest itself is not one before it.
                return (place, segment) if place else (1, segment[1:])
        return 0, []

    def _known(self, snapshot_id: str) -> Named:
        return self._oldest if self._oldest.snapshot_id == snapshot_id else Named(snapshot_id, UNREAD)

    def _ending_with(self, newest: Named, last: int, wanted: int) -> list[M]:
        """Up to so many manifests of a segment that ends with this snapshot, newest first."""
        if last in self._without_segment or newest.snapshot_id in self._seen:
            return []
        levels = [level for level in LEVELS if last % level == 0]
        # The smallest that has all of them, then larger ones, then those that have fewer.
        enough = [level for level in reversed(levels) if level >= wanted]
        for level in (*enough, *(level for level in levels if level < wanted)):
            segment = self._fitting(level, last, newest, wanted)
            if segment:
                return segment
        self._without_segment.add(last)
        return []

    def _fitting(self, level: int, last: int, newest: Named, wanted: int) -> list[M]:
        """So many manifests of one segment; none if they are not the newest one and its ancestors."""
        data = fetch_segment(self._chain, level, last)
        if data is None:
            return []
        path = self._chain.paths.segment(level, last)
        try:
            if newest.sha256 == UNREAD:
                newest = Named(newest.snapshot_id, self._chain.sha256_of(newest.snapshot_id))
            raw = open_segment(data, self._chain.owner, level, last, newest, min(level, wanted))
            found = [self._chain.checked(bytes(each), path) for each in reversed(raw)]
        except LodeError as error:
            self._chain.report_ignored(path, error)
            return []
        self._oldest = Named(found[-1].snapshot_id, digest_of(bytes(raw[0])))
        ids = {manifest.snapshot_id for manifest in found}
        return found if len(ids) == len(found) and self._seen.isdisjoint(ids) else []


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


def overlapping(partitions: AbstractSet[str]) -> Callable[[str], bool]:
    """Return whether a partition overlaps with one of these, as ``common_partition`` says it.

    Both may be thousands, so one is not compared with each of the others.
    """
    names = frozenset(map(canonical_partition, partitions))
    outer = frozenset(each for name in names for each in enclosing(name))

    def overlaps(partition: str) -> bool:
        if not partition or "" in partitions:
            return bool(partitions)
        name = canonical_partition(partition)
        return name in outer or not names.isdisjoint(enclosing(name))

    return overlaps
