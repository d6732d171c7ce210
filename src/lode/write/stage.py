"""Stage data files under a snapshot that is not yet committed.

A stager is a plain value: threads share it, processes and Spark tasks unpickle their own copy.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from lode.codec.arrow_json import schema_to_bytes
from lode.codec.components import Components
from lode.codec.protocol import conforms, has_field_ids, has_schema, is_parallel, takes_first_schema
from lode.codec.records import chunk_bytes, chunks_of, peek_schema
from lode.codec.timestamps import TimestampRange
from lode.errors import InvalidOptionError, LodeError
from lode.evolution import column_names
from lode.format.manifest import FileRef
from lode.format.partition_values import PartitionValues, with_partition
from lode.format.paths import Layout
from lode.lazy import pa
from lode.runtime import REAL, Runtime, one_by_one
from lode.store.protocol import Store, is_nearby
from lode.times import datetime_to_rfc3339
from lode.write.file import DataFile, RecordFile
from lode.write.open_files import MAX_HELD_BYTES, TARGET_FILE_BYTES, OpenFiles, RollingFile, check_sort_by
from lode.write.parallel import (
    FileJob,
    drain,
    parts_of,
    pipelined,
    read_ahead,
    stream_parts,
    stream_threads,
    write_files,
)
from lode.write.partition import split

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lode.codec.protocol import Chunk
    from lode.codec.row_groups import RowGroupCopy
    from lode.format.partition_values import PartitionValue
    from lode.write.parallel import Each

_RECORDS: Final = (
    "write records to a dataset that is created with codec=lode.JSONL() or codec=lode.Parquet(schema)"
)
# With fewer rows, starting threads takes longer than encoding.
MIN_PARALLEL_ROWS: Final = 20_000


class Staged(msgspec.Struct, frozen=True):
    """The files that one call staged, and what the manifest will say about them. Pickles.

    ``task`` names the piece of work: of two results for one task a commit takes only the first. ``schema`` is
    that of the data, as Arrow serialises it, if the dataset had none.
    """

    files: tuple[FileRef, ...]
    row_count: int
    min_timestamp: str | None = None
    max_timestamp: str | None = None
    task: str | None = None
    schema: bytes | None = None
    # The digest of the definition that the files were staged for; None for those of the commit's own stager.
    definition: str | None = None


class Unchanged(NamedTuple):
    """A row group that stays as it is, and its timestamp column if there is one."""

    group: RowGroupCopy
    times: tuple[pa.RecordBatch, ...]


class Stager(msgspec.Struct, frozen=True):
    """Writes data files for one snapshot of one dataset."""

    store: Store
    dataset_id: str
    layout: Layout
    components: Components
    snapshot_id: str
    timestamp_column: str | None = None
    runtime: Runtime = REAL
    # The digest of the definition that the files are staged for.
    definition: str | None = None
    # Another file of a partition begins at this many stored bytes.
    target_file_bytes: int = TARGET_FILE_BYTES
    # Columns by which the Arrow rows of each file are sorted.
    sort_by: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        # The clock and threads belong to this process; the copy has its own.
        return Stager, msgspec.structs.astuple(msgspec.structs.replace(self, runtime=REAL))

    def without_field_ids(self) -> Stager:
        """The same for files without ids of columns, which readers find by their names then."""
        codec = self.components.codec
        if not has_field_ids(codec):
            return self
        return msgspec.structs.replace(
            self, components=replace(self.components, codec=codec.with_field_ids(None))
        )

    def stage(self, data: Any, *, task: str | None = None) -> Staged:
        """Stage bytes (without a codec) or records (with one), in files by partition."""
        staged = self.stage_named(data, f"-{self._token()}", task=task)
        return msgspec.structs.replace(staged, definition=self.definition)

    def stage_named(self, data: Any, suffix: str, *, task: str | None = None, serial: bool = False) -> Staged:
        """Stage under names ending in ``suffix``; the caller makes sure they are not taken.

        Args:
            data: Bytes, or records.
            suffix: The end of the names.
            task: The piece of work, as for ``stage``.
            serial: Encode a stream on this thread, one row group in memory: the caller has its own threads.
        """
        if self.components.codec is None:
            return self._stage_blob(data, suffix, task)
        if takes_first_schema(self.components.codec):
            data, schema = peek_schema(data)
            if schema is not None:
                staged = self.with_schema(schema).stage_named(data, suffix, task=task, serial=serial)
                return msgspec.structs.replace(staged, schema=schema_to_bytes(schema))
        if self.layout.keys:
            return self._stage_partitions(data, suffix, task)
        return self._stage_records(data, suffix, task, serial)

    def write_records(
        self, records: Iterable[Any], *, task: str | None = None, serial: bool = False
    ) -> Staged:
        """Stage a stream of records into partitions, in bounded memory and with few files open.

        A partition that comes back after its file was finished gets another file.

        Args:
            records: Records or Arrow data, pulled as they are needed.
            task: The piece of work, as for ``stage``.
            serial: Encode on this thread also without partitions. A stream without rows is then no file.
        """
        if self.components.codec is None:
            raise InvalidOptionError(f"dataset {self.dataset_id!r} has no codec: {_RECORDS}")
        if takes_first_schema(self.components.codec):
            records, schema = peek_schema(records)
            if schema is not None:
                staged = self.with_schema(schema).write_records(records, task=task, serial=serial)
                return msgspec.structs.replace(staged, schema=schema_to_bytes(schema))
        if not self.layout.keys and not serial:
            return self.stage(records, task=task)
        timestamps, values = TimestampRange(self.timestamp_column), PartitionValues(self.layout.keys)
        files = self._write_open(self._split(records, timestamps, values), f"-{self._token()}")
        staged = _staged(self._labelled(files, values), timestamps, task)
        return msgspec.structs.replace(staged, definition=self.definition)

    def rewrite(self, rows: Iterable[Any]) -> Staged:
        """Stage the rows of other files: encoded on this thread, and read ahead on another."""
        return self.write_records(read_ahead(rows), serial=True)

    def join(
        self,
        partition: str,
        parts: Iterable[pa.RecordBatch | Unchanged],
        values: Mapping[str, PartitionValue] | None = None,
    ) -> Staged:
        """Stage one Parquet file of the rows and row groups of others, in this order.

        Args:
            partition: Of all rows.
            parts: Rows, and row groups to copy.
            values: The partition values that all rows have.
        """
        timestamps = TimestampRange(self.timestamp_column)
        path = self._path(partition, "data", f"-{self._token()}")
        file = RecordFile(self.store, path, self.components, threads=1)
        try:
            for part in parts:
                if isinstance(part, Unchanged):
                    file.copy(part.group)
                    timestamps.observe_times(part.group.row_count, part.times)
                elif part.num_rows:
                    timestamps.observe(part)
                    file.write(part)
            files = (with_partition(file.finish(), values),) if timestamps.rows else ()
        except BaseException:
            file.abort()
            raise
        if not files:
            file.abort()
        return msgspec.structs.replace(_staged(files, timestamps, None), definition=self.definition)

    def with_schema(self, schema: pa.Schema) -> Stager:
        """Return this stager with a codec of that schema."""
        codec = self.components.codec
        assert has_schema(codec)
        components = replace(self.components, codec=codec.with_schema(schema))
        return msgspec.structs.replace(self, components=components)

    def with_files(
        self, target_file_bytes: int | None = None, sort_by: Iterable[str] | None = None
    ) -> Stager:
        """Return this stager with another target size or order of rows; None leaves it as it is.

        Raises:
            InvalidOptionError: The size is not positive, or the rows cannot be sorted so.
        """
        size = self.target_file_bytes if target_file_bytes is None else target_file_bytes
        if not isinstance(size, int) or size < 1:
            raise InvalidOptionError(f"target_file_bytes is {size!r}: give a number of bytes from 1")
        order = self.sort_by if sort_by is None else tuple(column_names("sort_by", sort_by))
        schema: pa.Schema | None = getattr(self.components.codec, "schema", None)
        if order and schema is not None:
            check_sort_by(schema, order)
        return msgspec.structs.replace(self, target_file_bytes=size, sort_by=order)

    def discard(self, files: Iterable[FileRef]) -> None:
        """Remove staged files, best effort. No reader sees those that remain, and sweep finds them."""
        for file in files:
            with suppress(LodeError):
                self.store.delete(file.path)

    def blob_file(self, suffix: str = "") -> DataFile:
        """Open the file of a raw blob."""
        path = self._path("", "blob", suffix)
        return DataFile(self.store, path, self.components.compressor, self.components.checksum)

    def record_file(self, partition: str, suffix: str, threads: int | None = None) -> RecordFile:
        """Open a file of records in a partition; ``suffix`` makes its name unique within the snapshot."""
        return RecordFile(self.store, self._path(partition, "data", suffix), self.components, threads)

    def _stage_blob(self, data: Any, suffix: str, task: str | None) -> Staged:
        try:
            view = memoryview(data)
        except TypeError:
            raise InvalidOptionError(
                f"dataset {self.dataset_id!r} has no codec and stores bytes, got {type(data).__name__}: "
                f"{_RECORDS}"
            ) from None
        file = self.blob_file(suffix)
        try:
            file.write(view)
            return Staged((file.finish(),), 1, task=task)
        except BaseException:
            file.abort()
            raise

    def _stage_records(self, data: Any, suffix: str, task: str | None, serial: bool) -> Staged:
        codec = self.components.codec
        is_short = isinstance(data, list | tuple) and len(data) < MIN_PARALLEL_ROWS
        if (
            not (serial or is_short)
            and is_parallel(codec)
            and not isinstance(data, pa.Table)
            and stream_threads() > 1
        ):
            return self._stage_stream(data, suffix, task, codec.bytes_per_file)
        parts = parts_of(data, codec)
        alone = len(parts) == 1
        jobs, ranges = [], []
        for number, (first_row, part) in enumerate(parts):
            ranges.append(TimestampRange(self.timestamp_column, first_row=first_row))
            # Files are read in the order of their names, which is that of the rows.
            name = suffix if alone else f"{suffix}-p{number:03d}"
            jobs.append(FileJob("", name, self._conformed(part, ranges[-1])))
        threads = None if serial or not alone else self._group_threads()
        files = self._write(jobs, one_by_one if alone else self.runtime.each, threads)
        for later in ranges[1:]:
            ranges[0].extend(later)
        return _staged(files, ranges[0], task)

    def _stage_stream(self, data: Any, suffix: str, task: str | None, bytes_per_file: int) -> Staged:
        """Stage a stream as one file, or as several that are encoded while the stream is pulled."""
        timestamps = TimestampRange(self.timestamp_column)
        parts = stream_parts(self._conformed(data, timestamps), bytes_per_file)
        first = next(parts)
        if first.last:
            files = self._write([FileJob("", suffix, first.chunks)], one_by_one, self._group_threads())
        else:
            jobs = (
                FileJob("", f"{suffix}-p{number:06d}", drain(part.chunks))
                for number, part in enumerate(chain([first], parts))
            )
            files = self._write(jobs, pipelined)
        return _staged(files, timestamps, task)

    def _stage_partitions(self, data: Any, suffix: str, task: str | None) -> Staged:
        timestamps, values = TimestampRange(self.timestamp_column), PartitionValues(self.layout.keys)
        parts = self._split(data, timestamps, values)
        # A table or a list is in memory anyway. The rows of a stream are grouped only as far as they fit.
        is_stream = not isinstance(data, pa.Table | list | tuple)
        groups: dict[str, list[Chunk]] = {}
        held = 0
        for partition, part in parts:
            groups.setdefault(partition, []).append(part)
            if is_stream:
                held += chunk_bytes(part)
                if held > MAX_HELD_BYTES:
                    grouped = ((name, chunk) for name in list(groups) for chunk in groups.pop(name))
                    files = self._write_open(chain(grouped, parts), suffix)
                    return _staged(self._labelled(files, values), timestamps, task)
        few = len(groups) == 1 or (timestamps.rows < MIN_PARALLEL_ROWS and is_nearby(self.store))
        files = self._write(
            [FileJob(partition, suffix, chunks) for partition, chunks in groups.items()],
            one_by_one if few else self.runtime.each,
        )
        return _staged(self._labelled(files, values), timestamps, task)

    def _labelled(self, files: list[FileRef], values: PartitionValues) -> list[FileRef]:
        """The files with their partition values, which are known when all rows were split."""
        if not self.layout.keys:
            return files
        return values.label(files, partial(self.layout.partition_of, self.dataset_id))

    def _split(
        self, data: Any, timestamps: TimestampRange, values: PartitionValues
    ) -> Iterator[tuple[str, Chunk]]:
        """Yield the rows by partition; without keys all rows are in the partition ``""``."""
        keys = self.layout.keys
        for chunk in self._conformed(data, timestamps):
            if keys:
                yield from split(chunk, keys, values.observe)
            elif len(chunk):
                yield "", chunk

    @staticmethod
    def _group_threads() -> int | None:
        """How many row groups of a file are encoded at a time if there is only this file; None on one core.

        The threads start with the first full row group, so a small file has none.
        """
        return threads if (threads := stream_threads()) > 1 else None

    def _write(self, jobs: Iterable[FileJob], each: Each, threads: int | None = None) -> list[FileRef]:
        return write_files(jobs, partial(self._rolling_file, threads=threads), self.discard, each)

    def _write_open(self, parts: Iterable[tuple[str, Chunk]], suffix: str) -> list[FileRef]:
        """Write a stream of (partition, rows) on this thread."""
        files = OpenFiles(
            lambda partition, number, finished: self._rolling_file(
                partition, f"{suffix}-{number:05d}", finished
            )
        )
        try:
            for partition, part in parts:
                files.write(partition, part)
            return files.finish()
        except BaseException:
            files.abort()
            self.discard(files.finished)
            raise

    def _rolling_file(
        self, partition: str, suffix: str, finished: list[FileRef], threads: int | None = None
    ) -> RollingFile:
        """Open the files of a partition whose names begin with ``suffix``; each goes to ``finished``."""
        return RollingFile(
            partial(self.record_file, partition, threads=threads),
            suffix,
            finished,
            target_bytes=self.target_file_bytes,
            sort_by=self.sort_by,
        )

    def _conformed(self, data: Any, timestamps: TimestampRange) -> Iterator[Chunk]:
        """Yield the chunks in the codec's schema. An error names a row by its number in ``data``."""
        codec = self.components.codec
        conform = codec.conform if conforms(codec) else None
        for chunk in chunks_of(data):
            first_row = timestamps.next_row
            timestamps.observe(chunk)
            yield chunk if conform is None else conform(chunk, first_row)

    def _path(self, partition: str, kind: str, suffix: str) -> str:
        name = f"{kind}{suffix}{self.components.extension}"
        return self.layout.data_path(self.dataset_id, self.snapshot_id, partition, name)

    def _token(self) -> str:
        return f"{self.runtime.random_bits(64):016x}"


def _staged(files: Iterable[FileRef], timestamps: TimestampRange, task: str | None) -> Staged:
    earliest = datetime_to_rfc3339(timestamps.min) if timestamps.min else None
    latest = datetime_to_rfc3339(timestamps.max) if timestamps.max else None
    return Staged(tuple(files), timestamps.rows, earliest, latest, task)
