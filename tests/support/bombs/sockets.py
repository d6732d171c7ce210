"""Connections that are slow, idle, many or never read: each ends by itself after some seconds."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from support.bombs.served import BASE, TABLE, End

if TYPE_CHECKING:
    from support.bombs.served import Served

SECONDS = 2.0


def _open(served: Served, stack: ExitStack, count: int) -> list[socket.socket]:
    host, _, port = served.addresses["http"].rpartition(":")
    found = []
    for _ in range(count):
        with suppress(OSError):  # a server may refuse more
            found.append(stack.enter_context(socket.create_connection((host, int(port)), 2)))
            found[-1].setblocking(False)
    return found


def _send(connections: list[socket.socket], data: bytes) -> int:
    sent = 0
    for each in connections:
        with suppress(OSError):
            sent += each.send(data)
    return sent


def _head(verb: str, path: str, *lines: str) -> bytes:
    return "\r\n".join([f"{verb} {path} HTTP/1.1", "Host: 127.0.0.1", *lines, "", ""]).encode()


def idle_connections(served: Served, count: int = 2_000) -> End:
    """2,000 connections that send nothing."""
    with ExitStack() as stack:
        opened = _open(served, stack, count)
        time.sleep(SECONDS)
        return End(200, f"{len(opened)} connections")


def slow_headers(served: Served, count: int = 500) -> End:
    """500 connections that send a header a byte at a time."""
    with ExitStack() as stack:
        opened = _open(served, stack, count)
        _send(opened, b"GET /healthz HTTP/1.1\r\nX-A: ")
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            _send(opened, b"a")
            time.sleep(0.2)
        return End(200, f"{len(opened)} connections")


def slow_bodies(served: Served, count: int = 300) -> End:
    """300 inserts that send a body of 10 MB a byte at a time."""
    return _slow(served, count, f"{TABLE}/insertAll", "application/json", b'{"rows":[')


def slow_uploads(served: Served, count: int = 300) -> End:
    """300 uploads that send a file a byte at a time."""
    begin = b'--m\r\n\r\n{"configuration":{"load":{}}}\r\n--m\r\n\r\n'
    path = f"/upload{BASE}/jobs?uploadType=multipart"
    return _slow(served, count, path, "multipart/related; boundary=m", begin)


def large_slow_bodies(served: Served, count: int = 60) -> End:
    """60 inserts that send 9 MB of a body of 10 MB, and then nothing."""
    head = _head("POST", f"{TABLE}/insertAll", "Content-Type: application/json", "Content-Length: 10000000")
    with ExitStack() as stack:
        opened = _open(served, stack, count)
        _send(opened, head)
        piece = b" " * 100_000
        until = time.monotonic() + SECONDS
        sent = 0
        while time.monotonic() < until:
            sent += _send(opened, piece) if sent < count * 9_000_000 else 0
        return End(200, f"{sent:,} bytes")


def _slow(served: Served, count: int, path: str, kind: str, begin: bytes) -> End:
    head = _head("POST", path, f"Content-Type: {kind}", "Content-Length: 10000000")
    with ExitStack() as stack:
        opened = _open(served, stack, count)
        _send(opened, head + begin)
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            _send(opened, b" ")
            time.sleep(0.2)
        return End(200, f"{len(opened)} connections")


def tiny_chunks(served: Served, count: int = 20) -> End:
    """20 inserts whose bodies come in chunks of one byte."""
    head = _head("POST", f"{TABLE}/insertAll", "Content-Type: application/json", "Transfer-Encoding: chunked")
    with ExitStack() as stack:
        opened = _open(served, stack, count)
        _send(opened, head)
        until = time.monotonic() + SECONDS
        sent = 0
        while time.monotonic() < until:
            sent += _send(opened, b"1\r\n \r\n" * 2_000)
        return End(200, f"{sent:,} bytes")


def never_reads(served: Served, count: int = 50) -> End:
    """50 clients that ask for a page of jobs again and again, and never read an answer."""
    with ExitStack() as stack:
        opened = _open(served, stack, count)
        until = time.monotonic() + SECONDS
        asks = _head("GET", f"{BASE}/jobs?projection=full") * 50
        while time.monotonic() < until:
            _send(opened, asks)
            time.sleep(0.05)
        return End(200, f"{len(opened)} connections")


def pipelined(served: Served, count: int = 10) -> End:
    """Ten clients that send requests without waiting for the answers."""
    with ExitStack() as stack:
        opened = _open(served, stack, count)
        until = time.monotonic() + SECONDS
        asks = _head("GET", f"{BASE}/datasets") * 100
        while time.monotonic() < until:
            _send(opened, asks)
            for each in opened:
                with suppress(OSError):
                    each.recv(1 << 20)
        return End(200, f"{len(opened)} connections")


def large_headers(served: Served, count: int = 50) -> End:
    """50 requests with 5 MB of headers."""
    with ExitStack() as stack:
        opened = _open(served, stack, count)
        _send(opened, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        until = time.monotonic() + SECONDS
        sent = 0
        while time.monotonic() < until:
            sent += _send(opened, b"X-A: 1\r\n" * 5_000)
        return End(200, f"{sent:,} bytes")


def long_path(served: Served) -> End:
    """A request of 20 MB of parameters."""
    status, _, answer = served.call("GET", f"{BASE}/datasets?" + "a=1&" * 5_000_000, timeout=20)
    # The server may close the connection while the client still sends.
    return End(status or 400, answer[:80].decode("utf-8", "replace"))


ALL = (
    idle_connections,
    slow_headers,
    slow_bodies,
    slow_uploads,
    large_slow_bodies,
    tiny_chunks,
    never_reads,
    pipelined,
    large_headers,
    long_path,
)
