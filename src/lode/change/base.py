"""The snapshot that an operation is prepared on, and what the operation needs of it."""

from __future__ import annotations

from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar, get_args

import msgspec

from lode.change.result import Change
from lode.errors import InvalidOptionError, NotFoundError, SchemaViolationError, SnapshotConflictError
from lode.format.manifest import FileStats
from lode.read.scan import checked
from lode.snapshot import Snapshot
from lode.write.parallel import pipelined
from lode.writes import with_removals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa

    from lode.definition import Definition
    from lode.format.manifest import FileRef, Manifest
    from lode.handle import DatasetHandle, FoundDataset
    from lode.read.scan import Scan
    from lode.read.state import Cut, Fold
    from lode.reads import Reads
    from lode.write.removal import Removal
    from lode.write.stage import Stager
    from lode.write.transaction import Transaction
    from lode.writes import BegunWrite, IdempotencyKey, Writes

    Progress = Callable[[int, int | None], None]

OnChangeConflict: TypeAlias = Literal["raise", "redo"]
"""What an operation does if other writers change the rows it depends on."""
# How often an operation is prepared again. Each time another writer has committed meanwhile.
MAX_REDOS: Final = 100


T = TypeVar("T")
R = TypeVar("R", bound="Removal")

Part: TypeAlias = "tuple[Manifest, ...]"
"""Some files to read at once, in manifests without any other file. Most of their statistics are left out, so
it pickles small."""


@dataclass(frozen=True, slots=True)
class Base:
    """A dataset at the snapshot that an operation is prepared on."""

    found: FoundDataset
    manifest: Manifest
    definition: Definition
    state: Fold
    scan: Scan

    @property
    def reader(self) -> Scan:
        """A scan of no file; ``reader.of(part)`` is one of some files. It pickles small."""
        return self.scan.of(())

    def part(self, paths: Iterable[str]) -> Part:
        """Some of its files, to be read at once."""
        return self.parts_of([paths])[0]

    def parts_of(self, groups: Iterable[Iterable[str]]) -> list[Part]:
        """Its files in groups, each to be read at once."""
        found: list[list[Manifest]] = []
        group_of: dict[str, int] = {}
        for number, paths in enumerate(groups):
            found.append([])
            group_of.update(dict.fromkeys(paths, number))
        for manifest in self.scan.manifests:
            chosen: dict[int, list[FileRef]] = defaultdict(list)
            for file in manifest.files:
                if (place := group_of.get(file.path)) is not None:
                    chosen[place].append(file)
            for place, files in chosen.items():
                found[place].append(slim(manifest, tuple(files)))
        return list(map(tuple, found))

    def parts(self, paths: Iterable[str]) -> list[Part]:
        """Some of its files, to be read one by one."""
        wanted = set(paths)
        return [
            (slim(manifest, (file,)),)
            for manifest in self.scan.manifests
            for file in manifest.files
            if file.path in wanted
        ]

    def by_partition(self, files: Iterable[FileRef]) -> dict[str, list[FileRef]]:
        """Files by their partition."""
        found: dict[str, list[FileRef]] = defaultdict(list)
        for file in files:
            found[self.partition_of(file.path)].append(file)
        return found

    def partition_of(self, path: str) -> str:
        return self.found.layout.partition_of(self.scan.dataset_id, path)


def slim(manifest: Manifest, files: tuple[FileRef, ...]) -> Manifest:
    """A manifest with only what reading and copying these files takes."""
    x = {name: value for name, value in (manifest.x or {}).items() if name in ("definition", "surplus")}
    return msgspec.structs.replace(manifest, files=tuple(map(slim_file, files)), metadata={}, x=x)


def slim_file(file: FileRef) -> FileRef:
    """A file with the number of rows, and which columns of floats have bounds: one with a NaN has none."""
    stats = file.stats
    if stats is None:
        return file
    kept = tuple(each for each in stats.columns if each.min is None or isinstance(each.min, float))
    if len(kept) == len(stats.columns):
        return file
    return msgspec.structs.replace(file, stats=FileStats(stats.row_count, kept))


class Workers:
    """Threads of this process, which read and rewrite files. Spark has its own kind."""

    def each(self, do: Callable[[Part], T], parts: Sequence[Part], progress: Progress | None) -> list[T]:
        """Apply a function to every part, a few at a time. The results are in any order.

        Args:
            do: Pickles.
            parts: The files.
            progress: Called with (files done, files in all).
        """
        total, done = sum(map(_file_count, parts)), 0

        def one(part: Part) -> T:
            nonlocal done
            result = do(part)
            done += _file_count(part)
            if progress is not None:
                progress(done, total)
            return result

        return pipelined(one, parts)

    def clean(self, stager: Stager, kept: Iterable[FileRef]) -> None:
        """Remove the files that lost attempts have staged for this snapshot. Threads have none."""


def _file_count(part: Part) -> int:
    return sum(len(manifest.files) for manifest in part)


class ChangeContext:
    """An opened dataset, as operations use it."""

    def __init__(
        self, handle: DatasetHandle, reads: Reads, writes: Writes, workers: Workers | None = None
    ) -> None:
        self.handle = handle
        self.reads = reads
        self.writes = writes
        self.workers = workers or Workers()

    def with_workers(self, workers: Workers) -> ChangeContext:
        """The same dataset with other workers."""
        return ChangeContext(self.handle, self.reads, self.writes, workers)

    def base(self, manifest: Manifest | None = None, cut: Cut | None = None) -> Base:
        """The newest snapshot, published; or an earlier one.

        Args:
            manifest: The earlier one.
            cut: What of its files is held in memory. Without some files no checkpoint is read.
        """
        found, _ = self.handle.find_to_write()
        manifest = manifest or found.committer.settle().manifest
        if manifest is None:
            raise self.reads.no_snapshots()
        checkpoints = cut is None or cut.only is None
        state = found.states.fold(manifest, checkpoints=checkpoints, cut=cut)
        # Whatever is read through it is written again, or decides what is: no damage may become a new file.
        scan = checked(self.reads.scan(state.manifests(), manifest))
        return Base(found, manifest, found.definitions.at(manifest), state, scan)

    def begin(
        self, metadata: dict[str, Any] | None, idempotency_key: IdempotencyKey | None, base: Base
    ) -> BegunWrite:
        """Begin an operation that was prepared on ``base``."""
        begun = self.writes.begin(metadata, idempotency_key, None, Snapshot(base.manifest), "raise")
        # This process may know an older definition than the one the operation was prepared on.
        components = self.handle.components(base.found, base.definition)
        return begun._replace(definition=base.definition, components=components, rewrites=True)

    def stager_of(self, base: Base, snapshot_id: str) -> Stager:
        """A stager of rows of this base for a snapshot that was begun on an earlier one."""
        target = with_removals(base.definition)
        return self.handle.stager(base.found, base.definition, target, None, snapshot_id, rewrites=True)

    @contextmanager
    def transaction(
        self,
        begun: BegunWrite,
        removal: Removal,
        schema: pa.Schema | None = None,
        *,
        evolve: bool = False,
        keep: bool = False,
    ) -> Iterator[Transaction]:
        """A transaction of an operation.

        Args:
            begun: The write.
            removal: What it removes.
            schema: The columns of new rows, if they are known.
            evolve: Let new columns become part of the dataset.
            keep: Keep the files after a conflict, so that they can be committed again. Otherwise they are
                removed: they were chosen by what the dataset had before.
        """
        with self.writes.transaction(begun, schema, evolve=evolve, removal=removal) as transaction:
            try:
                yield transaction
            except SnapshotConflictError as error:
                if keep:
                    raise
                transaction.abort()
                error.transaction = None
                self.workers.clean(transaction.stager, ())
                raise
            except BaseException:
                if not transaction.kept:
                    self.workers.clean(transaction.stager, ())
                raise

    def commit(self, transaction: Transaction) -> Change:
        """Commit, and remove what lost attempts have staged."""
        snapshot = transaction.commit()
        own = snapshot.id == transaction.snapshot_id
        self.workers.clean(transaction.stager, snapshot.files if own else ())
        return Change.of(snapshot)

    def repeat(self, attempt: Callable[[R], T], removal: Callable[[], R], *, redo: bool) -> T:
        """Prepare and commit an operation, again if its files were compacted or, with ``redo``, changed.

        Args:
            attempt: Prepares and commits the operation on the newest snapshot.
            removal: Makes what it removes, empty at first.
            redo: Prepare it again after any conflict.
        """
        for remaining in reversed(range(MAX_REDOS)):
            made = removal()
            try:
                return attempt(made)
            except SnapshotConflictError:
                if not remaining or not (redo or made.superseded):
                    raise
            except (NotFoundError, SchemaViolationError):
                # A file was expired, so its snapshot is no longer the newest; or another writer has changed
                # the columns. Otherwise a file is lost, or does not fit.
                if not remaining or not self._has_moved(made):
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _has_moved(self, removal: Removal) -> bool:
        newest = self.reads.visible()
        return newest is not None and removal.prepared_on not in (None, newest.snapshot_id)


def check_redo(on_conflict: Any) -> bool:
    """Return whether an operation is prepared again after a conflict."""
    if on_conflict not in get_args(OnChangeConflict):
        raise InvalidOptionError(f'on_conflict is {on_conflict!r}: it must be "raise" or "redo"')
    return bool(on_conflict == "redo")
