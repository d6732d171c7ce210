"""The functions of GoogleSQL on hosts and addresses."""

from __future__ import annotations

import ipaddress
from typing import Final
from urllib.parse import urlsplit


def host_of(url: str) -> str | None:
    cleaned = url.strip()
    if "//" not in cleaned:
        cleaned = "//" + cleaned
    try:
        return urlsplit(cleaned).netloc.rpartition("@")[2].partition(":")[0] or None
    except ValueError:
        return None


_SECOND_LEVEL: Final = frozenset(
    [
        "co.uk",
        "org.uk",
        "ac.uk",
        "gov.uk",
        "co.jp",
        "or.jp",
        "ne.jp",
        "com.au",
        "net.au",
        "org.au",
        "co.nz",
        "com.br",
        "co.in",
        "co.kr",
        "com.cn",
        "co.za",
    ]
)


def public_suffix(url: str) -> str | None:
    host = host_of(url)
    if host is None or "." not in host.strip("."):
        return None
    parts = host.rstrip(".").split(".")
    two = ".".join(parts[-2:])
    return two if two.lower() in _SECOND_LEVEL else parts[-1]


def reg_domain(url: str) -> str | None:
    host, suffix = host_of(url), public_suffix(url)
    if host is None or suffix is None:
        return None
    parts = host.rstrip(".").split(".")
    count = suffix.count(".") + 2
    return ".".join(parts[-count:]) if len(parts) >= count else None


def ip_from_string(x: str) -> bytes:
    return ipaddress.ip_address(x).packed


def safe_ip_from_string(x: str) -> bytes | None:
    try:
        return ipaddress.ip_address(x).packed
    except ValueError:
        return None


def ip_to_string(x: bytes) -> str:
    return str(ipaddress.ip_address(x))


def ipv4_to_int64(x: bytes) -> int:
    return int.from_bytes(x)


def ipv4_from_int64(x: int) -> bytes:
    return (x & 0xFFFFFFFF).to_bytes(4)


def ip_net_mask(size: int, prefix: int) -> bytes:
    bits = size * 8
    return (((1 << prefix) - 1) << (bits - prefix)).to_bytes(size)


def ip_trunc(x: bytes, prefix: int) -> bytes:
    bits = len(x) * 8
    return (int.from_bytes(x) & (((1 << prefix) - 1) << (bits - prefix))).to_bytes(len(x))
