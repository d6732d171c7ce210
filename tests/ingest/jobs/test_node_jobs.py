"""Jobs of the official Node client, with a server process."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.request import Request, urlopen

import pytest

from support.ingest.node_client import run_node
from support.ingest.processes import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("node") / "lake") as process:
        body = json.dumps({"datasetReference": {"projectId": "p", "datasetId": "d"}}).encode()
        headers = {"content-type": "application/json"}
        urlopen(Request(f"{process.http_url}/bigquery/v2/projects/p/datasets", body, headers)).close()
        yield process


@pytest.fixture(scope="module")
def streamed(server: ServerProcess) -> list[dict[str, object]]:
    found: list[dict[str, object]] = run_node("stream", server.http_url, script="jobs.mjs")
    return found


def test_a_csv_file_is_loaded_with_columns_that_are_found_in_it(
    server: ServerProcess, tmp_path: Path
) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("id,name\n1,one\n2,two\n")
    assert run_node("load", server.http_url, str(file), script="jobs.mjs") == {
        "state": "DONE",
        "outputRows": "2",
        "rows": [{"id": 1, "name": "one"}, {"id": 2, "name": "two"}],
    }


def test_rows_that_are_streamed_into_a_load_job_are_loaded(streamed: list[dict[str, object]]) -> None:
    assert streamed == [{"id": number, "name": f"row {number}"} for number in range(3)]


@pytest.mark.usefixtures("streamed")
def test_a_table_is_copied(server: ServerProcess) -> None:
    assert run_node("copy", server.http_url, script="jobs.mjs") == {"state": "DONE", "rows": 3}


def test_a_file_of_another_format_is_refused_with_the_reason(server: ServerProcess, tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    file.write_text("this is no Parquet\n")
    found = run_node("refused", server.http_url, str(file), script="jobs.mjs")
    assert found["reason"] == "invalid"
    assert "Parquet" in found["message"]


@pytest.mark.usefixtures("streamed")
def test_a_query_with_a_parameter_is_answered(server: ServerProcess) -> None:
    assert run_node("query", server.http_url, script="jobs.mjs") == {
        "rows": [{"name": "row 2", "id": 2}, {"name": "row 1", "id": 1}],
        "dryRun": "SELECT",
    }
