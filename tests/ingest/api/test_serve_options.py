"""Errors and warnings of the command at its start: one sentence, and an exit code."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING
from urllib.request import urlopen

import pytest

from lode.ingest.__main__ import main
from lode.ingest.api.listen import listen
from lode.ingest.settings import Settings
from lode.store import LocalStore
from support.ingest.certificates import Authority

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Said:
    return Said(tmp_path, capsys)


class Said:
    """Runs the command with wrong options; returns its output."""

    def __init__(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._root = tmp_path / "lake"
        self._capsys = capsys

    def __call__(self, *options: object, root: object = None) -> str:
        given = ["--root", root or self._root, "--port", 0, "--http-port", 0, *options]
        assert main(list(map(str, given))) == 1
        captured = self._capsys.readouterr()
        assert captured.out == ""
        sentence, end, more = captured.err.partition("\n")
        assert (end, more) == ("\n", "")
        return sentence


@pytest.fixture
def taken() -> Iterator[int]:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listening:
        yield listening.getsockname()[1]


@pytest.mark.parametrize("option", ["--port", "--http-port"])
def test_a_port_in_use(said: Said, taken: int, option: str) -> None:
    assert said(option, taken) == (
        f"lode serve: cannot listen on 127.0.0.1:{taken} (Address already in use): "
        f"choose another port with {option}"
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--port", 70000), "port is 70000: ports go from 0 to 65535"),
        (("--http-port", -1), "http_port is -1: ports go from 0 to 65535"),
        (("--streams", 0), "streams is 0: it must be more than 0"),
        (("--staged-bytes", -5), "staged_bytes is -5: it must be more than 0"),
        (("--loads", 0), "loads is 0: it must be more than 0"),
        (("--load-time", 0), "load_time is 0.0: it must be more than 0"),
        (("--load-bytes", "1MiB"), "load_bytes is 1048576: a load job needs at least 64MiB"),
        (("--stream-ttl", 0), "stream_ttl is 0.0: it must be more than 0"),
        (("--grace", -1), "grace is -1.0: it must not be less than 0"),
        (("--location", "a b"), "location is 'a b': it must be like US or europe-west3"),
        (("--tls-cert", "a.pem"), "TLS needs both a certificate and its key: give --tls-cert and --tls-key"),
        (("--client-ca", "a.pem"), "--client-ca needs TLS: give --tls-cert and --tls-key too"),
        (("--host", "name.invalid", "--client-ca", "x"), "--client-ca needs TLS"),
        (("--token-file", "/nowhere/tokens"), "the token file /nowhere/tokens cannot be read"),
        (("--tls-cert", "/nowhere/a", "--tls-key", "/nowhere/b"), "/nowhere/a cannot be read"),
    ],
)
def test_an_invalid_option(said: Said, options: tuple[object, ...], sentence: str) -> None:
    assert said(*options).startswith(f"lode serve: {sentence}")


@pytest.mark.parametrize("options", [("--port", "many"), ("--log-level", "loud"), ("--nonsense",), ()])
def test_unparsable_options_exit_with_2(
    options: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LODE_ROOT", raising=False)
    root = ("--root", "lake") if options else ()
    assert main([*root, *options]) == 2
    sentence, end, more = capsys.readouterr().err.partition("\n")
    assert sentence.startswith("lode: ")
    assert (end, more) == ("\n", "")


def test_a_token_file_without_a_token(said: Said, tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("# none yet\n\n")
    assert said("--token-file", tmp_path / "tokens").endswith("holds no token: put one on each line")


def test_an_invalid_certificate(said: Said, tmp_path: Path) -> None:
    (tmp_path / "a.pem").write_text("nonsense")
    assert "are not a certificate and its key" in said(
        "--tls-cert", tmp_path / "a.pem", "--tls-key", tmp_path / "a.pem"
    )


def test_a_certificate_with_another_key(said: Said, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("one")[0], authority.issue("two")[1]
    assert "are not a certificate and its key" in said("--tls-cert", cert, "--tls-key", key)


def test_an_invalid_client_authority(said: Said, tmp_path: Path) -> None:
    cert, key = Authority(tmp_path).issue("server")
    (tmp_path / "ca.pem").write_text("nonsense")
    options = ("--tls-cert", cert, "--tls-key", key, "--client-ca", tmp_path / "ca.pem")
    assert "ca.pem is not a certificate in PEM" in said(*options)


def test_a_state_directory_that_is_a_file(said: Said, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert said("--state", tmp_path / "file").endswith("choose another with --state")


def test_a_socket_has_the_tcp_protocol_so_that_asyncio_disables_nagle() -> None:
    with listen("127.0.0.1", 0, "--http-port") as listening:
        assert listening.proto == socket.IPPROTO_TCP


def test_a_lake_without_a_known_store(said: Said) -> None:
    assert "unknown scheme" in said(root="gopher://lake")


def test_a_remote_lake_needs_a_state_directory(said: Said) -> None:
    assert said(root="s3://lake/here").endswith("give --state DIR")


def test_a_state_directory_in_use(said: Said, tmp_path: Path) -> None:
    from lode.testing.plugin import LodeServer

    server = LodeServer(tmp_path / "lake")
    try:
        assert "another server runs on the state directory" in said()
    finally:
        server.stop()


def test_an_option_unknown_to_its_store(said: Said) -> None:
    assert said("--store-option", "region=eu").endswith("takes no option region")
    assert said("--store-option", "region") == "lode serve: --store-option is key=value, got 'region'"


def test_an_option_reaches_the_store_of_the_lake(tmp_path: Path) -> None:
    store = Settings(root=tmp_path, store_options={"durable": False}).open_root()
    assert isinstance(store, LocalStore)
    assert not store.durable


@pytest.mark.parametrize(
    ("host", "exposed"), [("127.0.0.1", False), ("localhost", False), ("::1", False), ("0.0.0.0", True)]
)
def test_a_server_on_a_network_without_tokens_is_exposed(tmp_path: Path, host: str, exposed: bool) -> None:
    assert Settings(root=tmp_path, host=host).is_exposed is exposed
    assert not Settings(root=tmp_path, host=host, tokens=frozenset({"secret"})).is_exposed


@pytest.mark.parametrize(("host", "warned"), [("0.0.0.0", True), ("::1", False)])
def test_an_exposed_server_warns_and_serves_until_it_is_stopped(
    tmp_path: Path, host: str, warned: bool
) -> None:
    command = [sys.executable, "-m", "lode.ingest", "--root", str(tmp_path / "lake"), "--host", host]
    with subprocess.Popen(
        [*command, "--port", "0", "--http-port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        addresses = json.loads(process.stdout.readline())
        with urlopen(f"http://{addresses['http']}/healthz", timeout=120) as response:
            assert response.status == 200
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert ("everyone may write" in errors) is warned
    assert "Traceback" not in errors
