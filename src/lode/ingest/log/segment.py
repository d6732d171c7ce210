"""A segment of a stream's log: one file of records, named by the offset of its first row.

A segment begins with a head and, unless it is the newest, ends with a seal. It gets its name only after its
head is on the disk, and its seal is written only after all other records. So checking both ends is enough to
know that an older segment is complete.
"""

# Plain os calls: an append makes several of them, and pathlib would cost more than the calls.
# ruff: noqa: PTH105, PTH208

from __future__ import annotations

import os
import re
import threading
from array import array
from bisect import bisect_right
from typing import TYPE_CHECKING, Any

import msgspec

from lode.errors import UsageError
from lode.ingest.log.record import (
    HEADER,
    Kind,
    LogDamaged,
    Record,
    decode_rows,
    json_payload,
    open_header,
    record_of,
    seal_header,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa
    from typing_extensions import Buffer

VERSION = 1
_NAME = re.compile(r"(\d{20})\.log")
_NEW = "new.tmp"
_INDEX_STEP_BYTES = 64 << 10
_MAX_BUFFERS = os.sysconf("SC_IOV_MAX")


class SegmentHead(msgspec.Struct, frozen=True):
    """The first record of every segment, so that the newest segment describes the whole log.

    It repeats the marks. A separate file for them would need another sync; this way a mark is a record like
    any other, with one write and one sync, in order with the rows around it.
    """

    version: int
    salt: int
    facts: dict[str, Any]
    marks: dict[str, Any]


class LogSegment:
    """A segment that is valid up to ``size`` bytes; ``end`` is the offset of its next row.

    Readers may use it while the only appender extends it: ``grow`` changes ``end`` last.
    """

    def __init__(self, path: Path, first: int, size: int, end: int | None = None) -> None:
        self.path = path
        self.first = first
        self.end = first if end is None else end
        self.size = size
        self.sealed = False
        self._lock = threading.Lock()
        self._offsets = array("Q", [first])
        self._positions = array("Q", [0])

    def grow(self, record: Record, position: int) -> None:
        self.note(record.first, position)
        self.size = position + record.size
        self.sealed = record.kind is Kind.SEAL
        self.end = record.end

    def note(self, offset: int, position: int) -> None:
        """Add the position of a row to the index, if it is far enough from the last entry."""
        if position < self._positions[-1] + _INDEX_STEP_BYTES:
            return
        with self._lock:
            if position >= self._positions[-1] + _INDEX_STEP_BYTES:
                self._positions.append(position)
                self._offsets.append(offset)

    def place(self, offset: int) -> tuple[int, int]:
        """The offset and position of an indexed record at or before ``offset``."""
        at = max(bisect_right(self._offsets, offset) - 1, 0)
        return self._offsets[at], self._positions[at]

    def read(self, salt: int, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows from ``start`` to ``stop``, one record at a time. At least one must be here."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY)
        except FileNotFoundError as error:
            raise UsageError(f"rows from {start} on were trimmed from the log {self.path.parent}") from error
        try:
            offset, position = self.place(start)
            while offset < stop:
                record = open_header(
                    os.pread(descriptor, HEADER, position), position, salt_at(position, salt)
                )
                if record is None or record.first != offset:
                    raise LogDamaged(self.path, position, f"no record of row {offset} begins there")
                if record.end > start and record.rows:
                    payload = read_exactly(descriptor, record.length, position + HEADER)
                    if not record.matches(payload):
                        raise LogDamaged(
                            self.path,
                            position,
                            f"rows {offset} to {record.end - 1} do not match their checksum",
                        )
                    yield decode_rows(payload).slice(max(start - offset, 0), stop - max(start, offset))
                    del payload  # free it before the next one is read
                self.note(offset, position)
                offset, position = record.end, position + record.size
        finally:
            os.close(descriptor)


def salt_at(position: int, salt: int) -> int:
    """The salt of the record at this position: none for the head, which contains the salt."""
    return salt if position else 0


def segments_in(directory: Path) -> list[tuple[int, Path]]:
    """The segments of a log by their first offsets, oldest first."""
    matches = (_NAME.fullmatch(name) for name in os.listdir(directory))
    return sorted((int(match[1]), directory / match[0]) for match in matches if match)


def make_segment(directory: Path, first: int, head: SegmentHead, *, durable: bool) -> LogSegment:
    """Create a segment at this offset atomically, replacing one that has no rows."""
    payload = json_payload(head)
    record = record_of(Kind.HEAD, [payload], first, 0, 0)
    temporary = directory / _NEW
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        write_all(descriptor, [seal_header(record, 0, 0), payload], 0)
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    path = directory / f"{first:020}.log"
    os.replace(temporary, path)
    if durable:
        sync_directory(directory)
    return LogSegment(path, first, record.size)


def write_all(descriptor: int, buffers: Sequence[Buffer], position: int) -> None:
    """Write buffers one after the other. The kernel may accept fewer bytes at once."""
    left = [memoryview(buffer).cast("B") for buffer in buffers]
    while left:
        written = os.pwritev(descriptor, left[:_MAX_BUFFERS], position)
        position += written
        done = 0
        while done < len(left) and written >= left[done].nbytes:
            written -= left[done].nbytes
            done += 1
        del left[:done]
        if written:
            left[0] = left[0][written:]


def read_exactly(descriptor: int, length: int, position: int) -> bytes:
    """Read these bytes, or fewer if the file ends before."""
    data = os.pread(descriptor, length, position)
    while len(data) < length:
        more = os.pread(descriptor, length - len(data), position + len(data))
        if not more:
            break
        data += more
    return data


def sync_data(descriptor: int) -> None:
    getattr(os, "fdatasync", os.fsync)(descriptor)


def sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directories(directory: Path, *, durable: bool) -> None:
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
    if durable:
        # Always the parent too: an earlier process may have created the directory without syncing it.
        for path in dict.fromkeys((directory.parent, *(path.parent for path in missing))):
            sync_directory(path)
