"""What a server and its processes send each other: frames with a kind, a length and bytes."""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import io

CALL, DONE, FAILED, SCHEMA, BATCH = b"C", b"D", b"F", b"S", b"B"
# The largest frame that a server reads from a process. A batch with one row may have this size.
MAX_FRAME_BYTES: Final = 256 << 20
_HEAD: Final = struct.Struct("<cQ")


class FrameTooLargeError(ValueError):
    """A frame that is larger than its reader allows."""


def write_frame(file: int, kind: bytes, content: bytes | memoryview) -> None:
    """Write one frame to a pipe."""
    for piece in (_HEAD.pack(kind, len(content)), content):
        left = memoryview(piece)
        while left:
            left = left[os.write(file, left) :]


def read_frame(file: io.RawIOBase, most: int | None = None) -> tuple[bytes, bytearray] | None:
    """Read one frame; None at the end of the pipe.

    Raises:
        FrameTooLargeError: It has more than ``most`` bytes.
    """
    head = _read(file, _HEAD.size)
    if head is None:
        return None
    kind, size = _HEAD.unpack(head)
    if most is not None and size > most:
        raise FrameTooLargeError(f"a frame has {size:,} bytes, the most is {most:,}")
    content = _read(file, size)
    return None if content is None else (kind, content)


def _read(file: io.RawIOBase, size: int) -> bytearray | None:
    found = bytearray(size)
    left = memoryview(found)
    while left:
        count = file.readinto(left)
        if not count:
            return None
        left = left[count:]
    return found
