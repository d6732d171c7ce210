"""FlushRows: show the rows of a BUFFERED stream up to an offset."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lode.ingest.core.staged import stage_rows
from lode.ingest.core.table_writer import Moved, Span
from lode.ingest.status import Code, Refused

if TYPE_CHECKING:
    import lode
    from lode.ingest.catalog.table import TableDefinition
    from lode.ingest.core.streams import Stream


def flush_rows(stream: Stream, offset: int) -> int:
    """Make the rows up to and including ``offset`` one snapshot, if they are not visible yet."""
    writer = stream.writer
    with writer.staged_lock:
        end = stream.strategy.flush_end(stream.position, offset)
        span = Span(stream.position.visible, end)
        if span.end == span.start:
            return offset

        def stage(definition: TableDefinition, transaction: lode.Transaction) -> None:
            stage_rows(definition, transaction, [(stream, span)])

        try:
            snapshot = writer.commit(stage, {stream.id: span}, acknowledged=True)
        except Moved:
            # A flush of this server's earlier life landed late: this one is to be judged by that.
            raise Refused(
                Code.ABORTED, f"Stream {stream.name} was flushed by another request: try again."
            ) from None
        stream.show(span.end, snapshot.created_at)
    return offset
