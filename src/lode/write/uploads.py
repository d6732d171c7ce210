"""Upload the small files of a write while its intent is put.

Nothing reads a file before the pointer names its snapshot, and the swap is sent when both are there. So on a
store far away a commit waits once for both.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from lode.errors import PathExistsError
from lode.store.wrappers import StoreWrapper
from lode.write.file import put_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer

    from lode.store.protocol import Store

T = TypeVar("T")

# What is held of one write.
MAX_HELD_UPLOAD_BYTES: Final = 4 << 20


class HeldUploads(StoreWrapper):
    """A store that holds new objects back as long as they are small together."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self._held: dict[str, bytes] = {}
        self._size = 0

    def put(self, path: str, data: Buffer) -> None:
        copy = bytes(data)
        with self._lock:
            if path in self._held:
                raise PathExistsError(f"{path!r} is staged already")
            self._size += len(copy)
            fits = self._size <= MAX_HELD_UPLOAD_BYTES
            if fits:
                self._held[path] = copy
        if not fits:
            self.inner.put(path, copy)

    def delete(self, path: str) -> None:
        with self._lock:
            held = self._held.pop(path, None)
        if held is None:
            self.inner.delete(path)

    def around(self, method: str, path: str, call: Callable[[], T]) -> T:
        return call()

    def pending(self) -> list[Callable[[], None]]:
        """What is not uploaded yet."""
        with self._lock:
            return [partial(self._upload, path, data) for path, data in self._held.items()]

    def _upload(self, path: str, data: bytes) -> None:
        put_file(self.inner, path, data)
        with self._lock:
            self._held.pop(path, None)
