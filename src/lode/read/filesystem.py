"""A store as a file system of pyarrow: read-only, and every file is checked when it is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs as pafs

from lode.errors import NotFoundError
from lode.read.source import ObjectFile, check_size, open_object
from lode.store.protocol import SupportsLocalPath

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from lode.format.manifest import FileRef
    from lode.store.protocol import ObjectReader, Store


def arrow_filesystem(
    store: Store, files: Iterable[FileRef] = (), *, keeps_errors: bool = False
) -> pafs.PyFileSystem:
    """The store as pyarrow reads it. It pickles if the store does.

    Args:
        store: The store.
        files: Files whose size is compared with their manifest when they are opened.
        keeps_errors: Give pyarrow an empty file instead of an error, which ``first_error`` then has. For
            scanners that somebody else makes.
    """
    return pafs.PyFileSystem(ReadOnlyView(store, {file.path: file for file in files}, keeps_errors))


def first_error(filesystem: Any) -> Exception | None:
    """Why a file could not be opened, if the file system keeps errors."""
    handler = getattr(filesystem, "handler", None)
    return handler.failed if isinstance(handler, ReadOnlyView) else None


def _refuse(*_: Any, **__: Any) -> Any:
    raise NotImplementedError("Lode hands pyarrow a read-only view of named files")


class _Quiet(ObjectFile):
    """A file that ends early where it cannot be read, and keeps the error."""

    def __init__(self, reader: ObjectReader, keep: Callable[[Exception], None]) -> None:
        super().__init__(reader)
        self._keep = keep

    def readinto(self, buffer: Any) -> int:
        try:
            return super().readinto(buffer)
        except Exception as error:
            self._keep(error)
            return 0

    def readall(self) -> bytes:
        try:
            return super().readall()
        except Exception as error:
            self._keep(error)
            return b""


class ReadOnlyView(pafs.FileSystemHandler):  # type: ignore[misc, unused-ignore]  # pyarrow is untyped
    """Opens the files that a plan names.

    A file of a directory is read by pyarrow itself after it is opened, without Python.
    """

    def __init__(self, store: Store, files: Mapping[str, FileRef], keeps_errors: bool = False) -> None:
        self._store = store
        self._files = files
        self._keeps_errors = keeps_errors
        self.failed: Exception | None = None
        self._directory = store if isinstance(store, SupportsLocalPath) else None

    def __reduce__(self) -> tuple[Any, ...]:
        return ReadOnlyView, (self._store, self._files, self._keeps_errors)

    def get_type_name(self) -> str:
        return "lode"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: str | list[str]) -> Any:
        return [self._info(path) for path in paths]

    def _info(self, path: str) -> pafs.FileInfo:
        try:
            return pafs.FileInfo(path, pafs.FileType.File, size=self._store.head(path).size)
        except NotFoundError:
            return pafs.FileInfo(path, pafs.FileType.NotFound)

    def open_input_file(self, path: str) -> pa.NativeFile:
        try:
            return self._open(path)
        except Exception as error:
            # ``Scanner.to_reader`` keeps the interpreter's lock while it waits for the thread that opens the
            # file, and pyarrow needs that lock to print a Python error: both would wait for ever.
            if not self._keeps_errors:
                raise
            self.keep(error)
            return pa.BufferReader(b"")

    def keep(self, error: Exception) -> None:
        self.failed = self.failed or error

    def _open(self, path: str) -> pa.NativeFile:
        file = self._files.get(path)
        if self._directory is None:
            opened = open_object(self._store, file or path)
            return pa.PythonFile(_Quiet(opened, self.keep) if self._keeps_errors else ObjectFile(opened), "r")
        # The store refuses what is no plain file: pyarrow would follow a link out of the lake, and wait at a
        # FIFO.
        size = self._store.head(path).size
        if file is not None:
            check_size(file, size)
        return pafs.LocalFileSystem().open_input_file(str(self._directory.local_path(path)))

    open_input_stream = open_input_file

    get_file_info_selector = _refuse
    create_dir = _refuse
    delete_dir = _refuse
    delete_dir_contents = _refuse
    delete_root_dir_contents = _refuse
    delete_file = _refuse
    move = _refuse
    copy_file = _refuse
    open_output_stream = _refuse
    open_append_stream = _refuse

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__
