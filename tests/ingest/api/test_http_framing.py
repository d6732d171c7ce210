"""Requests whose end two readers may see at different places are refused with 400, and end the connection."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from lode.http_framing import MAX_HEAD_BYTES, MAX_HEADERS, RequestFraming
from lode.testing.plugin import LodeServer

if TYPE_CHECKING:
    from collections.abc import Iterator

GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = (
    b"POST /bigquery/v2/projects/p/datasets HTTP/1.1\r\nHost: localhost\r\ncontent-type: application/json\r\n"
)
BODY = b'{"datasetReference": {"datasetId": "d"}}'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LodeServer]:
    running = LodeServer(tmp_path_factory.mktemp("framing") / "lake", store_options={"durable": False})
    yield running
    running.stop()


def exchange(server: LodeServer, sent: bytes) -> bytes:
    """Send bytes on a connection; returns all that comes back until the server closes it."""
    host, _, port = server.http_url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(sent)
        received = bytearray()
        try:
            while data := connection.recv(65536):
                received += data
        except ConnectionResetError:
            pass  # it was closed before it had read everything
        return bytes(received)


def statuses(received: bytes) -> list[int]:
    return [int(part[:3]) for part in received.split(b"HTTP/1.1 ")[1:]]


BAD_HEADS = {
    "a length beside chunks": POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n12345",
    "the same length twice": POST + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\n12345",
    "a list of lengths": POST + b"Content-Length: 5, 5\r\n\r\n12345",
    "a signed length": POST + b"Content-Length: +5\r\n\r\n12345",
    "a length with letters": POST + b"Content-Length: 0x5\r\n\r\n12345",
    "an empty length": POST + b"Content-Length: \r\n\r\n",
    "a length of 19 digits": POST + b"Content-Length: 1" + b"0" * 18 + b"\r\n\r\n",
    "another coding": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "an unknown coding": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "two codings": POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "chunks of HTTP/1.0": POST.replace(b"1.1\r", b"1.0\r") + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "only LF": GET.replace(b"\r\n", b"\n"),
    "one LF": GET.replace(b"localhost\r\n", b"localhost\nX: y\r\n"),
    "only CR": GET.replace(b"\r\n", b"\r"),
    "a CR in a value": GET.replace(b"localhost", b"local\rhost"),
    "a NUL in a value": GET.replace(b"localhost\r\n", b"localhost\r\nX: a\x00b\r\n"),
    "a folded header": GET.replace(b"localhost\r\n", b"localhost\r\nX: a\r\n b\r\n"),
    "a folded first header": GET.replace(b"1.1\r\n", b"1.1\r\n X: a\r\n"),
    "a space before the colon": GET.replace(b"localhost\r\n", b"localhost\r\nContent-Length : 5\r\n"),
    "no colon": GET.replace(b"localhost\r\n", b"localhost\r\nX\r\n"),
    "no name": GET.replace(b"localhost\r\n", b"localhost\r\n: a\r\n"),
    "two spaces in the request line": GET.replace(b"GET ", b"GET  "),
    "no version": GET.replace(b" HTTP/1.1", b""),
    "version 2": GET.replace(b"1.1\r", b"2.0\r"),
    "an empty line first": b"\r\n" + GET,
    "large headers": GET.replace(b"localhost\r\n", b"localhost\r\nX: " + b"a" * MAX_HEAD_BYTES + b"\r\n"),
    "many headers": GET.replace(b"localhost\r\n", b"localhost\r\n" + b"X: a\r\n" * MAX_HEADERS),
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\n" * 50,
}
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
BAD_CHUNKS = {
    "a size with letters": b"xyz\r\n",
    "a size with a sign": b"+5\r\n12345\r\n0\r\n\r\n",
    "a size with a prefix": b"0x5\r\n12345\r\n0\r\n\r\n",
    "a size with a space": b"5 \r\n12345\r\n0\r\n\r\n",
    "an extension": b"5;a=b\r\n12345\r\n0\r\n\r\n",
    "an extension with LF": b"5;a\n\r\n12345\r\n0\r\n\r\n",
    "a size that ends with LF": b"5\n12345\r\n0\r\n\r\n",
    "a huge size": b"f" * 16 + b"\r\n",
    "an empty size": b"\r\n12345\r\n0\r\n\r\n",
    "a chunk without its end": b"5\r\n123456\r\n0\r\n\r\n",
    "a chunk that ends with LF": b"5\r\n12345\n0\r\n\r\n",
    "trailers": b"5\r\n12345\r\n0\r\nX: y\r\n\r\n",
}


@pytest.mark.parametrize("sent", BAD_HEADS.values(), ids=BAD_HEADS)
def test_a_head_that_readers_may_understand_differently_is_refused(server: LodeServer, sent: bytes) -> None:
    received = exchange(server, sent + GET)
    assert statuses(received) == [400]
    assert b"connection: close" in received.lower()


@pytest.mark.parametrize("sent", BAD_CHUNKS.values(), ids=BAD_CHUNKS)
def test_chunks_that_readers_may_understand_differently_are_refused(server: LodeServer, sent: bytes) -> None:
    assert statuses(exchange(server, CHUNKED + sent + GET)) == [400]


def test_a_request_before_a_bad_one_is_answered(server: LodeServer) -> None:
    assert statuses(exchange(server, GET + BAD_HEADS["only LF"])) == [200, 400]


def test_the_parser_gets_many_chunks_as_one() -> None:
    framing = RequestFraming()
    assert framing.take(CHUNKED + b"1\r\na\r\n2\r\nbc\r\n3\r\nde") == CHUNKED + b"5\r\nabcde\r\n"
    assert framing.take(b"f\r\n0\r\n\r\n" + GET) == b"1\r\nf\r\n0\r\n\r\n" + GET
    assert not framing.complaint()


def test_a_body_of_very_many_tiny_chunks_is_refused() -> None:
    framing = RequestFraming()
    framing.take(CHUNKED + b"1\r\na\r\n" * 1000)
    assert not framing.complaint()
    framing.take(b"1\r\na\r\n")
    assert framing.complaint() == "The chunks are too small"


def test_a_body_in_chunks_is_accepted_byte_by_byte(server: LodeServer) -> None:
    size = len(BODY) - 7
    chunks = b"%X\r\n%b\r\n007\r\n%b\r\n0\r\n\r\n" % (size, BODY[:size], BODY[size:])
    last = GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    host, _, port = server.http_url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in CHUNKED + chunks:
            connection.sendall(bytes((byte,)))
        connection.sendall(last)
        received = b""
        while data := connection.recv(65536):
            received += data
    assert statuses(received)[0] in (200, 409)
    assert statuses(received)[1:] == [200]


def test_checked_bytes_are_the_bytes_that_were_sent() -> None:
    sent = GET + POST + b"Content-Length: 3\r\n\r\nabc" + CHUNKED + b"2\r\nab\r\n0\r\n\r\n" + GET
    for step in (1, 2, 3, 7, len(sent)):
        framing = RequestFraming()
        taken = b"".join(framing.take(sent[at : at + step]) for at in range(0, len(sent), step))
        # Chunks may be cut in other places.
        assert (taken.replace(b"1\r\na\r\n1\r\nb\r\n", b"2\r\nab\r\n"), framing.complaint()) == (sent, "")


def test_nothing_of_a_refused_head_reaches_the_parser() -> None:
    framing = RequestFraming()
    assert framing.take(GET + BAD_HEADS["a length beside chunks"]) == GET
    assert framing.complaint()


def test_a_connection_without_a_request_is_closed(
    server: LodeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lode.http_framing.HEAD_SECONDS", 0)
    assert exchange(server, GET[:20]) == b""
