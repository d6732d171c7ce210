"""The manifests below the root of a dataset, of whatever layout, and everything that they refer to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from lode.errors import DataError, LodeError
from lode.format.manifest import MAX_MANIFEST_BYTES, Manifest, decode_manifest
from lode.read.manifests import read_manifests
from lode.read.segment import LEVELS, decode_segment
from lode.read.source import get_bounded
from lode.runtime import Runtime, one_by_one
from lode.store.protocol import is_nearby

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lode.store.protocol import Store

# Segments decoded at once. Each holds up to 4,096 manifests.
_MAX_SEGMENTS_AT_ONCE: Final = 4


class PublishedManifests:
    """Collects the paths of manifests, then reads them."""

    def __init__(self, store: Store, dataset_id: str, runtime: Runtime) -> None:
        self._store = store
        self._dataset_id = dataset_id
        self._runtime = runtime
        self._segments: list[tuple[int, int, str]] = []
        # Paths by the snapshot of their folder. Copies are in partitions.
        self.manifests: dict[str, list[str]] = {}
        self.copies: dict[str, list[str]] = {}
        # Paths of manifests that were read from their own object.
        self._read: set[str] = set()
        # Files that a manifest names, of those that are wanted.
        self.files: set[str] = set()
        self.wants: Callable[[str], bool] | None = None
        # Snapshots that history mentions, each with a snapshot that mentions it.
        self.mentioned: dict[str, str] = {}
        # Snapshots whose manifest cannot be used, with the reason.
        self.damaged: dict[str, str] = {}

    def __contains__(self, snapshot_id: object) -> bool:
        return snapshot_id in self.manifests or snapshot_id in self.copies

    def places(self, snapshot_id: str) -> list[str]:
        """The paths of all manifests of a snapshot."""
        return [*self.manifests.get(snapshot_id, ()), *self.copies.get(snapshot_id, ())]

    def add_manifest(self, root: str, path: str) -> None:
        """Add the path of a manifest of any layout below ``root``."""
        paths = self.copies if path.startswith(f"{root}/partitions/") else self.manifests
        paths.setdefault(path.split("/")[-2], []).append(path)

    def add_segment(self, root: str, path: str) -> None:
        """Add the path of a history segment. Other paths are ignored."""
        *_, folder, name = path.split("/")
        last = name.removesuffix(".json.zst")
        if path.startswith(f"{root}/history/") and folder.isdecimal() and last.isdecimal():
            self._segments.append((int(folder), int(last), path))

    def mention(self, snapshot_id: str | None, by: str) -> None:
        """Record that the snapshot ``by`` refers to a snapshot as committed."""
        if snapshot_id:
            self.mentioned.setdefault(snapshot_id, by)

    def read_all(self) -> None:
        """Read every manifest: from history segments where they hold it, else from its own object."""
        covered: set[str] = set()
        for manifest in self._in_segments():
            self._take(manifest)
            covered.add(manifest.snapshot_id)
        self._read_each(
            path
            for snapshot_id, places in self.manifests.items()
            for path in places
            if snapshot_id not in covered or len(places) > 1
        )
        # A copy repeats its manifest or a part of it, so it is read only where that is missing or damaged.
        self._read_each(
            path
            for snapshot_id, places in self.copies.items()
            for path in places
            if snapshot_id not in self.manifests or snapshot_id in self.damaged
        )

    def read_unread(self, snapshot_id: str) -> None:
        """Read all manifests of a snapshot from their own objects, also those that a segment held."""
        self._read_each(path for path in self.places(snapshot_id) if path not in self._read)

    def _read_each(self, paths: Iterable[str]) -> None:
        for path, manifest in read_manifests(self._store, paths, decode_manifest, self._runtime):
            self._read.add(path)
            snapshot_id = path.split("/")[-2]
            if isinstance(manifest, DataError):
                self.damaged[snapshot_id] = f"its manifest {path} cannot be read: {manifest}"
                continue
            self._take(manifest)
            if manifest.snapshot_id != snapshot_id or manifest.dataset_id != self._dataset_id:
                whose = f"snapshot {manifest.snapshot_id} of dataset {manifest.dataset_id!r}"
                self.damaged[snapshot_id] = f"its manifest {path} is that of {whose}"
            elif manifest.partition is not None and path in self.manifests.get(snapshot_id, ()):
                self.damaged[snapshot_id] = f"its manifest {path} is the copy of one partition"

    def _take(self, manifest: Manifest) -> None:
        wants = self.wants
        self.files.update(file.path for file in manifest.files if wants is None or wants(file.path))
        self.mention(manifest.snapshot_id, manifest.snapshot_id)
        self.mention(manifest.parent_snapshot_id, manifest.snapshot_id)
        try:
            for snapshot_id in manifest.recent:
                self.mention(snapshot_id, manifest.snapshot_id)
        except DataError:
            pass  # the field only helps writers to catch up

    def _in_segments(self) -> Iterator[Manifest]:
        """The manifests of the segments, largest first. Segments that larger ones cover are skipped."""
        smallest = LEVELS[-1]
        paths: list[str] = []
        covered: set[int] = set()
        for level, last, path in sorted(self._segments, reverse=True):
            if level in LEVELS:
                parts = range(last - level + smallest, last + 1, smallest)
                if not covered.issuperset(parts):
                    paths.append(path)
                    covered.update(parts)
        each = one_by_one if is_nearby(self._store) else self._runtime.each
        at_once = _MAX_SEGMENTS_AT_ONCE if self.wants is None else 1
        for start in range(0, len(paths), at_once):
            for manifests in each(self._segment, paths[start : start + at_once]):
                yield from manifests

    def _segment(self, path: str) -> list[Manifest]:
        """The manifests of a segment; empty if it cannot be read, and then each is read from its object."""
        try:
            raw = decode_segment(get_bounded(self._store, path, MAX_MANIFEST_BYTES))
            manifests = [decode_manifest(bytes(data), path) for data in raw]
        except (LodeError, msgspec.MsgspecError, ValueError, RecursionError):
            return []
        return [manifest for manifest in manifests if manifest.dataset_id == self._dataset_id]
