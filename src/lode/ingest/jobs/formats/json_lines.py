"""JSON files with one object on each line."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lode.ingest.decode.json import JsonRows
from lode.ingest.jobs.formats.detect import detect_json
from lode.ingest.jobs.formats.source import MAX_ROW_BYTES, SAMPLE_ROWS, Bytes, rows_at_once, unreadable
from lode.ingest.status import Refused, invalid

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa

    from lode.ingest.jobs.formats.source import BadRecords
    from lode.ingest.types.columns import TableSchema

# Parsed rows take many times their size in memory.
_BATCH_BYTES: Final = 4 << 20
_BATCH_ROWS: Final = 8192
_SAMPLE_BYTES: Final = 16 << 20
# The rest of a line from its first character that is no space.
_LINE: Final = re.compile(rb"\S[^\n]*")


class JsonLines:
    """A file of JSON lines.

    Args:
        path: The file; gzip is decompressed.
        bad: Counts the bad rows.
        ignore_unknown: Ignore values that no column takes.
        autodetect: Detect the columns from the first rows.
    """

    def __init__(self, path: Path, bad: BadRecords, *, ignore_unknown: bool, autodetect: bool) -> None:
        self._path = path
        self._bad = bad
        self._ignore_unknown = ignore_unknown
        self._autodetect = autodetect

    def schema(self) -> TableSchema | None:
        if not self._autodetect:
            return None
        rows = []
        wrong = ""
        size = 0
        for place, line in self._lines():
            size += len(line)
            try:
                rows.append(_parsed(line))
            except ValueError as error:  # counted as a bad row when it is loaded
                wrong = wrong or f"JSON parsing error in row starting at position {place}: {error}"
            if len(rows) == SAMPLE_ROWS or size > _SAMPLE_BYTES:
                break
        if wrong and not rows:
            raise unreadable("JSON", wrong)
        return detect_json(rows)

    def batches(self, schema: TableSchema) -> Iterator[pa.RecordBatch]:
        decoder = JsonRows(schema, ignore_unknown=self._ignore_unknown)
        at_once = min(_BATCH_ROWS, rows_at_once(schema))
        rows: list[Any] = []
        places: list[int] = []
        size = 0
        for place, line in self._lines():
            self._bad.rows += 1
            try:
                rows.append(_parsed(line))
            except ValueError as error:
                self._bad.add(f"JSON parsing error in row starting at position {place}: {error}")
                continue
            places.append(place)
            size += len(line)
            if size >= _BATCH_BYTES or len(rows) == at_once:
                yield from self._decoded(decoder, rows, places)
                rows, places, size = [], [], 0
        if rows:
            yield from self._decoded(decoder, rows, places)

    def _decoded(self, decoder: JsonRows, rows: list[Any], places: list[int]) -> Iterator[pa.RecordBatch]:
        while rows:
            try:
                yield decoder.decode(rows)
                return
            except Refused as refused:
                if not refused.rows:
                    raise
                found = refused.rows
            for problem in found:
                self._bad.add(
                    f"JSON parsing error in row starting at position {places[problem.index]}: "
                    f"{problem.message}"
                )
            gone = {problem.index for problem in found}
            places = [place for index, place in enumerate(places) if index not in gone]
            rows = [row for index, row in enumerate(rows) if index not in gone]

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        """Lines with their positions, without empty ones."""
        source = Bytes(self._path)
        try:
            # The beginning of a line in pieces: joined once, as a line may be long.
            pieces: list[bytes] = []
            place = waiting = 0
            while chunk := source.read():
                end = chunk.rfind(b"\n") + 1
                if end:
                    lines = b"".join([*pieces, chunk[:end]])
                    yield from _split(lines, place)
                    place += len(lines)
                    pieces, waiting = [], 0
                pieces.append(chunk[end:])
                waiting += len(chunk) - end
                if waiting > MAX_ROW_BYTES:
                    raise invalid(
                        f"Error while reading data, error message: the row starting at position {place} has "
                        f"more than {MAX_ROW_BYTES:,} bytes: send smaller rows."
                    )
            yield from _split(b"".join(pieces), place)
        finally:
            source.close()


def _split(lines: bytes, place: int) -> Iterator[tuple[int, bytes]]:
    """The lines that are not empty, with their positions. ``place`` is that of the first."""
    if lines.isspace():  # much faster than a search
        return
    after = 0
    for found in _LINE.finditer(lines):
        begin = lines.rfind(b"\n", after, found.start()) + 1 or after
        after = found.end()
        yield place + begin, lines[begin:after]


_decode: Final = msgspec.json.Decoder(float_hook=Decimal).decode


def _parsed(line: bytes) -> Any:
    """The value of a line, or ``ValueError``."""
    try:
        try:
            return _decode(line)
        except (msgspec.DecodeError, UnicodeError):
            # Python's parser takes a little more, such as lone surrogates, and its messages are known.
            return json.loads(line, parse_float=Decimal)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    except ValueError as error:
        if type(error) is not ValueError:
            raise
        raise ValueError("a number has too many digits") from None
