"""The durable log of one write stream: its rows, in order, on the local disk before they are acknowledged.

A log is a directory of segments (``segment.py``), each a file of records (``record.py``). Rows are
appended to the newest; when it is full, it is sealed and another begun. What is no longer needed goes
by whole segments. ``recover.py`` finds out what a crash has left.
"""

# Plain os calls: an append makes several of them and the objects around them would cost more.
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
    LogDamaged,
    LogIncomplete,
    LogUnusable,
    Record,
    RowsEncoder,
    json_payload,
    record_of,
    seal_header,
)
from lode.ingest.log.recover import recovered
from lode.ingest.log.segment import (
    VERSION,
    Head,
    Segment,
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

__all__ = ["LogDamaged", "LogIncomplete", "LogUnusable", "StreamLog"]

SEGMENT_BYTES = 64 << 20


class StreamLog:
    """Rows by offset, and marks: small facts, of which the latest of each kind counts.

    Made by ``create`` or ``open``. One thread appends at a time (others wait); any number read meanwhile.
    A file is held open only from an append to the next ``close``, so thousands of idle logs cost none.
    """

    def __init__(
        self,
        directory: Path,
        head: Head,
        segments: tuple[Segment, ...],
        *,
        acknowledged: Path | None,
        durable: bool,
        segment_bytes: int,
    ) -> None:
        self.directory = directory
        self.facts = head.facts
        self.marks = head.marks
        self._salt = head.salt
        # Replaced, never changed: a reader goes on with those it began with.
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
        """Begin a log in a directory that has none yet.

        Args:
            directory: Where; directories above it are made too.
            facts: Any JSON object; it never changes.
            acknowledged: The file of the length that was acknowledged, in another directory. Without it, a
                log that is cut at its end is taken for one whose last append did not finish.
            durable: Whether every change is on the disk itself, not only in the kernel's cache, before the
                call that made it returns.
            segment_bytes: The size at which a segment is full.
        """
        make_directories(directory, durable=durable)
        if segments_in(directory):
            raise UsageError(f"there is a log in {directory} already: open it, or remove it first")
        facts = msgspec.json.decode(json_payload(facts), type=dict[str, Any])
        # All salts have as many digits, so that logs of the same facts begin equally long.
        head = Head(VERSION, secrets.randbits(62) + (1 << 62), facts, {})
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
        """Take up a log where it was left, without what a crash left of an append that did not finish.

        Only the newest segment is read; of the older ones, the ends are checked, and their rows when read.

        Raises:
            LogIncomplete: Its ``create`` did not finish; remove the directory.
            LogDamaged: What had been stored is not there any more; says which file, and where in it.
        """
        length = None if acknowledged is None else read_acknowledged(acknowledged)
        head, segments = recovered(directory, length, durable=durable)
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
        """The offset of the first row that is still here."""
        return self._segments[0].first

    @property
    def end(self) -> int:
        """The offset the next row will get."""
        return self._segments[-1].end

    @property
    def bytes(self) -> int:
        """Bytes on the disk."""
        return sum(segment.size for segment in self._segments)

    # -- writing -------------------------------------------------------------------------------

    def append(self, batches: Sequence[pa.RecordBatch]) -> int:
        """Store rows, all of them or none; returns the offset of the first.

        An error means that none counts. They share one write and one sync.
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
        """Store a fact, any JSON value, in place of the one of the same kind before."""
        payload = json_payload({kind: value})
        with self._lock:
            self._make_room()
            self._write([(Kind.MARK, [payload], self.end, 0)])
            self.marks = {**self.marks, **msgspec.json.decode(payload, type=dict[str, Any])}

    def trim(self, upto: int, *, to_nothing: bool = False) -> None:
        """Give up the rows below ``upto``: segments without any other row are deleted.

        If that is all of them, the newest segment goes too when it is large, or ``to_nothing`` asks for it.

        Not synced. A segment that a power cut brings back is as little needed as before, and file systems
        keep deletions in order, so that it cannot come back without those behind it.
        """
        with self._lock:
            self._check_there()
            if upto > self.end:
                raise UsageError(f"cannot trim {self.directory} up to {upto}: it ends at {self.end}")
            self._drop_below(upto)
            newest = self._segments[-1]
            worth_it = to_nothing or newest.size >= self._segment_bytes // 16
            if upto == self.end > newest.first and worth_it:
                # No row is needed any more: a fresh segment is worth its syncs. But should the disk be
                # full, giving back what the others took was all there was to do.
                with suppress(OSError):
                    self._roll()
                    self._drop_below(upto)

    def remove(self) -> None:
        """Delete the log. Does nothing the second time.

        Oldest first: what is left if this is interrupted is a log that was trimmed, with all its marks. The
        length that was acknowledged goes before it: without a log it would be taken for damage.
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
        """Let go of the open file. The next append opens it again."""
        with self._lock:
            self._close()

    # -- reading -------------------------------------------------------------------------------

    def read(self, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """The rows from ``start`` up to, not including, ``stop``, with one record in memory at a time."""
        segments = self._segments
        if not segments[0].first <= start <= stop <= segments[-1].end:
            raise UsageError(
                f"the log {self.directory} has rows {segments[0].first} to {segments[-1].end - 1}, "
                f"not {start} to {stop - 1}"
            )
        return self._read(segments, start, stop)

    def _read(self, segments: tuple[Segment, ...], start: int, stop: int) -> Iterator[pa.RecordBatch]:
        for segment in segments:
            if segment.first < stop and start < segment.end:
                yield from segment.read(self._salt, start, min(stop, segment.end))

    # -- inside --------------------------------------------------------------------------------

    def _write(self, parts: list[tuple[Kind, list[Buffer], int, int]]) -> None:
        """Write records (kind, payload, first offset, rows) at the end and sync them; all count, or none."""
        newest = self._segments[-1]
        position = newest.size
        # Without syncs, nothing is ever known to be on the disk.
        synced = position if self._durable else 0
        pieces: list[Buffer] = []
        written: list[tuple[Record, int]] = []
        for kind, payload, first, rows in parts:
            record = record_of(kind, payload, first, rows, synced)
            pieces += (seal_header(record, position, self._salt), *payload)
            written.append((record, position))
            position += record.size
        if not pieces:
            return
        descriptor = self._open()
        self._has_leftovers = True
        try:
            write_all(descriptor, pieces, newest.size)
            if self._durable:
                sync_data(descriptor)
            self._acknowledge(position, written[-1][0].end)
        except OSError:
            # At once, to give back what it took. The next append tries again, and refuses if it cannot.
            with suppress(OSError):
                self._cut_leftovers(descriptor)
            self._close()
            raise
        for record, place in written:
            newest.grow(record, place)
        self._has_leftovers = False

    def _open(self) -> int:
        """The open file of the newest segment, with nothing behind its end."""
        self._check_there()
        if self._descriptor is None:
            self._descriptor = os.open(self._segments[-1].path, os.O_RDWR)
        if self._has_leftovers:
            try:
                self._cut_leftovers(self._descriptor)
            except OSError as error:
                self._close()
                raise LogUnusable(
                    f"the log {self.directory} takes no more rows for now, as a write that failed "
                    f"cannot be undone: {error}"
                ) from error
        return self._descriptor

    def _cut_leftovers(self, descriptor: int) -> None:
        """Cut off what no append has acknowledged: a later, shorter one must not end in front of it."""
        os.ftruncate(descriptor, self._segments[-1].size)
        if self._durable:
            sync_data(descriptor)
        self._has_leftovers = False

    def _make_room(self) -> None:
        newest = self._segments[-1]
        if newest.sealed or newest.size >= self._segment_bytes:
            self._roll()

    def _roll(self) -> None:
        """Begin another segment; it takes the place of the newest if that has no rows, only marks."""
        newest = self._segments[-1]
        has_rows = newest.end > newest.first
        if has_rows and not newest.sealed:
            self._write([(Kind.SEAL, [], newest.end, 0)])
        if not has_rows:
            # The segment in its place may be smaller. This must not be known later than the segment itself.
            self._acknowledge(0, newest.end, sync=self._durable)
        head = Head(VERSION, self._salt, self.facts, self.marks)
        segment = make_segment(self.directory, newest.end, head, durable=self._durable)
        self._close()
        self._segments = (*self._segments, segment) if has_rows else (*self._segments[:-1], segment)
        self._acknowledge()

    def _acknowledge(self, size: int | None = None, end: int | None = None, *, sync: bool = False) -> None:
        """Keep how long the log is, apart from it."""
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
        # Absent when the constructor failed.
        if getattr(self, "_descriptor", None) is not None:
            self._close()

    def __repr__(self) -> str:
        return f"StreamLog({str(self.directory)!r}, rows {self.start} to {self.end - 1})"
