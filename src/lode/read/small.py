"""Read many small Parquet files: each whole, in one request, and several at the same time.

A scanner of pyarrow needs several tasks and requests for every file. For a file of a thousand rows that takes
longer than reading it.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final

from lode.errors import InvalidFormatError
from lode.lazy import pa
from lode.read.source import get_file
from lode.store.protocol import is_nearby

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lode.codec.protocol import WholeReadCodec
    from lode.format.manifest import FileRef
    from lode.runtime import Runtime
    from lode.store.protocol import Store

# A larger file is worth a scanner, which reads only the columns and row groups that are wanted.
MAX_SMALL_BYTES: Final = 256 << 10
MAX_SMALL_ROWS: Final = 16_384
# What is in memory at a time, decoded. The first round is small: a caller may want only a few rows, and how
# large the rows of a file are is known after it was decoded.
FIRST_ROUND_FILES: Final = 8
MAX_ROUND_FILES: Final = 256
MAX_ROUND_ROWS: Final = 262_144
MAX_ROUND_BYTES: Final = 16 << 20
# Threads for a store that answers slowly.
REMOTE_THREADS: Final = 16
# On others, threads that decode. Each must have so many bytes of a file to decode: opening a file holds the
# interpreter's lock for as long.
MAX_THREADS: Final = 4
MIN_THREAD_BYTES: Final = 4 << 10
# How many files a thread reads, then opens, then decodes. While one thread opens files, others decode; if
# both were mixed, the threads would wait for the interpreter's lock several times for every file. Larger
# batches take less of the processor on one thread too: 5 to 8 % less by 32 than by 8, for one column.
MAX_OPEN_FILES: Final = 32
MAX_OPEN_BYTES: Final = 1 << 20


def is_small(file: FileRef) -> bool:
    """Whether the file is read whole; its number of rows must be known."""
    return (
        file.stats is not None
        and 0 < file.size_bytes <= MAX_SMALL_BYTES
        and file.stats.row_count <= MAX_SMALL_ROWS
    )


def read_small(
    store: Store,
    codec: WholeReadCodec,
    files: Sequence[FileRef],
    schema: pa.Schema,
    runtime: Runtime,
    *,
    share: float = 1.0,
    alone: bool = False,
    check: Callable[[FileRef, bytes], None] | None = None,
) -> Iterator[tuple[FileRef, list[pa.RecordBatch] | None]]:
    """Yield small files in order, each with its rows; None for a file whose columns have other types.

    Args:
        store: Where they are.
        codec: Decodes them.
        files: The files, in the order in which their rows are wanted.
        schema: The columns that are wanted, by their names in the files. One that a file lacks is null.
        runtime: Has the threads.
        share: The part of a file's columns that is wanted.
        alone: Whether to decode on one thread, because other processes use the other cores.
        check: Raises for a file with wrong bytes.
    """
    threads, batch = _threads(store, files, share)
    if alone and is_nearby(store):
        threads = 1
    start, size, limit = 0, 1, FIRST_ROUND_FILES
    while start < len(files):
        count = _round(files, start, min(limit, max(threads, MAX_ROUND_BYTES // size)))
        round_ = _Round(store, codec, files[start : start + count], schema, threads, batch, check)
        runtime.each(round_.work, range(threads))
        # Files of one dataset are alike: these say how many fit into memory next.
        size = max(1, round_.held // len(round_.done))
        yield from round_.results()
        start += count
        limit = min(limit * 8, MAX_ROUND_FILES)


class _Round:
    """Files that are read by several threads at the same time."""

    def __init__(
        self,
        store: Store,
        codec: WholeReadCodec,
        files: Sequence[FileRef],
        schema: pa.Schema,
        threads: int,
        batch: int,
        check: Callable[[FileRef, bytes], None] | None = None,
    ) -> None:
        self._store = store
        self._codec = codec
        self._files = files
        self._schema = schema
        self._threads = threads
        self._batch = batch
        self._check = check
        self._taken = 0
        self._opening = Lock()
        self._counting = Lock()
        # Rows by the number of their file, and their size in memory.
        self.done: dict[int, list[pa.RecordBatch] | None] = {}
        self.held = 0

    def work(self, _thread: int) -> None:
        """Read files that no other thread reads, until all of them take too much memory."""
        while self.held <= MAX_ROUND_BYTES:
            first, files = self._take()
            if not files:
                return
            data = list(map(self._get, files))
            with self._opening:
                opened = list(map(self._open, files, data))
            del data
            for number, file in enumerate(files):
                batches = self.done[first + number] = self._decode(file, opened[number])
                size = sum(batch.get_total_buffer_size() for batch in batches or ())
                with self._counting:
                    self.held += size
                if self.held > MAX_ROUND_BYTES:
                    return

    def _take(self) -> tuple[int, Sequence[FileRef]]:
        """The next files, and the number of the first; fewer of them towards the end of the round.

        So all threads end at about the same time.
        """
        with self._counting:
            first = self._taken
            left = len(self._files) - first
            limit = min(self._batch, left if self._threads == 1 else -(-left // (2 * self._threads)))
            size = 0
            while self._taken < first + limit and size < MAX_OPEN_BYTES:
                size += self._files[self._taken].size_bytes
                self._taken += 1
            return first, self._files[first : self._taken]

    def results(self) -> Iterator[tuple[FileRef, list[pa.RecordBatch] | None]]:
        """All files in order. Those that did not fit into memory are read one by one."""
        for number, file in enumerate(self._files):
            if number in self.done:
                yield file, self.done.pop(number)
            else:
                yield file, self._decode(file, self._open(file, self._get(file)))

    def _get(self, file: FileRef) -> bytes:
        data = get_file(self._store, file)
        if self._check is not None:
            self._check(file, data)
        return data

    def _open(self, file: FileRef, data: bytes) -> Callable[[Sequence[str]], pa.Table]:
        try:
            return self._codec.open_whole(data)
        except (pa.ArrowException, OSError, UnicodeError) as error:
            raise InvalidFormatError(f"{file.path} cannot be read: {error}") from error

    def _decode(
        self, file: FileRef, decode: Callable[[Sequence[str]], pa.Table]
    ) -> list[pa.RecordBatch] | None:
        try:
            table = decode(self._schema.names)
        except (pa.ArrowException, OSError, UnicodeError) as error:
            raise InvalidFormatError(f"{file.path} cannot be read: {error}") from error
        return _in_schema(table, self._schema)


def _threads(store: Store, files: Sequence[FileRef], share: float) -> tuple[int, int]:
    """How many threads read, and how many files each opens at a time."""
    if not is_nearby(store):
        return REMOTE_THREADS, 1
    wanted = share * sum(file.size_bytes for file in files) / max(1, len(files))
    return max(1, min(pa.cpu_count(), MAX_THREADS, int(wanted) // MIN_THREAD_BYTES)), MAX_OPEN_FILES


def _round(files: Sequence[FileRef], start: int, limit: int) -> int:
    """How many files from ``start`` on to read at the same time."""
    rows = count = 0
    while count < limit and start + count < len(files) and rows < MAX_ROUND_ROWS:
        stats = files[start + count].stats
        rows += stats.row_count if stats is not None else MAX_SMALL_ROWS
        count += 1
    return count


def _in_schema(table: pa.Table, schema: pa.Schema) -> list[pa.RecordBatch] | None:
    """The rows with exactly these columns; None if one has another type."""
    if table.schema.equals(schema, check_metadata=True):
        return table.to_batches()
    if table.schema.equals(schema):
        # Parquet's field ids are metadata of the columns of a file.
        return pa.Table.from_arrays(table.columns, schema=schema).to_batches()
    names = table.schema.names
    arrays = []
    for field in schema:
        if field.name not in names:
            arrays.append(pa.nulls(table.num_rows, field.type))
        elif names.count(field.name) == 1 and table.schema.field(field.name).type == field.type:
            arrays.append(table.column(field.name))
        else:
            return None
    return pa.Table.from_arrays(arrays, schema=schema).to_batches()
