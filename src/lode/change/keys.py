"""The keys of rows to merge, and the rows of files that have them."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lode.codec.stats import from_json_value
from lode.lazy import pa, pc
from lode.write.partition import split
from lode.write.rebase import overlapping
from lode.write.removal import everywhere

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lode.change.base import Base
    from lode.format.manifest import FileRef

_ROW: Final = "__row"
_PLACE: Final = "__place"
# Arrow data of a file whose keys are looked up together.
_LOOKUP_BYTES: Final = 16 << 20
# What is remembered of the files in which keys were found. Keys in other files are looked up again.
_MAX_HITS_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class Hits:
    """The rows of a file, or of a part of it, that have a key of the source."""

    # For each row, whether it has one; and for those that do, the number of the source row.
    mask: Any
    rows: Any

    @classmethod
    def together(cls, parts: Sequence[Hits]) -> Hits:
        return cls(one_array([each.mask for each in parts]), one_array([each.rows for each in parts]))

    @property
    def size_bytes(self) -> int:
        return int(self.mask.nbytes + self.rows.nbytes)

    def count(self, row: int, rows: int) -> int:
        """How many of so many rows have a key of the source."""
        return int(self.mask.slice(row, rows).true_count)

    def split(self, batches: Iterable[pa.RecordBatch], row: int = 0) -> Iterator[tuple[pa.RecordBatch, Hits]]:
        """Batches of the file from a row on, each with its part of the hits."""
        hit = self.count(0, row)
        for batch in batches:
            mask = self.mask.slice(row, batch.num_rows)
            if len(mask) != batch.num_rows:
                raise AssertionError(f"there are more rows than the {len(self.mask)} that were read before")
            count = mask.true_count
            yield batch, Hits(mask, self.rows.slice(hit, count))
            row += batch.num_rows
            hit += count


def one_array(arrays: list[Any]) -> Any:
    chunks = [chunk for each in arrays for chunk in getattr(each, "chunks", (each,))]
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)


class Source:
    """The rows to merge, looked up by their keys."""

    def __init__(self, rows: pa.Table, keys: Sequence[str], schema: pa.Schema) -> None:
        self.rows = rows
        self.keys = list(keys)
        self.schema = schema
        self._plain = [_plain(rows.column(key).combine_chunks()) for key in self.keys]
        # Only several keys are joined.
        self._numbered: Any = (
            pa.Table.from_arrays([*self._plain, _numbers(rows.num_rows)], names=[*self.keys, _ROW])
            if len(self.keys) > 1
            else None
        )

    def hits(self, rows: pa.Table) -> Hits:
        """The rows that have the keys of a source row.

        The keys of the source are hashed each time, so it is called with many rows.
        """
        columns = [_plain(rows.column(key)) for key in self.keys]
        if len(columns) == 1:
            found = pc.index_in(columns[0], value_set=self._plain[0], skip_nulls=True)
            return Hits(found.is_valid(), found.drop_null())
        places = _numbers(rows.num_rows)
        left = pa.Table.from_arrays([*columns, places], names=[*self.keys, _PLACE])
        pairs = left.join(self._numbered, self.keys, join_type="inner").sort_by(_PLACE)
        hit = pairs.column(_PLACE).combine_chunks()
        return Hits(pc.is_in(places, value_set=hit), pairs.column(_ROW))

    def unmatched(self, matched: Any) -> pa.Table:
        """The source rows that the dataset does not have, given for each whether it does."""
        return self.rows.filter(pc.invert(matched))

    def candidates(self, base: Base) -> list[str]:
        """The files that may have one of the keys."""
        if not self.rows.num_rows:
            return []
        return [file.path for file, _ in base.scan.files_with_names() if self.may_be_in(file)]

    def depends_on(self, base: Base) -> Callable[[str], bool]:
        """The partitions that can have the keys: those of the rows if partition keys are keys, else all."""
        partition_keys = base.definition.keys
        if not partition_keys or not set(partition_keys) <= set(self.keys):
            return everywhere
        touched = {
            partition for batch in self.rows.to_batches() for partition, _ in split(batch, partition_keys)
        }
        return overlapping(touched)

    def may_be_in(self, file: FileRef) -> bool:
        """Whether the statistics of a file leave room for one of the keys."""
        if file.stats is None:
            return True
        if not file.stats.row_count:
            return False
        mask: Any = None
        for column in file.stats.columns:
            if column.name not in self.keys or column.min is None or column.max is None:
                continue
            kind = self.schema.field(column.name).type
            if pa.types.is_floating(kind):
                continue
            try:
                low = pa.scalar(from_json_value(column.min, kind), kind)
                high = pa.scalar(from_json_value(column.max, kind), kind)
            except (pa.ArrowException, ValueError, TypeError):
                continue
            values = self.rows.column(column.name)
            within = pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high))
            mask = within if mask is None else pc.and_(mask, within)
        return mask is None or bool(pc.any(mask).as_py())


def _plain(array: Any) -> Any:
    """An array of a type by which pyarrow can look up."""
    return array.cast(array.type.value_type) if isinstance(array.type, pa.DictionaryType) else array


def _numbers(count: int) -> Any:
    """The numbers from 0 to below ``count``."""
    return pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), count), start=-1)


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches as tables that are large enough to look up their keys together."""
    group: list[pa.RecordBatch] = []
    held = 0
    for batch in batches:
        group.append(batch)
        held += batch.get_total_buffer_size()
        if held >= _LOOKUP_BYTES:
            yield pa.Table.from_batches(group)
            group, held = [], 0
    if group:
        yield pa.Table.from_batches(group)


class Matched:
    """Which rows of the source were found in any file, and where as far as memory allows.

    Threads share it.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._parts: list[Any] = []
        self._held = 0
        self._hits_bytes = 0
        self._lock = threading.Lock()
        self.hits: dict[str, Hits] = {}

    def add(self, path: str, hits: Hits) -> None:
        with self._lock:
            self._hits_bytes += hits.size_bytes
            if self._hits_bytes <= _MAX_HITS_BYTES:
                self.hits[path] = hits
            self._parts.append(hits.rows)
            self._held += len(hits.rows)
            # A key that many rows have is remembered once.
            if self._held > 4 * self._count:
                self._parts = [one_array(self._parts).unique()]
                self._held = len(self._parts[0])

    def mask(self) -> Any:
        if not self._parts:
            return pa.repeat(pa.scalar(False), self._count)
        rows = one_array(self._parts).cast(pa.int64())
        return pc.is_in(_numbers(self._count), value_set=rows)
