"""Make staged rows visible: FlushRows of a BUFFERED stream, BatchCommitWriteStreams of PENDING streams."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lode.ingest.core.table_writer import AlreadyVisible, OffsetRange, fit_batch
from lode.ingest.status import Code, Refused, StorageCode, invalid, not_found
from lode.ingest.types.arrays import coalesce

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    import pyarrow as pa

    import lode
    from lode.ingest.catalog.table import TableDefinition
    from lode.ingest.core.streams import Stream
    from lode.ingest.core.table_writer import TableWriter
    from lode.ingest.names import StreamName

# Each chunk becomes one data file, or one for each of its partitions; it is streamed through memory.
_MAX_CHUNK_BYTES: Final = 256 << 20
_THREADS: Final = min(4, os.cpu_count() or 1)


@dataclass(frozen=True, slots=True)
class BatchCommit:
    """The outcome of a batch commit: its time, or a refusal for each stream that could not be committed."""

    at: datetime | None
    problems: tuple[Refused, ...] = ()


def flush_rows(stream: Stream, offset: int) -> int:
    """Show the rows up to and including ``offset`` in one snapshot, unless they are visible already."""
    writer = stream.writer
    with writer.staged_lock:
        rows = OffsetRange(stream.position.visible, stream.strategy.flush_end(stream.position, offset))
        if rows.start == rows.end:
            return offset

        def stage(definition: TableDefinition, transaction: lode.Transaction) -> None:
            stage_rows(definition, transaction, [(stream, rows)])

        try:
            snapshot = writer.commit(stage, {stream.id: rows}, acknowledged=True)
        except AlreadyVisible:
            # A flush from before a restart landed late and changed what this one has to show.
            raise Refused(
                Code.ABORTED, f"Stream {stream.name} was flushed by another request: try again."
            ) from None
        stream.show(rows.end, snapshot.created_at)
    return offset


def commit_streams(
    writer: TableWriter, names: Sequence[StreamName], find: Callable[[StreamName], Stream]
) -> BatchCommit:
    """Validate all streams, then commit them in one snapshot, which also records that they are committed."""
    if not names:
        raise invalid("A batch commit names no write streams: name at least one.")
    if len(set(names)) != len(names):
        raise invalid("A batch commit names a write stream twice: name each once.")
    with writer.staged_lock:
        streams, problems = _validate(writer, names, find)
        if problems:
            return BatchCommit(None, tuple(problems))
        ranges = {stream.id: OffsetRange(0, stream.position.durable) for stream in streams}

        def stage(definition: TableDefinition, transaction: lode.Transaction) -> None:
            stage_rows(definition, transaction, [(stream, ranges[stream.id]) for stream in streams])

        try:
            snapshot = writer.commit(stage, ranges, acknowledged=True)
        except AlreadyVisible:
            # A batch commit from before a restart landed late and committed some of them.
            for stream in streams:
                visible = writer.progress.visible(stream.id)
                if visible is not None:
                    stream.show(visible.rows, visible.at)
            _, problems = _validate(writer, names, find)
            return BatchCommit(None, tuple(problems))
        for stream in streams:
            stream.show(ranges[stream.id].end, snapshot.created_at)
    return BatchCommit(snapshot.created_at)


def _validate(
    writer: TableWriter, names: Sequence[StreamName], find: Callable[[StreamName], Stream]
) -> tuple[list[Stream], list[Refused]]:
    streams: list[Stream] = []
    problems: list[Refused] = []
    for name in names:
        try:
            if name.table != writer.name:
                raise not_found(str(name), StorageCode.STREAM_NOT_FOUND)
            stream = find(name)
            stream.check_commit()
            streams.append(stream)
        except Refused as refusal:
            problems.append(refusal)
    return streams, problems


def stage_rows(
    definition: TableDefinition, transaction: lode.Transaction, parts: Sequence[tuple[Stream, OffsetRange]]
) -> None:
    """Read rows from stream logs and encode them as data files, in parallel and in bounded memory."""
    stager = transaction.stager
    chunks = [(stream, chunk) for stream, rows in parts for chunk in _chunks(stream, rows)]

    def stage(numbered: tuple[int, tuple[Stream, OffsetRange]]) -> lode.Staged:
        number, (stream, rows) = numbered
        batches = _read(definition, transaction, stream, rows)
        # Without partitions a chunk is one file, and its name keeps the order of the rows.
        if stager.layout.keys:
            return stager.write_records(batches)
        return stager.stage_named(batches, f"-{number:05d}", serial=True)

    with ThreadPoolExecutor(_THREADS, thread_name_prefix="lode-stage") as pool:
        transaction.add(*pool.map(stage, enumerate(chunks)))


def _chunks(stream: Stream, rows: OffsetRange) -> Iterator[OffsetRange]:
    """Split rows into chunks that make files of a good size and give every core some work."""
    assert stream.log is not None
    count = rows.end - rows.start
    if not count:
        return
    bytes_per_row = max(1, stream.log.bytes // max(1, stream.log.end - stream.log.start))
    step = max(1, min(_MAX_CHUNK_BYTES // bytes_per_row, -(-count // _THREADS) if count > 100_000 else count))
    for start in range(rows.start, rows.end, step):
        yield OffsetRange(start, min(start + step, rows.end))


def _read(
    definition: TableDefinition, transaction: lode.Transaction, stream: Stream, rows: OffsetRange
) -> Iterator[pa.RecordBatch]:
    assert stream.log is not None
    return coalesce(
        fit_batch(definition, transaction, batch) for batch in stream.log.read(rows.start, rows.end)
    )
