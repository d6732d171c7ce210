"""Takes rights away from this process for good: memory, open files, and all writing of files.

On Linux the kernel's Landlock refuses to open a file for writing, to create, rename, truncate or remove one,
to run a program, and to send signals to other processes. Where there is no Landlock, a limit of zero bytes
for files is left: it stops all writing into files, but not their removal.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from typing import Final

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

OPEN_FILES: Final = 1024
_CREATE_RULESET, _RESTRICT_SELF = 444, 446
_SET_NO_NEW_PRIVILEGES: Final = 38
_VERSION: Final = 1
# Rights on files: all of the first version but reading files and directories, then those of later versions.
_FILES: Final = 0x1FFF & ~0b1100
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_TRUNCATE_VERSION: Final = 3
_TCP: Final = 0b11
_SIGNALS: Final = 0b10


def restrict(memory_bytes: int, *, network: bool) -> bool:
    """Take the rights away. It cannot be undone. Call it before the first thread is started.

    Args:
        memory_bytes: The memory of this process in all.
        network: Whether it may open connections.

    Returns:
        Whether the kernel refuses to change files. Otherwise it only refuses to write into them.
    """
    if resource is not None:
        _limit("RLIMIT_CORE", 0)
        _limit("RLIMIT_FSIZE", 0)
        _limit("RLIMIT_NOFILE", OPEN_FILES)
        # On Linux this counts what is allocated, and not address space that is only reserved.
        _limit("RLIMIT_DATA", memory_bytes)
    return sys.platform == "linux" and _use_landlock(network=network)


def limit_processor_time(seconds: float) -> None:
    """End this process when it has used so much processor time more, also if its server was killed."""
    if resource is not None:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        soft = int(usage.ru_utime + usage.ru_stime + seconds) + 1
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        if hard == resource.RLIM_INFINITY or soft <= hard:
            resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def _limit(name: str, value: int) -> None:
    which = getattr(resource, name, None)
    if which is None:
        return
    _, hard = resource.getrlimit(which)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (value, value))


def can_refuse_changes() -> bool:
    """Whether the kernel of this machine can refuse all changes of files."""
    return sys.platform == "linux" and _landlock_version() >= _TRUNCATE_VERSION


def _landlock_version() -> int:
    system = ctypes.CDLL(None, use_errno=True)
    found: int = system.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION))
    return found


def _use_landlock(*, network: bool) -> bool:
    system = ctypes.CDLL(None, use_errno=True)
    version = _landlock_version()
    if version < 1:
        return False
    files = _FILES | (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= _TRUNCATE_VERSION else 0)
    rights = [files]
    if version >= 4:
        rights.append(0 if network else _TCP)
    if version >= 6:
        rights.append(_SIGNALS)
    # No rule follows: what a ruleset handles and no rule allows is refused everywhere.
    described = struct.pack(f"={len(rights)}Q", *rights)
    rules = system.syscall(_CREATE_RULESET, described, ctypes.c_size_t(len(described)), ctypes.c_uint32(0))
    if rules < 0:
        return False
    try:
        system.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        done: bool = system.syscall(_RESTRICT_SELF, rules, ctypes.c_uint32(0)) == 0
    finally:
        os.close(rules)
    return done and version >= _TRUNCATE_VERSION
