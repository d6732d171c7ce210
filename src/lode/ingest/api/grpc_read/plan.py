"""The files of a snapshot with the position of their rows in history, and where streams may be cut."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from lode.errors import InvalidPathError, NotFoundError
from lode.ingest.api.grpc_read.parquet import open_parquet
from lode.ingest.api.grpc_read.session import Span
from lode.ingest.status import Code, Refused
from lode.read.prune import can_match

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    import pyarrow.compute as pc

    from lode.format.manifest import FileRef
    from lode.ingest.api.grpc_read.parquet import Names
    from lode.ingest.catalog.table import TableDefinition
    from lode.read.scan import Scan
    from lode.store.protocol import Store

# Plans are kept in memory until they hold more files than this between them.
MOST_FILES: Final = 200_000


class Piece(NamedTuple):
    """A file, and the position of its first row.

    ``names`` has the name in the file of each column of the dataset, None where the file has none. The file's
    statistics are under the dataset's names.
    """

    file: FileRef
    start: int
    rows: int
    names: Names
    # Whether the file's columns have the dataset's names.
    is_plain: bool = True

    def within(self, span: Span) -> Span:
        """The positions of those of its rows that lie in the span; empty ones where none do."""
        start = max(self.start, span.start)
        return Span(start, max(start, min(self.start + self.rows, span.stop)))


@dataclass(frozen=True, slots=True)
class Plan:
    """All files of a snapshot, oldest first."""

    scan: Scan
    pieces: tuple[Piece, ...]
    starts: tuple[int, ...]

    @property
    def rows(self) -> int:
        return self.pieces[-1].start + self.pieces[-1].rows if self.pieces else 0

    def kept(self, span: Span, where: pc.Expression | None, schema: pa.Schema) -> Iterator[Piece]:
        """The files with rows in the span, less those that cannot have one for which ``where`` is true."""
        first = max(bisect_left(self.starts, span.start) - 1, 0)
        last = bisect_left(self.starts, span.stop)
        for piece in self.pieces[first:last]:
            if piece.within(span).rows and (where is None or self._may_match(piece, where, schema)):
                yield piece

    def _may_match(self, piece: Piece, where: pc.Expression, schema: pa.Schema) -> bool:
        partition = self.scan.layout.partition_of(self.scan.dataset_id, piece.file.path)
        return can_match(piece.file, partition, schema, where)


@dataclass(slots=True)
class _Slot:
    lock: threading.Lock = field(default_factory=threading.Lock)
    plan: Plan | None = None


class Plans:
    """The plans of snapshots, which never change: made once, kept for the other streams of a session."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._slots: OrderedDict[tuple[str, str], _Slot] = OrderedDict()

    def plan(self, table: TableDefinition, snapshot: str) -> Plan:
        key = (table.dataset_id, snapshot)
        with self._lock:
            slot = self._slots.setdefault(key, _Slot())
            self._slots.move_to_end(key)
        with slot.lock:
            if slot.plan is None:
                try:
                    slot.plan = self._made(table, snapshot)
                except BaseException:
                    with self._lock:
                        self._slots.pop(key, None)
                    raise
            plan = slot.plan
        self._forget()
        return plan

    def _made(self, table: TableDefinition, snapshot: str) -> Plan:
        dataset = table.open(self._store)
        try:
            scan = dataset.plan(as_of=snapshot)
        except (NotFoundError, InvalidPathError):
            raise Refused(
                Code.NOT_FOUND, f"Not found: snapshot {snapshot!r} of {table.name.short}."
            ) from None
        pieces: list[Piece] = []
        at = 0
        same = {name: name for name in scan.schema().names}
        for file, names in scan.files_with_names():
            rows = file.stats.row_count if file.stats else counted(self._store, file)
            pieces.append(Piece(file, at, rows, names or same, names is None))
            at += rows
        return Plan(scan, tuple(pieces), tuple(piece.start for piece in pieces))

    def _forget(self) -> None:
        """Drop the plans that were not asked for the longest."""
        with self._lock:
            held = sum(len(slot.plan.pieces) + 100 for slot in self._slots.values() if slot.plan)
            while held > MOST_FILES and len(self._slots) > 1:
                _, slot = self._slots.popitem(last=False)
                held -= len(slot.plan.pieces) + 100 if slot.plan else 0


def cut(
    pieces: Sequence[Piece],
    span: Span,
    shares: Sequence[float],
    row_groups: Callable[[FileRef], Sequence[int]],
) -> list[int]:
    """Where to cut a span, as near to these shares of its rows as the borders of files allow.

    Large files are also cut at the borders of their row groups, which takes a look at their footers.

    Args:
        pieces: The files whose rows are read.
        span: What is cut.
        shares: Numbers between 0 and 1.
        row_groups: Tells at which of its rows the row groups of a file begin.
    """
    total = sum(piece.within(span).rows for piece in pieces)
    targets = [share * total for share in shares]
    passed = 0
    # Both sorted: how many rows lie before a border, and its position.
    before: list[int] = []
    borders: list[int] = []
    for piece in pieces:
        inside = piece.within(span)
        if passed:
            before.append(passed)
            borders.append(inside.start)
        large = inside.rows * (len(targets) + 1) * 2 > total
        if large and any(passed < target < passed + inside.rows for target in targets):
            for position in (piece.start + first for first in row_groups(piece.file)):
                if inside.start < position < inside.stop:
                    before.append(passed + position - inside.start)
                    borders.append(position)
        passed += inside.rows
    return sorted({borders[_nearest(before, target)] for target in targets}) if borders else []


def cut_at_row(pieces: Sequence[Piece], span: Span, share: float) -> list[int]:
    """Where to cut a span that has no border inside it; nowhere if it has but one row.

    Both streams then read the same row group, which is why ``cut`` is tried first.
    """
    for inside in (piece.within(span) for piece in pieces):
        if inside.rows > 1:
            return [inside.start + min(max(round(share * inside.rows), 1), inside.rows - 1)]
    return []


def row_groups(store: Store) -> Callable[[FileRef], Sequence[int]]:
    """Tells at which of its rows the row groups of a file begin, by its footer."""

    def ask(file: FileRef) -> list[int]:
        with open_parquet(store, file) as opened:
            found = []
            at = 0
            for index in range(opened.metadata.num_row_groups):
                found.append(at)
                at += opened.metadata.row_group(index).num_rows
            return found

    return ask


def counted(store: Store, file: FileRef) -> int:
    """The rows of a file that was written without statistics."""
    with open_parquet(store, file) as opened:
        rows: int = opened.metadata.num_rows
        return rows


def _nearest(numbers: Sequence[int], target: float) -> int:
    index = bisect_left(numbers, target)
    near = [one for one in (index - 1, index) if 0 <= one < len(numbers)]
    return min(near, key=lambda one: abs(numbers[one] - target))
