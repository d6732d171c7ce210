"""The snapshot that an operation is prepared on, and what the operation needs of it."""

from __future__ import annotations

from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar, get_args

import msgspec

from lode.errors import InvalidOptionError, NotFoundError, SnapshotConflictError
from lode.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lode.definition import Definition
    from lode.format.manifest import FileRef, Manifest
    from lode.handle import DatasetHandle, FoundDataset
    from lode.read.scan import Scan
    from lode.read.state import Fold
    from lode.reads import Reads
    from lode.write.removal import Removal
    from lode.write.transaction import Transaction
    from lode.writes import IdempotencyKey, Writes

OnChangeConflict: TypeAlias = Literal["raise", "redo"]
"""What an operation does if other writers change the rows it depends on."""
# How often an operation is prepared again. Each time another writer has committed meanwhile.
MAX_REDOS: Final = 100

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Base:
    """A dataset at the snapshot that an operation is prepared on."""

    found: FoundDataset
    manifest: Manifest
    definition: Definition
    state: Fold
    scan: Scan

    def only(self, paths: Iterable[str]) -> Scan:
        """A scan of some of its files."""
        wanted = set(paths)
        kept = []
        for manifest in self.scan.manifests:
            files = tuple(file for file in manifest.files if file.path in wanted)
            if files:
                kept.append(msgspec.structs.replace(manifest, files=files))
        return self.scan.of(kept)

    def one_by_one(self, paths: Iterable[str]) -> Iterator[tuple[FileRef, Scan]]:
        """Each of some files, with a scan of it alone."""
        wanted = set(paths)
        for manifest in self.scan.manifests:
            for file in manifest.files:
                if file.path in wanted:
                    yield file, self.scan.of([msgspec.structs.replace(manifest, files=(file,))])

    def by_partition(self, files: Iterable[FileRef]) -> dict[str, list[FileRef]]:
        """Files by their partition."""
        found: dict[str, list[FileRef]] = defaultdict(list)
        for file in files:
            found[self.partition_of(file.path)].append(file)
        return found

    def partition_of(self, path: str) -> str:
        return self.found.layout.partition_of(self.scan.dataset_id, path)


class ChangeContext:
    """An opened dataset, as operations use it."""

    def __init__(self, handle: DatasetHandle, reads: Reads, writes: Writes) -> None:
        self.handle = handle
        self.reads = reads
        self.writes = writes

    def base(self) -> Base:
        """The newest snapshot, published."""
        found, _ = self.handle.find_to_write()
        manifest = found.committer.settle().manifest
        if manifest is None:
            raise self.reads.no_snapshots()
        state = found.states.fold(manifest)
        scan = self.reads.scan(state.manifests(), manifest)
        return Base(found, manifest, found.definitions.at(manifest), state, scan)

    @contextmanager
    def transaction(
        self,
        removal: Removal,
        metadata: dict[str, Any] | None,
        idempotency_key: IdempotencyKey | None,
        base: Base,
    ) -> Iterator[Transaction]:
        """A transaction of an operation that was prepared on ``base``.

        After a conflict its files are removed: they were chosen by what the dataset had before.
        """
        begun = self.writes.begin(metadata, idempotency_key, None, Snapshot(base.manifest), "raise")
        # This process may know an older definition than the one the operation was prepared on.
        components = self.handle.components(base.found, base.definition)
        begun = replace(begun, definition=base.definition, components=components, rewrites=True)
        with self.writes.transaction(begun, None, evolve=False, removal=removal) as transaction:
            try:
                yield transaction
            except SnapshotConflictError as error:
                transaction.abort()
                error.transaction = None
                raise

    def repeat(self, attempt: Callable[[Removal], T], removal: Callable[[], Removal], *, redo: bool) -> T:
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
            except NotFoundError:
                # A file was expired, so its snapshot is no longer the newest; or it is lost.
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
