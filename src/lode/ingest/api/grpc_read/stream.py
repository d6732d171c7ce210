"""The rows of one read stream, from any offset on, as batches that fit into one response each."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lode.errors import InvalidOptionError
from lode.ingest.api.grpc_read.parquet import matching_groups, open_parquet, read_group
from lode.ingest.api.grpc_read.prefetch import fetch_ahead
from lode.ingest.api.grpc_read.selection import paths, select
from lode.ingest.catalog.table import complete
from lode.ingest.status import Code, Refused, invalid
from lode.ingest.types.coalesce import one_batch
from lode.lazy import pa

if TYPE_CHECKING:
    from collections.abc import Container, Iterator
    from concurrent.futures import Executor

    from lode.filter import Filter
    from lode.ingest.api.grpc_read.plan import Piece, Plan
    from lode.ingest.api.grpc_read.session import Span
    from lode.ingest.catalog.table import TableDefinition
    from lode.ingest.types.columns import TableSchema

RESPONSE_BYTES: Final = 1 << 20


class Progress(NamedTuple):
    """A batch, and how much of the stream is done with it, from 0 to 1."""

    batch: pa.RecordBatch
    done: float


class _Group(NamedTuple):
    """Rows ``start`` to ``stop`` of one row group of an open file, and the position behind them."""

    opened: Any
    piece: Piece
    number: int
    start: int
    stop: int
    position: int

    def read(self, columns: TableSchema) -> Iterator[pa.RecordBatch]:
        path, names = self.piece.file.path, self.piece.names
        return read_group(self.opened, path, self.number, columns, names, self.start, self.stop)


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads rows of a table in the columns of a session.

    Args:
        table: The table as it is today.
        plan: The files of the session's snapshot.
        columns: What is shown.
        restriction: Which rows; None is all.
        threads: Fetch what is needed next.
    """

    table: TableDefinition
    plan: Plan
    columns: TableSchema
    restriction: Filter | None
    threads: Executor

    def kept(self, span: Span) -> Iterator[Piece]:
        """The files that a span's rows are in, as far as statistics and partitions can tell."""
        if self.restriction is None:
            return self.plan.kept(span, None, self.table.arrow)
        # Only the columns that it is about: a table may have 10,000, and each file is asked.
        used = {path.partition(".")[0] for path in self.restriction.columns}
        schema = pa.schema([column for column in self.table.arrow if column.name in used])
        return self.plan.kept(span, self.restriction.where, schema)

    def read(self, span: Span, offset: int) -> Iterator[Progress]:
        """Yield the span's rows from ``offset`` on, counted among those that the restriction lets through."""
        pieces = self._restricted if self.restriction else self._plain
        held: list[pa.RecordBatch] = []
        size = 0
        done = 0.0
        for batch, position in pieces(span, offset):
            for part in _parts(batch):
                if held and size + part.nbytes > RESPONSE_BYTES:
                    yield Progress(one_batch(held), done)
                    held, size = [], 0
                held.append(part)
                size += part.nbytes
            done = (position - span.start) / span.rows
        if held:
            yield Progress(one_batch(held), 1.0)

    def _plain(self, span: Span, offset: int) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Without a restriction, positions and offsets are the same: what lies before is not even opened."""
        if offset > span.rows:
            raise beyond_the_end(offset)
        rest = span._replace(start=span.start + offset)
        for group in self._groups(rest):
            for batch in group.read(self.columns):
                yield complete(batch, self.columns), group.position

    def _restricted(self, span: Span, offset: int) -> Iterator[tuple[pa.RecordBatch, int]]:
        assert self.restriction is not None
        asked = select(self.table.schema, self.restriction.columns)
        both = select(self.table.schema, [*paths(self.columns), *self.restriction.columns])
        skip = offset
        for group in self._groups(span):
            if skip:
                # What is skipped only has to be counted.
                found = sum(batch.num_rows for batch in self._matching(group, asked))
                if found <= skip:
                    skip -= found
                    continue
            for batch in self._matching(group, both):
                if batch.num_rows > skip:
                    yield complete(batch.slice(skip), self.columns), group.position
                skip = max(skip - batch.num_rows, 0)
        if skip:
            raise beyond_the_end(offset)

    def _matching(self, group: _Group, columns: TableSchema) -> Iterator[pa.RecordBatch]:
        assert self.restriction is not None
        for batch in group.read(columns):
            try:
                yield self.restriction.apply(complete(batch, columns))
            except InvalidOptionError as error:
                raise invalid(f"row_restriction: {error}.") from None

    def _groups(self, span: Span) -> Iterator[_Group]:
        store = self.plan.scan.store
        with closing(fetch_ahead(store, self.kept(span), self.threads)) as files:
            for piece, data in files:
                inside = piece.within(span)
                first = piece.start
                with open_parquet(store, piece.file, data) as opened:
                    wanted = self._matching_groups(opened, piece, data)
                    for number in range(opened.metadata.num_row_groups):
                        rows = opened.metadata.row_group(number).num_rows
                        start, stop = max(inside.start, first), min(inside.stop, first + rows)
                        if start < stop and number in wanted:
                            yield _Group(opened, piece, number, start - first, stop - first, stop)
                        first += rows

    def _matching_groups(self, opened: Any, piece: Piece, data: bytes | None) -> Container[int]:
        count: int = opened.metadata.num_row_groups
        if self.restriction is None or count == 1 or not self.restriction.fits_row_groups:
            return range(count)
        if not piece.is_plain:
            return range(count)  # the restriction has other names than the file
        return matching_groups(
            self.plan.scan.store, piece.file, data, self.restriction.where, self.table.schema.arrow
        )


def beyond_the_end(offset: int) -> Refused:
    return Refused(Code.OUT_OF_RANGE, f"The offset {offset} is beyond the end of the stream.")


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Cut a batch until no part is larger than a response should be, or has but one row."""
    if batch.nbytes <= RESPONSE_BYTES or batch.num_rows <= 1:
        if batch.num_rows:
            yield batch
        return
    rows = min(max(batch.num_rows * RESPONSE_BYTES // batch.nbytes, 1), batch.num_rows - 1)
    for start in range(0, batch.num_rows, rows):
        yield from _parts(batch.slice(start, rows))
