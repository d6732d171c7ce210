"""A store as a file system of pyarrow: read-only, and every file is checked when it is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs as pafs

from lode.errors import NotFoundError
from lode.read.source import ObjectFile, check_size, open_object
from lode.store.protocol import SupportsLocalPath

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lode.format.manifest import FileRef
    from lode.store.protocol import Store


def arrow_filesystem(store: Store, files: Iterable[FileRef] = ()) -> pafs.PyFileSystem:
    """The store as pyarrow reads it. It pickles if the store does.

    Args:
        store: The store.
        files: Files whose size is compared with their manifest when they are opened.
    """
    return pafs.PyFileSystem(ReadOnlyView(store, {file.path: file for file in files}))


def local_path(store: Store, path: str, file: FileRef | None) -> str | None:
    """The path by which pyarrow may open an object itself, if it is a file of this machine.

    Of a manifest's file the size is checked. The store refuses what is no plain file: pyarrow would follow a
    link out of the lake, and wait at a FIFO.
    """
    if not isinstance(store, SupportsLocalPath):
        return None
    size = store.head(path).size
    if file is not None:
        check_size(file, size)
    return str(store.local_path(path))


def _refuse(*_: Any, **__: Any) -> Any:
    raise NotImplementedError("Lode hands pyarrow a read-only view of named files")


class ReadOnlyView(pafs.FileSystemHandler):  # type: ignore[misc, unused-ignore]  # pyarrow is untyped
    """Opens the files that a plan names.

    A file of a directory is read by pyarrow itself after it is opened, without Python.
    """

    def __init__(self, store: Store, files: Mapping[str, FileRef]) -> None:
        self._store = store
        self._files = files

    def __reduce__(self) -> tuple[Any, ...]:
        return ReadOnlyView, (self._store, self._files)

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
        file = self._files.get(path)
        local = local_path(self._store, path, file)
        if local is None:
            return pa.PythonFile(ObjectFile(open_object(self._store, file or path)), mode="r")
        return pafs.LocalFileSystem().open_input_file(local)

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
