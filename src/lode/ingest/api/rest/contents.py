"""What a table holds: how many rows and bytes, and any page of its rows, for REST v2.

History only grows, so what is known of a table stays true: each look reads the snapshots that came since.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Final

import msgspec

from lode.errors import MissingError
from lode.ingest.api.grpc_read.parquet import count_rows
from lode.ingest.catalog.partitioning import layout_of
from lode.ingest.catalog.table import complete
from lode.ingest.status import invalid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa

    from lode.dataset import Dataset
    from lode.format.manifest import FileRef, Manifest
    from lode.format.paths import Layout
    from lode.ingest.catalog.table import TableDefinition
    from lode.ingest.types.columns import TableSchema
    from lode.snapshot import Snapshot

_TABLES_KEPT: Final = 32


@dataclass(frozen=True, slots=True)
class Content:
    """The files of a table up to one snapshot; ``ends`` counts the rows up to and with each file.

    ``definitions`` has the digest of the definition under which each file was written; None as long as no
    snapshot has one.
    """

    head: Snapshot | None = None
    files: tuple[FileRef, ...] = ()
    definitions: tuple[str | None, ...] = ()
    ends: tuple[int, ...] = ()
    size: int = 0
    partitions: frozenset[str] = frozenset()
    # How many of the files each snapshot, and all before it, have.
    reach: dict[str, int] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return self.ends[-1] if self.ends else 0

    @property
    def snapshot_id(self) -> str:
        return self.head.id if self.head else ""

    @property
    def modified_ms(self) -> int:
        return int(self.head.created_at.timestamp() * 1000) if self.head else 0

    def rows_at(self, snapshot_id: str) -> int:
        """How many rows there were at one snapshot."""
        if not snapshot_id:
            return 0
        if snapshot_id not in self.reach:
            raise invalid("Invalid value for pageToken: it is not of this table, start again without one.")
        count = self.reach[snapshot_id]
        return self.ends[count - 1] if count else 0


class Contents:
    """The contents of tables, the last few of them kept.

    Args:
        open: Opens the dataset that holds a table's rows.
    """

    def __init__(self, open: Callable[[TableDefinition], Dataset]) -> None:  # noqa: A002, what it does
        self._open = open
        self._kept: OrderedDict[str, tuple[Dataset, Content]] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, definition: TableDefinition) -> Content:
        """What the table holds now."""
        dataset, known = self._known(definition)
        head = next(dataset.history(), None)
        if head is None:
            return Content()
        if head.id != known.snapshot_id:
            known = _extended(dataset, layout_of(definition.partitioning), known, head)
        with self._lock:
            self._kept[dataset.id] = (dataset, known)
            self._kept.move_to_end(dataset.id)
            while len(self._kept) > _TABLES_KEPT:
                self._kept.popitem(last=False)
        return known

    def _known(self, definition: TableDefinition) -> tuple[Dataset, Content]:
        with self._lock:
            known = self._kept.get(definition.dataset_id)
        return known or (self._open(definition), Content())

    def rows(
        self, definition: TableDefinition, content: Content, schema: TableSchema, start: int, stop: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows from number ``start`` up to, and without, ``stop``, in the columns of ``schema``."""
        if content.head is None or start >= stop or not len(schema):
            return
        first, last = bisect_right(content.ends, start), bisect_right(content.ends, stop - 1)
        dataset = self._known(definition)[0]
        scan = dataset.plan(as_of=content.head, since=content.head).of(_page(content, first, last + 1))
        known = scan.schema().names
        # A column that the table got since the last commit is in no file; one is needed to count rows.
        columns = [column.name for column in schema if column.name in known] or known[:1]
        position = content.ends[first - 1] if first else 0
        for batch in scan.read(columns=columns):
            begin, end = max(start - position, 0), min(stop - position, batch.num_rows)
            position += batch.num_rows
            if begin < end:
                yield complete(batch.slice(begin, end - begin), schema)
            if position >= stop:
                return


def _page(content: Content, first: int, last: int) -> list[Manifest]:
    """Snapshots that have only the files of a page, each with the definition of its files."""
    assert content.head is not None
    head = content.head.manifest
    numbers = range(first, last)
    return [
        msgspec.structs.replace(
            head,
            files=tuple(content.files[number] for number in group),
            x={} if digest is None else {"definition": digest},
        )
        for digest, group in groupby(numbers, key=content.definitions.__getitem__)
    ]


def _extended(dataset: Dataset, layout: Layout, known: Content, head: Snapshot) -> Content:
    """What is known, and the snapshots since, up to ``head``."""
    try:
        added = dataset.changes(since=known.head, until=head)
    except MissingError:
        # Another, newer look has made the kept one forget where it was, or the store was replaced.
        known, added = Content(), dataset.changes(until=head)
    files = [file for snapshot in added for file in snapshot.manifest.files]
    counts = accumulate(len(snapshot.manifest.files) for snapshot in added)
    reach = {snapshot.id: len(known.files) + count for snapshot, count in zip(added, counts, strict=True)}
    return Content(
        head=head,
        files=(*known.files, *files),
        definitions=_digests(known, added),
        ends=(*known.ends, *(known.rows + end for end in accumulate(_row_counts(dataset, files)))),
        size=known.size + sum(file.size_bytes for file in files),
        partitions=known.partitions | {layout.partition_of(dataset.id, file.path) for file in files},
        reach=known.reach | reach,
    )


def _digests(known: Content, added: Sequence[Snapshot]) -> tuple[str | None, ...]:
    """The definition of each file; a snapshot of 0.1 or Go has that of the one before it, else the first."""
    found = list(known.definitions)
    current = found[-1] if found else None
    for snapshot in added:
        digest = snapshot.manifest.definition
        if current is None and digest is not None:
            found = [digest] * len(found)
        current = digest or current
        found += [current] * len(snapshot.manifest.files)
    return tuple(found)


def _row_counts(dataset: Dataset, files: Iterable[FileRef]) -> Iterator[int]:
    for file in files:
        yield count_rows(dataset.store, file)
