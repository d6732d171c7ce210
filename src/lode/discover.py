"""Find the datasets and volumes on a store, and open them as their newest snapshot describes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lode.dataset import Dataset
from lode.errors import DataError, NoManifestsError, NotFoundError
from lode.format.ids import check_id, is_id
from lode.format.volume import MAX_VOLUME_BYTES, volume_chain
from lode.near import question
from lode.read.define import LAYOUTS
from lode.read.names import folders_below, names_near
from lode.read.resolve import chain_of_volume, is_dropped
from lode.reader import DatasetReader
from lode.store.open import open_store
from lode.volume import Volume

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping
    from typing import Any

    from lode.store.protocol import Store
    from lode.write.retry import Retry

_VOLUMES: Final = "volumes/"


def open_dataset(
    id: str,
    store: str | os.PathLike[str] | Store,
    *,
    retry: Retry | None = None,
    store_options: Mapping[str, Any] | None = None,
) -> Dataset:
    """Open a dataset that must exist, as it is stored.

    Args:
        id: The dataset's name.
        store: A URL, a path, or a store.
        retry: Whether a conflicting commit is tried again.
        store_options: Options of the store, if it is given as a URL or a path; as for ``open_store``.
    """
    dataset = Dataset(id, store, retry=retry, store_options=store_options)
    if not dataset.exists:
        raise no_dataset(id, dataset.store)
    return dataset


def no_dataset(id: str, store: Store) -> NotFoundError:
    """The error for a dataset that does not exist, with similar names."""
    hint = question(DatasetReader(store).near(id))
    if not hint and is_volume(store, id):
        hint = "it is a volume: open it with lode.open_volume, or give --volume"
    return NotFoundError(f"no dataset {id!r} in {store.url}: {hint or 'check its name, or write it first'}")


def open_damaged(id: str, store: Store) -> Dataset:
    """Open a dataset to check it, also one whose newest snapshot or definition cannot be found or read."""
    try:
        return open_dataset(id, store)
    except DataError:
        for layout in LAYOUTS:
            if any(True for _ in store.list(f"{layout.chain(id).manifests}/")):
                return Dataset(id, store, layout=layout)
        raise


def open_volume(
    id: str, store: str | os.PathLike[str] | Store, *, store_options: Mapping[str, Any] | None = None
) -> Volume:
    """Open a volume that must exist, as it is stored.

    Args:
        id: The volume's name.
        store: A URL, a path, or a store.
        store_options: Options of the store, if it is given as a URL or a path; as for ``open_store``.
    """
    opened = open_store(store, **(store_options or {}))
    newest = chain_of_volume(opened, check_id(id, kind="volume")).resolve().manifest
    if newest is None:
        hint = question(names_near(opened, _VOLUMES, id, lambda name: is_volume(opened, name)))
        raise NotFoundError(
            f"no volume {id!r} in {opened.url}: {hint or 'check its name, or write it first'}"
        )
    return Volume(id, opened, newest.total_length, checksum=newest.checksum_algorithm)


def open_damaged_volume(id: str, store: Store) -> Volume:
    """Open a volume to check it, also one whose newest snapshot cannot be found or read."""
    try:
        return open_volume(id, store)
    except DataError:
        return Volume(id, store, MAX_VOLUME_BYTES)


def dataset_names(store: Store) -> list[str]:
    """The datasets that can be listed: those of a flat layout can only be named."""
    try:
        return DatasetReader(store).list_datasets()
    except NoManifestsError:
        return []


def is_volume(store: Store, id: str) -> bool:
    """Whether there is a volume of that name."""
    if not any(True for _ in store.list(f"{volume_chain(id).manifests}/")):
        return False
    return not is_dropped(chain_of_volume(store, id))


def volume_names(store: Store) -> list[str]:
    """The volumes that have a snapshot."""
    # A directory of another program, with a name that no volume has, hides nothing.
    return [name for name in folders_below(store, _VOLUMES) if is_id(name) and is_volume(store, name)]
