"""The objects below a directory, in the order object stores list them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lode.errors import PermissionDeniedError, StoreError
from lode.store.local_files import is_hidden
from lode.store.protocol import ObjectInfo
from lode.store.rules import moment

if TYPE_CHECKING:
    from collections.abc import Iterator


def walk(root: str, prefix: str, after: str) -> Iterator[ObjectInfo]:
    """Yield the objects that start with ``prefix`` and sort behind ``after``, by path, lazily.

    One directory is read at a time and only if it can hold such objects. What vanishes meanwhile is
    left out.
    """
    directory, slash, name_prefix = prefix.rpartition("/")
    return _below(root, f"{directory}{slash}", name_prefix, after)


def _below(root: str, directory: str, name_prefix: str, after: str) -> Iterator[ObjectInfo]:
    for key, entry in _entries(root, directory, name_prefix):
        path = directory + key
        if path.endswith("/"):
            # All of a directory sorts before ``after`` unless ``after`` lies in it.
            if path > after or after.startswith(path):
                yield from _below(root, path, "", after)
        elif path > after:
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            yield ObjectInfo(path, status.st_size, moment(status.st_mtime_ns))


def _entries(root: str, directory: str, name_prefix: str) -> list[tuple[str, os.DirEntry[str]]]:
    """Return a directory's entries sorted as their paths are: a directory counts with its slash.

    So ``a-b/x`` comes before ``a/x``, as ``-`` comes before ``/``.
    """
    found = []
    try:
        with os.scandir(f"{root}/{directory}") as entries:
            for entry in entries:
                name = entry.name
                if not name.startswith(name_prefix):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    found.append((f"{name}/", entry))
                elif entry.is_file(follow_symlinks=False) and not is_hidden(name):
                    found.append((name, entry))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except PermissionError as error:
        raise PermissionDeniedError(f"no permission to list {directory!r}: {error}") from error
    except OSError as error:
        raise StoreError(f"the file system failed to list {directory!r}: {error}") from error
    found.sort(key=lambda pair: pair[0])
    return found
