"""The name of a client is what it has proved, and limits count by it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from google.api_core.exceptions import ResourceExhausted

from ingest.api.test_security import NAME, Client
from lode.ingest.api.client import client_name
from lode.ingest.core.strategies import StreamType
from lode.ingest.status import Refused
from lode.testing.plugin import LodeServer
from support.ingest.appending import FIELDS
from support.ingest.certificates import Authority
from support.ingest.engines import PLAIN, append, engine_on, lake, rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

UPLOAD = "/upload/bigquery/v2/projects/p/jobs?uploadType=resumable"


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("::1", "::1"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", "local"),
        ("unix", "local"),
    ],
)
def test_a_client_without_a_secret_is_its_address_or_network(address: str, name: str) -> None:
    assert client_name(address=address) == name


def test_a_token_comes_before_a_certificate_and_an_address() -> None:
    name = client_name(token=b"secret", certificate="ab" * 32, address="10.0.0.7")
    assert name.startswith("token-")
    assert "secret" not in name
    assert client_name(certificate="ab" * 32, address="10.0.0.7") == "cert-abababababab"


def begin(server: LodeServer, **headers: str) -> int:
    """Begin an upload; returns the status."""
    body = json.dumps({"configuration": {"load": {}}}).encode()
    given = {"content-type": "application/json", **headers}
    try:
        with urlopen(Request(server.http_url + UPLOAD, body, given), timeout=60) as answer:
            return int(answer.status)
    except HTTPError as error:
        with error:
            return error.code


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LodeServer]:
    tokens = frozenset({"one", "two"})
    running = LodeServer(
        tmp_path_factory.mktemp("shared") / "lake", tokens=tokens, client_uploads=2, client_streams=2
    )
    base = f"{running.http_url}/bigquery/v2/projects/p/datasets"
    headers = {"content-type": "application/json", "authorization": "Bearer one"}
    for path, body in (
        ("", {"datasetReference": {"datasetId": "d"}}),
        ("/d/tables", {"tableReference": {"tableId": "t"}, "schema": {"fields": FIELDS}}),
    ):
        urlopen(Request(base + path, json.dumps(body).encode(), headers)).close()
    yield running
    running.stop()


def test_uploads_of_one_client_leave_room_for_others(shared: LodeServer) -> None:
    first = [begin(shared, authorization="Bearer one") for _ in range(3)]
    assert (first, begin(shared, authorization="bearer two")) == ([200, 200, 429], 200)


def test_streams_of_one_client_leave_room_for_others(shared: LodeServer) -> None:
    one, two = (Client(shared, authorization=f"Bearer {name}") for name in ("one", "two"))
    made = [one.create_stream() for _ in range(2)]
    assert all(NAME in stream.name for stream in made)
    with pytest.raises(ResourceExhausted, match="2 write streams of this client are open, the limit is 2"):
        one.create_stream()
    two.create_stream()
    clients = {stream.client for stream in shared._running.engine.streams()}
    assert clients == {client_name(token=b"one"), client_name(token=b"two")}


def test_headers_do_not_make_another_client(tmp_path: Path) -> None:
    server = LodeServer(tmp_path / "lake", client_uploads=2)
    try:
        sent = [
            {"authorization": "Bearer one"},
            {"authorization": "Bearer two", "x-forwarded-for": "10.0.0.1"},
            {"x-forwarded-for": "10.0.0.2", "forwarded": "for=10.0.0.3", "x-real-ip": "10.0.0.4"},
        ]
        assert [begin(server, **headers) for headers in sent] == [200, 200, 429]
    finally:
        server.stop()


def test_a_certificate_is_the_same_client_on_both_ports(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("server")
    server = LodeServer(tmp_path / "lake", tls_cert=certificate, tls_key=key, client_ca=authority.file)
    try:
        client: Client = Client(server, authority=authority.file, certificate=authority.issue("a"))
        client.create_table()
        client.create_stream()
        body = {"configuration": {"query": {"query": "SELECT 1"}}, "jobReference": {"jobId": "one"}}
        assert client.http("/bigquery/v2/projects/p/jobs", body)[0] == 200
        (stream,) = server._running.engine.streams()
        job = server._running._server.jobs.get("p", "one")
        assert stream.client == job.client
        assert stream.client.startswith("cert-")
    finally:
        server.stop()


# -- streams ------------------------------------------------------------------------------------------


def test_the_share_of_a_client_survives_a_restart(tmp_path: Path) -> None:
    store = lake()
    engine = engine_on(store, tmp_path, client_streams=1)
    stream = engine.create_stream(PLAIN, StreamType.PENDING, "a")
    append(stream, [1], 0)
    engine.close()
    engine = engine_on(store, tmp_path, client_streams=1)
    assert [each.client for each in engine.streams()] == ["a"]
    with pytest.raises(Refused, match="of this client"):
        engine.create_stream(PLAIN, StreamType.PENDING, "a")
    engine.create_stream(PLAIN, StreamType.PENDING, "b")
    engine.close()


def test_a_stream_that_is_done_makes_room_for_its_client(tmp_path: Path) -> None:
    engine = engine_on(lake(), tmp_path, client_streams=1)
    stream = engine.create_stream(PLAIN, StreamType.COMMITTED, "a")
    engine.finalize(stream.name)
    engine.create_stream(PLAIN, StreamType.COMMITTED, "a")
    engine.close()


def test_streams_without_rows_are_removed_sooner(tmp_path: Path) -> None:
    engine = engine_on(lake(), tmp_path, empty_stream_ttl=60, stream_ttl=6000)
    empty, used = (engine.create_stream(PLAIN, StreamType.PENDING, "a") for _ in range(2))
    append(used, [1], 0)
    for stream in (empty, used):
        stream.last_used -= 100
    assert engine.expire() == 1
    assert engine.streams() == [used]
    engine.close()


def test_staged_rows_of_one_client_leave_room_for_others(tmp_path: Path) -> None:
    engine = engine_on(lake(), tmp_path, client_staged_bytes=4000, staged_bytes=1 << 20)
    one, two = (engine.create_stream(PLAIN, StreamType.PENDING, name) for name in "ab")
    with pytest.raises(Refused, match="of this client"):
        one.append(rows(range(1000)), 0)
    append(two, [1], 0)
    engine.close()
