"""Scan rows that came and rows that went, marked in a column."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from lode.errors import InvalidOptionError
from lode.lazy import pa
from lode.read.incremental import CHANGE
from lode.read.scan import Scan, mentions
from lode.runtime import REAL

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lode.filter import Filter
    from lode.format.manifest import Manifest


@dataclass(frozen=True, slots=True)
class ChangeScan(Scan):
    """A scan with a column more, which says of each row whether it came or went.

    A file may be in it twice. Applied in order, its rows turn the state before the range into the one after.
    """

    # For each manifest.
    kinds: tuple[str, ...] = ()

    @staticmethod
    def made_from(scan: Scan, kinds: tuple[str, ...]) -> ChangeScan:
        """The scan, with what happened to the rows of each of its manifests."""
        parts = (scan.store, scan.dataset_id, scan.layout, scan.components, scan.manifests, scan.runtime)
        return ChangeScan(*parts, scan.definition, scan.definitions, kinds)

    def __reduce__(self) -> tuple[Any, ...]:
        parts = (self.store, self.dataset_id, self.layout, self.components, list(self.manifests))
        return ChangeScan, (*parts, REAL, self.definition, self.definitions, self.kinds)

    def of(self, manifests: Sequence[Manifest]) -> Scan:
        """A scan without the column, over other snapshots."""
        parts = (self.store, self.dataset_id, self.layout, self.components, manifests, self.runtime)
        return Scan(*parts, self.definition, self.definitions)

    def runs(self) -> Iterator[tuple[str, list[Manifest]]]:
        """The manifests in order, in groups to whose rows the same happened."""
        pairs = zip(self.kinds, self.manifests, strict=True)
        for kind, group in groupby(pairs, key=lambda pair: pair[0]):
            yield kind, [manifest for _, manifest in group]

    def schema(self) -> pa.Schema:
        """The columns of the files, and that of the change."""
        return with_change(self.of(self.manifests).schema(), self.dataset_id)

    def _batches(
        self, schema: pa.Schema, columns: Sequence[str] | None, where: Filter | None
    ) -> Iterator[pa.RecordBatch]:
        stored = schema.remove(schema.get_field_index(CHANGE))
        wanted = list(schema.names if columns is None else columns)
        by_change = where is not None and CHANGE in where.columns
        # A filter on the change is applied once the column is there, so it needs its other columns too.
        needed = [*wanted, *(where.columns if where is not None and by_change else ())]
        read = [name for name in stored.names if mentions(needed, name)]
        # Without any column a batch has no number of rows.
        read = read or stored.names[:1]
        for kind, manifests in self.runs():
            for batch in self.of(manifests)._batches(stored, read, None if by_change else where):
                found = batch.append_column(_field(), pa.repeat(kind, batch.num_rows))
                if where is not None and by_change:
                    found = where.apply(found)
                yield found.select(wanted)


def with_change(schema: pa.Schema, dataset_id: str) -> pa.Schema:
    """The columns of a dataset, and that of the change."""
    if CHANGE in schema.names:
        raise InvalidOptionError(
            f'dataset {dataset_id!r} has a column {CHANGE!r}, which on_removal="report" adds: rename it'
        )
    return schema.append(_field())


def _field() -> pa.Field[Any]:
    return pa.field(CHANGE, pa.string(), nullable=False)
