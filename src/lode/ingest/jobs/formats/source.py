"""What load jobs need of a file, and what the readers of the formats share."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Protocol

from lode.ingest.jobs.job import error_of
from lode.ingest.status import Code, Refused, invalid

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa

    from lode.ingest.types.columns import TableSchema

# The limit of the service for one row of JSON or CSV.
MAX_ROW_BYTES: Final = 100 << 20
CHUNK_BYTES: Final = 1 << 20
SAMPLE_ROWS: Final = 500
_GZIP_MAGIC: Final = b"\x1f\x8b"
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


class Bytes:
    """The bytes of a file from its beginning, decompressed if it is gzip; a readable file of Python."""

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = path.open("rb")
        self.closed = False
        magic = self._file.read(2)
        self._file.seek(0)
        self._inflate: Any = zlib.decompressobj(wbits=31) if magic == _GZIP_MAGIC else None
        self._rest = b""

    def read(self, size: int = -1) -> bytes:
        """Return up to ``size`` bytes, none at the end."""
        size = CHUNK_BYTES if size is None or size < 0 else size
        if self._inflate is None:
            return self._file.read(size)
        while True:
            source = self._rest or self._file.read(CHUNK_BYTES)
            if not source:
                if not self._inflate.eof:
                    raise unreadable("gzip", "it ends too early")
                return b""
            if self._inflate.eof:  # files may have several members
                self._inflate = zlib.decompressobj(wbits=31)
            try:
                found: bytes = self._inflate.decompress(source, size)
            except zlib.error as error:
                raise unreadable("gzip", error) from None
            self._rest = self._inflate.unconsumed_tail or self._inflate.unused_data
            if found:
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
