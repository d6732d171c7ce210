"""Staged rows become data files: read from the logs and encoded in pieces, several at once."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from lode.ingest.core.table_writer import Span, fitted
from lode.ingest.types.coalesce import joined

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    import lode
    from lode.ingest.catalog.table import TableDefinition
    from lode.ingest.core.streams import Stream

# A piece is one data file, or one for each of its partitions; it passes through memory bit by bit.
_BYTES_PER_PIECE: Final = 256 << 20
_THREADS: Final = min(4, os.cpu_count() or 1)


def stage_rows(
    definition: TableDefinition, transaction: lode.Transaction, parts: Sequence[tuple[Stream, Span]]
) -> None:
    """Stage these rows of these streams, in memory that does not grow with them."""
    stager = transaction.stager
    pieces = [piece for part in parts for piece in _pieces(part)]

    def stage(numbered: tuple[int, tuple[Stream, Span]]) -> lode.Staged:
        number, piece = numbered
        rows = _rows(definition, transaction, piece)
        # Partitions are written as they come. Without them one file a piece, named so that order is kept.
        if stager.layout.keys:
            return stager.write_records(rows)
        return stager.stage_named(rows, f"-{number:05d}", serial=True)

    with ThreadPoolExecutor(_THREADS, thread_name_prefix="lode-stage") as pool:
        transaction.add(*pool.map(stage, enumerate(pieces)))


def _pieces(part: tuple[Stream, Span]) -> Iterator[tuple[Stream, Span]]:
    """Cut a span so that each piece makes files of a good size, and all cores have something to do."""
    stream, span = part
    assert stream.log is not None
    rows = span.end - span.start
    if not rows:
        return
    bytes_per_row = max(1, stream.log.bytes // max(1, stream.log.end - stream.log.start))
    wanted = max(1, min(_BYTES_PER_PIECE // bytes_per_row, -(-rows // _THREADS) if rows > 100_000 else rows))
    for start in range(span.start, span.end, wanted):
        yield stream, Span(start, min(start + wanted, span.end))


def _rows(
    definition: TableDefinition, transaction: lode.Transaction, piece: tuple[Stream, Span]
) -> Iterator[pa.RecordBatch]:
    stream, span = piece
    assert stream.log is not None
    return joined(fitted(definition, transaction, batch) for batch in stream.log.read(span.start, span.end))
