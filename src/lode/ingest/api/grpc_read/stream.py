"""The rows of one read stream, from any offset on, in batches that each fit into one response."""

from __future__ import annotations

from collections import deque
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lode.ingest.api.grpc_read.parquet import matching_groups, open_parquet, read_group
from lode.ingest.api.grpc_read.selection import column_paths, select
from lode.ingest.catalog.partition_times import is_partition_time, stored, with_partition_times
from lode.ingest.catalog.table import complete
from lode.ingest.status import Code, Refused, invalid
from lode.ingest.types.arrays import one_batch
from lode.lazy import pa
from lode.store.protocol import SupportsLocalPath

if TYPE_CHECKING:
    from collections.abc import Container, Generator, Iterable, Iterator
    from concurrent.futures import Executor, Future

    from lode.ingest.api.grpc_read.plan import Plan, PlannedFile
    from lode.ingest.api.grpc_read.restriction import Restriction
    from lode.ingest.api.grpc_read.session import SnapshotRange
    from lode.ingest.catalog.partitioning import Partitioning
    from lode.ingest.catalog.table import TableDefinition
    from lode.ingest.types.columns import TableSchema
    from lode.store.protocol import Store

RESPONSE_BYTES: Final = 1 << 20
COMPRESSIONS: Final = (None, "lz4", "zstd")
# A remote file up to this size is fetched whole: one request instead of three or four.
SMALL_FILE_BYTES: Final = 4 << 20
_MAX_PREFETCHED_FILES: Final = 16
_MAX_PREFETCHED_BYTES: Final = 16 << 20
_END_OF_STREAM_BYTES: Final = 8


class StreamedBatch(NamedTuple):
    """A batch, and the fraction of the stream that is done with it, from 0 to 1."""

    batch: pa.RecordBatch
    done: float


class _RowGroup(NamedTuple):
    """Rows ``start`` to ``stop`` of one row group of an open file, and the position after them."""

    opened: Any
    file: PlannedFile
    number: int
    start: int
    stop: int
    position: int

    def read(self, columns: TableSchema, partitioning: Partitioning | None) -> Iterator[pa.RecordBatch]:
        path, names, wanted = self.file.file.path, self.file.names, stored(columns)
        for batch in read_group(self.opened, path, self.number, wanted, names, self.start, self.stop):
            yield with_partition_times(batch, columns, partitioning)


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads rows of a table in the columns of a session.

    Args:
        table: The current definition of the table.
        plan: The files of the session's snapshot.
        columns: The selected columns.
        restriction: The filter on rows; None for all rows.
        threads: Threads that prefetch files.
    """

    table: TableDefinition
    plan: Plan
    columns: TableSchema
    restriction: Restriction | None
    threads: Executor

    def files(self, rows: SnapshotRange) -> Iterator[PlannedFile]:
        """Yield the files of these rows that statistics and partitions do not rule out."""
        if self.restriction is None:
            return self.plan.matching(rows, None, self.table.arrow)
        # Only the columns of the restriction: a table may have 10,000, and every file is compared.
        used = {path.partition(".")[0] for path in self.restriction.columns}
        known = {field.name: field for field in (*self.table.arrow, *self.table.readable.arrow)}
        schema = pa.schema([known[name] for name in used if name in known])
        return self.plan.matching(rows, self.restriction.where, schema)

    def read(self, rows: SnapshotRange, offset: int) -> Generator[StreamedBatch, None, None]:
        """Yield the rows from ``offset`` on. The offset counts the rows that match the restriction."""
        batches = self._restricted if self.restriction else self._unrestricted
        held: list[pa.RecordBatch] = []
        size = 0
        done = 0.0
        for batch, position in batches(rows, offset):
            for part in _parts(batch):
                if held and size + part.nbytes > RESPONSE_BYTES:
                    yield StreamedBatch(one_batch(held), done)
                    held, size = [], 0
                held.append(part)
                size += part.nbytes
            done = (position - rows.start) / rows.rows
        if held:
            yield StreamedBatch(one_batch(held), 1.0)

    def _unrestricted(self, rows: SnapshotRange, offset: int) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Without a restriction the offset gives the position, and files before it are not opened."""
        if offset > rows.rows:
            raise _beyond_the_end(offset)
        for group in self._row_groups(rows._replace(start=rows.start + offset)):
            for batch in group.read(self.columns, self.table.partitioning):
                yield complete(batch, self.columns), group.position

    def _restricted(self, rows: SnapshotRange, offset: int) -> Iterator[tuple[pa.RecordBatch, int]]:
        assert self.restriction is not None
        filtered = select(self.table, self.restriction.columns)
        needed = select(self.table, [*column_paths(self.columns), *self.restriction.columns])
        skip = offset
        for group in self._row_groups(rows):
            if skip:
                # Rows before the offset are only counted.
                found = sum(batch.num_rows for batch in self._matching(group, filtered))
                if found <= skip:
                    skip -= found
                    continue
            for batch in self._matching(group, needed):
                if batch.num_rows > skip:
                    yield complete(batch.slice(skip), self.columns), group.position
                skip = max(skip - batch.num_rows, 0)
        if skip:
            raise _beyond_the_end(offset)

    def _matching(self, group: _RowGroup, columns: TableSchema) -> Iterator[pa.RecordBatch]:
        assert self.restriction is not None
        for batch in group.read(columns, self.table.partitioning):
            yield self.restriction.apply(complete(batch, columns))

    def _row_groups(self, rows: SnapshotRange) -> Iterator[_RowGroup]:
        store = self.plan.scan.store
        with closing(prefetch(store, self.files(rows), self.threads)) as files:
            for file, data in files:
                inside = file.within(rows)
                first = file.start
                with open_parquet(store, file.file, data) as opened:
                    matching = self._matching_groups(opened, file, data)
                    for number in range(opened.metadata.num_row_groups):
                        count = opened.metadata.row_group(number).num_rows
                        start, stop = max(inside.start, first), min(inside.stop, first + count)
                        if start < stop and number in matching:
                            yield _RowGroup(opened, file, number, start - first, stop - first, stop)
                        first += count

    def _matching_groups(self, opened: Any, file: PlannedFile, data: bytes | None) -> Container[int]:
        count: int = opened.metadata.num_row_groups
        if self.restriction is None or count == 1 or not self.restriction.fits_row_groups:
            return range(count)
        if not file.is_plain or any(map(is_partition_time, self.restriction.columns)):
            return range(count)  # the restriction uses other names than the file
        return matching_groups(
            self.plan.scan.store, file.file, data, self.restriction.where, self.table.schema.arrow
        )


def _beyond_the_end(offset: int) -> Refused:
    return Refused(Code.OUT_OF_RANGE, f"The offset {offset} is beyond the end of the stream.")


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Cut a batch until each part fits into a response or has only one row."""
    if batch.nbytes <= RESPONSE_BYTES or batch.num_rows <= 1:
        if batch.num_rows:
            yield batch
        return
    rows = min(max(batch.num_rows * RESPONSE_BYTES // batch.nbytes, 1), batch.num_rows - 1)
    for start in range(0, batch.num_rows, rows):
        yield from _parts(batch.slice(start, rows))


# -- files -------------------------------------------------------------------------------------


class _Fetch(NamedTuple):
    file: PlannedFile
    size: int
    data: Future[bytes] | None

    def result(self) -> tuple[PlannedFile, bytes | None]:
        return self.file, None if self.data is None else self.data.result()


def prefetch(
    store: Store, files: Iterable[PlannedFile], threads: Executor
) -> Generator[tuple[PlannedFile, bytes | None], None, None]:
    """Yield the files in order, each with its content; None for a local or large file, which is opened.

    The requests for small remote files overlap.
    """
    waiting: deque[_Fetch] = deque()
    held = 0
    try:
        for file in files:
            small = file.file.size_bytes <= SMALL_FILE_BYTES and not isinstance(store, SupportsLocalPath)
            size = file.file.size_bytes if small else 0
            # A file that is not fetched gains nothing from waiting in the queue.
            while waiting and (
                not small or len(waiting) >= _MAX_PREFETCHED_FILES or held + size > _MAX_PREFETCHED_BYTES
            ):
                held -= waiting[0].size
                yield waiting.popleft().result()
            data = threads.submit(store.get, file.file.path) if small else None
            waiting.append(_Fetch(file, size, data))
            held += size
        while waiting:
            yield waiting.popleft().result()
    finally:
        for left in waiting:
            if left.data is not None:
                left.data.cancel()


# -- responses ---------------------------------------------------------------------------------


def compression_of(options: Any) -> int:
    """Return the codec of ``arrow_serialization_options``, or refuse it."""
    codec: int = options.buffer_compression
    if not 0 <= codec < len(COMPRESSIONS):
        raise invalid(f"buffer_compression {codec} is not known: use LZ4_FRAME or ZSTD.")
    return codec


def encode_batch(batch: pa.RecordBatch, compression: int) -> bytes:
    """Encode the batch as one message of Arrow's IPC format."""
    if not compression:
        return batch.serialize().to_pybytes()
    # Only whole streams can be compressed. The schema's message and the end-of-stream marker are cut off.
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=COMPRESSIONS[compression])
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    whole = sink.getvalue()
    start = batch.schema.serialize().size
    return whole.slice(start, whole.size - start - _END_OF_STREAM_BYTES).to_pybytes()
