"""The volume: a sparse address space of bytes, filled in any order, with explicit gaps.

Blocks are staged from anywhere and become visible with a commit. A snapshot's manifest is cumulative: it
lists every block of the volume, so reading needs no other snapshot.
"""

from __future__ import annotations

import io
import threading
from datetime import date
from functools import partial
from operator import index
from typing import TYPE_CHECKING, Any, TypeAlias

from cachetools import LRUCache

from lode.change.drop import DropReport, drop_volume
from lode.codec.checksum import checksum as checksum_of
from lode.codec.compress import compressor as compressor_of
from lode.errors import (
    ComponentMismatchError,
    InvalidOptionError,
    InvalidRangeError,
    NoSnapshotsError,
    PermissionDeniedError,
)
from lode.format.ids import SnapshotIds, check_id, check_new_id, check_writer
from lode.format.manifest import DROP_SUFFIX, MAX_SEQUENCE, check_metadata
from lode.format.volume import (
    MAX_VOLUME_BYTES,
    BlockRef,
    VolumeManifest,
    block_path,
    decode_volume_manifest,
    volume_chain,
)
from lode.read.blocks import PIECE_BYTES, VolumeFile, range_missing, read_block, read_verified
from lode.read.resolve import Chain, Head
from lode.read.tags import Tag, load_tags
from lode.read.which import Moment, ParentLinks, find, newer_than, parsed
from lode.runtime import REAL, Runtime
from lode.snapshot import CommitReport, VolumeSnapshot
from lode.store.open import open_store
from lode.write.blocks import VolumeDraft, check_block, check_same_volume, open_input
from lode.write.commit import Committer
from lode.write.file import DataFile
from lode.write.retry import check_retry
from lode.write.swept import SweptBlocks
from lode.write.tags import put_tag, remove_tag

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from typing_extensions import Buffer

    from lode.codec.checksum import Checksum
    from lode.store.protocol import Store
    from lode.write.blocks import Readable
    from lode.write.retry import Retry

# Manifests kept decoded; each lists all blocks of its snapshot.
MAX_DECODED_MANIFESTS = 4

VolumeSnapshotRef: TypeAlias = VolumeSnapshot | str | int | date
"""What names a snapshot of a volume: itself, an id, a number, ``latest~2`` or a time."""


class Volume:
    """A sparse address space ``[0, total_length)`` on one store.

    Threads share a volume; processes unpickle their own, where the store can be pickled.

    Args:
        id: The volume's name.
        store: A URL, a path or a store.
        total_length: Its size in bytes, which never changes.
        checksum: ``"md5"``, ``"sha256"``, ``"xxh3-128"`` or a checksum; None records none.
        retry: Accepted for symmetry with datasets; disjoint commits merge without it.
        observer: Called with (snapshot id, report) after each commit.
        writer: Name recorded in every snapshot this object commits. Default: ``$LODE_WRITER``.
        shared_with_go: Whether programs of Go may work on it at the same time. It stays so after the first
            commit that says it.
        store_options: Options of the store, if it is given as a URL or a path; as for ``open_store``.
        runtime: Clock, chance and threads, for simulations.
    """

    def __init__(
        self,
        id: str,
        store: str | os.PathLike[str] | Store,
        total_length: int,
        *,
        checksum: Checksum | str | None = None,
        retry: Retry | None = None,
        observer: Callable[[str, CommitReport], None] | None = None,
        writer: str | None = None,
        shared_with_go: bool = False,
        store_options: Mapping[str, Any] | None = None,
        runtime: Runtime = REAL,
    ) -> None:
        self._id = check_id(id, kind="volume")
        if not 0 < index(total_length) <= MAX_VOLUME_BYTES:
            raise InvalidOptionError(f"total_length is {total_length}: a volume has 1 to 2^63 - 1 bytes")
        self._total_length = index(total_length)
        self._store = open_store(store, **(store_options or {}))
        self._checksum = checksum_of(checksum)
        self._retry = check_retry(retry)
        self._writer = check_writer(writer)
        self._shared = shared_with_go
        self._runtime = runtime
        self._ids = SnapshotIds(runtime.now_ns, runtime.random_bits)
        self._chain = _VolumeChain(self._store, id)
        self._swept = SweptBlocks(self._store, id)
        self._committer = Committer(self._chain, runtime, self._retry, observer)

    @property
    def id(self) -> str:
        """The volume's name."""
        return self._id

    @property
    def store(self) -> Store:
        """The store it is on."""
        return self._store

    @property
    def total_length(self) -> int:
        """Its length in bytes, gaps included."""
        return self._total_length

    @property
    def chain(self) -> Chain[VolumeManifest]:
        """The history as objects on the store, for tools such as verify and sweep."""
        return self._chain

    @property
    def _algorithm(self) -> str | None:
        return self._checksum.name if self._checksum else None

    # -- writing -------------------------------------------------------------------------------

    def stage_write_at(self, offset: int, data: Buffer | Readable) -> BlockRef:
        """Store bytes for ``offset``; they are not part of the volume before ``commit``.

        Safe from many threads and processes at once. What has ``read`` is streamed, to its end, in
        pieces; memory does not grow with it.

        Raises:
            InvalidRangeError: ``data`` is empty, or does not fit inside the volume; nothing was stored.
        """
        check_new_id(self.id, kind="volume")
        offset = index(offset)
        if not 0 <= offset < self._total_length:
            raise InvalidRangeError(
                f"offset {offset} is outside volume {self.id!r} of {self._total_length} bytes"
            )
        size, pieces = open_input(data)
        if size:
            self._check_fits(offset, size)
        path = block_path(self.id, offset, size, f"{self._runtime.random_bits(64):016x}")
        file = DataFile(self._store, path, compressor_of("noop"), self._checksum)
        length = 0
        try:
            for piece in pieces:
                self._check_fits(offset, length + piece.nbytes)
                length += file.write(piece)
            if not length:
                raise InvalidRangeError(
                    f"the block at {offset} of volume {self.id!r} is empty: stage at least one byte"
                )
            stored = file.finish()
        except BaseException:
            file.abort()
            raise
        return BlockRef(offset, length, stored.path, stored.checksum)

    def commit(self, blocks: Iterable[BlockRef], metadata: dict[str, Any] | None = None) -> VolumeSnapshot:
        """Add staged blocks to the volume, as one new snapshot.

        Blocks that others commit at the same time merge with these.

        Raises:
            OverlappingBlocksError: a block covers bytes that are there already; nothing of this landed.
            TransactionClosedError: a block was swept as abandoned; nothing of this landed.
        """
        clean = check_metadata(metadata)
        arriving = tuple(blocks)
        if not arriving:
            raise InvalidOptionError(f"a commit to volume {self.id!r} needs at least one new block")
        for block in arriving:
            check_block(block, self.id, self._total_length, self._algorithm)
        draft = VolumeDraft(
            self._ids.next(),
            writer=self._writer,
            volume_id=self.id,
            total_length=self._total_length,
            blocks=arriving,
            metadata=clean,
            checksum_algorithm=self._algorithm,
            now_ns=self._runtime.now_ns,
            swept=self._swept,
            creates=self._committer.capture().manifest is None,
            shared=self._shared,
        )
        committed = self._committer.commit(draft)
        self._chain.keep(committed.manifest)
        return VolumeSnapshot(committed.manifest, committed.report)

    def drop(
        self,
        *,
        force: bool = False,
        base: VolumeSnapshotRef | None = None,
        dry_run: bool = False,
        progress: Callable[[int, int | None], None] | None = None,
    ) -> DropReport:
        """Drop the volume: all bytes and all snapshots, as of a dataset. This cannot be undone.

        Args:
            force: Also drop it if it has tags.
            base: Only if this is still the newest snapshot.
            dry_run: Only report what would be removed.
            progress: Called with (objects removed, None) now and then.
        """
        return self._drop(force=force, base=base, dry_run=dry_run, progress=progress)

    def _drop(self, *, base: VolumeSnapshotRef | None, **options: Any) -> DropReport:
        """The same, with the options of ``drop_volume``."""
        check_new_id(self.id, kind="volume")
        manifest = None if base is None else self._manifest(base)
        return drop_volume(
            self._chain, self._committer, self._drop_draft, base=manifest, runtime=self._runtime, **options
        )

    def _drop_draft(self, base: Head[VolumeManifest]) -> VolumeDraft:
        length = base.manifest.total_length if base.manifest else self._total_length
        return VolumeDraft(
            self._ids.next() + DROP_SUFFIX,
            base,
            writer=self._writer,
            volume_id=self.id,
            total_length=length,
            blocks=(),
            metadata={},
            checksum_algorithm=None,
            now_ns=self._runtime.now_ns,
            swept=self._swept,
            drops=True,
        )

    def settle(self) -> None:
        """Publish what a writer that died left unpublished. Every commit does this by itself."""
        self._committer.settle()

    # -- history -------------------------------------------------------------------------------

    def latest(self) -> VolumeSnapshot:
        """The newest snapshot, read from the store. The next commit expects it, as of a dataset."""
        head = self._committer.refresh()
        if head.manifest is None:
            raise NoSnapshotsError(
                f"volume {self.id!r} in {self._store.url} has no snapshots yet: commit a block"
            )
        return VolumeSnapshot(self._checked(head.manifest))

    def snapshot(self, ref: VolumeSnapshotRef) -> VolumeSnapshot:
        """The snapshot that ``ref`` names, as of a dataset: ``latest~2``, ``3``, an id, a tag, a time."""
        return VolumeSnapshot(self._manifest(ref))

    def snapshots(
        self, *, since: VolumeSnapshotRef | None = None, as_of: VolumeSnapshotRef | None = None
    ) -> list[VolumeSnapshot]:
        """The snapshots after ``since``, up to and including ``as_of``, oldest first.

        Both are named as in ``snapshot(ref)``; without them it is the whole history. Each lists all blocks.
        """
        return list(self.history(since=since, as_of=as_of))[::-1]

    def changes(
        self, since: VolumeSnapshotRef | None = None, *, as_of: VolumeSnapshotRef | None = None
    ) -> list[VolumeSnapshot]:
        """The same as ``snapshots(since=…, as_of=…)``."""
        return self.snapshots(since=since, as_of=as_of)

    def history(
        self, *, since: VolumeSnapshotRef | None = None, as_of: VolumeSnapshotRef | None = None
    ) -> Iterator[VolumeSnapshot]:
        """The snapshots from ``as_of`` back to the one after ``since``, newest first.

        They are read only as far as you iterate.
        """
        start: Moment | str | None = None
        if since is not None:
            named = None if isinstance(since, VolumeSnapshot) else parsed(since)
            start = named if isinstance(named, Moment) else self._manifest(since).snapshot_id
        end = self._committer.look().manifest if as_of is None else self._manifest(as_of)
        found = self._chain.back(end)
        return map(VolumeSnapshot, found if start is None else newer_than(start, found, self._chain, end))

    def tag(self, name: str, snapshot: VolumeSnapshotRef = "latest", *, dry_run: bool = False) -> Tag:
        """Give a snapshot a name, as of a dataset. Snapshots of a volume do not expire."""
        manifest = self._manifest(snapshot)
        check_new_id(self.id, kind="volume")
        return put_tag(self._chain, name, manifest, self._floor, self._runtime.now_ns, dry_run=dry_run)

    def _floor(self) -> int:
        """The first snapshot that can be read: none if the volume was dropped."""
        return MAX_SEQUENCE if self._committer.look().manifest is None else 1

    def untag(self, name: str, *, dry_run: bool = False) -> None:
        """Remove a tag. The snapshot stays."""
        remove_tag(self._chain, name, dry_run=dry_run)

    def tags(self) -> list[Tag]:
        """All tags, by name."""
        return load_tags(self._chain)

    # -- reading -------------------------------------------------------------------------------

    def read_at(
        self, snapshot: VolumeSnapshotRef, offset: int, length: int, *, verify: bool = False
    ) -> bytes:
        """Return exactly the bytes ``[offset, offset + length)``.

        Args:
            snapshot: Which one, as in ``snapshot(ref)``.
            offset: Where to begin.
            length: How many bytes.
            verify: Read the blocks whole and check them against their checksums.

        Raises:
            RangeMissingError: part of the range is a gap; its ``missing`` lists which. Nothing is filled in.
            ChecksumMismatchError: a block is not what was written, or, without ``verify``, too short.
        """
        manifest = self._manifest(snapshot)
        self._check_range(offset, length)
        if not length:
            return b""
        end = offset + length
        gaps = list(manifest.gaps(offset, end))
        if gaps:
            raise range_missing(manifest, gaps)
        checksum = self._verifier(manifest) if verify else None

        def read(block: BlockRef) -> bytes:
            start, stop = max(offset, block.offset), min(end, block.end)
            if checksum is not None:
                return read_verified(self._store, block, start, stop, checksum)
            return read_block(self._store, block, start, stop)

        parts = self._runtime.each(read, manifest.covering(offset, end))
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def open(
        self, snapshot: VolumeSnapshotRef, *, offset: int = 0, length: int | None = None
    ) -> io.BufferedReader:
        """The volume, or a range of it, as a seekable, read-only file.

        Reading into a gap raises ``RangeMissingError``, whose ``missing`` is that gap.
        """
        size = self._total_length - offset if length is None else length
        self._check_range(offset, size)
        pinned = VolumeSnapshot(self._manifest(snapshot))
        read = partial(self.read_at, pinned)
        return io.BufferedReader(VolumeFile(pinned.manifest, read, offset, size), PIECE_BYTES)

    def missing(self, snapshot: VolumeSnapshotRef | None = None) -> list[tuple[int, int]]:
        """The gaps as (offset, length), in order.

        Without a snapshot: what is left to stage now. A commit whose writer died before it could be
        seen is published first, as far as this process may write, so that nothing is staged twice.
        """
        manifest = self._newest_settled() if snapshot is None else self._manifest(snapshot)
        if manifest is None:
            return [(0, self._total_length)]
        return list(manifest.gaps(0, self._total_length))

    def is_complete(self, snapshot: VolumeSnapshotRef | None = None) -> bool:
        """Whether there is no gap."""
        return not self.missing(snapshot)

    # -- inside --------------------------------------------------------------------------------

    def _manifest(self, snapshot: VolumeSnapshotRef) -> VolumeManifest:
        if isinstance(snapshot, VolumeSnapshot):
            return self._checked(snapshot.manifest)
        chain = self._chain
        return self._checked(
            find(parsed(snapshot), chain, ParentLinks(chain), lambda: self._committer.look().manifest)
        )

    def _newest_settled(self) -> VolumeManifest | None:
        try:
            head = self._committer.settle()
        except PermissionDeniedError:  # a caller that may only read gets the published head
            head = self._committer.look()
        return self._checked(head.manifest) if head.manifest else None

    def _checked(self, manifest: VolumeManifest) -> VolumeManifest:
        check_same_volume(manifest, self.id, self._total_length)
        return manifest

    def _check_fits(self, offset: int, length: int) -> None:
        if offset + length > self._total_length:
            raise InvalidRangeError(
                f"a block at {offset} would reach {offset + length} or further, volume {self.id!r} ends at "
                f"{self._total_length}"
            )

    def _check_range(self, offset: int, length: int) -> None:
        if offset < 0 or length < 0 or offset + length > self._total_length:
            raise InvalidRangeError(
                f"range [{offset}, {offset + length}) is not inside volume {self.id!r}, which has "
                f"{self._total_length} bytes"
            )

    def _verifier(self, manifest: VolumeManifest) -> Checksum:
        """The checksum that the manifest records, not the one this volume was opened with."""
        recorded = manifest.checksum_algorithm
        if self._checksum is not None and self._checksum.name == recorded:
            return self._checksum
        known = checksum_of(recorded)
        if known is None:
            raise ComponentMismatchError(
                f"snapshot {manifest.snapshot_id} of volume {self.id!r} has no checksums to verify"
            )
        return known

    def __reduce__(self) -> tuple[Any, ...]:
        # Clocks, threads and observers are of this process; the copy has its own.
        return _reopened, (
            self.id,
            self._store,
            self._total_length,
            self._checksum,
            self._retry,
            self._writer,
        )

    def __repr__(self) -> str:
        return f"Volume({self.id!r}, {self._store.url!r}, {self._total_length})"


class _VolumeChain(Chain[VolumeManifest]):
    """Keeps its newest manifests decoded: decoding is most of what reading a long one costs."""

    def __init__(self, store: Store, volume_id: str) -> None:
        super().__init__(
            store,
            volume_chain(volume_id),
            decode_volume_manifest,
            lambda _: {},
            f"volume {volume_id!r}",
            volume_id,
        )
        self._decoded: LRUCache[str, VolumeManifest] = LRUCache(MAX_DECODED_MANIFESTS)
        self._decoded_lock = threading.Lock()

    def manifest(self, snapshot_id: str) -> VolumeManifest | None:
        with self._decoded_lock:
            known = self._decoded.get(snapshot_id)
        if known is not None:
            return known
        found = super().manifest(snapshot_id)
        if found is not None:
            self.keep(found)
        return found

    def keep(self, manifest: VolumeManifest) -> None:
        with self._decoded_lock:
            self._decoded[manifest.snapshot_id] = manifest


def _reopened(
    id: str,
    store: Store,
    total_length: int,
    checksum: Checksum | None,
    retry: Retry | None,
    writer: str | None,
) -> Volume:
    return Volume(id, store, total_length, checksum=checksum, retry=retry, writer=writer)
