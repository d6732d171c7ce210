"""The files of a snapshot with the positions of their rows in history, and where streams are cut."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from lode.errors import InvalidPathError, NotFoundError, SnapshotExpiredError
from lode.ingest.api.grpc_read.parquet import count_rows
from lode.ingest.api.grpc_read.session import SnapshotRange
from lode.ingest.catalog.partition_times import with_day
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

# The number of files in all cached plans together.
MAX_CACHED_FILES: Final = 200_000


class PlannedFile(NamedTuple):
    """A file, and the position of its first row.

    ``names`` has the file's name for each column of the dataset, None for a column the file lacks. The file's
    statistics use the dataset's names.
    """

    file: FileRef
    start: int
    rows: int
    names: Names
    # Whether the file's columns have the dataset's names.
    is_plain: bool = True

    def within(self, rows: SnapshotRange) -> SnapshotRange:
        """Return the positions of its rows inside the range; an empty range if there are none."""
        start = max(self.start, rows.start)
        return SnapshotRange(start, max(start, min(self.start + self.rows, rows.stop)))


@dataclass(frozen=True, slots=True)
class Plan:
    """All files of a snapshot, oldest first."""

    scan: Scan
    files: tuple[PlannedFile, ...]
    starts: tuple[int, ...]

    @property
    def rows(self) -> int:
        return self.files[-1].start + self.files[-1].rows if self.files else 0

    def matching(
        self, rows: SnapshotRange, where: pc.Expression | None, schema: pa.Schema
    ) -> Iterator[PlannedFile]:
        """Yield the files with rows in the range that may match ``where``."""
        first = max(bisect_left(self.starts, rows.start) - 1, 0)
        last = bisect_left(self.starts, rows.stop)
        for file in self.files[first:last]:
            if file.within(rows).rows and (where is None or self._may_match(file, where, schema)):
                yield file

    def _may_match(self, file: PlannedFile, where: pc.Expression, schema: pa.Schema) -> bool:
        partition = self.scan.layout.partition_of(self.scan.dataset_id, file.file.path)
        return can_match(file.file, with_day(partition), schema, where)


@dataclass(slots=True)
class _Slot:
    lock: threading.Lock = field(default_factory=threading.Lock)
    plan: Plan | None = None

    @property
    def weight(self) -> int:
        return len(self.plan.files) + 100 if self.plan else 0


class Plans:
    """A cache of plans by snapshot, for the streams of a session. Snapshots never change."""

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
                    slot.plan = self._make(table, snapshot)
                except BaseException:
                    with self._lock:
                        self._slots.pop(key, None)
                    raise
            plan = slot.plan
        self._evict()
        return plan

    def _make(self, table: TableDefinition, snapshot: str) -> Plan:
        dataset = table.open(self._store)
        try:
            scan = dataset.plan(as_of=snapshot)
        except (NotFoundError, InvalidPathError, SnapshotExpiredError):
            raise Refused(
                Code.NOT_FOUND, f"Not found: snapshot {snapshot!r} of {table.name.short}."
            ) from None
        files: list[PlannedFile] = []
        position = 0
        same = {name: name for name in scan.schema().names}
        for file, names in scan.files_with_names():
            rows = count_rows(self._store, file)
            files.append(PlannedFile(file, position, rows, names or same, names is None))
            position += rows
        return Plan(scan, tuple(files), tuple(file.start for file in files))

    def _evict(self) -> None:
        """Drop the least recently used plans."""
        with self._lock:
            held = sum(slot.weight for slot in self._slots.values())
            while held > MAX_CACHED_FILES and len(self._slots) > 1:
                held -= self._slots.popitem(last=False)[1].weight


def cut(
    files: Sequence[PlannedFile],
    rows: SnapshotRange,
    shares: Sequence[float],
    row_groups: Callable[[FileRef], Sequence[int]],
) -> list[int]:
    """Return positions that cut a range into these shares of its rows, as closely as borders of files allow.

    Large files are also cut at the borders of their row groups, which reads their footers.

    Args:
        files: The files of the rows.
        rows: The range to cut.
        shares: Numbers between 0 and 1.
        row_groups: Returns the first row of each row group of a file.
    """
    total = sum(file.within(rows).rows for file in files)
    targets = [share * total for share in shares]
    passed = 0
    # Both are sorted: the number of rows before a border, and its position.
    before: list[int] = []
    borders: list[int] = []
    for file in files:
        inside = file.within(rows)
        if passed:
            before.append(passed)
            borders.append(inside.start)
        large = inside.rows * (len(targets) + 1) * 2 > total
        if large and any(passed < target < passed + inside.rows for target in targets):
            for position in (file.start + first for first in row_groups(file.file)):
                if inside.start < position < inside.stop:
                    before.append(passed + position - inside.start)
                    borders.append(position)
        passed += inside.rows
    return sorted({borders[_nearest(before, target)] for target in targets}) if borders else []


def cut_at_row(files: Sequence[PlannedFile], rows: SnapshotRange, share: float) -> list[int]:
    """Return the position that cuts a range without a border inside; none if it has only one row.

    Both streams then read the same row group. Use ``cut`` first.
    """
    for inside in (file.within(rows) for file in files):
        if inside.rows > 1:
            return [inside.start + min(max(round(share * inside.rows), 1), inside.rows - 1)]
    return []


def _nearest(numbers: Sequence[int], target: float) -> int:
    index = bisect_left(numbers, target)
    near = [one for one in (index - 1, index) if 0 <= one < len(numbers)]
    return min(near, key=lambda one: abs(numbers[one] - target))
