"""A proxy before a server, to count requests on the wire, to lose or forge answers, and to delay requests."""

from __future__ import annotations

import http.client
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

_HOP_BY_HOP = ("connection", "keep-alive", "transfer-encoding", "content-length", "host")


class Request(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]


class Trick(NamedTuple):
    """What to do with one request instead of passing it on and back."""

    method: str
    what: Literal["lose request", "lose answer", "answer", "delay", "late"]
    status: int = 0
    body: bytes = b""
    meanwhile: Callable[[], object] | None = None
    forwards: bool = False
    # How long the request is on its way. The client of a late one is left without an answer at once.
    seconds: float = 0.0


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a client that was killed, or of a server that has ended before a late request."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]  # as it was called


class Proxy:
    """Passes requests on to a port of this machine and notes them; plays each trick once, in order.

    Args:
        port: The server's port.
        choose: Chooses a trick, or none, for a request that has none; called by one thread at a time.
    """

    def __init__(self, port: int, choose: Callable[[Request], Trick | None] | None = None) -> None:
        self.requests: list[Request] = []
        self.tricks: list[Trick] = []
        self._choose = choose
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), self._handler(port))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def port(self) -> int:
        return self._server.server_port

    @property
    def methods(self) -> list[str]:
        return [request.method for request in self.requests]

    def take_trick(self, request: Request) -> Trick | None:
        with self._lock:
            self.requests.append(request)
            if self.tricks and self.tricks[0].method == request.method:
                return self.tricks.pop(0)
            return self._choose(request) if self._choose is not None else None

    def _handler(self, port: int) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                trick = proxy.take_trick(Request(self.command, self.path, dict(self.headers.items())))
                if trick is not None and trick.what == "lose request":
                    self.hang_up(trick)
                    return
                if trick is not None and trick.what == "answer" and not trick.forwards:
                    self.answer(trick.status, [], trick.body)
                    return
                if trick is not None and trick.what == "late":
                    self.hang_up(trick)
                if trick is not None and trick.seconds:
                    time.sleep(trick.seconds)
                status, headers, content = self.forward(body)
                if trick is not None and trick.what == "late":
                    return
                if trick is None or trick.what == "delay":
                    self.answer(status, headers, content)
                elif trick.what == "answer":
                    self.answer(trick.status, [], trick.body)
                else:
                    self.hang_up(trick)

            def forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
                try:
                    headers = {k: v for k, v in self.headers.items() if k.lower() not in _HOP_BY_HOP}
                    headers["Host"] = self.headers["Host"]
                    headers["Content-Length"] = str(len(body))
                    connection.request(self.command, self.path, body, headers)
                    response = connection.getresponse()
                    return response.status, response.getheaders(), response.read()
                finally:
                    connection.close()

            def answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
                self.send_response_only(status)
                length = str(len(content))
                for name, value in headers:
                    if name.lower() == "content-length" and self.command == "HEAD":
                        length = value
                    if name.lower() not in _HOP_BY_HOP:
                        self.send_header(name, value)
                self.send_header("Content-Length", length)
                self.end_headers()
                self.wfile.write(content)

            def hang_up(self, trick: Trick) -> None:
                if trick.meanwhile is not None:
                    trick.meanwhile()
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is given
                pass

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = handle_any  # noqa: N815 - given

        return Handler

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
