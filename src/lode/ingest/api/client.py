"""The client of a request: a short name that limits, jobs and the audit log use.

It is a digest of what the client has proved: its token, else its certificate. Without either, it is the
address of the connection. A client cannot choose its name: a token that nobody checks, or a header such as
X-Forwarded-For, changes nothing.
"""

from __future__ import annotations

import ipaddress
import re
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Mapping

_DIGEST_CHARS: Final = 12
# One host may use all addresses of such a network.
_IPV6_HOST_BITS: Final = 64
_GRPC_PEER: Final = re.compile(r"ipv[46]:\[?([^\]]*?)\]?:[0-9]+")
# What an ASGI scope has of a request after its token was checked.
_KEY: Final = "lode.client"


def client_name(*, token: bytes = b"", certificate: str = "", address: str = "") -> str:
    """The name of a client: ``token-…``, ``cert-…``, or its address.

    Args:
        token: The token, if the server has checked it.
        certificate: The SHA-256 of the certificate, if the server has checked it.
        address: The address of the connection.
    """
    if token:
        return f"token-{sha256(token).hexdigest()[:_DIGEST_CHARS]}"
    if certificate:
        return f"cert-{certificate[:_DIGEST_CHARS]}"
    return _network(address)


def _network(address: str) -> str:
    """The address; of IPv6 the network, as one host has many addresses."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return "local"  # a socket of this machine
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    if found.is_loopback:
        return str(found)
    return str(ipaddress.ip_network((found, _IPV6_HOST_BITS), strict=False))


def name_scope(scope: Any, token: bytes) -> None:
    """Give the request of an ASGI scope the name of its client."""
    state: Mapping[str, Any] = scope.get("state") or {}
    address = state.get("peer") or (scope.get("client") or ("",))[0]
    scope[_KEY] = client_name(token=token, certificate=state.get("certificate", ""), address=address)


def client_of_scope(scope: Any) -> str:
    """The client of an ASGI scope; empty if the application has no names."""
    name: str = scope.get(_KEY, "")
    return name


def client_of_call(context: Any, token: bytes) -> str:
    """The client of a gRPC call."""
    found: Any = (context.auth_context() or {}).get("x509_pem_cert")
    certificate = sha256(_der(b"".join(found))).hexdigest() if found else ""
    match = _GRPC_PEER.fullmatch(unquote(context.peer() or ""))
    return client_name(token=token, certificate=certificate, address=match[1] if match else "")


def _der(pem: bytes) -> bytes:
    """The bytes of a certificate, which HTTP and gRPC give in two forms."""
    import ssl

    return ssl.PEM_cert_to_DER_cert(pem.decode("ascii"))
