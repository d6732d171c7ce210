"""Recover a log after a restart: find its valid records, and distinguish a crash from damage.

The remains of an append that a crash interrupted were never acknowledged, so they are cut off. Damage is an
error: acknowledged rows are missing, and continuing would assign their offsets to other rows.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import msgspec

from lode.ingest.log.record import (
    ALIGNMENT,
    HEADER,
    MAGIC,
    Kind,
    LogDamaged,
    LogIncomplete,
    Record,
    open_header,
)
from lode.ingest.log.segment import (
    VERSION,
    LogSegment,
    SegmentHead,
    read_exactly,
    salt_at,
    segments_in,
    sync_data,
    sync_directory,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lode.ingest.log.acknowledged import Acknowledged

_CHUNK = 1 << 20


def recover_log(
    directory: Path, acknowledged: Acknowledged | None = None, *, durable: bool
) -> tuple[SegmentHead, tuple[LogSegment, ...]]:
    """Return the head of a log, with its latest marks, and its segments.

    The newest segment is read and cut after its last valid record. A log that is shorter than its
    acknowledged length is damaged. It is left as it is.
    """
    found = segments_in(directory)
    head = read_head(found[-1][1]) if found else None
    if head is None and acknowledged is not None and (not found or found[-1][0] <= acknowledged.first):
        # A segment is acknowledged only after its head is written.
        first, path = found[-1] if found else (0, directory)
        raise acknowledged.damage(path, 0, first)
    if head is None and len(found) > 1:
        # A new segment without a head: nothing else was written to it.
        found.pop()[1].unlink()
        head = read_head(found[-1][1])
    if head is None:
        if found and found[0][0]:
            raise LogDamaged(found[0][1], 0, "it has no head, and the segments before it are missing")
        raise LogIncomplete(f"the creation of the log {directory} did not finish: remove the directory")

    end, path = found.pop()
    newest = LogSegment(path, end, 0)
    segments = [newest]
    for first, older in reversed(found):
        segments.append(LogSegment(older, first, _check_sealed(older, head.salt, end), end))
        end = first
    marks = _marks_of(newest, head, acknowledged, durable=durable)
    if durable:
        # A process that died may have created or renamed files without syncing the directory.
        sync_directory(directory)
        sync_directory(directory.parent)
    return msgspec.structs.replace(head, marks=marks), tuple(reversed(segments))


def read_head(path: Path) -> SegmentHead | None:
    """The head of a segment; None if the file ends within it, or has only zeros."""
    with path.open("rb") as file:
        header = file.read(HEADER)
        record = open_header(header, 0, 0)
        if record is None:
            if len(header) < HEADER or _is_blank(path):
                return None
            raise LogDamaged(path, 0, "it does not begin with a segment's header")
        payload = file.read(record.length)
    if len(payload) < record.length:
        return None
    if not record.matches(payload):
        raise LogDamaged(path, 0, "its head does not match its checksum")
    head = msgspec.json.decode(payload, type=SegmentHead)
    if head.version != VERSION:
        raise LogDamaged(path, 0, f"it has version {head.version}, and this Lode reads version {VERSION}")
    return head


def _check_sealed(path: Path, salt: int, end: int) -> int:
    """Check by its seal that an older segment ends right before row ``end``; returns its size."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        position = max(size - HEADER, 0)
        record = open_header(os.pread(file.fileno(), HEADER, position), position, salt)
    if record is None or record.kind is not Kind.SEAL:
        raise LogDamaged(path, size, "it ends there without a seal, but a newer segment follows")
    if record.first != end:
        raise LogDamaged(path, size, f"the segment of row {record.first} should follow, but is missing")
    return size


def _valid_records(descriptor: int, segment: LogSegment, salt: int) -> Iterator[tuple[Record, bytes]]:
    """Grow the newest segment by each of its valid records, and yield these with their payloads.

    An invalid record is damage if a later one was written after it had been synced. Damage to the very last
    append looks like a crash here; only the acknowledged length reveals it.
    """
    size = os.fstat(descriptor).st_size
    position, offset = 0, segment.first
    while position < size:
        record = open_header(os.pread(descriptor, HEADER, position), position, salt_at(position, salt))
        payload = b"" if record is None else read_exactly(descriptor, record.length, position + HEADER)
        if record is None or record.first != offset or not record.matches(payload):
            _refuse_damage(descriptor, segment.path, position, size, salt)
            return
        segment.grow(record, position)
        yield record, payload
        position, offset = segment.size, segment.end


def _marks_of(
    newest: LogSegment, head: SegmentHead, acknowledged: Acknowledged | None, *, durable: bool
) -> dict[str, Any]:
    """Grow the newest segment by all valid records, cut off the rest, and return the latest marks."""
    marks = dict(head.marks)
    descriptor = os.open(newest.path, os.O_RDWR)
    try:
        for record, payload in _valid_records(descriptor, newest, head.salt):
            if record.kind is Kind.MARK:
                marks.update(msgspec.json.decode(payload))
        if acknowledged is not None:
            acknowledged.check(newest, head.salt)
        if os.fstat(descriptor).st_size > newest.size:
            os.ftruncate(descriptor, newest.size)
        if durable:
            # Also if nothing was cut: a process may have died between a write and its sync. Its valid
            # records are then only in the kernel's cache, and from now on they count.
            sync_data(descriptor)
    finally:
        os.close(descriptor)
    return marks


def _refuse_damage(descriptor: int, path: Path, bad: int, size: int, salt: int) -> None:
    """Raise if a record after an invalid one was written when the invalid one had been synced."""
    at = bad + ALIGNMENT
    while at < size:
        chunk = os.pread(descriptor, _CHUNK + HEADER, at)
        found = chunk.find(MAGIC)
        while found != -1 and found < _CHUNK:
            later = open_header(chunk[found : found + HEADER], at + found, salt)
            if later is not None and later.synced > bad:
                raise LogDamaged(
                    path, bad, f"the record there is invalid, but valid ones follow from byte {at + found} on"
                )
            found = chunk.find(MAGIC, found + 1)
        at += _CHUNK


def _is_blank(path: Path) -> bool:
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            if chunk.count(0) != len(chunk):
                return False
    return True
