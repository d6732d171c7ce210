"""Staged rows become data files: read from the logs and encoded in pieces, several at once."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from lode.ingest.joined import joined
from lode.ingest.table import Span, fitted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    import lode
    from lode.ingest.catalog.table import TableDefinition
    from lode.ingest.streams import Stream

# A piece makes one data file for each of its partitions; it passes through memory bit by bit.
_BYTES_PER_PIECE: Final = 256 << 20
_THREADS: Final = min(4, os.cpu_count() or 1)


def stage_rows(
    definition: TableDefinition, transaction: lode.Transaction, parts: Sequence[tuple[Stream, Span]]
) -> None:
    """Stage these rows of these streams, in memory that does not grow with them."""
    stager = transaction.stager
    pieces = [piece for part in parts for piece in _pieces(part)]
    if not stager.layout.keys:
        # One stream of rows, which the stager cuts into files and encodes on several threads.
        if pieces:
            transaction.add(stager.stage_named(_rows(definition, transaction, parts), ""))
        return
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="lode-stage") as pool:
        transaction.add(
            *pool.map(lambda piece: stager.write_records(_rows(definition, transaction, [piece])), pieces)
        )


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
    definition: TableDefinition, transaction: lode.Transaction, parts: Sequence[tuple[Stream, Span]]
) -> Iterator[pa.RecordBatch]:
    return joined(
        fitted(definition, transaction, batch) for stream, span in parts for batch in _logged(stream, span)
    )


def _logged(stream: Stream, span: Span) -> Iterator[pa.RecordBatch]:
    assert stream.log is not None
    yield from stream.log.read(span.start, span.end)
