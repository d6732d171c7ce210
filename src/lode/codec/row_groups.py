"""Row groups that were encoded apart, as one Parquet file.

The bytes of a row group do not depend on the others. Only the footer says where its pages are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lode.codec.thrift import I16, I64, LIST, Items, Struct, Typed, read_struct, write_struct
from lode.errors import InvalidFormatError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lode.codec.protocol import Sink

_MAGIC: Final = b"PAR1"
_TAIL_BYTES: Final = 8
# Fields of Parquet's format: of the footer,
_SCHEMA: Final = 2
_NUM_ROWS: Final = 3
_ROW_GROUPS: Final = 4
# of a row group,
_COLUMNS: Final = 1
_GROUP_ROWS: Final = 3
_GROUP_OFFSET: Final = 5
_ORDINAL: Final = 7
_MAX_ORDINAL: Final = (1 << 15) - 1
# of a column in it,
_CHUNK_OFFSET: Final = 2
_METADATA: Final = 3
_INDEXES: Final = (4, 5, 6, 7)
# and of that column's pages.
_PAGES: Final = (9, 10, 11)
_BLOOM_FILTER: Final = (14, 15)


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
        tail = memoryview(tail)
        length = int.from_bytes(tail[-_TAIL_BYTES:-4], "little")
        if tail[-4:] != _MAGIC or length + _TAIL_BYTES > len(tail):
            raise InvalidFormatError("this is not the end of a Parquet file")
        start = len(tail) - _TAIL_BYTES - length
        return cls(read_struct(bytes(tail[start:-_TAIL_BYTES])), size - _TAIL_BYTES - length)

    @property
    def row_groups(self) -> list[Struct]:
        found: list[Struct] = self.fields[_ROW_GROUPS].value.values
        return found


class JoinedFile:
    """A Parquet file of row groups that come with the footers of other files."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._size = 0
        self._footer: Struct = {}
        self._groups: list[Struct] = []
        self._write(_MAGIC)

    def add(self, file: Any) -> None:
        """Add all row groups of a file, given as a buffer. It has the same columns as those before."""
        data = memoryview(file)
        footer = Footer.of(data, len(data))
        if not self._footer:
            self._footer = footer.fields
        elif self._footer[_SCHEMA] != footer.fields[_SCHEMA]:
            raise AssertionError("the row groups of a file have different columns")
        moved = self._size - len(_MAGIC)
        self._write(data[len(_MAGIC) : footer.start])
        for group in footer.row_groups:
            self._groups.append(self._placed(group, moved))

    def close(self) -> bytes:
        """Write the footer, and return it with the end of the file."""
        rows = sum(group[_GROUP_ROWS].value for group in self._groups)
        groups = Typed(LIST, Items(self._footer[_ROW_GROUPS].value.type, self._groups))
        fields = self._footer | {_NUM_ROWS: Typed(I64, rows), _ROW_GROUPS: groups}
        data = write_struct(fields)
        tail = data + len(data).to_bytes(4, "little") + _MAGIC
        self._write(tail)
        return tail

    def _placed(self, group: Struct, moved: int) -> Struct:
        """A row group with the places of its pages in this file."""
        number = len(self._groups)
        group = dict(group)
        columns = group[_COLUMNS].value
        group[_COLUMNS] = Typed(LIST, Items(columns.type, [_moved(each, moved) for each in columns.values]))
        if _GROUP_OFFSET in group:
            group[_GROUP_OFFSET] = Typed(I64, group[_GROUP_OFFSET].value + moved)
        if _ORDINAL in group and number <= _MAX_ORDINAL:
            group[_ORDINAL] = Typed(I16, number)
        else:
            group.pop(_ORDINAL, None)
        return group

    def _write(self, data: Any) -> None:
        self._sink.write(data)
        self._size += len(data)


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
