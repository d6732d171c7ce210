"""Copy jobs and extract jobs, with the official client."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow.parquet as pq
import pytest
from google.api_core import exceptions
from google.cloud import bigquery

from lode.ingest.jobs import buckets

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lode.testing.plugin import LodeServer

    Rows = Callable[[str], list[dict[str, Any]]]

Field = bigquery.SchemaField
ID = [Field("id", "INTEGER")]


def fill(client: bigquery.Client, table: str, *ids: int, schema: Any = ID, **options: Any) -> None:
    config = bigquery.LoadJobConfig(schema=schema, **options)
    client.load_table_from_json([{"id": id} for id in ids], table, job_config=config).result()


def copy(client: bigquery.Client, sources: Any, to: str, **options: Any) -> bigquery.CopyJob:
    job = client.copy_table(sources, to, job_config=bigquery.CopyJobConfig(**options))
    job.result()
    return job


# -- copies --------------------------------------------------------------------------------------------


def test_a_table_is_copied_with_its_definition(client: bigquery.Client, table: str, rows: Rows) -> None:
    by_day = bigquery.TimePartitioning(field="on")
    schema = [Field("id", "INTEGER", "REQUIRED"), Field("on", "DATE")]
    fill(client, table, 1, 2, schema=schema, time_partitioning=by_day, clustering_fields=["id"])
    job = copy(client, table, f"{table}_copy")
    made = client.get_table(f"{table}_copy")
    assert (made.schema, made.time_partitioning, made.clustering_fields) == (schema, by_day, ["id"])
    assert rows(f"{table}_copy") == rows(table)
    assert job._properties["statistics"]["copy"]["copiedRows"] == "2"


def test_several_tables_are_copied_in_one_snapshot(
    client: bigquery.Client, server: LodeServer, table: str, rows: Rows
) -> None:
    fill(client, f"{table}_a", 1)
    fill(client, f"{table}_b", 2)
    copy(client, [f"{table}_a", f"{table}_b"], table)
    assert [row["id"] for row in rows(table)] == [1, 2]
    assert len(server.dataset(table).snapshots()) == 1


def test_a_copy_appends_replaces_or_needs_an_empty_table(
    client: bigquery.Client, table: str, rows: Rows
) -> None:
    fill(client, table, 1)
    fill(client, f"{table}_to", 2)
    with pytest.raises(exceptions.Conflict, match="Already Exists: Table"):
        copy(client, table, f"{table}_to")
    copy(client, table, f"{table}_to", write_disposition="WRITE_APPEND")
    assert sorted(row["id"] for row in rows(f"{table}_to")) == [1, 2]
    copy(client, table, f"{table}_to", write_disposition="WRITE_TRUNCATE")
    assert rows(f"{table}_to") == [{"id": 1}]


def test_a_copy_of_another_schema_is_refused_or_replaces_it(client: bigquery.Client, table: str) -> None:
    fill(client, table, 1)
    client.create_table(bigquery.Table(f"{table}_to", [Field("name", "STRING")]))
    with pytest.raises(exceptions.BadRequest, match="Provided Schema does not match Table"):
        copy(client, table, f"{table}_to", write_disposition="WRITE_APPEND")
    copy(client, table, f"{table}_to", write_disposition="WRITE_TRUNCATE")
    assert client.get_table(f"{table}_to").schema == ID
    with pytest.raises(exceptions.NotFound):
        copy(client, f"{table}_nowhere", table)


def test_a_moment_of_the_past_is_copied(
    client: bigquery.Client, server: LodeServer, table: str, rows: Rows
) -> None:
    fill(client, table, 1)
    moment = server.dataset(table).snapshots()[0].created_at
    fill(client, table, 2, write_disposition="WRITE_TRUNCATE")
    copy(client, f"{table}@{int(moment.timestamp() * 1000) + 1}", f"{table}_then")
    assert rows(f"{table}_then") == [{"id": 1}]
    for wrong in ("1", "x", "9" * 30):
        with pytest.raises(exceptions.BadRequest, match="Invalid snapshot time"):
            copy(client, f"{table}@{wrong}", f"{table}_wrong")


def test_partitions_of_arrival_are_copied(client: bigquery.Client, server: LodeServer, table: str) -> None:
    daily = bigquery.TimePartitioning(type_="DAY")
    fill(client, f"{table}$20260102", 1, time_partitioning=daily)
    fill(client, f"{table}$20260103", 2)
    copy(client, table, f"{table}_all")
    copy(client, f"{table}$20260103", f"{table}_one")
    copy(client, f"{table}$20260103", f"{table}_all$20260102", write_disposition="WRITE_TRUNCATE")

    def found(name: str) -> list[tuple[str, int]]:
        content = server.dataset(name).scan().read_all().to_pylist()
        return sorted((row["_PARTITIONID"], row["id"]) for row in content)

    assert found(f"{table}_one") == [("20260103", 2)]
    assert found(f"{table}_all") == [("20260102", 2), ("20260103", 2)]


# -- extracts ------------------------------------------------------------------------------------------

SCHEMA = [
    Field("id", "INTEGER"),
    Field("text", "STRING"),
    Field("at", "TIMESTAMP"),
    Field("day", "DATE"),
    Field("clock", "TIME"),
    Field("civil", "DATETIME"),
    Field("price", "NUMERIC"),
    Field("real", "FLOAT"),
    Field("ok", "BOOLEAN"),
    Field("raw", "BYTES"),
]
ROW: dict[str, Any] = {
    "id": 7,
    "text": 'a "b",\nc',
    "at": "2026-01-02 03:04:05.5 UTC",
    "day": "2026-01-02",
    "clock": "03:04:05",
    "civil": "2026-01-02T03:04:05",
    "price": "1.25",
    "real": 0.5,
    "ok": True,
    "raw": "AP8=",
}


@pytest.fixture
def out(server: LodeServer) -> Path:
    root = server._running.engine.settings.buckets
    assert root is not None
    return root


def extracted(
    client: bigquery.Client, out: Path, table: str, name: str, **options: Any
) -> tuple[Path, bigquery.ExtractJob]:
    uri = f"gs://bucket/{table}/{name}"
    job = client.extract_table(table, uri, job_config=bigquery.ExtractJobConfig(**options))  # type: ignore[no-untyped-call]
    job.result()
    return out / "bucket" / table / name, job


@pytest.fixture
def filled(client: bigquery.Client, table: str) -> str:
    config = bigquery.LoadJobConfig(schema=SCHEMA)
    client.load_table_from_json([ROW, {"id": 8}], table, job_config=config).result()
    return table


def test_a_table_is_extracted_as_csv_and_loaded_again(
    client: bigquery.Client, out: Path, filled: str, rows: Rows
) -> None:
    path, job = extracted(client, out, filled, "t.csv")
    assert path.read_text().startswith("id,text,at,day,clock,civil,price,real,ok,raw\n7,")
    assert "2026-01-02 03:04:05.500000 UTC,2026-01-02,03:04:05,2026-01-02T03:04:05,1.25,0.5,true,AP8=" in (
        path.read_text()
    )
    assert job.destination_uri_file_counts == [1]
    config = bigquery.LoadJobConfig(
        schema=SCHEMA, source_format="CSV", skip_leading_rows=1, allow_quoted_newlines=True
    )
    with path.open("rb") as file:
        client.load_table_from_file(file, f"{filled}_back", job_config=config).result()
    assert rows(f"{filled}_back") == rows(filled)


def test_a_table_is_extracted_as_json_and_loaded_again(
    client: bigquery.Client, out: Path, filled: str, rows: Rows
) -> None:
    path, _ = extracted(
        client, out, filled, "t.json.gz", destination_format="NEWLINE_DELIMITED_JSON", compression="GZIP"
    )
    first, second = map(json.loads, gzip.decompress(path.read_bytes()).splitlines())
    assert first == ROW | {"id": "7", "at": "2026-01-02 03:04:05.500000 UTC"}
    assert second == {"id": "8"}
    config = bigquery.LoadJobConfig(schema=SCHEMA, source_format="NEWLINE_DELIMITED_JSON")
    with path.open("rb") as file:
        client.load_table_from_file(file, f"{filled}_back", job_config=config).result()
    assert rows(f"{filled}_back") == rows(filled)


@pytest.mark.parametrize("logical", [True, False])
def test_a_table_is_extracted_as_avro_and_loaded_again(
    client: bigquery.Client, out: Path, filled: str, rows: Rows, logical: bool
) -> None:
    path, _ = extracted(
        client,
        out,
        filled,
        f"{logical}.avro",
        destination_format="AVRO",
        compression="DEFLATE",
        use_avro_logical_types=logical,
    )
    with path.open("rb") as file:
        found = next(iter(fastavro.reader(file)))
    assert isinstance(found, dict)
    assert found["at"] == datetime(2026, 1, 2, 3, 4, 5, 500000, tzinfo=UTC)
    assert found["day"] == (date(2026, 1, 2) if logical else "2026-01-02")
    assert found["clock"] == (time(3, 4, 5) if logical else "03:04:05")
    assert found["price"] == Decimal("1.25")
    config = bigquery.LoadJobConfig(schema=SCHEMA, source_format="AVRO", use_avro_logical_types=True)
    with path.open("rb") as file:
        client.load_table_from_file(file, f"{filled}_{logical}", job_config=config).result()
    assert rows(f"{filled}_{logical}") == rows(filled)


def test_a_table_is_extracted_as_parquet(client: bigquery.Client, out: Path, filled: str, rows: Rows) -> None:
    path, _ = extracted(client, out, filled, "t.parquet", destination_format="PARQUET", compression="SNAPPY")
    assert pq.read_table(path).to_pylist() == rows(filled)


def test_nested_columns_are_not_csv(client: bigquery.Client, out: Path, table: str) -> None:
    nested = [Field("tags", "STRING", "REPEATED")]
    client.create_table(bigquery.Table(table, nested))
    with pytest.raises(exceptions.BadRequest, match="nested schema"):
        extracted(client, out, table, "t.csv")
    extracted(client, out, table, "t.json", destination_format="NEWLINE_DELIMITED_JSON")
    assert [path.name for path in (out / "bucket" / table).iterdir()] == ["t.json"]


def test_a_large_table_is_extracted_to_several_files(
    client: bigquery.Client, out: Path, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buckets, "MAX_FILE_BYTES", 8)
    for id in range(3):
        fill(client, table, id)
    with pytest.raises(exceptions.BadRequest, match=r"too many for one file"):
        extracted(client, out, table, "t.csv")
    _, job = extracted(client, out, table, "t-*.csv", print_header=False)
    assert job.destination_uri_file_counts == [3]
    names = [f"t-{number:012d}.csv" for number in range(3)]
    assert sorted(path.name for path in (out / "bucket" / table).iterdir()) == names
    texts = [(out / "bucket" / table / name).read_text() for name in names]
    assert sorted(texts) == ["0\n", "1\n", "2\n"]


@pytest.mark.parametrize(
    "uri",
    [
        "gs://bucket/../../x.csv",
        "gs://../x.csv",
        "gs://bucket/",
        "gs://bucket",
        "gs://bucket//x",
        "gs://bucket/a/./b",
        "gs://bucket/a\\..\\b",
        "gs://bucket/a\x00b",
        "gs://bucket/*/x",
        "gs://bucket/a*b*",
        "gs://bucket/" + "x" * 300,
        "file:///etc/passwd",
        "/etc/passwd",
        "",
    ],
)
def test_an_address_outside_of_the_directory_is_refused(
    client: bigquery.Client, filled: str, uri: str
) -> None:
    with pytest.raises(exceptions.BadRequest):
        client.extract_table(filled, uri).result()


def test_a_link_does_not_lead_out_of_the_directory(
    client: bigquery.Client, out: Path, filled: str, tmp_path: Path
) -> None:
    folder = out / "linked" / filled
    folder.mkdir(parents=True)
    (folder / "out").symlink_to(tmp_path)
    (folder / "file.csv").symlink_to(tmp_path / "file.csv")
    for name in ("out/x.csv", "file.csv", "out"):
        with pytest.raises(exceptions.BadRequest):
            client.extract_table(filled, f"gs://linked/{filled}/{name}").result()
    assert list(tmp_path.iterdir()) == []


def test_an_extract_needs_a_directory(lode_server: LodeServer) -> None:
    with lode_server.bigquery_client("p") as own:
        own.create_dataset("d")
        fill(own, "p.d.t", 1)
        with pytest.raises(exceptions.MethodNotImplemented, match="--buckets"):
            own.extract_table("p.d.t", "gs://bucket/t.csv").result()
