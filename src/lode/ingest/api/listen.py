"""Check addresses and certificates before the servers use them, for errors of one line."""

from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING

from lode.errors import InvalidOptionError

if TYPE_CHECKING:
    from lode.ingest.settings import Settings


def address_of(host: str, port: int) -> str:
    """Return ``host:port``, with brackets around an IPv6 address."""
    bare = host.strip("[]")
    return f"[{bare}]:{port}" if ":" in bare else f"{bare}:{port}"


def listen(host: str, port: int, option: str) -> socket.socket:
    """Return a listening socket, or raise an error of one line."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host.strip("[]") or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        # With its protocol: asyncio disables Nagle's algorithm, which delays answers by 40 ms, only on
        # sockets with an explicit TCP protocol.
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise InvalidOptionError(f"cannot listen on {host!r} ({_reason(error)}): change --host") from None
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(2048)
    except OSError as error:
        listening.close()
        raise InvalidOptionError(
            f"cannot listen on {address_of(host, port)} ({_reason(error)}): choose another port with {option}"
        ) from None
    return listening


def check_tls(settings: Settings) -> None:
    """Refuse invalid certificates and keys, and pairs that do not match."""
    if settings.tls_cert is None or settings.tls_key is None:
        return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for file in filter(None, (settings.tls_cert, settings.tls_key, settings.client_ca)):
        try:
            file.read_bytes()
        except OSError as error:
            raise InvalidOptionError(f"{file} cannot be read ({_reason(error)})") from None
    try:
        context.load_cert_chain(settings.tls_cert, settings.tls_key, password="")
    except OSError as error:
        raise InvalidOptionError(
            f"{settings.tls_cert} and {settings.tls_key} are not a certificate and its key, both PEM and "
            f"without a password ({_reason(error)})"
        ) from None
    if settings.client_ca is not None:
        try:
            context.load_verify_locations(settings.client_ca)
        except OSError as error:
            raise InvalidOptionError(
                f"{settings.client_ca} is not a certificate in PEM ({_reason(error)})"
            ) from None


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
