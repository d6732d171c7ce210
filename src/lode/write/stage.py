"""Stage data files under a snapshot that is not yet committed.

A stager is a plain value: threads share it, processes and Spark tasks unpickle their own copy.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lode.codec.protocol import ConformingCodec
from lode.codec.records import chunks_of
from lode.codec.timestamps import TimestampRange
from lode.errors import InvalidOptionError, LodeError
from lode.format.manifest import FileRef, format_time
from lode.runtime import REAL, Runtime, one_by_one
from lode.store.open import is_nearby
from lode.write.file import DataFile, RecordFile
from lode.write.partition import split

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lode.codec.components import Components
    from lode.codec.protocol import Chunk
    from lode.format.paths import Layout
    from lode.store.protocol import Store

# How many partitions a streaming write keeps open; the one untouched for longest is finished first.
MOST_OPEN_FILES: Final = 32
# Fewer rows than this are encoded sooner than threads are started for them.
FEW_ROWS: Final = 20_000


class Staged(msgspec.Struct, frozen=True):
    """What one call staged: its files, and what the manifest will say about them. Picklable.

    ``task`` names the piece of work; when a piece was done twice, a commit takes only the first.
    """

    files: tuple[FileRef, ...]
    row_count: int
    min_timestamp: str | None = None
    max_timestamp: str | None = None
    task: str | None = None


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

    def __reduce__(self) -> tuple[Any, ...]:
        # Clocks and threads are of this process; the copy has those of its own.
        return Stager, (
            self.store,
            self.dataset_id,
            self.layout,
            self.components,
            self.snapshot_id,
            self.timestamp_column,
        )

    def stage(self, data: Any, *, task: str | None = None) -> Staged:
        """Stage bytes (without a codec) or records (with one), one file for each partition they touch."""
        return self.stage_named(data, f"-{self._token()}", task=task)

    def stage_named(self, data: Any, suffix: str, *, task: str | None = None) -> Staged:
        """Stage under names ending in ``suffix``; the caller makes sure they are not taken."""
        if self.components.codec is None:
            return self._stage_blob(data, suffix, task)
        if self.layout.keys:
            return self._stage_partitions(data, suffix, task)
        return self._stage_records(data, suffix, task)

    def write_records(self, records: Iterable[Any], *, task: str | None = None) -> Staged:
        """Stage a stream of records into partitions, in bounded memory and with few files open.

        A partition that comes back after its file was finished gets another file.
        """
        if self.components.codec is None:
            raise InvalidOptionError(f"dataset {self.dataset_id!r} has no codec: records need one")
        pool = _OpenFiles(self, self._token())
        timestamps = TimestampRange(self.timestamp_column)
        rows = 0
        try:
            for chunk in chunks_of(records):
                timestamps.observe(chunk)
                for partition, part in self._split(self._conform(chunk, rows)):
                    pool.write(partition, part)
                rows += len(chunk)
            files = pool.finish()
        except BaseException:
            pool.abort()
            raise
        return _staged(files, rows, timestamps, task)

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
        return RecordFile(self.store, self._path(partition, "data", suffix), self.components)

    def _stage_blob(self, data: Any, suffix: str, task: str | None) -> Staged:
        try:
            view = memoryview(data)
        except TypeError:
            raise InvalidOptionError(
                f"dataset {self.dataset_id!r} has no codec and stores bytes, got {type(data).__name__}: "
                "open it with codec=lode.JSONL() or lode.Parquet(schema) to write records"
            ) from None
        file = self.blob_file(suffix)
        try:
            file.write(view)
            return Staged((file.finish(),), 1, task=task)
        except BaseException:
            file.abort()
            raise

    def _stage_records(self, data: Any, suffix: str, task: str | None) -> Staged:
        timestamps = TimestampRange(self.timestamp_column)
        file = self.record_file("", suffix)
        rows = 0
        try:
            for chunk in chunks_of(data):
                timestamps.observe(chunk)
                file.write(self._conform(chunk, rows))
                rows += len(chunk)
            return _staged([file.finish()], rows, timestamps, task)
        except BaseException:
            file.abort()
            raise

    def _stage_partitions(self, data: Any, suffix: str, task: str | None) -> Staged:
        timestamps = TimestampRange(self.timestamp_column)
        groups: dict[str, list[Chunk]] = {}
        rows = 0
        for chunk in chunks_of(data):
            timestamps.observe(chunk)
            for partition, part in self._split(self._conform(chunk, rows)):
                groups.setdefault(partition, []).append(part)
            rows += len(chunk)
        finished: list[FileRef] = []
        try:
            each = one_by_one if rows < FEW_ROWS and is_nearby(self.store) else self.runtime.each
            each(lambda group: finished.append(self._write_group(group[0], group[1], suffix)), groups.items())
        except Exception:
            self.discard(finished)
            raise
        return _staged(finished, rows, timestamps, task)

    def _write_group(self, partition: str, chunks: list[Chunk], suffix: str) -> FileRef:
        file = self.record_file(partition, suffix)
        try:
            for chunk in chunks:
                file.write(chunk)
            return file.finish()
        except BaseException:
            file.abort()
            raise

    def _conform(self, chunk: Chunk, first_row: int) -> Chunk:
        """Let the codec check rows against its schema here, where their numbers are still the caller's."""
        codec = self.components.codec
        return codec.conform(chunk, first_row) if isinstance(codec, ConformingCodec) else chunk

    def _split(self, chunk: Chunk) -> Iterator[tuple[str, Chunk]]:
        return split(chunk, self.layout.keys) if self.layout.keys else iter([("", chunk)])

    def _path(self, partition: str, kind: str, suffix: str) -> str:
        name = f"{kind}{suffix}{self.components.compressor.extension}"
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


def _staged(files: Iterable[FileRef], rows: int, timestamps: TimestampRange, task: str | None) -> Staged:
    earliest = format_time(timestamps.min) if timestamps.min else None
    latest = format_time(timestamps.max) if timestamps.max else None
    return Staged(tuple(files), rows, earliest, latest, task)
