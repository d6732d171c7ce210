"""The memory of a process, as the kernel counts it."""

from __future__ import annotations

import re
from pathlib import Path

MEGABYTE = 1 << 20


def resident(pid: int) -> int:
    """Current bytes in memory."""
    return _status(pid, "VmRSS")


def highest(pid: int) -> int:
    """Maximum bytes in memory since it started."""
    return _status(pid, "VmHWM")


def _status(pid: int, name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) << 10
