"""Read stored objects: whole, or as Python files."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from lode.errors import ChecksumMismatchError, InvalidFormatError, ManifestInvalidError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from lode.codec.checksum import Checksum
    from lode.format.manifest import FileRef
    from lode.store.protocol import ObjectReader, Store

READ_AHEAD = 1 << 20


def get_bounded(store: Store, path: str, limit: int) -> bytes:
    """Return a whole object of the history, or raise ``ManifestInvalidError`` if it is larger than ``limit``.

    A local file is refused before it is read: opening it gives its size. Other stores send all of it.
    """
    # Not isinstance with SupportsBoundedGet: it takes longer than the read of a small local file.
    bounded: Callable[[str, int], tuple[bytes, int]] | None = getattr(store, "get_bounded", None)
    if bounded is not None:
        data, size = bounded(path, limit)
    else:
        data = store.get(path)
        size = len(data)
    if size > limit:
        raise ManifestInvalidError(
            f"{path} has {size} bytes, more than {limit}: it is not an object of this format"
        )
    return data


class SeekableFile(io.RawIOBase):
    """The position of a read-only file; a subclass reads the bytes."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        origins = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}
        if whence not in origins:
            raise ValueError(f"whence is {whence}: it must be 0, 1 or 2")
        if origins[whence] + offset < 0:
            raise ValueError(f"seek to {origins[whence] + offset}: before the beginning")
        self._at = origins[whence] + offset
        return self._at


class ObjectFile(SeekableFile):
    """A stored object as a file."""

    def __init__(self, reader: ObjectReader) -> None:
        super().__init__(reader.size)
        self._reader = reader

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        data = self._reader.read_at(self._at, len(view))
        view[: len(data)] = data
        self._at += len(data)
        return len(data)

    def readall(self) -> bytes:
        data = self._reader.read_at(self._at, max(self._size - self._at, 0))
        self._at += len(data)
        return data

    def close(self) -> None:
        if not self.closed:
            self._reader.close()
        super().close()


def open_file(store: Store, file: FileRef | str) -> BinaryIO:
    """Open an object as a buffered, seekable file; of a manifest's file the size is checked."""
    return io.BufferedReader(ObjectFile(open_object(store, file)), READ_AHEAD)


def borrowed_file(reader: ObjectReader) -> BinaryIO:
    """An open object as a buffered, seekable file. Closing the file leaves the object open."""
    return io.BufferedReader(_Borrowed(reader), READ_AHEAD)


class _Borrowed(ObjectFile):
    """A file whose reader stays open when it is closed."""

    def close(self) -> None:
        io.RawIOBase.close(self)


def get_file(store: Store, file: FileRef) -> bytes:
    """Return a whole data file, in one request. No more than its size in the manifest is read."""
    bounded: Callable[[str, int], tuple[bytes, int]] | None = getattr(store, "get_bounded", None)
    if bounded is not None:
        data, size = bounded(file.path, file.size_bytes)
    else:
        data = store.get_range(file.path, 0, file.size_bytes + 1)
        size = len(data) if len(data) <= file.size_bytes else store.head(file.path).size
    check_size(file, size)
    return data


def open_object(store: Store, file: FileRef | str) -> ObjectReader:
    """Open an object for reads at any offset; of a manifest's file the size is checked."""
    if isinstance(file, str):
        return store.open_reader(file)
    reader = store.open_reader(file.path)
    try:
        check_size(file, reader.size)
    except InvalidFormatError:
        reader.close()
        raise
    return reader


def check_size(file: FileRef, size: int) -> None:
    """Raise ``InvalidFormatError`` unless this is the size that the file's manifest says."""
    if size != file.size_bytes:
        raise InvalidFormatError(
            f"{file.path} has {size} bytes, its manifest says {file.size_bytes}: "
            "it was changed after it was written, restore it from a copy"
        )


def verify_file(store: Store, file: FileRef, checksum: Checksum) -> None:
    """Raise ``ChecksumMismatchError`` unless the object's bytes are the ones its manifest was written for."""
    hasher = checksum.start()
    size = 0
    with store.open_reader(file.path) as reader:
        while piece := reader.read_at(size, READ_AHEAD):
            hasher.update(piece)
            size += len(piece)
    if size != file.size_bytes:
        raise ChecksumMismatchError(f"{file.path} has {size} bytes, its manifest says {file.size_bytes}")
    if hasher.hexdigest() != file.checksum:
        raise ChecksumMismatchError(
            f"{file.path} has {checksum.name} {hasher.hexdigest()}, its manifest says {file.checksum}"
        )
