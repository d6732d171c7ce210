"""Rows sent as Arrow: IPC messages become batches in the table's schema, without a copy where they fit.

What is sent is not trusted. Before anything looks at values, the whole batch is validated: an offset beyond
its buffer or text that is not UTF-8 is a refusal, never a crash and never stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lode.ingest.rows.arrow_message import unpacked_bytes
from lode.ingest.rows.fill import Filler
from lode.ingest.rows.fit_cast import without
from lode.ingest.rows.problems import Place, Problems, failing
from lode.ingest.status import Refused, invalid
from lode.lazy import pa, pt

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from lode.ingest.schema.columns import TableSchema

# Compressed bodies and columns of nothing but nulls can claim any size; these bound what a request becomes.
MAX_UNPACKED_BYTES: Final = 256 << 20
MAX_ROWS: Final = 1 << 25


class ArrowRows:
    """Decodes the batches of one writer's Arrow schema into one table's schema.

    Args:
        schema: The table's.
        serialized_schema: The writer's, an IPC schema message.
    """

    def __init__(self, schema: TableSchema, serialized_schema: bytes) -> None:
        self._arrow = _read_schema(serialized_schema)
        self._names = self._arrow.names
        self.defaulted = Filler.defaulted(schema, self._names)
        self._filler = Filler(schema, self._names, self._arrow.types)

    def decode(self, serialized_batch: bytes, defaults: Collection[str] = ()) -> pa.RecordBatch:
        """The rows of an IPC record batch message, or of a whole stream of the same schema.

        Args:
            serialized_batch: The message, or a schema message and messages.
            defaults: The columns whose missing values become their default.
        """
        batch = self._read(serialized_batch)
        problems = Problems()
        columns = batch.columns
        try:
            batch.validate(full=True)
        except pa.ArrowException:
            columns = _valid_columns(batch, problems)
        return self._filler.batch(columns, batch.num_rows, defaults, problems)

    def _read(self, serialized: bytes) -> pa.RecordBatch:
        try:
            batches = list(self._batches(serialized))
            if len(batches) == 1:
                return batches[0]
            # Only a valid batch may be copied from.
            for batch in batches:
                batch.validate(full=True)
            return pa.Table.from_batches(batches, self._arrow).combine_chunks().to_batches()[0]
        except Refused:
            raise
        # Whatever Arrow makes of foreign bytes, among it IndexError for no rows and MemoryError for too much.
        except Exception as why:
            raise invalid(f"The serialized record batch cannot be read: {_first_line(why)}.") from None

    def _batches(self, serialized: bytes) -> Iterator[pa.RecordBatch]:
        rows = unpacked = 0
        for message in pa.ipc.MessageReader.open_stream(pa.py_buffer(serialized)):
            if message.type == "schema":
                if not pa.ipc.read_schema(message).equals(self._arrow):
                    raise invalid("The stream's schema differs from the writer's schema sent before it.")
                continue
            unpacked += unpacked_bytes(message)
            if unpacked > MAX_UNPACKED_BYTES:
                raise invalid(
                    f"The record batch is {unpacked} bytes when unpacked: "
                    f"send at most {MAX_UNPACKED_BYTES} in one request."
                )
            batch = pa.ipc.read_record_batch(message, self._arrow)
            rows += batch.num_rows
            if rows > MAX_ROWS:
                raise invalid(f"The record batch has {rows} rows: send at most {MAX_ROWS} in one request.")
            yield batch


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
    """Refuse, at any depth, what cannot be sent in one message or could claim rows without sending bytes."""
    kind: Any = field.type
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if pt.is_timestamp(kind):
        # Names and zones are bytes until someone asks for them, and may not be text.
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
    """The columns with nulls for the values that are not valid, which are reported."""
    columns: list[pa.Array[Any]] = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            column.validate(full=True)
            columns.append(column)
        except pa.ArrowException as why:
            columns.append(_valid_column(column, Place(problems, name), why))
    return columns


def _valid_column(column: pa.Array[Any], place: Place, why: Exception) -> pa.Array[Any]:
    try:
        column.validate()
        if column.type == pa.decimal256(76, 38):
            # A BIGNUMERIC has up to 77 digits, one more than Arrow allows; decimals.py checks the range.
            return column.slice(0)
        bad = failing(column, _validate)
    except pa.ArrowException:
        bad = []
    if not bad:
        # It is wrong as a whole, not in single values.
        raise invalid(f"Column {place.path!r} of the record batch is malformed: {_first_line(why)}.")
    _report_invalid(column, bad, place)
    # A slice forgets the count of nulls that was sent, which may be wrong.
    return without(column.slice(0), bad)


def _report_invalid(column: pa.Array[Any], bad: list[int], place: Place) -> None:
    place.report(bad, lambda index: _what_is_wrong(column.slice(index, 1)))


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
