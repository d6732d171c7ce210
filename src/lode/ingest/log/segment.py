"""A segment of a stream's log: one file of records, named by the offset of its first row.

A segment begins with a head and, unless it is the newest, ends with a seal. It gets its name only after its
head is on the disk, and a seal is written only after all before it, so a look at both ends tells whether an
older segment is whole.
"""

# Plain os calls: an append makes several of them and the objects around them would cost more.
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
_INDEX_STEP = 64 << 10
_MOST_PIECES = os.sysconf("SC_IOV_MAX")


class Head(msgspec.Struct, frozen=True):
    """What every segment begins with, so that the newest one is enough to know the log.

    Marks are carried along here, rather than kept in a file of their own: a mark is then a record like any
    other, one write and one sync, in order with the rows around it.
    """

    version: int
    salt: int
    facts: dict[str, Any]
    marks: dict[str, Any]


class Segment:
    """A segment that is known to be good up to ``size``, where the row ``end`` will be.

    Readers may look at it while the one appender extends it: ``grow`` moves ``end`` last.
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
        """Remember where a row is, if it is far from those remembered."""
        if position < self._positions[-1] + _INDEX_STEP:
            return
        with self._lock:
            if position >= self._positions[-1] + _INDEX_STEP:
                self._positions.append(position)
                self._offsets.append(offset)

    def place(self, offset: int) -> tuple[int, int]:
        """The offset and position of a record not far before ``offset``, or of the first."""
        at = max(bisect_right(self._offsets, offset) - 1, 0)
        return self._offsets[at], self._positions[at]

    def read(self, salt: int, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """The rows from ``start`` to ``stop``, of which at least one is here, a record at a time."""
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
                    del payload  # not while the next one is read
                self.note(offset, position)
                offset, position = record.end, position + record.size
        finally:
            os.close(descriptor)


def salt_at(position: int, salt: int) -> int:
    """The salt is written in the head, which therefore cannot be checked with it."""
    return salt if position else 0


def segments_in(directory: Path) -> list[tuple[int, Path]]:
    """The segments of a log by their first offsets, oldest first."""
    matches = (_NAME.fullmatch(name) for name in os.listdir(directory))
    return sorted((int(match[1]), directory / match[0]) for match in matches if match)


def make_segment(directory: Path, first: int, head: Head, *, durable: bool) -> Segment:
    """Begin a segment at this offset, in place of one that has no rows; it appears whole or not at all."""
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
    return Segment(path, first, record.size)


def write_all(descriptor: int, pieces: Sequence[Buffer], position: int) -> None:
    """Write the pieces one after the other; the kernel may take fewer at once."""
    left = [memoryview(piece).cast("B") for piece in pieces]
    while left:
        written = os.pwritev(descriptor, left[:_MOST_PIECES], position)
        position += written
        done = 0
        while done < len(left) and written >= left[done].nbytes:
            written -= left[done].nbytes
            done += 1
        del left[:done]
        if written:
            left[0] = left[0][written:]


def read_exactly(descriptor: int, length: int, position: int) -> bytes:
    """These bytes, or those there are if the file ends before."""
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
        # The parent in any case: a crash may have come between making the directory and syncing its name.
        for path in dict.fromkeys((directory.parent, *(path.parent for path in missing))):
            sync_directory(path)
