"""Rows sent as Arrow: IPC messages become batches in the table's schema, without a copy where they fit.

Requests are not trusted. The whole batch is validated before any value is read: an offset beyond its buffer
or text that is not UTF-8 is refused. It neither crashes the server nor is stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from lode.ingest.decode.arrow_message import read_layout
from lode.ingest.decode.fill import Filler
from lode.ingest.decode.packed import (
    MAX_UNPACKED_BYTES,
    OFFSET_BYTES,
    REPEATED_VALUES_ESTIMATE,
    SLOW_TYPES,
    VALIDITY_BYTES,
    PackedRows,
    check_unpacked,
    count_columns,
    fixed_bytes,
    value_bytes,
)
from lode.ingest.status import Refused, invalid
from lode.ingest.types.arrays import with_nulls
from lode.ingest.types.columns import arrow_type
from lode.ingest.types.row_errors import Origin, Problems, failing
from lode.lazy import pa, pt

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from lode.ingest.types.columns import Column, TableSchema

# A column of nulls takes no bytes, so a request could claim any number of rows.
MAX_ROWS: Final = 1 << 25
# Clients send one message in a request.
MAX_MESSAGES: Final = 1_000
# Views may all show the same bytes. Together they may show this many bytes, or this multiple of the body.
MIN_VIEWED_BYTES: Final = 4 << 20
MAX_VIEWED_FACTOR: Final = 8
# The size of the Python object of a value that becomes text or a decimal.
_OBJECT_BYTES: Final = 64


class ArrowRows:
    """Decodes the batches of one writer's Arrow schema into one table's schema.

    Args:
        schema: The table's.
        serialized_schema: The writer's, an IPC schema message.
    """

    def __init__(
        self, schema: TableSchema, serialized_schema: bytes, *, max_unpacked_bytes: int = MAX_UNPACKED_BYTES
    ) -> None:
        self._arrow = _read_schema(serialized_schema)
        # The number of the table's columns: each takes some microseconds, even for few rows.
        self.columns = count_columns(schema.columns)
        self.names = self._arrow.names
        self.defaulted = Filler.defaulted(schema, self.names)
        self._filler = Filler(schema, self.names, self._arrow.types)
        # The schema of the batches that are read: the table's, if the writer's columns are of its types.
        self._read_as = schema.arrow if self._filler.keeps_batches else self._arrow
        self._max_unpacked_bytes = max_unpacked_bytes
        by_name = {column.name.lower(): column for column in schema}
        # For each field, and those inside it, the bytes that fitting one value takes.
        self._made = [
            size for field in self._arrow for size in _made_bytes(field.type, by_name[field.name.lower()])
        ]
        self._slow_values = sum(
            _slow_values(field.type, by_name[field.name.lower()]) for field in self._arrow
        )
        self._has_views = any(_has_views(field.type) for field in self._arrow)
        self._is_plain = not any(self._made)

    def decode(self, serialized_batch: bytes, defaults: Collection[str] = ()) -> pa.RecordBatch:
        """The rows of an IPC record batch message, or of a whole stream of the same schema.

        Args:
            serialized_batch: The message, or a schema message and messages.
            defaults: The columns whose missing values become their default.
        """
        return self.open(serialized_batch, defaults).decode()

    def open(self, serialized_batch: bytes, defaults: Collection[str] = ()) -> PackedRows:
        """The same rows before they are unpacked; refuses rows that would become too large."""
        rows = size = body = 0
        try:
            messages = _only_message(serialized_batch) or list(self._messages(serialized_batch))
            for message in messages:
                layout = read_layout(message, with_lengths=not self._is_plain)
                rows += layout.rows
                body += layout.body_bytes
                if not self._is_plain:
                    size += sum(
                        length * made for length, made in zip(layout.lengths, self._made, strict=False)
                    )
        except Exception as why:
            raise _unreadable(why) from None
        # Fitting copies text, which is part of the body.
        size += body if self._is_plain else 2 * body
        size += self._filler.filled_bytes(rows, defaults)
        check_unpacked(size, self._max_unpacked_bytes)
        if rows > MAX_ROWS:
            raise invalid(f"The record batch has {rows} rows: send at most {MAX_ROWS} in one request.")
        slow = rows * self._slow_values
        if not self._has_views:
            return PackedRows(size, slow, lambda: self._decode(messages, defaults), rows)
        most = max(MIN_VIEWED_BYTES, MAX_VIEWED_FACTOR * body)
        viewed = min(most, self._max_unpacked_bytes - size)
        return PackedRows(size + viewed, slow, lambda: self._decode(messages, defaults, viewed), rows)

    def _decode(
        self, messages: list[pa.ipc.Message], defaults: Collection[str], viewed: int | None = None
    ) -> pa.RecordBatch:
        batch = self._read(messages, viewed)
        problems = Problems()
        try:
            batch.validate(full=True)
        except pa.ArrowException:
            columns = _valid_columns(batch, problems)
        else:
            if self._filler.keeps_batches and not defaults:
                self._filler.check(batch)
                return batch
            columns = batch.columns
        return self._filler.batch(columns, batch.num_rows, defaults, problems)

    def _read(self, messages: list[pa.ipc.Message], viewed: int | None) -> pa.RecordBatch:
        try:
            batches = [pa.ipc.read_record_batch(message, self._read_as) for message in messages]
            if viewed is not None:
                # Before the texts are validated: many views may show one long text.
                for batch in batches:
                    batch.validate()
                _check_viewed([column for batch in batches for column in batch.columns], viewed)
            if len(batches) == 1:
                return batches[0]
            # Copying from an invalid batch could crash.
            for batch in batches:
                batch.validate(full=True)
            return pa.Table.from_batches(batches, self._read_as).combine_chunks().to_batches()[0]
        except Refused:
            raise
        except Exception as why:
            raise _unreadable(why) from None

    def _messages(self, serialized: bytes) -> Iterator[pa.ipc.Message]:
        """The messages of record batches."""
        count = 0
        for message in pa.ipc.MessageReader.open_stream(pa.py_buffer(serialized)):
            if message.type == "schema":
                if not pa.ipc.read_schema(message).equals(self._arrow):
                    raise invalid("The stream's schema differs from the writer's schema sent before it.")
                continue
            if message.type != "record batch":
                raise invalid(f"The request has a {message.type} message: send record batches alone.")
            count += 1
            if count > MAX_MESSAGES:
                raise invalid(f"The request has more than {MAX_MESSAGES} record batches: send one.")
            yield message
        if not count:
            raise invalid("The request has no record batch: an append needs at least one.")


def _only_message(serialized: bytes) -> list[pa.ipc.Message] | None:
    """The record batch message that is all of the bytes, as clients send it; None for anything else."""
    arrow: Any = pa  # its stubs lack the position of a reader
    reader = arrow.BufferReader(serialized)
    try:
        message = arrow.ipc.read_message(reader)
    except (pa.ArrowException, EOFError, OSError):
        return None  # reading it as a stream gives the reason
    return [message] if message.type == "record batch" and reader.tell() == len(serialized) else None


def _unreadable(why: Exception) -> Refused:
    """The refusal of a message that Arrow cannot read: IndexError for no rows, MemoryError for too many."""
    if isinstance(why, Refused):
        return why
    return invalid(f"The serialized record batch cannot be read: {_first_line(why)}.")


def _made_bytes(kind: Any, column: Column) -> Iterator[int]:
    """For an Arrow type and each inside it: the bytes that fitting one value takes, without text."""
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if pt.is_null(kind):
        yield value_bytes(column)
    elif column.mode == "REPEATED":
        yield OFFSET_BYTES
        yield from _made_bytes(kind.value_type, msgspec.structs.replace(column, mode="NULLABLE"))
    elif column.children:
        by_name = {child.name.lower(): child for child in column.children}
        sent = [by_name.pop(field.name.lower()) for field in kind]
        yield VALIDITY_BYTES + sum(value_bytes(child) for child in by_name.values()) if by_name else 0
        for field, child in zip(kind, sent, strict=True):
            yield from _made_bytes(field.type, child)
    elif kind == arrow_type(column):
        yield 0
    else:
        made = value_bytes(column) + fixed_bytes(arrow_type(column))
        yield made + (_OBJECT_BYTES if _slow_values(kind, column) else 0)


def _slow_values(kind: Any, column: Column) -> int:
    """How many values of one row in the column are checked one by one."""
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if pt.is_null(kind):
        return 0
    if column.mode == "REPEATED":
        inner = _slow_values(kind.value_type, msgspec.structs.replace(column, mode="NULLABLE"))
        return REPEATED_VALUES_ESTIMATE if inner else 0
    if column.children:
        by_name = {child.name.lower(): child for child in column.children}
        return sum(_slow_values(field.type, by_name[field.name.lower()]) for field in kind)
    return 0 if pt.is_decimal(kind) or pt.is_integer(kind) else SLOW_TYPES.get(column.type, 0)


def _has_views(kind: Any) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if pt.is_string_view(kind) or pt.is_binary_view(kind):
        return True
    return any(_has_views(kind.field(position).type) for position in range(kind.num_fields))


def _check_viewed(columns: Sequence[Any], most: int) -> None:
    total = sum(_viewed(column) for column in columns)
    if total > most:
        raise invalid(
            f"The request has views onto {total:,} bytes, the limit is {most:,}: "
            "send plain text, or fewer rows at a time."
        )


def _viewed(array: Any) -> int:
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return _viewed(array.storage)
    if pt.is_string_view(kind) or pt.is_binary_view(kind):
        return _view_bytes(array)
    if pt.is_struct(kind):
        return sum(_viewed(array.field(position)) for position in range(kind.num_fields))
    return _viewed(array.values) if kind.num_fields else 0


def _view_bytes(array: pa.Array[Any]) -> int:
    """How many bytes the views of an array show."""
    import pyarrow.compute as pc

    views = array.buffers()[1]
    if views is None or not len(array):
        return 0
    # A view has sixteen bytes. The first four are the length.
    count = array.offset + len(array)
    words = pa.Array.from_buffers(pa.int32(), 4 * count, [None, views])
    lengths: Any = pc.list_element(pa.FixedSizeListArray.from_arrays(words, 4), 0)
    total: int = pc.sum(pc.cast(lengths, pa.int64())).as_py()
    return total


def _read_schema(serialized: bytes) -> pa.Schema:
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(serialized))
        for field in schema:
            _check_type(field, field.name)
        return schema
    except Refused:
        raise
    except Exception as why:
        raise invalid(
            f"The writer's Arrow schema cannot be read: {_first_line(why)}.", ends_call=True
        ) from None


def _first_line(why: Exception) -> str:
    return str(why).split("\n", 1)[0].rstrip(".") or type(why).__name__


def _check_type(field: pa.Field[Any], path: str) -> None:
    """Refuse types, at any depth, that cannot be sent in one message or that take no bytes for a value."""
    kind: Any = field.type
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if pt.is_timestamp(kind):
        # Zones are decoded when they are read, and may be invalid UTF-8.
        _ = kind.tz
    if pt.is_dictionary(kind):
        raise invalid(
            f"Column {path!r} is dictionary-encoded, but dictionaries cannot be sent: send its plain values.",
            ends_call=True,
        )
    if (pt.is_fixed_size_binary(kind) and not kind.byte_width) or (
        pt.is_fixed_size_list(kind) and not kind.list_size
    ):
        raise invalid(f"Column {path!r} is of the Arrow type {kind}, which has no values.", ends_call=True)
    for position in range(kind.num_fields):
        child = kind.field(position)
        _check_type(child, f"{path}.{child.name}")


def _valid_columns(batch: pa.RecordBatch, problems: Problems) -> list[pa.Array[Any]]:
    """The columns with nulls instead of invalid values, which are reported."""
    columns: list[pa.Array[Any]] = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            column.validate(full=True)
            columns.append(column)
        except pa.ArrowException as why:
            columns.append(_valid_column(column, Origin(problems, name), why))
    return columns


def _valid_column(column: pa.Array[Any], origin: Origin, why: Exception) -> pa.Array[Any]:
    try:
        column.validate()
        if column.type == pa.decimal256(76, 38):
            # A BIGNUMERIC has up to 77 digits, one more than Arrow allows; decimals.py checks the range.
            return column.slice(0)
        bad = failing(column, _validate)
    except pa.ArrowException:
        bad = []
    if not bad:
        # The column is wrong as a whole, not in single values.
        raise invalid(f"Column {origin.path!r} of the record batch is malformed: {_first_line(why)}.")
    _report_invalid(column, bad, origin)
    # A slice drops the null count that was sent, which may be wrong.
    return with_nulls(column.slice(0), bad)


def _report_invalid(column: pa.Array[Any], bad: list[int], origin: Origin) -> None:
    origin.report(bad, lambda index: _what_is_wrong(column.slice(index, 1)))


def _validate(array: pa.Array[Any]) -> None:
    array.validate(full=True)


def _what_is_wrong(value: pa.Array[Any]) -> str:
    try:
        _validate(value)
    except pa.ArrowException as why:
        if "UTF8" in str(why):
            return "the value is not valid UTF-8."
        if "does not fit in precision" in str(why):
            return f"the value has more digits than {value.type} can have: send it as text."
        return f"the value is not valid ({_first_line(why)})."
    return "the value is not valid."
