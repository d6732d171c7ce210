"""Lists the objects of a local store in the order of object stores, and files that dead writers left."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from lode.errors import InvalidPathError, NotFoundError, PermissionDeniedError, StoreError
from lode.store.local_files import (
    LOCK_SUFFIX,
    QUEUE_SUFFIX,
    is_hidden,
    is_swap_temporary,
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
    """Yield the objects that start with ``prefix`` and sort after ``after``, by path, lazily.

    One directory is read at a time, and only if it can contain such objects. Files that are deleted meanwhile
    and links are left out. ``wanted`` selects files by name.
    """
    directory, slash, name_prefix = prefix.rpartition("/")
    tree.look(directory)
    yield from _below(tree, f"{directory}{slash}", name_prefix, after, wanted)


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
    """Remove a temporary file that no process is writing. A missing file is no error."""
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
            raise InvalidPathError(f"{path!r} may be in use by a writer: leave it")
        try:
            # Removed under the lock: a writer that has not locked its new file yet notices the removal.
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

    Only a lock works across containers and machines that share the directory. Process ids do not.
    """
    name = path.rpartition("/")[2]
    descriptor = _open_and_lock(directory, name)
    if descriptor is not None and is_swap_temporary(name) and _swap_under_way(directory):
        os.close(descriptor)
        return None
    return descriptor


def _swap_under_way(directory: int) -> bool:
    """Return whether a pointer's lock file is held here, as during a swap.

    A swap does not lock its temporary file, here and in the Go implementation, but makes it while it holds
    the pointer's lock. If all such locks are free after the file was seen, its writer is dead.
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
    """Open a file and share its lock; None if that is held exclusively, or the file cannot be opened."""
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
    tree: Tree, directory: str, name_prefix: str, after: str, wanted: Callable[[str], bool]
) -> Iterator[ObjectInfo]:
    for key, entry in _entries(tree, directory, name_prefix, wanted):
        path = directory + key
        if path.endswith("/"):
            # All paths in a directory sort before ``after`` unless ``after`` is in it.
            if path > after or after.startswith(path):
                yield from _below(tree, path, "", after, wanted)
        elif path > after:
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            yield ObjectInfo(path, status.st_size, ns_to_datetime(status.st_mtime_ns))


def _entries(
    tree: Tree, directory: str, name_prefix: str, wanted: Callable[[str], bool]
) -> list[tuple[str, os.DirEntry[str]]]:
    """Return the entries of a directory in the order of their paths. A directory sorts with its slash.

    So ``a-b/x`` comes before ``a/x``, as ``-`` comes before ``/``.
    """
    found = []
    try:
        with os.scandir(f"{tree.root}/{directory}") as entries:
            for entry in entries:
                name = entry.name
                if not name.startswith(name_prefix):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    found.append((f"{name}/", entry))
                elif entry.is_file(follow_symlinks=False) and wanted(name):
                    found.append((name, entry))
    except (FileNotFoundError, NotADirectoryError):
        found = []
    except PermissionError as error:
        raise PermissionDeniedError(f"no permission to list {directory!r}: {error}") from error
    except OSError as error:
        raise StoreError(f"the file system failed to list {directory!r}: {error}") from error
    # The directory was read by its path. It is one of the store only if the root is still at its place.
    with suppress(FileNotFoundError, NotADirectoryError):
        tree.at_root()
    found.sort(key=lambda pair: pair[0])
    return found
