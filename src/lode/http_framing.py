"""Strict framing of HTTP/1.1: this server and a proxy before it agree where a request ends.

The parser, h11, accepts what two readers may understand differently: a length beside chunks, lines that end
with LF alone, folded headers, extensions of chunks. Here every byte is checked before the parser sees it.
``lode serve`` and ``lode ui`` both use it.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio

MAX_HEAD_BYTES: Final = 64 << 10
MAX_HEADERS: Final = 200
# The time that a new connection has for the head of its first request.
HEAD_SECONDS: Final = 30.0
# A line of chunked data: a size, and no extension.
_MAX_CHUNK_LINE: Final = 16
# Chunks of a body that may have any size. With more of them, they have this size on average: each costs time.
_FREE_CHUNKS: Final = 1000
_MIN_CHUNK_BYTES: Final = 64

_REQUEST_LINE: Final = re.compile(rb"[-!#$%&'*+.^_`|~0-9A-Za-z]{1,64} [\x21-\x7e]+ HTTP/1\.[01]")
_HEADER: Final = re.compile(rb"([-!#$%&'*+.^_`|~0-9A-Za-z]+):[ \t]*([\t\x20-\x7e\x80-\xff]*)")
_BARE: Final = re.compile(rb"(?<!\r)\n|\r(?!\n|\Z)")
_LENGTH: Final = re.compile(rb"[0-9]{1,18}")
_CHUNK_SIZE: Final = re.compile(rb"[0-9A-Fa-f]{1,14}")


class _Bad(Exception):  # noqa: N818, what the client reads
    """Bytes that are not one request after the other."""


class _Part(Enum):
    HEAD = auto()
    BODY = auto()
    CHUNK_SIZE = auto()
    CHUNK = auto()
    CHUNK_END = auto()
    LAST_LINE = auto()


class RequestFraming:
    """Follows the requests of one connection."""

    def __init__(self) -> None:
        self._complaint = ""
        self._part = _Part.HEAD
        self._waiting = bytearray()
        self._searched = 0  # the bytes of an incomplete head that were looked at
        self._left = 0
        self._chunks = self._chunk_bytes = 0  # of the body

    def take(self, data: bytes) -> bytes:
        """Return the bytes that the parser may have; incomplete lines wait for the rest.

        The parser gets the data of many chunks as one.
        """
        self._waiting += data
        checked, chunk = bytearray(), bytearray()
        try:
            while self._waiting:
                part = self._part
                size = self._step()
                if not size:
                    break
                if part is _Part.CHUNK:
                    chunk += self._waiting[:size]
                elif part is _Part.LAST_LINE:
                    checked += _chunk(chunk) + b"0\r\n\r\n"
                    chunk.clear()
                elif part in (_Part.HEAD, _Part.BODY):
                    checked += self._waiting[:size]
                del self._waiting[:size]
        except _Bad as bad:
            self._complaint = str(bad)
        return bytes(checked + _chunk(chunk))

    def complaint(self) -> str:
        """Why the rest of the connection is refused; empty while nothing is."""
        return self._complaint

    def _step(self) -> int:
        """Check the next part; returns its size, 0 if it has not arrived."""
        match self._part:
            case _Part.HEAD:
                return self._head()
            case _Part.BODY:
                return self._counted(_Part.HEAD)
            case _Part.CHUNK_SIZE:
                return self._chunk_size()
            case _Part.CHUNK:
                return self._counted(_Part.CHUNK_END)
            case _Part.CHUNK_END:
                return self._line_end("A chunk is longer than its size", _Part.CHUNK_SIZE)
            case _Part.LAST_LINE:
                return self._line_end("Trailers are not supported", _Part.HEAD)

    def _head(self) -> int:
        end = self._waiting.find(b"\r\n\r\n", max(0, self._searched - 3))
        if end < 0:
            begin, self._searched = max(0, self._searched - 1), len(self._waiting)
            if _BARE.search(self._waiting, begin):
                raise _Bad("A line ends with LF or CR alone")
            if len(self._waiting) > MAX_HEAD_BYTES:
                raise _Bad(f"The headers have more than {MAX_HEAD_BYTES} bytes")
            return 0
        if end > MAX_HEAD_BYTES:
            raise _Bad(f"The headers have more than {MAX_HEAD_BYTES} bytes")
        self._searched = 0
        self._begin_body(bytes(self._waiting[:end]).split(b"\r\n"))
        return end + 4

    def _begin_body(self, lines: list[bytes]) -> None:
        if _REQUEST_LINE.fullmatch(lines[0]) is None:
            raise _Bad("The request line is not valid")
        if len(lines) > MAX_HEADERS + 1:
            raise _Bad(f"The request has more than {MAX_HEADERS} headers")
        lengths: list[bytes] = []
        codings: list[bytes] = []
        for line in lines[1:]:
            header = _HEADER.fullmatch(line)
            if header is None:
                raise _Bad("A header is not valid: it is folded, or has other characters")
            name = header[1].lower()
            if name == b"content-length":
                lengths.append(header[2].strip())
            elif name == b"transfer-encoding":
                codings.append(header[2].strip().lower())
        if codings:
            if codings != [b"chunked"] or lengths or lines[0].endswith(b"1.0"):
                raise _Bad("Transfer-Encoding must be chunked, once, and without Content-Length")
            self._part = _Part.CHUNK_SIZE
            self._chunks = self._chunk_bytes = 0
        elif lengths:
            if len(lengths) > 1 or _LENGTH.fullmatch(lengths[0]) is None:
                raise _Bad("Content-Length must be one whole number")
            self._left = int(lengths[0])
            self._part = _Part.BODY if self._left else _Part.HEAD

    def _counted(self, after: _Part) -> int:
        size = min(self._left, len(self._waiting))
        self._left -= size
        if not self._left:
            self._part = after
        return size

    def _chunk_size(self) -> int:
        end = self._waiting.find(b"\r\n", 0, _MAX_CHUNK_LINE)
        line = bytes(self._waiting[: _MAX_CHUNK_LINE if end < 0 else end])
        if end < 0 and len(line) < _MAX_CHUNK_LINE:
            line = line.removesuffix(b"\r")
            if line and _CHUNK_SIZE.fullmatch(line) is None:
                raise _Bad("The size of a chunk is not a hexadecimal number")
            return 0
        if end < 0 or _CHUNK_SIZE.fullmatch(line) is None:
            raise _Bad("The size of a chunk is not a hexadecimal number, without extensions")
        self._left = int(line, 16)
        self._chunks += 1
        self._chunk_bytes += self._left
        if self._chunks > _FREE_CHUNKS and self._chunk_bytes < self._chunks * _MIN_CHUNK_BYTES:
            raise _Bad("The chunks are too small")
        self._part = _Part.CHUNK if self._left else _Part.LAST_LINE
        return end + 2

    def _line_end(self, complaint: str, after: _Part) -> int:
        if not b"\r\n".startswith(self._waiting[:2]):
            raise _Bad(complaint)
        if len(self._waiting) < 2:
            return 0
        self._part = after
        return 2


def _chunk(data: bytearray) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), bytes(data)) if data else b""


class StrictHttp(H11Protocol):
    """uvicorn's protocol behind ``RequestFraming``. A refusal is 400, and ends the connection.

    ``scope["state"]`` has ``peer``, the address at the other end, and ``certificate``, a digest of the
    certificate that TLS has checked. Headers of proxies change neither.
    """

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._framing = RequestFraming()
        self._patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        shown = {"peer": peer[0] if isinstance(peer, tuple) else "", "certificate": _certificate(transport)}
        self.app_state = {**self.app_state, **shown}
        self._patience = self.loop.call_later(HEAD_SECONDS, transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._began()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._framing.complaint():
            return
        checked = self._framing.take(data)
        if checked:
            self._began()
            super().data_received(checked)
        if self._framing.complaint():
            self._refuse()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._framing.complaint():
            self._refuse()

    def _refuse(self) -> None:
        """Answer 400 and close, after the answers to the requests that came before."""
        if self.transport.is_closing():
            return
        running = self.cycle is not None and not self.cycle.response_complete
        if running and not self.cycle.more_body:
            return
        if not running or not self.cycle.response_started:
            self.transport.write(_bad_request(self._framing.complaint()))
        self.transport.close()

    def _began(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None


def _certificate(transport: asyncio.Transport) -> str:
    secured = transport.get_extra_info("ssl_object")
    certificate = secured.getpeercert(binary_form=True) if secured is not None else None
    return sha256(certificate).hexdigest() if certificate else ""


def _bad_request(complaint: str) -> bytes:
    text = f"Invalid HTTP request: {complaint}.\n".encode()
    head = (
        "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\n"
        f"content-length: {len(text)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + text
