"""Open stored objects as Python files and as Arrow file systems."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from lode.errors import ChecksumMismatchError, InvalidFormatError, ManifestInvalidError, NotFoundError
from lode.store.protocol import SupportsLocalPath

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import BinaryIO

    import pyarrow.fs as pafs

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


def check_sizes(store: Store, files: Iterable[FileRef]) -> None:
    """Raise ``InvalidFormatError`` for a file of another size than its manifest says.

    Only files of a directory are looked at: pyarrow opens those by itself, and asking costs no request. The
    store refuses what is no plain file: pyarrow would follow a link out of the lake, and wait at a FIFO.
    """
    if isinstance(store, SupportsLocalPath):
        for file in files:
            check_size(file, store.head(file.path).size)


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


def arrow_filesystem(store: Store, files: Iterable[FileRef] = ()) -> pafs.FileSystem:
    """The store as pyarrow reads it: natively where it is a directory, else through the store's reader.

    Args:
        store: The store.
        files: Files whose size is checked when they are opened, unless the store is a directory: there
            call ``check_sizes`` before they are opened.
    """
    import pyarrow.fs as pafs

    if isinstance(store, SupportsLocalPath):
        return pafs.SubTreeFileSystem(str(store.root), pafs.LocalFileSystem())
    return pafs.PyFileSystem(_handler(store, {file.path: file for file in files}))


def _handler(store: Store, files: Mapping[str, FileRef]) -> pafs.FileSystemHandler:
    import pyarrow as pa
    import pyarrow.fs as pafs

    def refused(*_: Any, **__: Any) -> Any:
        raise NotImplementedError("Lode hands pyarrow a read-only view of named files")

    class ReadOnlyView(pafs.FileSystemHandler):  # type: ignore[misc, unused-ignore]  # pyarrow is untyped
        """Just enough of a file system to open the files a plan names."""

        def get_type_name(self) -> str:
            return "lode"

        def normalize_path(self, path: str) -> str:
            return path

        def get_file_info(self, paths: str | list[str]) -> Any:
            return [self._info(path) for path in paths]

        def _info(self, path: str) -> pafs.FileInfo:
            try:
                return pafs.FileInfo(path, pafs.FileType.File, size=store.head(path).size)
            except NotFoundError:
                return pafs.FileInfo(path, pafs.FileType.NotFound)

        def open_input_file(self, path: str) -> pa.NativeFile:
            return pa.PythonFile(ObjectFile(open_object(store, files.get(path, path))), mode="r")

        open_input_stream = open_input_file

        get_file_info_selector = refused
        create_dir = refused
        delete_dir = refused
        delete_dir_contents = refused
        delete_root_dir_contents = refused
        delete_file = refused
        move = refused
        copy_file = refused
        open_output_stream = refused
        open_append_stream = refused

        def __eq__(self, other: object) -> bool:
            return self is other

        __hash__ = object.__hash__

    return ReadOnlyView()
