"""REST v2: every error is Google's JSON with a message of one sentence."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest
from google.api_core import exceptions
from google.cloud.bigquery import SchemaField, Table
from hypothesis import given, settings
from hypothesis import strategies as st

import lode
from lode.store import Fault, FaultStore, MemoryStore
from support.ingest.rest_served import RestServed

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = "/bigquery/v2/projects/p"
TABLES = ROOT + "/datasets/d/tables"
LIMIT = 1 << 20


@pytest.fixture(scope="module")
def served() -> Iterator[RestServed]:
    with RestServed(max_body_bytes=LIMIT) as served:
        client = served.client()
        client.create_dataset("d")
        client.create_table(Table("p.d.t", [SchemaField("id", "INTEGER"), SchemaField("j", "JSON")]))
        yield served


def refused(answer: tuple[int, Any], code: int, reason: str) -> str:
    """Check the JSON of an error, and return its message."""
    status, body = answer
    error = body["error"]
    assert (status, error["code"], error["errors"][0]["reason"]) == (code, code, reason)
    assert error["errors"][0]["domain"] == "global"
    assert error["message"] == error["errors"][0]["message"]
    assert error["status"].isupper()
    message = error["message"]
    assert isinstance(message, str)
    assert "Traceback" not in message
    return message


def test_an_error_has_the_shape_that_clients_read(served: RestServed) -> None:
    assert served.call("GET", TABLES + "/nowhere") == (
        404,
        {
            "error": {
                "code": 404,
                "message": "Not found: Table p:d.nowhere",
                "errors": [
                    {"message": "Not found: Table p:d.nowhere", "domain": "global", "reason": "notFound"}
                ],
                "status": "NOT_FOUND",
            }
        },
    )


@pytest.mark.parametrize("prefix", ["/bigquery/v2", ""])
def test_every_path_works_with_and_without_the_prefix(served: RestServed, prefix: str) -> None:
    status, body = served.call("GET", f"{prefix}/projects/p/datasets/d/tables/t")
    assert (status, body["id"]) == (200, "p:d.t")


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"\xff\xfe",
        b"[]",
        b"1",
        b'{"a": }',
        b"[" * 100_000,
        b'{"rows": ' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'{"tableReference": "t"}',
        b'{"tableReference": {"tableId": 1}}',
        b'{"tableReference": {"tableId": "a.b"}}',
        b'{"tableReference": {"tableId": "\\ud800"}}',
        b'{"tableReference": {"projectId": "other", "tableId": "x"}}',
        b'{"tableReference": {"tableId": "x"}, "schema": []}',
        b'{"tableReference": {"tableId": "x"}, "schema": {"fields": [{"name": "a", "type": "NOPE"}]}}',
        b'{"tableReference": {"tableId": "x"}, "schema": {"fields": [{"name": "_FILE_X", "type": "DATE"}]}}',
        b'{"tableReference": {"tableId": "x"}, "labels": []}',
        b'{"tableReference": {"tableId": "x"}, "labels": {"a": 1}}',
        b'{"tableReference": {"tableId": "x"}, "description": "\\ud800"}',
        b'{"tableReference": {"tableId": "x"}, "clustering": {"fields": "a"}}',
        b'{"tableReference": {"tableId": "x"}, "clustering": {"fields": [], "x": 1e999}}',
        b'{"tableReference": {"tableId": "x"}, "timePartitioning": {"field": "\\ud800"}}',
        b'{"tableReference": {"tableId": "x"}, "\\ud800": 1}',
        b'{"tableReference": {"tableId": "x"}, "schema": {"fields": [{"description": "\\ud800"}]}}',
        b'{"tableReference": {"tableId": "x"}, "nonsense": 1}',
        b'{"tableReference": {"tableId": "x"}, "timePartitioning": 1}',
        b'{"tableReference": {"tableId": "x"}, "timePartitioning": {"type": "WEEK"}}',
        b'{"tableReference": {"tableId": "x"}, "rangePartitioning": {"field": "a", "range": {"start": ""}}}',
    ],
)
def test_an_invalid_body_is_refused(served: RestServed, body: bytes) -> None:
    refused(served.call("POST", TABLES, body), 400, "invalid")


@pytest.mark.parametrize(
    "body",
    [
        {"materializedView": {"query": "SELECT 1"}},
        {"externalDataConfiguration": {"sourceUris": ["gs://a"]}},
        {"encryptionConfiguration": {"kmsKeyName": "k"}},
        {"type": "VIEW"},
    ],
)
def test_an_unsupported_property_is_refused_with_a_reason(served: RestServed, body: dict[str, Any]) -> None:
    message = refused(
        served.call("POST", TABLES, {"tableReference": {"tableId": "x"}} | body), 501, "notImplemented"
    )
    assert "not supported: " in message


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", ROOT + "/queries", {"query": "SELECT 1"}),
        ("POST", ROOT + "/jobs", {"configuration": {"query": {"query": "SELECT 1"}}}),
        ("POST", ROOT + "/jobs", {"configuration": {"load": {}}}),
        ("POST", TABLES + "/t:getIamPolicy", {}),
        ("PATCH", ROOT + "/datasets/d/models/m", {}),
        ("POST", ROOT + "/datasets/d:undelete", {}),
    ],
)
def test_unsupported_methods_are_not_implemented(
    served: RestServed, method: str, path: str, body: Any
) -> None:
    refused(served.call(method, path, body), 501, "notImplemented")


def test_the_error_of_a_query_without_sql_names_the_extra(served: RestServed) -> None:
    client = served.client()
    with pytest.raises(exceptions.MethodNotImplemented, match=r"pip install 'lode-store\[server,sql\]'"):
        client.query("SELECT 1")
    with pytest.raises(exceptions.MethodNotImplemented, match=r"pip install 'lode-store\[server,sql\]'"):
        client.query_and_wait("SELECT 1")
    assert list(client.list_jobs()) == []
    with pytest.raises(exceptions.NotFound, match=r"Not found: Job p:US\.some-job"):
        client.get_job("some-job")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/bigquery/v2/nothing"),
        ("DELETE", ROOT + "/datasets"),
        ("PATCH", "/projects"),
        ("GET", "/discovery/v1/apis/bigquery/v2/rest"),
        ("GET", TABLES + "/t/nothing"),
        ("GET", ROOT + "/datasets/nowhere/tables"),
        ("GET", ROOT + "/jobs/j"),
    ],
)
def test_unknown_paths_are_not_found(served: RestServed, method: str, path: str) -> None:
    status, body = served.call(method, path)
    assert status in (404, 405)
    assert body["error"]["errors"][0]["reason"] == "notFound"


@pytest.mark.parametrize(
    "query",
    [
        "?maxResults=-1",
        "?maxResults=x",
        "?pageToken=%00",
        "?pageToken=abc",
        "?pageToken=MTo6",
        "?pageToken=Mjo6MA==",
        "?startIndex=99999999999999999999",
        "?selectedFields=nope",
        "?formatOptions.timestampOutputFormat=NOPE",
    ],
)
def test_invalid_parameters_are_refused(served: RestServed, query: str) -> None:
    refused(served.call("GET", TABLES + "/t/data" + query), 400, "invalid")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"rows": []},
        {"rows": {}},
        {"rows": [1]},
        {"rows": [{"insertId": "a"}]},
        {"rows": [{"insertId": [], "json": {}}]},
        {"rows": [{"insertId": "a" * 129, "json": {}}]},
    ],
)
def test_inserting_no_rows_or_invalid_rows_is_refused(served: RestServed, body: Any) -> None:
    refused(served.call("POST", TABLES + "/t/insertAll", body), 400, "invalid")


def test_a_body_may_be_compressed(served: RestServed) -> None:
    body = gzip.compress(json.dumps({"rows": [{"json": {"id": 41}}]}).encode())
    status, answer = served.call("POST", TABLES + "/t/insertAll", body, {"Content-Encoding": "gzip"})
    assert (status, answer) == (200, {"kind": "bigquery#tableDataInsertAllResponse"})
    assert 41 in [row["id"] for row in served.client().list_rows("p.d.t")]


def test_an_invalid_compressed_body_is_refused(served: RestServed) -> None:
    path, packed = TABLES + "/t/insertAll", {"Content-Encoding": "gzip"}
    refused(served.call("POST", path, b"{}", packed), 400, "invalid")
    refused(served.call("POST", path, gzip.compress(b"{}" * 100)[:-9], packed), 400, "invalid")
    refused(served.call("POST", path, gzip.compress(b"{}") * 2, packed), 400, "invalid")
    refused(served.call("POST", path, b"{}", {"Content-Encoding": "br"}), 400, "invalid")


def test_a_body_above_the_limit_is_refused_before_or_after_decompression(served: RestServed) -> None:
    path = TABLES + "/t/insertAll"
    refused(served.call("POST", path, b" " * (LIMIT + 1)), 413, "requestTooLarge")
    bomb = gzip.compress(b" " * (64 * LIMIT))
    assert len(bomb) < LIMIT
    refused(served.call("POST", path, bomb, {"Content-Encoding": "gzip"}), 413, "requestTooLarge")


def test_an_etag_of_another_state_is_refused(served: RestServed) -> None:
    path = TABLES + "/t"
    refused(served.call("PATCH", path, {}, {"If-Match": "another"}), 412, "conditionNotMet")
    _, table = served.call("GET", path)
    status, _ = served.call("PATCH", path, {"description": "x"}, {"If-Match": f'"{table["etag"]}"'})
    assert status == 200
    assert served.call("PATCH", path, {"description": None}, {"If-Match": "*"})[0] == 200


def test_an_update_replaces_and_a_patch_merges(served: RestServed) -> None:
    served.client().create_table(Table("p.d.put", [SchemaField("id", "INTEGER")]))
    path = TABLES + "/put"
    served.call("PATCH", path, {"description": "x", "labels": {"a": "1", "b": "2"}})
    _, patched = served.call("PATCH", path, {"labels": {"a": None, "c": "3"}})
    assert (patched["description"], patched["labels"]) == ("x", {"b": "2", "c": "3"})
    _, updated = served.call("PUT", path, {"labels": {"d": "4"}})
    assert "description" not in updated
    assert updated["labels"] == {"d": "4"}
    assert updated["schema"]["fields"] == [{"name": "id", "type": "INTEGER", "mode": "NULLABLE"}]


def test_a_store_failure_is_a_retryable_error() -> None:
    store = FaultStore(MemoryStore())
    with RestServed(store) as served:
        served.client().create_dataset("d")
        store.add(Fault("get", error=lode.StoreError("the disk is on fire")))
        message = refused(served.call("GET", ROOT + "/datasets/d"), 503, "backendError")
        assert "the disk is on fire" in message
        assert served.call("GET", ROOT + "/datasets/d")[0] == 200


def test_an_internal_error_has_a_general_message() -> None:
    with RestServed() as served:
        served.client().create_dataset("d")
        served.client().create_table(Table("p.d.t", [SchemaField("id", "INTEGER")]))
        served.refuses.append(KeyError("secret"))
        answer = served.call("POST", TABLES + "/t/insertAll", {"rows": [{"json": {"id": 1}}]})
        assert "secret" not in refused(answer, 500, "internalError")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(
    ["tableReference", "schema", "fields", "name", "type", "labels", "rows", "json", "timePartitioning", "id"]
)
SHAPED = st.dictionaries(KEYS, JSON | st.dictionaries(KEYS, JSON, max_size=3), max_size=4)


@settings(deadline=None, max_examples=80)
@given(
    method=st.sampled_from(["POST", "PATCH", "PUT"]),
    path=st.sampled_from(["", "/t", "/t/insertAll"]),
    body=SHAPED,
)
def test_no_json_makes_the_server_fail(served: RestServed, method: str, path: str, body: Any) -> None:
    status, answer = served.call(method, TABLES + path, body)
    assert status < 500 or answer["error"]["errors"][0]["reason"] == "notImplemented", answer
