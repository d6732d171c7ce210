"""The call ``openat2`` of Linux, which opens a file and refuses symbolic links anywhere in its path."""

from __future__ import annotations

import errno
import os
import struct
import sys
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_OPENAT2 = 437  # on every architecture but Alpha
_AT_FDCWD = -100
_RESOLVE_NO_SYMLINKS = 0x04


@cache
def openat2() -> Callable[[str, int, int], int] | None:
    """The kernel's call that follows no links, as a function of file, flags and the directory it is in.

    None if there is none.
    """
    if sys.platform != "linux":
        return None
    # Imported here: ctypes takes longer to load than all modules of the package.
    import ctypes

    arguments = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t)
    # The function of the process itself. Another CDLL for it would take twice as long to make.
    call = ctypes.CFUNCTYPE(ctypes.c_long, *arguments, use_errno=True)(("syscall", ctypes.pythonapi))
    get_errno = ctypes.get_errno
    # As os.fsencode, without its checks.
    encoding = (sys.getfilesystemencoding(), sys.getfilesystemencodeerrors())

    # The structure open_how by the flags: three 64-bit numbers.
    hows: dict[int, bytes] = {}

    def open_(file: str, flags: int, directory: int) -> int:
        how = hows.get(flags)
        if how is None:
            mode = 0o666 if flags & os.O_CREAT else 0
            how = hows[flags] = struct.pack("=QQQ", flags, mode, _RESOLVE_NO_SYMLINKS)
        name = file.encode(*encoding)
        while True:
            descriptor: int = call(_OPENAT2, directory, name, how, 24)
            if descriptor >= 0:
                return descriptor
            number = get_errno()
            if number != errno.EINTR:
                raise OSError(number, os.strerror(number), file)

    try:
        os.close(open_("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, _AT_FDCWD))
    except OSError as error:
        # An older kernel, or a sandbox without the call. Other errors are raised and not cached.
        if error.errno not in (errno.ENOSYS, errno.EPERM, errno.EACCES, errno.EINVAL, errno.E2BIG):
            raise
        return None
    return open_
