"""The acknowledged length of a log, in a small file outside the log.

The end of a log does not show whether records are missing: a truncated log looks like one whose last append
did not finish. So the acknowledged length is kept in another directory. It is written after the log's sync
and before the response, so it is never ahead of the disk.

The file is not synced. After a crash of the process it is exact. After a power failure it may be some seconds
old. An old length is a smaller one, which the log still satisfies: an append that was not acknowledged is cut
off without an error.
"""

# Plain os calls: an append makes several of them, and pathlib would cost more than the calls.
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

    from lode.ingest.log.segment import LogSegment

MAGIC = b"\xa7Ln\x9c"
# Magic, the log's salt, first offset and bytes of the newest segment, offset of the next row; a checksum.
_FIELDS = struct.Struct("<4s4xQQQQ")
_CHECK = struct.Struct("<Q")
SIZE = _FIELDS.size + _CHECK.size


class LogMissing(DataError):  # noqa: N818, a state of the log rather than of the call
    """The whole log of a stream is missing, although its acknowledged length is known."""

    def __init__(self, directory: Path, record: Path, rows: int) -> None:
        super().__init__(
            f"the log {directory} is missing, but {rows} rows of it were acknowledged; restore it from a "
            f"copy, or remove {record} to give up the stream"
        )


class Acknowledged(NamedTuple):
    """The length of a log at its last acknowledgement.

    Attributes:
        salt: Identifies the log, so that another log is not accepted in its place.
        first: The first offset of its newest segment.
        size: The bytes of that segment.
        end: The offset of the next row.
    """

    salt: int
    first: int
    size: int
    end: int

    def check(self, newest: LogSegment, salt: int) -> None:
        """Raise if the log with this newest segment is shorter."""
        if salt != self.salt:
            raise LogDamaged(newest.path, 0, "it belongs to another log than the acknowledged one")
        lost_bytes = newest.first == self.first and newest.size < self.size
        if lost_bytes or newest.first < self.first or newest.end < self.end:
            raise self.damage(newest.path, newest.size, newest.end)

    def damage(self, path: Path, size: int, rows: int) -> LogDamaged:
        """The error for a log that ends at this size, before this row."""
        return LogDamaged(
            path,
            size,
            f"it ends there, before row {rows}, but the log was acknowledged up to row {self.end}, "
            f"at byte {self.size} of the segment of row {self.first}",
        )


def read_acknowledged(path: Path) -> Acknowledged | None:
    """The length in this file; None if the file is missing or invalid."""
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
    """Write the length in place: a disk writes the first 48 bytes of a file atomically."""
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
