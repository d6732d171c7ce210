"""A new folder below a root, which is always removed."""

from __future__ import annotations

import secrets
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lode.store.open import open_store
from lode.store.protocol import SupportsLocalPath, is_in_memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lode.store.protocol import Store

NAME: Final = ".lode-bench-"
_DELETES_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True)
class Scratch:
    """The URL and options of the folder, which another process can open too."""

    url: str
    options: Mapping[str, Any]

    def open(self) -> Store:
        """Open it with cold caches."""
        return open_store(self.url, **self.options)

    @property
    def is_of_this_process(self) -> bool:
        """Whether no other process can see it."""
        return is_in_memory(self.open())


@contextmanager
def scratch_below(root: str, options: Mapping[str, Any]) -> Iterator[Scratch]:
    """Make a new folder; everything in it is removed at the end."""
    scratch = Scratch(_below(root, f"{NAME}{secrets.token_hex(8)}"), options)
    try:
        yield scratch
    finally:
        _remove(scratch.open())


def _below(root: str, name: str) -> str:
    scheme, separator, rest = root.rpartition("://")
    if scheme == "memory":
        return f"memory://{name}"
    place, question, query = rest.partition("?") if separator else (rest, "", "")
    return f"{scheme}{separator}{place.rstrip('/')}/{name}{question}{query}"


def _remove(store: Store) -> None:
    if isinstance(store, SupportsLocalPath):
        shutil.rmtree(store.root, ignore_errors=True)
        return
    with ThreadPoolExecutor(_DELETES_AT_ONCE) as pool:
        for _ in pool.map(lambda info: store.delete(info.path), list(store.list())):
            pass
