"""Find what lies on a store, and open it as it was written: its newest snapshot says how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lode.codec.components import components_of
from lode.dataset import Dataset
from lode.errors import DataError, InvalidFormatError, NoManifestsError, NotFoundError
from lode.format.ids import check_id
from lode.format.manifest import decode_manifest
from lode.format.paths import DefaultLayout, FlatLayout, HiveLayout, partition_values
from lode.format.volume import LONGEST, decode_volume_manifest, volume_chain
from lode.read.resolve import Chain
from lode.read.scan import Scan
from lode.reader import ANY_KEYS, DatasetReader
from lode.store.open import open_store
from lode.volume import Volume

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from typing import BinaryIO

    from lode.codec.components import Components
    from lode.codec.protocol import Chunk, Codec
    from lode.format.manifest import Manifest
    from lode.format.paths import Layout
    from lode.store.protocol import Store
    from lode.write.retry import Retry

_LAYOUTS: Final[tuple[Layout, ...]] = (DefaultLayout(), ANY_KEYS, FlatLayout())
_VOLUMES: Final = "volumes/"


@dataclass(frozen=True, slots=True)
class Found:
    """A dataset that is there: how it is laid out, and its newest snapshot."""

    layout: Layout
    newest: Manifest


def open_dataset(id: str, store: str | os.PathLike[str] | Store, *, retry: Retry | None = None) -> Dataset:
    """Open a dataset that is there with the layout, codec, compressor and checksum it was written with.

    Args:
        id: The dataset's name.
        store: A URL, a path, or a store.
        retry: Whether a conflicting commit is tried again.
    """
    opened = open_store(store)
    found = find(id, opened)
    if found is None:
        raise NotFoundError(f"no dataset {id!r} in {opened.url}: check its name, or write it first")
    parts = components(found.newest)
    return Dataset(
        id,
        opened,
        codec=parts.codec,
        layout=found.layout,
        compressor=parts.compressor,
        checksum=parts.checksum,
        retry=retry,
    )


def open_damaged(id: str, store: Store) -> Dataset:
    """Open a dataset to check it, also one whose newest snapshot cannot be found or read."""
    try:
        return open_dataset(id, store)
    except DataError:
        for layout in _LAYOUTS:
            if any(True for _ in store.list(f"{layout.chain(id).manifests}/")):
                return Dataset(id, store, layout=layout, codec="jsonl")
        raise


def open_volume(id: str, store: str | os.PathLike[str] | Store) -> Volume:
    """Open a volume that is there.

    Args:
        id: The volume's name.
        store: A URL, a path, or a store.
    """
    opened = open_store(store)
    paths = volume_chain(check_id(id, kind="volume"))
    chain = Chain(opened, paths, decode_volume_manifest, lambda _: (), f"volume {id!r}")
    newest = chain.resolve().manifest
    if newest is None:
        raise NotFoundError(f"no volume {id!r} in {opened.url}: check its name, or write it first")
    return Volume(id, opened, newest.total_length, checksum=newest.checksum_algorithm)


def open_damaged_volume(id: str, store: Store) -> Volume:
    """Open a volume to check it, also one whose newest snapshot cannot be found or read."""
    try:
        return open_volume(id, store)
    except DataError:
        return Volume(id, store, LONGEST)


def dataset_names(store: Store) -> list[str]:
    """The datasets that can be listed: those of a flat layout can only be named."""
    try:
        return DatasetReader(store).list_datasets()
    except NoManifestsError:
        return []


def volume_names(store: Store) -> list[str]:
    """The volumes that have a snapshot."""
    found: list[str] = []
    after = ""
    while (entry := next(store.list(_VOLUMES, after=after), None)) is not None:
        name, slash, _ = entry.path.removeprefix(_VOLUMES).partition("/")
        if slash and any(True for _ in store.list(f"{volume_chain(name).manifests}/")):
            found.append(name)
        # '0' is the character behind '/', so this sorts behind everything in the volume.
        after = f"{_VOLUMES}{name}0" if slash else entry.path
    return found


def find(id: str, store: Store) -> Found | None:
    """Find a dataset under any layout."""
    for layout in _LAYOUTS:
        chain = _chain(store, id, layout)
        newest = chain.resolve().manifest
        if newest is not None:
            return Found(layout if layout is not ANY_KEYS else _hive(chain, id, newest), newest)
    return None


def components(manifest: Manifest) -> Components:
    """What the files of a snapshot passed through."""
    known = manifest.codec in (None, "jsonl", "parquet", "arrow")
    codec: Codec | str | None = manifest.codec if known else Foreign(manifest.codec or "")
    return components_of(codec, manifest.compressor, manifest.checksum_algorithm)


def scan_of(dataset: Dataset, manifest: Manifest) -> Scan:
    """The files of one snapshot, ready to be read as that snapshot was written."""
    return Scan(dataset.store, dataset.id, dataset.layout, components(manifest), [manifest])


@dataclass(frozen=True, slots=True)
class Foreign:
    """A codec of somebody's program: all but the records can be looked at without it."""

    name: str

    def decode(self, source: BinaryIO) -> Iterator[Chunk]:
        raise InvalidFormatError(
            f"written with the codec {self.name!r}, which only the program that brought it can read"
        )


def _chain(store: Store, dataset_id: str, layout: Layout) -> Chain[Manifest]:
    paths = layout.chain(check_id(dataset_id, kind="dataset"))
    return Chain(store, paths, decode_manifest, lambda _: (), f"dataset {dataset_id!r}")


def _hive(chain: Chain[Manifest], dataset_id: str, newest: Manifest) -> HiveLayout:
    """The layout with its keys, which only the path of a data file tells."""
    for manifest in chain.back(newest):
        if manifest.files:
            return HiveLayout(*partition_values(ANY_KEYS.partition_of(dataset_id, manifest.files[0].path)))
    return ANY_KEYS
