"""A look at rows before they are parsed, where parsing them could cost more than a request may.

Two things are found. Groups, which ptars skips by recursion without a limit, so that a long row of nothing
but nested groups would exhaust the stack; protobuf itself allows a depth of 100. And messages that are
repeated without content: two bytes on the wire each, but a value in every column below.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from lode.ingest.rows.proto_plan import F, Shape
from lode.ingest.status import invalid

if TYPE_CHECKING:
    from lode.ingest.rows.proto_plan import Field

# Skipping a group takes about 80 bytes of the stack, and a byte or more of the row.
LONGEST_UNSEEN: Final = 4096
# Set or not, each takes up to eight bytes in Arrow.
MOST_VALUES: Final = 1 << 26
# What a message without content takes on the wire, inside another.
_LEAST_BYTES: Final = 2


@dataclass(frozen=True, slots=True)
class _Level:
    """The row, or a message that is repeated; what it repeats itself is bytes to its class."""

    parse: Any
    values: int
    # Where the messages that it repeats are, as the names of fields, and what they are.
    repeated: tuple[tuple[tuple[str, ...], _Level], ...]


class Survey:
    """Looks at rows of one message type."""

    def __init__(self, fields: tuple[Field, ...]) -> None:
        self._fields = fields
        self._values = _values(fields)
        self._most_values_of_one = _most_values_of_one(fields)

    def malformed(self, rows: list[bytes]) -> dict[int, str]:
        """Name the rows that must not be parsed; refuse the request if its rows are too much together."""
        left = MOST_VALUES - len(rows) * self._values
        if left < 0:
            raise _too_much()
        found: dict[int, str] = {}
        might_be_much = (
            self._most_values_of_one > 0
            and sum(map(len, rows)) // _LEAST_BYTES * self._most_values_of_one > left
        )
        if not might_be_much and max(map(len, rows), default=0) <= LONGEST_UNSEEN:
            return found
        for index, row in enumerate(rows):
            if might_be_much or len(row) > LONGEST_UNSEEN:
                try:
                    left -= _count(self._level, row, left)
                except DecodeError:
                    found[index] = "The row is malformed, or nested too deep."
        return found

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
    values: int
    repeated: tuple[tuple[tuple[str, ...], _Declared], ...]


def _declare_level(file: Any, fields: tuple[Field, ...]) -> _Declared:
    name = f"L{len(file.message_type)}"
    found: list[tuple[tuple[str, ...], tuple[Field, ...]]] = []
    _declare(file.message_type.add(name=name), fields, (), found)
    return _Declared(
        name, _values(fields), tuple((path, _declare_level(file, below)) for path, below in found)
    )


def _declare(
    message: Any,
    fields: tuple[Field, ...],
    above: tuple[str, ...],
    repeated: list[tuple[tuple[str, ...], tuple[Field, ...]]],
) -> None:
    for field in fields:
        if field.shape is Shape.SCALAR:
            continue
        name = f"f{field.number}"
        if field.repeated:
            message.field.add(name=name, number=field.number, type=F.TYPE_BYTES, label=F.LABEL_REPEATED)
            repeated.append(((*above, name), field.fields))
            continue
        nested = message.nested_type.add(name=f"M{field.number}")
        message.field.add(
            name=name, number=field.number, type=F.TYPE_MESSAGE, label=F.LABEL_OPTIONAL, type_name=nested.name
        )
        _declare(nested, field.fields, (*above, name), repeated)


def _load(pool: Any, declared: _Declared) -> _Level:
    parse = message_factory.GetMessageClass(pool.FindMessageTypeByName(declared.name)).FromString
    below = tuple((path, _load(pool, level)) for path, level in declared.repeated)
    return _Level(parse, declared.values, below)


def _count(level: _Level, row: bytes, most: int) -> int:
    """How many values the messages that a row repeats have, at any depth; more than ``most`` are refused."""
    message = level.parse(row)
    count = 0
    for path, below in level.repeated:
        holder = message
        for name in path:
            holder = getattr(holder, name)
        count += len(holder) * below.values
        if count > most:
            raise _too_much()
        for item in holder:
            if below.repeated or len(item) > LONGEST_UNSEEN:
                count += _count(below, item, most - count)
    return count


def _values(fields: tuple[Field, ...]) -> int:
    """How many values one message has, without those of the messages it repeats."""
    return 1 + sum(1 if field.repeated else _values(field.fields) for field in fields)


def _most_values_of_one(fields: tuple[Field, ...]) -> int:
    """How many values one repeated message has at the most; 0 where nothing but scalars is repeated."""
    most = 0
    for field in fields:
        if field.repeated and field.shape is not Shape.SCALAR:
            most = max(most, _values(field.fields))
        most = max(most, _most_values_of_one(field.fields))
    return most


def _too_much() -> Exception:
    return invalid(
        f"The rows come to more than {MOST_VALUES} values, set and unset: send fewer rows in one request."
    )
