"""What the command line decides for every part; what a part is, says ``benchmarks.table``."""

from __future__ import annotations

import fcntl
import os
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

# How Linux reads and sets the attributes of a file, and the one of a folder whose folders are far apart.
_GET_FLAGS: Final = 0x80086601
_SET_FLAGS: Final = 0x40086602
_TOP_DIRECTORY: Final = 0x00020000
_FLAGS: Final = Struct("@l")


@dataclass(frozen=True, slots=True)
class Options:
    """How large and where; ``only`` names the contenders to run, all if empty."""

    quick: bool = True
    only: tuple[str, ...] = ()
    directory: str | None = None

    @property
    def size(self) -> str:
        return "quick" if self.quick else "full"

    @property
    def rounds(self) -> int:
        """How often every contender is measured, in turn."""
        return 1 if self.quick else 3

    def wants(self, name: str) -> bool:
        return not self.only or any(part in name for part in self.only)

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A directory that is gone afterwards, far from those before."""
        with tempfile.TemporaryDirectory(
            prefix="lode-bench-", dir=self.directory, ignore_cleanup_errors=True
        ) as home:
            yield folder_apart(Path(home))


def folder_apart(home: Path) -> Path:
    """A new folder, on ext4 in another block group than the other ones of its home.

    Without a journal, ext4 does not use the inode of a removed file again for some minutes, and looks at all
    such inodes of a group for every new file. So what one contender removes would slow down the next: to
    make a folder with a file took 0.04 ms at first, and 1.4 ms after 20,000 of them had been removed. The
    group depends on the name of the folder.
    """
    opened = os.open(home, os.O_RDONLY)
    try:
        with suppress(OSError):  # another file system
            (flags,) = _FLAGS.unpack(fcntl.ioctl(opened, _GET_FLAGS, _FLAGS.pack(0)))
            fcntl.ioctl(opened, _SET_FLAGS, _FLAGS.pack(flags | _TOP_DIRECTORY))
    finally:
        os.close(opened)
    return Path(tempfile.mkdtemp(dir=home))
