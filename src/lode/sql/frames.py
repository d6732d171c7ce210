"""What a server and its processes for queries send each other: frames with a kind, a length and bytes.

Requests are pickles, since a table is whatever its store needs. Answers are JSON and Arrow only: a process
that runs queries cannot make the server run code.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import io

REQUEST, DONE, FAILED, SCHEMA, BATCH = b"R", b"D", b"F", b"S", b"B"
_HEAD: Final = struct.Struct("<cQ")


def write_frame(file: int, kind: bytes, content: bytes | memoryview) -> None:
    """Write one frame to a pipe."""
    for piece in (_HEAD.pack(kind, len(content)), content):
        left = memoryview(piece)
        while left:
            left = left[os.write(file, left) :]


def read_frame(file: io.RawIOBase) -> tuple[bytes, bytearray] | None:
    """Read one frame; None at the end of the pipe."""
    head = _read(file, _HEAD.size)
    if head is None:
        return None
    kind, size = _HEAD.unpack(head)
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
