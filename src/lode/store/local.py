"""A store in a directory of the local file system.

Objects appear atomically. Each is written to a file without a name, or with a hidden name if the file system
has no unnamed files, and is then linked to its name. The link fails if the name exists. Pointers are swapped
under ``flock`` on ``<path>.lock``, the lock file of the Go implementation, and read without a lock.
"""

# os calls, not pathlib: a commit makes dozens of them, and the objects of pathlib would cost more.
# ruff: noqa: PTH100

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from lode.errors import InvalidPathError, NotFoundError, TransactionClosedError, UsageError
from lode.store.local_files import NewFile, is_hidden, link_file, locked, put_file, queued, replace_file
from lode.store.local_tree import Tree, not_plain, translated
from lode.store.local_walk import abandoned, delete_abandoned, walk
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
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from typing_extensions import Buffer

_WRITER_BUFFER = 64 << 10


class LocalStore:
    """Objects are files below ``root``, which is created with the first of them.

    It is created once. If it is missing later, or another folder has taken its place, every call raises
    ``StoreMissingError``: an empty folder in the place of a lake must not look like an empty lake.

    Deleting keeps empty directories: another process may be about to put an object there.

    Symbolic links below ``root`` are not listed, and a path at or through one raises ``StoreError``: a lake
    does not reach outside its directory. ``root`` itself may be a link. A FIFO, a socket or a device in place
    of an object raises ``StoreError`` too, without waiting for it.

    Args:
        root: The directory.
        durable: Whether a call that created an object, or found it to exist, returns only when the object is
            on the disk itself, not only in the kernel's cache.
    """

    def __init__(self, root: str | os.PathLike[str], *, durable: bool = True) -> None:
        self._tree = Tree(os.path.abspath(os.fspath(root)).rstrip("/"), durable=durable)

    @classmethod
    def _reopen(cls, root: str, durable: bool, known: bool) -> LocalStore:
        """The copy of a store in another process. It does not make a root that was there before."""
        store = cls(root, durable=durable)
        store._tree = Tree(store._tree.root, durable=durable, known=known)
        return store

    @property
    def root(self) -> Path:
        return Path(self._tree.root or "/")

    @property
    def durable(self) -> bool:
        return self._tree.durable

    @property
    def url(self) -> str:
        return f"file://{quote(self._tree.root)}{'' if self.durable else '?durable=false'}"

    @property
    def nearby(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"LocalStore({str(self.root)!r}, durable={self.durable})"

    def __reduce__(self) -> tuple[Any, ...]:
        return LocalStore._reopen, (str(self.root), self.durable, self._tree.knows_root)

    def local_path(self, path: str) -> Path:
        """Return the file of an object, which need not exist, for readers that open files themselves.

        Raises ``StoreError`` if it is no plain file: such readers would follow a link or block on a FIFO.
        """
        status = self._tree.status(self._checked(path))
        if status is not None and not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
            raise not_plain(path, status)
        return self.root / path

    def put(self, path: str, data: Buffer) -> None:
        put_file(self._tree, self._checked(path), byte_view(data), durable=self._tree.durable)

    def put_volatile(self, path: str, data: Buffer) -> None:
        put_file(self._tree, self._checked(path), byte_view(data), durable=False)

    def sync(self, path: str) -> None:
        if self.durable:
            self._tree.sync(self._checked(path))

    def link(self, source: str, path: str) -> None:
        link_file(self._tree, self._checked(source), self._checked(path))

    def queue(self, path: str, patience: float, interval: float) -> AbstractContextManager[None]:
        return queued(self._tree, self._checked(path), patience, interval)

    def get(self, path: str) -> bytes:
        # Without a reader object: this is the most frequent call.
        descriptor, size = self._tree.open_file(self._checked(path))
        try:
            return _read(descriptor, path, 0, size)
        finally:
            os.close(descriptor)

    def get_bounded(self, path: str, limit: int) -> tuple[bytes, int]:
        """Return the whole object and its size; no bytes if it has more than ``limit``."""
        descriptor, size = self._tree.open_file(self._checked(path))
        try:
            return (_read(descriptor, path, 0, size) if size <= limit else b""), size
        finally:
            os.close(descriptor)

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        check_range(check_path(path), offset, length)
        with self.open_reader(path) as reader:
            return reader.read_at(offset, length)

    def exists(self, path: str) -> bool:
        try:
            self.head(path)
        except NotFoundError:
            return False
        return True

    def head(self, path: str) -> ObjectInfo:
        found = self._tree.status(self._checked(path))
        if found is None:
            raise NotFoundError(f"no object {path!r}")
        if not stat.S_ISREG(found.st_mode):
            raise not_plain(path, found)
        return ObjectInfo(path, found.st_size, ns_to_datetime(found.st_mtime_ns))

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        return walk(self._tree, check_prefix(prefix), after)

    def temporaries(self, prefix: str = "") -> Iterator[ObjectInfo]:
        return abandoned(self._tree, check_prefix(prefix))

    def delete_temporary(self, path: str) -> None:
        delete_abandoned(self._tree, check_path(path))

    def delete(self, path: str) -> None:
        # Not synced: if a power cut restores the object, it is garbage as before.
        try:
            directory = self._tree.open_directory(self._checked(path))
        except NotFoundError:
            return
        name = path.rpartition("/")[2]
        try:
            os.unlink(name, dir_fd=directory)
        except (FileNotFoundError, IsADirectoryError):
            return
        except OSError as error:
            if stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
                return
            raise translated(error, path) from error
        finally:
            os.close(directory)

    def open_reader(self, path: str) -> LocalReader:
        return LocalReader(path, *self._tree.open_file(self._checked(path)))

    def open_writer(self, path: str) -> LocalWriter:
        return LocalWriter(NewFile(self._tree, self._checked(path)), durable=self._tree.durable)

    def compare_and_swap(self, path: str, expected: bytes | None, replacement: bytes) -> bool:
        self._checked(path)
        durable = self._tree.durable
        with locked(self._tree, path, make=expected is None) as place:
            if place is None or not same_content(self._content(path, place), expected):
                return False
            replace_file(self._tree, path, memoryview(replacement), place, durable=durable)
        # Readers take no lock and see the new content from the replace on, so holding it during this
        # sync would protect no one. The next swap syncs the same directory.
        if durable:
            self._tree.sync(path)
        return True

    def _content(self, path: str, place: int) -> bytes | None:
        try:
            descriptor, size = self._tree.open_file(path, place)
        except NotFoundError:
            return None
        try:
            return _read(descriptor, path, 0, size)
        finally:
            os.close(descriptor)

    def _checked(self, path: str) -> str:
        if is_hidden(check_path(path).rpartition("/")[2]):
            raise InvalidPathError(f"path {path!r} ends in a name that the local store reserves")
        return path


class LocalReader(ObjectReader):
    """Random access to one file. Safe for threads."""

    def __init__(self, path: str, descriptor: int, size: int) -> None:
        self._path = path
        self._descriptor: int | None = descriptor
        self._size = size

    @property
    def size(self) -> int:
        return self._size

    def read_at(self, offset: int, length: int) -> bytes:
        check_range(self._path, offset, length)
        descriptor = self._descriptor
        if descriptor is None:
            raise UsageError(f"the reader of {self._path!r} is closed")
        length = min(length, self._size - offset)
        if length <= 0:
            return b""
        return _read(descriptor, self._path, offset, length)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()


def _read(descriptor: int, path: str, offset: int, length: int) -> bytes:
    try:
        data = os.pread(descriptor, length, offset)
        while len(data) < length:
            # The kernel reads at most 2 GiB at once.
            more = os.pread(descriptor, length - len(data), offset + len(data))
            if not more:
                break
            data += more
    except OSError as error:
        raise translated(error, path) from error
    return data


class LocalWriter(ObjectWriter):
    """Writes through a buffer to a hidden file. A killed process leaves at most that file."""

    def __init__(self, file: NewFile, *, durable: bool) -> None:
        self._path = file.path
        self._durable = durable
        self._file: NewFile | None = file
        self._buffer = bytearray()

    def write(self, data: Buffer) -> int:
        file = self._open_file()
        view = byte_view(data)
        if len(self._buffer) + view.nbytes <= _WRITER_BUFFER:
            self._buffer += view
            return view.nbytes
        if self._buffer:
            file.write(memoryview(self._buffer))
            self._buffer = bytearray()
        file.write(view)
        return view.nbytes

    def commit(self) -> None:
        file = self._open_file()
        self._file = None
        with file:
            if self._buffer:
                file.write(memoryview(self._buffer))
            file.link(durable=self._durable)

    def abort(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.discard()

    def _open_file(self) -> NewFile:
        if self._file is None:
            raise TransactionClosedError(f"the writer of {self._path!r} was committed or aborted before")
        return self._file
