"""Files that extract jobs write: CSV, JSON lines, Avro and Parquet, with values as BigQuery writes them."""

from __future__ import annotations

import csv
import gzip
import io
import math
from base64 import b64encode
from contextlib import contextmanager
from datetime import date, datetime, time
from typing import TYPE_CHECKING, Any, Final, cast

import fastavro
import msgspec

from lode.ingest.status import invalid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pyarrow as pa

    from lode.ingest.types.columns import Column, TableSchema

COMPRESSIONS: Final[dict[str, dict[str, str]]] = {
    "CSV": {"NONE": "", "GZIP": "gzip"},
    "NEWLINE_DELIMITED_JSON": {"NONE": "", "GZIP": "gzip"},
    "AVRO": {"NONE": "null", "DEFLATE": "deflate"},
    "PARQUET": {"NONE": "none", "SNAPPY": "snappy", "GZIP": "gzip", "ZSTD": "zstd"},
}
_BATCH_ROWS: Final = 8192


@contextmanager
def open_writer(
    path: Path, kind: str, compression: str, schema: TableSchema, settings: dict[str, Any]
) -> Iterator[Callable[[pa.RecordBatch], None]]:
    """Open a new file, and yield a function that writes batches in ``schema.arrow``.

    Args:
        path: The file.
        kind: One of ``COMPRESSIONS``.
        compression: One of those of the format.
        schema: The columns.
        settings: The configuration of the job, for the options of the format.
    """
    codec = COMPRESSIONS[kind][compression]
    if kind == "PARQUET":
        import pyarrow.parquet as pq

        with pq.ParquetWriter(path, schema.arrow, compression=cast("Any", codec)) as parquet:
            yield parquet.write_batch
        return
    with path.open("wb") as file:
        if kind == "AVRO":
            yield from _avro(file, codec, schema, settings)
            return
        plain = gzip.GzipFile(fileobj=file, mode="wb", mtime=0) if codec else file
        text = io.TextIOWrapper(plain, "utf-8", newline="")
        try:
            yield _csv(text, schema, settings) if kind == "CSV" else _json(text, schema)
        finally:
            text.detach()
            if codec:
                plain.close()


def _rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    for start in range(0, batch.num_rows, _BATCH_ROWS):
        yield from batch.slice(start, _BATCH_ROWS).to_pylist()


# -- text ----------------------------------------------------------------------------------------------


def _csv(
    text: io.TextIOWrapper, schema: TableSchema, settings: dict[str, Any]
) -> Callable[[pa.RecordBatch], None]:
    for column in schema:
        if column.mode == "REPEATED" or column.type == "STRUCT":
            raise invalid(
                "Operation cannot be performed on a nested schema. Field: "
                f"{column.name}; extract it as JSON, Avro or Parquet."
            )
    delimiter = settings.get("fieldDelimiter") or ","
    delimiter = {"\\t": "\t", "tab": "\t"}.get(delimiter, delimiter)
    if not isinstance(delimiter, str) or len(delimiter) != 1:
        raise invalid(f"Invalid value for fieldDelimiter: {delimiter!r} is not one character.")
    out = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    if settings.get("printHeader") not in (False, "false"):
        out.writerow([column.name for column in schema])
    columns = [(column.name, column) for column in schema]

    def write(batch: pa.RecordBatch) -> None:
        for row in _rows(batch):
            out.writerow(["" if row[name] is None else _text(row[name], column) for name, column in columns])

    return write


def _json(text: io.TextIOWrapper, schema: TableSchema) -> Callable[[pa.RecordBatch], None]:
    encode = msgspec.json.Encoder().encode

    def write(batch: pa.RecordBatch) -> None:
        for row in _rows(batch):
            text.write(encode(_object(row, schema.columns)).decode())
            text.write("\n")

    return write


def _object(row: dict[str, Any], columns: tuple[Column, ...]) -> dict[str, Any]:
    """An object without its nulls."""
    return {
        column.name: _json_value(row[column.name], column)
        for column in columns
        if row[column.name] is not None
    }


def _json_value(value: Any, column: Column) -> Any:
    if column.mode == "REPEATED":
        one = msgspec.structs.replace(column, mode="NULLABLE")
        return [_json_value(item, one) for item in value]
    if column.type == "STRUCT":
        return _object(value, column.fields)
    if column.type == "BOOL":
        return value
    if column.type == "FLOAT64":
        return value if math.isfinite(value) else _text(value, column)
    if column.type == "JSON":
        return msgspec.Raw(value.encode())
    return _text(value, column)


def _text(value: Any, column: Column) -> str:
    """A value as BigQuery writes it in text files."""
    match value:
        case bool():
            return "true" if value else "false"
        case bytes():
            return b64encode(value).decode()
        case float():
            return _float(value)
        case datetime() if value.tzinfo is not None:
            return f"{value.replace(tzinfo=None).isoformat(' ')} UTC"
        case datetime() | date() | time():
            return value.isoformat()
        case dict():
            ends = [
                _end(value[name], child)
                for name, child in zip(("start", "end"), column.children, strict=True)
            ]
            return f"[{ends[0]}, {ends[1]})"
    if column.type in ("NUMERIC", "BIGNUMERIC"):
        text = f"{value:f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return str(value)


def _end(value: Any, column: Column) -> str:
    return "UNBOUNDED" if value is None else _text(value, column)


def _float(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value)


# -- Avro ----------------------------------------------------------------------------------------------


def _avro(
    file: Any, codec: str, schema: TableSchema, settings: dict[str, Any]
) -> Iterator[Callable[[pa.RecordBatch], None]]:
    logical = settings.get("useAvroLogicalTypes") in (True, "true")
    try:
        parsed = fastavro.parse_schema(
            {
                "type": "record",
                "name": "Root",
                "fields": [_avro_field(column, "Root", logical=logical) for column in schema],
            }
        )
    except fastavro.schema.SchemaParseException as error:
        raise invalid(f"The table cannot be written as Avro: {error}; rename the column.") from None
    out: Any = fastavro.write.Writer(file, parsed, codec=codec)

    def write(batch: pa.RecordBatch) -> None:
        try:
            for row in _rows(batch):
                out.write({column.name: _avro_value(row[column.name], column, logical) for column in schema})
        except (ValueError, TypeError) as error:
            raise invalid(f"A value cannot be written as Avro: {error}.") from None

    yield write
    out.flush()


def _avro_field(column: Column, path: str, *, logical: bool) -> dict[str, Any]:
    kind = _avro_type(column, f"{path}_{column.name}", logical=logical)
    if column.mode == "REPEATED":
        kind = {"type": "array", "items": kind}
    elif column.mode == "NULLABLE":
        kind = ["null", kind]
    return {"name": column.name, "type": kind}


def _avro_type(column: Column, path: str, *, logical: bool) -> Any:
    def text(name: str) -> dict[str, str]:
        return {"type": "string", "sqlType": name}

    match column.type:
        case "STRUCT" | "RANGE":
            fields = [_avro_field(child, path, logical=logical) for child in column.children]
            return {"type": "record", "name": path, "fields": fields}
        case "TIMESTAMP":
            return {"type": "long", "logicalType": "timestamp-micros"}
        case "DATE":
            return {"type": "int", "logicalType": "date"} if logical else text("DATE")
        case "TIME":
            return {"type": "long", "logicalType": "time-micros"} if logical else text("TIME")
        case "NUMERIC":
            return {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 9}
        case "BIGNUMERIC":
            return {"type": "bytes", "logicalType": "decimal", "precision": 77, "scale": 38}
        case "DATETIME" | "GEOGRAPHY" | "JSON" | "INTERVAL":
            return text(column.type)
    return _AVRO_TYPES[column.type]


_AVRO_TYPES: Final = {
    "STRING": "string",
    "BYTES": "bytes",
    "INT64": "long",
    "FLOAT64": "double",
    "BOOL": "boolean",
}


def _avro_value(value: Any, column: Column, logical: bool) -> Any:
    if value is None:
        return None
    if column.mode == "REPEATED":
        one = msgspec.structs.replace(column, mode="NULLABLE")
        return [_avro_value(item, one, logical) for item in value]
    if column.children:
        return {child.name: _avro_value(value[child.name], child, logical) for child in column.children}
    if column.type == "DATETIME" or (column.type in ("DATE", "TIME") and not logical):
        return value.isoformat()
    return value
