"""A store in a directory of the local file system.

Every object appears whole or not at all: it is written under a hidden temporary name in its own
directory and then linked to its final one, which fails if that name is taken. Pointers are swapped
under ``flock`` on ``<path>.lock``, the lock file the Go implementation takes, and read without it.
"""

# Plain os calls for the same reason as where files are written: there are very many of them.
# ruff: noqa: PTH100, PTH108, PTH112, PTH116

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from lode.errors import InvalidPathError, NotFoundError, TransactionClosedError, UsageError
from lode.store.local_files import NewFile, is_hidden, link_file, locked, queued, translated
from lode.store.local_walk import walk
from lode.store.protocol import ObjectInfo, check_path, check_range
from lode.store.rules import byte_view, check_prefix, moment, same_content

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from types import TracebackType
    from typing import Self

    from typing_extensions import Buffer

_WRITER_BUFFER = 64 << 10


class LocalStore:
    """Objects are files below ``root``, which is made with the first of them.

    Deleting leaves empty directories behind: removing one could pull it from under another process
    that is about to put an object there. Symbolic links below ``root`` are not listed.

    Args:
        root: The directory.
        durable: Whether an object is on the disk itself, not only in the kernel's cache, before a
            call that made it returns.
    """

    def __init__(self, root: str | os.PathLike[str], *, durable: bool = True) -> None:
        self._root = os.path.abspath(os.fspath(root)).rstrip("/")
        self._durable = durable

    @property
    def root(self) -> Path:
        return Path(self._root or "/")

    @property
    def durable(self) -> bool:
        return self._durable

    @property
    def url(self) -> str:
        return f"file://{quote(self._root)}{'' if self._durable else '?durable=false'}"

    def __repr__(self) -> str:
        return f"LocalStore({str(self.root)!r}, durable={self._durable})"

    def local_path(self, path: str) -> Path:
        """Return the file an object is or would be, for readers that open files themselves."""
        return Path(self._file(path))

    def put(self, path: str, data: Buffer) -> None:
        with NewFile(self._file(path), path, durable=self._durable) as file:
            file.write(byte_view(data))
            file.link()

    def link(self, source: str, path: str) -> None:
        link_file(self._file(source), self._file(path), path, durable=self._durable)

    def queue(self, path: str, patience: float, interval: float) -> AbstractContextManager[None]:
        return queued(self._file(path), patience, interval)

    def get(self, path: str) -> bytes:
        with self.open_reader(path) as reader:
            return reader.read_at(0, reader.size)

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
        try:
            found = os.stat(self._file(path))
        except OSError as error:
            raise translated(error, path) from error
        if not stat.S_ISREG(found.st_mode):
            raise NotFoundError(f"no object {path!r}: it is not a file")
        return ObjectInfo(path, found.st_size, moment(found.st_mtime_ns))

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        return walk(self._root, check_prefix(prefix), after)

    def delete(self, path: str) -> None:
        file = self._file(path)
        # Not synced: should a power cut bring the object back, it is as much garbage as before.
        try:
            os.unlink(file)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return
        except OSError as error:
            if os.path.isdir(file):
                return
            raise translated(error, path) from error

    def open_reader(self, path: str) -> LocalReader:
        return LocalReader(self._file(path), path)

    def open_writer(self, path: str) -> LocalWriter:
        return LocalWriter(NewFile(self._file(path), path, durable=self._durable))

    def compare_and_swap(self, path: str, expected: bytes | None, replacement: bytes) -> bool:
        final = self._file(path)
        with locked(final, path, durable=self._durable, make=expected is None) as held:
            if not held or not same_content(self._get_or_none(path), expected):
                return False
            with NewFile(final, path, durable=self._durable) as file:
                file.write(memoryview(replacement))
                file.replace()
        # Readers take no lock and see the new content from the replace on, so holding it during this
        # sync would shield nobody; and who swaps next syncs the same directory.
        file.sync_directories()
        return True

    def _get_or_none(self, path: str) -> bytes | None:
        try:
            return self.get(path)
        except NotFoundError:
            return None

    def _file(self, path: str) -> str:
        if is_hidden(check_path(path).rpartition("/")[2]):
            raise InvalidPathError(f"path {path!r} ends in a name that the local store keeps for itself")
        return f"{self._root}/{path}"


class LocalReader:
    """Random access to one file; threads may share it."""

    def __init__(self, file: str, path: str) -> None:
        self._path = path
        self._descriptor: int | None = None
        try:
            self._descriptor = os.open(file, os.O_RDONLY)
            status = os.fstat(self._descriptor)
        except OSError as error:
            raise translated(error, path) from error
        if not stat.S_ISREG(status.st_mode):
            self.close()
            raise NotFoundError(f"no object {path!r}: it is not a file")
        self._size = status.st_size

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
        try:
            data = os.pread(descriptor, length, offset)
            while len(data) < length:
                # The kernel reads at most 2 GiB at once.
                more = os.pread(descriptor, length - len(data), offset + len(data))
                if not more:
                    break
                data += more
        except OSError as error:
            raise translated(error, self._path) from error
        return data

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class LocalWriter:
    """Writes through a buffer to a hidden file; a killed process leaves at most that."""

    def __init__(self, file: NewFile) -> None:
        self._path = file.path
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
            file.link()

    def abort(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.discard()

    def _open_file(self) -> NewFile:
        if self._file is None:
            raise TransactionClosedError(f"the writer of {self._path!r} was committed or aborted before")
        return self._file

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()
