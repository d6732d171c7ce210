"""Rows in Avro: the schema of a session, and rows in Avro's binary form, one after the other."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any, Final

import fastavro
import msgspec

from lode.format.ids import shortened
from lode.ingest.status import invalid
from lode.lazy import pa, pt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lode.ingest.types.columns import Column, TableSchema

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TYPES: Final[dict[str, Any]] = {
    "INT64": "long",
    "FLOAT64": "double",
    "BOOL": "boolean",
    "STRING": "string",
    "BYTES": "bytes",
    "DATE": {"type": "int", "logicalType": "date"},
    "TIME": {"type": "long", "logicalType": "time-micros"},
    "TIMESTAMP": {"type": "long", "logicalType": "timestamp-micros"},
    "DATETIME": {"type": "string", "sqlType": "DATETIME"},
    "NUMERIC": {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 9},
    "BIGNUMERIC": {"type": "bytes", "logicalType": "decimal", "precision": 77, "scale": 38},
    "GEOGRAPHY": {"type": "string", "sqlType": "GEOGRAPHY"},
    "JSON": {"type": "string", "sqlType": "JSON"},
    "INTERVAL": {"type": "string", "sqlType": "INTERVAL"},
}


class AvroRows:
    """Encodes batches of one schema. It has no state: threads may share it.

    Args:
        schema: The columns of the batches.

    Raises:
        Refused: A column has a name that Avro does not allow.
    """

    def __init__(self, schema: TableSchema) -> None:
        self._records = 0
        described = {"type": "record", "name": "__root__", "fields": self._fields(schema.columns, "")}
        self.schema = msgspec.json.encode(described).decode()
        # Only this process reads the parsed form, which fastavro extends.
        self._parsed = fastavro.parse_schema(described, _write_hint=False)

    def encode(self, batch: pa.RecordBatch) -> bytes:
        """The rows of a batch."""
        sink = io.BytesIO()
        for row in _plain(batch).to_pylist():
            fastavro.schemaless_writer(sink, self._parsed, row)
        return sink.getvalue()

    def _fields(self, columns: Iterable[Column], inside: str) -> list[dict[str, Any]]:
        fields = []
        for column in columns:
            path = inside + column.name
            if not _NAME.fullmatch(column.name):
                raise invalid(
                    f"Column {shortened(path)} cannot be read in Avro, whose names have only letters, digits "
                    "and '_': leave it out of the selected fields, or set data_format to ARROW."
                )
            fields.append({"name": column.name, "type": self._type(column, f"{path}.")})
        return fields

    def _type(self, column: Column, inside: str) -> Any:
        if column.children:
            name = f"__s_{self._records}"
            self._records += 1
            kind = {"type": "record", "name": name, "fields": self._fields(column.children, inside)}
        else:
            kind = _TYPES[column.type]
        if column.mode == "REPEATED":
            return {"type": "array", "items": kind}
        return kind if column.mode == "REQUIRED" else ["null", kind]


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with DATETIME as text, which has no type of its own in Avro."""
    arrays = [_texts(column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _texts(array: Any) -> Any:
    kind = array.type
    if pt.is_timestamp(kind) and kind.tz is None:
        return _datetimes(array)
    if pt.is_struct(kind) and _has_datetime(kind):
        members = [_texts(array.field(position)) for position in range(kind.num_fields)]
        nulls = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(members, names=[member.name for member in kind], mask=nulls)
    if pt.is_list(kind) and _has_datetime(kind.value_type):
        # Lists of a table are never null.
        return pa.ListArray.from_arrays(array.offsets, _texts(array.values))
    return array


def _has_datetime(kind: Any) -> bool:
    if pt.is_timestamp(kind):
        return kind.tz is None
    return any(_has_datetime(kind.field(position).type) for position in range(kind.num_fields))


def _datetimes(array: Any) -> Any:
    import pyarrow.compute as pc

    compute: Any = pc
    replace: Callable[..., Any] = compute.replace_substring
    # 2024-01-02 03:04:05.000006 with a T, and without a fraction that is zero.
    text = replace(array.cast(pa.string()), pattern=" ", replacement="T", max_replacements=1)
    return compute.replace_substring_regex(text, pattern=r"\.0+$", replacement="")
