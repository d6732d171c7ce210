"""The directory tree of a local store: opens files without following links, and syncs directories.

A symbolic link below the root is never followed, and a file that is not plain never blocks. Linux has a call
for that, ``openat2`` with ``RESOLVE_NO_SYMLINKS``: the kernel refuses a link at any component of the path, so
nothing can change between a check and the use. Python has no function for it, and a call through ``ctypes``
takes about a microsecond more than ``os.open``. Opening component by component doubles the time of a read.
Systems without the call do that: every component is checked first.

An operation that writes opens its directory once with that call, and names everything in it relative to the
descriptor. It closes the descriptor when it returns: a cached one would still refer to a directory that was
renamed and replaced by a link.

Only the root is kept open, from the first call that finds it. So nothing is ever read or written in a folder
that took its place, such as the empty one below a disk that is not mounted. Every call compares the folder at
the path of the root with the open one, and fails if it is another one or is missing. The root is made once.
"""

# os calls, not pathlib: a commit makes dozens of them, and the objects of pathlib would cost more.
# ruff: noqa: PTH103, PTH112, PTH116, PTH120

from __future__ import annotations

import errno
import os
import stat
import threading
from contextlib import contextmanager
from functools import cache, cached_property
from threading import Lock
from typing import TYPE_CHECKING

from lode.errors import (
    LodeError,
    NotFoundError,
    OutcomeUnknownError,
    PermissionDeniedError,
    StoreError,
    StoreMissingError,
)
from lode.store.openat2 import openat2

if TYPE_CHECKING:
    from collections.abc import Iterator

# The most directories that are known to exist, or to be synced. A forgotten one is opened, or synced, again.
MAX_REMEMBERED_DIRECTORIES = 4096
MAX_MAKE_ATTEMPTS = 100

# Opening a FIFO without O_NONBLOCK blocks until it has a writer.
_GUARDED = os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
READ = os.O_RDONLY | _GUARDED
# An unnamed file in the directory that is opened. 0 if the system has none.
UNNAMED = os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC if hasattr(os, "O_TMPFILE") else 0
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _GUARDED
LOCK = os.O_RDWR | os.O_CREAT | _GUARDED
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# A directory for calls relative to it; it cannot be synced or read.
_PLACE = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
# The errors at a link: ELOOP on Linux and macOS, EMLINK on FreeBSD, ENOTDIR for a directory.
_MAY_BE_LINK = (errno.ELOOP, errno.EMLINK, errno.ENOTDIR)


def _is_open(opened: tuple[int, tuple[int, int]]) -> bool:
    """Whether a descriptor is still that of this device and inode."""
    try:
        status = os.fstat(opened[0])
    except OSError:
        return False
    return (status.st_dev, status.st_ino) == opened[1]


class Tree:
    """The directories and files below a root. Paths are relative and already checked.

    Args:
        root: An absolute path without a slash at its end, so empty for ``/``. Links in it are followed.
        durable: Whether writers sync files and directories before they return.
        known: Whether the root is known to exist, so that it is not made here.
    """

    def __init__(self, root: str, *, durable: bool, known: bool = False) -> None:
        self.root = root
        self.durable = durable
        # The root, open, and its device and inode.
        self._opened: tuple[int, tuple[int, int]] | None = None
        self._known_root = known
        self._opening = Lock()
        # Directories whose entry in their parent, and so on upwards, has been synced since they were made.
        # The store removes no directory. A directory removed by others is noticed when an open fails.
        self._anchored: set[str] = set()
        # Directories that existed when they were last opened: the start for making one below.
        self._known: set[str] = set()
        self._handle = _DIRECTORY if durable else _PLACE

    def __del__(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None and _is_open(opened):
            os.close(opened[0])

    @property
    def knows_root(self) -> bool:
        """Whether the root was seen, or made, by this store or by one that it is a copy of."""
        return self._known_root

    @property
    def descriptor(self) -> int:
        """The descriptor of the root, for what was begun in it; -1 if it was never opened."""
        return -1 if self._opened is None else self._opened[0]

    def at_root(self) -> int:
        """The descriptor of the root, after a look whether it is still the folder at its path.

        Raises:
            FileNotFoundError: There is none, and there never was.
            StoreMissingError: It is missing, or another one is in its place.
        """
        known = self._known_root  # read first: another thread may make the root
        try:
            status = os.stat(self.root or "/")
        except (FileNotFoundError, NotADirectoryError):
            if not known:
                raise
            raise StoreMissingError(
                f"the folder {self.root!r} of the store is missing, and was there before: mount it or move "
                "it back; a store does not make its folder a second time"
            ) from None
        opened = self._opened or self._open_root()
        if opened[1] != (status.st_dev, status.st_ino):
            raise StoreMissingError(
                f"another folder is in the place of {self.root!r}, the folder of the store: mount the right "
                "one or move it back, or open the store again to use what is there"
            )
        if not _is_open(opened):
            # A daemon closes all descriptors when it starts, and the number may be another file's now.
            with self._opening:
                self._opened = None
            return self.at_root()
        return opened[0]

    def _open_root(self) -> tuple[int, tuple[int, int]]:
        with self._opening:
            if self._opened is None:
                descriptor = os.open(self.root or "/", _PLACE)
                status = os.fstat(descriptor)
                self._opened = descriptor, (status.st_dev, status.st_ino)
                self._known_root = True
            return self._opened

    @cached_property
    def unnamed(self) -> bool:
        """Whether unnamed files are possible, until the first failure."""
        return UNNAMED != 0 and _has_proc()

    def open(self, path: str, flags: int) -> int:
        """Open ``path`` without following a link; raises what ``os.open`` raises."""
        root = self.at_root()
        opened = openat2()
        if opened is not None:
            return opened(path or ".", flags, root)
        # O_NOFOLLOW refuses a link as the last component. The flags for a directory do not contain it.
        self._look(root, path if flags & os.O_DIRECTORY else path.rpartition("/")[0])
        return os.open(path or ".", flags, 0o666, dir_fd=root)

    def open_file(self, path: str, directory: int | None = None) -> tuple[int, int]:
        """Open a plain file for reading; return the descriptor and the size in bytes.

        Args:
            path: The object's path.
            directory: Its directory, if that is open.
        """
        try:
            if directory is None:
                descriptor = self.open(path, READ)
            else:
                descriptor = os.open(path.rpartition("/")[2], READ, dir_fd=directory)
        except OSError as error:
            raise self.failure(error, path) from error
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise not_plain(path, status)
        return descriptor, status.st_size

    def open_directory(self, path: str) -> int:
        """Open the directory of the object ``path``; ``NotFoundError`` if there is none."""
        try:
            return self.open(path.rpartition("/")[0], _DIRECTORY)
        except OSError as error:
            raise self.failure(error, path) from error

    def open_place(self, path: str, *, make: bool = True) -> int:
        """Open the directory of the object ``path`` to write in it, and create it if it is missing.

        Without ``make`` a missing directory is ``NotFoundError``.
        """
        directory = path.rpartition("/")[0]
        if make and directory not in self._known:
            place = self._make_below(directory)
            if place is not None:
                return place
        for _ in range(MAX_MAKE_ATTEMPTS):
            try:
                place = self.open(directory, self._handle)
            except FileNotFoundError as error:
                if not make:
                    raise translated(error, path) from error
                self._make(directory, path)
            except NotADirectoryError as error:
                raise self._through_a_file(path) from error
            except OSError as error:
                self.look(directory)
                raise translated(error, path) from error
            else:
                if directory not in self._known:
                    self._remember(directory)
                return place
        raise _removed(path)

    def enter(self, path: str, name: str, flags: int, *, make: bool = True) -> tuple[int, int]:
        """Open the directory of the object ``path``, as ``open_place`` does, and the file ``name`` in it."""
        for _ in range(MAX_MAKE_ATTEMPTS):
            place = self.open_place(path, make=make)
            try:
                return place, os.open(name, flags, 0o666, dir_fd=place)
            except OSError as error:
                os.close(place)
                if not make or error.errno != errno.ENOENT:
                    raise self._not_opened(error, path, name) from error
        raise _removed(path)

    def open_in(self, place: int, path: str, name: str, flags: int) -> int:
        """Open the file ``name`` in the directory of the object ``path``, which is open."""
        try:
            return os.open(name, flags, 0o666, dir_fd=place)
        except OSError as error:
            raise self._not_opened(error, path, name) from error

    def status(self, path: str) -> os.stat_result | None:
        """Return the status of ``path``, None if it does not exist; ``StoreError`` if it contains a link."""
        if openat2() is None:
            return self.look(path)
        try:
            descriptor = self.open(path, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno in _MAY_BE_LINK:
                return self.look(path)
            raise translated(error, path) from error
        try:
            return os.fstat(descriptor)
        finally:
            os.close(descriptor)

    def look(self, path: str) -> os.stat_result | None:
        """Do the same component by component. The error names the link."""
        try:
            return self._look(self.at_root(), path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise translated(error, path) from error

    def _look(self, root: int, path: str) -> os.stat_result | None:
        status = None
        end = 0
        while end >= 0 and path:
            end = path.find("/", end + 1)
            part = path if end < 0 else path[:end]
            try:
                status = os.stat(part, dir_fd=root, follow_symlinks=False)
            except (FileNotFoundError, NotADirectoryError):
                return None
            except OSError as error:
                raise translated(error, path) from error
            if stat.S_ISLNK(status.st_mode):
                raise StoreError(
                    f"cannot open {path!r}: {part!r} is a symbolic link, and the local store follows none "
                    "below its root; put the data itself there, or mount it"
                )
        return status

    def sync(self, path: str, place: int | None = None) -> None:
        """Sync the directory of ``path``, and the directories that lead to it.

        Args:
            path: The object's path.
            place: Its directory, if that is open.

        Raises:
            OutcomeUnknownError: It failed, so ``path`` may not survive a power cut.
        """
        directory = path.rpartition("/")[0]
        try:
            if place is None:
                self._sync(directory)
            else:
                _fsync_directory(place)
            self._anchor(directory)
        except OSError as error:
            raise unsynced(path, error) from error

    @contextmanager
    def anchored_meanwhile(self, path: str) -> Iterator[None]:
        """Sync the entries that lead to the directory of ``path`` on another thread, if that is not done.

        Each sync waits for the disk, and those of a new directory do not depend on the object in it.

        Raises:
            OutcomeUnknownError: It failed. The kernel reports that only once, so ``sync`` would not find out.
        """
        directory = path.rpartition("/")[0]
        if directory in self._anchored:
            yield
            return
        failed: list[OSError] = []

        def anchor() -> None:
            try:
                self._anchor(directory)
            except OSError as error:
                failed.append(error)

        anchoring = threading.Thread(target=anchor, name="lode-sync")
        try:
            anchoring.start()
        except RuntimeError:  # no more threads, or the interpreter is shutting down
            yield
            return
        try:
            yield
        finally:
            anchoring.join()
            if failed:
                raise unsynced(path, failed[0]) from failed[0]

    def failure(self, error: OSError, path: str) -> LodeError:
        """Return the error of Lode for one at ``path``; raise one that names the link if there is one."""
        if error.errno in _MAY_BE_LINK:
            self.look(path)
        if error.errno == errno.ENXIO:
            # Opening a socket, or a device without a driver.
            status = self.look(path)
            if status is not None:
                return not_plain(path, status)
        return translated(error, path)

    def _not_opened(self, error: OSError, path: str, name: str) -> LodeError:
        """Return the error for one of the store's own files in the directory of the object ``path``."""
        sibling = _sibling(path, name)
        if error.errno == errno.EISDIR:
            return StoreError(f"cannot write {path!r}: {sibling!r} is a directory; remove it")
        self.look(sibling)
        return translated(error, path)

    def _make_below(self, directory: str) -> int | None:
        """Create a directory below a known one and open it; None if that fails.

        Nearly every unknown directory is that of a new snapshot. Opening it first would fail.
        """
        known = directory
        while known and known not in self._known:
            known = known.rpartition("/")[0]
        if known not in self._known:
            return None
        try:
            place = self.open(known, self._handle)
        except OSError:
            return None
        made = known
        for name in directory[len(known) :].lstrip("/").split("/"):
            made = f"{made}/{name}" if made else name
            try:
                try:
                    os.mkdir(name, dir_fd=place)
                    if made in self._anchored:
                        self._anchored.clear()
                except FileExistsError:
                    pass
                below = os.open(name, self._handle | os.O_NOFOLLOW, dir_fd=place)
            except OSError:
                # Opening the whole path raises the right error.
                return None
            finally:
                os.close(place)
            place = below
            self._remember(made)
        return place

    def _make(self, directory: str, path: str) -> None:
        """Create a directory and its parents, each relative to its open parent, so never through a link."""
        if directory in self._anchored:
            # It existed and was removed, and perhaps others with it.
            self._anchored.clear()
        if directory in self._known:
            self._known.clear()
        try:
            if not directory:
                self._make_root()
                return
            parent, _, name = directory.rpartition("/")
            try:
                above = self.open(parent, _PLACE)
            except FileNotFoundError:
                self._make(parent, path)
                above = self.open(parent, _PLACE)
            self._remember(parent)
            try:
                os.mkdir(name, dir_fd=above)
            finally:
                os.close(above)
        except FileExistsError as error:
            # Another process was faster, or it is a dangling link, or the root is a file.
            if self.look(directory) is None and not directory:
                raise self._through_a_file(path) from error
        except NotADirectoryError as error:
            raise self._through_a_file(path) from error
        except FileNotFoundError:
            # Removed again; the caller retries.
            return
        except OSError as error:
            self.look(directory)
            raise translated(error, path) from error

    def _make_root(self) -> None:
        """Create the root, once. A second one would look like an empty store."""
        with self._opening:
            if not self._known_root:
                os.makedirs(self.root or "/", exist_ok=True)
                self._known_root = True

    def _remember(self, directory: str) -> None:
        if len(self._known) >= MAX_REMEMBERED_DIRECTORIES:
            self._known.clear()
        self._known.add(directory)

    def _anchor(self, directory: str) -> None:
        """Sync the entries that lead to ``directory``: a process that made them may not have synced them."""
        if directory in self._anchored:
            return
        if directory:
            parent = directory.rpartition("/")[0]
            self._anchor(parent)
            self._sync(parent)
        else:
            self._anchor_root()
        if len(self._anchored) >= MAX_REMEMBERED_DIRECTORIES:
            self._anchored.clear()
        self._anchored.add(directory)

    def _anchor_root(self) -> None:
        """Sync the entries that lead to the root, up to the mount point of its file system."""
        inner = _real(self.root) or "/"
        device = os.stat(inner).st_dev
        while (outer := os.path.dirname(inner)) != inner and os.stat(outer).st_dev == device:
            try:
                descriptor = os.open(outer, _DIRECTORY)
            except PermissionError:
                # This user cannot have created anything in it.
                pass
            else:
                _fsync_and_close(descriptor)
            inner = outer

    def _sync(self, directory: str) -> None:
        _fsync_and_close(self.open(directory, _DIRECTORY))

    def _through_a_file(self, path: str) -> StoreError:
        parts = path.split("/")[:-1]
        for count in range(1, len(parts) + 1):
            ancestor = "/".join(parts[:count])
            status = self.look(ancestor)
            if status is not None and not stat.S_ISDIR(status.st_mode):
                return StoreError(
                    f"cannot put {path!r}: {ancestor!r} is an object, "
                    "and a file system cannot hold others below it"
                )
        return StoreError(f"cannot put {path!r}: the store's root or a part of the way to it is a file")


def not_plain(path: str, status: os.stat_result) -> LodeError:
    """Return the error for an object's path that is no plain file."""
    if stat.S_ISDIR(status.st_mode):
        return NotFoundError(f"no object {path!r}: it is a directory")
    kinds = {stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket", stat.S_IFLNK: "a symbolic link"}
    kind = kinds.get(stat.S_IFMT(status.st_mode), "a device")
    return StoreError(f"{path!r} is {kind} where an object should be: remove it, or put the file back")


def translated(error: OSError, path: str) -> LodeError:
    """Return the error of Lode for an ``OSError``."""
    if isinstance(error, LodeError):
        return error
    if isinstance(error, (FileNotFoundError, NotADirectoryError, IsADirectoryError)):
        return NotFoundError(f"no object {path!r}")
    if isinstance(error, PermissionError):
        return PermissionDeniedError(f"no permission for {path!r}: {error}")
    return StoreError(f"the file system failed on {path!r}: {error}")


def unsynced(path: str, error: Exception) -> OutcomeUnknownError:
    """Return the error for an object that exists and may not survive a power cut."""
    return OutcomeUnknownError(
        f"{path!r} was written, but a power cut may still undo it, as it or its directory "
        f"could not be synced: {error}"
    )


def _real(root: str) -> str:
    return os.path.realpath(root or "/").rstrip("/")


@cache
def _has_proc() -> bool:
    """Return whether an open file can be linked by its descriptor. Unnamed files get their name that way."""
    return os.path.isdir("/proc/self/fd")


def _removed(path: str) -> StoreError:
    return StoreError(f"cannot put {path!r}: its directory is removed as fast as it is made")


def _sibling(path: str, name: str) -> str:
    """The path of the file ``name`` in the directory of the object ``path``."""
    directory, slash, _ = path.rpartition("/")
    return f"{directory}{slash}{name}"


def _fsync_directory(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems cannot sync a directory and need not.
        if error.errno != errno.EINVAL:
            raise


def _fsync_and_close(descriptor: int) -> None:
    try:
        _fsync_directory(descriptor)
    finally:
        os.close(descriptor)
