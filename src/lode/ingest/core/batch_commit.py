"""BatchCommitWriteStreams: the rows of many finalized PENDING streams, at once or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lode.ingest.core.staged import stage_rows
from lode.ingest.core.table_writer import Moved, Span
from lode.ingest.status import Refused, StorageCode, invalid, not_found

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    import lode
    from lode.ingest.catalog.table import TableDefinition
    from lode.ingest.core.streams import Stream
    from lode.ingest.core.table_writer import TableWriter
    from lode.ingest.names import StreamName


@dataclass(frozen=True, slots=True)
class BatchCommit:
    """Either the moment of the commit, or what was wrong with each offending stream."""

    at: datetime | None
    problems: tuple[Refused, ...] = ()


def commit_streams(
    writer: TableWriter, names: Sequence[StreamName], find: Callable[[StreamName], Stream]
) -> BatchCommit:
    """Validate all, then make one snapshot; the same snapshot says that each of them is committed."""
    if not names:
        raise invalid("A batch commit names no write streams: name at least one.")
    if len(set(names)) != len(names):
        raise invalid("A batch commit names a write stream twice: name each once.")
    with writer.staged_lock:
        streams, problems = _validated(writer, names, find)
        if problems:
            return BatchCommit(None, tuple(problems))
        spans = {stream.id: Span(0, stream.position.durable) for stream in streams}

        def stage(definition: TableDefinition, transaction: lode.Transaction) -> None:
            stage_rows(definition, transaction, [(stream, spans[stream.id]) for stream in streams])

        try:
            snapshot = writer.commit(stage, spans, acknowledged=True)
        except Moved:
            # A commit of this server's earlier life landed late and showed some of them.
            for stream in streams:
                shown = writer.progress.shown(stream.id)
                if shown is not None:
                    stream.show(shown.rows, shown.at)
            _, problems = _validated(writer, names, find)
            return BatchCommit(None, tuple(problems))
        for stream in streams:
            stream.show(spans[stream.id].end, snapshot.created_at)
    return BatchCommit(snapshot.created_at)


def _validated(
    writer: TableWriter, names: Sequence[StreamName], find: Callable[[StreamName], Stream]
) -> tuple[list[Stream], list[Refused]]:
    streams: list[Stream] = []
    problems: list[Refused] = []
    for name in names:
        try:
            if name.table != writer.name:
                raise not_found(str(name), StorageCode.STREAM_NOT_FOUND)
            stream = find(name)
            stream.check_commit()
            streams.append(stream)
        except Refused as refusal:
            problems.append(refusal)
    return streams, problems
