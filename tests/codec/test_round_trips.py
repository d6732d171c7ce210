"""Whatever is written is read back, value for value."""

from __future__ import annotations

import io
import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from lode.codec import JSONL, ArrowIPC, Parquet, arrow_batches, chunks_of, compressor
from lode.codec.arrays import _coerced, _direct
from support.codec.sinks import Unseekable, decoded, encoded
from support.codec.strategies import JSON_VALUES, plain, tables

if TYPE_CHECKING:
    from lode.codec import StreamingCodec

from hypothesis import strategies as st

Table = tuple[pa.Schema, list[dict[str, Any]]]
CALM = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


@CALM
@given(tables())
@pytest.mark.parametrize("kind", [Parquet, ArrowIPC])
def test_any_rows_of_any_schema_come_back_equal(kind: Any, table: Table) -> None:
    schema, rows = table
    codec = kind(schema)
    data = encoded(codec, rows)
    assert [plain(row) for row in decoded(codec, data)] == [plain(row) for row in rows]
    (first, *_) = codec.decode(io.BytesIO(data))
    assert first.schema.equals(schema)


@CALM
@given(tables())
def test_the_fast_way_and_the_careful_way_agree(table: Table) -> None:
    schema, rows = table
    for field in schema:
        values = [row[field.name] for row in rows]
        careful = _coerced(values, field, 0, False)
        fast = _direct(values, field)
        assert fast is None or fast.equals(careful)
        # All these values have the exact types. Only coarse units and infinite float32s need a second look.
        careful_only = ("timestamp[ms]", "float")
        assert fast is not None or any(kind in str(field.type) for kind in careful_only)


@CALM
@given(st.lists(JSON_VALUES, max_size=20))
def test_any_json_values_come_back_equal(values: list[Any]) -> None:
    assert decoded(JSONL(), encoded(JSONL(), values)) == values


@CALM
@given(tables())
def test_arrow_data_of_the_schema_comes_back_as_the_same_table(table: Table) -> None:
    schema, rows = table
    batch = pa.Table.from_batches(arrow_batches(chunks_of(rows), schema), schema=schema)
    for codec in (Parquet(), ArrowIPC(), Parquet(schema, dictionary=False, compression="none")):
        chunks: Any = codec.decode(io.BytesIO(encoded(codec, batch)))
        assert pa.Table.from_batches(chunks).cast(schema).equals(batch)


@CALM
@given(tables(flat=True))
def test_rows_written_as_json_become_the_same_arrow_data(table: Table) -> None:
    schema, rows = table
    finite = [{k: v for k, v in row.items() if v not in (float("inf"), float("-inf"))} for row in rows]
    if any(not field.nullable and field.name not in row for field in schema for row in finite):
        return
    direct = list(arrow_batches([finite], schema))
    chunks = JSONL().decode(io.BytesIO(encoded(JSONL(), finite)))
    through_json = list(arrow_batches(chunks, schema, from_json=True))
    assert pa.Table.from_batches(through_json, schema).equals(pa.Table.from_batches(direct, schema))


@pytest.mark.parametrize("codec", [JSONL(), Parquet({"a": "int64"}), ArrowIPC({"a": "int64"})])
@pytest.mark.parametrize("compression", ["noop", "gzip", "zstd"])
def test_every_codec_reads_through_every_compressor(codec: StreamingCodec, compression: str) -> None:
    rows = [{"a": index} for index in range(10_000)]
    packed = io.BytesIO()
    sink = compressor(compression).compress(packed)
    encoder = codec.stream_encoder(sink)
    for chunk in chunks_of(rows):
        encoder.write(chunk)
    encoder.close()
    sink.close()
    source: Any = Unseekable(packed.getvalue())
    assert decoded(codec, compressor(compression).decompress(source)) == rows


@pytest.mark.parametrize(
    "codec",
    [JSONL({"a": "int64"}), ArrowIPC({"a": "int64!"}), Parquet({"a": "int64"}, level=3, dictionary=["a"])],
)
def test_a_codec_is_a_value(codec: Any) -> None:
    copy = pickle.loads(pickle.dumps(codec))
    assert copy == codec
    assert hash(copy) == hash(codec)
    with pytest.raises(AttributeError):
        codec.schema = None
