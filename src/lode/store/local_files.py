"""New files of the local store: unnamed or hidden while they are written, then visible as a whole.

The rule for a durable store: before a call reports that an object exists, its content and its name have been
synced. That includes names that another process has made and not synced yet.
"""

# os calls, not pathlib: a commit makes dozens of them, and the objects of pathlib would cost more.

from __future__ import annotations

import errno
import fcntl
import os
import random
import stat
import time
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING

from lode.errors import LodeError, NotFoundError, PathExistsError, StoreError
from lode.store.local_tree import CREATE, LOCK, READ, UNNAMED, not_plain, translated, unsynced

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from lode.store.local_tree import Tree

_NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV)
# The errors of a file system, or a kernel, without unnamed files.
_NO_UNNAMED = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOSYS)
_SWAP_PREFIX = ".lode-cas-"
LOCK_SUFFIX = ".lock"
QUEUE_SUFFIX = ".queue.lock"


def is_temporary(name: str) -> bool:
    """Return whether this is the name of an unfinished file, of this library or the Go implementation."""
    return name.startswith(".lode-") and (name.endswith(".tmp") or is_swap_temporary(name))


def is_swap_temporary(name: str) -> bool:
    """Return whether this is the name of a file that replaces an object under its lock."""
    return name.startswith(_SWAP_PREFIX)


def is_hidden(name: str) -> bool:
    """Return whether a file of this name belongs to the store and is no object."""
    return name.endswith(LOCK_SUFFIX) or (name.startswith(".lode-") and is_temporary(name))


def put_file(tree: Tree, path: str, view: memoryview, *, durable: bool) -> None:
    """Create a file that has its content from the moment it has its name, unless the name exists.

    Args:
        tree: The directory tree.
        path: The object's path.
        view: The content.
        durable: Whether to return only when content and name are on the disk.
    """
    if tree.unnamed and _put_unnamed(tree, path, view, durable=durable):
        return
    with NewFile(tree, path) as file:
        file.write(view)
        file.link(durable=durable)


def _put_unnamed(tree: Tree, path: str, view: memoryview, *, durable: bool) -> bool:
    """Put a file that has no name while it is written. A killed writer leaves nothing, so it needs no lock.

    Returns False if nothing was put: the file system has no unnamed files, or the directory was removed.
    """
    place = tree.open_place(path)
    try:
        with tree.anchored_meanwhile(path) if durable else nullcontext():
            try:
                descriptor = os.open(".", UNNAMED, 0o666, dir_fd=place)
            except OSError as error:
                tree.unnamed = error.errno not in _NO_UNNAMED
                return False
            try:
                _write(descriptor, view, path)
                if durable:
                    _fsync(descriptor, path)
                if not _name_unnamed(tree, descriptor, path, place, durable=durable):
                    return False
            finally:
                os.close(descriptor)
        if durable:
            tree.sync(path, place)
    finally:
        os.close(place)
    return True


def _name_unnamed(tree: Tree, descriptor: int, path: str, place: int, *, durable: bool) -> bool:
    try:
        os.link(f"/proc/self/fd/{descriptor}", path.rpartition("/")[2], dst_dir_fd=place)
    except FileExistsError as error:
        raise taken(tree, path, durable=durable) from error
    except FileNotFoundError:
        # The directory was removed. A hidden file would prevent that.
        return False
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise translated(error, path) from error
        tree.unnamed = False
        return False
    return True


class NewFile:
    """A hidden file that ``link`` gives its final name. Leaving the block discards it.

    It is opened without following a link and has a random name. If a link replaces its directory meanwhile,
    later calls by that name fail: the target of the link does not contain it. The file is locked as long as
    its writer lives, so that the leftover of a dead writer is recognized.

    Args:
        tree: The directory tree.
        path: The object's path.
    """

    def __init__(self, tree: Tree, path: str) -> None:
        self.path = path
        self._tree = tree
        self._owner = os.getpid()
        directory, slash, final = path.rpartition("/")
        prefix = f"{directory}{slash}"
        self._final = f"{prefix}{final}"
        self._temporary: str | None = None
        self._descriptor: int | None = None
        while self._temporary is None:
            name = f".lode-{os.urandom(8).hex()}.tmp"
            entered, self._descriptor = tree.enter(path, name, CREATE)
            os.close(entered)
            if _claim(self._descriptor):
                self._temporary = f"{prefix}{name}"
            else:
                self._close()

    def write(self, view: memoryview) -> None:
        assert self._descriptor is not None
        _write(self._descriptor, view, self.path)

    def link(self, *, durable: bool) -> None:
        """Give the file its final name unless that exists."""
        assert self._descriptor is not None
        assert self._temporary is not None
        if durable:
            _fsync(self._descriptor, self.path)
        try:
            root = self._tree.descriptor
            os.link(self._temporary, self._final, src_dir_fd=root, dst_dir_fd=root, follow_symlinks=False)
        except FileExistsError as error:
            raise taken(self._tree, self.path, durable=durable) from error
        except OSError as error:
            if error.errno not in _NO_HARD_LINKS:
                raise translated(error, self.path) from error
            raise StoreError(
                f"cannot put {self.path!r}: the file system of {self._tree.root!r} has no hard links, "
                "and without them an existing object could be replaced; use another file system"
            ) from error
        self.discard()
        if durable:
            self._tree.sync(self.path)

    def discard(self) -> None:
        """Remove the hidden name, ignoring errors. Does nothing the second time."""
        temporary, self._temporary = self._temporary, None
        if temporary is not None:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=self._tree.descriptor)
        self._close()

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()

    def __del__(self) -> None:
        # A forked child that drops its copy must not delete the parent's file.
        if os.getpid() == self._owner:
            self.discard()
        self._close()


def replace_file(tree: Tree, path: str, view: memoryview, place: int, *, durable: bool) -> None:
    """Replace an object whose lock the caller holds, or create it. The caller syncs the directory.

    The hidden file has a name as in the Go implementation, and as there it is not locked: it exists only
    while its writer holds the lock of the object, so the leftover of a dead writer is recognized by that.

    Args:
        tree: The directory tree.
        path: The object's path.
        view: The content.
        place: Its directory, which is open.
        durable: Whether the content is synced first.
    """
    hidden = f"{_SWAP_PREFIX}{os.urandom(8).hex()}"
    descriptor = tree.open_in(place, path, hidden, CREATE)
    try:
        try:
            _write(descriptor, view, path)
            if durable:
                _fsync(descriptor, path)
        finally:
            os.close(descriptor)
        os.replace(hidden, path.rpartition("/")[2], src_dir_fd=place, dst_dir_fd=place)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(hidden, dir_fd=place)
        if isinstance(error, IsADirectoryError):
            raise _directory_there(path) from error
        if isinstance(error, OSError):
            raise translated(error, path) from error
        raise


def link_file(tree: Tree, source: str, path: str) -> None:
    """Give an existing file a second name unless that exists. No content is written and no inode made."""
    content, _ = tree.open_file(source)
    try:
        if tree.durable:
            # The source may have been put volatile.
            _fsync(content, path)
        place = tree.open_place(path, make=False)
    finally:
        os.close(content)
    try:
        _link(tree, source, path, place)
        if tree.durable:
            tree.sync(path, place)
    finally:
        os.close(place)


def _link(tree: Tree, source: str, path: str, place: int) -> None:
    try:
        name = path.rpartition("/")[2]
        os.link(source, name, src_dir_fd=tree.descriptor, dst_dir_fd=place, follow_symlinks=False)
    except FileExistsError as error:
        raise taken(tree, path, durable=tree.durable) from error
    except OSError as error:
        raise translated(error, path) from error


def taken(tree: Tree, path: str, *, durable: bool) -> LodeError:
    """Return the error for a name that exists, after syncing it.

    Its writer may not have synced it yet, and the caller may now rely on it.
    """
    status = tree.look(path)
    if status is not None and stat.S_ISDIR(status.st_mode):
        return _directory_there(path)
    if status is not None and not stat.S_ISREG(status.st_mode):
        return not_plain(path, status)
    if durable:
        _sync_content(tree, path)
        tree.sync(path)
    return PathExistsError(f"{path!r} exists already")


def _sync_content(tree: Tree, path: str) -> None:
    try:
        descriptor = tree.open(path, READ)
    except OSError:
        # Deleted meanwhile, or another user's. A durable writer syncs before it gives the file its name.
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        raise unsynced(path, error) from error
    finally:
        os.close(descriptor)


def _directory_there(path: str) -> StoreError:
    return StoreError(f"cannot put {path!r}: there are objects below it, and a file system cannot hold both")


@contextmanager
def locked(tree: Tree, path: str, *, make: bool) -> Iterator[int | None]:
    """Hold the lock file exclusively, against other processes and other threads of this one.

    Yields the open directory of the object; None, without a lock, if it is missing and ``make`` is False.
    """
    name = f"{path.rpartition('/')[2]}{LOCK_SUFFIX}"
    try:
        # A new descriptor for each call: flock then excludes threads too.
        place, descriptor = tree.enter(path, name, LOCK, make=make)
    except NotFoundError:
        yield None
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:
            raise translated(error, path) from error
        yield place
    finally:
        # Closing releases the lock. The file stays: other processes may hold it open.
        os.close(descriptor)
        os.close(place)


@contextmanager
def queued(tree: Tree, path: str, patience: float, interval: float) -> Iterator[None]:
    """Wait up to ``patience`` seconds for the queue lock of ``path``, with an attempt every ``interval``."""
    name = f"{path.rpartition('/')[2]}{QUEUE_SUFFIX}"
    try:
        place, descriptor = tree.enter(path, name, LOCK, make=False)
    except LodeError:
        yield
        return
    os.close(place)
    try:
        give_up = time.monotonic() + patience
        while not try_lock(descriptor, fcntl.LOCK_EX) and time.monotonic() < give_up:
            time.sleep(interval * random.uniform(0.5, 1.0))
        yield
    finally:
        os.close(descriptor)


def try_lock(descriptor: int, kind: int) -> bool:
    """Take a lock if it is free. False also if the file system has no locks."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _write(descriptor: int, view: memoryview, path: str) -> None:
    try:
        written = os.write(descriptor, view)
        while written < view.nbytes:
            written += os.write(descriptor, view[written:])
    except OSError as error:
        raise translated(error, path) from error


def _fsync(descriptor: int, path: str) -> None:
    try:
        os.fsync(descriptor)
    except OSError as error:
        raise translated(error, path) from error


def _claim(descriptor: int) -> bool:
    """Lock a new hidden file; False if a sweep took it for a leftover and removed it before."""
    # Without locks, leftovers look like files that are being written, so none is removed.
    try:
        # A sweep for leftovers holds the lock for a moment only.
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError:
        return True
    return os.fstat(descriptor).st_nlink > 0
