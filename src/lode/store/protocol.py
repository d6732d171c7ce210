"""The protocol of a store, and a protocol for each optional capability.

Paths are relative, ``/``-separated keys. Every store checks them with ``check_path`` first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from lode.errors import InvalidPathError, InvalidRangeError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from datetime import datetime
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from typing_extensions import Buffer


_NO_SEGMENT = frozenset(("", ".", ".."))


class ObjectInfo(NamedTuple):
    """Path, size and time of an object."""

    path: str
    size: int
    modified: datetime


class ObjectReader(Protocol):
    """Random access to one object. Leaving the ``with`` block closes it."""

    @property
    def size(self) -> int:
        """The size of the object in bytes."""
        ...

    def read_at(self, offset: int, length: int) -> bytes:
        """Return ``length`` bytes at ``offset``; fewer only where the object ends."""
        ...

    def close(self) -> None:
        """Release the object."""
        ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class ObjectWriter(Protocol):
    """A create-only upload in pieces. The object is invisible before ``commit``.

    Leaving the ``with`` block without ``commit`` aborts.
    """

    def write(self, data: Buffer) -> int:
        """Append all of ``data`` and return its length in bytes."""
        ...

    def commit(self) -> None:
        """Make the whole object visible. Raises ``PathExistsError`` if the path exists by now."""
        ...

    def abort(self) -> None:
        """Drop the bytes written so far. Does nothing after ``commit`` or a second time."""
        ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()


@runtime_checkable
class Store(Protocol):
    """The methods that every store has. The protocols below are optional capabilities."""

    @property
    def url(self) -> str:
        """The location of the store, for messages. ``open_store`` opens the same store again if it can."""
        ...

    def put(self, path: str, data: Buffer) -> None:
        """Create the object atomically. ``PathExistsError`` if it exists; it stays unchanged."""
        ...

    def get(self, path: str) -> bytes:
        """Return the whole object, or raise ``NotFoundError``."""
        ...

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        """Return ``length`` bytes at ``offset``; fewer, or none, if the object ends before."""
        ...

    def exists(self, path: str) -> bool:
        """Return whether there is an object at this path."""
        ...

    def head(self, path: str) -> ObjectInfo:
        """Return size and time of the object, or raise ``NotFoundError``."""
        ...

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects whose path starts with ``prefix`` and sorts after ``after``, by path.

        ``prefix`` is a plain string prefix and need not end at a ``/``.
        """
        ...

    def delete(self, path: str) -> None:
        """Remove the object. A missing object is no error."""
        ...

    def open_reader(self, path: str) -> ObjectReader:
        """Open the object for random access, or raise ``NotFoundError``."""
        ...

    def open_writer(self, path: str) -> ObjectWriter:
        """Start a create-only upload in pieces. Its memory does not grow with its size."""
        ...


@runtime_checkable
class SupportsCompareAndSwap(Protocol):
    """A store that can replace an object conditionally: of several writers exactly one succeeds."""

    def compare_and_swap(self, path: str, expected: bytes | None, replacement: bytes) -> bool:
        """Replace the object's content if it is ``expected`` (None: if there is no object).

        Returns whether it did; False also if another writer wrote in between, even the same content.
        Raises ``OutcomeUnknownError`` if the response was lost and reading back could not settle the
        outcome. White space around the stored content is not significant.
        """
        ...


@runtime_checkable
class SupportsLink(Protocol):
    """A store that can give an object a second path at almost no cost, such as a hard link on a disk."""

    def link(self, source: str, path: str) -> None:
        """Make ``path`` the same object as ``source`` unless it exists: ``put`` without the bytes.

        Raises ``PathExistsError``; ``NotFoundError`` if ``source`` or the directory of ``path`` is missing.
        """
        ...


@runtime_checkable
class SupportsQueue(Protocol):
    """A store on which the writers of one machine can queue, such as a disk with file locks."""

    def queue(self, path: str, patience: float, interval: float) -> AbstractContextManager[None]:
        """Hold the only turn for this path, or proceed without it after ``patience`` seconds.

        The queue saves failed attempts. It guarantees nothing: its holder may have died.
        """
        ...


@runtime_checkable
class SupportsVolatilePut(Protocol):
    """A store that can create an object without waiting for the disk."""

    def put_volatile(self, path: str, data: Buffer) -> None:
        """Like ``put``, but a power cut may undo it or leave the object torn."""
        ...

    def sync(self, path: str) -> None:
        """Ensure that an object put by another writer, not volatile, survives a power cut from now on."""
        ...


@runtime_checkable
class SupportsTemporaries(Protocol):
    """A store whose writers leave hidden temporary files if they are killed, such as a disk."""

    def temporaries(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Yield the temporary files below ``prefix`` whose writer is dead; ``list`` never shows them."""
        ...

    def delete_temporary(self, path: str) -> None:
        """Remove one of the files that ``temporaries`` yielded. Anything else is ``InvalidPathError``."""
        ...


@runtime_checkable
class SupportsNearby(Protocol):
    """A store that knows whether a call takes less time than handing it to a thread."""

    @property
    def nearby(self) -> bool: ...


@runtime_checkable
class SupportsLocalPath(Protocol):
    """A store whose objects are files on this machine. Other programs may open them by path."""

    @property
    def root(self) -> Path:
        """The directory of the store. An object at ``path`` is the file ``root / path``."""
        ...

    def local_path(self, path: str) -> Path:
        """Return the file of an object, which need not exist; ``StoreError`` if it is no plain file."""
        ...


@runtime_checkable
class SupportsBoundedGet(Protocol):
    """A store that knows the size of an object before it reads it, without another request."""

    def get_bounded(self, path: str, limit: int) -> tuple[bytes, int]:
        """Return the whole object and its size; no bytes if it has more than ``limit``."""
        ...


@runtime_checkable
class SupportsDurability(Protocol):
    """A store that can be opened so that a power cut may undo its writes."""

    @property
    def durable(self) -> bool: ...


def is_nearby(store: Store) -> bool:
    """Return whether a call takes less time than handing it to a thread."""
    # Not isinstance with SupportsNearby: the first time in a process it takes as long as reading a manifest.
    return bool(getattr(store, "nearby", False))


def is_in_memory(store: Store) -> bool:
    """Return whether no other process can open the store, wrapped or not."""
    return store.url.startswith("memory://")


def check_path(path: str) -> str:
    """Return ``path`` if it is valid, else raise ``InvalidPathError`` with the reason."""
    if not path:
        raise InvalidPathError("a path may not be empty")
    if "\0" in path:
        raise InvalidPathError(f"path {path!r} contains a NUL character")
    if path.startswith("/") or "\\" in path:
        raise InvalidPathError(
            f"path {path!r} is absolute or has a backslash: use relative '/'-separated keys"
        )
    if not _NO_SEGMENT.isdisjoint(path.split("/")):
        raise InvalidPathError(f"path {path!r} has an empty, '.' or '..' segment")
    return path


def check_range(path: str, offset: int, length: int) -> None:
    """Raise ``InvalidRangeError`` for a negative offset or length."""
    if offset < 0 or length < 0:
        raise InvalidRangeError(f"range of {path!r} is negative: offset {offset}, length {length}")


def check_prefix(prefix: str) -> str:
    """Return ``prefix`` if some path may start with it, else raise ``InvalidPathError``."""
    try:
        # One more letter completes the last segment.
        check_path(f"{prefix}x")
    except InvalidPathError:
        raise InvalidPathError(f"no path can start with prefix {prefix!r}") from None
    return prefix


def byte_view(data: Buffer) -> memoryview:
    """Return a buffer as a flat view of its bytes, copied only if it is not contiguous."""
    view = memoryview(data)
    if not view.c_contiguous or not view.nbytes:
        # An empty view of several dimensions cannot be cast.
        return memoryview(view.tobytes())
    return view.cast("B")


def same_content(current: bytes | None, expected: bytes | None) -> bool:
    """Compare contents as a swap does: without the white space around them. None is a missing object."""
    if current is None or expected is None:
        return current is expected
    return current.strip() == expected.strip()
