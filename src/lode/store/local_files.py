"""A file on its way into the local store: hidden while it is written, then there as a whole.

The rule for a durable store: whatever a caller is told exists has been synced by somebody, content and
name, by the time it is told. That includes names that another process made and has not synced yet.
"""

# Plain os calls, no pathlib: a commit makes dozens of them and the objects around them would cost more.
# ruff: noqa: PTH105, PTH108

from __future__ import annotations

import errno
import fcntl
import os
import random
import secrets
import stat
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from lode.errors import LodeError, NotFoundError, PathExistsError, StoreError
from lode.store.local_tree import CREATE, LOCK, READ, not_plain, translated, unsynced

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Self

    from lode.store.local_tree import Tree

_NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV)
LOCK_SUFFIX = ".lock"
QUEUE_SUFFIX = ".queue.lock"


def is_temporary(name: str) -> bool:
    """Whether a writer gave a file this name until it is whole: this library, or the Go implementation."""
    return name.startswith(".lode-") and (name.endswith(".tmp") or is_go_temporary(name))


def is_go_temporary(name: str) -> bool:
    """Whether the Go implementation gave a file this name while it swaps a pointer."""
    return name.startswith(".lode-cas-")


def is_hidden(name: str) -> bool:
    """Whether a file of this name is the store's own and no object."""
    return name.endswith(LOCK_SUFFIX) or is_temporary(name)


class NewFile:
    """A hidden file that ``link`` or ``replace`` gives its final name. Leaving the block discards it.

    It is opened without following a link and has a name that nobody else has. So the calls that name it
    later cannot be led astray by a directory that a link replaced meanwhile: it is not there. It is locked
    as long as its writer lives, which tells it from the leftover of a dead one.

    Args:
        tree: Where.
        path: The object's path.
        volatile: Whether to leave it to the kernel when content and name reach the disk.
    """

    def __init__(self, tree: Tree, path: str, *, volatile: bool = False) -> None:
        self.path = path
        self._tree = tree
        self._owner = os.getpid()
        self._directory, slash, _ = path.rpartition("/")
        self._durable = tree.durable and not volatile
        self._temporary: str | None = None
        self._descriptor: int | None = None
        while self._temporary is None:
            name = f".lode-{secrets.token_hex(8)}.tmp"
            self._descriptor = tree.open_beside(path, name, CREATE)
            if _claim(self._descriptor):
                self._file = f"{tree.real}/{path}"
                self._temporary = f"{tree.real}/{self._directory}{slash}{name}"
            else:
                self._close()

    def write(self, view: memoryview) -> None:
        assert self._descriptor is not None
        try:
            written = os.write(self._descriptor, view)
            while written < view.nbytes:
                written += os.write(self._descriptor, view[written:])
        except OSError as error:
            raise translated(error, self.path) from error

    def link(self) -> None:
        """Give the file its final name unless that is taken, durably if so asked."""
        temporary = self._finish()
        try:
            os.link(temporary, self._file)
        except FileExistsError as error:
            raise taken(self._tree, self.path, durable=self._durable) from error
        except OSError as error:
            if error.errno not in _NO_HARD_LINKS:
                raise translated(error, self.path) from error
            raise StoreError(
                f"cannot put {self.path!r}: the file system of {self._tree.root!r} has no hard links, "
                "and without them an existing object could be replaced; use another file system"
            ) from error
        self.discard()
        self.sync_directories()

    def replace(self) -> None:
        """Give the file its final name, whatever was there. ``sync_directories`` is left to the caller."""
        temporary = self._finish()
        try:
            os.replace(temporary, self._file)
        except IsADirectoryError as error:
            raise _directory_there(self.path) from error
        except OSError as error:
            raise translated(error, self.path) from error
        self._temporary = None

    def sync_directories(self) -> None:
        """Bring the names themselves to the disk: the file's, and those of the directories it is in."""
        if self._durable:
            self._tree.sync(self._directory, self.path)

    def discard(self) -> None:
        """Remove the hidden name, best effort. Does nothing the second time."""
        temporary, self._temporary = self._temporary, None
        if temporary is not None:
            with suppress(OSError):
                os.unlink(temporary)
        self._close()

    def _finish(self) -> str:
        assert self._descriptor is not None
        assert self._temporary is not None
        if self._durable:
            try:
                os.fsync(self._descriptor)
            except OSError as error:
                raise translated(error, self.path) from error
        return self._temporary

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.discard()

    def __del__(self) -> None:
        # A forked child that drops its copy must leave the parent's file alone.
        if os.getpid() == self._owner:
            self.discard()
        self._close()


def link_file(tree: Tree, source: str, path: str) -> None:
    """Give a file that is there a second name unless that is taken: no content to write, no inode to make."""
    content, _ = tree.open_file(source)
    try:
        if tree.durable:
            # Nobody may have done so yet: the source may have been put volatile.
            os.fsync(content)
        directory = tree.open_directory(path)
        try:
            name = path.rpartition("/")[2]
            os.link(f"{tree.real}/{source}", name, dst_dir_fd=directory, follow_symlinks=False)
        finally:
            os.close(directory)
    except FileExistsError as error:
        raise taken(tree, path, durable=tree.durable) from error
    except OSError as error:
        raise translated(error, path) from error
    finally:
        os.close(content)
    if tree.durable:
        tree.sync(path.rpartition("/")[0], path)


def taken(tree: Tree, path: str, *, durable: bool) -> LodeError:
    """Return the error for a name that exists, after making sure that it goes on existing.

    Whoever made it may not have synced it yet, and the caller may now rely on it.
    """
    status = tree.look(path)
    if status is not None and stat.S_ISDIR(status.st_mode):
        return _directory_there(path)
    if status is not None and not stat.S_ISREG(status.st_mode):
        return not_plain(path, status)
    if durable:
        _sync_content(tree, path)
        tree.sync(path.rpartition("/")[0], path)
    return PathExistsError(f"{path!r} exists already")


def _sync_content(tree: Tree, path: str) -> None:
    try:
        descriptor = tree.open(path, READ)
    except OSError:
        # Deleted meanwhile, or another user's: whoever syncs at all syncs before giving the file its name.
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
def locked(tree: Tree, path: str, *, make: bool) -> Iterator[bool]:
    """Hold the lock file exclusively: against other processes, and other threads of this one.

    Yields False, holding nothing, if there is no directory for it and ``make`` does not allow one.
    """
    name = f"{path.rpartition('/')[2]}{LOCK_SUFFIX}"
    try:
        # A descriptor of its own per call is what makes flock hold between threads too.
        descriptor = tree.open_beside(path, name, LOCK, make=make)
    except NotFoundError:
        yield False
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:
            raise translated(error, path) from error
        yield True
    finally:
        # Closing gives the lock back. The file stays: a removed one would lock nobody out.
        os.close(descriptor)


@contextmanager
def queued(tree: Tree, path: str, patience: float, interval: float) -> Iterator[None]:
    """Wait for a place of one's own beside ``path``, asking every now and then, and not for ever."""
    name = f"{path.rpartition('/')[2]}{QUEUE_SUFFIX}"
    try:
        descriptor = tree.open_beside(path, name, LOCK, make=False)
    except LodeError:
        yield
        return
    try:
        give_up = time.monotonic() + patience
        while not try_lock(descriptor, fcntl.LOCK_EX) and time.monotonic() < give_up:
            time.sleep(interval * random.uniform(0.5, 1.0))
        yield
    finally:
        os.close(descriptor)


def try_lock(descriptor: int, kind: int) -> bool:
    """Take a lock if that is possible now. False also where the file system has none."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _claim(descriptor: int) -> bool:
    """Lock a hidden file just made; False if it was taken for a leftover and removed before that."""
    # A file system without locks has no way to tell leftovers from files being written: none is removed.
    try:
        # Whoever looks for leftovers holds it for a moment only.
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError:
        return True
    return os.fstat(descriptor).st_nlink > 0
