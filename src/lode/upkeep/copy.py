"""Copy a dataset or a volume with its history to another store or another name.

Files go first, each checked against its size and checksum on the way. Then the snapshots are committed, with
the ids that they have. A new target is reserved for its newest snapshot by one swap of the pointer. From then
on nobody else can write there, and readers find nothing until the snapshots before the newest are published.
A target that has an earlier part of the same history gets the missing snapshots one by one, oldest first.

Every object is the same whoever puts it. So a copy that died is finished by running it again, and two copies
at once do the same work without harm. ``docs/design/copy.md`` has the argument.
"""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from lode.codec.checksum import checksum as checksum_of
from lode.definition import decode_definition
from lode.errors import (
    ChecksumMismatchError,
    DataError,
    DatasetExistsError,
    InvalidOptionError,
    LodeError,
    ManifestInvalidError,
    NotFoundError,
    OutcomeUnknownError,
    PathExistsError,
    SnapshotConflictError,
)
from lode.format.ids import check_new_id, shortened
from lode.format.manifest import MAX_MANIFEST_BYTES, Manifest
from lode.format.volume import is_block, swept_path
from lode.read.define import locate
from lode.read.history import History
from lode.read.resolve import Chain, EncodedManifest, chain_of_volume, dataset_chain
from lode.read.segment import LEVELS
from lode.read.source import READ_AHEAD, get_bounded
from lode.runtime import REAL, Runtime
from lode.store.open import open_store
from lode.store.protocol import check_path
from lode.write.commit import Committer
from lode.write.file import ONE_PUT
from lode.write.segments import write_segments

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import date

    from lode.dataset import Dataset
    from lode.format.volume import VolumeManifest
    from lode.snapshot import Snapshot, VolumeSnapshot
    from lode.store.protocol import Store
    from lode.volume import Volume

# How many manifests are in memory at once, and how many files are copied at once at most.
_MANIFESTS_AT_ONCE: Final = 64
_FILES_AT_ONCE: Final = 64
# How often the target is looked at anew because others have moved it.
_MAX_LOOKS: Final = 16
# What this version writes into ``x``. A field of another version may hold paths, which a new name changes.
_KNOWN_EXTENSION: Final = frozenset(
    {
        "definition",
        "expected",
        "idempotency",
        "operation",
        "rebases",
        "recent",
        "surplus",
        "swept",
        "writer",
    }
)


@dataclass(frozen=True, slots=True)
class CopyReport:
    """What a copy did, or with ``dry_run`` would do. Blocks of a volume count as files.

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
    """Copy a dataset or a volume with its history; only what the target does not have yet.

    Snapshots keep their ids, their order and their content. Run again, it finishes a copy that was
    interrupted, or brings over what was committed since.

    Args:
        source: The dataset or the volume. Others may write to it meanwhile.
        target: A URL, a path or a store.
        name: The name in the target; that of the source if not given.
        as_of: Copy the history up to this snapshot, named as in ``Dataset.snapshot``; all of it if None.
        dry_run: Only report what would be copied.
        progress: Called with (bytes done, bytes in all) now and then, by one thread at a time.
        runtime: Where to take threads from.

    Raises:
        DatasetExistsError: The target has another dataset or volume of that name.
        ChecksumMismatchError: A file of the source is not what its manifest says; nothing became visible.
        DataError: An object of another size or content is where one has to be. A file that is there already
            is compared by its size; ``lode.verify`` compares checksums.
    """
    end = _end(source, as_of)
    side = _side(source, open_store(target), name)
    return _Copier(side, end, dry_run=dry_run, progress=progress, runtime=runtime).run()


@dataclass(frozen=True, slots=True)
class _File:
    """A file of the source, and its path in the target."""

    path: str
    into: str
    size: int
    checksum: str | None
    algorithm: str | None
    snapshot_id: str


@dataclass(slots=True)
class _Plan:
    """The snapshots that the target does not have, oldest first."""

    ids: list[str]
    # The newest snapshot that it has, and its pointer.
    after: str | None
    pointer: bytes | None
    # Whether the target has no snapshot at all, and whether its pointer names the last of ``ids`` already.
    fresh: bool = False
    claimed: bool = False
    bytes: int = 0
    definitions: set[str] = field(default_factory=set)
    swept: set[str] = field(default_factory=set)
    # The snapshots that a history segment ends with, by the level of the segment.
    boundaries: dict[int, list[str]] = field(default_factory=dict)


class _Side(ABC):
    """The source and the target of one copy, and what differs between datasets and volumes."""

    kind: str

    def __init__(self, origin: Chain[Any], target: Chain[Any]) -> None:
        self.origin = origin
        self.target = target

    @property
    def is_renamed(self) -> bool:
        return self.origin.owner != self.target.owner

    @abstractmethod
    def newest_first(self, head: Any, runtime: Runtime) -> Iterator[Any]:
        """The manifests of the source from ``head`` back."""

    @abstractmethod
    def new_files(self, manifest: Any, parent: Any) -> Iterator[tuple[str, int, str | None]]:
        """The (path, size, checksum) of the files that the parent does not have."""

    @abstractmethod
    def is_file(self, owner: str, path: str) -> bool:
        """Whether a file of this dataset or volume may be at exactly this path."""

    def into(self, path: str) -> str:
        """The path in the target for a path in the source."""
        return self.target.paths.root + path[len(self.origin.paths.root) :]

    @abstractmethod
    def refuse_other_place(self) -> None:
        """Raise if the name is taken in the target in a place that the chain does not see."""


class _DatasetSide(_Side):
    kind = "dataset"

    def __init__(self, source: Dataset, store: Store, name: str) -> None:
        self._layout = source.layout
        super().__init__(source.chain, dataset_chain(store, name, source.layout))

    def newest_first(self, head: Manifest, runtime: Runtime) -> Iterator[Manifest]:
        return History(self.origin, runtime).newest_first(head)

    def new_files(self, manifest: Manifest, parent: Manifest | None) -> Iterator[tuple[str, int, str | None]]:
        for file in manifest.files:
            yield file.path, file.size_bytes, file.checksum

    def is_file(self, owner: str, path: str) -> bool:
        return self._layout.staged(owner, path) is not None

    def refuse_other_place(self) -> None:
        if self.target.pointer() is None:
            locate(self.target.store, self.target.owner, self._layout)


class _VolumeSide(_Side):
    kind = "volume"

    def __init__(self, source: Volume, store: Store, name: str) -> None:
        super().__init__(source.chain, chain_of_volume(store, name))

    def newest_first(self, head: VolumeManifest, runtime: Runtime) -> Iterator[VolumeManifest]:
        return self.origin.back(head)

    def new_files(
        self, manifest: VolumeManifest, parent: VolumeManifest | None
    ) -> Iterator[tuple[str, int, str | None]]:
        # Manifests of a volume are cumulative: each repeats the blocks of its parent.
        known = {block.path for block in parent.blocks} if parent is not None else set()
        for block in manifest.blocks:
            if block.path not in known:
                yield block.path, block.length, block.checksum

    def is_file(self, owner: str, path: str) -> bool:
        return is_block(owner, path)

    def refuse_other_place(self) -> None:
        """A volume has one place."""


class _Copier:
    """One call of ``copy``."""

    def __init__(
        self,
        side: _Side,
        end: Any,
        *,
        dry_run: bool,
        progress: Callable[[int, int | None], None] | None,
        runtime: Runtime,
    ) -> None:
        self._side = side
        self._origin = side.origin
        self._target = side.target
        self._end = end
        self._dry_run = dry_run
        self._progress = progress
        self._runtime = runtime
        self._committer: Committer[Any] = Committer(side.target, runtime, None)
        self._lock = threading.Lock()
        self._done = 0
        self._report = CopyReport(side.target.owner, end.snapshot_id, dry_run=dry_run)

    def run(self) -> CopyReport:
        # Others may commit to the target, or copy to it too. Each look finds what they have done.
        for _ in range(_MAX_LOOKS):
            plan = self._plan()
            if plan is None:
                return self._report
            self._check(plan)
            self._copy_files(plan)
            if self._dry_run:
                return replace(self._report, snapshots=len(plan.ids))
            self._copy_described(plan)
            if self._commit(plan):
                self._report = replace(self._report, snapshots=self._report.snapshots + len(plan.ids))
                if plan.ids[-1] == self._end.snapshot_id:
                    return self._report
        raise SnapshotConflictError(
            f"{self._target.name} in {self._target.store.url} is moved by others all the time: its files are "
            "copied, run the copy again when they are done"
        )

    # -- looking -------------------------------------------------------------------------------

    def _plan(self) -> _Plan | None:
        """What the target does not have; None if it has everything."""
        self._side.refuse_other_place()
        try:
            head = self._target.resolve() if self._dry_run else self._committer.settle()
        except NotFoundError:
            return self._unfinished()
        newest = head.pending.manifest if head.pending is not None else head.manifest
        if newest is None:
            return _Plan(self._line(self._end, None), None, head.pointer, fresh=head.pointer is None)
        if self._target.manifest(self._end.snapshot_id) is not None:
            self._refuse_different(self._end.snapshot_id)
            return None
        missing = self._line(self._end, newest.snapshot_id)
        self._refuse_different(newest.snapshot_id)
        return _Plan(missing, newest.snapshot_id, head.pointer)

    def _unfinished(self) -> _Plan:
        """Finish a copy that has reserved the target, be it that it died or that it is still running."""
        pointer = self._target.pointer()
        if pointer is None:
            raise self._origin.damaged(self._end.snapshot_id, "cannot be followed in the target")
        reserved = self._target.named_by(pointer)
        if self._origin.manifest(reserved) is None:
            raise self._different(reserved)
        self._refuse_different(reserved)
        ids = self._line(self._origin.require(reserved), None)
        return _Plan(ids, None, pointer, fresh=True, claimed=True)

    def _line(self, end: Any, after: str | None) -> list[str]:
        """The ids of the source after ``after`` up to ``end``, oldest first."""
        ids: list[str] = []
        for manifest in self._side.newest_first(end, self._runtime):
            if manifest.snapshot_id == after:
                return ids[::-1]
            ids.append(check_new_id(manifest.snapshot_id, kind="snapshot"))
        if after is not None:
            raise self._different(after)
        return ids[::-1]

    def _refuse_different(self, snapshot_id: str) -> None:
        """Raise unless the target has this very snapshot."""
        theirs = self._target.published(snapshot_id) or self._target.intent(snapshot_id)
        if theirs is None or not _is_same(theirs.data, self._placed(snapshot_id).data):
            raise self._different(snapshot_id)

    def _different(self, snapshot_id: str) -> DatasetExistsError:
        kind, name, url = self._side.kind, self._target.owner, self._target.store.url
        return DatasetExistsError(
            f"{url} has another {kind} {name!r}: its snapshot {snapshot_id} is not in the history that is "
            f"copied from {self._origin.store.url}; copy under another name, or to another place"
        )

    # -- reading the source --------------------------------------------------------------------

    def _read(self, snapshot_id: str) -> EncodedManifest[Any]:
        path = self._origin.paths.manifest(snapshot_id)
        try:
            data = get_bounded(self._origin.store, path, MAX_MANIFEST_BYTES)
        except NotFoundError:
            raise self._origin.damaged(snapshot_id, "has no manifest") from None
        return EncodedManifest(self._origin.checked(data, path, snapshot_id), data)

    def _manifests(self, ids: Sequence[str]) -> Iterator[EncodedManifest[Any]]:
        """The manifests of the source in this order, a few in memory at a time."""
        for start in range(0, len(ids), _MANIFESTS_AT_ONCE):
            yield from self._runtime.each(self._read, ids[start : start + _MANIFESTS_AT_ONCE])

    def _files(self, plan: _Plan) -> Iterator[_File]:
        parent = self._read(plan.after).manifest if plan.after is not None else None
        for found in self._manifests(plan.ids):
            yield from self._new_files(found.manifest, parent)
            parent = found.manifest

    def _new_files(self, manifest: Any, parent: Any) -> Iterator[_File]:
        for path, size, checksum in self._side.new_files(manifest, parent):
            file = _File(
                path,
                self._side.into(path),
                size,
                checksum,
                manifest.checksum_algorithm,
                manifest.snapshot_id,
            )
            # Each time: a hostile source may have other content the next time it is read.
            self._check_path(file)
            yield file

    def _check(self, plan: _Plan) -> None:
        """Read all that is to be copied and refuse it before anything is written."""
        present = self._read(plan.after).manifest if plan.after is not None else None
        before, parent = plan.after, present
        for found in self._manifests(plan.ids):
            manifest = found.manifest
            if manifest.parent_snapshot_id != before:
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
            plan.bytes += sum(file.size for file in self._new_files(manifest, parent))
            parent = manifest
            self._as_placed(found)
        if isinstance(present, Manifest):
            plan.definitions.discard(present.definition or "")

    def _check_path(self, file: _File) -> None:
        """Refuse a path that is not one of a data file: it could be the pointer, or of another dataset."""
        own, other = self._origin.owner, self._target.owner
        if not self._side.is_file(own, file.path) or not self._side.is_file(other, file.into):
            raise ManifestInvalidError(
                f"{self._origin.name}: snapshot {file.snapshot_id} names the file {shortened(file.path)}, "
                f"which is no data file of this {self._side.kind}: nothing was copied; run lode verify",
                field="files",
            )
        check_path(file.path)
        check_path(file.into)

    def _placed(self, snapshot_id: str) -> EncodedManifest[Any]:
        return self._as_placed(self._read(snapshot_id))

    def _as_placed(self, found: EncodedManifest[Any]) -> EncodedManifest[Any]:
        """A manifest as the target has it: the same bytes, unless the name is another."""
        manifest = found.manifest
        extension = manifest.x or {}
        # The pointer that a swap expected is of the source alone; a sweep of the target must not rely on it.
        if not self._side.is_renamed and "expected" not in extension:
            return found
        unknown = sorted(extension.keys() - _KNOWN_EXTENSION)
        if self._side.is_renamed and unknown:
            raise InvalidOptionError(
                f"{self._origin.name}: snapshot {manifest.snapshot_id} has the field 'x.{unknown[0]}', which "
                "this version of lode does not know, so it cannot be copied under another name: leave the "
                "name out, or upgrade lode"
            )
        path = self._target.paths.manifest(manifest.snapshot_id)
        try:
            document: dict[str, Any] = json.loads(found.data)
        except RecursionError:
            raise ManifestInvalidError(f"{path}: lists or objects are nested too deeply") from None
        document[f"{self._side.kind}_id"] = self._target.owner
        for file in (document.get("files") or []) + (document.get("blocks") or []):
            file["path"] = self._side.into(file["path"])
        if document.get("x"):
            document["x"].pop("expected", None)
            if not document["x"]:
                del document["x"]
        try:
            data = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False).encode()
        except ValueError as error:
            raise ManifestInvalidError(f"{path}: the manifest cannot be written as JSON: {error}") from None
        return EncodedManifest(self._target.checked(data, path, manifest.snapshot_id), data)

    # -- writing the target --------------------------------------------------------------------

    def _copy_files(self, plan: _Plan) -> None:
        files = self._files(plan)
        earlier = self._report.files
        present = self._done = 0
        while batch := list(islice(files, _FILES_AT_ONCE)):
            copied = self._runtime.each(lambda file: self._copy_file(file, plan.bytes), batch)
            sizes = [file.size for file, was_copied in zip(batch, copied, strict=True) if was_copied]
            present += len(batch) - len(sizes)
            self._report = replace(
                self._report, files=self._report.files + len(sizes), bytes=self._report.bytes + sum(sizes)
            )
        # A second look at the target finds the files of the first one.
        self._report = replace(self._report, present=max(present - earlier, 0))

    def _copy_file(self, file: _File, total: int) -> bool:
        """Copy a file unless it is there; whether it was copied."""
        if self._is_there(file):
            self._advance(file.size, total)
            return False
        if not self._dry_run:
            try:
                self._upload(file, total)
            except PathExistsError:
                if not self._is_there(file):
                    raise
                return False
        return True

    def _is_there(self, file: _File) -> bool:
        try:
            size = self._target.store.head(file.into).size
        except NotFoundError:
            return False
        if size != file.size:
            raise DataError(
                f"{file.into} in {self._target.store.url} has {size} bytes and the file to copy has "
                f"{file.size}: another object is in its place; remove it, or copy under another name"
            )
        return True

    def _upload(self, file: _File, total: int) -> None:
        """Copy one file. It appears whole, and only if it is what its manifest says."""
        store = self._target.store
        try:
            reader = self._origin.store.open_reader(file.path)
        except NotFoundError:
            raise DataError(
                f"{file.path} is missing in {self._origin.store.url}, and snapshot {file.snapshot_id} needs "
                "it: run lode verify"
            ) from None
        with reader:
            if reader.size != file.size:
                raise self._damaged(file, f"{reader.size} bytes")
            if file.size <= ONE_PUT:
                data = reader.read_at(0, file.size)
                self._verified(file, [data])
                self._put(file, lambda: store.put(file.into, data))
                self._advance(file.size, total)
                return
            with store.open_writer(file.into) as writer:

                def pieces() -> Iterator[bytes]:
                    at = 0
                    while at < file.size and (piece := reader.read_at(at, READ_AHEAD)):
                        writer.write(piece)
                        at += len(piece)
                        self._advance(len(piece), total)
                        yield piece

                self._verified(file, pieces())
                self._put(file, writer.commit)

    def _put(self, file: _File, put: Callable[[], None]) -> None:
        try:
            put()
        except OutcomeUnknownError:
            if not self._is_there(file):
                raise

    def _verified(self, file: _File, pieces: Iterable[bytes]) -> None:
        checksum = checksum_of(file.algorithm) if file.checksum is not None else None
        hasher = checksum.start() if checksum is not None else None
        size = 0
        for piece in pieces:
            size += len(piece)
            if hasher is not None:
                hasher.update(piece)
        if size != file.size:
            raise self._damaged(file, f"{size} bytes")
        if hasher is not None and hasher.hexdigest() != file.checksum:
            raise self._damaged(file, f"the checksum {hasher.hexdigest()}")

    def _damaged(self, file: _File, found: str) -> ChecksumMismatchError:
        return ChecksumMismatchError(
            f"{file.path} in {self._origin.store.url} has {found}, and snapshot {file.snapshot_id} says "
            f"{file.size} bytes and the checksum {file.checksum}: it is damaged; run lode verify"
        )

    def _advance(self, size: int, total: int) -> None:
        with self._lock:
            self._done += size
            if self._progress is not None:
                # A file that another copy put meanwhile is counted twice.
                self._progress(min(self._done, total), total)

    def _copy_described(self, plan: _Plan) -> None:
        """Copy the definitions, and a volume's lists of swept blocks, that the manifests refer to."""
        for digest in sorted(plan.definitions or ()):
            source = self._origin.paths.definition(digest)
            try:
                data = get_bounded(self._origin.store, source, MAX_MANIFEST_BYTES)
            except NotFoundError:
                raise DataError(f"{source} is missing, and snapshots refer to it: run lode verify") from None
            decode_definition(data, digest, source)
            self._create(self._target.paths.definition(digest), data)
        for digest in sorted(plan.swept or ()):
            try:
                data = get_bounded(
                    self._origin.store, swept_path(self._origin.owner, digest), MAX_MANIFEST_BYTES
                )
            except NotFoundError:
                continue  # somebody removed the list by hand, as readers of it expect
            if sha256(data).hexdigest() != digest:
                raise DataError(
                    f"{swept_path(self._origin.owner, digest)} is not the list of that name: it is damaged; "
                    "remove it and copy again"
                )
            self._create(swept_path(self._target.owner, digest), data)

    def _create(self, path: str, data: bytes) -> None:
        """Put an object that is named by its content."""
        store = self._target.store
        try:
            store.put(path, data)
        except (PathExistsError, OutcomeUnknownError):
            if store.get(path) != data:
                raise DataError(
                    f"{path} in {store.url} is not the object of that name: it is damaged; remove it and "
                    "copy again"
                ) from None

    def _commit(self, plan: _Plan) -> bool:
        """Commit the snapshots; False if somebody else has moved the target meanwhile."""
        if not plan.fresh:
            if not self._follow(plan):
                return False
        else:
            self._each(self._committer.declare, plan.ids[:-1])
            if not plan.claimed and not self._committer.claim(self._placed(plan.ids[-1]), None):
                return False
            # Readers find nothing as long as the last but one is missing, so all others come before it.
            self._each(self._committer.publish, plan.ids[:-2])
            for snapshot_id in plan.ids[-2:]:
                self._committer.publish(self._placed(snapshot_id))
        self._write_segments(plan)
        return True

    def _follow(self, plan: _Plan) -> bool:
        """Commit one snapshot after the other, behind another copy if that is ahead."""
        places = {snapshot_id: place for place, snapshot_id in enumerate(plan.ids)}
        pointer = plan.pointer
        start: int | None = 0
        while start is not None:
            ahead = None
            for found in self._manifests(plan.ids[start:]):
                placed = self._as_placed(found)
                if not self._committer.claim(placed, pointer):
                    pointer = self._target.pointer()
                    ahead = places.get((pointer or b"").decode("utf-8", "replace"))
                    if ahead is None:
                        return False
                    self._committer.publish(self._placed(plan.ids[ahead]))
                    break
                self._committer.publish(placed)
                pointer = placed.manifest.snapshot_id.encode()
            start = None if ahead is None else ahead + 1
        return True

    def _each(self, do: Callable[[EncodedManifest[Any]], None], ids: Sequence[str]) -> None:
        """Do this with each snapshot, several at once."""
        for start in range(0, len(ids), _MANIFESTS_AT_ONCE):
            batch = ids[start : start + _MANIFESTS_AT_ONCE]
            self._runtime.each(lambda id: do(self._placed(id)), batch)

    def _write_segments(self, plan: _Plan) -> None:
        """Write the history segments of the target, small ones first: larger ones are made of them."""

        def write(snapshot_id: str) -> None:
            with suppress(LodeError):  # the copy is complete without them
                write_segments(self._target, self._target.require(snapshot_id))

        for level in sorted(plan.boundaries):
            self._runtime.each(write, plan.boundaries[level])


def _is_same(ours: bytes, theirs: bytes) -> bool:
    """Whether two manifests are of one snapshot; the pointer that its swap expected is of one store alone."""
    if ours.strip() == theirs.strip():
        return True
    documents: list[dict[str, Any]] = []
    for data in (ours, theirs):
        try:
            document = json.loads(data)
        except (RecursionError, ValueError):
            return False
        extension = document.get("x") or {}
        extension.pop("expected", None)
        documents.append({**document, "x": extension})
    return documents[0] == documents[1]


def _end(source: Dataset | Volume, as_of: Any) -> Any:
    """The manifest of the newest snapshot to copy."""
    from lode.dataset import Dataset
    from lode.volume import Volume

    if not isinstance(source, (Dataset, Volume)):
        raise InvalidOptionError(f"copy takes a Dataset or a Volume, got {shortened(source)}")
    return (source.latest() if as_of is None else source.snapshot(as_of)).manifest


def _side(source: Dataset | Volume, store: Store, name: str | None) -> _Side:
    from lode.volume import Volume

    kind = "volume" if isinstance(source, Volume) else "dataset"
    id = check_new_id(source.id if name is None else name, kind=kind)
    # URLs of buckets do not say which service they are of.
    same = store is source.store or (store.url == source.store.url and store.url.startswith("file://"))
    if id == source.id and same:
        raise InvalidOptionError(
            f"{kind} {id!r} in {store.url} would be copied onto itself: give another place or another name"
        )
    return _VolumeSide(source, store, id) if isinstance(source, Volume) else _DatasetSide(source, store, id)
