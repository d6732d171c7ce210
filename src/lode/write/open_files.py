"""Files of records that are open during a write: each ends at a target size, its rows sorted if asked for."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from lode.codec.records import BYTES_PER_CHUNK, chunk_bytes
from lode.errors import InvalidOptionError
from lode.lazy import pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lode.codec.protocol import Chunk
    from lode.format.manifest import FileRef
    from lode.write.file import RecordFile

TARGET_FILE_BYTES: Final = 128 << 20
# Partitions that a streaming write keeps open. The one that was written to least recently is finished first.
MAX_OPEN_FILES: Final = 32
# Arrow data held in memory for all open files of a streaming write.
MAX_HELD_BYTES: Final = 256 << 20
# An encoder holds about one row group.
_MAX_ENCODER_BYTES: Final = 32 << 20


class RollingFile:
    """The files of one partition, one after another: a file ends when it has reached the target size.

    With ``sort_by`` the Arrow rows of a file are held and sorted before they are encoded, so a file ends at
    that much unencoded data. Records of JSON lines keep their order: no reader skips a part of such a file.

    Args:
        open_file: Opens a file, given the end of its name.
        suffix: The end of the first file's name. Later names sort after it, and before the next suffix.
        finished: Gets every finished file. The caller discards them if the write fails.
        target_bytes: Stored bytes at which another file begins.
        sort_by: Columns by which the rows of each file are sorted.
    """

    def __init__(
        self,
        open_file: Callable[[str], RecordFile],
        suffix: str,
        finished: list[FileRef],
        *,
        target_bytes: int = TARGET_FILE_BYTES,
        sort_by: tuple[str, ...] = (),
    ) -> None:
        self._open_file = open_file
        self._suffix = suffix
        self._finished = finished
        self._target_bytes = target_bytes
        self._sort_by = sort_by
        self._file: RecordFile | None = None
        self._begun = 0
        self._unsorted: list[pa.RecordBatch] = []
        self._unsorted_bytes = 0
        self._encoded_bytes = 0

    @property
    def held_bytes(self) -> int:
        """About how much data is in memory for the file that is open."""
        return self._unsorted_bytes or min(self._encoded_bytes, _MAX_ENCODER_BYTES)

    def write(self, chunk: Chunk) -> None:
        for piece in self._pieces(chunk):
            if self._sort_by and not isinstance(piece, list):
                self._unsorted.append(piece)
                self._unsorted_bytes += piece.nbytes
                if self._unsorted_bytes >= self._target_bytes:
                    self._end_file()
                continue
            file = self._file or self._begin_file()
            file.write(piece)
            if file.size >= self._target_bytes:
                self._end_file()

    def count_held(self, chunk: Chunk) -> None:
        """Count a chunk that was written as held by the encoder. Measuring it takes as long as writing it."""
        if self._file is not None:
            self._encoded_bytes += chunk_bytes(chunk)

    def finish(self) -> None:
        """Finish the file that is open. Without any rows it is an empty one."""
        if self._file is not None or self._unsorted or not self._begun:
            self._end_file()

    def abort(self) -> None:
        if self._file is not None:
            self._file.abort()

    def _pieces(self, chunk: Chunk) -> Iterable[Chunk]:
        """Cut a batch, so that a file does not grow far past the target."""
        limit = min(self._target_bytes, BYTES_PER_CHUNK)
        # Whole buffers are measured at once. The rows of a slice need a look at every column.
        if isinstance(chunk, list) or chunk.get_total_buffer_size() <= limit:
            return (chunk,)
        rows = max(1, chunk.num_rows * limit // max(chunk.nbytes, 1))
        return (chunk.slice(start, rows) for start in range(0, chunk.num_rows, rows))

    def _begin_file(self) -> RecordFile:
        # "_" sorts after "." and "-", with which a name may go on.
        suffix = f"{self._suffix}_{self._begun:05d}" if self._begun else self._suffix
        self._file = self._open_file(suffix)
        self._begun += 1
        return self._file

    def _end_file(self) -> None:
        file = self._file or self._begin_file()
        if self._unsorted:
            rows, self._unsorted, self._unsorted_bytes = self._unsorted, [], 0
            for batch in sorted_rows(pa.Table.from_batches(rows), self._sort_by).to_batches():
                file.write(batch)
        self._finished.append(file.finish())
        self._file, self._encoded_bytes = None, 0


class OpenFiles:
    """The open files of a streaming write, by partition; their number and memory are bounded."""

    def __init__(self, open_file: Callable[[str, int, list[FileRef]], RollingFile]) -> None:
        self._open_file = open_file
        self._open: OrderedDict[str, RollingFile] = OrderedDict()
        self._begun = 0
        self.finished: list[FileRef] = []

    def write(self, partition: str, chunk: Chunk) -> None:
        file = self._open.get(partition)
        if file is None:
            file = self._open[partition] = self._open_file(partition, self._begun, self.finished)
            self._begun += 1
        self._open.move_to_end(partition)
        file.write(chunk)
        file.count_held(chunk)
        while len(self._open) > MAX_OPEN_FILES or self._held_bytes() > MAX_HELD_BYTES:
            self._finish(next(iter(self._open)))

    def finish(self) -> list[FileRef]:
        """Finish all files, and return them in the order of their paths."""
        while self._open:
            self._finish(next(iter(self._open)))
        return sorted(self.finished, key=lambda file: file.path)

    def abort(self) -> None:
        for file in self._open.values():
            file.abort()

    def _finish(self, partition: str) -> None:
        self._open[partition].finish()
        del self._open[partition]

    def _held_bytes(self) -> int:
        return sum(file.held_bytes for file in self._open.values())


def sorted_rows(table: pa.Table, sort_by: tuple[str, ...]) -> pa.Table:
    """Sort rows by columns, ascending, nulls last; rows with equal values keep their order.

    Raises:
        InvalidOptionError: A column is missing, or the values of some column have no order.
    """
    import pyarrow.compute as pc

    _check_names(table.schema, sort_by)
    keys: Any = table.select(list(sort_by))
    try:
        for number, field in enumerate(keys.schema):
            if pa.types.is_dictionary(field.type):
                decoded = keys.column(number).cast(field.type.value_type)
                keys = keys.set_column(number, field.name, decoded)
        order: Any = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in sort_by])
        return table.take(order)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidOptionError(
            f"the rows cannot be sorted by {', '.join(sort_by)} ({error}): choose columns of numbers, text "
            "or times"
        ) from error


def check_sort_by(schema: pa.Schema, sort_by: tuple[str, ...]) -> None:
    """Refuse columns that do not exist or whose values have no order, before there are rows."""
    _check_names(schema, sort_by)
    empty = schema.empty_table()
    for name in sort_by:
        sorted_rows(empty, (name,))


def _check_names(schema: pa.Schema, sort_by: tuple[str, ...]) -> None:
    for name in sort_by:
        if name not in schema.names:
            raise InvalidOptionError(
                f"the rows are to be sorted by {name!r}, which is no column: there are "
                f"{', '.join(schema.names)}"
            )
