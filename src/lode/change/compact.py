"""Put the rows of many small files into fewer large ones. The rows stay the same."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from lode.change import row_groups
from lode.change.base import slim_file
from lode.change.matching import stored_rows
from lode.change.result import Change
from lode.errors import InvalidOptionError, NotFoundError, SnapshotConflictError
from lode.format.manifest import COMPACT, Removed, Removes, check_metadata
from lode.format.paths import canonical_partition
from lode.read.plan import check_options
from lode.read.state import Cut
from lode.write.open_files import TARGET_FILE_BYTES
from lode.write.removal import Compaction, Rewritten

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow.compute as pc

    from lode.change.base import Base, ChangeContext, Part, Progress
    from lode.format.manifest import FileRef
    from lode.read.scan import Scan
    from lode.write.stage import Staged, Stager
    from lode.writes import IdempotencyKey


class CompactLimits(NamedTuple):
    """How few files are not worth a new one, and how much one commit compacts."""

    min_files: int = 2
    max_files: int | None = None
    max_bytes: int | None = None

    def apply(self, groups: list[Group]) -> list[Group]:
        """The first of the groups that are large enough, as many as one commit may compact."""
        chosen: list[Group] = []
        files = size = 0
        for group in groups:
            if len(group.files) < self.min_files:
                continue
            files += len(group.files)
            size += sum(file.size_bytes for file in group.files)
            if chosen and (
                (self.max_files is not None and files > self.max_files)
                or (self.max_bytes is not None and size > self.max_bytes)
            ):
                break
            chosen.append(group)
        return chosen


class Group(NamedTuple):
    """Files of one partition that become one."""

    partition: str
    files: list[FileRef]


def compact(
    context: ChangeContext,
    metadata: dict[str, Any] | None,
    *,
    target_file_bytes: int | None,
    sort_by: Sequence[str] | None,
    where: pc.Expression | str | None,
    idempotency_key: IdempotencyKey | None,
    dry_run: bool,
    progress: Progress | None,
    limits: CompactLimits | None = None,
    only: Callable[[str], bool] | None = None,
) -> Change:
    """Rewrite small files into larger ones. See ``Dataset.compact``.

    ``limits`` bounds one commit. ``only`` says by its path whether a file is looked at; no others are held in
    memory then, and no checkpoint is written.
    """
    check_metadata(metadata)
    check_options(None, where, None)
    target = TARGET_FILE_BYTES if target_file_bytes is None else target_file_bytes
    if isinstance(target, bool) or not isinstance(target, int) or target < 1:
        raise InvalidOptionError(f"target_file_bytes is {target!r}: give a number of bytes from 1")

    def attempt(removal: Compaction) -> Change:
        # Only a condition needs the statistics.
        base = context.base(cut=Cut(only, slim_file if where is None else None))
        if base.scan.components.codec is None:
            raise InvalidOptionError(
                f"dataset {context.handle.id!r} holds blobs, which cannot be put together"
            )
        removal.prepared_on = base.manifest.snapshot_id
        removal.partition_of = base.partition_of
        removal.count = lambda paths: base.state.removed(Removes(files=tuple(paths)))
        groups = choose(base, target, where)
        groups = groups if limits is None else limits.apply(groups)
        if dry_run:
            removed = removal.count(file.path for group in groups for file in group.files)
            return Change(COMPACT, None, removed, Removed(len(groups), removed.rows, 0))
        with context.transaction(context.begin(metadata, idempotency_key, base), removal) as transaction:
            if transaction.replayed is not None:
                return Change.of(transaction.replayed)
            stager = transaction.stager.with_files(target_file_bytes, sort_by)
            parts = base.parts_of([file.path for file in group.files] for group in groups)
            rewrite = _Rewrite(base.reader, stager)
            found = context.workers.each(rewrite, parts, progress) if parts else []
            rewritten = [group for group in found if group is not None]
            if not rewritten:
                return Change(COMPACT)
            removal.whole = _whole(base) if only is None else {}
            removal.choose(tuple(rewritten))
            transaction.add(*(group.staged for group in rewritten))
            try:
                change = context.commit(transaction)
            except SnapshotConflictError:
                if removal.groups:
                    raise
                # Other writers have replaced every file that was read: there is nothing left to compact.
                return Change(COMPACT)
            stager.discard(file for group in removal.given_up for file in group.staged.files)
        assert change.snapshot is not None
        newest = change.snapshot.manifest
        if only is None and (newest.checkpoint is None or newest.checkpoint.snapshot != newest.snapshot_id):
            base.found.states.write_checkpoint(newest)
        return change

    return context.repeat(attempt, lambda: Compaction(COMPACT, has_checkpoint=only is None), redo=False)


def choose(base: Base, target: int, where: pc.Expression | str | None) -> list[Group]:
    """Put small files of a partition, in their order, into groups that fill a file of the target size."""
    files = base.scan.files if where is None else base.scan.pruned(where)
    groups: list[Group] = []
    for partition, members in sorted(base.by_partition(files).items()):
        group: list[FileRef] = []
        size = 0
        for file in members:
            # A file that is nearly full gains nothing.
            if file.size_bytes * 4 >= target * 3:
                continue
            if group and size + file.size_bytes > target:
                groups.append(Group(partition, group))
                group, size = [], 0
            group.append(file)
            size += file.size_bytes
        groups.append(Group(partition, group))
    return [group for group in groups if len(group.files) > 1]


def _whole(base: Base) -> dict[str, frozenset[str]]:
    """The visible files of each partition; empty if one partition is inside another."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, files in base.by_partition(base.scan.files).items():
        found[canonical_partition(name)].update(file.path for file in files)
    if len({name.count("/") if name else -1 for name in found}) > 1:
        return {}
    return {name: frozenset(files) for name, files in found.items()}


@dataclass(frozen=True, slots=True)
class _Rewrite:
    """Stages the rows of a group of files as they are."""

    reader: Scan
    stager: Stager

    def __call__(self, part: Part) -> Rewritten | None:
        try:
            staged = self._copied(part) or self.stager.rewrite(stored_rows(self.reader.of(part)))
        except NotFoundError:
            # Another writer has replaced the file and an expiry has removed it; or it is lost, which
            # ``verify`` reports. Either way the group stays as it is.
            return None
        return Rewritten(frozenset(file.path for manifest in part for file in manifest.files), staged)

    def _copied(self, part: Part) -> Staged | None:
        if self.stager.sort_by:
            return None
        return row_groups.rewrite(self.reader, part, self.stager, lambda *_: True, lambda _, rows: rows)
