"""Copy a dataset snapshot by snapshot: the same files, byte for byte, checked as they pass."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, overload

import msgspec
from cachetools import LRUCache

from lode.codec.checksum import checksum as checksum_of
from lode.codec.compress import compressor
from lode.codec.field_ids import disagreement
from lode.dataset import Dataset
from lode.errors import (
    ChecksumMismatchError,
    ComponentMismatchError,
    InvalidOptionError,
    SchemaViolationError,
    SnapshotExpiredError,
)
from lode.evolution import check_schema
from lode.format.manifest import FileRef, Removes
from lode.lineage.position import BEGINNING, NEW_CHECKPOINT, Position, position_of, replaced
from lode.lineage.record import KEY, Lineage, input_of, lineage_of
from lode.read.define import components_named
from lode.read.files import check_components
from lode.read.source import READ_AHEAD
from lode.read.which import ExactId
from lode.snapshot import Snapshot
from lode.spark.dataset_ref import is_same, opened
from lode.spark.resume import new_snapshot_id
from lode.spark.spread import reachable, spread
from lode.write.file import DataFile
from lode.write.removal import Removal, nowhere
from lode.write.stage import Staged
from lode.writes import with_removals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import SparkSession

    from lode.definition import Definition
    from lode.evolution import Evolution
    from lode.format.manifest import Manifest
    from lode.spark.dataset_ref import Where
    from lode.store.protocol import Store
    from lode.write.stage import Stager

# How many files one Spark job copies, of as many snapshots as they belong to.
_FILES_PER_JOB: Final = 2000
# Of how many snapshots the names of all files are kept at once.
_SNAPSHOTS_KEPT: Final = 16


def copy(
    spark: SparkSession,
    source: Where,
    sink: Where,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> CopiedSnapshots:
    """Copy every snapshot that the sink does not have yet, in order, each as a snapshot of its own.

    Files are copied as they are, and checked against their checksums on the way. A snapshot keeps its
    metadata and gains its lineage. Run again, only what is new is copied. The snapshots
    that it returns are read when they are asked for.

    Args:
        spark: The session.
        source: The dataset.
        sink: Another dataset. One without snapshots takes over layout, codec and compressor.
        progress: Called with (snapshots done, snapshots in all) now and then.
    """
    origin, into = reachable(opened(source)), reachable(opened(sink))
    if is_same(origin, into):
        raise InvalidOptionError(f"copy to another dataset than {origin.id!r} itself")
    target = _alike(origin, into)
    name = f"copy:{origin.store.url}/{origin.id}"
    start = _copied_up_to(target, name)
    copies = _Copies(origin, target, name)
    made: list[str] = []
    groups = _groups(origin, start)
    waiting = sum(map(len, groups))
    while groups:
        group = [Snapshot(origin.chain.require(snapshot_id)) for snapshot_id in groups.pop()]
        columns = _Columns.of(origin, start, group)
        files = _copy_files(spark, origin, target, group)
        for snapshot in group:
            up_to = position_of(origin, snapshot)
            lineage = Lineage(name, (input_of(origin, start, up_to),))
            copied = _commit(target, snapshot, lineage, files[snapshot.id], columns, copies)
            copies.add(snapshot.manifest, copied.manifest)
            made.append(copied.id)
            start = up_to
        if progress is not None:
            progress(len(made), waiting)
    return CopiedSnapshots(target, made)


class CopiedSnapshots(Sequence[Snapshot]):
    """The snapshots that a copy has made, in their order. Each is read when it is asked for."""

    def __init__(self, dataset: Dataset, ids: Sequence[str]) -> None:
        self._dataset = dataset
        self._ids = tuple(ids)

    def __len__(self) -> int:
        return len(self._ids)

    @overload
    def __getitem__(self, index: int) -> Snapshot: ...

    @overload
    def __getitem__(self, index: slice) -> CopiedSnapshots: ...

    def __getitem__(self, index: int | slice) -> Snapshot | CopiedSnapshots:
        if isinstance(index, slice):
            return CopiedSnapshots(self._dataset, self._ids[index])
        return self._dataset.snapshot(ExactId(self._ids[index]))

    def __repr__(self) -> str:
        return f"CopiedSnapshots({self._dataset.id!r}, {len(self)} snapshots)"


@dataclass(frozen=True, slots=True)
class _Errand:
    """One file to be copied."""

    file: FileRef
    algorithm: str | None
    snapshot_id: str
    partition: str
    # Its place among the files of the snapshot. The copies are sorted by it, so each is found again.
    number: int


@dataclass(frozen=True, slots=True)
class _Courier:
    """Copies files from a store to another dataset. Pickles."""

    origin: Store
    target: Stager

    def __call__(self, errand: _Errand) -> FileRef:
        target = self.target
        # A name of its own for each attempt: one that is run again or twice finds no other in its way.
        name = f"data-{errand.number:06d}-{secrets.token_hex(8)}{target.components.extension}"
        path = target.layout.data_path(target.dataset_id, errand.snapshot_id, errand.partition, name)
        checksum = checksum_of(errand.algorithm)
        hasher = checksum.start() if checksum else None
        copied = DataFile(target.store, path, compressor("noop"), target.components.checksum)
        size = 0
        try:
            with self.origin.open_reader(errand.file.path) as reader:
                while piece := reader.read_at(size, READ_AHEAD):
                    copied.write(piece)
                    size += len(piece)
                    if hasher is not None:
                        hasher.update(piece)
            found = hasher.hexdigest() if hasher else None
            if size != errand.file.size_bytes or (errand.file.checksum and found != errand.file.checksum):
                raise ChecksumMismatchError(
                    f"{errand.file.path} is not what its manifest says: {size} bytes, checksum {found}, "
                    f"instead of {errand.file.size_bytes} bytes, {errand.file.checksum}"
                )
            stored = copied.finish()
        except BaseException:
            copied.abort()
            raise
        return FileRef(stored.path, stored.size_bytes, stored.checksum)


def _copy_files(
    spark: SparkSession, origin: Dataset, target: Dataset, group: Sequence[Snapshot]
) -> dict[str, tuple[str, list[FileRef]]]:
    """The new id of each snapshot, and its copied files."""
    ids = {snapshot.id: new_snapshot_id() for snapshot in group}
    errands = [
        (snapshot.id, _errand(origin, snapshot.manifest, file, ids[snapshot.id], number))
        for snapshot in group
        for number, file in enumerate(_in_order(snapshot.files))
    ]
    courier = _Courier(origin.store, target.stager())
    work = [errand for _, errand in errands]
    # What they say is as large as all else together, and tasks have no use for it.
    originals = [file for snapshot in group for file in _in_order(snapshot.files)]
    copied = spread(spark, courier, work, [errand.file.size_bytes for errand in work])
    found: dict[str, tuple[str, list[FileRef]]] = {old: (new, []) for old, new in ids.items()}
    for (old, _), file, original in zip(errands, copied, originals, strict=True):
        known = msgspec.structs.replace(file, stats=original.stats, partition=original.partition)
        found[old][1].append(known)
    return found


def _errand(origin: Dataset, manifest: Manifest, file: FileRef, snapshot_id: str, number: int) -> _Errand:
    partition = origin.layout.partition_of(origin.id, file.path)
    slim = msgspec.structs.replace(file, stats=None, partition=None)
    return _Errand(slim, manifest.checksum_algorithm, snapshot_id, partition, number)


def _in_order(files: Iterable[FileRef]) -> list[FileRef]:
    return sorted(files, key=lambda file: file.path)


def _check_readable(origin: Dataset, start: Position, newest: Manifest) -> None:
    """Refuse to copy snapshots whose files may be gone."""
    first = max(start.sequence + 1, newest.begins)
    floor = origin._changes.handle.look()[0].definitions.floor_at(newest)
    if floor > first:
        raise SnapshotExpiredError(
            f"dataset {origin.id!r} can be read from snapshot number {floor} on, and its copy needs "
            f"those from {first} on: write the rows of now to another dataset with rewrite()"
        )


class _Copies:
    """The copies of snapshots and files, by the names that they have in the origin."""

    def __init__(self, origin: Dataset, target: Dataset, made_by: str) -> None:
        self._origin = origin
        self._target = target
        self._made_by = made_by
        # The ids of copies by those of their origins, and the names of their files.
        self._ids: dict[str, str] = {}
        self._files: LRUCache[str, dict[str, str]] = LRUCache(_SNAPSHOTS_KEPT)
        # Whether those of earlier runs are known. They are read when a snapshot refers to one.
        self._complete = False

    def add(self, manifest: Manifest, copy: Manifest) -> None:
        """Record the copy of a snapshot."""
        self._ids[manifest.snapshot_id] = copy.snapshot_id
        self._files[manifest.snapshot_id] = self._paired(manifest, copy)

    def _paired(self, manifest: Manifest, copy: Manifest) -> dict[str, str]:
        """The paths of the files of a copy, by those of the origin."""
        pairs = list(zip(_in_order(manifest.files), _in_order(copy.files), strict=False))
        alike = len(manifest.files) == len(copy.files)
        if not alike or any(one.size_bytes != other.size_bytes for one, other in pairs):
            raise ComponentMismatchError(
                f"snapshot {copy.snapshot_id} of dataset {self._target.id!r} is not a copy of "
                f"{manifest.snapshot_id}: copy into a new dataset"
            )
        return {one.path: other.path for one, other in pairs}

    def removal(self, manifest: Manifest, files: Sequence[FileRef]) -> Removal | None:
        """What the copy of a snapshot removes, under the names of the copy; None if it only adds.

        Args:
            manifest: The snapshot.
            files: Copies of its files.
        """
        if manifest.removes is None and manifest.restores is None:
            return None
        own = {one.path: other.path for one, other in zip(_in_order(manifest.files), files, strict=True)}
        removes = manifest.removes or Removes()
        found = Removal(
            manifest.operation,
            removes.partitions,
            frozenset(self._file(path) for path in removes.files),
            tuple(own[path] for path in manifest.carried),
            depends_on=nowhere,
            removed=manifest.removed,
        )
        if manifest.restores is not None:
            restored = self._snapshot(manifest.restores)
            found.restores = restored.snapshot_id
            found.restored_sequence = self._target.chain.sequence_of(restored)
        return found

    def _file(self, path: str) -> str:
        # The snapshot that added a file is in its path, unless it was written by something else than Lode.
        added_by = self._origin.layout.staged(self._origin.id, path)
        found = None if added_by is None else self._files_of(added_by).get(path)
        if found is None:
            self._read_earlier()
            copies = (self._files_of(snapshot_id).get(path) for snapshot_id in self._ids)
            found = next((each for each in copies if each is not None), None)
        if found is None:
            raise ComponentMismatchError(
                f"dataset {self._target.id!r} has no copy of {path}, which a snapshot removes: copy into a "
                "new dataset"
            )
        return found

    def _files_of(self, snapshot_id: str) -> dict[str, str]:
        if snapshot_id not in self._files:
            if snapshot_id not in self._ids:
                self._read_earlier()
            if snapshot_id not in self._ids:
                return {}
            origin = self._origin.snapshot(ExactId(snapshot_id)).manifest
            self._files[snapshot_id] = self._paired(origin, self._snapshot(snapshot_id))
        return self._files[snapshot_id]

    def _snapshot(self, snapshot_id: str) -> Manifest:
        if snapshot_id not in self._ids:
            self._read_earlier()
        if snapshot_id not in self._ids:
            raise ComponentMismatchError(
                f"dataset {self._target.id!r} has no copy of snapshot {snapshot_id}, which another restores: "
                "copy into a new dataset"
            )
        return self._target.snapshot(ExactId(self._ids[snapshot_id])).manifest

    def _read_earlier(self) -> None:
        if self._complete:
            return
        self._complete = True
        for copy in self._target.history():
            lineage = lineage_of(copy)
            if lineage is not None and lineage.made_by == self._made_by:
                self._ids.setdefault(lineage.inputs[0].up_to.snapshot, copy.id)


@dataclass(frozen=True, slots=True)
class _Columns:
    """What the origin was at each snapshot, so that the copy is the same there."""

    at: dict[str, Definition]
    digests: frozenset[str]

    @staticmethod
    def of(origin: Dataset, start: Position, group: Sequence[Snapshot]) -> _Columns:
        manifests = [snapshot.manifest for snapshot in group]
        if start.snapshot:
            manifests.insert(0, origin.snapshot(ExactId(start.snapshot)).manifest)
        last = ExactId(manifests[-1].snapshot_id)
        plan = origin.plan(since=last, as_of=last)
        assert plan.definition is not None
        assert plan.definitions is not None
        found = [each or plan.definition for each in plan.definitions.by_manifest(manifests)]
        at = {manifest.snapshot_id: each for manifest, each in zip(manifests, found, strict=True)}
        return _Columns(at, frozenset(each.digest for each in found))

    def evolution(self, snapshot_id: str, dataset_id: str) -> Evolution:
        """The change of the copy that makes it what the origin was at a snapshot."""
        then = self.at[snapshot_id]

        def change(before: Definition) -> Definition:
            if before.columns is None or before.digest in self.digests:
                return then
            # The copy was changed by others. Files are found by their columns' names there.
            if then.schema is not None:
                try:
                    check_schema(before, then.schema, dataset_id)
                except SchemaViolationError as error:
                    raise ComponentMismatchError(f"{error}; files can only be copied as they are") from None
            name = disagreement(then.field_ids or {}, before.field_ids or {})
            if name is not None:
                raise ComponentMismatchError(
                    f"column {name!r} has another id in dataset {dataset_id!r} than in the files, which can "
                    "only be copied as they are: copy into a new dataset"
                )
            return before

        return change


def _commit(
    target: Dataset,
    snapshot: Snapshot,
    lineage: Lineage,
    copied: tuple[str, list[FileRef]],
    columns: _Columns,
    copies: _Copies,
) -> Snapshot:
    manifest = snapshot.manifest
    new_id, files = copied
    metadata: dict[str, Any] = dict(manifest.metadata)
    if KEY in metadata:
        metadata[f"{KEY}_before"] = metadata[KEY]
    key = (lineage.made_by, snapshot.id)
    # The files have the columns of the origin at that snapshot, not those of the stager's codec.
    named = components_named(manifest.codec, manifest.compressor, manifest.checksum_algorithm)
    stager = msgspec.structs.replace(target.stager(new_id), components=named)
    evolution = columns.evolution(snapshot.id, target.id)
    removal = copies.removal(manifest, files)
    if removal is not None:
        evolution = partial(with_removals, first=evolution)
    writes = target._changes.writes
    begun = writes.begin({**metadata, **lineage.as_metadata()}, key, new_id, None, "append")
    with writes.transaction(begun, None, evolve=False, removal=removal) as transaction:
        transaction.take_over(stager, columns.at[snapshot.id], evolution)
        transaction.add(
            Staged(tuple(files), manifest.row_count, manifest.min_timestamp, manifest.max_timestamp)
        )
        return transaction.commit()


def _groups(origin: Dataset, start: Position) -> list[list[str]]:
    """The ids of the snapshots to copy, in groups with about as many files as one job copies; newest first.

    Manifests are read one by one, because a segment of history can have more files than fit in memory.
    """
    newest = origin.latest()
    sequence = position_of(origin, newest).sequence
    before = newest.id
    found: list[list[str]] = []
    files = _FILES_PER_JOB
    if sequence > start.sequence:
        _check_readable(origin, start, newest.manifest)
    for _ in range(max(start.sequence, newest.manifest.begins - 1), sequence):
        manifest = origin.chain.require(before)
        if files >= _FILES_PER_JOB:
            found.append([])
            files = 0
        found[-1].insert(0, before)
        files += len(manifest.files) + 1
        before = manifest.parent_snapshot_id or ""
    if sequence < start.sequence or (start != BEGINNING and before != start.snapshot):
        raise replaced(origin, start, NEW_CHECKPOINT)
    return found


def _copied_up_to(target: Dataset, name: str) -> Position:
    for snapshot in target.history():
        lineage = lineage_of(snapshot)
        if lineage is not None and lineage.made_by == name:
            return lineage.inputs[0].up_to
    return BEGINNING


def _alike(origin: Dataset, target: Dataset) -> Dataset:
    """The target, or if it is empty, one like the origin in its place."""
    newest = next(target.history(), None)
    if newest is None:
        made = origin.definition
        named = components_named(made.codec, made.compressor, made.checksum)
        return Dataset(
            target.id,
            target.store,
            codec=named.codec,
            layout=origin.layout,
            compressor=named.compressor,
            checksum=origin.components.checksum,
        )
    check_components(newest.manifest, origin.components)
    if target.layout != origin.layout:
        raise ComponentMismatchError(
            f"dataset {target.id!r} has the layout {target.layout} and {origin.id!r} has {origin.layout}: "
            "files can only be copied between equal ones; rewrite() changes the layout"
        )
    return target
