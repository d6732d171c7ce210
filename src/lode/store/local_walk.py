"""The objects below a directory, in the order object stores list them, and what dead writers left there."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

from lode.errors import InvalidPathError, NotFoundError, PermissionDeniedError, StoreError
from lode.store.local_files import (
    LOCK_SUFFIX,
    QUEUE_SUFFIX,
    is_go_temporary,
    is_hidden,
    is_temporary,
    try_lock,
)
from lode.store.local_tree import READ, translated
from lode.store.protocol import ObjectInfo
from lode.times import ns_to_datetime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lode.store.local_tree import Tree


def walk(
    tree: Tree,
    prefix: str,
    after: str = "",
    *,
    wanted: Callable[[str], bool] = lambda name: not is_hidden(name),
) -> Iterator[ObjectInfo]:
    """Yield the objects that start with ``prefix`` and sort behind ``after``, by path, lazily.

    One directory is read at a time and only if it can hold such objects. What vanishes meanwhile is
    left out, and so are links. ``wanted`` chooses files by their name.
    """
    directory, slash, name_prefix = prefix.rpartition("/")
    tree.look(directory)
    yield from _below(tree.real, f"{directory}{slash}", name_prefix, after, wanted)


def abandoned(tree: Tree, prefix: str) -> Iterator[ObjectInfo]:
    """Yield the temporary files below ``prefix`` that no process is writing, by path."""
    for info in walk(tree, prefix, wanted=is_temporary):
        try:
            directory = tree.open_directory(info.path)
        except NotFoundError:
            continue
        try:
            descriptor = _open_abandoned(directory, info.path)
            if descriptor is not None:
                os.close(descriptor)
                yield info
        except FileNotFoundError:
            continue
        finally:
            os.close(directory)


def delete_abandoned(tree: Tree, path: str) -> None:
    """Remove a temporary file that no process is writing. Removing what is not there is no error."""
    name = path.rpartition("/")[2]
    if not is_temporary(name):
        raise InvalidPathError(f"{path!r} is no temporary file of the local store: delete() removes objects")
    try:
        directory = tree.open_directory(path)
    except NotFoundError:
        return
    try:
        descriptor = _open_abandoned(directory, path)
        if descriptor is None:
            raise InvalidPathError(f"{path!r} is being written, or nothing tells that it is not: leave it")
        try:
            # Removed under the lock: a writer that made it and has not locked it yet finds it gone.
            os.unlink(name, dir_fd=directory)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        return
    except OSError as error:
        raise translated(error, path) from error
    finally:
        os.close(directory)


def _open_abandoned(directory: int, path: str) -> int | None:
    """Open a temporary file and lock it; None if its writer may be alive.

    A lock is the one sign of life that holds across containers and machines that share the directory: a
    process id says nothing there.
    """
    name = path.rpartition("/")[2]
    descriptor = _open_and_lock(directory, name)
    if descriptor is not None and is_go_temporary(name) and _swap_under_way(directory):
        os.close(descriptor)
        return None
    return descriptor


def _swap_under_way(directory: int) -> bool:
    """Whether somebody holds a pointer's lock file here, as the Go implementation does while it swaps.

    It does not lock its temporary file. But it makes it while it holds the pointer's lock: if all of those
    are free after the file was seen, its writer is gone.
    """
    for name in os.listdir(directory):
        if name.endswith(LOCK_SUFFIX) and not name.endswith(QUEUE_SUFFIX):
            try:
                descriptor = _open_and_lock(directory, name)
            except FileNotFoundError:
                continue
            if descriptor is None:
                return True
            os.close(descriptor)
    return False


def _open_and_lock(directory: int, name: str) -> int | None:
    """Open a file and share its lock; None if that is held exclusively, or cannot be asked for."""
    try:
        descriptor = os.open(name, READ, dir_fd=directory)
    except FileNotFoundError:
        raise
    except OSError:
        return None
    if try_lock(descriptor, fcntl.LOCK_SH):
        return descriptor
    os.close(descriptor)
    return None


def _below(
    root: str, directory: str, name_prefix: str, after: str, wanted: Callable[[str], bool]
) -> Iterator[ObjectInfo]:
    for key, entry in _entries(root, directory, name_prefix, wanted):
        path = directory + key
        if path.endswith("/"):
            # All of a directory sorts before ``after`` unless ``after`` lies in it.
            if path > after or after.startswith(path):
                yield from _below(root, path, "", after, wanted)
        elif path > after:
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            yield ObjectInfo(path, status.st_size, ns_to_datetime(status.st_mtime_ns))


def _entries(
    root: str, directory: str, name_prefix: str, wanted: Callable[[str], bool]
) -> list[tuple[str, os.DirEntry[str]]]:
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
                elif entry.is_file(follow_symlinks=False) and wanted(name):
                    found.append((name, entry))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except PermissionError as error:
        raise PermissionDeniedError(f"no permission to list {directory!r}: {error}") from error
    except OSError as error:
        raise StoreError(f"the file system failed to list {directory!r}: {error}") from error
    found.sort(key=lambda pair: pair[0])
    return found
