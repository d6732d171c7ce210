"""TLS, client certificates and bearer tokens, on both ports."""

from __future__ import annotations

import json
import ssl
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import grpc
import pytest
from google.cloud.bigquery_storage_v1 import BigQueryReadClient, BigQueryWriteClient, types
from google.cloud.bigquery_storage_v1.services.big_query_read.transports import BigQueryReadGrpcTransport
from google.cloud.bigquery_storage_v1.services.big_query_write.transports import BigQueryWriteGrpcTransport
from grpc_health.v1 import health_pb2, health_pb2_grpc

from lode.testing.plugin import LodeServer
from support.ingest.appending import FIELDS, Call, arrow_request, batch_of
from support.ingest.certificates import Authority
from support.ingest.refusals import ends_with

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAME = "projects/p/datasets/d/tables/t"
TOKENS = ("correct-horse", "battery-staple")


class Client:
    """A client with TLS, a certificate or a token, for both ports."""

    def __init__(
        self,
        server: LodeServer,
        *,
        authority: Path | None = None,
        certificate: tuple[Path, Path] | None = None,
        authorization: str | None = None,
    ) -> None:
        self._url = server.http_url
        self._headers = {} if authorization is None else {"authorization": authorization}
        self._tls = None if authority is None else ssl.create_default_context(cafile=authority)
        if self._tls is not None and certificate is not None:
            self._tls.load_cert_chain(*certificate)
        if authority is None:
            self.channel = grpc.insecure_channel(server.grpc_address)
        else:
            pair = [file.read_bytes() for file in certificate] if certificate else [None, None]
            trusted = grpc.ssl_channel_credentials(authority.read_bytes(), pair[1], pair[0])
            self.channel = grpc.secure_channel(server.grpc_address, trusted)
        made: Any = BigQueryWriteClient  # its constructor has no types
        self._write = made(transport=BigQueryWriteGrpcTransport(channel=self.channel))
        self._metadata = tuple(self._headers.items())

    def create_stream(self) -> types.WriteStream:
        created: types.WriteStream = self._write.create_write_stream(
            parent=NAME,
            write_stream=types.WriteStream(type_=1),
            metadata=self._metadata,
            retry=None,
            timeout=60,
        )
        return created

    def append(self, ids: list[int]) -> types.AppendRowsResponse:
        requests = iter([arrow_request(f"{NAME}/_default", batch_of(ids))])
        answers = self._write.append_rows(requests, metadata=self._metadata, retry=None, timeout=60)
        answer: types.AppendRowsResponse = next(iter(answers))
        return answer

    def read_session(self) -> types.ReadSession:
        made: Any = BigQueryReadClient
        client = made(transport=BigQueryReadGrpcTransport(channel=self.channel))
        session: types.ReadSession = client.create_read_session(
            parent="projects/p",
            read_session=types.ReadSession(table=NAME, data_format=types.DataFormat.ARROW),
            metadata=self._metadata,
            retry=None,
            timeout=60,
        )
        return session

    def health(self) -> int:
        stub: Any = health_pb2_grpc.HealthStub(self.channel)
        status: int = stub.Check(health_pb2.HealthCheckRequest(), timeout=60).status
        return status

    def http(self, path: str, body: Any = None) -> tuple[int, bytes]:
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self._url}{path}", data, {"content-type": "application/json", **self._headers})
        try:
            with urlopen(request, context=self._tls, timeout=60) as response:
                return response.status, response.read()
        except HTTPError as error:
            with error:
                return error.code, error.read()

    def create_table(self) -> None:
        base, of_dataset = "/bigquery/v2/projects/p/datasets", {"projectId": "p", "datasetId": "d"}
        table = {"tableReference": {**of_dataset, "tableId": "t"}, "schema": {"fields": FIELDS}}
        assert self.http(base, {"datasetReference": of_dataset})[0] == 200
        assert self.http(f"{base}/d/tables", table)[0] == 200

    def close(self) -> None:
        self.channel.close()


@pytest.fixture
def opened() -> Iterator[list[Any]]:
    """Closes everything at the end."""
    things: list[Any] = []
    yield things
    for thing in reversed(things):
        (thing.stop if isinstance(thing, LodeServer) else thing.close)()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def serve(opened: list[Any], tmp_path: Path, **settings: Any) -> LodeServer:
    server = LodeServer(tmp_path / "lake", **settings)
    opened.append(server)
    return server


def connect(opened: list[Any], server: LodeServer, **how: Any) -> Client:
    client = Client(server, **how)
    opened.append(client)
    return client


# -- TLS ---------------------------------------------------------------------------------------------


def test_both_ports_use_tls(tmp_path: Path, authority: Authority, opened: list[Any]) -> None:
    cert, key = authority.issue("server")
    server = serve(opened, tmp_path, tls_cert=cert, tls_key=key)
    client = connect(opened, server, authority=authority.file)
    assert server.http_url.startswith("https://127.0.0.1:")
    client.create_table()
    assert client.create_stream().name.startswith(NAME)
    assert "append_result" in client.append([1, 2])
    assert client.http("/healthz") == (200, b"ok\n")
    assert client.health() == health_pb2.HealthCheckResponse.SERVING


def test_a_client_without_the_authority_does_not_connect(
    tmp_path: Path, authority: Authority, opened: list[Any]
) -> None:
    cert, key = authority.issue("server")
    server = serve(opened, tmp_path, tls_cert=cert, tls_key=key)
    stranger = connect(opened, server, authority=Authority(tmp_path, "stranger").file)
    with pytest.raises(URLError):
        stranger.http("/healthz")
    with ends_with(grpc.StatusCode.UNAVAILABLE):
        stranger.create_stream()


def test_a_client_without_tls_does_not_connect(
    tmp_path: Path, authority: Authority, opened: list[Any]
) -> None:
    cert, key = authority.issue("server")
    plain = connect(opened, serve(opened, tmp_path, tls_cert=cert, tls_key=key))
    with ends_with(grpc.StatusCode.UNAVAILABLE):
        plain.create_stream()


def test_with_a_client_authority_only_its_certificates_connect(
    tmp_path: Path, authority: Authority, opened: list[Any]
) -> None:
    cert, key = authority.issue("server")
    server = serve(opened, tmp_path, tls_cert=cert, tls_key=key, client_ca=authority.file)
    known = connect(opened, server, authority=authority.file, certificate=authority.issue("client"))
    known.create_table()
    assert "append_result" in known.append([1])
    foreign = Authority(tmp_path, "foreign").issue("intruder")
    for certificate in (None, foreign):
        refused = connect(opened, server, authority=authority.file, certificate=certificate)
        with pytest.raises((URLError, ssl.SSLError, ConnectionError)):
            refused.http("/healthz")
        with ends_with(grpc.StatusCode.UNAVAILABLE):
            refused.create_stream()


# -- tokens ------------------------------------------------------------------------------------------


@pytest.fixture
def guarded(tmp_path: Path, opened: list[Any]) -> LodeServer:
    file = tmp_path / "tokens"
    file.write_text(f"# who may write\n{TOKENS[0]}\n\n  {TOKENS[1]}  \n")
    return serve(opened, tmp_path, token_file=file)


@pytest.mark.parametrize("token", TOKENS)
@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
def test_a_token_of_the_file_is_valid_on_both_ports(
    guarded: LodeServer, opened: list[Any], token: str, scheme: str
) -> None:
    client = connect(opened, guarded, authorization=f"{scheme} {token}")
    client.create_table()
    assert client.create_stream().name
    assert "append_result" in client.append([1])
    assert client.read_session().name
    assert client.http("/metrics")[0] == 200


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "Bearer wrong",
        "Bearer",
        "Bearer ",
        "Basic correct-horse",
        "correct-horse",
        "Bearer # who may write",
    ],
)
def test_without_a_token_everything_except_health_is_refused(
    guarded: LodeServer, opened: list[Any], authorization: str | None
) -> None:
    client = connect(opened, guarded, authorization=authorization)
    for call in (client.create_stream, lambda: client.append([1]), client.read_session):
        with ends_with(grpc.StatusCode.UNAUTHENTICATED) as error:
            call()
        assert "authorization: Bearer" in str(error[0])
    for path in ("/metrics", "/streams", "/bigquery/v2/projects/p/datasets"):
        status, body = client.http(path)
        assert status == 401
        assert json.loads(body)["error"]["status"] == "UNAUTHENTICATED"
    assert client.http("/healthz")[0] == 200
    assert client.http("/readyz")[0] == 200
    assert client.health() == health_pb2.HealthCheckResponse.SERVING


def test_a_call_opened_without_a_token_ends_and_stores_nothing(
    guarded: LodeServer, opened: list[Any]
) -> None:
    connect(opened, guarded, authorization=f"Bearer {TOKENS[0]}").create_table()
    with Call(guarded.write_client()) as call, ends_with(grpc.StatusCode.UNAUTHENTICATED):
        call.ask(arrow_request(f"{NAME}/_default", batch_of([1])))
    assert guarded.rows("p.d.t").num_rows == 0
