"""Row groups that were encoded apart, as one Parquet file.

The bytes of a row group do not depend on the others. Only the footer says where its pages are.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lode.codec.thrift import I16, I64, LIST, STRUCT, Items, Struct, Typed, read_struct, write_struct
from lode.errors import InvalidFormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lode.codec.protocol import Sink

_MAGIC: Final = b"PAR1"
_TAIL_BYTES: Final = 8
# Fields of Parquet's format: of the footer,
_SCHEMA: Final = 2
_NUM_ROWS: Final = 3
_ROW_GROUPS: Final = 4
_CREATED_BY: Final = 6
_COLUMN_ORDERS: Final = 7
_ENCRYPTION: Final = 8
# of an element of its schema,
_FIELD_ID: Final = 9
# of a row group,
_COLUMNS: Final = 1
_GROUP_BYTES: Final = 2
_GROUP_ROWS: Final = 3
_GROUP_OFFSET: Final = 5
_ORDINAL: Final = 7
_MAX_ORDINAL: Final = (1 << 15) - 1
# of a column in it,
_CHUNK_OFFSET: Final = 2
_METADATA: Final = 3
_INDEXES: Final = (4, 5, 6, 7)
_ELSEWHERE: Final = (1, 8, 9)
# of a column of the schema: its physical type, unless it is a struct, and the length of its values,
_ELEMENT_TYPE: Final = 1
_ELEMENT_LENGTH: Final = 2
# of that column's pages,
_PHYSICAL_TYPE: Final = 1
_STATISTICS: Final = 12
_SIZE_STATISTICS: Final = 16
# of their statistics: the old and new fields for the largest and smallest value.
_BOUNDS: Final = (1, 2, 5, 6)
# The bytes of a bound by physical type; text has any, and the schema has the length of fixed ones.
_BOUND_BYTES: Final = {0: 1, 1: 4, 2: 8, 3: 12, 4: 4, 5: 8}
_FIXED_LENGTH: Final = 7
# Of the pages of a column.
_COMPRESSED_BYTES: Final = 7
_PAGES: Final = (9, 10, 11)
_BLOOM_FILTER: Final = (14, 15)
# Of the header of a page.
_PAGE_BYTES: Final = 3
_PAGE_CRC: Final = 4


class Footer(NamedTuple):
    """The footer of a file, and where it begins."""

    fields: Struct
    start: int

    @classmethod
    def of(cls, tail: Any, size: int) -> Footer:
        """Read it from the end of a file.

        Args:
            tail: The last bytes, at least the footer.
            size: The size of the file.
        """
        tail = memoryview(tail).cast("B")
        length = int.from_bytes(tail[-_TAIL_BYTES:-4], "little")
        if tail[-4:] != _MAGIC or length + _TAIL_BYTES > len(tail):
            raise InvalidFormatError("this is not the end of a Parquet file")
        start = len(tail) - _TAIL_BYTES - length
        fields, _ = read_struct(tail[start:-_TAIL_BYTES])
        return cls(fields, size - _TAIL_BYTES - length)

    @property
    def row_groups(self) -> list[Struct]:
        found: list[Struct] = self.fields[_ROW_GROUPS].value.values
        return found

    def is_like(self, other: Footer) -> bool:
        """Whether row groups under this footer can be part of a file with the other one.

        A file without ids of fields, as earlier versions write it, gets those of the other.
        """
        theirs = other.elements if self.has_ids else other.elements_without_ids
        alike = self.elements == theirs and self.fields.get(_COLUMN_ORDERS) == other.fields.get(
            _COLUMN_ORDERS
        )
        # Readers distrust the statistics of some other libraries by their name.
        return alike and all(_ENCRYPTION not in each.fields and each.is_by_arrow for each in (self, other))

    def for_statistics(self) -> bytes:
        """The end of a file with this footer, of which pyarrow reads the statistics.

        pyarrow ends the process if a damaged footer contradicts itself. So the types of columns and the sizes
        of bounds are checked, and histograms of levels are left out.

        Raises:
            InvalidFormatError: The footer is damaged.
        """
        try:
            schema: list[Struct] = self.fields[_SCHEMA].value.values
            leaves = [element for element in schema if _ELEMENT_TYPE in element]
            groups = [_with_checked_columns(group, leaves) for group in self.row_groups]
            data = write_struct(self.fields | {_ROW_GROUPS: Typed(LIST, Items(STRUCT, groups))})
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InvalidFormatError(f"the footer is damaged: {error}") from error
        return data + len(data).to_bytes(4, "little") + _MAGIC

    @property
    def elements(self) -> list[Struct]:
        """The schema, element by element."""
        found: list[Struct] = self.fields[_SCHEMA].value.values
        return found

    @property
    def has_ids(self) -> bool:
        return any(_FIELD_ID in element for element in self.elements)

    @property
    def elements_without_ids(self) -> list[Struct]:
        return [
            {number: value for number, value in element.items() if number != _FIELD_ID}
            for element in self.elements
        ]

    @property
    def is_by_arrow(self) -> bool:
        found = self.fields.get(_CREATED_BY)
        return found is not None and found.value.startswith(b"parquet-cpp-arrow")


class RowGroupCopy(NamedTuple):
    """A row group that becomes part of another file without being decoded."""

    group: Struct
    # The path of its file, and a function that returns bytes of it, given the offset and their number.
    path: str
    read: Callable[[int, int], bytes]
    # Columns whose bounds leave out values.
    unbounded: frozenset[str] = frozenset()

    @property
    def row_count(self) -> int:
        return int(self.group[_GROUP_ROWS].value)

    @property
    def is_plain(self) -> bool:
        """Whether its pages are in the same file, and not encrypted."""
        columns = self.group[_COLUMNS].value.values
        return all(_METADATA in column and not column.keys() & set(_ELSEWHERE) for column in columns)

    @property
    def size_bytes(self) -> int:
        """Its size before compression."""
        return int(self.group[_GROUP_BYTES].value)


class JoinedFile:
    """A Parquet file of row groups from other files.

    Args:
        sink: Gets the file.
        footer: That of a file with the same columns.
    """

    def __init__(self, sink: Sink, footer: Footer) -> None:
        self._sink = sink
        self._size = 0
        self._footer = footer
        self._groups: list[Struct] = []
        self._write(_MAGIC)

    def add(self, file: Any) -> None:
        """Add all row groups of a file, given as a buffer."""
        data = memoryview(file).cast("B")
        footer = Footer.of(data, len(data))
        if not footer.is_like(self._footer):
            raise AssertionError("the row groups of a file have different columns")
        moved = self._size - len(_MAGIC)
        self._write(data[len(_MAGIC) : footer.start])
        for group in footer.row_groups:
            columns = [_moved(column, moved) for column in group[_COLUMNS].value.values]
            self._add(group, columns, moved)

    def copy(self, copied: RowGroupCopy) -> None:
        """Add one row group, whose pages are checked.

        Raises:
            InvalidFormatError: A page is damaged.
        """
        start = self._size
        columns = []
        for column in copied.group[_COLUMNS].value.values:
            try:
                first, size = _place(column)
                data = copied.read(first, size)
                _check_pages(data, size)
            except InvalidFormatError as error:
                raise InvalidFormatError(f"{copied.path} cannot be read: {error}") from None
            columns.append(_moved(column, self._size - first))
            self._write(data)
        offset = copied.group.get(_GROUP_OFFSET)
        self._add(copied.group, columns, start - (offset.value if offset else 0))

    def close(self) -> bytes:
        """Write the footer, and return it with the end of the file."""
        rows = sum(group[_GROUP_ROWS].value for group in self._groups)
        groups = Typed(LIST, Items(STRUCT, self._groups))
        data = write_struct(self._footer.fields | {_NUM_ROWS: Typed(I64, rows), _ROW_GROUPS: groups})
        tail = data + len(data).to_bytes(4, "little") + _MAGIC
        self._write(tail)
        return tail

    def _add(self, group: Struct, columns: list[Struct], moved: int) -> None:
        """Add a row group with the places of its pages in this file."""
        number = len(self._groups)
        group = dict(group)
        group[_COLUMNS] = Typed(LIST, Items(STRUCT, columns))
        if _GROUP_OFFSET in group:
            group[_GROUP_OFFSET] = Typed(I64, group[_GROUP_OFFSET].value + moved)
        if _ORDINAL in group and number <= _MAX_ORDINAL:
            group[_ORDINAL] = Typed(I16, number)
        else:
            group.pop(_ORDINAL, None)
        self._groups.append(group)

    def _write(self, data: Any) -> None:
        self._sink.write(data)
        self._size += len(data)


def _with_checked_columns(group: Struct, leaves: list[Struct]) -> Struct:
    columns = []
    for column, leaf in zip(group[_COLUMNS].value.values, leaves, strict=True):
        pages: Struct = column[_METADATA].value
        if pages[_PHYSICAL_TYPE].value != leaf[_ELEMENT_TYPE].value:
            raise ValueError("a column of a row group has another type than in the schema")
        size = _BOUND_BYTES.get(leaf[_ELEMENT_TYPE].value)
        if leaf[_ELEMENT_TYPE].value == _FIXED_LENGTH:
            size = leaf[_ELEMENT_LENGTH].value
        statistics: Struct = pages[_STATISTICS].value if _STATISTICS in pages else {}
        for bound in _BOUNDS:
            if size is not None and bound in statistics and len(statistics[bound].value) != size:
                raise ValueError("a bound of a column has another size than its type")
        kept = {number: value for number, value in pages.items() if number != _SIZE_STATISTICS}
        columns.append({**column, _METADATA: Typed(column[_METADATA].type, kept)})
    return {**group, _COLUMNS: Typed(LIST, Items(STRUCT, columns))}


def _place(column: Struct) -> tuple[int, int]:
    """Where the pages of a column begin, and their size."""
    pages: Struct = column[_METADATA].value
    starts = [pages[offset].value for offset in _PAGES if offset in pages and pages[offset].value]
    first, size = min(starts, default=0), pages[_COMPRESSED_BYTES].value
    if first < len(_MAGIC) or size < 0:
        raise InvalidFormatError("the footer has no place for the pages of a column")
    return first, size


def _check_pages(data: bytes, size: int) -> None:
    """Refuse pages whose bytes are not those that were written. Some writers leave no checksum."""
    if len(data) != size:
        raise InvalidFormatError("the pages of a column end after the end of the file")
    view, at = memoryview(data), 0
    while at < size:
        header, start = read_struct(view, at)
        if _PAGE_BYTES not in header or header[_PAGE_BYTES].value < 0:
            raise InvalidFormatError("the header of a page has no size")
        at = start + header[_PAGE_BYTES].value
        if _PAGE_CRC in header and zlib.crc32(view[start:at]) != header[_PAGE_CRC].value & 0xFFFFFFFF:
            raise InvalidFormatError("a page has another checksum than its header says")
    if at != size:
        raise InvalidFormatError("the last page of a column ends too early")


def _moved(column: Struct, moved: int) -> Struct:
    """A column of a row group whose pages are moved. Indexes of pages are not part of a row group."""
    pages: Struct = dict(_shifted(column[_METADATA].value, _PAGES, _BLOOM_FILTER, moved))
    found: Struct = dict(_shifted(column, (_CHUNK_OFFSET,), _INDEXES, moved))
    return found | {_METADATA: Typed(column[_METADATA].type, pages)}


def _shifted(
    fields: Struct, offsets: tuple[int, ...], dropped: tuple[int, ...], moved: int
) -> Iterator[tuple[int, Typed]]:
    for number, (kind, value) in fields.items():
        if number in dropped:
            continue
        # Some writers leave an offset that they do not use at 0.
        yield number, Typed(kind, value + moved if number in offsets and value else value)
