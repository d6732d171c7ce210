"""JSON Lines: one compact JSON value per line.

A value is written exactly or refused. Beyond JSON's own types these are written as text:
datetimes, dates, times, durations (ISO 8601), decimals, UUIDs, bytes (base64) and enums (their value).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from itertools import chain
from math import isfinite
from operator import itemgetter
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Final
from uuid import UUID

import msgspec

from lode.codec.arrow_to_json import batch_records
from lode.codec.columnar import to_batch
from lode.codec.json_fast_check import fits, shape_of
from lode.codec.schema import to_schema
from lode.errors import InvalidFormatError, SchemaViolationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from lode.codec.protocol import Chunk, Sink
    from lode.codec.schema import SchemaSpec

_BLOCK_BYTES: Final = 256 << 10
_ROWS_PER_CHUNK: Final = 8192

_BLANKS: Final = (b"", b"\n", b"\r", b" ", b"\t")
_LEAVES: Final = frozenset(
    {str, bool, type(None), datetime, date, time, timedelta, Decimal, UUID}
    | {bytes, bytearray, memoryview, msgspec.UnsetType}
)


@dataclass(frozen=True)
class JSONL:
    """One JSON value per line, streaming.

    Args:
        schema: What the records are as columns. Records that do not fit are refused; they are written as
            they are.
    """

    name: ClassVar[str] = "jsonl"
    extension: ClassVar[str] = ".jsonl"
    schema_optional: ClassVar[bool] = True
    schema: pa.Schema | None = None

    def __init__(self, schema: SchemaSpec | None = None) -> None:
        object.__setattr__(self, "schema", None if schema is None else to_schema(schema))

    def with_schema(self, schema: pa.Schema | None) -> JSONL:
        """Return this codec with another schema."""
        return JSONL(schema)

    def conform(self, chunk: Chunk, first_row: int) -> Chunk:
        """Return the chunk if it fits the schema, if there is one; an error names rows from ``first_row``."""
        if self.schema is None:
            return chunk
        batch = to_batch(chunk, self.schema, first_row=first_row)
        return chunk if isinstance(chunk, list) else batch

    def stream_encoder(self, sink: Sink) -> JSONLEncoder:
        return JSONLEncoder(sink)

    def decode(self, source: BinaryIO) -> Iterator[Chunk]:
        """Yield lists of records; ``source`` need not be seekable. Blank lines are passed over.

        Raises:
            InvalidFormatError: A line is not JSON; says which.
        """
        line = 1
        for block in _whole_lines(source):
            rows = _decode_lines(block, line)
            line += block.count(b"\n")
            for start in range(0, len(rows), _ROWS_PER_CHUNK):
                yield rows[start : start + _ROWS_PER_CHUNK]


class JSONLEncoder:
    """Writes one file, a chunk at a time; holds nothing between chunks."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._rows = 0
        self._shape: Any = None
        self._is_flat = True

    def write(self, chunk: Chunk) -> None:
        """Write all records of a chunk, or none of them.

        Raises:
            SchemaViolationError: JSON cannot carry a value exactly; says which row and where in it.
        """
        if isinstance(chunk, list):
            self._write_records(chunk)
            return
        for start in range(0, chunk.num_rows, _ROWS_PER_CHUNK):
            self._write_records(batch_records(chunk.slice(start, _ROWS_PER_CHUNK), first_row=self._rows))

    def close(self) -> None:
        """Nothing remains to be written."""

    def _write_records(self, records: list[Any]) -> None:
        try:
            lines = _ENCODER.encode_lines(records)
            exact = self._fits(records) or _is_exact(records)
        except (TypeError, ValueError, OverflowError, RecursionError, AttributeError, msgspec.MsgspecError):
            exact = False
        if not exact:
            _name_the_culprit(records, self._rows)
            lines = _ENCODER.encode_lines(records)
        self._sink.write(lines)
        self._rows += len(records)

    def _fits(self, records: list[Any]) -> bool:
        """Try the quick proof, until it fails for the first time."""
        if not self._is_flat or not records:
            return False
        if self._shape is None:
            self._shape = shape_of(records)
        self._is_flat = self._shape is not None and fits(records, self._shape)
        return self._is_flat


def _plain(value: Any) -> Any:
    """Return the JSON form of a value that is not a JSON type, or raise ``TypeError``."""
    match value:
        case str():
            return str.__str__(value)
        case int():
            return int(value)
        case float():
            return float(value)
        case Mapping():
            return dict(value)
    # A NumPy scalar is a number in a wrapper; asking by name avoids the import.
    if type(value).__module__ == "numpy" and hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        item = value.item()
        if type(item) is not type(value):
            return item
    raise TypeError(f"a {type(value).__name__}, which JSON cannot carry")


_ENCODER: Final = msgspec.json.Encoder(enc_hook=_plain)


def _is_exact(records: list[Any]) -> bool:
    """Return whether msgspec wrote these records without changing a value.

    It writes NaN as null, sets as lists and numbers as keys. Looking at whole columns and levels keeps the
    work in C loops, an order of magnitude faster than a visit of every value.
    """
    levels = [records]
    while levels:
        level = levels.pop()
        kinds = set(map(type, level))
        for kind in kinds - _LEAVES:
            same: list[Any] = level if len(kinds) == 1 else [value for value in level if type(value) is kind]
            if kind is int:
                if min(same) < -(2**63) or max(same) >= 2**64:
                    return False
            elif kind is float:
                # A sum is not finite if one of its terms is not; the reverse needs the second look.
                if not isfinite(sum(same)) and not all(map(isfinite, same)):
                    return False
            elif issubclass(kind, set | frozenset):
                return False
            elif issubclass(kind, dict):
                columns = _columns(same)
                if columns is None:
                    return False
                levels.extend(columns)
            else:
                levels.append(_inside(kind, same))
    return True


def _columns(dicts: list[dict[Any, Any]]) -> list[list[Any]] | None:
    """Return the values of many dicts, by key if they all have the same; None if a key is not text."""
    first = dicts[0]
    # As many keys as the first one, and each of its keys: no others can be there. A subclass may make up
    # values for keys it does not have.
    if type(first) is dict and set(map(len, dicts)) == {len(first)} and set(map(type, first)) <= {str}:
        try:
            return [list(map(itemgetter(key), dicts)) for key in first]
        except KeyError:
            pass
    if not set(map(type, chain.from_iterable(dicts))) <= {str}:
        return None
    return [list(chain.from_iterable(map(dict.values, dicts)))]


def _inside(kind: type, values: list[Any]) -> list[Any]:
    """Return what values of one class consist of."""
    if issubclass(kind, list | tuple):
        return list(chain.from_iterable(values))
    if issubclass(kind, Enum):
        return [value.value for value in values]
    if _is_record(kind):
        return [getattr(value, name) for name in _field_names(kind) for value in values]
    return list(map(_plain, values))


def _is_record(kind: type) -> bool:
    return issubclass(kind, msgspec.Struct) or is_dataclass(kind)


def _field_names(kind: type) -> tuple[str, ...]:
    if issubclass(kind, msgspec.Struct):
        return kind.__struct_fields__
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else ()


def _name_the_culprit(records: list[Any], first_row: int) -> None:
    """Raise for the first value that cannot be written exactly; return if there is none after all."""
    for row, record in enumerate(records, first_row):
        try:
            _check(record, "")
        except _NotJson as refused:
            path, complaint = refused.args
            where = f"row {row}, field {path!r}" if path else f"row {row}"
            raise SchemaViolationError(f"{where}: {complaint}", row=row, column=path or None) from None
        except RecursionError:
            raise SchemaViolationError(
                f"row {row}: nested too deeply for JSON, or contains itself", row=row
            ) from None


class _NotJson(Exception):  # noqa: N818 - a path and a complaint on their way to the row number
    pass


def _check(value: Any, path: str) -> None:
    match value:
        case None | bool() | bytes() | bytearray() | memoryview():
            return
        case str():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise _NotJson(path, "the text holds a lone surrogate, which UTF-8 cannot carry") from None
        case Enum():
            _check(value.value, path)
        case int():
            if not -(2**63) <= value < 2**64:
                raise _NotJson(path, "an integer of more than 64 bits: write it as text")
        case float():
            if not isfinite(value):
                raise _NotJson(path, f"JSON has no {value}: write null or text")
        case dict():
            for key, item in value.items():
                if not isinstance(key, str):
                    raise _NotJson(path, f"the key {key!r} is not text: JSON keys are text")
                _check(key, path)
                _check(item, f"{path}.{key}" if path else key)
        case list() | tuple():
            for index, item in enumerate(value):
                _check(item, f"{path}[{index}]")
        case _ if _is_record(type(value)):
            for name in _field_names(type(value)):
                if not hasattr(value, name):
                    raise _NotJson(f"{path}.{name}" if path else name, "the field has no value")
                _check(getattr(value, name), f"{path}.{name}" if path else name)
        case _ if type(value) not in _LEAVES:
            try:
                plain = msgspec.UNSET if isinstance(value, set | frozenset) else _plain(value)
            except TypeError as error:
                raise _NotJson(path, str(error)) from None
            if plain is msgspec.UNSET:
                raise _NotJson(path, "a set has no order: write a list")
            _check(plain, path)


def _whole_lines(source: BinaryIO) -> Iterator[bytes]:
    """Yield blocks that end where a line ends."""
    pending: list[bytes] = []
    while block := source.read(_BLOCK_BYTES):
        head, newline, tail = block.rpartition(b"\n")
        if newline:
            yield b"".join((*pending, head, newline))
            pending = [tail] if tail else []
        else:
            pending.append(tail)
    if pending:
        yield b"".join(pending)


def _decode_lines(block: bytes, first_line: int) -> list[Any]:
    # msgspec reads values, not lines: it passes over blank ones, and lets two values share a line. Where no
    # line is blank and there are as many values as lines, both views agree.
    if block[:1] not in _BLANKS and not any(b"\n" + blank in block for blank in _BLANKS if blank):
        try:
            rows: list[Any] = _DECODER.decode_lines(block)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            rows = []
        if rows and len(rows) == block.count(b"\n"):
            return rows
    return _decode_each(block, first_line)


def _decode_each(block: bytes, first_line: int) -> list[Any]:
    rows = []
    for number, line in enumerate(block.split(b"\n"), first_line):
        try:
            if line and not line.isspace():
                rows.append(_DECODER.decode(line))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidFormatError(f"line {number} is not one JSON value: {error}") from error
    return rows


_DECODER: Final = msgspec.json.Decoder()
