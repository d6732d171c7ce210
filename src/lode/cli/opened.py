"""Open what the command line names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lode import discover
from lode.cli.pairs import store_options
from lode.discover import Foreign, Found, components, find, scan_of
from lode.errors import NotFoundError
from lode.store.local import LocalStore
from lode.store.open import open_store

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lode.dataset import Dataset
    from lode.store.protocol import Store
    from lode.volume import Volume
    from lode.write.retry import Retry

__all__ = [
    "Foreign",
    "Found",
    "components",
    "find",
    "names_in",
    "open_damaged",
    "open_dataset",
    "open_root",
    "open_volume",
    "scan_of",
    "volumes_in",
]

names_in = discover.dataset_names
volumes_in = discover.volume_names


def open_root(root: str, options: Iterable[str] = (), *, create: bool = False) -> Store:
    """Open the store; a directory has to be there already unless ``create`` says it may be a new one."""
    store = open_store(root, **store_options(options))
    if isinstance(store, LocalStore) and not create and not store.root.is_dir():
        raise NotFoundError(f"there is no directory {store.root}: check --root")
    return store


def open_dataset(store: Store, dataset: str, *, retry: Retry | None = None) -> Dataset:
    return discover.open_dataset(dataset, store, retry=retry)


def open_damaged(store: Store, dataset: str) -> Dataset:
    return discover.open_damaged(dataset, store)


def open_volume(store: Store, volume: str) -> Volume:
    return discover.open_volume(volume, store)
