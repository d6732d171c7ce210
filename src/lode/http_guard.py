"""Keeps web pages away from a server of this machine: ``lode serve`` and ``lode ui`` both use it.

A browser sends requests of any page to any address, loopback included. Two checks stop that:

- **Host.** A page can point a name of its own at 127.0.0.1 and is then of the same origin as the server
  (DNS rebinding). Its requests carry that name. A listener on loopback answers only to known names.
- **Origin.** A request that changes something is refused when a page of another origin sent it. Browsers
  say so in ``Origin`` and ``Sec-Fetch-Site``; other clients send neither.

No answer has a CORS header, so a page of another origin cannot read answers either.
"""

from __future__ import annotations

import ipaddress
import json
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
# A browser sends "none" when the user asked for the request, such as in the address bar.
_OWN_SITES: Final = frozenset({b"same-origin", b"none"})
_AUTHORITY: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/@\[\]]+)(?::[0-9]{1,5})?")
_MAX_SHOWN: Final = 100
# Health checks use an address, or no name at all, and their answers say nothing about the data.
_HEALTH_PATHS: Final = frozenset({"/healthz", "/readyz"})
# Other origins may not embed an answer, nor have its type guessed.
_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine itself: ``localhost``, 127.0.0.0/8 or ``::1``."""
    bare = host.removeprefix("[").removesuffix("]")
    if bare.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(bare).is_loopback
    except ValueError:
        return False


class HttpGuard:
    """Refuses requests of foreign web pages with 403.

    Args:
        app: The application that it protects.
        hosts: The names to answer to, besides loopback; None answers to every name.
    """

    def __init__(self, app: ASGIApp, hosts: Iterable[str] | None = ()) -> None:
        self._app = app
        self._hosts = None if hosts is None else {_bare(host) for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name for name, _ in message["headers"]}
                added = [pair for pair in _HEADERS if pair[0] not in present]
                message["headers"] = [*message["headers"], *added]
            await send(message)

        complaint = self._complaint(scope["method"], scope["path"], scope["headers"])
        if complaint is None:
            await self._app(scope, receive, with_headers)
        else:
            await _refuse(complaint, with_headers)

    def _complaint(self, method: str, path: str, headers: Iterable[tuple[bytes, bytes]]) -> str | None:
        """What is wrong with a request; None if nothing is."""
        sent: dict[bytes, list[bytes]] = {}
        for name, value in headers:
            sent.setdefault(name.lower(), []).append(value.strip().lower())
        named = sent.get(b"host", [])
        if path not in _HEALTH_PATHS and not self._trusts(named):
            return (
                f"The host {_shown(named)} is not known to this server: use localhost or 127.0.0.1, or start "
                "it with --allow-host."
            )
        if method in _SAFE_METHODS:
            return None
        for origin in sent.get(b"origin", []):
            if origin.partition(b"://")[2] not in named or not origin.startswith((b"http://", b"https://")):
                return f"A web page of the origin {_shown([origin])} may not change anything here."
        if not _OWN_SITES.issuperset(sent.get(b"sec-fetch-site", [])):
            return "A web page of another origin may not change anything here."
        return None

    def _trusts(self, named: list[bytes]) -> bool:
        if self._hosts is None:
            return True
        match = _AUTHORITY.fullmatch(named[0].decode("latin-1")) if len(named) == 1 else None
        return match is not None and (is_loopback(match[1]) or _bare(match[1]) in self._hosts)


def _bare(host: str) -> str:
    return host.lower().removeprefix("[").removesuffix("]")


def _shown(values: list[bytes]) -> str:
    return repr(b", ".join(values).decode("latin-1")[:_MAX_SHOWN])


async def _refuse(message: str, send: Send) -> None:
    one = {"message": message, "domain": "global", "reason": "forbidden"}
    error: dict[str, Any] = {
        "code": 403,
        "message": message,
        "errors": [one],
        "status": "PERMISSION_DENIED",
    }
    body = json.dumps({"error": error}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": body})
