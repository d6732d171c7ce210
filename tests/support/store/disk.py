"""A disk as bad as POSIX allows: after a power cut it has what was synced, and nothing else."""

from __future__ import annotations

import os
import shutil
import stat
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

# The calls at which a process may stop for ever, seen from another process.
LINK = os.link
STEPS = ("mkdir", "link", "replace", "fsync")


class Stopped(BaseException):
    """The process got no further. Not an Exception: nothing may handle it."""


class _RunsAtJoin:
    """A thread whose work is done when it is waited for."""

    def __init__(self, target: Callable[[], None], name: str) -> None:
        self._target = target

    def start(self) -> None:
        pass

    def join(self) -> None:
        self._target()


class Disk:
    """Notes every fsync.

    A file survives with the content it had when it was last synced, under the names that its directories
    had when they were last synced, if the directories themselves survive.

    ``eager``: the kernel syncs all there is by itself whenever a file gets its first name. What it has not
    got to yet is a name that moved from one file to another since.
    """

    def __init__(self, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._base = base
        self._files: dict[int, bytes] = {}
        self._directories: dict[int, dict[str, tuple[int, bool]]] = {}
        # Held open, so that no other file gets the number of one that was removed.
        self._held: list[int] = []
        self._steps_left: int | None = None
        self.eager = False
        for name in STEPS:
            # Nothing is synced in truth, which saves most of the time.
            call = self._synced if name == "fsync" else getattr(os, name)
            monkeypatch.setattr(os, name, self._step(call))
        # A process has one order of its steps here, so that it can stop before each of them.
        monkeypatch.setattr("lode.store.local_tree.threading", SimpleNamespace(Thread=_RunsAtJoin))
        self.format()

    def format(self) -> None:
        """Begin with an empty disk."""
        self.close()
        self._files.clear()
        self._directories.clear()
        for entry in self._base.iterdir():
            shutil.rmtree(entry)
        self._note(os.open(self._base, os.O_RDONLY))

    def run(self, process: Callable[[], object], steps: int) -> bool:
        """Run something that stops before its step number ``steps``; True if it came to its end."""
        self._steps_left = steps
        try:
            process()
        except Stopped:
            return False
        finally:
            self._steps_left = None
        return True

    def after_power_cut(self, to: Path) -> Path:
        """Write what survives into a new directory and return it."""
        self._restore(self._base.stat().st_ino, to)
        return to

    def close(self) -> None:
        for descriptor in self._held:
            os.close(descriptor)
        self._held.clear()

    def _step(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **options: Any) -> Any:
            if self._steps_left is not None:
                if self._steps_left == 0:
                    raise Stopped
                self._steps_left -= 1
            result = call(*arguments, **options)
            if self.eager and call is LINK:
                self._write_back()
            return result

        return step

    def _write_back(self) -> None:
        for directory, _, files in os.walk(self._base):
            for name in (".", *files):
                self._note(os.open(f"{directory}/{name}", os.O_RDONLY))

    def _synced(self, descriptor: int) -> None:
        self._note(os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY))

    def _note(self, descriptor: int) -> None:
        self._held.append(descriptor)
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            with os.scandir(descriptor) as entries:
                self._directories[status.st_ino] = {
                    entry.name: (entry.inode(), entry.is_dir(follow_symlinks=False)) for entry in entries
                }
        else:
            self._files[status.st_ino] = os.pread(descriptor, status.st_size, 0)

    def _restore(self, inode: int, to: Path) -> None:
        to.mkdir()
        for name, (number, is_directory) in self._directories.get(inode, {}).items():
            # A directory that was never synced is empty, and so is a file.
            if is_directory:
                self._restore(number, to / name)
            else:
                (to / name).write_bytes(self._files.get(number, b""))
