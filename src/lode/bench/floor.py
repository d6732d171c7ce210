"""A minimal commit: put the bytes, swap a pointer to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lode.errors import InvalidOptionError, NotFoundError
from lode.store.protocol import SupportsCompareAndSwap

if TYPE_CHECKING:
    from lode.store.protocol import Store


class Floor:
    """Commits of one put and one swap.

    Args:
        store: Where.
        name: Name of the pointer. Writers with the same name contend.
        writer: Number of the writer, part of the names of its objects.
    """

    def __init__(self, store: Store, name: str, writer: int = 0) -> None:
        if not isinstance(store, SupportsCompareAndSwap):
            raise InvalidOptionError(f"{store.url} cannot compare and swap, so there is nothing to measure")
        self._store = store
        self._swap = store.compare_and_swap
        self._folder = f"floor/{name}"
        self._writer = writer
        self._count = 0
        self._known: bytes | None = None

    @property
    def pointer(self) -> str:
        return f"{self._folder}/pointer"

    def commit(self, content: bytes) -> None:
        """Put the content and swap the pointer to it; after a lost swap, read the pointer and try again."""
        self._count += 1
        path = f"{self._folder}/{self._writer}-{self._count}"
        self._store.put(path, content)
        while not self._swap(self.pointer, self._known, path.encode()):
            self._known = self._read()
        self._known = path.encode()

    def read(self) -> bytes:
        """Read what the pointer names."""
        return self._store.get(self._store.get(self.pointer).decode())

    def _read(self) -> bytes | None:
        try:
            return self._store.get(self.pointer)
        except NotFoundError:
            return None
