"""What a fuzzer calls with bytes: each ends with rows, with a refusal, or with a fault of the server."""

from __future__ import annotations

import contextlib
import functools
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from google.protobuf.descriptor_pb2 import DescriptorProto
from google.protobuf.message import DecodeError

from lode.ingest.decode.arrow import ArrowRows
from lode.ingest.decode.json import JsonRows
from lode.ingest.decode.proto.decoder import ProtoRows
from lode.ingest.jobs.formats.avro import Avro
from lode.ingest.jobs.formats.csv_text import Csv, csv_options
from lode.ingest.jobs.formats.json_lines import JsonLines
from lode.ingest.jobs.formats.source import BadRecords
from lode.ingest.status import Refused
from lode.ingest.types.columns import Column, TableSchema
from lode.sql.errors import QueryError
from lode.sql.parser import parse
from support.bombs import avro, rows
from support.ingest.proto_messages import F, field, message, repeated

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.ingest.jobs.formats.source import Source

SCHEMA: Final = TableSchema(
    (
        Column("id", "INT64"),
        Column("name", "STRING"),
        Column("xs", "INT64", "REPEATED"),
        Column("r", "STRUCT", fields=(Column("a", "TIMESTAMP"), Column("b", "NUMERIC"))),
    )
)
_ROW: Final = message(
    field("id", F.TYPE_INT64),
    field("name", F.TYPE_STRING),
    repeated("xs", F.TYPE_INT64),
    field("r", F.TYPE_MESSAGE, type_name="R"),
    nested=(message(field("a", F.TYPE_INT64), field("b", F.TYPE_STRING), name="R"),),
)
_BATCH: Final = pa.RecordBatch.from_pylist([{"id": 1, "name": "a", "xs": [1, 2]}])


def proto_descriptor(data: bytes) -> None:
    """A writer's schema."""
    try:
        described = DescriptorProto.FromString(data)
    except DecodeError:
        return
    ProtoRows(SCHEMA, described).decode([b""])


@functools.cache
def _proto_rows() -> ProtoRows:
    return ProtoRows(SCHEMA, _ROW)


def proto_row(data: bytes) -> None:
    """A row of Protobuf."""
    _proto_rows().decode([data])


def arrow_schema(data: bytes) -> None:
    """A writer's schema in Arrow."""
    ArrowRows(SCHEMA, data)


@functools.cache
def _arrow_rows() -> ArrowRows:
    return ArrowRows(SCHEMA, _BATCH.schema.serialize().to_pybytes())


def arrow_batch(data: bytes) -> None:
    """A message of Arrow."""
    _arrow_rows().decode(data)


def json_rows(data: bytes) -> None:
    """Rows of insertAll."""
    import msgspec

    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return
    JsonRows(SCHEMA, ignore_unknown=bool(len(data) % 2)).decode([found])


def _read(data: bytes, open_source: Callable[[Path], Source]) -> None:
    with tempfile.NamedTemporaryFile(dir="/dev/shm" if sys.platform == "linux" else None) as file:
        file.write(data)
        file.flush()
        source = open_source(Path(file.name))
        for _ in source.batches(source.schema() or SCHEMA):
            pass


def json_file(data: bytes) -> None:
    """A file of JSON."""
    bad = BadRecords("JSON", 3)
    _read(data, lambda path: JsonLines(path, bad, ignore_unknown=False, autodetect=bool(len(data) % 2)))


def csv_file(data: bytes) -> None:
    """A file of CSV."""
    options = csv_options({"allowQuotedNewlines": True}, ignore_unknown=False, autodetect=True)
    _read(data, lambda path: Csv(path, BadRecords("CSV", 3), options, None))


def avro_file(data: bytes) -> None:
    """A file of Avro."""
    _read(data, lambda path: Avro(path, BadRecords("Avro", 3), ignore_unknown=True, logical_types=True))


def sql_text(data: bytes) -> None:
    """A query."""
    parse(data.decode("utf-8", "replace"))


# Each with inputs to begin with.
TARGETS: Final[dict[str, tuple[Callable[[bytes], None], tuple[bytes, ...]]]] = {
    "proto_descriptor": (proto_descriptor, (_ROW.SerializeToString(), b"")),
    "proto_row": (proto_row, (b"\x08\x01\x12\x01a\x18\x05", b"\x22\x02\x08\x01", b"\x7b\x7c")),
    "arrow_schema": (arrow_schema, (_BATCH.schema.serialize().to_pybytes(), b"")),
    "arrow_batch": (arrow_batch, (_BATCH.serialize().to_pybytes(), b"")),
    "json_rows": (json_rows, (b'{"id":"1","r":{"a":"2026-01-01 00:00:00Z","b":"1.5"}}', b'{"xs":[1,null]}')),
    "json_file": (json_file, (b'{"a":1,"b":[{"c":"2026-01-01"}]}\n{}\n', b"\x1f\x8b")),
    "csv_file": (csv_file, (b'a,b\n1,"x\ny"\n2026-01-01,\n', b'"')),
    "avro_file": (
        avro_file,
        (
            avro.header(avro.record(("id", "long"), ("name", ["null", "string"])))
            + avro.block(1, b"\x02\x02\x02a"),
            rows.claimed_text(),
        ),
    ),
    "sql_text": (sql_text, (b"SELECT SAFE.ABS(x) FROM `d.t` WHERE y IN (1, 'a')", b"BEGIN SELECT 1; END")),
}


def call(target: Callable[[bytes], Any], data: bytes) -> None:
    """Call a target; raises only what is a fault."""
    with contextlib.suppress(Refused, QueryError):
        target(data)
