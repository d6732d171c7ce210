"""The memory of a process and of all that it has started, as Linux counts it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_PAGE = os.sysconf("SC_PAGE_SIZE")


class Memory(NamedTuple):
    """Resident bytes.

    Attributes:
        own: Of the process itself.
        children: Of all processes below it, together.
        largest: Of the largest process below it.
        processes: The number of processes below it.
    """

    own: int
    children: int
    largest: int
    processes: int


def parents() -> dict[int, int]:
    """The parent of every process."""
    found = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                # The name of the program is in brackets and may have any character.
                stat = Path(entry.path, "stat").read_text("utf-8", "replace")
                state, parent = stat.rpartition(")")[2].split()[:2]
                if state != "Z":
                    found[int(entry.name)] = int(parent)
    return found


def below(root: int) -> list[int]:
    """All processes that a process has started, and those that they have started."""
    known = parents()
    found: list[int] = []
    waiting = [root]
    while waiting:
        parent = waiting.pop()
        more = [pid for pid, each in known.items() if each == parent]
        found += more
        waiting += more
    return found


def resident(pid: int) -> int:
    """The resident bytes of a process, 0 if it has ended."""
    with suppress(OSError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1]) * _PAGE
    return 0


def measure(pid: int) -> Memory:
    """The memory of a process and of those below it."""
    sizes = [resident(each) for each in below(pid)]
    return Memory(resident(pid), sum(sizes), max(sizes, default=0), len(sizes))


def forget_peak(pid: int) -> None:
    """Let the peak of a process begin at its present size."""
    with suppress(OSError):
        Path(f"/proc/{pid}/clear_refs").write_text("5", "ascii")


def peak(pid: int) -> int:
    """The most resident bytes that a process had since ``forget_peak``, 0 if it has ended."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text("utf-8", "replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
    return 0
