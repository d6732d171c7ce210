"""Hostile requests to every route: each is refused in time, and the server continues.

A refusal is JSON in Google's shape with a status of 4xx, or 501 for what Lode does not have.
"""

from __future__ import annotations

import http.client
import json
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from lode.testing.plugin import LodeServer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Most are answered within milliseconds; other tests may run at the same time.
MAX_SECONDS = 30.0
MAX_LARGE_SECONDS = 10.0
ROOT = "/bigquery/v2/projects/p/datasets"
TABLE = f"{ROOT}/d/tables/t"

TEXTS = [
    "",
    "x" * 300,
    "x" * 5_000,
    "é" * 200,
    "\x00",
    "a\x00b",
    "\ud800",
    "\u202egnirts",
    "../../etc/passwd",
    "..",
    ".",
    "/",
    "a/b",
    "\\",
    "%2e%2e%2f",
    "'; DROP TABLE t; --",
    '"',
    "`",
    "${jndi:ldap://x}",
    "{{7*7}}",
    "\r\nX-Header: 1",
    "t$20240101",
    "t@-1",
    "😀" * 60,
    " ",
    "\n",
    "con",
    "lock",
    ".lock",
]
# Replacements for any value.
VALUES: list[Any] = [
    None,
    True,
    0,
    -1,
    2**63,
    2**64,
    -(2**63) - 1,
    10**400,
    1.5,
    1e308,
    float("nan"),
    float("inf"),
    [],
    {},
    [[]],
    [None],
    {"": None},
    {"\ud800": 1},
    *TEXTS,
]
DEEP = b"[" * 20_000 + b"]" * 20_000

FIELD = {
    "name": "a",
    "type": "STRING",
    "mode": "NULLABLE",
    "description": "d",
    "defaultValueExpression": "'x'",
    "maxLength": "10",
    "precision": "1",
    "scale": "0",
    "rangeElementType": {"type": "DATE"},
    "policyTags": {"names": []},
    "fields": [{"name": "b", "type": "INT64"}],
    "timestampPrecision": "6",
}
TABLE_BODY = {
    "tableReference": {"projectId": "p", "datasetId": "d", "tableId": "new"},
    "schema": {"fields": [FIELD]},
    "timePartitioning": {"type": "DAY", "field": "a", "expirationMs": "0", "requirePartitionFilter": True},
    "rangePartitioning": {"field": "a", "range": {"start": "0", "end": "10", "interval": "1"}},
    "clustering": {"fields": ["a"]},
    "labels": {"a": "b"},
    "resourceTags": {"a": "b"},
    "description": "d",
    "friendlyName": "f",
    "requirePartitionFilter": True,
    "type": "TABLE",
    "view": {"query": "SELECT 1"},
    "expirationTime": "1",
    "etag": "x",
    "location": "US",
}
DATASET_BODY = {
    "datasetReference": {"projectId": "p", "datasetId": "new"},
    "location": "US",
    "labels": {"a": "b"},
    "description": "d",
    "friendlyName": "f",
    "maxTimeTravelHours": "168",
    "storageBillingModel": "LOGICAL",
    "access": [{"role": "READER"}],
    "defaultTableExpirationMs": "1",
}
INSERT_BODY = {
    "kind": "x",
    "skipInvalidRows": True,
    "ignoreUnknownValues": True,
    "templateSuffix": "x",
    "rows": [{"insertId": "a", "json": {"id": 1, "s": "x", "r": {"n": "1"}}}],
}
BODIES: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", ROOT, DATASET_BODY),
    ("PATCH", f"{ROOT}/d", DATASET_BODY),
    ("PUT", f"{ROOT}/d", DATASET_BODY),
    ("POST", f"{ROOT}/d/tables", TABLE_BODY),
    ("PATCH", TABLE, TABLE_BODY),
    ("PUT", TABLE, TABLE_BODY),
    ("POST", f"{TABLE}/insertAll", INSERT_BODY),
    ("POST", "/bigquery/v2/projects/p/jobs", {"configuration": {"query": {"query": "SELECT 1"}}}),
    ("POST", "/bigquery/v2/projects/p/queries", {"query": "SELECT 1"}),
]
PATHS = [
    ("GET", "/bigquery/v2/projects/{}/datasets"),
    ("POST", "/bigquery/v2/projects/{}/datasets"),
    ("GET", "/bigquery/v2/projects/{}/datasets/d"),
    ("GET", "/bigquery/v2/projects/{}/datasets/d/tables"),
    ("GET", "/bigquery/v2/projects/{}/serviceAccount"),
    ("GET", "/bigquery/v2/projects/{}/jobs"),
    ("GET", ROOT + "/{}"),
    ("PATCH", ROOT + "/{}"),
    ("DELETE", ROOT + "/{}"),
    ("GET", ROOT + "/{}/tables"),
    ("GET", ROOT + "/{}/tables/t"),
    ("GET", ROOT + "/{}/models"),
    ("GET", ROOT + "/d/tables/{}"),
    ("PATCH", ROOT + "/d/tables/{}"),
    ("DELETE", ROOT + "/d/tables/{}"),
    ("GET", ROOT + "/d/tables/{}/data"),
    ("POST", ROOT + "/d/tables/{}/insertAll"),
    ("POST", ROOT + "/d/tables/{}:getIamPolicy"),
    ("GET", TABLE + "/{}"),
    ("GET", "/{}"),
    ("GET", "/bigquery/v2/{}"),
]
PARAMETERS = [
    (ROOT, ["maxResults", "pageToken", "filter", "all", "fields"]),
    (f"{ROOT}/d", ["datasetView", "fields"]),
    (f"{ROOT}/d/tables", ["maxResults", "pageToken", "fields"]),
    (TABLE, ["view", "selectedFields", "fields", "alt", "prettyPrint"]),
    (
        f"{TABLE}/data",
        [
            "maxResults",
            "startIndex",
            "pageToken",
            "selectedFields",
            "formatOptions.useInt64Timestamp",
            "formatOptions.timestampOutputFormat",
            "fields",
        ],
    ),
]
HEADERS = [
    "if-match",
    "content-encoding",
    "content-type",
    "authorization",
    "accept",
    "user-agent",
    "x-goog-user-project",
]


class Client:
    """Sends any request on one connection, and checks every answer."""

    def __init__(self, server: LodeServer) -> None:
        self._server = server.http_url.removeprefix("http://")
        self._connection = http.client.HTTPConnection(self._server, timeout=60)
        self.count = 0

    def send(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        headers: dict[str, bytes] | None = None,
        *,
        within: float = MAX_SECONDS,
    ) -> int:
        """Send a request, check the answer, and return its status."""
        began = time.monotonic()
        connection = self._connection
        connection.putrequest(method, path, skip_accept_encoding=True)
        for name, value in {"content-type": b"application/json", **(headers or {})}.items():
            connection.putheader(name, value)
        connection.putheader("content-length", str(len(body)))
        connection.endheaders(body)
        response = connection.getresponse()
        status, text = response.status, response.read()
        taken = time.monotonic() - began
        about = (method, path[:200], body[:200], headers, status, text[:300])
        assert taken < within, (taken, about)
        assert status < 500 or status == 501, about
        if status >= 400:
            error = json.loads(text)["error"]
            assert error["code"] == status, about
            assert error["message"] == error["errors"][0]["message"], about
            assert error["errors"][0]["reason"], about
            assert len(text) < 10_000, about
        self.count += 1
        return status

    def close(self) -> None:
        self._connection.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LodeServer]:
    lake = tmp_path_factory.mktemp("fuzz") / "lake"
    running = LodeServer(lake, store_options={"durable": False})
    yield running
    running.stop()


@pytest.fixture
def client(server: LodeServer) -> Iterator[Client]:
    client = Client(server)
    client.send("POST", ROOT, b'{"datasetReference": {"datasetId": "d"}}')
    fields = [
        {"name": "id", "type": "INT64"},
        {"name": "s", "type": "STRING"},
        {"name": "r", "type": "STRUCT", "fields": [{"name": "n", "type": "NUMERIC"}]},
        {"name": "j", "type": "JSON"},
    ]
    body = {"tableReference": {"tableId": "t"}, "schema": {"fields": fields}}
    client.send("POST", f"{ROOT}/d/tables", json.dumps(body).encode())
    yield client
    assert client.send("GET", TABLE) == 200
    client.close()


def changes(value: Any, inside: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path to every part of a JSON value."""
    yield inside
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, item in items:
        yield from changes(item, (*inside, key))


def changed(value: Any, path: tuple[Any, ...], replacement: Any) -> Any:
    if not path:
        return replacement
    copy = value.copy()
    copy[path[0]] = changed(value[path[0]], path[1:], replacement)
    return copy


def test_every_part_of_every_name_in_a_path(client: Client) -> None:
    for method, path in PATHS:
        for text in TEXTS:
            client.send(method, path.format(quote(text.encode(errors="surrogatepass"), safe="")), b"")


def test_every_field_of_every_resource_with_wrong_types_and_hostile_text(client: Client) -> None:
    for method, path, body in BODIES:
        for number, inside in enumerate(changes(body)):
            # Not every value in every field: adjacent fields get different ones.
            for value in VALUES[number % 6 :: 6]:
                client.send(method, path, json.dumps(changed(body, inside, value)).encode())


def test_every_parameter(client: Client) -> None:
    numbers = ["-1", "0", "99999999999999999999", "1e9", "0x10", "٣", "1_0", "9" * 400]
    tokens = ["abc", "MTo6", "Mjo6MA==", "====", "AAAA", "Li4vLi4v", "eHh4" * 500]
    for path, names in PARAMETERS:
        for name in names:
            for text in [*TEXTS, *numbers, *tokens, "a(", "a" * 40_000]:
                client.send("GET", f"{path}?{name}={quote(text.encode(errors='surrogatepass'), safe='')}")
    for query in ("?" + "a=1&" * 10_000, "?fields=" + "(" * 40_000, "?&&&=%", "?%ff=%00"):
        client.send("GET", TABLE + query)


def test_a_request_line_of_a_megabyte_is_refused_by_the_http_parser(server: LodeServer) -> None:
    for path in ("/" + "x" * (1 << 20), TABLE + "?fields=" + "(" * (1 << 20)):
        connection = http.client.HTTPConnection(server.http_url.removeprefix("http://"), timeout=60)
        try:
            connection.request("GET", path)
            assert connection.getresponse().status == 400
        except ConnectionError:  # closed before the end of the request
            pass
        finally:
            connection.close()


def test_every_header(client: Client) -> None:
    values = [
        b"",
        b"x" * 5_000,
        b"\xff\xfe",
        b"\x00"[:0],
        b"gzip",
        b"'; --",
        b"Bearer \xc3\xa9",
        b"*",
        b'W/"x"',
        b"\t",
    ]
    for method, path, body in (("GET", TABLE, b""), ("PATCH", TABLE, b"{}")):
        for name in HEADERS:
            for value in values:
                client.send(method, path, body, {name: value})


@pytest.mark.parametrize("method", ["OPTIONS", "TRACE", "FOO", "PROPFIND"])
def test_methods_without_a_route(client: Client, method: str) -> None:
    for path in (
        TABLE,
        ROOT,
        f"{TABLE}/data",
        "/",
        "/bigquery/v2/projects",
        "/nothing",
        "/healthz",
        "/readyz",
    ):
        assert client.send(method, path) == 405 or path == "/nothing"


def test_bodies_that_are_deep_or_cut_or_not_json(client: Client) -> None:
    bodies = [b"{", b"[]", b"null", b"\xff", b"{}" * 100, b"\xef\xbb\xbf{}", b'{"a": ' + DEEP + b"}", DEEP]
    deep = [b'{"tableReference": {"tableId": "x"}, "%s": ' + DEEP[:1800] + DEEP[-1800:] + b"}"]
    for key in (b"labels", b"schema", b"clustering", b"description", b"timePartitioning", b"rows"):
        bodies += [text % key for text in deep]
    bodies.append(b'{"rows": [{"json": {"j": ' + DEEP[:900] + DEEP[-900:] + b"}}]}")
    for method, path, _ in BODIES:
        for body in bodies:
            client.send(method, path, body)


def test_large_bodies(client: Client) -> None:
    path = f"{TABLE}/insertAll"
    row = b'{"json": {"id": "x", "nope": 1}},'
    small = b'{"json": {}},'
    bodies = [
        b" " * (11 << 20),
        b'{"rows": [' + row * 5_000 + b'{"json": {}}]}',
        b'{"rows": [' + small * 49_999 + b'{"json": []}]}',
        b'{"rows": [' + small * 60_000 + b'{"json": {}}]}',
        b'{"rows": [{"json": {"s": "' + b"x" * (9 << 20) + b'", "nope": 1}}]}',
        b'{"rows": [{"json": {"id": ' + b"9" * (1 << 20) + b"}}]}",
        b'{"rows": [{"json": {"j": [' + b"1.5," * (1 << 18) + b'1], "nope": 1}}]}',
        b'{"rows": [{"json": {' + b",".join(b'"f%d": 1' % n for n in range(50_000)) + b"}}]}",
        b'{"rows": [' + b"{}," * (1 << 20) + b"{}]}",
    ]
    for body in bodies:
        client.send("POST", path, body, within=MAX_LARGE_SECONDS)
