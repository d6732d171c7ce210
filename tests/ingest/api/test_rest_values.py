"""Wrong values in every property of every body: no request that a client can form is answered with 500.

A job that fails has a reason that tells clients not to send it again.
"""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from ingest.api.test_rest_fuzz import VALUES, changed, changes
from ingest.jobs.test_uploads import Http, multipart, send_multipart
from lode.testing.plugin import LodeServer
from support.ingest.rest_bodies import BODIES, DATASET, ROOT, TABLE, UPLOAD

if TYPE_CHECKING:
    from collections.abc import Iterator

MORE_VALUES: list[Any] = [
    *VALUES,
    False,
    "SELECT",
    "a" * 70_000,
    "-5",
    "1.5",
    "NaN",
    "US",
    "20240101",
    [1],
    [{}],
    ["a", "a"],
    [["a"]],
    {"a": 1},
    {"a": {"a": {}}},
]
FIELDS = [
    {"name": "id", "type": "INT64"},
    {"name": "s", "type": "STRING"},
    {"name": "r", "type": "STRUCT", "fields": [{"name": "n", "type": "NUMERIC"}]},
    {"name": "j", "type": "JSON"},
    {"name": "l", "type": "INT64", "mode": "REPEATED"},
]
_RETRIED = ("internalError", "backendError")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LodeServer]:
    directory = tmp_path_factory.mktemp("values")
    (directory / "buckets" / "bucket").mkdir(parents=True)
    (directory / "buckets" / "bucket" / "a.csv").write_text("1\n2\n")
    running = LodeServer(directory / "lake", store_options={"durable": False}, buckets=directory / "buckets")
    yield running
    running.stop()


@pytest.fixture(scope="module")
def web(server: LodeServer) -> Http:
    made = Http(server)
    post(made, "POST", f"{ROOT}/datasets", {"datasetReference": {"datasetId": "d"}})
    post(
        made, "POST", f"{DATASET}/tables", {"tableReference": {"tableId": "t"}, "schema": {"fields": FIELDS}}
    )
    return made


def post(web: Http, method: str, path: str, body: Any) -> tuple[int, Any]:
    status, _, answer = web.send(method, path, json.dumps(body), {"content-type": "application/json"})
    return status, answer


def check(status: int, answer: Any, about: object) -> None:
    assert status < 500 or status == 501, (about, answer)
    result = (answer or {}).get("status")
    if isinstance(result, dict) and "errorResult" in result:
        assert result["errorResult"]["reason"] not in _RETRIED, (about, answer)


def wrong(body: dict[str, Any]) -> list[tuple[tuple[Any, ...], Any]]:
    return [(path, value) for path in changes(body) for value in MORE_VALUES]


@pytest.mark.parametrize("count", [40, pytest.param(2_000, marks=pytest.mark.soak)])
@pytest.mark.parametrize("number", range(len(BODIES)))
def test_a_wrong_value_in_a_body_is_refused_for_good(web: Http, number: int, count: int) -> None:
    method, path, body = BODIES[number]
    chance, known = random.Random(number), wrong(body)
    for at, value in chance.sample(known, min(count, len(known))):
        status, answer = post(web, method, path, changed(body, at, value))
        check(status, answer, (method, path, at, value))
    assert web.send("GET", TABLE)[0] == 200


@pytest.mark.parametrize("count", [40, pytest.param(2_000, marks=pytest.mark.soak)])
def test_a_wrong_value_in_the_configuration_of_an_upload_is_refused_for_good(web: Http, count: int) -> None:
    chance, known = random.Random(1), wrong(UPLOAD)
    for at, value in chance.sample(known, min(count, len(known))):
        status, _, answer = send_multipart(web, multipart(changed(UPLOAD, at, value), b"1\n2\n"))
        check(status, answer, (at, value))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("queryParameters",), [{"parameterType": {"type": "INT64"}, "parameterValue": "x"}]),
        (("queryParameters", 1, "parameterValue", "arrayValues"), [None]),
        (("queryParameters", 1, "parameterType", "arrayType"), "x"),
        (("queryParameters", 2, "parameterType", "structTypes"), 1),
        (("queryParameters", 2, "parameterType", "structTypes", 0, "name"), {}),
        (("queryParameters", 2, "parameterValue", "structValues"), "x"),
        (("queryParameters", 0, "parameterType"), {"type": "BYTES"}),
        (("defaultDataset",), "d"),
        (("defaultDataset", "datasetId"), 1),
        (("maximumBytesBilled",), float("inf")),
        (("connectionProperties",), True),
        (("query",), "\ud800"),
        (("labels",), "x"),
        (("jobTimeoutMs",), 10**400),
        (("requestId",), "\ud800"),
    ],
)
def test_a_query_with_a_value_of_another_type_is_a_bad_request(
    web: Http, path: tuple[Any, ...], value: Any
) -> None:
    body = {**BODIES[-1][2], "requestId": "", "timeoutMs": 60_000}  # a process has to start
    status, answer = post(web, "POST", f"{ROOT}/queries", changed(body, path, value))
    assert status == 400, answer


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("query", {"query": "SELECT 1", "destinationTable": "x"}),
        ("query", {"query": "SELECT 1", "destinationTable": {"projectId": "p"}}),
        ("query", {"query": "SELECT 1", "destinationTable": {"datasetId": "d", "tableId": 1}}),
        ("query", {"query": "SELECT 1", "queryParameters": [{"name": "a"}]}),
        ("extract", {"sourceTable": {"datasetId": "d", "tableId": "t"}, "compression": [1]}),
        (
            "extract",
            {"sourceTable": {"datasetId": "d", "tableId": "t"}, "destinationFormat": {}, "compression": {}},
        ),
    ],
)
def test_a_job_with_a_value_of_another_type_is_refused_before_it_exists(
    web: Http, kind: str, settings: dict[str, Any]
) -> None:
    body = {"jobReference": {"jobId": "refused"}, "configuration": {kind: settings}}
    assert post(web, "POST", f"{ROOT}/jobs", body)[0] == 400
    assert web.send("GET", f"{ROOT}/jobs/refused")[0] == 404


def test_a_routine_with_a_type_that_is_a_list_is_a_bad_request(web: Http) -> None:
    body = {
        "routineReference": {"routineId": "f"},
        "definitionBody": "1",
        "returnType": {"typeKind": ["INT64"]},
    }
    assert post(web, "POST", f"{DATASET}/routines", body)[0] == 400
