"""List what a store has: its datasets, their partitions, manifests and files.

Reads only, needs no codec, and finds out by itself which of the layouts with a place for datasets each has.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from lode.errors import (
    ComponentMismatchError,
    DatasetsNotModeledError,
    InvalidOptionError,
    NoManifestsError,
    NotFoundError,
)
from lode.format.ids import check_id, is_id
from lode.format.manifest import DROP_SUFFIX, MAX_MANIFEST_BYTES, Manifest, decode_manifest
from lode.format.paths import DefaultLayout, Layout
from lode.near import question
from lode.read.names import folders_below, names_near
from lode.read.resolve import ANY_KEYS, Chain, dataset_chain, is_dropped
from lode.read.source import get_bounded, open_file, open_object
from lode.store.open import open_store

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any, BinaryIO

    from lode.format.manifest import FileRef
    from lode.store.protocol import ObjectReader, Store

T = TypeVar("T")

_LISTABLE: Final[tuple[Layout, ...]] = (DefaultLayout(), ANY_KEYS)


class ManifestRef(NamedTuple):
    """Where a manifest is: the snapshot it belongs to and, if it is a copy, the partition."""

    dataset_id: str
    snapshot_id: str
    partition: str
    path: str


class DatasetReader:
    """A read-only view of the datasets on a store.

    Args:
        store: A URL, a path or a store.
        layout: The layout that the datasets were written with. Without it the layout of each dataset is
            found, unless it is flat.
        store_options: Options of the store, if it is given as a URL or a path; as for ``open_store``.
    """

    def __init__(
        self,
        store: str | os.PathLike[str] | Store,
        *,
        layout: Layout | None = None,
        store_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._store = open_store(store, **(store_options or {}))
        self._layouts = _LISTABLE if layout is None else (layout,)

    def list_datasets(self, *, limit: int | None = None) -> list[str]:
        """The ids of the datasets that have a manifest, in order.

        Raises:
            DatasetsNotModeledError: the layout has no place that enumerates datasets.
            NoManifestsError: the store has objects, but no dataset of this layout.
        """
        root = self._layouts[0].datasets_root
        if root is None:
            raise DatasetsNotModeledError(
                f"{_named(self._layouts)} has no place that enumerates datasets: name the one you want"
            )
        dropped: list[str] = []
        found = _first(limit, self._datasets(root, dropped))
        if not found and not dropped and limit != 0 and any(True for _ in self._store.list()):
            raise NoManifestsError(
                f"{self._store.url} has objects, but no manifest where {_named(self._layouts)} puts them"
            )
        return found

    def list_partitions(self, dataset_id: str, *, limit: int | None = None) -> list[str]:
        """The partitions that hold data, as ``key=value/…`` paths in order; none if it is not partitioned."""
        layout = self._layout_of(dataset_id)
        if not layout.keys:
            self._require_dataset(dataset_id)
            return []
        found = _first(limit, self._partitions(layout, dataset_id))
        if not found and limit != 0:
            self._require_dataset(dataset_id)
        return found

    def list_manifests(
        self, dataset_id: str, *, partition: str | None = None, limit: int | None = None
    ) -> list[ManifestRef]:
        """The manifests of a dataset, or of one partition of it, by snapshot id."""
        layout = self._layout_of(dataset_id)
        if partition is not None and not layout.keys:
            raise ComponentMismatchError(
                f"{type(layout).__name__} has no partitions: open with layout=lode.HiveLayout(…)"
            )
        hidden = self._unpublished(layout, dataset_id) if partition else None
        found = _first(
            limit,
            (ref for ref in self._manifests(layout, dataset_id, partition) if ref.snapshot_id != hidden),
        )
        if not found and limit != 0:
            self._require_dataset(dataset_id)
        return found

    def get_manifest(self, ref: ManifestRef | str, snapshot_id: str | None = None) -> Manifest:
        """Read a manifest, by what ``list_manifests`` returned or by dataset and snapshot id.

        A reference to a partition's copy returns at least the files of that partition. If it returns no
        others, ``Manifest.partition`` names the partition. The copy itself is not read: what it must hold
        follows from the manifest of the snapshot.
        """
        if isinstance(ref, ManifestRef):
            return self._copy_of(ref) if ref.partition else self._manifest_at(ref)
        if snapshot_id is None:
            raise InvalidOptionError("get_manifest needs a ManifestRef, or a dataset id and a snapshot id")
        return self._chain(self._layout_of(ref), ref).require(check_id(snapshot_id, kind="snapshot"))

    def _manifest_at(self, ref: ManifestRef) -> Manifest:
        chain = self._chain(self._layouts[0], ref.dataset_id)
        data = get_bounded(self._store, ref.path, MAX_MANIFEST_BYTES)
        return chain.checked(data, ref.path, ref.snapshot_id)

    def _copy_of(self, ref: ManifestRef) -> Manifest:
        """The manifest in a partition, as it follows from that of the snapshot."""
        chain = self._chain(self._layout_of(ref.dataset_id), ref.dataset_id)
        whole = chain.published(check_id(ref.snapshot_id, kind="snapshot"))
        copies = {} if whole is None else chain.copies(whole)
        if ref.path not in copies:
            raise NotFoundError(
                f"{ref.path} is not a copy of a manifest: snapshot {ref.snapshot_id} of dataset "
                f"{ref.dataset_id!r} has no file in partition {ref.partition}; run lode verify"
            )
        return decode_manifest(copies[ref.path], ref.path)

    def open_object(self, file: FileRef | str) -> BinaryIO:
        """Open a data file as stored, as a seekable file."""
        return open_file(self._store, file)

    def reader_at(self, file: FileRef | str) -> ObjectReader:
        """Open a data file as stored for reads at any offset."""
        return open_object(self._store, file)

    def near(self, dataset_id: str) -> list[str]:
        """Up to three datasets with a name like this one; an empty list if they cannot be listed."""
        root = self._layouts[0].datasets_root
        if root is None:
            return []
        return names_near(self._store, root, dataset_id, self._has_dataset)

    def _has_dataset(self, dataset_id: str) -> bool:
        # A directory of another program, with a name that no dataset has, hides nothing.
        if not is_id(dataset_id) or not any(self._is_there(layout, dataset_id) for layout in self._layouts):
            return False
        return not self._was_dropped(dataset_id)

    def _was_dropped(self, dataset_id: str) -> bool:
        # Layouts that are listed together share one pointer.
        chain, *others = [self._chain(layout, dataset_id) for layout in self._layouts]
        return is_dropped(chain, others)

    def _layout_of(self, dataset_id: str) -> Layout:
        """The layout that was given, or the one in which the dataset has a manifest."""
        check_id(dataset_id, kind="dataset")
        *others, last = self._layouts
        return next((layout for layout in others if self._is_there(layout, dataset_id)), last)

    def _is_there(self, layout: Layout, dataset_id: str) -> bool:
        return any(True for _ in self._manifests(layout, dataset_id, None))

    def _chain(self, layout: Layout, dataset_id: str) -> Chain[Manifest]:
        return dataset_chain(self._store, dataset_id, layout)

    def _datasets(self, root: str, dropped: list[str]) -> Iterator[str]:
        """Skip from one dataset to the next instead of listing all of their objects."""
        for dataset_id in folders_below(self._store, root):
            if self._has_dataset(dataset_id):
                yield dataset_id
            elif is_id(dataset_id) and self._was_dropped(dataset_id):
                dropped.append(dataset_id)

    def _partitions(self, layout: Layout, dataset_id: str) -> Iterator[str]:
        root = f"{layout.chain(dataset_id).root}/partitions/"
        hidden = self._unpublished(layout, dataset_id)
        after = ""
        while True:
            entry = next(self._store.list(root, after=after), None)
            if entry is None:
                return
            partition = layout.partition_of(dataset_id, entry.path)
            if partition and self._has_manifest(layout, dataset_id, partition, hidden):
                yield partition
            after = f"{root}{partition}/segments0" if partition else entry.path

    def _has_manifest(self, layout: Layout, dataset_id: str, partition: str, hidden: str | None) -> bool:
        return any(ref.snapshot_id != hidden for ref in self._manifests(layout, dataset_id, partition))

    def _manifests(self, layout: Layout, dataset_id: str, partition: str | None) -> Iterator[ManifestRef]:
        paths = layout.chain(dataset_id)
        root = f"{paths.root}/partitions/{partition}/segments/" if partition else f"{paths.manifests}/"
        for entry in self._store.list(root):
            place = layout.place(entry.path)
            if place is None or place.snapshot_id.endswith(DROP_SUFFIX):
                continue
            if place.dataset_id == dataset_id and place.partition == (partition or ""):
                yield ManifestRef(dataset_id, place.snapshot_id, place.partition, entry.path)

    def _unpublished(self, layout: Layout, dataset_id: str) -> str | None:
        """The one snapshot whose partition copies may be there before its manifest is."""
        pending = self._chain(layout, dataset_id).resolve().pending
        return pending.manifest.snapshot_id if pending else None

    def _require_dataset(self, dataset_id: str) -> None:
        root = f"{self._layouts[0].chain(dataset_id).root}/"
        if not any(True for _ in self._store.list(root)) or self._was_dropped(dataset_id):
            hint = question(self.near(dataset_id)) or "check its name"
            raise NotFoundError(f"no dataset {dataset_id!r} in {self._store.url}: {hint}")
        if not self._has_dataset(dataset_id):
            raise NoManifestsError(
                f"dataset {dataset_id!r} in {self._store.url} has objects, but no manifest where "
                f"{_named(self._layouts)} puts them"
            )


def _named(layouts: Sequence[Layout]) -> str:
    return " or ".join(type(layout).__name__ for layout in layouts)


def _first(limit: int | None, items: Iterator[T]) -> list[T]:
    if limit is not None and limit < 0:
        raise InvalidOptionError(f"limit is {limit}: it must be 0 or more")
    return list(islice(items, limit))
