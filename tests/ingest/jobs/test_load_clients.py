"""Load jobs of the official Python client and of pandas-gbq: every format, both kinds of upload."""

from __future__ import annotations

import io
import json
import zlib
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import fastavro
import pandas as pd
import pandas_gbq  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
import zstandard
from google.auth.credentials import AnonymousCredentials
from google.cloud import bigquery

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.testing.plugin import LodeServer

    Rows = Callable[[str], list[dict[str, Any]]]

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*deprecated.*", "ignore:.*will be changed to.*:PendingDeprecationWarning"
)

Field = bigquery.SchemaField
MOMENT = datetime(2026, 11, 15, 12, 30, 0, 123456, tzinfo=UTC)


def test_a_data_frame_is_loaded_with_its_types(client: bigquery.Client, table: str, rows: Rows) -> None:
    frame = pd.DataFrame(
        {
            "id": [1, 2],
            "name": ["a", None],
            "real": [0.5, float("nan")],
            "at": pd.Series([MOMENT, None], dtype="datetime64[us, UTC]"),
            "civil": pd.Series([datetime(2026, 11, 15, 1, 2, 3, 4), None], dtype="datetime64[us]"),
            "day": [date(2026, 11, 15), None],
            "clock": [time(1, 2, 3), None],
            "price": [Decimal("1.5"), None],
            "raw": [b"\x00", None],
            "tags": [["x", "y"], []],
        }
    )
    job = client.load_table_from_dataframe(frame, table)
    job.result()
    assert job.output_rows == 2
    assert [field.field_type for field in client.get_table(table).schema] == [
        "INTEGER",
        "STRING",
        "FLOAT",
        "TIMESTAMP",
        "DATETIME",
        "DATE",
        "TIME",
        "NUMERIC",
        "BYTES",
        "STRING",
    ]
    first, second = rows(table)
    assert first == {
        "id": 1,
        "name": "a",
        "real": 0.5,
        "at": MOMENT,
        "civil": datetime(2026, 11, 15, 1, 2, 3, 4),
        "day": date(2026, 11, 15),
        "clock": time(1, 2, 3),
        "price": Decimal("1.5"),
        "raw": b"\x00",
        "tags": ["x", "y"],
    }
    assert second["name"] is None
    assert second["tags"] == []


def test_a_data_frame_is_loaded_as_csv(client: bigquery.Client, table: str, rows: Rows) -> None:
    frame = pd.DataFrame({"id": [1, 2], "text": ['a "quoted", text', "plain"], "ok": [True, False]})
    config = bigquery.LoadJobConfig(
        source_format="CSV",
        schema=[Field("id", "INTEGER"), Field("text", "STRING"), Field("ok", "BOOLEAN")],
    )
    client.load_table_from_dataframe(frame, table, job_config=config).result()
    assert rows(table) == frame.to_dict("records")


def test_json_rows_are_loaded_with_detected_columns(client: bigquery.Client, table: str, rows: Rows) -> None:
    sent = [
        {"id": 1, "name": "a", "real": 1.5, "ok": True, "on": "2026-11-15", "place": {"city": "Ulm"}},
        {"id": 2, "name": "b", "tags": ["x"], "place": {"city": None, "n": 3}},
    ]
    job = client.load_table_from_json(sent, table)
    job.result()
    assert job.output_rows == 2
    types = {field.name: (field.field_type, field.mode) for field in client.get_table(table).schema}
    assert types == {
        "id": ("INTEGER", "NULLABLE"),
        "name": ("STRING", "NULLABLE"),
        "real": ("FLOAT", "NULLABLE"),
        "ok": ("BOOLEAN", "NULLABLE"),
        "on": ("DATE", "NULLABLE"),
        "place": ("RECORD", "NULLABLE"),
        "tags": ("STRING", "REPEATED"),
    }
    assert rows(table)[0]["place"] == {"city": "Ulm", "n": None}
    assert rows(table)[1]["tags"] == ["x"]


# The same rows in each format, with the options that it needs.
ARROW = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "name": ["a", "b", None],
        "at": pa.array([MOMENT, MOMENT, None], pa.timestamp("us", "UTC")),
    }
)


def parquet() -> bytes:
    sink = io.BytesIO()
    pq.write_table(ARROW, sink, row_group_size=2)
    return sink.getvalue()


def orc_file() -> bytes:
    sink = io.BytesIO()
    orc.write_table(ARROW, sink)
    return sink.getvalue()


def avro(codec: str = "deflate") -> bytes:
    schema = {
        "type": "record",
        "name": "row",
        "fields": [
            {"name": "id", "type": ["null", "long"]},
            {"name": "name", "type": ["null", "string"]},
            {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        ],
    }
    sink = io.BytesIO()
    fastavro.writer(sink, schema, ARROW.to_pylist(), codec=codec)
    return sink.getvalue()


def json_lines() -> bytes:
    return b"".join(json.dumps(row, default=str).encode() + b"\n" for row in ARROW.to_pylist())


def csv_text() -> bytes:
    return b"id,name,at\n1,a,2026-11-15 12:30:00.123456 UTC\n2,b,2026-11-15T12:30:00.123456Z\n3,,\n"


FILES: dict[str, tuple[Callable[[], bytes], dict[str, Any]]] = {
    "PARQUET": (parquet, {}),
    "ORC": (orc_file, {}),
    "AVRO": (avro, {"use_avro_logical_types": True}),
    "NEWLINE_DELIMITED_JSON": (json_lines, {"autodetect": True}),
    "CSV": (csv_text, {"autodetect": True}),
}


@pytest.mark.parametrize("upload", ["multipart", "resumable"])
@pytest.mark.parametrize("kind", FILES)
def test_a_file_of_each_format_is_loaded_by_each_upload(
    client: bigquery.Client, table: str, rows: Rows, kind: str, upload: str
) -> None:
    make, options = FILES[kind]
    data = make()
    config = bigquery.LoadJobConfig(source_format=kind, **options)
    # The client sends files whose size it knows and that are small in one request.
    size = len(data) if upload == "multipart" else None
    job = client.load_table_from_file(io.BytesIO(data), table, size=size, job_config=config)
    job.result()
    assert job.output_rows == 3
    assert job.input_file_bytes == len(data)
    assert rows(table) == ARROW.to_pylist()
    assert [field.field_type for field in client.get_table(table).schema] == [
        "INTEGER",
        "STRING",
        "TIMESTAMP",
    ]


def compressed(codec: str) -> bytes:
    """The rows as Avro, compressed by codecs that fastavro lacks here."""
    plain = avro("null")
    head, sync, blocks = plain[:-16].partition(plain[-16:])
    block = io.BytesIO(blocks)
    count = fastavro.schemaless_reader(block, "long", None)
    fastavro.schemaless_reader(block, "long", None)
    if codec == "zstandard":
        data = zstandard.ZstdCompressor().compress(block.read())
    else:
        rest = block.read()
        data = pa.compress(rest, codec="snappy", asbytes=True) + zlib.crc32(rest).to_bytes(4, "big")
    sizes = io.BytesIO()
    for number in (count, len(data)):
        fastavro.schemaless_writer(sizes, "long", number)
    # The name of the codec has a length of one byte before it.
    named = head.replace(b"\x08null", bytes([2 * len(codec)]) + codec.encode())
    return named + sync + sizes.getvalue() + data + sync


@pytest.mark.parametrize("codec", ["snappy", "zstandard"])
def test_avro_is_decompressed(client: bigquery.Client, table: str, rows: Rows, codec: str) -> None:
    config = bigquery.LoadJobConfig(source_format="AVRO", use_avro_logical_types=True)
    client.load_table_from_file(io.BytesIO(compressed(codec)), table, job_config=config).result()
    assert rows(table) == ARROW.to_pylist()


def test_avro_numbers_stay_numbers_without_logical_types(
    client: bigquery.Client, table: str, rows: Rows
) -> None:
    config = bigquery.LoadJobConfig(source_format="AVRO")
    client.load_table_from_file(io.BytesIO(avro()), table, job_config=config).result()
    assert client.get_table(table).schema[2].field_type == "INTEGER"
    assert rows(table)[0]["at"] == int(MOMENT.timestamp() * 1_000_000)


def test_a_large_file_is_resumed_in_chunks(client: bigquery.Client, table: str, rows: Rows) -> None:
    text = b"".join(b'{"n": %d, "text": "%b"}\n' % (n, b"x" * 1000) for n in range(2000))
    config = bigquery.LoadJobConfig(source_format="NEWLINE_DELIMITED_JSON", autodetect=True)
    job = client.load_table_from_file(io.BytesIO(text), table, job_config=config)
    job.result()
    assert job.output_rows == 2000
    assert sum(row["n"] for row in rows(table)) == sum(range(2000))


def test_pandas_gbq_writes_appends_and_replaces_a_frame(
    server: LodeServer, table: str, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BIGQUERY_EMULATOR_HOST", server.http_url)
    frame = pd.DataFrame({"id": [1, 2], "name": ["a", "b"]})

    def write(frame: pd.DataFrame, if_exists: str, method: str = "default") -> None:
        pandas_gbq.to_gbq(
            frame,
            table.removeprefix("p."),
            project_id="p",
            if_exists=if_exists,
            api_method=method,
            credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call]
            progress_bar=False,
        )

    write(frame, "fail")
    write(frame, "append", "load_csv")
    assert rows(table) == 2 * frame.to_dict("records")
    write(frame.head(1), "replace", "load_parquet")
    assert rows(table) == [{"id": 1, "name": "a"}]


def test_a_job_is_listed_and_found_after_it_was_loaded(client: bigquery.Client, table: str) -> None:
    job = client.load_table_from_json([{"a": 1}], table)
    job.result()
    found = client.get_job(job.job_id, location=job.location)
    assert isinstance(found, bigquery.LoadJob)
    assert found.output_rows == 1
    assert found.destination.table_id == table.rpartition(".")[2]
    assert job.job_id in [listed.job_id for listed in client.list_jobs(state_filter="done")]
    assert job.job_id not in [listed.job_id for listed in client.list_jobs(state_filter="running")]
    client.delete_job_metadata(job.job_id, location=job.location)
    assert job.job_id not in [listed.job_id for listed in client.list_jobs()]
