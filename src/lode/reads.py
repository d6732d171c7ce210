"""What a read of an opened dataset means: the snapshot that a reference names, and the files of a range."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, TypeAlias, TypedDict

from lode.definition import Definition
from lode.errors import InvalidOptionError, NoSnapshotsError, NotFoundError, SnapshotExpiredError
from lode.format.manifest import MAX_SEQUENCE
from lode.near import question
from lode.read.change_scan import ChangeScan
from lode.read.incremental import OnRemoval, changes_rows, check_on_removal, increment, removes_rows
from lode.read.resolve import begins_with
from lode.read.scan import Scan
from lode.read.tags import is_tagged
from lode.read.which import ExactId, Moment, find, newer_than, parsed
from lode.reader import DatasetReader
from lode.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow.compute as pc

    from lode.format.manifest import Manifest
    from lode.handle import DatasetHandle
    from lode.read.state import Cut

SnapshotRef: TypeAlias = Snapshot | str | int | date
"""What names a snapshot: itself, an id, a tag, a number, ``latest~2`` or a time."""


class ScanOptions(TypedDict, total=False):
    """The arguments of ``Dataset.scan``, which explains them."""

    as_of: SnapshotRef | None
    since: SnapshotRef | None
    columns: Sequence[str] | None
    where: pc.Expression | str | None
    limit: int | None
    on_removal: OnRemoval


class Reads:
    """Resolves what the reads of one opened dataset name."""

    def __init__(self, handle: DatasetHandle) -> None:
        self._handle = handle

    def plan(
        self,
        since: SnapshotRef | None,
        as_of: SnapshotRef | None,
        on_removal: OnRemoval = "fail",
        cut: Cut | None = None,
    ) -> Scan:
        """The visible files at a snapshot, or those added after ``since``, without reading them.

        Args:
            since: The snapshot before them.
            as_of: The snapshot; None is the newest.
            on_removal: As for ``Dataset.plan``.
            cut: Which files, and what of them. A range in which rows were removed is held whole for a moment.
        """
        check_on_removal(on_removal)
        if since is not None:
            return self._increment(since, as_of, on_removal, cut)
        if on_removal != "fail":
            raise InvalidOptionError(
                f"on_removal={on_removal!r} is for the rows after a snapshot: give since too, or leave it out"
            )
        end = self.visible() if as_of is None else self.readable(as_of)
        states = self._handle.find().states
        if cut is None:
            return self.scan(states.at(end), end)
        return self.scan(states.fold(end, checkpoints=cut.only is None, cut=cut).manifests(), end)

    def _increment(
        self, since: SnapshotRef, as_of: SnapshotRef | None, on_removal: OnRemoval, cut: Cut | None = None
    ) -> Scan:
        """The files with the rows that came after ``since``."""
        manifests, end = self.between(since, as_of, cut)
        if cut is not None and any(map(removes_rows, manifests)):
            whole = self._increment(since, as_of, on_removal)
            return whole.of(self._counted(map(cut, whole.manifests)))
        if not manifests:
            return self._changes(self.scan([], end), () if on_removal == "report" else None)
        found = self._handle.find()
        first = manifests[0]

        def start() -> Manifest | None:
            parent = first.parent_snapshot_id
            return None if parent is None else found.chain.ancestor(parent, first.snapshot_id)

        # No file of an earlier snapshot is read.
        needed = next(filter(changes_rows, manifests), None)
        if needed is not None:
            # Files that it removes are visible only before it.
            before = on_removal == "report" and removes_rows(needed)
            sequence = found.chain.sequence_of(needed) - before
            self._check_range(sequence, first, end if as_of is None else None)
        read = increment(manifests, start, found.states, on_removal)
        added = read.manifests if cut is None else self._counted(read.manifests)
        return self._changes(self.scan(added, end), read.kinds)

    def _counted(self, manifests: Iterable[Manifest]) -> list[Manifest]:
        """Manifests of which some files were left out, with the number of rows in the others."""
        return self._handle.find().states.reduced(
            (file, manifest) for manifest in manifests for file in manifest.files
        )

    def _changes(self, scan: Scan, kinds: tuple[str, ...] | None) -> Scan:
        return scan if kinds is None else ChangeScan.made_from(scan, kinds)

    def _check_range(self, sequence: int, first: Manifest, head: Manifest | None) -> None:
        """Refuse a range that needs files of a snapshot that is expired."""
        floor = self.floor(head)
        if sequence < floor:
            raise SnapshotExpiredError(
                f"the rows after {first.parent_snapshot_id or 'the beginning'} of dataset "
                f"{self._handle.id!r} cannot be read any more: history begins at number {floor} now; read "
                "the whole dataset, then what comes after the snapshot that was read"
            )

    def existing(
        self, since: SnapshotRef | None, as_of: SnapshotRef | None, on_removal: OnRemoval = "fail"
    ) -> Scan:
        """The plan of a scan; raises ``NoSnapshotsError`` if the dataset does not exist."""
        found = self.plan(since, as_of, on_removal)
        if found.definition is None:
            raise self.no_snapshots(near=True)
        return found

    def readable(self, ref: SnapshotRef) -> Manifest:
        """The snapshot that a reference names; raises ``SnapshotExpiredError`` if its files may be gone."""
        found = self.manifest(ref)
        self._check_readable(found)
        return found

    def _check_readable(self, manifest: Manifest) -> None:
        """Refuse a snapshot whose files may be gone."""
        head = self.visible()
        if head is None or head.snapshot_id == manifest.snapshot_id:
            return
        floor = self.floor(head)
        chain = self._handle.find().chain
        if floor > 1 and chain.sequence_of(manifest) < floor and not is_tagged(chain, manifest.snapshot_id):
            raise SnapshotExpiredError(
                f"snapshot {manifest.snapshot_id} of dataset {self._handle.id!r} is expired: history can be "
                f"read from number {floor} on"
            )

    def plan_snapshot(self, snapshot: SnapshotRef) -> Scan:
        """The files that one snapshot itself added, without reading them. For a blob see ``_with_blob``."""
        manifest = self._with_blob(self.readable(snapshot))
        if manifest.definition is not None:
            return self.scan([manifest], manifest)
        # Written by 0.1 or Go, where snapshots of one dataset may differ: the manifest has its components.
        components = self._handle.components_of(manifest)
        return Scan(
            self._handle.store,
            self._handle.id,
            self._handle.find().layout,
            components,
            [manifest],
            runtime=self._handle.runtime,
        )

    def _with_blob(self, manifest: Manifest) -> Manifest:
        """Of a dataset of blobs, the snapshot whose blob is the newest one at this snapshot.

        A restore brings back an earlier blob, and an expiry keeps the one before it. Neither has its own.
        """
        chain = self._handle.find().chain
        current, seen = manifest, set[str]()
        while current.codec is None and not current.files:
            earlier = current.restores or current.parent_snapshot_id
            if earlier is None or begins_with(current):
                return manifest
            if current.snapshot_id in seen:
                raise chain.damaged(current.snapshot_id, "restores a snapshot after it")
            seen.add(current.snapshot_id)
            current = chain.ancestor(earlier, current.snapshot_id)
        return current

    def floor(self, newest: Manifest | None = None) -> int:
        """The sequence of the oldest snapshot that can be read now; beyond all if there is none.

        Args:
            newest: The newest snapshot; looked up if not given.
        """
        head = self.visible() if newest is None else newest
        return MAX_SEQUENCE if head is None else self._handle.find().definitions.floor_at(head)

    def scan(self, manifests: Sequence[Manifest], end: Manifest | None) -> Scan:
        """A scan of the files of these snapshots, as the dataset is defined at ``end``."""
        found = self._handle.find()
        definition = None if end is None else found.definitions.at(end)
        return Scan(
            self._handle.store,
            self._handle.id,
            found.layout,
            self._handle.components(found, definition or Definition()),
            manifests,
            runtime=self._handle.runtime,
            definition=definition,
            definitions=found.definitions,
        )

    def visible(self) -> Manifest | None:
        return self._handle.look()[1].manifest

    def no_snapshots(self, *, near: bool = False) -> NoSnapshotsError:
        hint = question(DatasetReader(self._handle.store).near(self._handle.id)) if near else ""
        return NoSnapshotsError(
            f"dataset {self._handle.id!r} in {self._handle.store.url} has no snapshots yet: "
            f"{hint or 'write one first'}"
        )

    def latest(self) -> Manifest:
        """The newest snapshot, which the next commit expects from now on."""
        manifest = self._handle.look(refresh=True)[1].manifest
        if manifest is None:
            raise self.no_snapshots()
        return manifest

    def manifest(self, ref: SnapshotRef) -> Manifest:
        if not isinstance(ref, Snapshot):
            named = parsed(ref)
            found = self._handle.find()
            return find(named, found.chain, found.history, self.visible)
        owner = ref.manifest.dataset_id
        if owner != self._handle.id:
            raise NotFoundError(f"{ref} is of dataset {owner!r}, this is {self._handle.id!r}")
        return ref.manifest

    def end(self, as_of: SnapshotRef | None) -> Manifest | None:
        return self.visible() if as_of is None else self.manifest(as_of)

    def between(
        self, since: SnapshotRef | None, as_of: SnapshotRef | None, cut: Cut | None = None
    ) -> tuple[Sequence[Manifest], Manifest | None]:
        """The manifests after ``since`` up to ``as_of``, oldest first, and the one that ``as_of`` names."""
        if since is None:
            end = self.end(as_of)
            return (self._handle.find().history.up_to(end) if end else []), end
        # Resolved before the end: if a commit comes between the two, latest~1 must not be the end itself.
        start = self._start(since)
        end = self.end(as_of)
        found = self._after(start, end)
        return list(found if cut is None else map(cut, found))[::-1], end

    def newest_first(self, since: SnapshotRef | None, as_of: SnapshotRef | None) -> Iterator[Manifest]:
        """The same manifests, newest first; read as far as the caller iterates."""
        if since is None:
            end = self.end(as_of)
            return self._handle.find().history.newest_first(end)
        start = self._start(since)
        return self._after(start, self.end(as_of))

    def _start(self, since: SnapshotRef) -> Moment | ExactId:
        start = None if isinstance(since, Snapshot) else parsed(since)
        return start if isinstance(start, Moment | ExactId) else ExactId(self.manifest(since).snapshot_id)

    def _after(self, start: Moment | ExactId, end: Manifest | None) -> Iterator[Manifest]:
        """The manifests up to ``end`` and after ``start``, newest first."""
        found = self._handle.find()
        return newer_than(start, found.history.newest_first(end), found.chain, end)
