"""Avro files, read block by block.

The blocks are read here and not by fastavro, so that a block that decompresses to more than the limit is
refused before it takes the memory.
"""

from __future__ import annotations

import io
import json
import zlib
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import fastavro

from lode.ingest.jobs.formats.columnar import Fitted
from lode.ingest.jobs.formats.source import rows_at_once, unreadable
from lode.ingest.status import Refused, invalid
from lode.ingest.types.arrow import from_arrow
from lode.ingest.types.check import MAX_COLUMNS
from lode.lazy import pa

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lode.ingest.jobs.formats.source import BadRecords
    from lode.ingest.types.columns import TableSchema

_MAX_BLOCK_BYTES: Final = 256 << 20
_MAX_SCHEMA_BYTES: Final = 4 << 20
_BATCH_ROWS: Final = 8192
# Values of Python take many times their size in the file.
_BATCH_BYTES: Final = 4 << 20
_MAX_DEPTH: Final = 30
_MAGIC: Final = b"Obj\x01"
_META: Final = fastavro.parse_schema({"type": "map", "values": "bytes"})
_SYNC_BYTES: Final = 16


class Avro:
    """An Avro file.

    Args:
        path: The file.
        bad: Counts the rows that do not fit.
        ignore_unknown: Leave out columns that the table does not have.
        logical_types: Read dates, times and decimals as such, not as the numbers and bytes they consist of.
    """

    def __init__(self, path: Path, bad: BadRecords, *, ignore_unknown: bool, logical_types: bool) -> None:
        self._path = path
        self._bad = bad
        self._ignore_unknown = ignore_unknown
        with path.open("rb") as file:
            self._codec, text, self._sync = _header(file)
            self._begin = file.tell()
        try:
            schema = json.loads(text)
            self._written: Any = fastavro.parse_schema(schema if logical_types else _raw(schema))
            record = self._written
            if not isinstance(record, dict) or record.get("type") != "record":
                raise invalid("The Avro file holds no records: its schema must be a record.")
            self._types = _Types()
            self._arrow = pa.schema(self._types.fields(self._types.remember(record), 0))
        except (Refused, MemoryError):
            raise
        except Exception as error:  # fastavro raises errors of many kinds for damaged schemas
            raise unreadable("Avro", error) from None

    def schema(self) -> TableSchema:
        return from_arrow(self._arrow)

    def batches(self, schema: TableSchema) -> Iterator[pa.RecordBatch]:
        fit = Fitted(schema, self._arrow, self._bad, ignore_unknown=self._ignore_unknown)
        at_once = min(_BATCH_ROWS, rows_at_once(schema), rows_at_once(self.schema()))
        yield from fit.each(self._read(at_once))

    def _read(self, at_once: int) -> Iterator[pa.RecordBatch]:
        names = self._arrow.names
        kinds = [self._types.converter(field["type"]) for field in self._written["fields"]]
        rows: list[dict[str, Any]] = []
        with self._path.open("rb") as file:
            file.seek(self._begin)
            for count, block in self._blocks(file):
                begin = 0
                for _ in range(count):
                    try:
                        rows.append(fastavro.schemaless_reader(block, self._written, None))  # type: ignore[arg-type]
                    except MemoryError:
                        raise
                    except Exception as error:
                        raise unreadable("Avro", error) from None
                    if len(rows) == at_once or block.tell() - begin > _BATCH_BYTES:
                        yield self._batch(rows, names, kinds)
                        rows, begin = [], block.tell()
        if rows:
            yield self._batch(rows, names, kinds)

    def _batch(self, rows: list[dict[str, Any]], names: list[str], kinds: list[Any]) -> pa.RecordBatch:
        try:
            arrays = [
                pa.array(
                    [row[name] for row in rows]
                    if convert is None
                    else [None if row[name] is None else convert(row[name]) for row in rows],
                    field.type,
                )
                for name, convert, field in zip(names, kinds, self._arrow, strict=True)
            ]
        except MemoryError:
            raise
        except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
            raise unreadable("Avro", error) from None
        return pa.RecordBatch.from_arrays(arrays, names=names)

    def _blocks(self, file: BinaryIO) -> Iterator[tuple[int, io.BytesIO]]:
        while True:
            count = _long(file, may_end=True)
            if count is None:
                return
            size = _long(file)
            if size is None or not 0 <= size <= _MAX_BLOCK_BYTES or count < 0:
                raise unreadable("Avro", f"a block has {size} bytes, the limit is {_MAX_BLOCK_BYTES}")
            data = file.read(size)
            if len(data) < size or file.read(_SYNC_BYTES) != self._sync:
                raise unreadable("Avro", "a block is truncated or damaged")
            plain = _decompress(data, self._codec)
            # A record of no fields takes no bytes, and a block could claim any number of them.
            if count > len(plain) and self._arrow.names:
                raise unreadable("Avro", f"a block of {len(plain)} bytes claims {count} rows")
            if not self._arrow.names:
                raise invalid("The Avro file has no columns.")
            yield count, io.BytesIO(plain)


def _header(file: BinaryIO) -> tuple[str, bytes, bytes]:
    """The codec, the schema and the marker between blocks."""
    if file.read(4) != _MAGIC:
        raise unreadable("Avro", "it does not begin as an Avro file")
    try:
        head = io.BytesIO(file.read(_MAX_SCHEMA_BYTES))
        meta: Any = fastavro.schemaless_reader(head, _META, None)
        file.seek(4 + head.tell())
        codec = meta.get("avro.codec", b"null").decode()
        return codec, meta["avro.schema"], file.read(_SYNC_BYTES)
    except Exception as error:
        raise unreadable("Avro", error) from None


def _long(file: BinaryIO, *, may_end: bool = False) -> int | None:
    """A zigzag number of variable length; None at the end of the file."""
    shift = value = 0
    while True:
        byte = file.read(1)
        if not byte:
            if may_end and not shift:
                return None
            raise unreadable("Avro", "it ends too early")
        value |= (byte[0] & 0x7F) << shift
        shift += 7
        if byte[0] < 0x80:
            return (value >> 1) ^ -(value & 1)
        if shift > 63:
            raise unreadable("Avro", "a number is too long")


def _decompress(data: bytes, codec: str) -> bytes:
    try:
        match codec:
            case "null":
                return data
            case "deflate":
                plain = zlib.decompressobj(-15).decompress(data, _MAX_BLOCK_BYTES + 1)
            case "zstandard":
                import zstandard

                plain = zstandard.ZstdDecompressor().stream_reader(data).read(_MAX_BLOCK_BYTES + 1)
            case "snappy":
                plain = _snappy(data)
            case _:
                raise invalid(
                    f"The Avro file is compressed with {codec[:30]!r}: use null, deflate, snappy or "
                    "zstandard."
                )
    except (Refused, MemoryError):
        raise
    except Exception as error:
        raise unreadable("Avro", error) from None
    if len(plain) > _MAX_BLOCK_BYTES:
        raise unreadable("Avro", f"a block decompresses to more than {_MAX_BLOCK_BYTES} bytes")
    return plain


def _snappy(data: bytes) -> bytes:
    # The last four bytes are a checksum; the first number is the size of the decompressed data.
    size = _long_plain(data)
    if size > _MAX_BLOCK_BYTES:
        raise unreadable("Avro", f"a block decompresses to {size} bytes, the limit is {_MAX_BLOCK_BYTES}")
    return pa.decompress(data[:-4], decompressed_size=size, codec="snappy", asbytes=True)


def _long_plain(data: bytes) -> int:
    value = shift = 0
    for byte in data[:10]:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    return value


# -- schemas ---------------------------------------------------------------------------------------------


def _raw(schema: Any) -> Any:
    """The schema without logical types."""
    match schema:
        case dict():
            return {
                key: _raw(value) if key in ("type", "items", "values", "fields") else value
                for key, value in schema.items()
                if key != "logicalType"
            }
        case list():
            return [_raw(item) for item in schema]
    return schema


_SIMPLE: Final = {
    "null": "null",
    "boolean": "bool_",
    "int": "int64",
    "long": "int64",
    "float": "float64",
    "double": "float64",
    "bytes": "binary",
    "string": "string",
    "fixed": "binary",
    "enum": "string",
}


class _Types:
    """The types of a file by their names, and the columns that they become.

    A few kilobytes can name any number of columns, as a type may be used by its name many times. They are
    counted before they are made.
    """

    def __init__(self) -> None:
        self._named: dict[str, Any] = {}
        self._columns = 0

    def remember(self, schema: Any) -> Any:
        if isinstance(schema, dict) and "name" in schema:
            self._named[schema["name"]] = schema
        return schema

    def fields(self, record: Any, depth: int) -> list[pa.Field[Any]]:
        """The columns of a record."""
        return [self._field(each["name"], each["type"], depth) for each in record["fields"]]

    def _resolved(self, schema: Any) -> tuple[Any, bool]:
        """A schema by its name, without the null of a union; and whether null is allowed."""
        nullable = False
        if isinstance(schema, list):
            others = [item for item in schema if item != "null"]
            if len(others) > 1:
                raise invalid(
                    "The Avro file has a union of several types: only a type and null is supported."
                )
            nullable = len(others) < len(schema)
            schema = others[0] if others else "null"
        if isinstance(schema, str):
            schema = self._named.get(schema, {"type": schema})
        self.remember(schema)
        if isinstance(schema.get("type"), dict | list):
            inner, below = self._resolved(schema["type"])
            return inner, nullable or below
        return schema, nullable

    def _field(self, name: str, schema: Any, depth: int) -> pa.Field[Any]:
        if depth > _MAX_DEPTH:
            raise invalid("The Avro file is nested too deep: send it with fewer levels.")
        self._columns += 1
        if self._columns > MAX_COLUMNS:
            raise invalid(f"The Avro file has more than {MAX_COLUMNS} columns: send it with fewer.")
        found, nullable = self._resolved(schema)
        return pa.field(name, self._arrow(found, depth + 1), nullable=nullable or found["type"] == "null")

    def _arrow(self, schema: Any, depth: int) -> Any:
        match schema["type"]:
            case "record" | "error":
                return pa.struct(self.fields(schema, depth))
            case "array":
                item = self._field("item", schema["items"], depth)
                # An array could claim any number of them.
                if self._takes_no_bytes(schema["items"]):
                    raise invalid(
                        "The Avro file has an array whose items take no bytes, such as null or an empty "
                        "record: leave it out."
                    )
                return pa.list_(item)
            case "map":
                value = self._field("value", schema["values"], depth)
                return pa.list_(pa.struct([pa.field("key", pa.string(), nullable=False), value]))
        return _scalar(schema)

    def _takes_no_bytes(self, schema: Any) -> bool:
        """Whether values can take no bytes. Asked after the columns were counted, so it ends."""
        if isinstance(schema, list):  # the number of its type is a byte
            return False
        found, nullable = self._resolved(schema)
        match found["type"]:
            case "null":
                return not nullable
            case "fixed":
                return not nullable and not found["size"]
            case "record" | "error":
                return not nullable and all(self._takes_no_bytes(each["type"]) for each in found["fields"])
        return False

    def converter(self, schema: Any) -> Any:
        """Turns a value into one that Arrow takes; None if Arrow takes it as it is."""
        found, _ = self._resolved(schema)
        match found["type"]:
            case "map":
                inner = self.converter(found["values"])
                return lambda value: [
                    {"key": key, "value": item if inner is None or item is None else inner(item)}
                    for key, item in value.items()
                ]
            case "array":
                item = self.converter(found["items"])
                return item and (lambda value: [None if each is None else item(each) for each in value])
            case "record":
                parts = {field["name"]: self.converter(field["type"]) for field in found["fields"]}
                if not any(parts.values()):
                    return None
                return lambda value: {
                    name: value[name] if convert is None or value[name] is None else convert(value[name])
                    for name, convert in parts.items()
                }
        return str if found.get("logicalType") == "uuid" else None


def _scalar(schema: Any) -> Any:
    match schema.get("logicalType", ""):
        case "decimal":
            precision, scale = int(schema["precision"]), int(schema.get("scale", 0))
            return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)
        case "date":
            return pa.date32()
        case "time-millis" | "time-micros":
            return pa.time64("us")
        case "timestamp-millis" | "timestamp-micros":
            return pa.timestamp("us", "UTC")
        case "local-timestamp-millis" | "local-timestamp-micros":
            return pa.timestamp("us")
    return getattr(pa, _SIMPLE[schema["type"]])()
