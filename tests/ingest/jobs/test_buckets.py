"""Files of buckets: loaded, extracted and exported, with the official client."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from google.api_core import exceptions
from google.cloud import bigquery

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lode.testing.plugin import LodeServer

    Rows = Callable[[str], list[dict[str, Any]]]


@pytest.fixture
def bucket(server: LodeServer, table: str) -> Path:
    """A bucket of its own: ``gs://b-t1``."""
    root = server._running.engine.settings.buckets
    assert root is not None
    made = root / f"b-{table.rpartition('.')[2]}"
    made.mkdir(parents=True)
    return made


def load(client: bigquery.Client, uris: str | list[str], table: str, **options: Any) -> bigquery.LoadJob:
    job = client.load_table_from_uri(uris, table, job_config=bigquery.LoadJobConfig(**options))
    job.result()
    return job


# -- loads ---------------------------------------------------------------------------------------------


def test_files_of_all_formats_are_loaded(
    client: bigquery.Client, table: str, bucket: Path, rows: Rows
) -> None:
    columns = pa.table({"id": [7], "name": ["seven"]})
    orc.write_table(columns, str(bucket / "x.orc"))
    pq.write_table(columns, bucket / "x.parquet")
    (bucket / "x.csv").write_text("id,name\n7,seven\n")
    (bucket / "x.json").write_bytes(gzip.compress(b'{"id": 7, "name": "seven"}\n'))
    fields = [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}]
    with (bucket / "x.avro").open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "R", "fields": fields}, [{"id": 7, "name": "seven"}])
    for suffix, kind in {"json": "NEWLINE_DELIMITED_JSON"}.items() | {
        (kind, kind.upper()) for kind in ("orc", "parquet", "csv", "avro")
    }:
        own = f"{table}_{suffix}"
        load(client, f"gs://{bucket.name}/x.{suffix}", own, source_format=kind, autodetect=True)
        assert rows(own) == [{"id": 7, "name": "seven"}]


def test_a_wildcard_and_several_addresses_become_one_snapshot(
    client: bigquery.Client, server: LodeServer, table: str, bucket: Path, rows: Rows
) -> None:
    (bucket / "day" / "late").mkdir(parents=True)
    for number, name in enumerate(("day/a-1.csv", "day/a-2.csv", "day/late/a-3.csv", "day/b-4.csv", "c.csv")):
        (bucket / name).write_text(f"id\n{number}\n")
    uris = [f"gs://{bucket.name}/day/a-*.csv", f"gs://{bucket.name}/day/*3.csv", f"gs://{bucket.name}/c.csv"]
    job = load(client, uris, table, autodetect=True, skip_leading_rows=1)
    assert sorted(row["id"] for row in rows(table)) == [0, 1, 2, 4]
    assert job.input_files == 4
    assert len(server.dataset(table).snapshots()) == 1


def test_what_was_extracted_can_be_loaded(
    client: bigquery.Client, table: str, bucket: Path, rows: Rows
) -> None:
    client.query_and_wait(f"CREATE TABLE `{table}` AS SELECT x FROM UNNEST([1, 2, 3]) AS x")
    uri = f"gs://{bucket.name}/deep/x-*.avro"
    config: Any = bigquery.ExtractJobConfig
    client.extract_table(table, uri, job_config=config(destination_format="AVRO")).result()
    load(client, uri, f"{table}_again", source_format="AVRO")
    assert rows(f"{table}_again") == rows(table)


@pytest.mark.parametrize(
    "name", ["none.csv", "none-*.csv", "folder", "linked.csv", "out/secret.csv", "out/*"]
)
def test_a_missing_file_and_a_link_out_of_the_directory_are_not_found(
    client: bigquery.Client, table: str, bucket: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / "secret.csv").write_text("id\n1\n")
    (bucket / "folder").mkdir()
    (bucket / "linked.csv").symlink_to(tmp_path / "secret.csv")
    (bucket / "out").symlink_to(tmp_path)
    with pytest.raises(exceptions.NotFound, match=r"Not found: URI gs://"):
        load(client, f"gs://{bucket.name}/{name}", table, autodetect=True)


@pytest.mark.parametrize(
    "uri",
    [
        "gs://b/../x",
        "gs://../x",
        "file:///etc/passwd",
        "/etc/passwd",
        "gs://b//x",
        "gs://b/*/*",
        "gs://b",
        "",
    ],
)
def test_a_load_of_another_address_is_refused(client: bigquery.Client, table: str, uri: str) -> None:
    with pytest.raises(exceptions.BadRequest, match="Invalid source URI"):
        load(client, [uri], table)


def test_a_file_of_other_columns_ends_the_whole_job(
    client: bigquery.Client, table: str, bucket: Path
) -> None:
    (bucket / "1.json").write_text('{"id": 1}\n')
    (bucket / "2.json").write_text('{"other": 1}\n')
    with pytest.raises(exceptions.BadRequest, match="other"):
        load(
            client,
            f"gs://{bucket.name}/*",
            table,
            source_format="NEWLINE_DELIMITED_JSON",
            schema=[bigquery.SchemaField("id", "INTEGER")],
        )
    with pytest.raises(exceptions.NotFound):
        client.get_table(table)


def test_a_server_without_buckets_refuses_them(lode_server: LodeServer) -> None:
    with lode_server.bigquery_client("p") as own:
        own.create_dataset("d")
        with pytest.raises(exceptions.MethodNotImplemented, match="--buckets"):
            load(own, "gs://bucket/x.csv", "p.d.t")
        with pytest.raises(exceptions.MethodNotImplemented, match="--buckets"):
            own.query_and_wait("EXPORT DATA OPTIONS (uri='gs://bucket/*', format='CSV') AS SELECT 1")


# -- EXPORT DATA ---------------------------------------------------------------------------------------


def test_a_query_is_exported_with_the_options_of_the_statement(client: bigquery.Client, bucket: Path) -> None:
    job = client.query(
        f"EXPORT DATA OPTIONS (uri='gs://{bucket.name}/out/x-*.csv', format='CSV', header=true, "
        "field_delimiter=';') AS SELECT id, 'n' AS name FROM UNNEST([1, 2]) AS id ORDER BY id"
    )
    assert list(job.result()) == []
    assert (bucket / "out/x-000000000000.csv").read_text() == "id;name\n1;n\n2;n\n"
    assert job.statement_type == "EXPORT_DATA"
    statistics = job._properties["statistics"]["query"]
    assert statistics["exportDataStatistics"] == {"fileCount": "1", "rowCount": "2"}
    client.query_and_wait(
        f"EXPORT DATA OPTIONS (uri='gs://{bucket.name}/y-*', format='CSV') AS SELECT 1 AS x"
    )
    assert (bucket / "y-000000000000").read_text() == "1\n"


def test_an_export_replaces_files_only_if_it_may(client: bigquery.Client, bucket: Path) -> None:
    def export(value: int, more: str = "") -> None:
        options = f"uri='gs://{bucket.name}/x-*.json', format='json'{more}"
        client.query_and_wait(f"EXPORT DATA OPTIONS ({options}) AS SELECT {value} AS x")

    export(1)
    with pytest.raises(exceptions.BadRequest, match="has files already"):
        export(2)
    export(3, ", overwrite=true")
    assert (bucket / "x-000000000000.json").read_text() == '{"x":"3"}\n'


def test_a_script_exports_too_and_a_dry_run_does_not(client: bigquery.Client, bucket: Path) -> None:
    export = f"EXPORT DATA OPTIONS (uri='gs://{bucket.name}/*.csv', format='CSV') AS SELECT"
    client.query_and_wait(f"{export} 1", job_config=bigquery.QueryJobConfig(dry_run=True))
    assert list(bucket.iterdir()) == []
    client.query_and_wait(f"DECLARE x INT64 DEFAULT 5; {export} x AS x;")
    assert (bucket / "000000000000.csv").read_text() == "5\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("format='CSV'", "Option 'uri' is missing or empty"),
        ("uri='gs://bb/*', format='ORC'", "'ORC' is not a valid value"),
        ("uri='gs://bb/x', format='CSV'", r"needs a \*"),
        ("uri='gs://bb/../*', format='CSV'", "Invalid destination URI"),
        ("uri='/etc/*', format='CSV'", "Invalid destination URI"),
        ("uri='gs://bb/*', format='CSV', compression='ZIP'", "Invalid value for compression"),
        ("uri='gs://bb/*', format='CSV', color='red'", "Unknown option: color"),
    ],
)
def test_wrong_options_of_an_export_are_refused(client: bigquery.Client, options: str, message: str) -> None:
    with pytest.raises(exceptions.BadRequest, match=message):
        client.query_and_wait(f"EXPORT DATA OPTIONS ({options}) AS SELECT 1")
