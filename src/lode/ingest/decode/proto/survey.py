"""Checks of rows before they are parsed, since parsing could exceed the limits of a request.

Depth: ptars skips groups by recursion without a limit, so a long row of nested groups would exhaust the
stack. Protobuf itself allows a depth of 100. Memory: an empty row takes two bytes on the wire, and so does a
repeated message, but each has a value in every column below; a packed number takes one byte.
"""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from lode.ingest.decode.packed import (
    OFFSET_BYTES,
    REPEATED_VALUES_ESTIMATE,
    SLOW_TYPES,
    VALIDITY_BYTES,
    fixed_bytes,
)
from lode.ingest.decode.proto.plan import INT64, INTEGERS, F, WireShape
from lode.ingest.types.columns import arrow_type

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lode.ingest.decode.proto.plan import Field

# Skipping a group takes about 80 bytes of the stack, and a byte or more of the row.
MAX_UNCHECKED_BYTES: Final = 4096
# A number as ptars returns it, and whether it is set.
_PARSED_BYTES: Final = 9
# The Python object of a value on its way to the column's type.
_OBJECT_BYTES: Final = 24
_INTERVAL_BYTES: Final = 64
_FIXED32: Final = frozenset({F.TYPE_FIXED32, F.TYPE_SFIXED32, F.TYPE_FLOAT})
_FIXED64: Final = frozenset({F.TYPE_FIXED64, F.TYPE_SFIXED64, F.TYPE_DOUBLE})
_DELIMITED: Final = frozenset({F.TYPE_STRING, F.TYPE_BYTES})
# Columns that need no array but the parsed one.
_SAME: Final = frozenset(
    [(kind, number) for kind in ("INT64", "TIMESTAMP") for number in INT64]
    + [("FLOAT64", F.TYPE_DOUBLE), ("BOOL", F.TYPE_BOOL)]
)
# Counting rows may take much more memory than decoding them, so one request is counted at a time.
_counting = threading.Lock()


@dataclass(frozen=True, slots=True)
class _Level:
    """The row, or a repeated message. Its own repeated messages stay bytes."""

    parse: Any
    # For each repeated field: the names that lead to it, the bytes of an element, the level of a message.
    repeated: tuple[tuple[tuple[str, ...], int, _Level | None], ...]


class RowSurvey:
    """Estimates and checks rows of one message type."""

    def __init__(self, fields: tuple[Field, ...]) -> None:
        self._fields = fields
        # The number of values of a row that are checked one by one.
        self.slow_values = _slow_values(fields)
        self._row_bytes = _message_bytes(fields)
        self._expansion = _expansion(fields)

    def unpacked_bytes(self, rows: Sequence[bytes], size: int, limit: int) -> int:
        """The most memory that rows of ``size`` bytes take when they are decoded.

        Elements are counted only if a bound by the size alone is above the limit.
        """
        fixed = size + len(rows) * self._row_bytes
        bound = fixed + size * self._expansion
        if bound <= limit:
            return bound
        total = fixed
        with _counting:
            for row in rows:
                with suppress(DecodeError):  # parsing finds it again and reports it
                    total += _count(self._level, row, limit - total)
                if total > limit:
                    break
        return total

    def find_malformed(self, rows: list[bytes], report: Callable[[int, str], None]) -> None:
        """Report the rows that must not be parsed."""
        if max(map(len, rows), default=0) <= MAX_UNCHECKED_BYTES:
            return
        for index, row in enumerate(rows):
            if len(row) > MAX_UNCHECKED_BYTES:
                try:
                    _count(self._level, row, sys.maxsize)
                except DecodeError:
                    report(index, "The row is malformed, or nested too deep.")

    @cached_property
    def _level(self) -> _Level:
        file = descriptor_pb2.FileDescriptorProto(name="lode_survey.proto", syntax="proto2")
        pool = descriptor_pool.DescriptorPool()
        declared = _declare_level(file, self._fields)
        pool.Add(file)
        return _load(pool, declared)


@dataclass(frozen=True, slots=True)
class _Declared:
    name: str
    repeated: tuple[tuple[tuple[str, ...], int, _Declared | None], ...]


def _declare_level(file: Any, fields: tuple[Field, ...]) -> _Declared:
    name = f"L{len(file.message_type)}"
    found: list[tuple[tuple[str, ...], Field]] = []
    _declare(file.message_type.add(name=name), fields, (), found)
    return _Declared(
        name,
        tuple(
            (
                path,
                _element_bytes(field),
                None if field.shape is WireShape.SCALAR else _declare_level(file, field.fields),
            )
            for path, field in found
        ),
    )


def _declare(
    message: Any,
    fields: tuple[Field, ...],
    above: tuple[str, ...],
    repeated: list[tuple[tuple[str, ...], Field]],
) -> None:
    for field in fields:
        name = f"f{field.number}"
        if field.repeated:
            kind = field.kind if field.shape is WireShape.SCALAR else F.TYPE_BYTES
            kind = F.TYPE_INT32 if kind == F.TYPE_ENUM else F.TYPE_BYTES if kind == F.TYPE_STRING else kind
            message.field.add(name=name, number=field.number, type=kind, label=F.LABEL_REPEATED)
            repeated.append(((*above, name), field))
        elif field.shape is not WireShape.SCALAR:
            nested = message.nested_type.add(name=f"M{field.number}")
            message.field.add(
                name=name,
                number=field.number,
                type=F.TYPE_MESSAGE,
                label=F.LABEL_OPTIONAL,
                type_name=nested.name,
            )
            _declare(nested, field.fields, (*above, name), repeated)


def _load(pool: Any, declared: _Declared) -> _Level:
    parse = message_factory.GetMessageClass(pool.FindMessageTypeByName(declared.name)).FromString
    return _Level(
        parse,
        tuple(
            (path, size, None if level is None else _load(pool, level))
            for path, size, level in declared.repeated
        ),
    )


def _count(level: _Level, row: bytes, most: int) -> int:
    """The bytes of a row's repeated elements, at any depth; counting stops above ``most``."""
    message = level.parse(row)
    count = 0
    for path, size, below in level.repeated:
        holder = message
        for name in path:
            holder = getattr(holder, name)
        count += len(holder) * size
        if count > most:
            return count
        if below is not None:
            for item in holder:
                if below.repeated or len(item) > MAX_UNCHECKED_BYTES:
                    count += _count(below, item, most - count)
                    if count > most:
                        return count
    return count


def _message_bytes(fields: tuple[Field, ...]) -> int:
    """The bytes of one message without its repeated fields and without text."""
    return VALIDITY_BYTES + sum(OFFSET_BYTES if field.repeated else _element_bytes(field) for field in fields)


def _element_bytes(field: Field) -> int:
    """The bytes of one value of a field, parsed and in its column."""
    match field.shape:
        case WireShape.MESSAGE:
            return _message_bytes(field.fields)
        case WireShape.DURATION:
            return 2 * _PARSED_BYTES + _INTERVAL_BYTES
        case WireShape.TIMESTAMP:
            return 4 * _PARSED_BYTES
    if (field.column.type, field.kind) in _SAME:
        return _PARSED_BYTES
    made = VALIDITY_BYTES + fixed_bytes(arrow_type(field.column))
    if field.kind in _DELIMITED and field.column.type in ("STRING", "BYTES", "JSON", "GEOGRAPHY"):
        return made
    if field.names is not None and field.column.type == "STRING":
        return _PARSED_BYTES + made + field.names.max_name_bytes
    return _PARSED_BYTES + made + (_OBJECT_BYTES if _is_slow(field) else 0)


def _is_slow(field: Field) -> bool:
    """Whether values pass through Python: text of other types, decimals and durations."""
    if field.shape is WireShape.DURATION:
        return True
    if field.column.type in SLOW_TYPES:
        return field.kind not in INTEGERS
    return field.kind == F.TYPE_STRING and field.column.type not in ("STRING", "BYTES")


def _slow_values(fields: tuple[Field, ...]) -> int:
    count = 0
    for field in fields:
        alone = SLOW_TYPES.get(field.column.type, 1) if _is_slow(field) else 0
        inner = _slow_values(field.fields) if field.fields else alone
        count += REPEATED_VALUES_ESTIMATE if inner and field.repeated else inner
    return count


def _expansion(fields: tuple[Field, ...]) -> int:
    """The most bytes that a byte of a repeated field becomes; 0 if nothing is repeated."""
    most = 0
    for field in fields:
        if field.repeated:
            most = max(most, -(-_element_bytes(field) // _least_bytes(field)))
        most = max(most, _expansion(field.fields))
    return most


def _least_bytes(field: Field) -> int:
    """The least bytes of an element on the wire: numbers are packed, others have a tag and a length."""
    if field.shape is not WireShape.SCALAR or field.kind in _DELIMITED:
        return 2
    return 8 if field.kind in _FIXED64 else 4 if field.kind in _FIXED32 else 1
