"""The source and the target of a copy, and what differs between datasets and volumes."""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lode.errors import InvalidOptionError, ManifestInvalidError, NotFoundError
from lode.format.ids import check_new_id, shortened
from lode.format.manifest import MAX_MANIFEST_BYTES
from lode.format.volume import is_block
from lode.read.define import locate
from lode.read.history import History
from lode.read.resolve import Chain, EncodedManifest, chain_of_volume, dataset_chain
from lode.read.source import get_bounded
from lode.store.protocol import check_path
from lode.volume import Volume

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lode.dataset import Dataset
    from lode.format.manifest import Manifest
    from lode.format.volume import VolumeManifest
    from lode.runtime import Runtime
    from lode.store.protocol import Store

# Maximum number of manifests that are read at once.
MAX_MANIFESTS_AT_ONCE: Final = 64
# A copy needs each manifest several times. So many bytes of them are kept between the passes.
MAX_KEPT_BYTES: Final = 64 << 20
# The fields that this version writes into ``x``. A field of another version may hold paths, which a new name
# changes.
_KNOWN_EXTENSION: Final = frozenset(
    {
        "begins",
        "carried",
        "checkpoint",
        "definition",
        "expected",
        "floor",
        "crowd",
        "group",
        "idempotency",
        "operation",
        "parent_sha256",
        "rebases",
        "recent",
        "removed",
        "removes",
        "restores",
        "shared_with_go",
        "surplus",
        "swept",
        "writer",
    }
)


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """A file of the source, and its path in the target."""

    path: str
    target_path: str
    size: int
    checksum: str | None
    algorithm: str | None
    snapshot_id: str


class CopySides(ABC):
    """The source and the target of one copy: reads manifests of one as they will be in the other."""

    kind: str

    def __init__(self, origin: Chain[Any], target: Chain[Any], runtime: Runtime) -> None:
        self.origin = origin
        self.target = target
        self._runtime = runtime
        self._kept: dict[str, bytes] = {}
        # The digests of manifests in the target, by which their children name them.
        self._digests: dict[str, str] = {}
        self._room = MAX_KEPT_BYTES
        self._lock = threading.Lock()

    def newest_first(self, head: Any) -> Iterator[Any]:
        """The manifests of the source from ``head`` back, and the drop before them if there is one."""
        oldest = None
        for oldest in self._visible(head):
            yield oldest
        if oldest is not None and oldest.parent_snapshot_id is not None:
            yield self.origin.ancestor(oldest.parent_snapshot_id, oldest.snapshot_id)

    @abstractmethod
    def _visible(self, head: Any) -> Iterator[Any]:
        """The snapshots of the source from ``head`` back."""

    @abstractmethod
    def refuse_other_place(self) -> None:
        """Raise if the name is in use at a place of the target that the chain does not cover."""

    @abstractmethod
    def _added_files(self, manifest: Any, parent: Any) -> Iterator[tuple[str, int, str | None]]:
        """The (path, size, checksum) of the files that the parent does not have."""

    @abstractmethod
    def _is_file(self, owner: str, path: str) -> bool:
        """Whether this is a path of a data file of this dataset or volume."""

    def manifest(self, snapshot_id: str) -> EncodedManifest[Any]:
        """A manifest of the source."""
        path = self.origin.paths.manifest(snapshot_id)
        data = self._kept.get(snapshot_id)
        if data is None:
            try:
                data = get_bounded(self.origin.store, path, MAX_MANIFEST_BYTES)
            except NotFoundError:
                raise self.origin.damaged(snapshot_id, "has no manifest") from None
            with self._lock:
                if len(data) <= self._room:
                    self._room -= len(data)
                    self._kept[snapshot_id] = data
        return EncodedManifest(self.origin.checked(data, path, snapshot_id), data)

    def manifests(self, ids: Sequence[str]) -> Iterator[EncodedManifest[Any]]:
        """Manifests of the source in this order, a few in memory at a time."""
        for start in range(0, len(ids), MAX_MANIFESTS_AT_ONCE):
            yield from self._runtime.each(self.manifest, ids[start : start + MAX_MANIFESTS_AT_ONCE])

    def files(self, manifest: Any, parent: Any) -> Iterator[CopiedFile]:
        """The files that this snapshot adds to its parent."""
        for path, size, checksum in self._added_files(manifest, parent):
            algorithm, snapshot_id = manifest.checksum_algorithm, manifest.snapshot_id
            file = CopiedFile(path, self._into(path), size, checksum, algorithm, snapshot_id)
            # Checked in every pass: a hostile source may return other content for the next read.
            self._check_path(file)
            yield file

    def placed(self, snapshot_id: str) -> EncodedManifest[Any]:
        """A manifest as the target will have it."""
        return self.as_placed(self.manifest(snapshot_id))

    def bind(self, placed: EncodedManifest[Any]) -> None:
        """Let the child of this snapshot name the manifest that the target has."""
        self._digests[placed.manifest.snapshot_id] = placed.sha256

    @property
    def is_renamed(self) -> bool:
        """Whether the target has another name than the source."""
        return self.origin.owner != self.target.owner

    def as_placed(self, found: EncodedManifest[Any]) -> EncodedManifest[Any]:
        """A manifest as the target will have it: the same bytes, unless the name is another."""
        manifest = found.manifest
        extension = manifest.x or {}
        is_renamed = self.is_renamed
        parent_sha256 = extension.get("parent_sha256")
        if parent_sha256 is not None:
            parent_sha256 = self._digests.get(manifest.parent_snapshot_id, parent_sha256)
        # ``expected`` describes the pointer of the source. A sweep of the target must not rely on it.
        is_same_parent = parent_sha256 == extension.get("parent_sha256")
        if not is_renamed and is_same_parent and "expected" not in extension:
            return found
        unknown = sorted(extension.keys() - _KNOWN_EXTENSION)
        if is_renamed and unknown:
            raise InvalidOptionError(
                f"{self.origin.name}: snapshot {manifest.snapshot_id} has the field 'x.{unknown[0]}', which "
                "this version of lode does not know, so it cannot be copied under another name: leave the "
                "name out, or upgrade lode"
            )
        path = self.target.paths.manifest(manifest.snapshot_id)
        try:
            document: dict[str, Any] = json.loads(found.data)
        except RecursionError:
            raise ManifestInvalidError(f"{path}: lists or objects are nested too deeply") from None
        document[f"{self.kind}_id"] = self.target.owner
        for file in (document.get("files") or []) + (document.get("blocks") or []):
            file["path"] = self._into(file["path"])
        if document.get("x"):
            document["x"].pop("expected", None)
            self._move_paths(document["x"])
            if parent_sha256 is not None:
                document["x"]["parent_sha256"] = parent_sha256
            if is_renamed:
                document["x"].pop("checkpoint", None)  # it has the paths of the source
            if not document["x"]:
                del document["x"]
        try:
            data = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False).encode()
        except ValueError as error:
            raise ManifestInvalidError(f"{path}: the manifest cannot be written as JSON: {error}") from None
        return EncodedManifest(self.target.checked(data, path, manifest.snapshot_id), data)

    def _move_paths(self, extension: dict[str, Any]) -> None:
        """Change the paths in the fields of ``x``, which the manifest's own check has seen."""
        if extension.get("carried"):
            extension["carried"] = list(map(self._into, extension["carried"]))
        removes = extension.get("removes") or {}
        if removes.get("files"):
            removes["files"] = list(map(self._into, removes["files"]))

    def has_same(self, snapshot_id: str) -> bool:
        """Whether the target has this snapshot with the content of the source."""
        theirs = self.target.published(snapshot_id) or self.target.intent(snapshot_id)
        return theirs is not None and _is_same(theirs.data, self.placed(snapshot_id).data)

    def _into(self, path: str) -> str:
        """The path in the target for a path in the source."""
        return self.target.paths.root + path[len(self.origin.paths.root) :]

    def _check_path(self, file: CopiedFile) -> None:
        """Refuse a path that is not one of a data file: it could be the pointer, or of another dataset."""
        own, other = self.origin.owner, self.target.owner
        if not self._is_file(own, file.path) or not self._is_file(other, file.target_path):
            raise ManifestInvalidError(
                f"{self.origin.name}: snapshot {file.snapshot_id} names the file {shortened(file.path)}, "
                f"which is no data file of this {self.kind}: nothing was copied; run lode verify",
                field="files",
            )
        check_path(file.path)
        check_path(file.target_path)


class DatasetSides(CopySides):
    """The source and the target of a dataset's copy."""

    kind = "dataset"

    def __init__(self, source: Dataset, store: Store, name: str, runtime: Runtime) -> None:
        self._layout = source.layout
        self.expired: frozenset[str] = frozenset()
        super().__init__(source.chain, dataset_chain(store, name, source.layout), runtime)

    def _visible(self, head: Manifest) -> Iterator[Manifest]:
        return History(self.origin, self._runtime).newest_first(head)

    def refuse_other_place(self) -> None:
        if self.target.pointer() is None:
            locate(self.target.store, self.target.owner, self._layout)

    def _added_files(
        self, manifest: Manifest, parent: Manifest | None
    ) -> Iterator[tuple[str, int, str | None]]:
        for file in manifest.files:
            if file.path not in self.expired:
                yield file.path, file.size_bytes, file.checksum

    def _is_file(self, owner: str, path: str) -> bool:
        return self._layout.staged(owner, path) is not None


class VolumeSides(CopySides):
    """The source and the target of a volume's copy."""

    kind = "volume"

    def __init__(self, source: Volume, store: Store, name: str, runtime: Runtime) -> None:
        super().__init__(source.chain, chain_of_volume(store, name), runtime)

    def _visible(self, head: VolumeManifest) -> Iterator[VolumeManifest]:
        return self.origin.back(head)

    def refuse_other_place(self) -> None:
        """A volume has one place."""

    def _added_files(
        self, manifest: VolumeManifest, parent: VolumeManifest | None
    ) -> Iterator[tuple[str, int, str | None]]:
        # Manifests of a volume are cumulative: each repeats the blocks of its parent.
        known = {block.path for block in parent.blocks} if parent is not None else set()
        for block in manifest.blocks:
            if block.path not in known:
                yield block.path, block.length, block.checksum

    def _is_file(self, owner: str, path: str) -> bool:
        return is_block(owner, path)


def sides_of(source: Dataset | Volume, store: Store, name: str | None, runtime: Runtime) -> CopySides:
    """The sides of a copy to this store, under this name or that of the source."""
    kind = "volume" if isinstance(source, Volume) else "dataset"
    id = check_new_id(source.id if name is None else name, kind=kind)
    # URLs of buckets do not identify their service, so only those of directories are compared.
    same = store is source.store or (store.url == source.store.url and store.url.startswith("file://"))
    if id == source.id and same:
        raise InvalidOptionError(
            f"{kind} {id!r} in {store.url} would be copied onto itself: give another place or another name"
        )
    if isinstance(source, Volume):
        return VolumeSides(source, store, id, runtime)
    return DatasetSides(source, store, id, runtime)


def _is_same(ours: bytes, theirs: bytes) -> bool:
    """Whether two manifests are of one snapshot. What binds one to its own history may differ."""
    if ours.strip() == theirs.strip():
        return True
    documents: list[dict[str, Any]] = []
    for data in (ours, theirs):
        try:
            document = json.loads(data)
        except (RecursionError, ValueError):
            return False
        extension = document.get("x") or {}
        for name in ("expected", "parent_sha256", "checkpoint"):
            extension.pop(name, None)
        documents.append({**document, "x": extension})
    return documents[0] == documents[1]
