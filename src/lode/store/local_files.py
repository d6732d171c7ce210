"""A file on its way into the local store: hidden while it is written, then there as a whole."""

# Plain os calls, no pathlib: a commit makes dozens of them and the objects around them would cost more.
# ruff: noqa: PTH102, PTH105, PTH108, PTH112, PTH113

from __future__ import annotations

import errno
import fcntl
import os
import random
import secrets
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from lode.errors import (
    LodeError,
    NotFoundError,
    OutcomeUnknownError,
    PathExistsError,
    PermissionDeniedError,
    StoreError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Self

_NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV)
_MAKE_ATTEMPTS = 100


def is_hidden(name: str) -> bool:
    """Whether a file of this name is the store's own and no object."""
    return name.endswith(".lock") or (name.startswith(".lode-") and name.endswith(".tmp"))


def heals_by_itself(path: str) -> bool:
    """Whether losing the object in a power cut does no harm, so that syncing it would be wasted.

    An intent only matters while its commit is under way. Until the swap nobody refers to it. After the
    swap its own writer publishes the manifest, synced; if the machine dies in between and takes the
    intent with it, the head is found again through the parent links of the manifests.
    """
    return path.endswith("intent.json")


class NewFile:
    """A hidden file that ``link`` or ``replace`` gives its final name. Leaving the block discards it.

    Args:
        file: The final name.
        path: The object's path, for messages.
        durable: Whether to sync content before the name and directories after it.
    """

    def __init__(self, file: str, path: str, *, durable: bool) -> None:
        self.path = path
        self._owner = os.getpid()
        self._file = file
        self._directory = file.rpartition("/")[0]
        self._temporary: str | None = None
        self._descriptor: int | None = None
        self._syncs_content = durable and not heals_by_itself(path)
        self._durable = durable
        self._grown: list[str] = []

        temporary = f"{self._directory}/.lode-{secrets.token_hex(8)}.tmp"
        self._descriptor = open_in_directory(
            temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, path, grown=self._grown
        )
        self._temporary = temporary

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
            raise self._taken() from error
        except OSError as error:
            if error.errno not in _NO_HARD_LINKS:
                raise translated(error, self.path) from error
            raise StoreError(
                f"cannot put {self.path!r}: the file system of {self._directory!r} has no hard links, "
                "and without them an existing object could be replaced; use another file system"
            ) from error
        self.discard()
        self.sync_directories()

    def replace(self) -> None:
        """Give the file its final name, whatever was there. ``sync_directories`` is left to the caller."""
        temporary = self._finish()
        try:
            os.replace(temporary, self._file)
        except OSError as error:
            raise translated(error, self.path) from error
        self._temporary = None

    def sync_directories(self) -> None:
        """Bring the names themselves to the disk: the file's, and those of directories made for it."""
        directories = [self._directory] if self._syncs_content else []
        if self._durable:
            directories += self._grown
        try:
            for directory in directories:
                _sync_directory(directory)
        except OSError as error:
            raise _unsynced(self.path, error) from error
        self._grown.clear()

    def discard(self) -> None:
        """Remove the hidden name, best effort. Does nothing the second time."""
        self._close()
        temporary, self._temporary = self._temporary, None
        if temporary is not None:
            with suppress(OSError):
                os.unlink(temporary)

    def _finish(self) -> str:
        assert self._descriptor is not None
        assert self._temporary is not None
        try:
            if self._syncs_content:
                os.fsync(self._descriptor)
            self._close()
        except OSError as error:
            raise translated(error, self.path) from error
        return self._temporary

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _taken(self) -> StoreError:
        if not os.path.isdir(self._file):
            return PathExistsError(f"{self.path!r} exists already")
        return StoreError(
            f"cannot put {self.path!r}: there are objects below it, and a file system cannot hold both"
        )

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


def link_file(source: str, file: str, path: str, *, durable: bool) -> None:
    """Give a file that is there a second name unless that is taken: no content to write, no inode to make."""
    try:
        if durable:
            _sync(source, os.O_RDONLY)
        os.link(source, file)
    except FileExistsError as error:
        raise PathExistsError(f"{path!r} exists already") from error
    except OSError as error:
        raise translated(error, path) from error
    if durable:
        try:
            _sync_directory(file.rpartition("/")[0])
        except OSError as error:
            raise _unsynced(path, error) from error


@contextmanager
def locked(file: str, path: str, *, durable: bool, make: bool) -> Iterator[bool]:
    """Hold the lock file exclusively: against other processes, and other threads of this one.

    Yields False, holding nothing, if there is no directory for it and ``make`` does not allow one.
    """
    flags = os.O_RDWR | os.O_CREAT
    grown: list[str] = []
    try:
        # A descriptor of its own per call is what makes flock hold between threads too.
        descriptor = open_in_directory(f"{file}.lock", flags, path, grown=grown, make=make)
    except NotFoundError:
        yield False
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if durable:
                for directory in grown:
                    _sync_directory(directory)
        except OSError as error:
            raise translated(error, path) from error
        yield True
    finally:
        # Closing gives the lock back. The file stays: a removed one would lock nobody out.
        os.close(descriptor)


@contextmanager
def queued(file: str, patience: float, interval: float) -> Iterator[None]:
    """Wait for a place of one's own beside ``file``, asking every now and then, and not for ever."""
    try:
        descriptor = os.open(f"{file}.queue.lock", os.O_RDWR | os.O_CREAT, 0o666)
    except OSError:
        yield
        return
    try:
        give_up = time.monotonic() + patience
        while not _try_lock(descriptor) and time.monotonic() < give_up:
            time.sleep(interval * random.uniform(0.5, 1.0))
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def open_in_directory(file: str, flags: int, path: str, *, grown: list[str], make: bool = True) -> int:
    """Open ``file`` and make its directory only if that turns out to be missing.

    Args:
        file: What to open.
        flags: As for ``os.open``.
        path: The object's path, for messages.
        grown: Gets the directories in which a new directory was made.
        make: Whether to make directories at all; without them it is ``NotFoundError``.
    """
    for _ in range(_MAKE_ATTEMPTS):
        try:
            return os.open(file, flags, 0o666)
        except FileNotFoundError as error:
            if not make:
                raise translated(error, path) from error
        except NotADirectoryError as error:
            raise _through_a_file(file, path) from error
        except OSError as error:
            raise translated(error, path) from error
        try:
            _make_directory(file.rpartition("/")[0], grown)
        except FileNotFoundError:
            continue
        except (FileExistsError, NotADirectoryError) as error:
            raise _through_a_file(file, path) from error
        except OSError as error:
            raise translated(error, path) from error
    raise StoreError(f"cannot put {path!r}: its directory is removed as fast as it is made")


def translated(error: OSError, path: str) -> LodeError:
    """Return the library's error for one of the operating system's."""
    if isinstance(error, (FileNotFoundError, NotADirectoryError, IsADirectoryError)):
        return NotFoundError(f"no object {path!r}")
    if isinstance(error, PermissionError):
        return PermissionDeniedError(f"no permission for {path!r}: {error}")
    return StoreError(f"the file system failed on {path!r}: {error}")


def _make_directory(directory: str, grown: list[str]) -> None:
    try:
        os.mkdir(directory)
    except FileNotFoundError:
        parent = directory.rpartition("/")[0]
        if not parent:
            raise
        _make_directory(parent, grown)
        with suppress(FileExistsError):
            os.mkdir(directory)
    except FileExistsError:
        # Somebody else was quicker. If it is a file, opening below it says so.
        return
    grown.append(directory.rpartition("/")[0] or "/")


def _sync_directory(directory: str) -> None:
    try:
        _sync(directory, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        # Some network file systems cannot sync a directory, and need not.
        if error.errno != errno.EINVAL:
            raise


def _sync(file: str, flags: int) -> None:
    descriptor = os.open(file, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unsynced(path: str, error: OSError) -> OutcomeUnknownError:
    return OutcomeUnknownError(
        f"{path!r} was written, but a power cut may still undo it, as its directory "
        f"could not be synced: {error}"
    )


def _through_a_file(file: str, path: str) -> StoreError:
    root_length = len(file.rpartition("/")[0]) - len(path.rpartition("/")[0])
    parts = path.split("/")[:-1]
    for count in range(1, len(parts) + 1):
        ancestor = "/".join(parts[:count])
        if os.path.isfile(file[:root_length] + ancestor):
            return StoreError(
                f"cannot put {path!r}: {ancestor!r} is an object, "
                "and a file system cannot hold others below it"
            )
    return StoreError(f"cannot put {path!r}: a part of the way to the store's root is a file")
