"""Rewrite Parquet files by row groups: those that stay as they are, are copied and not decoded."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lode.codec.columnar import to_batch
from lode.codec.parquet import Parquet
from lode.codec.row_groups import Footer, RowGroupCopy
from lode.errors import InvalidFormatError, LodeError
from lode.format.partition_values import common_values
from lode.lazy import pa, pt
from lode.read.files import named_errors
from lode.read.scan import checksums_of
from lode.read.source import borrowed_file
from lode.read.verified import finish, open_checked
from lode.write.stage import Unchanged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lode.change.base import Part
    from lode.format.manifest import FileRef, FileStats
    from lode.read.scan import Scan
    from lode.store.protocol import ObjectReader
    from lode.write.stage import Staged, Stager

    Stays = Callable[[FileRef, int], bool]
    Rows = Callable[[int, Iterator[Any]], Iterator[Any]]

# A smaller row group is put together with others.
MIN_COPIED_ROWS: Final = 65_536
MIN_COPIED_BYTES: Final = 4 << 20
# A smaller file is not looked into.
MIN_FILE_BYTES: Final = 1 << 20
_TAIL_BYTES: Final = 64 << 10


def rewrite(scan: Scan, part: Part, stager: Stager, stays: Stays, rows: Rows) -> Staged | None:
    """Stage one file of the rows of files of one partition. None: all of them have to be decoded.

    Args:
        scan: Reads files.
        part: The files.
        stager: Stages the new one.
        stays: Whether the rows of a row group stay as they are, given its file with the statistics of the
            row group, and the number of its first row in that file.
        rows: What becomes of rows that are decoded, given the number of the first one in its file.
    """
    codec = stager.components.codec
    files = [file for manifest in part for file in manifest.files]
    large = [file for file in files if file.size_bytes >= MIN_FILE_BYTES]
    if not large or not isinstance(codec, Parquet) or codec.schema is None or codec.distinct_count:
        return None
    if not scan.of(part).is_plain_parquet:
        return None
    partition = scan.layout.partition_of(scan.dataset_id, files[0].path)
    footer = codec.empty_footer()
    checksums = checksums_of(scan.of(part))
    with ExitStack() as readers:
        copied: dict[str, _Copied] = {}
        for file in large:
            reader = readers.enter_context(open_checked(scan.store, file, checksums.of(file)))
            found = _groups_that_stay(reader, file, codec, footer, stays)
            if found is not None:
                copied[file.path] = _Copied(file.path, reader, codec, stager.timestamp_column, found)
        if not copied:
            return None

        def pieces() -> Iterator[Any]:
            single = ((manifest, file) for manifest in part for file in manifest.files)
            for path, run in groupby(single, lambda each: each[1].path if each[1].path in copied else None):
                if path is not None:
                    yield from copied[path].pieces(rows)
                    continue
                others = [msgspec.structs.replace(manifest, files=(file,)) for manifest, file in run]
                yield from rows(0, scan.of(others).rows())
            for file_ in copied.values():
                finish(file_.reader)

        return stager.join(partition, pieces(), common_values(files))


@dataclass(frozen=True, slots=True)
class _Group:
    """A row group, the number of its first row, and what is copied of it, if anything is."""

    number: int
    first_row: int
    copy: RowGroupCopy | None


def _groups_that_stay(
    reader: ObjectReader, file: FileRef, codec: Parquet, footer: Footer, stays: Stays
) -> list[_Group] | None:
    """The row groups of a file; None if none of them can be copied."""
    assert codec.schema is not None
    floats = {field.name for field in codec.schema if pt.is_floating(field.type)}
    known = {each.name: each for each in file.stats.columns} if file.stats else {}
    # Statistics in footers leave out NaN. Only the manifest says whether there is any.
    if not floats <= known.keys():
        return None
    unbounded = frozenset(name for name in floats if known[name].min is None)
    with named_errors(file.path):
        described = _described(reader, file, codec, footer, unbounded)
    groups, first_row, any_stays = [], 0, False
    for number, (copy, stats, is_plain) in enumerate(described):
        is_large = copy.row_count >= MIN_COPIED_ROWS or copy.size_bytes >= MIN_COPIED_BYTES
        alone = msgspec.structs.replace(file, stats=stats)
        does_stay = is_large and is_plain and stays(alone, first_row)
        any_stays = any_stays or does_stay
        groups.append(_Group(number, first_row, copy if does_stay else None))
        first_row += copy.row_count
    return groups if any_stays else None


def _described(
    reader: ObjectReader, file: FileRef, codec: Parquet, footer: Footer, unbounded: frozenset[str]
) -> list[tuple[RowGroupCopy, FileStats, bool]]:
    """The row groups of a file with their statistics, and whether each is plain; empty if it differs."""
    import pyarrow.parquet as pq

    assert codec.schema is not None
    statistics = codec.footer_reader(codec.schema)
    described = []
    try:
        found = Footer.of(_tail(reader), reader.size)
        metadata = pq.read_metadata(pa.BufferReader(found.for_statistics()))
        for number, group in enumerate(found.row_groups if found.is_like(footer) else ()):
            copy = RowGroupCopy(group, file.path, reader.read_at, unbounded)
            stats = statistics.stats(metadata, unbounded=unbounded, distinct={}, row_group=number)
            described.append((copy, stats, copy.is_plain and copy.row_count >= 0))
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        if isinstance(error, LodeError | pa.ArrowException | UnicodeError):
            raise
        # Fields that are missing or of another type than Parquet says.
        raise InvalidFormatError(f"not a Parquet file: its footer is damaged: {error}") from error
    return described


def _tail(reader: ObjectReader) -> bytes:
    """The end of a file, with its footer."""
    tail = reader.read_at(max(reader.size - _TAIL_BYTES, 0), min(_TAIL_BYTES, reader.size))
    needed = int.from_bytes(tail[-8:-4], "little") + 8
    if needed > reader.size:
        raise InvalidFormatError("not a Parquet file: its footer is larger than the file")
    return tail if needed <= len(tail) else reader.read_at(reader.size - needed, needed)


@dataclass(frozen=True, slots=True)
class _Copied:
    """A file of which some row groups are copied."""

    path: str
    reader: ObjectReader
    codec: Parquet
    timestamp_column: str | None
    groups: list[_Group]

    def pieces(self, rows: Rows) -> Iterator[Any]:
        for is_copied, run in groupby(self.groups, lambda group: group.copy is not None):
            groups = list(run)
            if is_copied:
                yield from map(self._unchanged, groups)
            else:
                yield from rows(groups[0].first_row, self._decoded([group.number for group in groups]))

    def _unchanged(self, group: _Group) -> Unchanged:
        assert group.copy is not None
        if self.timestamp_column is None:
            return Unchanged(group.copy, ())
        return Unchanged(group.copy, tuple(self._decoded([group.number], [self.timestamp_column])))

    def _decoded(self, numbers: list[int], columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
        schema = self.codec.schema
        assert schema is not None
        wanted = schema if columns is None else pa.schema([schema.field(name) for name in columns])
        source = borrowed_file(self.reader)
        try:
            for chunk in self.codec.decode(source, numbers, columns):
                yield to_batch(chunk, wanted, first_row=0)
        except InvalidFormatError as error:
            raise InvalidFormatError(f"{self.path}: {error}") from error
