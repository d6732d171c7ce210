"""What load jobs need of a file, and what the readers of the formats share."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Protocol

from lode.ingest.decode.packed import value_bytes
from lode.ingest.jobs.job import error_of
from lode.ingest.status import Code, Refused, invalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import pyarrow as pa

    from lode.ingest.types.columns import TableSchema

# How messages name each format.
FORMATS: Final = {
    "CSV": "CSV",
    "NEWLINE_DELIMITED_JSON": "JSON",
    "PARQUET": "Parquet",
    "AVRO": "Avro",
    "ORC": "ORC",
}

# The limit of the service for one row of JSON or CSV.
MAX_ROW_BYTES: Final = 100 << 20
CHUNK_BYTES: Final = 1 << 20
SAMPLE_ROWS: Final = 500
# Batches have about this size, and at most so many rows. Larger ones are cut.
BATCH_BYTES: Final = 8 << 20
BATCH_ROWS: Final = 1 << 16
_MAX_BATCH_BYTES: Final = 4 * BATCH_BYTES
# The largest row as it is sent to the server, so also the largest batch of one row.
_MAX_SENT_ROW_BYTES: Final = 200 << 20
# Files may become this many times larger, and this many bytes in any case, before they are refused.
_MAX_EXPANSION: Final = 1000
_MIN_EXPANDED_BYTES: Final = 1 << 30
_GZIP_MAGIC: Final = b"\x1f\x8b"
# A member of a gzip file is given so few bytes first: zlib copies those that it does not use.
_FIRST_BYTES: Final = 256
_MAX_SHOWN_ERRORS: Final = 20


class Source(Protocol):
    """The rows of one uploaded file."""

    def schema(self) -> TableSchema | None:
        """The columns that the file itself names, or that were detected; None if it names none."""

    def batches(self, schema: TableSchema) -> Iterator[pa.RecordBatch]:
        """The rows in ``schema.arrow``. A refusal names the bad ones."""


@dataclass(slots=True)
class BadRecords:
    """Counts the bad rows of a file, and ends the job when there are more than it tolerates.

    Args:
        format: The name of the format in messages.
        tolerated: The number of bad rows that are skipped: ``maxBadRecords``.
    """

    format: str
    tolerated: int = 0
    rows: int = 0
    count: int = 0
    errors: list[dict[str, str]] = field(default_factory=list)

    def begin(self) -> None:
        """Count from the first row again."""
        self.rows = self.count = 0
        self.errors = []

    def add(self, message: str, location: str = "") -> None:
        """Count a bad row, or raise the refusal of the job."""
        self.count += 1
        if len(self.errors) < _MAX_SHOWN_ERRORS:
            self.errors.append(
                error_of(
                    Refused(
                        Code.INVALID_ARGUMENT,
                        f"Error while reading data, error message: {message}",
                        location=location,
                    )
                )
            )
        if self.count > self.tolerated:
            raise self._too_many()

    def _too_many(self) -> TooManyErrors:
        return TooManyErrors(
            f"Error while reading data, error message: {self.format} table encountered too many errors, "
            f"giving up. Rows: {self.rows}; errors: {self.count}. Please look into the errors[] collection "
            "for more details.",
            self.errors,
        )


class TooManyErrors(Refused):
    """More bad rows than the job tolerates; ``errors`` has the first of them."""

    def __init__(self, message: str, errors: list[dict[str, str]]) -> None:
        super().__init__(Code.INVALID_ARGUMENT, message)
        self.errors = errors


def unreadable(kind: str, error: Exception | str) -> Refused:
    """The refusal of a file that is not of the given format, or damaged."""
    reason = str(error).split("\n", 1)[0].rstrip(".") or type(error).__name__
    return invalid(
        f"Error while reading data, error message: The file cannot be read as {kind}: {reason}. Check the "
        "file and its sourceFormat."
    )


def bounded(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    """The batches, until they are much larger than the files of ``size`` bytes that they come from."""
    limit = _most_bytes(size)
    found = 0
    for batch in batches:
        # A row takes some time and some bytes of a file, even if all of its values are null.
        found += batch.nbytes + batch.num_rows
        if found > limit:
            raise invalid(
                f"The files have {size:,} bytes and become more than {limit:,} bytes of rows: load them in "
                "several jobs."
            )
        yield batch


def _most_bytes(size: int) -> int:
    return max(_MIN_EXPANDED_BYTES, _MAX_EXPANSION * size)


def cut(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches that are not larger than a batch should be, or that have one row."""
    for batch in batches:
        size = batch.nbytes
        if size <= _MAX_BATCH_BYTES:
            yield batch
        elif batch.num_rows > 1:
            half = batch.num_rows // 2
            yield from cut([batch.slice(0, half), batch.slice(half)])
        elif size > _MAX_SENT_ROW_BYTES:
            raise invalid(
                f"A row of the file has {size:,} bytes, the limit is {_MAX_SENT_ROW_BYTES:,}: send smaller "
                "rows."
            )
        else:
            yield batch


def rows_at_once(schema: TableSchema) -> int:
    """The number of rows that are decoded at once: a row takes memory for each column, sent or not."""
    width = sum(value_bytes(column) + 2 * len(column.default) for column in schema)
    return max(1, min(BATCH_ROWS, _MAX_BATCH_BYTES // max(1, width)))


class Bytes:
    """The bytes of a file from its beginning, decompressed if it is gzip; a readable file of Python."""

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = path.open("rb")
        self.closed = False
        magic = self._file.read(2)
        self._file.seek(0)
        self._inflate: Any = zlib.decompressobj(wbits=31) if magic == _GZIP_MAGIC else None
        self._left = _most_bytes(path.stat().st_size)
        # What was read, how much of it was inflated, and how much is inflated at once.
        self._chunk = memoryview(b"")
        self._done = 0
        self._step = _FIRST_BYTES

    def read(self, size: int = -1) -> bytes:
        """Return up to ``size`` bytes, none at the end."""
        size = CHUNK_BYTES if size is None or size < 0 else size
        if self._inflate is None:
            return self._file.read(size)
        while True:
            if self._done == len(self._chunk):
                self._chunk, self._done = memoryview(self._file.read(CHUNK_BYTES)), 0
            if not self._chunk:
                if not self._inflate.eof:
                    raise unreadable("gzip", "it ends too early")
                return b""
            if self._inflate.eof:  # files may have several members
                self._inflate = zlib.decompressobj(wbits=31)
                self._step = _FIRST_BYTES
            if found := self._inflated(size):
                return found

    def _inflated(self, size: int) -> bytes:
        """Inflate the next bytes. Twice as many each time, so that many small members stay cheap."""
        source = self._chunk[self._done : self._done + self._step]
        try:
            found: bytes = self._inflate.decompress(source, size)
        except zlib.error as error:
            raise unreadable("gzip", error) from None
        unused = self._inflate.unconsumed_tail or self._inflate.unused_data
        self._done += len(source) - len(unused)
        self._step = min(2 * self._step, CHUNK_BYTES)
        self._left -= len(found)
        if self._left < 0:
            raise invalid(
                "Error while reading data, error message: The file decompresses to more than "
                f"{_MAX_EXPANSION:,} times its size: load smaller files."
            )
        return found

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def writable(self) -> bool:
        return False

    def close(self) -> None:
        self.closed = True
        self._file.close()
