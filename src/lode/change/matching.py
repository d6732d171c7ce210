"""Which files have rows for which a condition is true: none, some or only such rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from lode.codec.columnar import to_batch
from lode.codec.protocol import rows_of, takes_any_record
from lode.errors import InvalidOptionError
from lode.filter import Filter
from lode.format.manifest import FileRef
from lode.format.paths import partition_values
from lode.lazy import pa, pc
from lode.read.files import decode_file, only_columns
from lode.read.plan import check_options, filter_of
from lode.read.prune import can_match, mentioned
from lode.read.scan import checksums_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyarrow.compute import Expression

    from lode.change.base import Base, Part, Workers
    from lode.read.scan import Scan


@dataclass(frozen=True, slots=True)
class Matching:
    """The files of a dataset that have rows for which a condition is true."""

    condition: Filter
    schema: pa.Schema
    # Files of which every row matches, and files of which some do, with their number.
    whole: list[FileRef]
    some: dict[str, int]

    def without_files(self) -> Matching:
        """The condition alone, as a task that rewrites a file needs it."""
        return Matching(self.condition, self.schema, [], {})

    @property
    def paths(self) -> frozenset[str]:
        return frozenset((*(file.path for file in self.whole), *self.some))

    def keep(self, scan: Scan) -> Iterator[Any]:
        """The rows of files for which the condition is not true."""
        return rows_where(scan, self._opposite(), self.schema)

    def rest(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch for which the condition is not true."""
        return self._opposite().apply(batch)

    def _opposite(self) -> Filter:
        where = ~pc.coalesce(self.condition.where, pc.scalar(False))
        return Filter(where, self.condition.columns)


def condition_of(scan: Scan, where: Expression | str) -> tuple[Filter, pa.Schema]:
    """A condition on the rows of a scan, and their columns; raises if it does not fit them."""
    check_options(None, where, None)
    if scan.components.codec is None:
        raise InvalidOptionError(f"dataset {scan.dataset_id!r} holds blobs, which have no rows to select")
    schema = scan.schema()
    condition = filter_of(where, schema)
    if condition is None:
        raise InvalidOptionError("where is missing: give a condition such as \"day = 'mon'\"")
    try:
        mentioned(schema, condition.where).empty_table().filter(condition.where)
    except pa.ArrowException as error:
        raise InvalidOptionError(f"where={str(where)[:120]} does not fit the columns: {error}") from None
    return condition, schema


def match_rows(base: Base, where: Expression | str, workers: Workers) -> Matching:
    """Find the files with matching rows. Opens only those that partition and statistics do not decide."""
    scan = base.scan
    condition, schema = condition_of(scan, where)
    candidates = scan.pruned(where, schema)
    undecided = _undecided(base, candidates, where, condition, schema)
    doubtful = {file.path: file for file in undecided}
    whole = [file for file in candidates if file.path not in doubtful]
    some: dict[str, int] = {}
    count = _Count(base.reader, where, condition, schema)
    for path, found, rows in workers.each(count, base.parts(doubtful), None):
        file = doubtful[path]
        total = rows if file.stats is None else file.stats.row_count
        if found and found == total:
            whole.append(file)
        elif found:
            some[path] = found
    return Matching(condition, schema, whole, some)


@dataclass(frozen=True, slots=True)
class _Count:
    """Counts the rows of a file for which a condition is true, and, without a schema, all of its rows."""

    reader: Scan
    where: Expression | str
    condition: Filter
    schema: pa.Schema

    def __call__(self, part: Part) -> tuple[str, int, int]:
        alone = self.reader.of(part)
        path = part[0].files[0].path
        if not _is_schemaless(alone):
            return path, alone.count(self.where), 0
        found = sum(1 for _ in rows_where(alone, self.condition, self.schema))
        return path, found, sum(map(len, _chunks(alone)))


def may_match(condition: Filter, schema: pa.Schema) -> Callable[[str], bool]:
    """Tell of a partition whether it may have matching rows."""

    @cache
    def decide(partition: str) -> bool:
        return can_match(FileRef("any", 0), partition, schema, condition.where)

    return decide


def stored_rows(scan: Scan) -> Iterator[Any]:
    """The rows of a scan, as the dataset stores them: batches, or single records of any shape."""
    if not _is_schemaless(scan):
        return scan.rows()
    return chain.from_iterable(_chunks(scan))


def _chunks(scan: Scan) -> Iterator[list[Any]]:
    checksums = checksums_of(scan)
    for manifest in scan.manifests:
        for file in manifest.files:
            yield from map(rows_of, decode_file(scan.store, file, scan.components, checksums.of(file)))


def rows_where(scan: Scan, condition: Filter, schema: pa.Schema) -> Iterator[Any]:
    """Those for which a condition is true. Records of any shape need columns only for that."""
    if not _is_schemaless(scan):
        return map(condition.apply, scan.rows())
    return chain.from_iterable(_selected(records, condition, schema) for records in _chunks(scan))


def _selected(records: list[Any], condition: Filter, schema: pa.Schema) -> list[Any]:
    used = mentioned(schema, condition.where)
    batch = to_batch(only_columns(records, used.names), used, first_row=0, from_json=True)
    numbered = batch.append_column("__row", pa.array(range(len(records)), pa.int64()))
    rows: Any = condition.apply(numbered).column("__row").to_pylist()
    return [records[row] for row in rows]


def _is_schemaless(scan: Scan) -> bool:
    has_columns = scan.definition is not None and scan.definition.columns is not None
    return not has_columns and takes_any_record(scan.components.codec)


def _undecided(
    base: Base, files: list[FileRef], where: Expression | str, condition: Filter, schema: pa.Schema
) -> list[FileRef]:
    """The files that may also have rows for which the condition is not true.

    A row that does not match makes the condition false, or has a null in one of its columns. Statistics leave
    out NaN and the results of functions, so a condition with these is always undecided.
    """
    if not condition.fits_row_groups or any("." in column for column in condition.columns):
        return files
    negated = f"NOT ({where})" if isinstance(where, str) else ~where
    opposite = filter_of(negated, schema)
    assert opposite is not None
    chosen = {file.path for file in files}
    kept: list[FileRef] = []
    # Statistics under the present names of their columns: an old name may mean another column now.
    for file, _ in base.scan.files_with_names():
        if file.path not in chosen:
            continue
        partition = base.partition_of(file.path)
        without_null = {key for key, value in partition_values(partition).items() if value is not None}
        if file.stats is not None:
            without_null |= {column.name for column in file.stats.columns if not column.null_count}
        is_known = without_null.issuperset(condition.columns)
        if not is_known or can_match(file, partition, schema, opposite.where):
            kept.append(file)
    return kept
