"""The durable log of one write stream: its rows, in order, on the local disk before they are acknowledged.

A log is a directory of segments (``segment.py``), each a file of records (``record.py``). Rows are
appended to the newest segment. When it is full, it is sealed and another one is created. Rows that are no
longer needed are deleted by whole segments. ``recover.py`` reads a log after a crash.
"""

# Plain os calls: an append makes several of them, and pathlib would cost more than the calls.
# ruff: noqa: PTH108, PTH208

from __future__ import annotations

import os
import secrets
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

import msgspec

from lode.errors import UsageError
from lode.ingest.log.acknowledged import (
    Acknowledged,
    read_acknowledged,
    remove_acknowledged,
    write_acknowledged,
)
from lode.ingest.log.record import (
    Kind,
    LogUnusable,
    Record,
    RowsEncoder,
    json_payload,
    record_of,
    seal_header,
)
from lode.ingest.log.recover import recover_log
from lode.ingest.log.segment import (
    VERSION,
    LogSegment,
    SegmentHead,
    make_directories,
    make_segment,
    segments_in,
    sync_data,
    write_all,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa
    from typing_extensions import Buffer

SEGMENT_BYTES = 64 << 20


class StreamLog:
    """Rows by offset, and marks: small facts, of which the latest of each kind is valid.

    Use ``create`` or ``open``. One thread appends at a time (others wait), and any number read meanwhile.
    A file is open only from an append to the next ``close``, so idle logs need no file descriptor.
    """

    def __init__(
        self,
        directory: Path,
        head: SegmentHead,
        segments: tuple[LogSegment, ...],
        *,
        acknowledged: Path | None,
        durable: bool,
        segment_bytes: int,
    ) -> None:
        self.directory = directory
        self.facts = head.facts
        self.marks = head.marks
        self._salt = head.salt
        # Replaced, never mutated: a reader keeps the segments it began with.
        self._segments = segments
        self._acknowledged = acknowledged
        self._durable = durable
        self._segment_bytes = segment_bytes
        self._encoder = RowsEncoder()
        self._lock = threading.Lock()
        self._descriptor: int | None = None
        self._has_leftovers = False
        self._removed = False
        self._acknowledge()

    @classmethod
    def create(
        cls,
        directory: Path,
        facts: dict[str, Any],
        *,
        acknowledged: Path | None = None,
        durable: bool = True,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> Self:
        """Create a log in a directory that has none yet.

        Args:
            directory: Where; its parents are created too.
            facts: Any JSON object; it never changes.
            acknowledged: The file for the acknowledged length, in another directory. Without it, a log that
                is truncated looks like one whose last append did not finish.
            durable: Whether every change is synced to the disk before the call returns.
            segment_bytes: The size at which a segment is full.
        """
        make_directories(directory, durable=durable)
        if segments_in(directory):
            raise UsageError(f"there is a log in {directory} already: open it, or remove it first")
        facts = msgspec.json.decode(json_payload(facts), type=dict[str, Any])
        # All salts have the same number of digits, so logs with the same facts have heads of the same size.
        head = SegmentHead(VERSION, secrets.randbits(62) + (1 << 62), facts, {})
        segment = make_segment(directory, 0, head, durable=durable)
        return cls(
            directory,
            head,
            (segment,),
            acknowledged=acknowledged,
            durable=durable,
            segment_bytes=segment_bytes,
        )

    @classmethod
    def open(
        cls,
        directory: Path,
        *,
        acknowledged: Path | None = None,
        durable: bool = True,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> Self:
        """Open an existing log, and cut off the remains of an append that did not finish.

        Only the newest segment is read. Of older ones the ends are checked now, the rows when they are read.

        Raises:
            LogIncomplete: Its creation did not finish; remove the directory.
            LogDamaged: Stored records are missing or changed; names the file and the position.
        """
        length = None if acknowledged is None else read_acknowledged(acknowledged)
        head, segments = recover_log(directory, length, durable=durable)
        return cls(
            directory,
            head,
            segments,
            acknowledged=acknowledged,
            durable=durable,
            segment_bytes=segment_bytes,
        )

    @property
    def start(self) -> int:
        """The offset of the first row that was not trimmed."""
        return self._segments[0].first

    @property
    def end(self) -> int:
        """The offset of the next row."""
        return self._segments[-1].end

    @property
    def bytes(self) -> int:
        """Bytes on the disk."""
        return sum(segment.size for segment in self._segments)

    # -- writing -------------------------------------------------------------------------------

    def append(self, batches: Sequence[pa.RecordBatch]) -> int:
        """Store rows with one write and one sync; returns the offset of the first.

        After an error none of them is stored.
        """
        with self._lock:
            batches = [batch for batch in batches if batch.num_rows]
            if batches:
                self._make_room()
            start = offset = self.end
            records = []
            for batch in batches:
                records.append((Kind.ROWS, self._encoder.payload(batch), offset, batch.num_rows))
                offset += batch.num_rows
            self._write(records)
            return start

    def mark(self, kind: str, value: Any) -> None:
        """Store a fact, any JSON value, which replaces the previous one of its kind."""
        payload = json_payload({kind: value})
        with self._lock:
            self._make_room()
            self._write([(Kind.MARK, [payload], self.end, 0)])
            self.marks = {**self.marks, **msgspec.json.decode(payload, type=dict[str, Any])}

    def trim(self, upto: int, *, to_nothing: bool = False) -> None:
        """Delete the segments that have only rows below ``upto``.

        If no row remains, the newest segment is replaced too if it is large, or with ``to_nothing``.

        Not synced. A power failure may restore a deleted segment, which does no harm. File systems keep the
        order of deletions, so a restored segment is followed by all later ones.
        """
        with self._lock:
            self._check_there()
            if upto > self.end:
                raise UsageError(f"cannot trim {self.directory} up to {upto}: it ends at {self.end}")
            self._drop_below(upto)
            newest = self._segments[-1]
            worth_it = to_nothing or newest.size >= self._segment_bytes // 16
            if upto == self.end > newest.first and worth_it:
                # No row is needed any more: a new segment is worth its syncs. It may fail on a full disk;
                # deleting the older segments was enough then.
                with suppress(OSError):
                    self._roll()
                    self._drop_below(upto)

    def remove(self) -> None:
        """Delete the log. Idempotent.

        Oldest segment first: an interruption leaves a trimmed log with all its marks. The acknowledged length
        is deleted before the log: without a log it would indicate damage.
        """
        with self._lock:
            self._close()
            self._removed = True
            if self._acknowledged is not None:
                remove_acknowledged(self._acknowledged)
            if not self.directory.exists():
                return
            for _, path in segments_in(self.directory):
                os.unlink(path)
            for name in os.listdir(self.directory):
                os.unlink(self.directory / name)
            self.directory.rmdir()

    def close(self) -> None:
        """Close the open file. The next append opens it again."""
        with self._lock:
            self._close()

    # -- reading -------------------------------------------------------------------------------

    def read(self, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows from ``start`` up to but not including ``stop``, one record at a time."""
        segments = self._segments
        if not segments[0].first <= start <= stop <= segments[-1].end:
            raise UsageError(
                f"the log {self.directory} has rows {segments[0].first} to {segments[-1].end - 1}, "
                f"not {start} to {stop - 1}"
            )
        return self._read(segments, start, stop)

    def _read(self, segments: tuple[LogSegment, ...], start: int, stop: int) -> Iterator[pa.RecordBatch]:
        for segment in segments:
            if segment.first < stop and start < segment.end:
                yield from segment.read(self._salt, start, min(stop, segment.end))

    # -- internals -----------------------------------------------------------------------------

    def _write(self, parts: list[tuple[Kind, list[Buffer], int, int]]) -> None:
        """Write records (kind, payload, first offset, rows) at the end and sync them, all or none."""
        newest = self._segments[-1]
        position = newest.size
        # Without syncs, no position is known to be on the disk.
        synced = position if self._durable else 0
        buffers: list[Buffer] = []
        written: list[tuple[Record, int]] = []
        for kind, payload, first, rows in parts:
            record = record_of(kind, payload, first, rows, synced)
            buffers += (seal_header(record, position, self._salt), *payload)
            written.append((record, position))
            position += record.size
        if not buffers:
            return
        descriptor = self._open()
        self._has_leftovers = True
        try:
            write_all(descriptor, buffers, newest.size)
            if self._durable:
                sync_data(descriptor)
            self._acknowledge(position, written[-1][0].end)
        except OSError:
            # Now, to free the space. If it fails, the next append tries again and raises.
            with suppress(OSError):
                self._cut_leftovers(descriptor)
            self._close()
            raise
        for record, place in written:
            newest.grow(record, place)
        self._has_leftovers = False

    def _open(self) -> int:
        """The open file of the newest segment, without leftovers of a failed write."""
        self._check_there()
        if self._descriptor is None:
            self._descriptor = os.open(self._segments[-1].path, os.O_RDWR)
        if self._has_leftovers:
            try:
                self._cut_leftovers(self._descriptor)
            except OSError as error:
                self._close()
                raise LogUnusable(
                    f"the log {self.directory} accepts no rows now: a failed write cannot be undone ({error})"
                ) from error
        return self._descriptor

    def _cut_leftovers(self, descriptor: int) -> None:
        """Cut off the bytes of a failed write: a later, shorter one must not be followed by their rest."""
        os.ftruncate(descriptor, self._segments[-1].size)
        if self._durable:
            sync_data(descriptor)
        self._has_leftovers = False

    def _make_room(self) -> None:
        newest = self._segments[-1]
        if newest.sealed or newest.size >= self._segment_bytes:
            self._roll()

    def _roll(self) -> None:
        """Create the next segment. It replaces the newest one if that has no rows, only marks."""
        newest = self._segments[-1]
        has_rows = newest.end > newest.first
        if has_rows and not newest.sealed:
            self._write([(Kind.SEAL, [], newest.end, 0)])
        if not has_rows:
            # The replacement may be smaller, so the acknowledged length must reach the disk before it does.
            self._acknowledge(0, newest.end, sync=self._durable)
        head = SegmentHead(VERSION, self._salt, self.facts, self.marks)
        segment = make_segment(self.directory, newest.end, head, durable=self._durable)
        self._close()
        self._segments = (*self._segments, segment) if has_rows else (*self._segments[:-1], segment)
        self._acknowledge()

    def _acknowledge(self, size: int | None = None, end: int | None = None, *, sync: bool = False) -> None:
        """Write the acknowledged length."""
        if self._acknowledged is None:
            return
        newest = self._segments[-1]
        length = Acknowledged(
            self._salt,
            newest.first,
            newest.size if size is None else size,
            newest.end if end is None else end,
        )
        write_acknowledged(self._acknowledged, length, sync=sync)

    def _drop_below(self, upto: int) -> None:
        while len(self._segments) > 1 and self._segments[0].end <= upto:
            oldest, *rest = self._segments
            self._segments = tuple(rest)
            os.unlink(oldest.path)

    def _check_there(self) -> None:
        if self._removed:
            raise LogUnusable(f"the log {self.directory} was removed")

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def __del__(self) -> None:
        # Absent if the constructor failed.
        if getattr(self, "_descriptor", None) is not None:
            self._close()

    def __repr__(self) -> str:
        return f"StreamLog({str(self.directory)!r}, rows {self.start} to {self.end - 1})"
