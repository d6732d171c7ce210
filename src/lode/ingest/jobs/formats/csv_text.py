"""CSV files: read by Arrow as text, which is then read as the values of ``insertAll`` are."""

from __future__ import annotations

import codecs
import csv
import io
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

from lode.format.ids import shortened
from lode.ingest.decode.json import JsonRows
from lode.ingest.jobs.formats.detect import detect_csv
from lode.ingest.jobs.formats.source import SAMPLE_ROWS, Bytes, rows_at_once, unreadable
from lode.ingest.status import Refused, invalid
from lode.lazy import pa

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lode.ingest.jobs.formats.source import BadRecords
    from lode.ingest.types.columns import TableSchema

# A row must fit into one block.
BLOCK_BYTES: Final = 8 << 20
_SAMPLE_BYTES: Final = 4 << 20
# Arrow has no larger number of lines to skip, and no file has so many.
_MAX_SKIPPED: Final = (1 << 31) - 1
_DELIMITERS: Final = (",", "|", "\t", ";")
_ENCODINGS: Final = {
    "": "utf-8",
    "UTF-8": "utf-8",
    "ISO-8859-1": "iso-8859-1",
    "UTF-16BE": "utf-16-be",
    "UTF-16LE": "utf-16-le",
    "UTF-32BE": "utf-32-be",
    "UTF-32LE": "utf-32-le",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvOptions:
    """The options of a load job for CSV; None is the service's default."""

    delimiter: str | None = None
    quote: str = '"'
    quoted_newlines: bool = False
    skip_rows: int | None = None
    null_marker: str = ""
    jagged_rows: bool = False
    ignore_unknown: bool = False
    encoding: str = "utf-8"
    autodetect: bool = False
    control_characters: bool = False


def csv_options(settings: dict[str, Any], *, ignore_unknown: bool, autodetect: bool) -> CsvOptions:
    """Read the options from a configuration, or refuse them."""
    delimiter = settings.get("fieldDelimiter")
    if delimiter is not None:
        delimiter = {"\\t": "\t", "tab": "\t"}.get(delimiter, delimiter)
        if not isinstance(delimiter, str) or len(delimiter) != 1:
            raise invalid(f"Invalid value for fieldDelimiter: {delimiter!r} is not one character.")
    quote = settings.get("quote")
    quote = '"' if quote is None else quote
    if not isinstance(quote, str) or len(quote) > 1:
        raise invalid(f"Invalid value for quote: {quote!r} is not one character, or empty for none.")
    encoding = settings.get("encoding") or ""
    if encoding not in _ENCODINGS:
        raise invalid(
            f"Invalid value for encoding: {shortened(str(encoding))} is not one of "
            f"{', '.join(filter(None, _ENCODINGS))}."
        )
    marker = settings.get("nullMarker") or ""
    if not isinstance(marker, str):
        raise invalid("Invalid value for nullMarker: it must be text.")
    return CsvOptions(
        delimiter=delimiter,
        quote=quote,
        quoted_newlines=settings.get("allowQuotedNewlines") in (True, "true"),
        skip_rows=integer(settings, "skipLeadingRows"),
        null_marker=marker,
        jagged_rows=settings.get("allowJaggedRows") in (True, "true"),
        ignore_unknown=ignore_unknown,
        encoding=_ENCODINGS[encoding],
        autodetect=autodetect,
        control_characters=settings.get("preserveAsciiControlCharacters") in (True, "true"),
    )


def integer(settings: dict[str, Any], key: str) -> int | None:
    """A whole number of the configuration, also as text; None if it is missing."""
    found = settings.get(key)
    if found is None:
        return None
    text = str(found)
    if isinstance(found, bool) or not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise invalid(f"Invalid value for {key}: {shortened(text)} is not a whole number of 0 or more.")
    return int(text)


class Csv:
    """A CSV file.

    Args:
        path: The file; gzip is decompressed.
        bad: Counts the bad rows.
        options: How it is read.
        given: The columns of the configuration, in the order of the file; None if it has none.
    """

    def __init__(self, path: Path, bad: BadRecords, options: CsvOptions, given: TableSchema | None) -> None:
        self._path = path
        self._bad = bad
        self._options = options
        self._given = given
        self._detected: TableSchema | None = None
        # Whether the file itself names its columns.
        self.has_header = False
        self._skip = options.skip_rows or 0
        self._delimiter = options.delimiter or ","
        if options.autodetect and given is None:
            self._detect()

    def schema(self) -> TableSchema | None:
        return self._detected

    def _detect(self) -> None:
        text = self._sample()
        if self._options.delimiter is None:
            first = text.partition("\n")[0]
            self._delimiter = max(_DELIMITERS, key=first.count) if text else ","
        reader = csv.reader(
            io.StringIO(text),
            delimiter=self._delimiter,
            quotechar=self._options.quote or None,
            quoting=csv.QUOTE_MINIMAL if self._options.quote else csv.QUOTE_NONE,
        )
        skip = self._options.skip_rows
        try:
            rows = list(islice(reader, max(0, (skip or 0) - 1) + SAMPLE_ROWS + 1))
        except csv.Error as error:
            raise unreadable("CSV", error) from None
        rows = rows[max(0, (skip or 0) - 1) :]
        found = detect_csv(rows, self._options.null_marker, header=skip != 0)
        self._detected, self.has_header = found
        self._skip = skip or int(self.has_header)

    def _sample(self) -> str:
        """The first rows as text."""
        decoder = codecs.getincrementaldecoder(self._options.encoding)(errors="replace")
        source = Bytes(self._path)
        text = ""
        try:
            while len(text) < _SAMPLE_BYTES and text.count("\n") <= SAMPLE_ROWS + self._skip:
                chunk = source.read()
                text += decoder.decode(chunk, final=not chunk)
                if not chunk:
                    return text.removeprefix("\ufeff")
        finally:
            source.close()
        return text.removeprefix("\ufeff").rpartition("\n")[0]

    def batches(self, schema: TableSchema) -> Iterator[pa.RecordBatch]:
        # Without a header, the columns of the table are those of the file in their order.
        named = self._given or (self._detected if self.has_header else None) or schema
        names = [column.name for column in named]
        known = {name: schema.positions.get(name.lower()) for name in names}
        spelt = {name: schema.columns[at].name for name, at in known.items() if at is not None}
        for name in spelt.values():
            own = schema.columns[schema.positions[name.lower()]]
            if own.mode == "REPEATED" or own.children:
                raise invalid(
                    f"Column {own.name!r} is {own.mode} {own.type}, and CSV has only single values: load "
                    "JSON, Avro or Parquet instead."
                )
        decoder = JsonRows(schema)
        at_once = rows_at_once(schema)
        jagged: list[list[str | None]] = []
        for texts in self._texts(names, jagged):
            first, self._bad.rows = self._bad.rows, self._bad.rows + texts.num_rows
            for characters, complaint in self._refused():
                texts = self._without(characters, complaint, texts, first)
            for start in range(0, texts.num_rows, at_once):
                part = texts.slice(start, at_once)
                found = _named(names, part.columns, spelt)
                yield from self._decoded(decoder, found, part.num_rows, first + start)
            rows, jagged[:] = list(jagged), []
            for start in range(0, len(rows), at_once):
                columns = _padded(rows[start : start + at_once], len(names))
                count = len(rows[start : start + at_once])
                yield from self._decoded(decoder, _named(names, columns, spelt), count, self._bad.rows)
                self._bad.rows += count

    def _refused(self) -> Iterator[tuple[str, str]]:
        """Characters that values must not have, each time with the reason."""
        if not self._options.quoted_newlines:  # Arrow reads them over several lines
            complaint = "Missing close quote character: a value has a line break, set allowQuotedNewlines."
            yield "\r\n", complaint
        if not self._options.control_characters:
            yield (
                "\0",
                "Bad character (ASCII 0) encountered: set preserveAsciiControlCharacters to keep it.",
            )

    def _without(self, characters: str, complaint: str, texts: pa.RecordBatch, first: int) -> pa.RecordBatch:
        """The rows without those that have a value with one of the characters."""
        # Matching every value took half of the time of a load.
        if not any(_has(column, characters) for column in texts.columns):
            return texts
        import pyarrow.compute as pc

        compute: Any = pc
        pattern = "[" + "".join(f"\\x{ord(each):02x}" for each in characters) + "]"
        broken = [compute.match_substring_regex(column, pattern) for column in texts.columns]
        bad = pa.array([any(row) for row in zip(*(mask.to_pylist() for mask in broken), strict=True)])
        for index in compute.indices_nonzero(bad).to_pylist():
            self._bad.add(f"Error detected while parsing row {first + index + self._skip + 1}: {complaint}")
        return texts.filter(compute.invert(bad))

    def _decoded(
        self, decoder: JsonRows, columns: dict[str, Any], rows: int, first: int
    ) -> Iterator[pa.RecordBatch]:
        while rows:
            try:
                yield decoder.decode_text(columns, rows)
                return
            except Refused as refused:
                if not refused.rows:
                    raise
                found = refused.rows
            for problem in found:
                self._bad.add(f"Row {first + problem.index + self._skip + 1}: {problem.message}")
            gone = {problem.index for problem in found}
            kept = pa.array([index for index in range(rows) if index not in gone], pa.int64())
            columns = {name: column.take(kept) for name, column in columns.items()}
            rows = len(kept)

    def _texts(self, names: list[str], jagged: list[list[str | None]]) -> Iterator[pa.RecordBatch]:
        """The rows as text. Rows with another number of values are bad, or go to ``jagged``."""
        import pyarrow.csv

        pacsv: Any = pyarrow.csv  # the stubs lack files of Python
        options = self._options
        width = len(names)

        def other_width(row: Any) -> str:
            values = self._values(row.text) if row.text is not None else None
            count = row.actual_columns
            if values is not None and count < width and options.jagged_rows:
                jagged.append(values)
            elif values is not None and count > width and options.ignore_unknown:
                jagged.append(values[:width])
            else:
                problems.append(
                    f"Too {'many' if count > width else 'few'} values in row: it has {count}, the table has "
                    f"{width} columns."
                )
            return "skip"

        problems: list[str] = []
        source = Bytes(self._path)
        try:
            try:
                reader = pacsv.open_csv(
                    pa.PythonFile(cast("Any", source), mode="r"),
                    read_options=pacsv.ReadOptions(
                        use_threads=False,
                        block_size=BLOCK_BYTES,
                        skip_rows=min(self._skip, _MAX_SKIPPED),
                        column_names=names,
                        encoding=options.encoding,
                    ),
                    parse_options=pacsv.ParseOptions(
                        delimiter=self._delimiter,
                        quote_char=options.quote or False,
                        double_quote=True,
                        newlines_in_values=options.quoted_newlines,
                        invalid_row_handler=other_width,
                    ),
                    convert_options=pacsv.ConvertOptions(
                        column_types=dict.fromkeys(names, pa.string()),
                        null_values=[options.null_marker],
                        strings_can_be_null=True,
                        quoted_strings_can_be_null=False,
                    ),
                )
            except pa.ArrowInvalid as error:
                if "Empty CSV file" in str(error):
                    return
                raise
            while True:
                batch = next(reader, None)
                for problem in problems:
                    self._bad.rows += 1
                    self._bad.add(problem)
                problems.clear()
                if batch is not None:
                    yield batch
                    continue
                if jagged:
                    yield pa.RecordBatch.from_pylist([], schema=pa.schema(dict.fromkeys(names, pa.string())))
                return
        except (pa.ArrowException, UnicodeError) as error:
            raise unreadable("CSV", error) from None
        finally:
            source.close()

    def _values(self, text: str) -> list[str | None]:
        reader = csv.reader(
            [text],
            delimiter=self._delimiter,
            quotechar=self._options.quote or None,
            quoting=csv.QUOTE_MINIMAL if self._options.quote else csv.QUOTE_NONE,
        )
        marker = self._options.null_marker
        return [None if value == marker else value for value in next(reader, [])]


def _named(names: list[str], columns: list[Any], spelt: dict[str, str]) -> dict[str, Any]:
    """The columns of a file that the table has, by the table's names."""
    return {spelt[name]: column for name, column in zip(names, columns, strict=True) if name in spelt}


def _padded(rows: list[list[str | None]], width: int) -> list[Any]:
    """Columns of rows that have fewer values than columns."""
    longest = max(map(len, rows))
    nothing = pa.nulls(len(rows), pa.string())
    return [
        pa.array([row[position] if position < len(row) else None for row in rows], pa.string())
        if position < longest
        else nothing
        for position in range(width)
    ]


def _has(column: Any, characters: str) -> bool:
    """Whether a buffer of texts has one of the characters."""
    data = column.buffers()[2]
    return data is not None and any(each.encode() in data.to_pybytes() for each in characters)
