"""The contents of tables for REST v2: the numbers of rows and bytes, and any page of rows.

While snapshots only append, an update of a cached state reads only the snapshots since then. A snapshot that
removes files is the beginning of a new state.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Final

import msgspec
from cachetools import LRUCache

from lode.definition import REMOVALS
from lode.errors import InvalidPathError, MissingError
from lode.format.paths import canonical_partition
from lode.ingest.api.grpc_read.parquet import count_rows
from lode.ingest.catalog.partition_times import stored, with_partition_times
from lode.ingest.catalog.partitioning import layout_of
from lode.ingest.catalog.table import complete
from lode.ingest.jobs.tables import check_partition, path_of
from lode.ingest.status import invalid
from lode.read.which import ExactId

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from lode.dataset import Dataset
    from lode.format.manifest import FileRef, Manifest
    from lode.format.paths import Layout
    from lode.ingest.catalog.table import TableDefinition
    from lode.ingest.jobs.tables import TableRef
    from lode.ingest.types.columns import TableSchema
    from lode.snapshot import Snapshot
    from lode.store.protocol import Store

_MAX_CACHED_TABLES: Final = 32


@dataclass(frozen=True, slots=True)
class TableContent:
    """The files of a table up to one snapshot. ``ends`` has the number of rows up to the end of each file.

    ``definitions`` has the digest of each file's definition; None while no snapshot has one.
    """

    head: Snapshot | None = None
    files: tuple[FileRef, ...] = ()
    definitions: tuple[str | None, ...] = ()
    ends: tuple[int, ...] = ()
    size: int = 0
    partitions: frozenset[str] = frozenset()
    # The number of files up to each snapshot since the last one that removed files.
    file_counts: dict[str, int] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return self.ends[-1] if self.ends else 0

    @property
    def snapshot_id(self) -> str:
        return self.head.id if self.head else ""

    @property
    def modified_ms(self) -> int:
        return int(self.head.created_at.timestamp() * 1000) if self.head else 0

    def rows_at(self, snapshot_id: str) -> int | None:
        """Return the number of rows at one snapshot; None if it has other files than the first of these."""
        if not snapshot_id:
            return 0
        count = self.file_counts.get(snapshot_id)
        if count is None:
            return None
        return self.ends[count - 1] if count else 0


class ContentCache:
    """The contents of the most recently used tables on a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._cached: LRUCache[str, tuple[Dataset, TableContent]] = LRUCache(_MAX_CACHED_TABLES)
        self._lock = threading.Lock()

    def of(self, definition: TableDefinition) -> TableContent:
        """Return the current content of a table."""
        dataset, known = self._known(definition)
        head = next(dataset.history(), None)
        if head is None:
            return TableContent()
        if head.id != known.snapshot_id:
            known = _extended(dataset, layout_of(definition.partitioning), known, head)
        with self._lock:
            self._cached[dataset.id] = (dataset, known)
        return known

    def at(
        self, definition: TableDefinition, content: TableContent, snapshot_id: str
    ) -> tuple[TableContent, int]:
        """Return a content that begins with the rows of one snapshot, and the number of these rows.

        Args:
            definition: The table.
            content: Its current content.
            snapshot_id: The snapshot, as a page token names it.
        """
        rows = content.rows_at(snapshot_id)
        if rows is not None:
            return content, rows
        # Rows were removed since then. This is rare enough to be read for every page.
        dataset, _ = self._known(definition)
        try:
            snapshot = dataset.snapshot(ExactId(snapshot_id))
            found = _whole(dataset, layout_of(definition.partitioning), snapshot)
            return found, found.rows
        except (MissingError, InvalidPathError):
            raise invalid(
                "Invalid value for pageToken: it is not of this table, or expired, start again without one."
            ) from None

    def in_partition(
        self, definition: TableDefinition, content: TableContent, rows: int, ref: TableRef
    ) -> TableContent:
        """Return those of the first ``rows`` rows of a content that are in one partition."""
        check_partition(ref, definition.partitioning)
        assert definition.partitioning is not None
        wanted = canonical_partition(path_of(ref, definition.partitioning))
        layout, id = layout_of(definition.partitioning), definition.dataset_id
        chosen = [
            number
            for number, (file, end) in enumerate(zip(content.files, content.ends, strict=True))
            if end <= rows and canonical_partition(layout.partition_of(id, file.path)) == wanted
        ]
        counts = (content.ends[number] - (content.ends[number - 1] if number else 0) for number in chosen)
        files = tuple(content.files[number] for number in chosen)
        return replace(
            content,
            files=files,
            definitions=tuple(content.definitions[number] for number in chosen),
            ends=tuple(accumulate(counts)),
            size=sum(file.size_bytes for file in files),
            partitions=frozenset((wanted,)) if files else frozenset(),
            file_counts={},
        )

    def _known(self, definition: TableDefinition) -> tuple[Dataset, TableContent]:
        with self._lock:
            known = self._cached.get(definition.dataset_id)
        return known or (definition.open(self._store), TableContent())

    def rows(
        self, definition: TableDefinition, content: TableContent, schema: TableSchema, start: int, stop: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows from ``start`` up to, excluding, ``stop``, in the columns of ``schema``."""
        if content.head is None or start >= stop or not len(schema):
            return
        first, last = bisect_right(content.ends, start), bisect_right(content.ends, stop - 1)
        dataset = self._known(definition)[0]
        scan = dataset.plan(as_of=content.head, since=content.head).of(_page(content, first, last + 1))
        known = scan.schema().names
        # A column added since the last commit is in no file. At least one column is needed to count rows.
        columns = [column.name for column in stored(schema) if column.name in known] or known[:1]
        position = content.ends[first - 1] if first else 0
        for batch in scan.read(columns=columns):
            begin, end = max(start - position, 0), min(stop - position, batch.num_rows)
            position += batch.num_rows
            if begin < end:
                part = batch.slice(begin, end - begin)
                yield complete(with_partition_times(part, schema, definition.partitioning), schema)
            if position >= stop:
                return


def _page(content: TableContent, first: int, last: int) -> list[Manifest]:
    """Return manifests with only the files of a page, one for each run of files with the same definition."""
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


def _extended(dataset: Dataset, layout: Layout, known: TableContent, head: Snapshot) -> TableContent:
    """Add the snapshots since the cached state, up to ``head``."""
    try:
        added = dataset.snapshots(since=known.head, as_of=head) if known.head else []
    except MissingError:
        # A concurrent update has replaced the cached history, or the store was replaced.
        added = []
    if not added or not all(snapshot.manifest.is_append for snapshot in added):
        return _whole(dataset, layout, head)
    return _plus(dataset, layout, known, [snapshot.manifest for snapshot in added], head)


def _whole(dataset: Dataset, layout: Layout, head: Snapshot) -> TableContent:
    """Read the visible files at a snapshot."""
    scan = dataset.plan(as_of=head)
    found = _plus(dataset, layout, TableContent(), scan.manifests, head)
    if scan.definition is not None and REMOVALS in scan.definition.features:
        # The files of an earlier snapshot are not the first ones of these.
        found = replace(found, file_counts={head.id: len(found.files)})
    return found


def _plus(
    dataset: Dataset, layout: Layout, known: TableContent, added: Sequence[Manifest], head: Snapshot
) -> TableContent:
    files = [file for manifest in added for file in manifest.files]
    counts = [count_rows(dataset.store, file) for file in files]
    totals = accumulate((len(manifest.files) for manifest in added), initial=len(known.files))
    file_counts = dict(zip((manifest.snapshot_id for manifest in added), list(totals)[1:], strict=True))
    return TableContent(
        head=head,
        files=(*known.files, *files),
        definitions=_digests(known, added),
        ends=(*known.ends, *(known.rows + end for end in accumulate(counts))),
        size=known.size + sum(file.size_bytes for file in files),
        partitions=known.partitions | {layout.partition_of(dataset.id, file.path) for file in files},
        file_counts=known.file_counts | file_counts,
    )


def _digests(known: TableContent, added: Sequence[Manifest]) -> tuple[str | None, ...]:
    """Return the definition of each file. A snapshot of 0.1 or Go has the previous one, else the first."""
    found = list(known.definitions)
    current = found[-1] if found else None
    for manifest in added:
        digest = manifest.definition
        if current is None and digest is not None:
            found = [digest] * len(found)
        current = digest or current
        found += [current] * len(manifest.files)
    return tuple(found)
