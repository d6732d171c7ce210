"""Small files that would take any amount of memory or time: each ends its job with a refusal, or is read.

They are read in a process with small limits.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import zlib
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lode.ingest.jobs.formats import avro as avro_files
from lode.ingest.jobs.formats import json_lines, source
from lode.ingest.jobs.formats.remote import Files, Limits, Request
from lode.ingest.jobs.formats.source import BadRecords
from lode.ingest.status import Code, Refused
from lode.ingest.types.columns import Column, TableSchema
from lode.sandbox.processes import Processes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

JSON = "NEWLINE_DELIMITED_JSON"
LIMITS = Limits(64 << 20, 60)
ID = TableSchema((Column("id", "INT64"),))
WIDE = TableSchema(tuple(Column(f"c{number}", "INT64") for number in range(2000)))


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    found = Processes()
    yield found
    found.close()


class Reader:
    """Reads files of given bytes as a load job does."""

    def __init__(self, processes: Processes, directory: Path) -> None:
        self._processes = processes
        self._path = directory / "file"

    def files(self, kind: str, data: bytes, given: TableSchema | None = None, **settings: Any) -> Files:
        self._path.write_bytes(data)
        request = Request([self._path], kind, settings, given, len(data))
        return Files(self._processes, request, LIMITS, lambda: False)

    def table(self, kind: str, data: bytes, given: TableSchema | None = None, **settings: Any) -> pa.Table:
        with self.files(kind, data, given, **settings) as files:
            schema = given or files.schema().schema
            assert schema is not None
            return pa.Table.from_batches(files.batches(schema), schema.arrow)

    def refusal(self, kind: str, data: bytes, given: TableSchema | None = None, **settings: Any) -> Any:
        with pytest.raises(Refused) as refused:
            self.table(kind, data, given, **settings)
        return refused.value


@pytest.fixture
def reader(processes: Processes, tmp_path: Path) -> Reader:
    return Reader(processes, tmp_path)


# -- Avro ----------------------------------------------------------------------------------------------


def number(value: int) -> bytes:
    """A number as Avro writes it."""
    rest, made = value << 1, b""
    while rest > 127:
        made += bytes([rest & 127 | 128])
        rest >>= 7
    return made + bytes([rest])


def avro(schema: Any, body: bytes, *, rows: int = 1) -> bytes:
    """An Avro file with one block."""
    text = json.dumps(schema).encode()
    name, sync = b"avro.schema", b"s" * 16
    head = b"Obj\x01" + number(1) + number(len(name)) + name + number(len(text)) + text + number(0) + sync
    return head + number(rows) + number(len(body)) + body + sync


def record(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": key, "type": fields[key]} for key in fields]}


@pytest.mark.parametrize(
    "items",
    [
        {"type": "fixed", "name": "nothing", "size": 0},
        "null",
        record("empty", {}),
        record("nulls", {"x": "null", "y": {"type": "fixed", "name": "nothing", "size": 0}}),
        {"type": "null"},
    ],
    ids=["fixed", "null", "empty record", "record of nothing", "null as an object"],
)
def test_an_array_of_items_without_bytes_is_refused(reader: Reader, items: Any) -> None:
    schema = record("row", {"a": {"type": "array", "items": items}})
    refusal = reader.refusal("AVRO", avro(schema, number(1 << 50)))
    assert (refusal.code, "items take no bytes" in refusal.message) == (Code.INVALID_ARGUMENT, True)


def test_a_map_that_claims_many_entries_is_refused(reader: Reader) -> None:
    schema = record("row", {"a": {"type": "map", "values": "null"}})
    assert "cannot be read as Avro" in reader.refusal("AVRO", avro(schema, number(1 << 50))).message


def test_an_array_of_nullable_items_is_read(reader: Reader) -> None:
    schema = record("row", {"a": {"type": "array", "items": ["null", record("item", {"x": "long"})]}})
    body = number(1) + number(1) + number(7) + number(0)
    assert reader.table("AVRO", avro(schema, body)).to_pylist() == [{"a": [{"x": 7}]}]


def test_columns_are_counted_before_they_are_made(reader: Reader) -> None:
    schema: Any = record("r0", {"a": "long", "b": "long"})
    for level in range(1, 26):
        schema = record(f"r{level}", {"a": schema, "b": f"r{level - 1}"})
    assert "more than 10000 columns" in reader.refusal("AVRO", avro(schema, b"\0")).message


def test_values_of_avro_that_need_too_much_memory_are_refused(reader: Reader) -> None:
    item = record("item", {f"n{position}": "null" for position in range(4000)} | {"b": "boolean"})
    schema = record("row", {"a": {"type": "array", "items": item}})
    refusal = reader.refusal("AVRO", avro(schema, number(20_000) + b"\1" * 20_000 + b"\0"))
    assert (refusal.code, refusal.reason) == (Code.RESOURCE_EXHAUSTED, "resourcesExceeded")


def test_a_block_of_avro_that_grows_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro_files, "_MAX_BLOCK_BYTES", 1000)
    schema = record("row", {"id": "long"})
    for codec, complaint in (("deflate", "decompresses to more than 1000 bytes"), ("null", "limit is 1000")):
        path = tmp_path / codec
        with path.open("wb") as sink:
            fastavro.writer(sink, schema, [{"id": 0}] * 2000, codec=codec, sync_interval=1 << 30)
        opened = avro_files.Avro(path, BadRecords("Avro"), ignore_unknown=False, logical_types=True)
        with pytest.raises(Refused, match=complaint):
            list(opened.batches(ID))


# -- Parquet -------------------------------------------------------------------------------------------


def parquet(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd", **options)
    return sink.getvalue()


def test_a_list_of_many_nulls_is_refused(reader: Reader) -> None:
    count = 40_000_000
    values = pa.nulls(count, pa.int8())
    lists = pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), values)
    data = parquet(pa.table({"l": lists}), use_dictionary=False)
    assert len(data) < 1000
    schema = TableSchema((Column("l", "INT64", "REPEATED"),))
    assert reader.refusal("PARQUET", data, schema).reason == "resourcesExceeded"


@pytest.mark.parametrize("as_dictionary", [True, False])
def test_a_long_value_that_is_used_many_times_is_read_in_pieces(reader: Reader, as_dictionary: bool) -> None:
    indices = pa.array([0] * 700, pa.int32())
    column = pa.DictionaryArray.from_arrays(indices, pa.array(["x" * 1_000_000]))
    data = parquet(pa.table({"s": column}), store_schema=as_dictionary)
    assert len(data) < 5000
    rows = 0
    with reader.files("PARQUET", data) as files:
        schema = files.schema().schema
        assert schema is not None
        for batch in files.batches(schema):
            assert batch.nbytes <= 32 << 20
            assert batch.column("s")[0].as_py() == "x" * 1_000_000
            rows += batch.num_rows
    assert rows == 700


# -- CSV -----------------------------------------------------------------------------------------------


def test_one_name_many_times_in_a_header_becomes_distinct_names(reader: Reader) -> None:
    header, row = ",".join(["a"] * 6000), ",".join(["1"] * 6000)
    with reader.files("CSV", f"{header}\n{row}\n".encode(), autodetect=True) as files:
        schema = files.schema().schema
    assert schema is not None
    assert [column.name for column in schema][:3] == ["a", "a_1", "a_2"]
    assert schema.columns[-1].name == "a_5999"


def test_names_that_are_taken_already_are_left_out(reader: Reader) -> None:
    data = b"a,A_1,a,a\n1,2,3,4\n"
    assert reader.table("CSV", data, autodetect=True).column_names == ["a", "A_1", "a_2", "a_3"]


def test_a_text_of_many_digits_is_no_number(reader: Reader) -> None:
    data = b"n\n1\n" + b"1" * (1 << 20) + b"x\n"
    with reader.files("CSV", data, autodetect=True) as files:
        schema = files.schema().schema
    assert schema == TableSchema((Column("string_field_0", "STRING"),))


def test_short_rows_of_a_wide_table_are_read_in_pieces(reader: Reader) -> None:
    table = reader.table("CSV", b"1\n" * 3000, WIDE, allowJaggedRows=True)
    assert (table.num_rows, table["c0"][1999].as_py(), table["c1999"].null_count) == (3000, 1, 3000)


def test_more_lines_to_skip_than_a_file_has_are_refused(reader: Reader) -> None:
    refusal = reader.refusal("CSV", b"1\n2\n", ID, skipLeadingRows="999999999999999999")
    assert "Could not skip" in refusal.message


# -- JSON ----------------------------------------------------------------------------------------------


def test_a_line_with_many_keys_is_refused(reader: Reader) -> None:
    line = ("{" + ",".join(f'"k{key}":1' for key in range(200_000)) + "}\n").encode()
    assert "more than 10000 columns" in reader.refusal(JSON, line, autodetect=True).message
    assert "too many errors" in reader.refusal(JSON, line, ID).message
    assert reader.table(JSON, line, ID, ignoreUnknownValues=True).num_rows == 1


@pytest.mark.parametrize(("begin", "end"), [(b"[", b"]"), (b'{"a":', b"}")])
@pytest.mark.parametrize("depth", [500, 1_000_000])
def test_deep_json_is_refused(reader: Reader, begin: bytes, end: bytes, depth: int) -> None:
    line = b'{"id":' + begin * depth + b"1" + end * depth + b"}\n"
    assert reader.refusal(JSON, line, ID).code is Code.INVALID_ARGUMENT
    if depth > 500 or begin != b"[":
        assert "nested too deep" in reader.refusal(JSON, line, autodetect=True).message


def test_empty_objects_of_a_wide_table_are_read_in_pieces(reader: Reader) -> None:
    assert reader.table(JSON, b"{}\n" * 3000, WIDE).num_rows == 3000


def test_empty_objects_in_a_list_of_wide_structs_are_refused(reader: Reader) -> None:
    schema = TableSchema((Column("l", "STRUCT", "REPEATED", WIDE.columns),))
    line = b'{"l":[' + b"{}," * 100_000 + b"{}]}\n"
    assert "when unpacked" in reader.refusal(JSON, line, schema).message


def test_empty_lines_are_no_rows_and_positions_stay_right(reader: Reader) -> None:
    data = b'\n\r\n{"id": 1}\n   \n\t{"id": 2}\n\n  x\n\n{"id": 3}'
    table = reader.table(JSON, data, ID, maxBadRecords=1)
    assert table["id"].to_pylist() == [1, 2, 3]
    refusal = reader.refusal(JSON, data, ID)
    assert f"position {data.index(b'  x')}:" in refusal.errors[0]["message"]


def test_a_row_that_is_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_lines, "MAX_ROW_BYTES", 1 << 20)
    path = tmp_path / "file"
    path.write_bytes(gzip.compress(b"x" * (4 << 20)))
    lines = json_lines.JsonLines(path, BadRecords("JSON"), ignore_unknown=False, autodetect=False)
    with pytest.raises(Refused, match="more than 1,048,576 bytes"):
        list(lines.batches(ID))


def test_files_that_become_too_many_rows_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_MIN_EXPANDED_BYTES", 1000)
    batch = pa.RecordBatch.from_pydict({"id": [1] * 60})
    assert len(list(source.bounded([batch], 1))) == 1
    with pytest.raises(Refused, match="load them in several jobs"):
        list(source.bounded([batch] * 2, 1))


# -- gzip ----------------------------------------------------------------------------------------------


def deflated(data: bytes, times: int) -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    return b"".join([*(packer.compress(data) for _ in range(times)), packer.flush()])


@pytest.mark.parametrize("kind", ["CSV", JSON])
def test_line_breaks_that_were_compressed_are_skipped(reader: Reader, kind: str) -> None:
    data = deflated(b"\n" * (1 << 20), 100)
    assert len(data) < 150_000
    assert reader.table(kind, data, ID).num_rows == 0


def test_a_file_that_decompresses_to_very_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "_MIN_EXPANDED_BYTES", 1000)
    path = tmp_path / "file"
    path.write_bytes(deflated(b"\n" * (1 << 20), 5))
    lines = source.Bytes(path)
    with pytest.raises(Refused, match="decompresses to more than 1,000 times its size"):
        list(iter(lines.read, b""))
    lines.close()


def test_many_members_of_gzip_are_read(reader: Reader) -> None:
    first, empty, last = gzip.compress(b'{"id": 1}\n'), gzip.compress(b""), gzip.compress(b'{"id": 2}\n')
    # Of a member that hardly shrinks, much is left when it ends.
    long = gzip.compress(b'{"id": 3, "x": "' + os.urandom(1 << 20).hex().encode() + b'"}\n')
    data = first + empty * 50_000 + long + empty * 50_000 + last
    assert reader.table(JSON, data, ID, ignoreUnknownValues=True)["id"].to_pylist() == [1, 3, 2]


def test_a_process_is_used_again_after_a_refusal(reader: Reader) -> None:
    reader.refusal(JSON, b"x\n", ID)
    with reader.files(JSON, b'{"id": 1}\n', ID) as files:
        first = files.pid
    reader.refusal("AVRO", b"Obj\x01", ID)
    with reader.files(JSON, b'{"id": 1}\n', ID) as files:
        assert files.pid == first


# -- limits of the process -----------------------------------------------------------------------------


def read_until_refused(files: Files) -> None:
    """Read again and again: the watch ends the process."""
    with files:
        while True:
            list(files.batches(ID))


def test_a_job_that_takes_too_long_is_refused(processes: Processes, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b'{"id": 1}\n')
    request = Request([path], JSON, {}, ID, 10)
    with pytest.raises(Refused) as late:
        read_until_refused(Files(processes, request, Limits(64 << 20, -2), lambda: False))
    assert (late.value.code, late.value.reason) == (Code.DEADLINE_EXCEEDED, "timeout")


def test_a_cancelled_job_is_stopped(processes: Processes, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b'{"id": 1}\n')
    with pytest.raises(Refused) as stopped:
        read_until_refused(Files(processes, Request([path], JSON, {}, ID, 10), LIMITS, lambda: True))
    assert (stopped.value.code, stopped.value.reason) == (Code.CANCELLED, "stopped")


def test_a_job_of_a_server_that_stops_is_stopped(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b'{"id": 1}\n')
    own = Processes()
    with Files(own, Request([path], JSON, {}, ID, 10), LIMITS, lambda: False) as files:
        own.close()
        with pytest.raises(Refused) as stopped:
            list(files.batches(ID))
    assert (stopped.value.code, stopped.value.reason) == (Code.CANCELLED, "stopped")


def test_rows_can_be_read_again_although_some_were_left(reader: Reader) -> None:
    rows = b"".join(b'{"id": %d}\n' % row for row in range(20_000))
    with reader.files(JSON, rows, ID) as files:
        first = files.batches(ID)
        assert next(first).num_rows
        assert sum(batch.num_rows for batch in files.batches(ID)) == 20_000


def test_an_unexpected_error_of_a_reader_is_a_refusal_of_the_file(
    reader: Reader, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"fieldDelimiter": ["not a text"]}  # no reader expects it
    refusal = reader.refusal("CSV", b"1\n", ID, **settings)
    assert (refusal.code, refusal.reason) == (Code.INVALID_ARGUMENT, "")
    assert "The file cannot be read as CSV" in refusal.message
    assert "a file cannot be read" in caplog.text


def test_bad_rows_are_counted_from_the_beginning_again(reader: Reader) -> None:
    with reader.files(JSON, b'{"id": 1}\nx\n', ID, maxBadRecords=1) as files:
        for _ in range(3):
            assert sum(batch.num_rows for batch in files.batches(ID)) == 1
            assert (files.bad.count, len(files.bad.errors)) == (1, 1)
