"""Read a summary of a log without opening it, while a server may be writing to it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from lode.ingest.log.record import HEADER, Kind, open_header
from lode.ingest.log.recover import read_head
from lode.ingest.log.segment import read_exactly, salt_at, segments_in

if TYPE_CHECKING:
    from pathlib import Path

    from lode.ingest.log.segment import SegmentHead


@dataclass(frozen=True, slots=True)
class LogSummary:
    """A log at one moment: its facts, its latest marks, the offset of its next row, and its last write."""

    facts: dict[str, Any]
    marks: dict[str, Any]
    end: int
    written: datetime


def inspect_log(directory: Path) -> LogSummary | None:
    """Summarize a log; None if its creation did not finish, or if it was just removed."""
    try:
        for first, path in reversed(segments_in(directory)):
            head = read_head(path)
            if head is not None:
                return _walk(path, first, head)
    except FileNotFoundError:
        return None
    return None


def _walk(path: Path, first: int, head: SegmentHead) -> LogSummary:
    """Read the headers, and the payloads of marks. An incomplete record was never acknowledged."""
    marks, end, position = dict(head.marks), first, 0
    with path.open("rb") as file:
        found = os.fstat(file.fileno())
        while position < found.st_size:
            header = os.pread(file.fileno(), HEADER, position)
            record = open_header(header, position, salt_at(position, head.salt))
            if record is None or record.first != end or position + record.size > found.st_size:
                break
            if record.kind is Kind.MARK:
                payload = read_exactly(file.fileno(), record.length, position + HEADER)
                marks.update(msgspec.json.decode(payload))
            position, end = position + record.size, record.end
    return LogSummary(head.facts, marks, end, datetime.fromtimestamp(found.st_mtime, UTC))
