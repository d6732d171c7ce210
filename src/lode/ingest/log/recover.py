"""What is good in a log that was left behind, and whether what is not is a crash's doing or damage.

What a crash leaves of the last append was never acknowledged, so it is cut off. Damage is refused: something
that had been acknowledged is gone, and going on would give its offsets to other rows.
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
    Head,
    Segment,
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


def recovered(
    directory: Path, acknowledged: Acknowledged | None = None, *, durable: bool
) -> tuple[Head, tuple[Segment, ...]]:
    """The segments of a log, the newest read and cut after its last good record; a head with its marks.

    A log that is shorter than what was acknowledged is damaged. It is left as it is.
    """
    found = segments_in(directory)
    head = read_head(found[-1][1]) if found else None
    if head is None and acknowledged is not None and (not found or found[-1][0] <= acknowledged.first):
        # A segment is not acknowledged before it has a head.
        first, path = found[-1] if found else (0, directory)
        raise acknowledged.damage(path, 0, first)
    if head is None and len(found) > 1:
        # It was to be the newest one, but without a head nothing was ever written to it.
        found.pop()[1].unlink()
        head = read_head(found[-1][1])
    if head is None:
        if found and found[0][0]:
            raise LogDamaged(found[0][1], 0, "it has no head, and the segments before it are gone")
        raise LogIncomplete(f"the log {directory} was never finished: remove the directory")

    end, path = found.pop()
    newest = Segment(path, end, 0)
    segments = [newest]
    for first, older in reversed(found):
        segments.append(Segment(older, first, check_sealed(older, head.salt, end), end))
        end = first
    marks = _marks_of(newest, head, acknowledged, durable=durable)
    if durable:
        # A process that died may have left names behind that are not on the disk yet.
        sync_directory(directory)
        sync_directory(directory.parent)
    return msgspec.structs.replace(head, marks=marks), tuple(reversed(segments))


def read_head(path: Path) -> Head | None:
    """The head of a segment; None if the file ends before it does, or is nothing but zeros."""
    with path.open("rb") as file:
        header = file.read(HEADER)
        record = open_header(header, 0, 0)
        if record is None:
            if len(header) < HEADER or _is_blank(path):
                return None
            raise LogDamaged(path, 0, "no segment begins like this")
        payload = file.read(record.length)
    if len(payload) < record.length:
        return None
    if not record.matches(payload):
        raise LogDamaged(path, 0, "its head does not match its checksum")
    head = msgspec.json.decode(payload, type=Head)
    if head.version != VERSION:
        raise LogDamaged(path, 0, f"it is of version {head.version} and this Lode knows version {VERSION}")
    return head


def check_sealed(path: Path, salt: int, end: int) -> int:
    """Make sure that an older segment reaches the row before ``end``, by its seal; returns its size."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        position = max(size - HEADER, 0)
        record = open_header(os.pread(file.fileno(), HEADER, position), position, salt)
    if record is None or record.kind is not Kind.SEAL:
        raise LogDamaged(path, size, "it ends there without a seal, though a newer segment follows")
    if record.first != end:
        raise LogDamaged(path, size, f"the segment of row {record.first} should follow, but is missing")
    return size


def recover(descriptor: int, segment: Segment, salt: int) -> Iterator[tuple[Record, bytes]]:
    """Grow the newest segment by each of its good records, given with its payload.

    A bad record is damage when one behind it was written after it had been synced. The very last append going
    bad after its sync looks like a crash here; only the length that was acknowledged tells it apart.
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
    newest: Segment, head: Head, acknowledged: Acknowledged | None, *, durable: bool
) -> dict[str, Any]:
    """Grow the newest segment to all its good records, cut off the rest, and return the latest marks."""
    marks = dict(head.marks)
    descriptor = os.open(newest.path, os.O_RDWR)
    try:
        for record, payload in recover(descriptor, newest, head.salt):
            if record.kind is Kind.MARK:
                marks.update(msgspec.json.decode(payload))
        if acknowledged is not None:
            acknowledged.check(newest, head.salt)
        if os.fstat(descriptor).st_size > newest.size:
            os.ftruncate(descriptor, newest.size)
        if durable:
            # Also when nothing was cut: if a process died between a write and its sync, a good record may
            # be in the kernel's cache only, and from now on it counts.
            sync_data(descriptor)
    finally:
        os.close(descriptor)
    return marks


def _refuse_damage(descriptor: int, path: Path, bad: int, size: int, salt: int) -> None:
    """Raise if a record behind a bad one was written when the bad one was known to be on the disk."""
    at = bad + ALIGNMENT
    while at < size:
        chunk = os.pread(descriptor, _CHUNK + HEADER, at)
        found = chunk.find(MAGIC)
        while found != -1 and found < _CHUNK:
            later = open_header(chunk[found : found + HEADER], at + found, salt)
            if later is not None and later.synced > bad:
                raise LogDamaged(
                    path, bad, f"the record there is bad, though good ones follow from byte {at + found} on"
                )
            found = chunk.find(MAGIC, found + 1)
        at += _CHUNK


def _is_blank(path: Path) -> bool:
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            if chunk.count(0) != len(chunk):
                return False
    return True
