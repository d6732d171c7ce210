"""Copy a dataset snapshot by snapshot: the same files, byte for byte, checked as they pass."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from lode.codec.checksum import checksum as checksum_of
from lode.codec.compress import compressor
from lode.dataset import Dataset
from lode.errors import ChecksumMismatchError, ComponentMismatchError, SchemaViolationError
from lode.evolution import check_schema
from lode.format.manifest import FileRef
from lode.read.define import components_named
from lode.read.files import check_components
from lode.read.source import READ_AHEAD
from lode.read.which import ExactId
from lode.spark.dataset_ref import opened
from lode.spark.lineage import KEY, Lineage, input_of, lineage_of
from lode.spark.position import BEGINNING, Position, between, position_of
from lode.spark.resume import new_snapshot_id, resume
from lode.spark.spread import reachable, spread
from lode.write.file import DataFile
from lode.write.stage import Staged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from lode.definition import Definition
    from lode.evolution import Evolution
    from lode.format.manifest import Manifest
    from lode.snapshot import Snapshot
    from lode.spark.dataset_ref import Where
    from lode.store.protocol import Store
    from lode.write.stage import Stager

# How many files one Spark job copies, of as many snapshots as they belong to.
_FILES_PER_JOB: Final = 2000


def copy(
    spark: SparkSession,
    source: Where,
    sink: Where,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> list[Snapshot]:
    """Copy every snapshot that the sink does not have yet, in order, each as a snapshot of its own.

    Files are copied as they are, and checked against their checksums on the way. A snapshot keeps its
    metadata and gains its lineage. Run again, only what is new is copied.

    Args:
        spark: The session.
        source: The dataset.
        sink: Another dataset. One without snapshots takes over layout, codec and compressor.
        progress: Called with (snapshots done, snapshots in all) now and then.
    """
    origin = reachable(opened(source))
    target = _alike(origin, reachable(opened(sink)))
    name = f"copy:{origin.store.url}/{origin.id}"
    start = _copied_up_to(target, name)
    waiting = between(origin, start, position_of(origin, origin.latest()))
    columns = _Columns.of(origin, start, waiting)
    done: list[Snapshot] = []
    for group in _groups(waiting):
        files = _copy_files(spark, origin, target, group)
        for snapshot in group:
            up_to = Position(start.sequence + 1, snapshot.id)
            lineage = Lineage(name, (input_of(origin, start, up_to),))
            done.append(_commit(target, snapshot, lineage, files[snapshot.id], columns))
            start = up_to
        if progress is not None:
            progress(len(done), len(waiting))
    return done


@dataclass(frozen=True, slots=True)
class _Errand:
    """One file to be copied."""

    file: FileRef
    algorithm: str | None
    snapshot_id: str
    partition: str


@dataclass(frozen=True, slots=True)
class _Courier:
    """Copies files from a store to another dataset. Pickles."""

    origin: Store
    target: Stager

    def __call__(self, errand: _Errand) -> FileRef:
        target = self.target
        # A name of its own for each attempt: one that is run again or twice finds no other in its way.
        name = f"data-{secrets.token_hex(8)}{target.components.compressor.extension}"
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
        return FileRef(stored.path, stored.size_bytes, stored.checksum, errand.file.stats)


def _copy_files(
    spark: SparkSession, origin: Dataset, target: Dataset, group: Sequence[Snapshot]
) -> dict[str, tuple[str, list[FileRef]]]:
    """The new id of each snapshot, and its copied files."""
    ids = {snapshot.id: new_snapshot_id() for snapshot in group}
    errands = [
        (snapshot.id, _errand(origin, snapshot.manifest, file, ids[snapshot.id]))
        for snapshot in group
        for file in snapshot.files
    ]
    courier = _Courier(origin.store, target.stager())
    work = [errand for _, errand in errands]
    copied = spread(spark, courier, work, [errand.file.size_bytes for errand in work])
    found: dict[str, tuple[str, list[FileRef]]] = {old: (new, []) for old, new in ids.items()}
    for (old, _), file in zip(errands, copied, strict=True):
        found[old][1].append(file)
    return found


def _errand(origin: Dataset, manifest: Manifest, file: FileRef, snapshot_id: str) -> _Errand:
    partition = origin.layout.partition_of(origin.id, file.path)
    return _Errand(file, manifest.checksum_algorithm, snapshot_id, partition)


@dataclass(frozen=True, slots=True)
class _Columns:
    """What the origin was at each snapshot, so that the copy is the same there."""

    at: dict[str, Definition]
    digests: frozenset[str]

    @staticmethod
    def of(origin: Dataset, start: Position, waiting: Sequence[Snapshot]) -> _Columns:
        manifests = [snapshot.manifest for snapshot in waiting]
        if start.snapshot:
            manifests.insert(0, origin.snapshot(ExactId(start.snapshot)).manifest)
        if not manifests:
            return _Columns({}, frozenset())
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
            return before

        return change


def _commit(
    target: Dataset,
    snapshot: Snapshot,
    lineage: Lineage,
    copied: tuple[str, list[FileRef]],
    columns: _Columns,
) -> Snapshot:
    manifest = snapshot.manifest
    new_id, files = copied
    metadata: dict[str, Any] = dict(manifest.metadata)
    if KEY in metadata:
        metadata[f"{KEY}_before"] = metadata[KEY]
    key = (lineage.made_by, snapshot.id)
    # The files have the columns of the origin at that snapshot, not those of the stager's codec.
    named = components_named(manifest.codec, manifest.compressor, manifest.checksum_algorithm)
    stager = replace(target.stager(new_id), components=named)
    with resume(target, new_id, {**metadata, **lineage.as_metadata()}, idempotency_key=key) as transaction:
        transaction.take_over(stager, columns.at[snapshot.id], columns.evolution(snapshot.id, target.id))
        transaction.add(
            Staged(tuple(files), manifest.row_count, manifest.min_timestamp, manifest.max_timestamp)
        )
        return transaction.commit()


def _groups(waiting: Sequence[Snapshot]) -> Iterator[list[Snapshot]]:
    """Runs of snapshots with about as many files as one job copies."""
    numbers = []
    files = 0
    for snapshot in waiting:
        numbers.append(files // _FILES_PER_JOB)
        files += len(snapshot.files) + 1
    for _, run in groupby(zip(numbers, waiting, strict=True), key=lambda pair: pair[0]):
        yield [snapshot for _, snapshot in run]


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
