"""Rows sent as Arrow: any rows of any schema arrive as they were; what does not fit is refused by name."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.ipc as ipc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lode
from lode.ingest.decode.arrow import ArrowRows
from lode.ingest.status import Code, Refused
from lode.ingest.types.columns import Column, TableSchema
from support import SUPPORT
from support.ingest.strategies import rows_for, schemas, writer_schemas


def of(*columns: Column) -> TableSchema:
    return TableSchema(columns)


def message(batch: pa.RecordBatch, compression: Any = None) -> bytes:
    """The batch alone, as clients send it."""
    stream = whole_stream(batch, compression)
    reader = ipc.MessageReader.open_stream(pa.py_buffer(stream))
    reader.read_next_message()
    sink = pa.BufferOutputStream()
    reader.read_next_message().serialize_to(sink)
    return sink.getvalue().to_pybytes()


def whole_stream(batch: pa.RecordBatch, compression: Any = None) -> bytes:
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, batch.schema, options=ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def decoder(schema: TableSchema, writer: pa.Schema) -> ArrowRows:
    return ArrowRows(schema, writer.serialize().to_pybytes())


def send(schema: TableSchema, batch: pa.RecordBatch) -> pa.RecordBatch:
    return decoder(schema, batch.schema).decode(message(batch))


def send_array(column: Column, array: pa.Array[Any]) -> list[Any]:
    return send(of(column), pa.record_batch({column.name: array})).column(0).to_pylist()


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data(), schemas())
def test_any_rows_of_any_schema_are_read_back_as_they_were_sent(
    data: st.DataObject, schema: TableSchema
) -> None:
    rows = data.draw(rows_for(schema))
    writer = data.draw(writer_schemas(schema))
    compression = data.draw(st.sampled_from([None, "lz4", "zstd"]))
    batch = decoder(schema, writer).decode(message(pa.RecordBatch.from_pylist(rows, writer), compression))
    assert batch.schema.equals(schema.arrow, check_metadata=True)
    batch.validate(full=True)
    dataset = lode.Dataset("t", "memory://", codec=lode.Parquet(schema.arrow))
    assert dataset.read(dataset.write(batch)).to_pylist() == rows


def test_a_batch_in_the_tables_schema_is_not_copied() -> None:
    schema = of(Column("a", "INT64", "REQUIRED"), Column("b", "STRING"))
    columns: dict[str, Any] = {"a": pa.array(range(100)), "b": pa.array(["x"] * 100)}
    sent = message(pa.record_batch(columns))
    before = pa.total_allocated_bytes()
    batch = decoder(schema, pa.record_batch(columns).schema).decode(sent)
    assert (batch.num_rows, pa.total_allocated_bytes()) == (100, before)


UTC = dt.UTC
COERCED: list[tuple[str, pa.Array[Any], object]] = [
    ("INT64", pa.array([-5], pa.int8()), -5),
    ("INT64", pa.array([2**63 - 1], pa.uint64()), 2**63 - 1),
    ("FLOAT64", pa.array([1.5], pa.float16()), 1.5),
    ("FLOAT64", pa.array([1.5], pa.float32()), 1.5),
    ("FLOAT64", pa.array([2**53]), 2.0**53),
    ("NUMERIC", pa.array([7], pa.uint64()), Decimal(7)),
    ("NUMERIC", pa.array([Decimal("1.50")], pa.decimal128(3, 2)), Decimal("1.5")),
    ("NUMERIC", pa.array([Decimal("1.5")], pa.decimal256(76, 30)), Decimal("1.5")),
    ("NUMERIC", pa.array(["-1.5e3"]), Decimal(-1500)),
    ("NUMERIC", pa.array([Decimal("1.0000000005")], pa.decimal128(38, 10)), Decimal("1.000000001")),
    ("NUMERIC", pa.array(["9" * 29 + "." + "9" * 9], pa.string_view()), Decimal("9" * 29 + "." + "9" * 9)),
    ("BIGNUMERIC", pa.array(["1.000"], pa.large_string()), Decimal(1)),
    ("BIGNUMERIC", pa.array([2**63 - 1]), Decimal(2**63 - 1)),
    ("STRING", pa.array(["long enough for a view"], pa.string_view()), "long enough for a view"),
    ("JSON", pa.array(['{"a": 1}'], pa.json_()), '{"a": 1}'),
    ("GEOGRAPHY", pa.array(["POINT(0 0)"], pa.large_string()), "POINT(0 0)"),
    (
        "INTERVAL",
        pa.array([(-14, 3, -3_723_000_001_000)], pa.month_day_nano_interval()),
        "-1-2 3 -1:2:3.000001",
    ),
    ("BYTES", pa.array([b"abc"], pa.binary(3)), b"abc"),
    ("BYTES", pa.array([b"abc"], pa.large_binary()), b"abc"),
    ("BYTES", pa.array([b"0123456789abcdef"], pa.binary(16)).cast(pa.uuid()), b"0123456789abcdef"),
    ("TIMESTAMP", pa.array([1], pa.timestamp("s")), dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
    (
        "TIMESTAMP",
        pa.array([1000], pa.timestamp("ns", "Asia/Tokyo")),
        dt.datetime(1970, 1, 1, 0, 0, 0, 1, UTC),
    ),
    ("DATETIME", pa.array([1], pa.timestamp("ms")), dt.datetime(1970, 1, 1, 0, 0, 0, 1000)),
    ("DATE", pa.array([dt.date(2024, 2, 29)], pa.date64()), dt.date(2024, 2, 29)),
    ("TIME", pa.array([5], pa.time32("s")), dt.time(0, 0, 5)),
    ("TIME", pa.array([5000], pa.time64("ns")), dt.time(0, 0, 0, 5)),
    ("STRING", pa.nulls(1), None),
]


@pytest.mark.parametrize(("kind", "array", "value"), COERCED, ids=[f"{k} {a.type}" for k, a, _ in COERCED])
def test_other_types_become_the_columns_without_loss(kind: str, array: pa.Array[Any], value: object) -> None:
    assert send_array(Column("a", kind), array) == [value]


LOST: list[tuple[str, pa.Array[Any], list[int]]] = [
    ("INT64", pa.array([1, 2**63], pa.uint64()), [1]),
    ("FLOAT64", pa.array([2**53 + 1, 1]), [0]),
    ("NUMERIC", pa.array([Decimal(10) ** 29, Decimal(10**29 - 1)], pa.decimal128(38, 0)), [0]),
    ("BIGNUMERIC", pa.array([Decimal(10) ** 69, Decimal(1)], pa.decimal256(71, 1)), [0]),
    ("NUMERIC", pa.array(["1", "x", None, "NaN", "1_0", " 1", "1e29", "1e-10", ""]), [1, 3, 4, 6, 8]),
    ("TIMESTAMP", pa.array([1, 1000], pa.timestamp("ns")), [0]),
    ("TIMESTAMP", pa.array([1, 2**62], pa.timestamp("s")), [1]),
    ("TIME", pa.array([1, 1000], pa.time64("ns")), [0]),
    ("INTERVAL", pa.array([(0, 0, 1), (0, 0, 1000)], pa.month_day_nano_interval()), [0]),
    ("DATE", pa.array([1, 86_400_000]).view(pa.date64()), [0]),
]


@pytest.mark.parametrize(("kind", "array", "expected"), LOST, ids=[f"{k} {a.type}" for k, a, _ in LOST])
def test_a_value_that_would_lose_something_makes_its_row_bad(
    kind: str, array: pa.Array[Any], expected: list[int]
) -> None:
    with pytest.raises(Refused) as refused:
        send_array(Column("a", kind), array)
    assert [row.index for row in refused.value.rows] == expected
    assert not refused.value.ends_call


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (Column("a", "INT64"), pa.string()),
        (Column("a", "INT64"), pa.bool_()),
        (Column("a", "INT64"), pa.float64()),
        (Column("a", "BOOL"), pa.int8()),
        (Column("a", "STRING"), pa.binary()),
        (Column("a", "BYTES"), pa.string()),
        (Column("a", "NUMERIC"), pa.float64()),
        (Column("a", "NUMERIC"), pa.decimal128(5, -3)),
        (Column("a", "DATETIME"), pa.timestamp("us", "UTC")),
        (Column("a", "STRING"), pa.list_(pa.string())),
        (Column("a", "STRING", "REPEATED"), pa.string()),
        (Column("a", "STRING", "REPEATED"), pa.list_(pa.null())),
        (Column("a", "STRING", "REPEATED"), pa.list_(pa.list_(pa.string()))),
        (Column("a", "STRING"), pa.dictionary(pa.int8(), pa.string())),
        (Column("a", "STRING"), pa.run_end_encoded(pa.int32(), pa.string())),
        (Column("a", "BYTES"), pa.binary(0)),
        (Column("a", "STRUCT", fields=(Column("x", "INT64"),)), pa.int64()),
        (Column("a", "STRUCT", fields=(Column("x", "INT64"),)), pa.struct([("x", pa.string())])),
    ],
    ids=lambda value: str(value.type) if isinstance(value, Column) else str(value),
)
def test_a_type_that_does_not_fit_ends_the_call(column: Column, kind: pa.DataType) -> None:
    with pytest.raises(Refused, match="'a") as refused:
        decoder(of(column), pa.schema([("a", kind)]))
    assert refused.value.code is Code.INVALID_ARGUMENT
    assert refused.value.ends_call


def test_structs_match_by_name_whatever_order_and_case_and_lack_what_is_missing() -> None:
    column = Column(
        "s", "STRUCT", "REPEATED", (Column("x", "INT64"), Column("y", "STRING"), Column("z", "DATE"))
    )
    kind = pa.large_list(pa.struct([("Y", pa.large_string()), ("X", pa.int8())]))
    array: Any = pa.array([[{"Y": "a", "X": 1}], None], kind)
    assert send_array(column, array) == [[{"x": 1, "y": "a", "z": None}], []]


def test_invalid_text_makes_its_row_bad_beside_the_bad_rows_of_other_columns() -> None:
    text: Any = pa.array([b"fine", b"\xff\xfe", b"fine", None]).view(pa.string())
    numbers: Any = pa.array([1, 2, None, 4])
    schema = of(Column("t", "STRING"), Column("n", "INT64", "REQUIRED"))
    with pytest.raises(Refused) as refused:
        send(schema, pa.record_batch({"t": text, "n": numbers}))
    assert {row.index: row.message for row in refused.value.rows} == {
        1: "Column 't': the value is not valid UTF-8.",
        2: "Column 'n': it is REQUIRED, and null or missing.",
    }


def test_bad_values_of_columns_in_the_tables_own_types_are_all_named() -> None:
    schema = of(Column("at", "TIMESTAMP"), Column("n", "INT64", "REQUIRED"), Column("s", "STRING"))
    columns: dict[str, Any] = {
        "at": pa.array([0, 2**62, None, 0], pa.timestamp("us", "UTC")),
        "n": pa.array([1, 2, 3, None]),
        "s": pa.array(["x"] * 4),
    }
    with pytest.raises(Refused) as refused:
        send(schema, pa.record_batch(columns))
    assert {row.index: row.message for row in refused.value.rows} == {
        1: "Column 'at': a TIMESTAMP is out of its range (years 1 to 9999).",
        3: "Column 'n': it is REQUIRED, and null or missing.",
    }


def test_a_column_without_values_whose_offset_is_negative_is_refused() -> None:
    schema = pa.schema([("a", pa.string())])
    sent = bytearray(message(pa.record_batch([pa.array(["x"])], schema=schema)))
    body = 8 + int.from_bytes(sent[4:8], "little")
    one, none = (number.to_bytes(8, "little") for number in (1, 0))
    # The numbers of rows and values.
    sent[:body] = sent[:body].replace(one, none)
    sent[body : body + 4] = (-1).to_bytes(4, "little", signed=True)
    with pytest.raises(Refused, match="Column 'a' of the record batch is malformed"):
        decoder(of(Column("a", "STRING")), schema).decode(bytes(sent))


def test_rows_without_columns_are_no_rows() -> None:
    sent = pa.record_batch({"a": pa.array(range(5))}).select([]).serialize().to_pybytes()
    assert decoder(of(), pa.schema([])).decode(sent).num_rows == 0


def test_names_in_other_case_and_other_nullability_become_the_tables() -> None:
    schema = of(Column("Id", "INT64", "REQUIRED"), Column("text", "STRING"))
    fields: list[pa.Field[Any]] = [pa.field("ID", pa.int64()), pa.field("Text", pa.string(), nullable=False)]
    writer = pa.schema(fields, metadata={"of": "the writer"})
    batch = pa.record_batch([pa.array([1, 2]), pa.array(["a", "b"])], schema=writer)
    rows = decoder(schema, writer)
    for sent in (message(batch), whole_stream(batch), message(batch) + message(batch)):
        found = rows.decode(sent)
        assert found.schema.equals(schema.arrow, check_metadata=True)
        assert found.slice(0, 2).to_pylist() == [{"Id": 1, "text": "a"}, {"Id": 2, "text": "b"}]


def test_a_whole_stream_is_taken_and_all_its_batches_count() -> None:
    schema = of(Column("a", "INT64"))
    batch = pa.record_batch({"a": pa.array([1, 2])})
    rows = decoder(schema, batch.schema)
    assert rows.decode(whole_stream(batch, "zstd")).to_pylist() == batch.to_pylist()
    assert rows.decode(message(batch) + message(batch)).to_pylist() == batch.to_pylist() * 2


def test_a_stream_of_another_schema_is_refused() -> None:
    rows = decoder(of(Column("a", "INT64")), pa.schema([("a", pa.int64())]))
    with pytest.raises(Refused, match="differs"):
        rows.decode(whole_stream(pa.record_batch({"a": pa.array(["x"])})))


@pytest.mark.parametrize("sent", [b"", b"\xff" * 8, b"rows", b"\xff\xff\xff\xff\x10\x00\x00\x00"])
def test_bytes_that_are_no_message_are_refused(sent: bytes) -> None:
    rows = decoder(of(Column("a", "INT64")), pa.schema([("a", pa.int64())]))
    with pytest.raises(Refused) as refused:
        rows.decode(sent)
    assert not refused.value.ends_call
    with pytest.raises(Refused) as refused:
        ArrowRows(of(Column("a", "INT64")), sent)
    assert refused.value.ends_call


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_a_small_message_that_unpacks_to_a_huge_one_is_refused(compression: str) -> None:
    batch = pa.record_batch({"a": pa.repeat(0, 40 << 20)})
    sent = message(batch, compression)
    assert len(sent) < 2 << 20
    del batch
    with pytest.raises(Refused, match="when unpacked"):
        decoder(of(Column("a", "INT64")), pa.schema([("a", pa.int64())])).decode(sent)


def test_rows_that_take_no_bytes_are_bounded() -> None:
    nothing = pa.Array.from_buffers(pa.null(), 1 << 26, [None])
    batch = pa.RecordBatch.from_arrays([nothing], names=["a"])
    with pytest.raises(Refused, match="rows"):
        send(of(Column("a", "INT64")), batch)


def test_views_onto_the_same_bytes_are_bounded() -> None:
    count, length = 40_000, 10_000
    view = length.to_bytes(4, "little") + b"xxxx" + (0).to_bytes(8, "little")
    array = pa.Array.from_buffers(
        pa.string_view(), count, [None, pa.py_buffer(view * count), pa.py_buffer(b"x" * length)]
    )
    with pytest.raises(Refused, match="views"):
        send(of(Column("a", "STRING")), pa.record_batch({"a": array}))


def test_flipped_bytes_are_refused_or_decoded_and_never_crash() -> None:
    """In a process of its own, since what this guards against would take the tests down with it."""
    done = subprocess.run(
        [sys.executable, "-m", "support.ingest.arrow_flips", "20240229", "3000"],
        cwd=SUPPORT.parent,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    decoded, refused = (int(count) for count in done.stdout.split())
    assert decoded > 300
    assert refused > 1500
