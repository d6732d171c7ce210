"""Stores as the contract tests need them, and what to ask of one afterwards."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from lode.store import CountingStore, MemoryStore

if TYPE_CHECKING:
    from lode.store import Store

# The calls that make or change an object; a streamed one appears with its writer's commit.
WRITING = ("put", "put_volatile", "link", "commit", "compare_and_swap")


class SwaplessStore(MemoryStore):
    """A store in memory that has no compare-and-swap: setting a protocol's method to None withdraws it."""

    compare_and_swap: Any = None


def contents(store: Store) -> dict[str, bytes]:
    """Every object and its bytes, read past whatever wraps the store."""
    inner = store.inner if isinstance(store, CountingStore) else store
    return {entry.path: inner.get(entry.path) for entry in inner.list() if not entry.path.endswith(".lock")}


def writes(store: CountingStore) -> Counter[str]:
    """How often each path was written, swapped or created."""
    return Counter(path for method, path in store.events if method in WRITING)


def names(store: CountingStore) -> list[tuple[str, str]]:
    """The calls in order, each with the last part of its path."""
    return [(method, path.rpartition("/")[2]) for method, path in store.events]


def manifests(store: Store) -> list[str]:
    return [path for path in contents(store) if path.endswith("/manifest.json")]


def data_files(store: Store) -> list[str]:
    return [path for path in contents(store) if "/data/" in path]
