"""The store that ``--root`` and ``--store-option`` name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lode.cli.key_values import store_options
from lode.errors import NotFoundError
from lode.store.local import LocalStore
from lode.store.open import open_store

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lode.store.protocol import Store


def open_root(root: str, options: Iterable[str] = (), *, create: bool = False) -> Store:
    """Open the store; a directory has to be there already unless ``create`` says it may be a new one."""
    store = open_store(root, **store_options(options))
    if isinstance(store, LocalStore) and not create and not store.root.is_dir():
        raise NotFoundError(f"there is no directory {store.root}: check --root")
    return store
