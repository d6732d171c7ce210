"""Files that are written into datasets: JSONL, CSV, Parquet and Arrow, from a path or from stdin."""

from __future__ import annotations

import io
import sys
from abc import ABC, abstractmethod
from contextlib import contextmanager, nullcontext
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lode.codec.jsonl import JSONL
from lode.errors import InvalidFormatError, InvalidOptionError
from lode.lazy import pa

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from typing import BinaryIO

    from lode.codec.protocol import Chunk

STDIN: Final = "-"
# So many chunks of JSON, of up to 8,192 rows each, say what its columns are.
_CHUNKS_ASKED: Final = 2
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


class Intake(ABC):
    """One file on its way in; its errors name it."""

    def __init__(self, name: str, kind: str) -> None:
        self._name = "stdin" if name == STDIN else name
        self._kind = kind
        # What was read ahead to find out whether there are rows.
        self._ahead: list[Chunk] = []
        self._iterator: Iterator[Chunk] | None = None

    def schema(self) -> pa.Schema:
        """Its columns."""
        with self._blamed():
            return self._schema()

    def has_rows(self) -> bool:
        """Whether there is a row; reads as far as the first."""
        while not any(map(len, self._ahead)):
            chunk = self._next()
            if chunk is None:
                return False
            self._ahead.append(chunk)
        return True

    def chunks(self) -> Iterator[Chunk]:
        """Its rows, once."""
        while self._ahead:
            yield self._ahead.pop(0)
        while (chunk := self._next()) is not None:
            yield chunk

    def _next(self) -> Chunk | None:
        with self._blamed():
            if self._iterator is None:
                self._iterator = self._rows()
            return next(self._iterator, None)

    @abstractmethod
    def _schema(self) -> pa.Schema: ...

    @abstractmethod
    def _rows(self) -> Iterator[Chunk]: ...

    @contextmanager
    def _blamed(self) -> Iterator[None]:
        try:
            yield
        except (InvalidFormatError, pa.ArrowInvalid) as error:
            raise InvalidFormatError(f"{self._name} is not good {self._kind}: {error}") from error


@contextmanager
def open_intake(name: str, kind: str | None, known: pa.Schema | None) -> Iterator[Intake]:
    """Open a file, or stdin; ``known`` columns are read as the types they have."""
    chosen = kind or (_KINDS.get(Path(name).suffix.lower()) if name != STDIN else "jsonl")
    if chosen is None:
        raise InvalidOptionError(f"{name} does not say what it is: say --from jsonl, csv, parquet or arrow")
    with open_bytes(name) as file:
        if chosen == "jsonl":
            yield _Records(name, chosen, file, known)
        else:
            yield _Batches(name, chosen, file, known)


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
    """Arrow comes as a file or as a stream; a file says so in its first bytes."""
    start = file.read(6)
    file.seek(0)
    if start != b"ARROW1":
        return pa.ipc.open_stream(file)
    found = pa.ipc.open_file(file)
    batches = (found.get_batch(number) for number in range(found.num_record_batches))
    return pa.RecordBatchReader.from_batches(found.schema, batches)


class _Batches(Intake):
    """What Arrow reads itself, in batches."""

    def __init__(self, name: str, kind: str, file: BinaryIO, known: pa.Schema | None) -> None:
        super().__init__(name, kind)
        with self._blamed():
            self._reader = _reader(kind, file, known)

    def _schema(self) -> pa.Schema:
        found: pa.Schema = self._reader.schema
        if self._kind == "csv":
            # A column without a value in the first block of a CSV file has no type of its own.
            texts = [
                field.with_type(pa.string()) if pa.types.is_null(field.type) else field for field in found
            ]
            return pa.schema(texts)
        return found.remove_metadata()

    def _rows(self) -> Iterator[Chunk]:
        return iter(self._reader)


class _Records(Intake):
    """JSON records; their first rows say what the columns are, if anybody asks."""

    def __init__(self, name: str, kind: str, file: BinaryIO, known: pa.Schema | None) -> None:
        super().__init__(name, kind)
        self._known = {field.name: field for field in known} if known is not None else {}
        self._file = file

    def _schema(self) -> pa.Schema:
        while len(self._ahead) < _CHUNKS_ASKED and (chunk := self._next()) is not None:
            self._ahead.append(chunk)
        values: dict[str, list[Any]] = {}
        records: Iterator[Any] = chain.from_iterable(self._ahead)  # type: ignore[arg-type]  # lists of records
        for number, record in enumerate(records):
            if not isinstance(record, dict):
                raise InvalidFormatError(f"row {number} is not an object, which columns are made from")
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
            f"column {name!r} is of no one type ({error}): say --schema, or --codec jsonl"
        ) from None
    return pa.string() if pa.types.is_null(found) else found
