"""Open what lies on a store as it was written: its newest snapshot says how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lode.cli.pairs import store_options
from lode.codec.components import components_of
from lode.dataset import Dataset
from lode.errors import DataError, InvalidFormatError, NoManifestsError, NotFoundError
from lode.format.ids import check_id
from lode.format.manifest import decode_manifest
from lode.format.paths import DefaultLayout, FlatLayout, HiveLayout, partition_values
from lode.format.volume import decode_volume_manifest, volume_chain
from lode.read.resolve import Chain
from lode.read.scan import Scan
from lode.reader import DatasetReader
from lode.store.local import LocalStore
from lode.store.open import open_store
from lode.volume import Volume

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO

    from lode.codec.components import Components
    from lode.codec.protocol import Chunk, Codec
    from lode.format.manifest import Manifest
    from lode.format.paths import Layout
    from lode.store.protocol import Store
    from lode.write.retry import Retry

# The place of a Hive layout's manifests does not depend on its keys, so any will do to find them.
_ANY_KEYS: Final = HiveLayout("?")
_LAYOUTS: Final[tuple[Layout, ...]] = (DefaultLayout(), _ANY_KEYS, FlatLayout())
_VOLUMES: Final = "volumes/"


@dataclass(frozen=True, slots=True)
class Found:
    """A dataset that is there: how it is laid out, and its newest snapshot."""

    layout: Layout
    newest: Manifest


def open_root(root: str, options: Iterable[str] = (), *, create: bool = False) -> Store:
    """Open the store; a directory has to be there already unless ``create`` says it may be a new one."""
    store = open_store(root, **store_options(options))
    if isinstance(store, LocalStore) and not create and not store.root.is_dir():
        raise NotFoundError(f"there is no directory {store.root}: check --root")
    return store


def names_in(store: Store) -> list[str]:
    """The datasets that can be listed: those of a flat layout can only be named."""
    names: set[str] = set()
    for layout in (DefaultLayout(), _ANY_KEYS):
        try:
            names.update(DatasetReader(store, layout=layout).list_datasets())
        except NoManifestsError:
            continue
    return sorted(names)


def volumes_in(store: Store) -> list[str]:
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


def find(store: Store, dataset: str) -> Found | None:
    """Find a dataset under any layout."""
    for layout in _LAYOUTS:
        chain = _chain(store, dataset, layout)
        newest = chain.resolve().manifest
        if newest is not None:
            return Found(layout if layout is not _ANY_KEYS else _hive(chain, dataset, newest), newest)
    return None


def open_dataset(store: Store, dataset: str, *, retry: Retry | None = None) -> Dataset:
    """Open a dataset that is there with the layout, codec, compressor and checksum it was written with."""
    found = find(store, dataset)
    if found is None:
        raise NotFoundError(f"no dataset {dataset!r} in {store.url}: see lode ls")
    parts = components(found.newest)
    return Dataset(
        dataset,
        store,
        codec=parts.codec,
        layout=found.layout,
        compressor=parts.compressor,
        checksum=parts.checksum,
        retry=retry,
    )


def open_damaged(store: Store, dataset: str) -> Dataset:
    """Open a dataset to check it, also one whose newest snapshot cannot be found or read."""
    try:
        return open_dataset(store, dataset)
    except DataError:
        for layout in _LAYOUTS:
            if any(True for _ in store.list(f"{layout.chain(dataset).manifests}/")):
                return Dataset(dataset, store, layout=layout, codec="jsonl")
        raise


def open_volume(store: Store, volume: str) -> Volume:
    """Open a volume that is there."""
    paths = volume_chain(check_id(volume, kind="volume"))
    chain = Chain(store, paths, decode_volume_manifest, lambda _: (), f"volume {volume!r}")
    newest = chain.resolve().manifest
    if newest is None:
        raise NotFoundError(f"no volume {volume!r} in {store.url}: see lode ls")
    return Volume(volume, store, newest.total_length, checksum=newest.checksum_algorithm)


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


def _chain(store: Store, dataset: str, layout: Layout) -> Chain[Manifest]:
    return Chain(
        store,
        layout.chain(check_id(dataset, kind="dataset")),
        decode_manifest,
        lambda _: (),
        f"dataset {dataset!r}",
    )


def _hive(chain: Chain[Manifest], dataset: str, newest: Manifest) -> HiveLayout:
    """The layout with its keys, which only the path of a data file tells."""
    for manifest in chain.back(newest):
        if manifest.files:
            return HiveLayout(*partition_values(_ANY_KEYS.partition_of(dataset, manifest.files[0].path)))
    return _ANY_KEYS
