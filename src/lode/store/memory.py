"""A store in the memory of this process, for tests, simulations and experiments."""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_left, bisect_right, insort
from typing import TYPE_CHECKING, Any

from lode.errors import NotFoundError, PathExistsError, TransactionClosedError, UsageError
from lode.store.protocol import (
    ObjectInfo,
    ObjectReader,
    ObjectWriter,
    byte_view,
    check_path,
    check_prefix,
    check_range,
    same_content,
)
from lode.times import ns_to_datetime

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Iterator

    from typing_extensions import Buffer

_PAGE = 1000

_shared: dict[str, MemoryStore] = {}
_shared_lock = threading.Lock()


class MemoryStore:
    """Keeps objects in a dict, safe for threads.

    Args:
        name: The name in the URL. Two stores may have one name; ``MemoryStore.shared`` returns the
            one store per name that ``memory://name`` opens.
        now_ns: The clock for the times of objects.
    """

    def __init__(self, name: str = "", *, now_ns: Callable[[], int] = time.time_ns) -> None:
        self._name = name
        self._now_ns = now_ns
        self._objects: dict[str, tuple[bytes, int]] = {}
        self._sorted: list[str] = []
        self._lock = threading.Lock()

    @classmethod
    def shared(cls, name: str) -> MemoryStore:
        """Return the store that this process shares under that name."""
        with _shared_lock:
            return _shared.setdefault(name, cls(name))

    @property
    def url(self) -> str:
        return f"memory://{self._name}"

    @property
    def nearby(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"MemoryStore({self._name!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        if _shared.get(self._name) is not self:
            raise UsageError(
                f"{self.url} lives in this process and cannot be pickled: open it by name "
                "('memory://name') to reopen it in this process, or use a file or object store"
            )
        return _reopen, (self._name, os.getpid())

    def put(self, path: str, data: Buffer) -> None:
        check_path(path)
        content = data if isinstance(data, bytes) else bytes(byte_view(data))
        with self._lock:
            if path in self._objects:
                raise PathExistsError(f"{path!r} exists already in {self.url}")
            self._set(path, content)

    def get(self, path: str) -> bytes:
        return self._find(check_path(path))[0]

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        check_path(path)
        check_range(path, offset, length)
        return self._find(path)[0][offset : offset + length]

    def exists(self, path: str) -> bool:
        return check_path(path) in self._objects

    def head(self, path: str) -> ObjectInfo:
        content, modified_ns = self._find(check_path(path))
        return ObjectInfo(path, len(content), ns_to_datetime(modified_ns))

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        return self._pages(check_prefix(prefix), after)

    def delete(self, path: str) -> None:
        check_path(path)
        with self._lock:
            if self._objects.pop(path, None) is not None:
                del self._sorted[bisect_left(self._sorted, path)]

    def compare_and_swap(self, path: str, expected: bytes | None, replacement: bytes) -> bool:
        check_path(path)
        with self._lock:
            current = self._objects.get(path)
            if not same_content(None if current is None else current[0], expected):
                return False
            self._set(path, bytes(replacement))
            return True

    def open_reader(self, path: str) -> MemoryReader:
        return MemoryReader(path, self.get(path))

    def open_writer(self, path: str) -> MemoryWriter:
        return MemoryWriter(self, check_path(path))

    def _pages(self, prefix: str, after: str) -> Iterator[ObjectInfo]:
        while page := self._page(prefix, after):
            yield from page
            after = page[-1].path

    def _page(self, prefix: str, after: str) -> builtins.list[ObjectInfo]:
        with self._lock:
            first = max(bisect_left(self._sorted, prefix), bisect_right(self._sorted, after))
            page = []
            for path in self._sorted[first : first + _PAGE]:
                if not path.startswith(prefix):
                    break
                content, modified_ns = self._objects[path]
                page.append(ObjectInfo(path, len(content), ns_to_datetime(modified_ns)))
            return page

    def _find(self, path: str) -> tuple[bytes, int]:
        found = self._objects.get(path)
        if found is None:
            raise NotFoundError(f"no object {path!r} in {self.url}")
        return found

    def _set(self, path: str, content: bytes) -> None:
        if path not in self._objects:
            insort(self._sorted, path)
        self._objects[path] = (content, self._now_ns())


def _reopen(name: str, process: int) -> MemoryStore:
    # In another process it would be empty, and writes would be lost without an error.
    if process != os.getpid():
        raise UsageError(
            f"memory://{name} lives in process {process} and cannot be used in another: "
            "use a file or object store"
        )
    return MemoryStore.shared(name)


class MemoryReader(ObjectReader):
    """Random access to the bytes that an object had when it was opened."""

    def __init__(self, path: str, content: bytes) -> None:
        self._path = path
        self._content = content

    @property
    def size(self) -> int:
        return len(self._content)

    def read_at(self, offset: int, length: int) -> bytes:
        check_range(self._path, offset, length)
        return self._content[offset : offset + length]

    def close(self) -> None:
        pass


class MemoryWriter(ObjectWriter):
    """Gathers pieces and puts them at ``commit``."""

    def __init__(self, store: MemoryStore, path: str) -> None:
        self._store = store
        self._path = path
        self._pieces: bytearray | None = bytearray()

    def write(self, data: Buffer) -> int:
        view = byte_view(data)
        self._open_pieces().extend(view)
        return view.nbytes

    def commit(self) -> None:
        pieces = self._open_pieces()
        self._pieces = None
        self._store.put(self._path, pieces)

    def abort(self) -> None:
        self._pieces = None

    def _open_pieces(self) -> bytearray:
        if self._pieces is None:
            raise TransactionClosedError(f"the writer of {self._path!r} was committed or aborted before")
        return self._pieces
