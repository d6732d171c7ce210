"""Expire old snapshots of a dataset, and remove the files that no other snapshot needs.

Expiry is a commit. Its manifest says from which snapshot on the dataset can be read, and every later manifest
repeats that. Files are removed after it is published: those that neither a snapshot from there on nor a tag
can see. So a crash leaves files that are not needed, never a snapshot without its files, and the next call
removes them. ``docs/design/retention.md`` has the argument.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from lode.dataset import Dataset
from lode.errors import InvalidOptionError
from lode.format.ids import shortened
from lode.read.tags import load_tags
from lode.read.which import moment_of
from lode.runtime import REAL, Runtime
from lode.upkeep.leftovers import Errand
from lode.upkeep.retained import retained
from lode.upkeep.share import ALL, shares_of
from lode.volume import Volume

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lode.format.manifest import Manifest
    from lode.handle import FoundDataset
    from lode.read.resolve import Head
    from lode.read.tags import Tag
    from lode.store.protocol import Store
    from lode.upkeep.leftovers import Remover
    from lode.upkeep.retained import Retained
    from lode.upkeep.share import Share

EXPIRE: Final = "expire"
# Objects that are removed between two calls of ``progress``, here and in tasks.
_BATCH: Final = 64
_LARGE_BATCH: Final = 10_000
# A checkpoint that no snapshot names may be of a commit that is under way, unless it is older.
CHECKPOINT_GRACE_SECONDS: Final = 3600.0
# Paths in a report.
_MAX_PATHS: Final = 100_000


@dataclass(frozen=True, slots=True)
class ExpireReport:
    """The result of an expiry; ``removed`` is False after a dry run.

    Args:
        floor: The number of the oldest snapshot that can be read afterwards, tagged ones aside.
        snapshots: The snapshots that cannot be read any more from now on.
        files: The data files that were removed, also those that an interrupted expiry had left.
        bytes: Their size.
        paths: Their paths, at most the first 100,000.
        checkpoints: The state checkpoints that were removed.
        removed: Whether this was done, or only found out.
    """

    floor: int
    snapshots: int
    files: int
    bytes: int
    paths: tuple[str, ...]
    checkpoints: int
    removed: bool


def expire(
    target: Dataset | Volume,
    *,
    older_than: timedelta | datetime | None = None,
    keep: int | None = None,
    dry_run: bool = True,
    progress: Callable[[int, int | None], None] | None = None,
    runtime: Runtime = REAL,
) -> ExpireReport:
    """Expire old snapshots and remove the data files that only they can see.

    The newest snapshot and everything in it stays. So do tagged snapshots. Snapshots that expiries have made
    do not count. It never conflicts with other writers. A reader that is in the middle of an expired snapshot
    fails: choose more than your longest read takes.

    Args:
        target: A dataset. Every snapshot of a volume has the blocks of those before it, so none can expire.
        older_than: Keep what is needed to read the dataset as it was at any time since then: an age, or a
            time with a time zone.
        keep: Keep so many of the newest snapshots.
        dry_run: Only report what would be removed.
        progress: Called with (objects removed, objects in all) now and then.
        runtime: The clock, and the threads.

    Raises:
        NoSnapshotsError: The dataset does not exist.
    """
    return expire_with(None, target, older_than, keep, dry_run=dry_run, progress=progress, runtime=runtime)


def expire_with(
    remover: Remover | None,
    target: Dataset | Volume,
    older_than: timedelta | datetime | None,
    keep: int | None,
    *,
    dry_run: bool,
    progress: Callable[[int, int | None], None] | None,
    runtime: Runtime = REAL,
) -> ExpireReport:
    """Expire, and let the remover remove the files, such as in tasks of Spark; None is on threads here."""
    if isinstance(target, Volume):
        raise InvalidOptionError(
            f"volume {target.id!r} cannot expire snapshots: the newest one has all blocks of the others, so "
            "nothing would be removed"
        )
    if not isinstance(target, Dataset):
        raise InvalidOptionError(f"expire takes a Dataset, got {shortened(target)}")
    if (older_than is None) == (keep is None):
        raise InvalidOptionError(
            "expire needs older_than or keep, and not both: older_than=timedelta(days=30)"
        )
    limit = None if older_than is None else _limit(older_than, runtime)
    if keep is not None and (not isinstance(keep, int) or isinstance(keep, bool) or keep < 1):
        raise InvalidOptionError(f"keep is {shortened(keep)}: it must be a number of snapshots from 1")
    if remover is not None:
        return _Expiry(target, progress, remover, _LARGE_BATCH, in_shares=True).run(
            limit, keep, dry_run=dry_run
        )
    remover = partial(_remove, target.store, runtime)
    return _Expiry(target, progress, remover, _BATCH).run(limit, keep, dry_run=dry_run)


def _limit(older_than: Any, runtime: Runtime) -> datetime:
    if isinstance(older_than, datetime):
        if older_than.tzinfo is None or older_than.utcoffset() is None:
            raise InvalidOptionError(
                f"older_than is {older_than.isoformat()} without a time zone: give it one, such as tzinfo=UTC"
            )
        return older_than
    if not isinstance(older_than, timedelta):
        raise InvalidOptionError(
            f"older_than is {shortened(older_than)}: give a timedelta, or a datetime with a time zone"
        )
    if older_than < timedelta(0):
        raise InvalidOptionError(f"older_than is {older_than}: it must not be negative")
    try:
        return datetime.fromtimestamp(runtime.now_ns() / 1e9, UTC) - older_than
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class _Plan:
    """What can be removed at a floor."""

    # Paths and sizes of data files, and paths of checkpoints.
    files: dict[str, int]
    checkpoints: list[str]
    # The places of snapshots below the floor that a tag keeps.
    tagged: tuple[int, ...] = ()


class _Expiry:
    """One call of ``expire``."""

    def __init__(
        self,
        dataset: Dataset,
        progress: Callable[[int, int | None], None] | None,
        remover: Remover,
        batch: int,
        *,
        in_shares: bool = False,
    ) -> None:
        self._in_shares = in_shares
        self._id = dataset.id
        self._context = dataset._changes
        self._handle = self._context.handle
        self._store = dataset.store
        self._progress = progress
        self._remover = remover
        self._batch = batch

    def run(self, limit: datetime | None, keep: int | None, *, dry_run: bool) -> ExpireReport:
        found, _ = self._handle.find_to_write()
        head = found.chain.resolve() if dry_run else found.committer.settle()
        newest = head.manifest
        if newest is None:
            raise self._context.reads.no_snapshots(near=True)
        before = found.definitions.floor_at(newest)
        floor = max(before, self._floor(found, newest, limit, keep))
        shares = shares_of(found.chain) if self._in_shares else [ALL]
        tags: list[Tag] | None = None
        if not dry_run:
            # Read all that matters before anything changes: a damaged history or tag is refused here.
            retained(found, newest, floor, share=shares[0])
            if floor > before:
                self._handle.commit_unchanged(found, EXPIRE, floor)
            # The tags first: a restore of a tagged snapshot keeps a tag until it is committed.
            tags = load_tags(found.chain)
            newest = self._newest(found).manifest
            assert newest is not None
            # Others may have raised it further.
            floor = found.definitions.floor_at(newest)
        files = size = checkpoints = 0
        paths: list[str] = []
        for share in shares:
            plan = self._plan(found, newest, floor, tags, share)
            if not dry_run:
                self._remove([*plan.files, *plan.checkpoints])
            files += len(plan.files)
            size += sum(plan.files.values())
            checkpoints += len(plan.checkpoints)
            paths += islice(plan.files, _MAX_PATHS - len(paths))
        kept = sum(sequence >= before for sequence in plan.tagged)
        removed = not dry_run
        return ExpireReport(
            floor, floor - before - kept, files, size, tuple(paths), checkpoints, removed=removed
        )

    def _floor(self, found: FoundDataset, newest: Manifest, limit: datetime | None, keep: int | None) -> int:
        """The sequence from which on snapshots are kept.

        A snapshot that an expiry made has the files of the one before it, which is taken instead. So the same
        call twice is the same as once.
        """
        kept = (each for each in found.history.newest_first(newest) if each.operation != EXPIRE)
        if limit is None:
            oldest = list(islice(kept, keep))[-1:]
        else:
            moment = moment_of(limit)
            oldest = list(islice(filter(moment.includes, kept), 1))
        return found.chain.sequence_of(oldest[0]) if oldest else newest.begins

    def _newest(self, found: FoundDataset) -> Head[Manifest]:
        head = found.committer.settle()
        if head.manifest is None:
            raise self._context.reads.no_snapshots()
        return head

    # -- what can be removed -------------------------------------------------------------------

    def _plan(
        self, found: FoundDataset, newest: Manifest, floor: int, tags: list[Tag] | None, share: Share
    ) -> _Plan:
        needed = retained(found, newest, floor, tags, share)
        return _Plan(
            dict(self._existing(found, needed.expired)),
            [] if share.number else list(self._old_checkpoints(found, needed)),
            tuple((needed.tagged or {}).values()),
        )

    def _existing(self, found: FoundDataset, wanted: frozenset[str]) -> Iterator[tuple[str, int]]:
        """Those of the files that exist, with their sizes. Nothing but data files of this dataset."""
        if not wanted:
            return
        for entry in self._store.list(f"{found.chain.paths.root}/"):
            if entry.path in wanted and found.layout.staged(self._id, entry.path) is not None:
                yield entry.path, entry.size

    def _old_checkpoints(self, found: FoundDataset, needed: Retained) -> Iterator[str]:
        """Checkpoints that no readable snapshot names."""
        if needed.lowest is None:
            return
        paths = found.chain.paths
        named, old = (
            set(map(paths.state, digests)) for digests in (needed.checkpoints, needed.old_checkpoints)
        )
        latest = self._handle.runtime.now_ns() / 1e9 - CHECKPOINT_GRACE_SECONDS
        for entry in self._store.list(paths.states):
            if entry.path in old or (entry.path not in named and entry.modified.timestamp() < latest):
                yield entry.path

    # -- removing ------------------------------------------------------------------------------

    def _remove(self, paths: list[str]) -> None:
        for start in range(0, len(paths), self._batch):
            batch = paths[start : start + self._batch]
            self._remover([Errand((path,)) for path in batch])
            if self._progress is not None:
                self._progress(start + len(batch), len(paths))


def _remove(store: Store, runtime: Runtime, errands: list[Errand]) -> list[bool]:
    return runtime.each(lambda errand: errand.run(store), errands)
