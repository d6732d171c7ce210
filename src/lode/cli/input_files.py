"""Files to write into datasets: JSONL, CSV, Parquet and Arrow, from a path or from stdin."""

from __future__ import annotations

import io
import sys
from abc import ABC, abstractmethod
from contextlib import contextmanager, nullcontext
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lode.codec.columnar import arrow_batches
from lode.codec.components import codec_named
from lode.codec.jsonl import JSONL
from lode.codec.protocol import rows_of, takes_any_record
from lode.errors import InvalidFormatError, InvalidOptionError
from lode.lazy import pa

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager
    from typing import BinaryIO

    from lode.codec.protocol import Chunk
    from lode.definition import Definition

STDIN: Final = "-"
# The columns of JSON records are derived from this many chunks of up to 8,192 rows.
_SCHEMA_CHUNKS: Final = 2
_KINDS: Final = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".ipc": "arrow",
    ".feather": "arrow",
}


class InputFile(ABC):
    """The rows of one file. Its errors name the file."""

    def __init__(self, name: str, kind: str) -> None:
        self._name = "stdin" if name == STDIN else name
        self._kind = kind
        # Chunks that were read to find the columns, or to find out whether there are rows.
        self._ahead: list[Chunk] = []
        self._iterator: Iterator[Chunk] | None = None

    def schema(self) -> pa.Schema:
        """The columns of the file."""
        with self._named_errors():
            return self._schema()

    def has_rows(self) -> bool:
        """Whether there is a row. Reads up to the first one."""
        while not any(map(len, self._ahead)):
            chunk = self._next()
            if chunk is None:
                return False
            self._ahead.append(chunk)
        return True

    def chunks(self) -> Iterator[Chunk]:
        """The rows, once."""
        while self._ahead:
            yield self._ahead.pop(0)
        while (chunk := self._next()) is not None:
            yield chunk

    def _next(self) -> Chunk | None:
        with self._named_errors():
            if self._iterator is None:
                self._iterator = self._rows()
            return next(self._iterator, None)

    @abstractmethod
    def _schema(self) -> pa.Schema: ...

    @abstractmethod
    def _rows(self) -> Iterator[Chunk]: ...

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except (InvalidFormatError, pa.ArrowInvalid) as error:
            raise InvalidFormatError(f"{self._name} is not good {self._kind}: {error}") from error


@contextmanager
def open_input(name: str, kind: str | None, known: pa.Schema | None) -> Iterator[InputFile]:
    """Open a file, or stdin. Columns in ``known`` are read with their types there."""
    chosen = kind or (_KINDS.get(Path(name).suffix.lower()) if name != STDIN else "jsonl")
    if chosen is None:
        raise InvalidOptionError(f"{name} has no known suffix: add --from jsonl, csv, parquet or arrow")
    with open_bytes(name) as file:
        if chosen == "jsonl":
            yield _Records(name, chosen, file, known)
        else:
            yield _Batches(name, chosen, file, known)


def columns_of(definition: Definition, inputs: Sequence[InputFile]) -> pa.Schema | None:
    """The columns of all files together; None for JSON records that are stored as they are."""
    if takes_any_record(codec_named(definition.codec)) and definition.columns is None:
        return None
    columns: dict[str, pa.Field[Any]] = {}
    for file in inputs:
        for field in file.schema():
            columns.setdefault(field.name, field)
    return pa.schema(list(columns.values())) if columns else None


def batches_of(inputs: Sequence[InputFile], columns: pa.Schema) -> pa.RecordBatchReader:
    """The rows of all files in these columns."""
    chunks = (chunk for file in inputs for chunk in file.chunks())
    return pa.RecordBatchReader.from_batches(columns, arrow_batches(chunks, columns, from_json=True))


def records_of(inputs: Sequence[InputFile]) -> Iterator[Any]:
    """The rows of all files as records."""
    for file in inputs:
        for chunk in file.chunks():
            yield from rows_of(chunk)


def open_bytes(name: str) -> AbstractContextManager[BinaryIO]:
    """Open a file by its path, or stdin."""
    if name != STDIN:
        return Path(name).open("rb")
    if sys.stdin.isatty():
        print("lode: reading from the terminal; end with Ctrl-D", file=sys.stderr)
    return nullcontext(sys.stdin.buffer)


def _reader(kind: str, file: BinaryIO, known: pa.Schema | None) -> Any:
    if kind == "csv":
        from pyarrow import csv

        types = {field.name: field.type for field in known or ()}
        return csv.open_csv(file, convert_options=csv.ConvertOptions(column_types=types))
    seekable = file if file.seekable() else io.BytesIO(file.read())
    if kind == "parquet":
        import pyarrow.parquet as pq

        found = pq.ParquetFile(seekable)
        return pa.RecordBatchReader.from_batches(found.schema_arrow, found.iter_batches())
    return _arrow(seekable)


def _arrow(file: Any) -> Any:
    """Open an Arrow file or stream; a file begins with a magic number."""
    start = file.read(6)
    file.seek(0)
    if start != b"ARROW1":
        return pa.ipc.open_stream(file)
    found = pa.ipc.open_file(file)
    batches = (found.get_batch(number) for number in range(found.num_record_batches))
    return pa.RecordBatchReader.from_batches(found.schema, batches)


class _Batches(InputFile):
    """A file that pyarrow reads in batches."""

    def __init__(self, name: str, kind: str, file: BinaryIO, known: pa.Schema | None) -> None:
        super().__init__(name, kind)
        with self._named_errors():
            self._reader = _reader(kind, file, known)

    def _schema(self) -> pa.Schema:
        found: pa.Schema = self._reader.schema
        if self._kind == "csv":
            # pyarrow finds no type for a column without a value in the first block of a CSV file.
            texts = [
                field.with_type(pa.string()) if pa.types.is_null(field.type) else field for field in found
            ]
            return pa.schema(texts)
        return found.remove_metadata()

    def _rows(self) -> Iterator[Chunk]:
        return iter(self._reader)


class _Records(InputFile):
    """JSON records. The columns, if needed, are derived from the first rows."""

    def __init__(self, name: str, kind: str, file: BinaryIO, known: pa.Schema | None) -> None:
        super().__init__(name, kind)
        self._known = {field.name: field for field in known} if known is not None else {}
        self._file = file

    def _schema(self) -> pa.Schema:
        while len(self._ahead) < _SCHEMA_CHUNKS and (chunk := self._next()) is not None:
            self._ahead.append(chunk)
        values: dict[str, list[Any]] = {}
        records: Iterator[Any] = chain.from_iterable(self._ahead)  # type: ignore[arg-type]  # lists of records
        for number, record in enumerate(records):
            if not isinstance(record, dict):
                raise InvalidFormatError(f"row {number} is not an object, so it has no columns")
            for name, value in record.items():
                values.setdefault(name, []).append(value)
        return pa.schema(
            [self._known.get(name) or pa.field(name, _type_of(name, found)) for name, found in values.items()]
        )

    def _rows(self) -> Iterator[Chunk]:
        return JSONL().decode(self._file)


def _type_of(name: str, values: list[Any]) -> pa.DataType:
    try:
        found: pa.DataType = pa.array(values).type
    except pa.ArrowException as error:
        raise InvalidFormatError(
            f"column {name!r} has values of several types ({error}): add --schema, or --codec jsonl"
        ) from None
    return pa.string() if pa.types.is_null(found) else found
