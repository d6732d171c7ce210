"""How far a log was acknowledged, in a small file apart from the log.

The end of a log cannot tell whether something is missing behind it: a log that was cut looks like one whose
last append did not finish. So the length that was acknowledged is kept in another directory. It is written
after the log's sync and before the answer, so it is never ahead of what is on the disk.

It is not synced. After a crash of the process it is exact. After a power cut it may be some seconds old, and
an old length is a smaller one, which the log still satisfies: an append that was not acknowledged is cut off
without an error.
"""

# Plain os calls: an append makes several of them and the objects around them would cost more.
# ruff: noqa: PTH108

from __future__ import annotations

import os
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import xxhash

from lode.errors import DataError
from lode.ingest.log.record import LogDamaged

if TYPE_CHECKING:
    from pathlib import Path

    from lode.ingest.log.segment import Segment

MAGIC = b"\xa7Ln\x9c"
# Magic, the log's salt, the newest segment's first offset and bytes, the offset of the next row; a checksum.
_FIELDS = struct.Struct("<4s4xQQQQ")
_CHECK = struct.Struct("<Q")
SIZE = _FIELDS.size + _CHECK.size


class LogMissing(DataError):  # noqa: N818, a state of the log rather than of the call
    """The whole log of a stream is gone, though its length is known."""

    def __init__(self, directory: Path, record: Path, rows: int) -> None:
        super().__init__(
            f"the log {directory} is missing, though {rows} rows of it were acknowledged; restore it from a "
            f"copy, or remove {record} to give up the stream"
        )


class Acknowledged(NamedTuple):
    """The length of a log at its last acknowledgement.

    Attributes:
        salt: Of the log: another log does not take its place.
        first: The first offset of its newest segment.
        size: The bytes of that segment.
        end: The offset of the next row.
    """

    salt: int
    first: int
    size: int
    end: int

    def check(self, newest: Segment, salt: int) -> None:
        """Refuse a log that is shorter, given its newest segment."""
        if salt != self.salt:
            raise LogDamaged(newest.path, 0, "it belongs to another log than the one that was acknowledged")
        lost_bytes = newest.first == self.first and newest.size < self.size
        if lost_bytes or newest.first < self.first or newest.end < self.end:
            raise self.damage(newest.path, newest.size, newest.end)

    def damage(self, path: Path, size: int, rows: int) -> LogDamaged:
        """The error of a log that ends at this size, before this row."""
        return LogDamaged(
            path,
            size,
            f"it ends there, before row {rows}, but the log was acknowledged up to row {self.end}, "
            f"at byte {self.size} of the segment of row {self.first}",
        )


def read_acknowledged(path: Path) -> Acknowledged | None:
    """The length in this file; None if there is none, or none that can be read."""
    content = b""
    with suppress(FileNotFoundError):
        content = path.read_bytes()
    fields = content[: _FIELDS.size]
    if len(content) != SIZE or not fields.startswith(MAGIC):
        return None
    if _CHECK.pack(xxhash.xxh3_64_intdigest(fields)) != content[_FIELDS.size :]:
        return None
    return Acknowledged(*_FIELDS.unpack(fields)[1:])


def write_acknowledged(path: Path, length: Acknowledged, *, sync: bool = False) -> None:
    """Write the length in place: 48 bytes at the start of a file, which a disk writes whole or not at all."""
    fields = _FIELDS.pack(MAGIC, *length)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        os.pwrite(descriptor, fields + _CHECK.pack(xxhash.xxh3_64_intdigest(fields)), 0)
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_acknowledged(path: Path) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)
