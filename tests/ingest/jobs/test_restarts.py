"""Jobs over restarts: a job id loads its rows once, whenever the server ends."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from google.api_core import exceptions
from google.auth.credentials import AnonymousCredentials
from google.cloud import bigquery

from lode.ingest.catalog.catalog import Catalog
from lode.ingest.names import TableName
from lode.testing.plugin import LodeServer
from support.ingest.processes import ServerProcess

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 30_000
DATA = b"".join(b'{"id": %d}\n' % number for number in range(ROWS))


def load(client: bigquery.Client, table: str, disposition: str = "WRITE_APPEND") -> bigquery.LoadJob:
    config = bigquery.LoadJobConfig(
        source_format="NEWLINE_DELIMITED_JSON",
        schema=[bigquery.SchemaField("id", "INTEGER")],
        write_disposition=disposition,
    )
    file = io.BytesIO(DATA)
    return client.load_table_from_file(file, table, size=len(DATA), job_id="once", job_config=config)


def client_of(url: str) -> bigquery.Client:
    return bigquery.Client(
        project="p",
        credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call]
        client_options={"api_endpoint": url},
    )


def test_a_load_that_was_killed_is_loaded_once_by_the_same_job_id(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    with ServerProcess(root) as server:
        with client_of(server.http_url) as client:
            client.create_dataset("d")
            load(client, "p.d.t")  # returns when the job has begun
        server.kill()
        server.start()
        with client_of(server.http_url) as client:
            try:
                job = load(client, "p.d.t")
            except exceptions.Conflict:  # it was done before the server was killed
                job = client.get_job("once")
            job.result()
            assert job.output_rows == ROWS
    catalog = Catalog(root)
    # Of the second generation, if the first attempt had reserved its name.
    table = catalog.table(TableName("p", "d", "t"))
    ids = table.open(catalog.store).scan().read_all()["id"].to_pylist()
    assert len(ids) == ROWS
    assert set(ids) == set(range(ROWS))


@pytest.mark.parametrize("disposition", ["WRITE_APPEND", "WRITE_TRUNCATE", "WRITE_EMPTY"])
def test_a_commit_whose_job_is_forgotten_is_found_by_its_key(tmp_path: Path, disposition: str) -> None:
    first = LodeServer(tmp_path / "lake")
    with first.bigquery_client("p") as client:
        client.create_dataset("d")
        load(client, "p.d.t", disposition).result()
        # Rows that another truncation or check would meet.
        assert client.insert_rows_json("p.d.t", [{"id": -1}]) == []
    first.stop()
    # As if the server had ended between the commit and the record of the job.
    for record in (tmp_path / "lake" / "ingest-state" / "jobs").iterdir():
        record.unlink()
    second = LodeServer(tmp_path / "lake")
    with second.bigquery_client("p") as client:
        job = load(client, "p.d.t", disposition)
        job.result()
        assert job.output_rows == ROWS
    assert second.rows("p.d.t").num_rows == ROWS + 1
    assert len(second.dataset("p.d.t").snapshots()) == 2
    second.stop()


def test_a_finished_job_is_known_after_a_restart(tmp_path: Path) -> None:
    first = LodeServer(tmp_path / "lake")
    with first.bigquery_client("p") as client:
        client.create_dataset("d")
        done = load(client, "p.d.t")
        done.result()
    first.stop()
    second = LodeServer(tmp_path / "lake")
    with second.bigquery_client("p") as client:
        assert client.get_job("once")._properties["statistics"] == done._properties["statistics"]
        with pytest.raises(exceptions.Conflict, match=r"Already Exists: Job p:US\.once"):
            load(client, "p.d.t")
    second.stop()


def test_a_table_that_was_not_replaced_yet_is_replaced_by_the_same_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = LodeServer(tmp_path / "lake")
    catalog = server._running.engine.catalog
    with server.bigquery_client("p") as client:
        client.create_dataset("d")
        client.create_table(bigquery.Table("p.d.t", [bigquery.SchemaField("old", "STRING")]))
        with monkeypatch.context() as patch:
            # The server ends after the commit, before the new table takes its place.
            patch.setattr(catalog, "replace_table", lambda *_, **__: 1 / 0)
            with pytest.raises(exceptions.GoogleAPICallError):
                load(client, "p.d.t", "WRITE_TRUNCATE").result()
        client.delete_job_metadata("once", location="US")
        job = load(client, "p.d.t", "WRITE_TRUNCATE")
        job.result()
        assert [field.name for field in client.get_table("p.d.t").schema] == ["id"]
        assert client.get_table("p.d.t").num_rows == job.output_rows == ROWS
    server.stop()
