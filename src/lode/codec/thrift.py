"""Thrift's compact protocol, as far as footers of Parquet use it: numbers, bytes, lists, structs.

A struct is a dict from the id of a field to its type and value, in the order of the file. It is written again
as it was read, with fields that this library does not know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from lode.errors import InvalidFormatError

if TYPE_CHECKING:
    from typing_extensions import Buffer

TRUE: Final = 1
FALSE: Final = 2
BYTE: Final = 3
I16: Final = 4
I32: Final = 5
I64: Final = 6
DOUBLE: Final = 7
BINARY: Final = 8
LIST: Final = 9
STRUCT: Final = 12

# A footer has about six levels.
_MAX_DEPTH: Final = 32
_VARINTS: Final = (I16, I32, I64)


class Typed(NamedTuple):
    """The value of a field, and its type."""

    type: int
    value: Any


class Items(NamedTuple):
    """A list, and the type of its members."""

    type: int
    values: list[Any]


Struct: TypeAlias = dict[int, Typed]


def read_struct(data: Buffer, start: int = 0) -> tuple[Struct, int]:
    """Read the struct that begins at ``start``, and return it with its end.

    Raises:
        InvalidFormatError: There is none.
    """
    reader = _Reader(memoryview(data).cast("B"), start)
    try:
        return reader.struct(0), reader.at
    except IndexError:
        raise InvalidFormatError("the data of a Parquet footer or page header ends too early") from None


def write_struct(fields: Struct) -> bytes:
    out = bytearray()
    _write_struct(out, fields)
    return bytes(out)


class _Reader:
    def __init__(self, data: memoryview, start: int) -> None:
        self._data = data
        self.at = start

    def struct(self, depth: int) -> Struct:
        found: Struct = {}
        last = 0
        while head := self._byte():
            last = last + (head >> 4) if head >> 4 else _from_zigzag(self._varint())
            kind = head & 15
            found[last] = Typed(kind, None if kind in (TRUE, FALSE) else self._value(kind, depth))
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if kind in _VARINTS:
            return _from_zigzag(self._varint())
        if kind == BINARY:
            return self._bytes(self._varint())
        if kind == STRUCT and depth < _MAX_DEPTH:
            return self.struct(depth + 1)
        if kind == LIST and depth < _MAX_DEPTH:
            return self._list(depth + 1)
        if kind == DOUBLE:
            return self._bytes(8)
        if kind in (TRUE, FALSE, BYTE):
            # A member of a list: in a struct the type is the value of a bool.
            return self._byte()
        raise InvalidFormatError(f"a Parquet footer has a field of type {kind}, which is not known")

    def _list(self, depth: int) -> Items:
        head = self._byte()
        count = self._varint() if head >> 4 == 15 else head >> 4
        kind = head & 15
        if count > len(self._data) - self.at:
            raise IndexError
        return Items(kind, [self._value(kind, depth) for _ in range(count)])

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    def _bytes(self, count: int) -> bytes:
        found = bytes(self._data[self.at : self.at + count])
        if len(found) != count:
            raise IndexError
        self.at += count
        return found

    def _byte(self) -> int:
        byte = self._data[self.at]
        self.at += 1
        return byte


def _write_struct(out: bytearray, fields: Struct) -> None:
    last = 0
    for number, (kind, value) in fields.items():
        step = number - last
        if 0 < step < 16:
            out.append(step << 4 | kind)
        else:
            out.append(kind)
            _write_varint(out, _to_zigzag(number))
        last = number
        if kind not in (TRUE, FALSE):
            _write_value(out, kind, value)
    out.append(0)


def _write_value(out: bytearray, kind: int, value: Any) -> None:
    if kind in _VARINTS:
        _write_varint(out, _to_zigzag(value))
    elif kind == BINARY:
        _write_varint(out, len(value))
        out += value
    elif kind == STRUCT:
        _write_struct(out, value)
    elif kind == LIST:
        count = len(value.values)
        out.append((count if count < 15 else 15) << 4 | value.type)
        if count >= 15:
            _write_varint(out, count)
        for each in value.values:
            _write_value(out, value.type, each)
    elif kind == DOUBLE:
        out += value
    else:
        out.append(value)


def _write_varint(out: bytearray, value: int) -> None:
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def _to_zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1


def _from_zigzag(value: int) -> int:
    return value >> 1 ^ -(value & 1)
