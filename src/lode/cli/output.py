"""Rows on stdout: a table for people; jsonl, csv, arrow or parquet for programs."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

from lode.cli.terminal import FAINT, TextTable, console, print_lines, progress
from lode.describe import are_numbers
from lode.errors import InvalidOptionError
from lode.lazy import pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO

    from lode.codec.protocol import Chunk

Format: TypeAlias = Literal["table", "jsonl", "csv", "arrow", "parquet"]

DEFAULT_TABLE_ROWS: Final = 100
_MAX_CELL_WIDTH: Final = 40


def choose_format(form: Format | None, *, json: bool) -> Format:
    """Return the format of ``--format``, or a default. ``--json`` is ``--format jsonl``."""
    if json and form not in (None, "jsonl"):
        raise InvalidOptionError(f"--json and --format {form} contradict each other: give one of them")
    if json:
        return "jsonl"
    on_terminal = sys.stdout.isatty()
    if form in ("arrow", "parquet") and on_terminal:
        raise InvalidOptionError(f"{form} is not for a terminal: send it to a file or a pipe")
    return form or ("table" if on_terminal else "jsonl")


def print_rows(
    chunks: Iterable[Chunk], form: Format, *, limit: int | None, schema: pa.Schema | None = None
) -> None:
    """Print rows. csv, arrow and parquet need Arrow batches of one ``schema``; the others take any chunks."""
    if form == "table":
        _table(chunks, DEFAULT_TABLE_ROWS if limit is None else limit, schema)
        return
    sys.stdout.flush()
    out = sys.stdout.buffer
    rows = chunks if limit is None else first(chunks, limit)
    with _counted(rows) as counted:
        if form == "jsonl":
            _jsonl(counted, out)
        else:
            assert schema is not None
            {"csv": _csv, "arrow": _arrow, "parquet": _parquet}[form](counted, schema, out)
    out.flush()


@contextmanager
def _counted(chunks: Iterable[Chunk]) -> Iterator[Iterable[Chunk]]:
    """Show progress, unless the rows themselves go to the terminal."""
    if sys.stdout.isatty():
        yield chunks
        return

    def counting() -> Iterator[Chunk]:
        done = 0
        for chunk in chunks:
            yield chunk
            done += len(chunk)
            advance(done, None)

    with progress("reading", "rows") as advance:
        yield counting()


def first(chunks: Iterable[Chunk], limit: int) -> Iterator[Chunk]:
    """The first rows; nothing after them is read."""
    left = limit
    if not left:
        return
    for chunk in chunks:
        yield chunk[:left] if isinstance(chunk, list) else chunk.slice(0, left)
        left -= min(left, len(chunk))
        if not left:
            return


def records_of(chunk: Chunk) -> list[Any]:
    """The rows of a chunk as values that JSON can hold."""
    from lode.codec.arrow_to_json import batch_records

    return chunk if isinstance(chunk, list) else batch_records(chunk, first_row=0)


def _jsonl(chunks: Iterable[Chunk], out: BinaryIO) -> None:
    # Lossy, unlike the JSON codec: NaN becomes null, and values without a JSON type become text.
    encoder = msgspec.json.Encoder(enc_hook=str, decimal_format="number")
    for chunk in chunks:
        for start in range(0, len(chunk), 8192):
            part = chunk[start : start + 8192] if isinstance(chunk, list) else chunk.slice(start, 8192)
            out.write(encoder.encode_lines(records_of(part)))


def _csv(chunks: Iterable[Any], schema: pa.Schema, out: BinaryIO) -> None:
    from pyarrow import csv

    flat = pa.schema([pa.field(field.name, _flat_type(field.type)) for field in schema])
    with csv.CSVWriter(out, flat) as writer:
        for batch in chunks:
            writer.write_batch(
                pa.RecordBatch.from_arrays([_flat(column) for column in batch.columns], schema=flat)
            )


def _flat_type(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_nested(kind) or pa.types.is_binary(kind) else kind


def _flat(column: Any) -> Any:
    """A column that CSV can hold: lists and structs as JSON, bytes as base64."""
    if _flat_type(column.type) == column.type:
        return column
    records = records_of(pa.RecordBatch.from_arrays([column], names=["it"]))
    values = [record["it"] for record in records]
    texts = [None if value is None else msgspec.json.encode(value, enc_hook=str).decode() for value in values]
    return pa.array(
        [text.strip('"') if text and pa.types.is_binary(column.type) else text for text in texts], pa.string()
    )


def _arrow(chunks: Iterable[Any], schema: pa.Schema, out: Any) -> None:
    with pa.ipc.new_stream(pa.PythonFile(out, "w"), schema) as writer:
        for batch in chunks:
            writer.write_batch(batch)


def _parquet(chunks: Iterable[Any], schema: pa.Schema, out: Any) -> None:
    import pyarrow.parquet as pq

    with pq.ParquetWriter(pa.PythonFile(out, "w"), schema, compression="zstd") as writer:
        for batch in chunks:
            writer.write_batch(batch)


def _table(chunks: Iterable[Chunk], limit: int, schema: pa.Schema | None) -> None:
    """Print the first rows with as many columns as fit, and a note about what is left out."""
    from rich.text import Text

    rows = [record for chunk in first(chunks, limit + 1) for record in records_of(chunk)]
    shown = [record if isinstance(record, dict) else {"value": record} for record in rows[:limit]]
    seen = (name for record in shown for name in record)
    names = list(dict.fromkeys([*(schema.names if schema is not None else ()), *seen]))
    if not names:
        return
    on_terminal = sys.stdout.isatty()
    numbers = [name for name in names if are_numbers(record.get(name) for record in shown)]
    table = TextTable(*names, right=numbers, max_width=_MAX_CELL_WIDTH if on_terminal else None)
    for record in shown:
        table.add(*(_cell(record[name]) if name in record else "" for name in names))
    width = console().width
    columns = table.columns_within(width)
    print_lines(*table.lines(width, columns=columns))
    left_out = []
    if len(rows) > limit:
        left_out.append(f"more than {limit:,} rows: --limit shows more")
    if columns < len(names):
        left_out.append(f"{len(names) - columns:,} more columns: --columns chooses")
    if left_out:
        print_lines(Text(f"… {', '.join(left_out)}", FAINT))


def _cell(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float | Decimal):
        return str(value)
    return msgspec.json.encode(value, enc_hook=str).decode().strip('"')
