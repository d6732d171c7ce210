"""What REST answers about jobs: how long it waits, and which fields clients find."""

from __future__ import annotations

import http.client
import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from google.cloud import bigquery

from lode.ingest.api.rest import jobs as rest_jobs
from lode.ingest.api.rest import uploads as rest_uploads

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.testing.plugin import LodeServer

    Call = Callable[..., tuple[int, Any]]

ROOT = "/bigquery/v2/projects/p"
# Ends only when it is cancelled.
ENDLESS = (
    "SELECT COUNT(*) FROM UNNEST(GENERATE_ARRAY(1, 1000000)) AS a, UNNEST(GENERATE_ARRAY(1, 1000000)) AS b "
    "WHERE MOD(a * b, 7) = 3"
)


@pytest.fixture
def call(server: LodeServer) -> Call:
    """Sends a request; returns the status and the JSON of the answer."""
    address = urlsplit(server.http_url)

    def send(method: str, path: str, body: Any = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=300)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, ROOT + path, text, {"Content-Type": "application/json"})
            response = connection.getresponse()
            found = response.read()
            return response.status, json.loads(found) if found else None
        finally:
            connection.close()

    return send


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """New jobs are waited for until they are done, however slow the machine is."""
    monkeypatch.setattr(rest_jobs, "QUICK_SECONDS", 300.0)
    monkeypatch.setattr(rest_uploads, "QUICK_SECONDS", 300.0)


@pytest.mark.usefixtures("patient")
def test_a_short_job_is_done_when_it_is_answered(call: Call, client: bigquery.Client, table: str) -> None:
    query = {"query": {"query": "SELECT 1 AS x", "useLegacySql": False}}
    _, job = call("POST", "/jobs", {"configuration": query})
    assert job["status"] == {"state": "DONE"}
    assert job["configuration"]["query"]["priority"] == "INTERACTIVE"
    assert {"creationTime", "startTime", "endTime"} <= job["statistics"].keys()
    assert job["statistics"]["query"]["statementType"] == "SELECT"
    loaded = client.load_table_from_json(
        [{"id": 1}], table, job_config=bigquery.LoadJobConfig(autodetect=True)
    )
    assert (loaded.state, loaded.output_rows) == ("DONE", 1)


def test_a_query_answers_with_what_clients_would_ask_for_next(call: Call) -> None:
    body = {"query": "SELECT 1 AS x", "useLegacySql": False, "timeoutMs": 100_000}
    status, answer = call("POST", "/queries", body)
    assert status == 200
    assert {
        "queryId",
        "location",
        "totalBytesBilled",
        "creationTime",
        "startTime",
        "endTime",
    } <= answer.keys()
    assert answer["jobCreationReason"] == {"code": "REQUESTED"}


def test_a_dry_run_has_no_job_id(call: Call, client: bigquery.Client) -> None:
    _, answer = call("POST", "/queries", {"query": "SELECT 1 AS x", "useLegacySql": False, "dryRun": True})
    assert answer["jobReference"] == {"projectId": "p", "location": "US"}
    assert "totalRows" not in answer
    assert answer["schema"]["fields"][0]["name"] == "x"
    dry = bigquery.QueryJobConfig(dry_run=True)
    job = client.query("SELECT 1 AS x", job_config=dry)
    assert (job.state, job.schema[0].name) == ("DONE", "x")  # type: ignore[index]


def test_a_deleted_job_answers_an_empty_object(call: Call, client: bigquery.Client) -> None:
    job = client.query("SELECT 1 AS x")
    job.result()
    assert call("DELETE", f"/jobs/{job.job_id}/delete?location=US") == (200, {})


def test_an_empty_table_has_no_rows_field(call: Call, client: bigquery.Client, table: str) -> None:
    client.create_table(bigquery.Table(table, [bigquery.SchemaField("id", "INTEGER")]))
    _, answer = call("GET", f"/datasets/d/tables/{table.rpartition('.')[2]}/data")
    assert answer["totalRows"] == "0"
    assert "rows" not in answer
    assert list(client.list_rows(table)) == []


def test_calls_that_wait_for_a_job_do_not_delay_others(call: Call, client: bigquery.Client) -> None:
    job = client.query(ENDLESS)
    path = f"/queries/{job.job_id}?location=US&timeoutMs=200000"
    # More than the server has threads for REST.
    with ThreadPoolExecutor(60) as pool:
        waiting = [pool.submit(call, "GET", path) for _ in range(60)]
        assert call("GET", "/datasets")[0] == 200
        assert not any(each.done() for each in waiting)
        client.cancel_job(job.job_id, location="US")
        assert {each.result()[0] for each in waiting} == {499}
