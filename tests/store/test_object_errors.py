"""Errors of object storage are one sentence with the remedy, from a real client against loopback."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import lode
from lode.store.object_errors import reason_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ONCE: dict[str, Any] = {"retry_config": {"max_retries": 0, "retry_timeout": timedelta(seconds=2)}}
KEYS: dict[str, dict[str, Any]] = {
    "s3": {"region": "us-east-1", "access_key_id": "key", "secret_access_key": "secret"},
    "gs": {"skip_signature": True},
    "az": {"account_name": "account", "account_key": "a2V5"},
}


class Answer(NamedTuple):
    status: int
    body: bytes


@pytest.fixture(autouse=True)
def nothing_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in list(os.environ):
        if name.startswith(("AWS_", "AZURE_", "GOOGLE_")):
            monkeypatch.delenv(name)


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with Service() as service:
        yield service


class Service:
    """Answers every request as it is told."""

    def __init__(self) -> None:
        service = self
        self.answer = Answer(200, b"")

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def reply(self) -> None:
                self.rfile.read(int(self.headers.get("content-length") or 0))
                self.send_response(service.answer.status)
                self.send_header("content-length", str(len(service.answer.body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(service.answer.body)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = reply  # noqa: N815 - the names http.server calls

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)

    @property
    def port(self) -> int:
        return self.server.server_port

    def __enter__(self) -> Service:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def opened(scheme: str, endpoint: str, **options: Any) -> lode.Store:
    name = "base_url" if scheme == "gs" else "endpoint"
    given: dict[str, Any] = {**KEYS[scheme], "allow_http": True, **ONCE, name: endpoint, **options}
    return lode.open_store(f"{scheme}://bucket/lake", **given)


def closed_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
    return port


OPERATIONS: dict[str, Callable[[lode.Store], object]] = {
    "get": lambda store: store.get("a"),
    "list": lambda store: list(store.list("a/")),
    "put": lambda store: store.put("a", b"1"),
}


def failing(store: lode.Store, operation: str = "get") -> lode.LodeError:
    with pytest.raises(lode.LodeError) as caught:
        OPERATIONS[operation](store)
    said = str(caught.value)
    assert "\n" not in said
    assert not any(word in said for word in ("Debug source", "Generic", "<Error>", "reqwest", "hyper"))
    return caught.value


def xml(code: str, message: str = "Some words.") -> bytes:
    return f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode()


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    ("scheme", "answer", "kind", "said"),
    [
        ("s3", Answer(301, xml("PermanentRedirect")), lode.StoreError, "another region: give its region"),
        (
            "s3",
            Answer(400, xml("AuthorizationHeaderMalformed", "region is wrong; expecting 'eu-west-1'")),
            lode.StoreError,
            "another region: give region=eu-west-1",
        ),
        ("s3", Answer(404, xml("NoSuchBucket")), lode.StoreError, "is not there: check its name, or create"),
        ("az", Answer(404, xml("ContainerNotFound")), lode.StoreError, "is not there: check its name"),
        ("s3", Answer(400, xml("ExpiredToken")), lode.PermissionDeniedError, "have expired .*: get new ones"),
        (
            "s3",
            Answer(403, xml("AccessDenied")),
            lode.PermissionDeniedError,
            "check the credentials and",
        ),
        ("s3", Answer(403, xml("InvalidAccessKeyId")), lode.PermissionDeniedError, "check the key and its"),
        ("s3", Answer(403, xml("SignatureDoesNotMatch")), lode.PermissionDeniedError, "check the key and"),
        ("az", Answer(403, xml("AuthenticationFailed")), lode.PermissionDeniedError, "check the key and its"),
        ("s3", Answer(403, xml("RequestTimeTooSkewed")), lode.PermissionDeniedError, "clock .* is wrong"),
    ],
)
def test_what_the_service_says_becomes_a_remedy(
    service: Service, scheme: str, answer: Answer, kind: type[lode.LodeError], said: str, operation: str
) -> None:
    service.answer = answer
    error = failing(opened(scheme, f"http://127.0.0.1:{service.port}"), operation)
    assert type(error) is kind
    with pytest.raises(kind, match=said):
        raise error


def test_a_service_that_is_busy_or_broken_is_quoted_without_markup(service: Service) -> None:
    store = opened("s3", f"http://127.0.0.1:{service.port}")
    service.answer = Answer(503, xml("SlowDown", "Please reduce your request rate."))
    assert "busy (503 Service Unavailable, SlowDown, Please reduce your request rate)" in str(failing(store))
    service.answer = Answer(500, b"<html>" + b"x" * 5000)
    assert len(str(failing(store))) < 500


@pytest.mark.parametrize("operation", OPERATIONS)
def test_no_credentials_name_those_of_the_service(operation: str) -> None:
    nowhere = f"http://127.0.0.1:{closed_port()}"
    for url, options, said in (
        ("s3://bucket", {"metadata_endpoint": nowhere, "region": "x"}, "for S3: set AWS_ACCESS_KEY_ID"),
        ("gs://bucket", {"proxy_url": nowhere}, "for Google Cloud Storage: set GOOGLE_APPLICATION_CREDENT"),
        ("az://bucket", {"msi_endpoint": nowhere, "account_name": "a"}, "for Azure: set AZURE_STORAGE_ACC"),
    ):
        error = failing(lode.open_store(url, allow_http=True, **ONCE, **options), operation)
        assert type(error) is lode.PermissionDeniedError
        assert f"no credentials {said}" in str(error)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_plain_http_has_to_be_allowed_and_nothing_is_in_doubt(service: Service, operation: str) -> None:
    store = opened("s3", f"http://127.0.0.1:{service.port}", allow_http=False)
    error = failing(store, operation)
    assert type(error) is lode.StoreError
    assert f"http://127.0.0.1:{service.port} is plain HTTP" in str(error)
    assert "give allow_http=true" in str(error)


def test_a_server_without_tls_is_told_from_one_that_is_not_there(service: Service) -> None:
    assert "does not speak TLS" in str(failing(opened("s3", f"https://127.0.0.1:{service.port}")))
    refused = failing(opened("s3", f"http://127.0.0.1:{closed_port()}"), "put")
    assert type(refused) is lode.StoreError
    assert "nothing answers at http://127.0.0.1:" in str(refused)


def test_a_server_that_does_not_answer_names_the_timeout() -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        error = failing(opened("s3", f"http://127.0.0.1:{mute.getsockname()[1]}", timeout="200ms"))
    assert "did not answer in time: try again, or give a longer timeout" in str(error)


def test_a_certificate_that_is_not_trusted_is_named(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *subject]
    subprocess.run([*made, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    service = Service()
    service.server.socket = context.wrap_socket(service.server.socket, server_side=True)
    with service:
        error = failing(opened("s3", f"https://127.0.0.1:{service.port}"))
    assert f"the TLS certificate of https://127.0.0.1:{service.port} is not trusted" in str(error)


@pytest.mark.parametrize(
    ("url", "options", "said"),
    [
        ("s3://b", {"regoin": "x"}, "s3:// has no option 'regoin': did you mean 'region'?"),
        ("s3://b", {"alow_http": True}, "s3:// has no option 'alow_http': did you mean 'allow_http'?"),
        ("gs://b", {"servce_account": "x"}, "did you mean 'service_account' or"),
        ("az://b", {"acount_name": "x"}, "az:// has no option 'acount_name': did you mean 'account_name'"),
        ("az://b", {}, "the storage account is missing: give account_name"),
        ("az://b", {"account_name": "a", "account_key": "!"}, "account_key is not base64"),
        ("s3://b", {"timeout": "soon"}, "option 'timeout' is 'soon': give a time such as 30s"),
        ("s3://b", {"allow_http": "maybe"}, "option 'allow_http' is 'maybe': give true or false"),
        ("s3://b", {"endpoint": "nonsense"}, "endpoint is 'nonsense', which is no URL"),
        ("gs://b", {"service_account": "/nowhere.json"}, "Unable to open service account file"),
    ],
)
def test_a_wrong_option_is_one_sentence(url: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(lode.InvalidOptionError) as caught:
        lode.open_store(url, **options)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_name_of_an_object_is_not_taken_for_an_answer() -> None:
    """A path can hold any text; only what comes after the URL is the service's."""
    for name in ("169.254.169.254", "NoSuchBucket", "Error performing GET x in 1s - builder error"):
        url = f"http://127.0.0.1:9/b/{name.replace(' ', '%20')}"
        text = (
            f"Object at location {name} not found: Error performing GET {url} in 1.2ms - "
            "Server returned non-2xx status code: 404 Not Found: "
            f"<Error><Code>NoSuchKey</Code><Key>{name}</Key></Error>"
        )
        reason = reason_of(FileNotFoundError(text))
        assert (reason.denied, reason.unsent, reason.lasting) == (False, False, False)
        assert "404 Not Found, NoSuchKey" in reason.text
