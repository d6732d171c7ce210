"""Protection of the HTTP port from web pages: raw requests of browsers and of other clients."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
from typing import TYPE_CHECKING, Any

import pytest
from starlette.responses import PlainTextResponse

from lode.http_guard import HttpGuard, is_loopback
from lode.ingest.settings import Settings
from lode.testing.plugin import LodeServer

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLE = "/bigquery/v2/projects/p/datasets/d/tables/t"
INSERT = {"rows": [{"json": {"id": 1}}]}
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LodeServer]:
    running = LodeServer(tmp_path_factory.mktemp("guard") / "lake", allow_hosts=("lake.internal",))
    running.create_table("p.d.t", [{"name": "id", "type": "INT64"}])
    yield running
    running.stop()


@pytest.fixture
def port(server: LodeServer) -> int:
    return int(server.http_url.rpartition(":")[2])


def ask(
    port: int, method: str, path: str, headers: dict[str, str], body: Any = None
) -> tuple[int, Any, dict[str, str]]:
    """Send only these headers, and a host if none is given."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        sent = {"host": f"127.0.0.1:{port}", **headers}
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        for name, value in {**sent, "content-length": str(len(data))}.items():
            connection.putheader(name, value)
        connection.endheaders(data)
        response = connection.getresponse()
        text = response.read()
        kind = response.getheader("content-type", "")
        found = json.loads(text) if kind.startswith("application/json") and text else text
        return response.status, found, {name.lower(): value for name, value in response.getheaders()}
    finally:
        connection.close()


def rows(server: LodeServer) -> int:
    count: int = server.rows("p.d.t").num_rows
    return count


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:{port}", "127.0.0.1:{port}", "127.9.8.7", "[::1]:{port}", "lake.internal"],
)
def test_a_known_host_is_answered(port: int, host: str) -> None:
    assert ask(port, "GET", TABLE, {"host": host.format(port=port)})[0] == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "10.0.0.1",
        "0.0.0.0",
        "127.0.0.1:{port}@evil.example",
        "127.0.0.1 evil.example",
        "[::1",
        "",
    ],
)
@pytest.mark.parametrize(("method", "path"), [("GET", TABLE), ("GET", "/ui/"), ("DELETE", TABLE)])
def test_a_host_name_that_resolves_to_the_server_is_refused(
    port: int, host: str, method: str, path: str
) -> None:
    status, body, _ = ask(port, method, path, {"host": host.format(port=port)})
    assert status == 403
    assert body["error"]["status"] == "PERMISSION_DENIED"
    assert "--allow-host" in body["error"]["errors"][0]["message"]
    assert ask(port, "GET", TABLE, {})[0] == 200


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_health_is_answered_for_any_host(port: int, path: str) -> None:
    assert ask(port, "GET", path, {"host": "10.0.0.7"})[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": ""},
        {"origin": "http://localhost:1"},
        {"origin": "http://127.0.0.1"},
        {"origin": "file://127.0.0.1:{port}"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "nonsense"},
        {"origin": "http://127.0.0.1:{port}", "sec-fetch-site": "cross-site"},
    ],
)
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", TABLE + "/insertAll", INSERT),
        ("PATCH", TABLE, {"description": "theirs"}),
        ("PUT", TABLE, {"description": "theirs"}),
        ("DELETE", TABLE, None),
    ],
)
def test_a_write_from_another_origin_is_refused(
    server: LodeServer, port: int, headers: dict[str, str], method: str, path: str, body: Any
) -> None:
    sent = {name: value.format(port=port) for name, value in headers.items()}
    assert ask(port, method, path, {**JSON, **sent}, body)[0] == 403
    status, table, _ = ask(port, "GET", TABLE, {})
    assert (status, table.get("description"), rows(server)) == (200, None, 0)


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
def test_a_content_type_without_preflight_is_refused(server: LodeServer, port: int, kind: str) -> None:
    status, body, _ = ask(port, "POST", TABLE + "/insertAll", {"content-type": kind}, INSERT)
    assert status == 400
    assert "application/json" in body["error"]["message"]
    assert rows(server) == 0


@pytest.mark.parametrize(
    "kind", ["application/json", "Application/JSON; charset=UTF-8", "application/json;x"]
)
def test_a_body_of_json_is_accepted(port: int, kind: str) -> None:
    assert ask(port, "PATCH", TABLE, {"content-type": kind}, {"labels": {"a": "1"}})[0] == 200


def test_a_write_from_the_servers_own_origin_is_accepted(port: int) -> None:
    own = {**JSON, "origin": f"http://127.0.0.1:{port}", "sec-fetch-site": "same-origin"}
    assert ask(port, "PATCH", TABLE, own, {"labels": {"b": "2"}})[0] == 200


def test_no_answer_has_cors_headers(port: int) -> None:
    foreign = {"origin": "http://evil.example", "access-control-request-method": "POST"}
    for method in ("GET", "OPTIONS"):
        _, _, headers = ask(port, method, TABLE, foreign)
        assert not [name for name in headers if name.startswith("access-control")]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"


def test_a_token_does_not_allow_another_origin(tmp_path: Any) -> None:
    server = LodeServer(tmp_path / "lake", tokens=frozenset({"secret"}))
    try:
        port = int(server.http_url.rpartition(":")[2])
        headers = {**JSON, "authorization": "Bearer secret"}
        wanted = {"datasetReference": {"datasetId": "d"}}
        path = "/bigquery/v2/projects/p/datasets"
        assert ask(port, "POST", path, {**headers, "origin": "http://evil.example"}, wanted)[0] == 403
        assert ask(port, "POST", path, headers, wanted)[0] == 200
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("host", "known"),
    [("127.0.0.1", ("127.0.0.1",)), ("::1", ("::1",)), ("0.0.0.0", None), ("192.0.2.1", None)],
)
def test_only_a_listener_on_loopback_requires_a_known_host(
    tmp_path: Any, host: str, known: tuple[str, ...] | None
) -> None:
    assert Settings(root=tmp_path, host=host).known_hosts(host) == known
    named = Settings(root=tmp_path, host=host, allow_hosts=("lake.example",))
    assert named.known_hosts(host) == (host, "lake.example")


def test_a_name_that_resolves_to_loopback_is_loopback(tmp_path: Any) -> None:
    assert Settings(root=tmp_path, host="own-name").known_hosts("127.0.1.1") == ("own-name",)
    assert not is_loopback("own-name")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([(b"host", b"lake.example"), (b"origin", b"https://lake.example")], 200),
        ([(b"host", b"lake.example")], 200),
        ([], 200),
        ([(b"host", b"lake.example"), (b"origin", b"http://evil.example")], 403),
        ([(b"host", b"lake.example"), (b"sec-fetch-site", b"cross-site")], 403),
    ],
)
def test_a_listener_on_another_address_accepts_any_host_and_no_other_origin(
    headers: list[tuple[bytes, bytes]], status: int
) -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    guard = HttpGuard(PlainTextResponse("done"), hosts=None)
    asyncio.run(guard({"type": "http", "method": "POST", "path": "/", "headers": headers}, receive, send))
    assert sent[0]["status"] == status


def test_http_on_the_grpc_port_has_no_effect(server: LodeServer) -> None:
    body = json.dumps(INSERT).encode()
    lines = (f"POST {TABLE}/insertAll HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}", "", "")
    host, _, port = server.grpc_address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall("\r\n".join(lines).encode() + body)
        answer = b""
        while part := connection.recv(1 << 16):
            answer += part
    assert b"HTTP/1.1 200" not in answer
    assert rows(server) == 0
