"""Stage data files under a snapshot that is not yet committed.

A stager is a plain value: threads share it, processes and Spark tasks unpickle their own copy.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lode.codec.arrow_json import schema_to_bytes
from lode.codec.protocol import conforms, has_schema, is_parallel, takes_first_schema
from lode.codec.records import chunks_of, peek_schema
from lode.codec.timestamps import TimestampRange
from lode.errors import InvalidOptionError, LodeError
from lode.format.manifest import FileRef
from lode.lazy import pa
from lode.runtime import REAL, Runtime, one_by_one
from lode.store.protocol import is_nearby
from lode.times import datetime_to_rfc3339
from lode.write.file import DataFile, RecordFile
from lode.write.parallel import (
    FileJob,
    drain,
    parts_of,
    pipelined,
    stream_parts,
    stream_threads,
    write_files,
)
from lode.write.partition import split

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lode.codec.components import Components
    from lode.codec.protocol import Chunk
    from lode.format.paths import Layout
    from lode.store.protocol import Store
    from lode.write.parallel import Each

# How many partitions a streaming write keeps open; the one untouched for longest is finished first.
MOST_OPEN_FILES: Final = 32
_RECORDS: Final = (
    "write records to a dataset that is created with codec=lode.JSONL() or codec=lode.Parquet(schema)"
)
# Fewer rows than this are encoded sooner than threads are started for them.
FEW_ROWS: Final = 20_000


class Staged(msgspec.Struct, frozen=True):
    """What one call staged: its files, and what the manifest will say about them. Picklable.

    ``task`` names the piece of work; when a piece was done twice, a commit takes only the first. ``schema``
    is that of the data, as Arrow serialises it, if the dataset had none.
    """

    files: tuple[FileRef, ...]
    row_count: int
    min_timestamp: str | None = None
    max_timestamp: str | None = None
    task: str | None = None
    schema: bytes | None = None
    # The digest of the definition that the files were staged for; None for those of the commit's own stager.
    definition: str | None = None


@dataclass(frozen=True, slots=True)
class Stager:
    """Writes data files for one snapshot of one dataset."""

    store: Store
    dataset_id: str
    layout: Layout
    components: Components
    snapshot_id: str
    timestamp_column: str | None = None
    runtime: Runtime = field(default=REAL, repr=False)
    # The digest of the definition that the files are staged for.
    definition: str | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # Clocks and threads are of this process; the copy has those of its own.
        return Stager, (
            self.store,
            self.dataset_id,
            self.layout,
            self.components,
            self.snapshot_id,
            self.timestamp_column,
            REAL,
            self.definition,
        )

    def stage(self, data: Any, *, task: str | None = None) -> Staged:
        """Stage bytes (without a codec) or records (with one), one file for each partition they touch."""
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

    def write_records(self, records: Iterable[Any], *, task: str | None = None) -> Staged:
        """Stage a stream of records into partitions, in bounded memory and with few files open.

        A partition that comes back after its file was finished gets another file.
        """
        if self.components.codec is None:
            raise InvalidOptionError(f"dataset {self.dataset_id!r} has no codec: {_RECORDS}")
        if takes_first_schema(self.components.codec):
            records, schema = peek_schema(records)
            if schema is not None:
                staged = self.with_schema(schema).write_records(records, task=task)
                return msgspec.structs.replace(staged, schema=schema_to_bytes(schema))
        if not self.layout.keys:
            return self.stage(records, task=task)
        pool = _OpenFiles(self, self._token())
        timestamps = TimestampRange(self.timestamp_column)
        try:
            for chunk in self._conformed(records, timestamps):
                for partition, part in split(chunk, self.layout.keys):
                    pool.write(partition, part)
            files = pool.finish()
        except BaseException:
            pool.abort()
            raise
        return msgspec.structs.replace(_staged(files, timestamps, task), definition=self.definition)

    def with_schema(self, schema: pa.Schema) -> Stager:
        """Return this stager with a codec of that schema."""
        codec = self.components.codec
        assert has_schema(codec)
        return replace(self, components=replace(self.components, codec=codec.with_schema(schema)))

    def discard(self, files: Iterable[FileRef]) -> None:
        """Remove staged files, best effort; what remains is invisible and sweep finds it."""
        for file in files:
            with suppress(LodeError):
                self.store.delete(file.path)

    def blob_file(self, suffix: str = "") -> DataFile:
        """Open the file of a raw blob."""
        path = self._path("", "blob", suffix)
        return DataFile(self.store, path, self.components.compressor, self.components.checksum)

    def record_file(self, partition: str, suffix: str) -> RecordFile:
        """Open a file of records in a partition; ``suffix`` tells it from the others of this snapshot."""
        return RecordFile(self.store, self._path(partition, "data", suffix), self.components)

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
        if not serial and is_parallel(codec) and not isinstance(data, pa.Table) and stream_threads() > 1:
            return self._stage_stream(data, suffix, task, codec.bytes_per_file)
        parts = parts_of(data, codec)
        alone = len(parts) == 1
        jobs, ranges = [], []
        for number, (first_row, part) in enumerate(parts):
            ranges.append(TimestampRange(self.timestamp_column, first_row=first_row))
            # Files are read in the order of their names, which is that of the rows.
            name = suffix if alone else f"{suffix}-p{number:03d}"
            jobs.append(FileJob("", name, self._conformed(part, ranges[-1])))
        files = self._write(jobs, one_by_one if alone else self.runtime.each)
        for later in ranges[1:]:
            ranges[0].extend(later)
        return _staged(files, ranges[0], task)

    def _stage_stream(self, data: Any, suffix: str, task: str | None, bytes_per_file: int) -> Staged:
        """Stage a stream as one file, or as several that are encoded while the stream is pulled."""
        timestamps = TimestampRange(self.timestamp_column)
        parts = stream_parts(self._conformed(data, timestamps), bytes_per_file)
        first = next(parts)
        if first.last:
            files = self._write([FileJob("", suffix, first.chunks)], one_by_one)
        else:
            jobs = (
                FileJob("", f"{suffix}-p{number:06d}", drain(part.chunks))
                for number, part in enumerate(chain([first], parts))
            )
            files = self._write(jobs, pipelined)
        return _staged(files, timestamps, task)

    def _stage_partitions(self, data: Any, suffix: str, task: str | None) -> Staged:
        timestamps = TimestampRange(self.timestamp_column)
        groups: dict[str, list[Chunk]] = {}
        for chunk in self._conformed(data, timestamps):
            for partition, part in split(chunk, self.layout.keys):
                groups.setdefault(partition, []).append(part)
        few = len(groups) == 1 or (timestamps.rows < FEW_ROWS and is_nearby(self.store))
        files = self._write(
            [FileJob(partition, suffix, chunks) for partition, chunks in groups.items()],
            one_by_one if few else self.runtime.each,
        )
        return _staged(files, timestamps, task)

    def _write(self, jobs: Iterable[FileJob], each: Each) -> list[FileRef]:
        return write_files(jobs, self.record_file, self.discard, each)

    def _conformed(self, data: Any, timestamps: TimestampRange) -> Iterator[Chunk]:
        """Pull chunks, take their times, and bring them into the codec's schema while rows have numbers."""
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


class _OpenFiles:
    """The open files of a streaming write, a bounded number of them."""

    def __init__(self, stager: Stager, token: str) -> None:
        self._stager = stager
        self._token = token
        self._open: OrderedDict[str, RecordFile] = OrderedDict()
        self._finished: list[FileRef] = []
        self._opened = 0

    def write(self, partition: str, chunk: Chunk) -> None:
        file = self._open.get(partition)
        if file is None:
            if len(self._open) == MOST_OPEN_FILES:
                self._finished.append(self._open.popitem(last=False)[1].finish())
            file = self._stager.record_file(partition, f"-{self._token}-{self._opened:05d}")
            self._open[partition] = file
            self._opened += 1
        self._open.move_to_end(partition)
        file.write(chunk)

    def finish(self) -> list[FileRef]:
        while self._open:
            self._finished.append(self._open.popitem(last=False)[1].finish())
        return self._finished

    def abort(self) -> None:
        for file in self._open.values():
            file.abort()
        self._stager.discard(self._finished)


def _staged(files: Iterable[FileRef], timestamps: TimestampRange, task: str | None) -> Staged:
    earliest = datetime_to_rfc3339(timestamps.min) if timestamps.min else None
    latest = datetime_to_rfc3339(timestamps.max) if timestamps.max else None
    return Staged(tuple(files), timestamps.rows, earliest, latest, task)
