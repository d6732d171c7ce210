"""Copy a dataset or a volume with its history to another store or another name.

Files are copied first, each checked against its size and checksum. Then the snapshots are committed, with the
ids that they have. A new target is reserved for its newest snapshot by one swap of the pointer. From then on
no other process can write there, and readers find nothing until the snapshots before the newest are
published. A target that has an earlier part of the same history gets the missing snapshots one by one, oldest
first.

Every process that copies puts the same objects. So a copy that died is finished by running it again, and two
copies at once do the same work without harm. ``docs/design/copy.md`` has the argument.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from lode.dataset import Dataset
from lode.definition import decode_definition
from lode.errors import (
    DataError,
    DatasetExistsError,
    InvalidOptionError,
    LodeError,
    NotFoundError,
    OutcomeUnknownError,
    PathExistsError,
    SnapshotConflictError,
    SnapshotExpiredError,
    TagExistsError,
)
from lode.format.ids import check_new_id, shortened
from lode.format.manifest import DROP, MAX_MANIFEST_BYTES, Manifest
from lode.format.volume import swept_path
from lode.read.segment import LEVELS, MAX_SEGMENT_BYTES
from lode.read.source import get_bounded
from lode.read.tags import MAX_TAG_BYTES, load_tag, load_tags
from lode.runtime import REAL, Runtime
from lode.store.open import open_store
from lode.upkeep.copy_files import FileCopier
from lode.upkeep.copy_sides import MAX_MANIFESTS_AT_ONCE, DatasetSides, sides_of
from lode.upkeep.retained import retained
from lode.volume import Volume
from lode.write.commit import Committer
from lode.write.segments import write_segments

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence
    from datetime import date

    from lode.read.resolve import Chain, EncodedManifest
    from lode.snapshot import Snapshot, VolumeSnapshot
    from lode.store.protocol import Store
    from lode.upkeep.copy_sides import CopiedFile, CopySides

# How often the plan is made anew because other processes have moved the target.
_MAX_PLANS: Final = 16


@dataclass(frozen=True, slots=True)
class CopyReport:
    """The result of a copy, or with ``dry_run`` of one that was not made. Blocks of a volume count as files.

    Args:
        name: The dataset or volume in the target.
        head: The newest snapshot that the copy covers.
        snapshots: The snapshots that the target did not have.
        files: The files that were copied.
        bytes: Their size.
        present: The files of those snapshots that the target had already.
        dry_run: Whether nothing was copied.
    """

    name: str
    head: str
    snapshots: int = 0
    files: int = 0
    bytes: int = 0
    present: int = 0
    dry_run: bool = False


def copy(
    source: Dataset | Volume,
    target: str | os.PathLike[str] | Store,
    *,
    name: str | None = None,
    as_of: Snapshot | VolumeSnapshot | str | int | date | None = None,
    dry_run: bool = False,
    progress: Callable[[int, int | None], None] | None = None,
    runtime: Runtime = REAL,
) -> CopyReport:
    """Copy a dataset or a volume with its history. Only what the target does not have is copied.

    Snapshots keep their ids, their order and their content. A second call finishes a copy that was
    interrupted, or adds the snapshots that were committed since.

    Args:
        source: The dataset or the volume. Other processes may write to it at the same time.
        target: A URL, a path or a store.
        name: The name in the target; that of the source if not given.
        as_of: Copy the history up to this snapshot, named as in ``Dataset.snapshot``; all of it if None.
        dry_run: Only report what would be copied.
        progress: Called with (bytes done, bytes in all) now and then, by one thread at a time.
        runtime: Provides the threads.

    Raises:
        DatasetExistsError: The target has another dataset or volume of that name.
        ChecksumMismatchError: A file of the source does not match its manifest; nothing became visible.
        DataError: The target has an object of another size or content at a path of the copy. Existing files
            are compared by size; ``lode.verify`` compares checksums.
    """
    if not isinstance(source, (Dataset, Volume)):
        raise InvalidOptionError(f"copy takes a Dataset or a Volume, got {shortened(source)}")
    ref: Any = as_of  # each of the two refuses the other's snapshots
    end = (source.latest() if ref is None else source.snapshot(ref)).manifest
    sides = sides_of(source, open_store(target), name, runtime)
    if isinstance(source, Dataset) and isinstance(sides, DatasetSides) and isinstance(end, Manifest):
        sides.expired = _expired(source, end)
    return _Copier(sides, end, dry_run=dry_run, progress=progress, runtime=runtime).run()


def _expired(source: Dataset, end: Manifest) -> frozenset[str]:
    """The files that need not be copied, because an expiry has removed them."""
    found, head = source._changes.handle.look()
    if head.manifest is None:
        return frozenset()
    floor = found.definitions.floor_at(head.manifest)
    if found.definitions.floor_at(end) < floor:
        raise SnapshotExpiredError(
            f"{found.chain.name}: snapshots before number {floor} are expired, and snapshot "
            f"{end.snapshot_id} is of before that: leave as_of out, or name a later one"
        )
    return retained(found, head.manifest, floor).expired


@dataclass(slots=True)
class _Plan:
    """The snapshots that the target does not have, oldest first."""

    ids: list[str]
    # The newest snapshot that it has, and its pointer.
    after: str | None
    pointer: bytes | None
    # Whether the target has no snapshot at all, and whether its pointer already names the last of ``ids``.
    fresh: bool = False
    claimed: bool = False
    bytes: int = 0
    definitions: set[str] = field(default_factory=set)
    swept: set[str] = field(default_factory=set)
    # The snapshots that a history segment ends with, by the level of the segment.
    boundaries: dict[int, list[str]] = field(default_factory=dict)


class _Copier:
    """One call of ``copy``."""

    def __init__(
        self,
        sides: CopySides,
        end: Any,
        *,
        dry_run: bool,
        progress: Callable[[int, int | None], None] | None,
        runtime: Runtime,
    ) -> None:
        self._sides = sides
        self._origin = sides.origin
        self._target = sides.target
        self._end = end
        self._dry_run = dry_run
        self._runtime = runtime
        self._committer: Committer[Any] = Committer(sides.target, runtime, None)
        self._files = FileCopier(
            sides.origin.store, sides.target.store, dry_run=dry_run, progress=progress, runtime=runtime
        )

    def run(self) -> CopyReport:
        # Other processes may commit to the target, or copy to it too. Each plan begins with what they did.
        snapshots = 0
        for _ in range(_MAX_PLANS):
            plan = self._plan()
            if plan is None:
                self._copy_tags()
                return self._report(snapshots)
            self._check(plan)
            self._files.copy(self._files_of(plan), plan.bytes)
            if self._dry_run:
                return self._report(len(plan.ids))
            self._copy_described(plan)
            if self._commit(plan):
                snapshots += len(plan.ids)
                if plan.ids[-1] == self._end.snapshot_id:
                    self._copy_tags()
                    return self._report(snapshots)
        raise SnapshotConflictError(
            f"{self._target.name} in {self._target.store.url} is moved by others all the time: its files are "
            "copied, run the copy again when they are done"
        )

    def _report(self, snapshots: int) -> CopyReport:
        files = self._files
        return CopyReport(
            self._target.owner,
            self._end.snapshot_id,
            snapshots,
            files.files,
            files.bytes,
            files.present,
            self._dry_run,
        )

    # -- planning ------------------------------------------------------------------------------

    def _plan(self) -> _Plan | None:
        """Find what the target does not have; None if it has everything."""
        self._sides.refuse_other_place()
        try:
            head = self._target.resolve() if self._dry_run else self._committer.settle()
        except NotFoundError:
            return self._unfinished()
        if head.dropped is not None:
            raise self._was_dropped(head.dropped.snapshot_id)
        newest = head.pending.manifest if head.pending is not None else head.manifest
        if newest is None:
            return _Plan(self._ids_between(self._end, None), None, head.pointer, fresh=head.pointer is None)
        if self._target.manifest(self._end.snapshot_id) is not None:
            self._refuse_different(self._end.snapshot_id)
            return None
        missing = self._ids_between(self._end, newest.snapshot_id)
        self._refuse_different(newest.snapshot_id)
        return _Plan(missing, newest.snapshot_id, head.pointer)

    def _unfinished(self) -> _Plan:
        """Plan to finish a copy that has reserved the target. It may have died, or be running."""
        pointer = self._target.pointer()
        if pointer is None:
            raise self._origin.damaged(self._end.snapshot_id, "cannot be followed in the target")
        reserved = self._target.named_by(pointer)
        if self._origin.manifest(reserved) is None:
            raise self._different(reserved)
        self._refuse_different(reserved)
        ids = self._ids_between(self._origin.require(reserved), None)
        return _Plan(ids, None, pointer, fresh=True, claimed=True)

    def _ids_between(self, end: Any, after: str | None) -> list[str]:
        """The ids of the source after ``after`` up to ``end``, oldest first."""
        ids: list[str] = []
        for manifest in self._sides.newest_first(end):
            if manifest.snapshot_id == after:
                return ids[::-1]
            ids.append(check_new_id(manifest.snapshot_id, kind="snapshot"))
        if after is not None:
            raise self._different(after)
        return ids[::-1]

    def _refuse_different(self, snapshot_id: str) -> None:
        """Raise unless the target has this snapshot with the same content."""
        if not self._sides.has_same(snapshot_id):
            raise self._different(snapshot_id)

    def _different(self, snapshot_id: str) -> DatasetExistsError:
        kind, name, url = self._sides.kind, self._target.owner, self._target.store.url
        return DatasetExistsError(
            f"{url} has another {kind} {name!r}: its snapshot {snapshot_id} is not in the history that is "
            f"copied from {self._origin.store.url}; copy under another name, or to another place"
        )

    def _was_dropped(self, snapshot_id: str) -> DatasetExistsError:
        kind, name, url = self._sides.kind, self._target.owner, self._target.store.url
        return DatasetExistsError(
            f"{url} had another {kind} {name!r}, which {snapshot_id} dropped. A copy keeps the ids of its "
            "snapshots, and what still removes that one could take them for its own: copy under another name"
        )

    def _files_of(self, plan: _Plan) -> Iterator[CopiedFile]:
        parent = self._sides.manifest(plan.after).manifest if plan.after is not None else None
        for found in self._sides.manifests(plan.ids):
            yield from self._sides.files(found.manifest, parent)
            parent = found.manifest

    def _check(self, plan: _Plan) -> None:
        """Read all manifests, and refuse a damaged history before anything is written."""
        present = self._sides.manifest(plan.after).manifest if plan.after is not None else None
        before, parent = plan.after, present
        after = self._target.published(plan.after) if plan.after is not None else None
        if after is not None:
            self._sides.bind(after)
        for found in self._sides.manifests(plan.ids):
            manifest = found.manifest
            if manifest.parent_snapshot_id != before and (before or manifest.operation != DROP):
                raise self._origin.damaged(manifest.snapshot_id, f"does not follow {before}")
            before = manifest.snapshot_id
            if isinstance(manifest, Manifest):
                if manifest.definition is not None:
                    plan.definitions.add(manifest.definition)
                level = next((each for each in LEVELS if not (manifest.sequence or 1) % each), None)
                if level is not None:
                    plan.boundaries.setdefault(level, []).append(manifest.snapshot_id)
            else:
                plan.swept.update(manifest.swept)
            plan.bytes += sum(file.size for file in self._sides.files(manifest, parent))
            parent = manifest
            self._sides.bind(self._sides.as_placed(found))
        if isinstance(present, Manifest):
            plan.definitions.discard(present.definition or "")

    # -- writing the target --------------------------------------------------------------------

    def _copy_described(self, plan: _Plan) -> None:
        """Copy the definitions, and a volume's lists of swept blocks, that the manifests refer to."""
        for digest in sorted(plan.definitions or ()):
            source = self._origin.paths.definition(digest)
            try:
                data = get_bounded(self._origin.store, source, MAX_MANIFEST_BYTES)
            except NotFoundError:
                raise DataError(f"{source} is missing, and snapshots refer to it: run lode verify") from None
            decode_definition(data, digest, source)
            _create(self._target.store, self._target.paths.definition(digest), data)
        for digest in sorted(plan.swept or ()):
            try:
                data = get_bounded(
                    self._origin.store, swept_path(self._origin.owner, digest), MAX_MANIFEST_BYTES
                )
            except NotFoundError:
                continue  # the list was removed by hand, which its readers expect
            if sha256(data).hexdigest() != digest:
                raise DataError(
                    f"{swept_path(self._origin.owner, digest)} is not the list of that name: it is damaged; "
                    "remove it and copy again"
                )
            _create(self._target.store, swept_path(self._target.owner, digest), data)
        self._copy_checkpoint()

    def _copy_checkpoint(self) -> None:
        """Copy the newest checkpoint, if the manifests of the target will name it too."""
        ref = self._end.checkpoint if isinstance(self._end, Manifest) and not self._sides.is_renamed else None
        if ref is None:
            return
        with suppress(LodeError):  # readers do without it
            data = get_bounded(self._origin.store, self._origin.paths.state(ref.sha256), MAX_SEGMENT_BYTES)
            if sha256(data).hexdigest() == ref.sha256:
                _create(self._target.store, self._target.paths.state(ref.sha256), data)

    def _copy_tags(self) -> None:
        if not self._dry_run:
            copy_tags(self._origin, self._target)

    def _commit(self, plan: _Plan) -> bool:
        """Commit the snapshots. False if another process has moved the pointer of the target."""
        if not plan.fresh:
            if not self._follow(plan):
                return False
        else:
            self._each(self._committer.declare, plan.ids[:-1])
            if not plan.claimed and not self._committer.claim(self._sides.placed(plan.ids[-1]), None):
                return False
            # Readers find nothing while the last but one is missing, so all others are published before it.
            self._each(self._committer.publish, plan.ids[:-2])
            for snapshot_id in plan.ids[-2:]:
                self._committer.publish(self._sides.placed(snapshot_id))
        self._write_segments(plan)
        return True

    def _follow(self, plan: _Plan) -> bool:
        """Commit one snapshot after the other. If another copy is ahead, continue after it."""
        places = {snapshot_id: place for place, snapshot_id in enumerate(plan.ids)}
        pointer = plan.pointer
        start: int | None = 0
        while start is not None:
            ahead = None
            for found in self._sides.manifests(plan.ids[start:]):
                placed = self._sides.as_placed(found)
                if not self._committer.claim(placed, pointer):
                    pointer = self._target.pointer()
                    ahead = places.get((pointer or b"").decode("utf-8", "replace"))
                    if ahead is None:
                        return False
                    self._committer.publish(self._sides.placed(plan.ids[ahead]))
                    break
                self._committer.publish(placed)
                pointer = placed.manifest.snapshot_id.encode()
            start = None if ahead is None else ahead + 1
        return True

    def _each(self, do: Callable[[EncodedManifest[Any]], None], ids: Sequence[str]) -> None:
        """Call ``do`` with each snapshot, several at once."""
        for start in range(0, len(ids), MAX_MANIFESTS_AT_ONCE):
            batch = ids[start : start + MAX_MANIFESTS_AT_ONCE]
            self._runtime.each(lambda id: do(self._sides.placed(id)), batch)

    def _write_segments(self, plan: _Plan) -> None:
        """Write the history segments of the target, small ones first: larger ones are made of them."""

        def write(snapshot_id: str) -> None:
            with suppress(LodeError):  # the copy is complete without segments
                write_segments(self._target, self._target.require(snapshot_id))

        for level in sorted(plan.boundaries):
            self._runtime.each(write, plan.boundaries[level])


def copy_tags(origin: Chain[Any], target: Chain[Any]) -> None:
    """Copy the tags of snapshots that the target has."""
    for tag in load_tags(origin):
        if target.manifest(tag.snapshot_id) is None:
            continue
        known = load_tag(target, tag.name)
        if known is None:
            data = get_bounded(origin.store, origin.paths.tag(tag.name), MAX_TAG_BYTES)
            _create(target.store, target.paths.tag(tag.name), data)
        elif known.snapshot_id != tag.snapshot_id:
            raise TagExistsError(
                f"tag {tag.name!r} of {target.name} in {target.store.url} names snapshot "
                f"{known.snapshot_id}, and that of the source {tag.snapshot_id}: all snapshots are copied; "
                "remove the tag there with untag, and do this again"
            )


def _create(store: Store, path: str, data: bytes) -> None:
    """Put an object that is named by its content."""
    try:
        store.put(path, data)
    except (PathExistsError, OutcomeUnknownError):
        if store.get(path) != data:
            raise DataError(
                f"{path} in {store.url} is not the object of that name: it is damaged; remove it and "
                "copy again"
            ) from None
