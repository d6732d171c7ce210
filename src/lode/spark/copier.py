"""Copy a dataset snapshot by snapshot: the same files, byte for byte, checked as they pass."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from lode.codec.checksum import checksum as checksum_of
from lode.codec.compress import compressor
from lode.errors import ChecksumMismatchError, ComponentMismatchError
from lode.format.manifest import FileRef
from lode.read.scan import check_components
from lode.read.source import READ_AHEAD
from lode.spark.lineage import KEY, Lineage, input_of, lineage_of
from lode.spark.place import opened
from lode.spark.position import BEGINNING, Position, between, position_of
from lode.spark.resume import new_snapshot_id, resume
from lode.spark.spread import Remote, spread
from lode.write.file import DataFile
from lode.write.stage import Staged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from lode.dataset import Dataset
    from lode.format.manifest import Manifest
    from lode.snapshot import Snapshot
    from lode.spark.place import Where

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
    origin = opened(source)
    target = _alike(origin, opened(sink))
    name = f"copy:{origin.store.url}/{origin.id}"
    start = _copied_up_to(target, name)
    waiting = between(origin, start, position_of(origin, origin.latest()))
    done: list[Snapshot] = []
    for group in _groups(waiting):
        files = _copy_files(spark, origin, target, group)
        for snapshot in group:
            up_to = Position(start.sequence + 1, snapshot.id)
            lineage = Lineage(name, (input_of(origin, start, up_to),))
            done.append(_commit(target, snapshot, lineage, files[snapshot.id]))
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
    """Copies files between two datasets. Pickles."""

    origin: Remote
    target: Remote

    def __call__(self, errand: _Errand) -> FileRef:
        extension = self.origin.components.compressor.extension
        # A name of its own for each attempt: one that is run again or twice finds no other in its way.
        name = f"data-{secrets.token_hex(8)}{extension}"
        path = self.target.layout.data_path(self.target.id, errand.snapshot_id, errand.partition, name)
        checksum = checksum_of(errand.algorithm)
        hasher = checksum.start() if checksum else None
        copied = DataFile(self.target.store, path, compressor("noop"), self.target.components.checksum)
        size = 0
        try:
            with self.origin.store.open_reader(errand.file.path) as reader:
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
    courier = _Courier(Remote.of(origin), Remote.of(target))
    work = [errand for _, errand in errands]
    copied = spread(spark, courier, work, [errand.file.size_bytes for errand in work])
    found: dict[str, tuple[str, list[FileRef]]] = {old: (new, []) for old, new in ids.items()}
    for (old, _), file in zip(errands, copied, strict=True):
        found[old][1].append(file)
    return found


def _errand(origin: Dataset, manifest: Manifest, file: FileRef, snapshot_id: str) -> _Errand:
    partition = origin.layout.partition_of(origin.id, file.path)
    return _Errand(file, manifest.checksum_algorithm, snapshot_id, partition)


def _commit(
    target: Dataset, snapshot: Snapshot, lineage: Lineage, copied: tuple[str, list[FileRef]]
) -> Snapshot:
    manifest = snapshot.manifest
    new_id, files = copied
    metadata: dict[str, Any] = dict(manifest.metadata)
    if KEY in metadata:
        metadata[f"{KEY}_before"] = metadata[KEY]
    key = (lineage.made_by, snapshot.id)
    with resume(target, new_id, {**metadata, **lineage.as_metadata()}, idempotency_key=key) as transaction:
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
        made = Remote.of(origin)
        return Remote(target.store, target.id, made.layout, made.components).open()
    check_components(newest.manifest, origin.components)
    if target.layout != origin.layout:
        raise ComponentMismatchError(
            f"dataset {target.id!r} has the layout {target.layout} and {origin.id!r} has {origin.layout}: "
            "files can only be copied between equal ones; rewrite() changes the layout"
        )
    return target
