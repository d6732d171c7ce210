"""How a server runs: every flag of ``lode serve`` in one place."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from lode.errors import InvalidOptionError
from lode.http_guard import is_loopback
from lode.store.local import LocalStore
from lode.store.open import open_store
from lode.store.protocol import Store, SupportsCompareAndSwap

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# How many times larger than the largest request its rows may be in memory. Dense rows take two to three times
# their size in Protobuf, integers of one byte eight times.
MAX_EXPANSION = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of one server.

    Args:
        root: The lake: a URL, a directory or a store.
        store_options: Options of the lake's store, such as its endpoint.
        state: Where write streams survive a restart: a local directory, of one server at a time. Beside
            the tables in a local lake if not given.
        host: The address to listen on.
        port: The port of gRPC; 0 takes a free one.
        http_port: The port of REST, metrics and health; 0 takes a free one.
        tls_cert: The certificate chain, a PEM file. With ``tls_key`` both ports speak TLS.
        tls_key: Its private key.
        client_ca: Only clients with a certificate from this authority may connect.
        token_file: A file of bearer tokens, one a line; clients must present one of them.
        allow_hosts: Names that HTTP requests may give for this host, besides loopback and ``host``. A
            listener on loopback answers to no other name, one on another address to any if this is empty.
        location: Where datasets are that name no location.
        request_bytes: The largest append request. Its rows may take eight times as much in memory.
        window_bytes: How much of all requests may be in memory before their answers, and how much of the rows
            that they unpack to.
        staged_bytes: How much PENDING and BUFFERED streams may have on disk together.
        streams: How many streams may be open.
        stream_ttl: Seconds after which an unused stream is removed, with what it staged.
        grace: Seconds that calls under way have when the server stops.
    """

    root: str | Path | Store
    store_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    state: Path | None = None
    host: str = "127.0.0.1"
    port: int = 9060
    http_port: int = 9050
    tls_cert: Path | None = None
    tls_key: Path | None = None
    client_ca: Path | None = None
    token_file: Path | None = None
    allow_hosts: tuple[str, ...] = ()
    location: str = "US"
    request_bytes: int = 20 << 20
    window_bytes: int = 96 << 20
    staged_bytes: int = 64 << 30
    streams: int = 10_000
    stream_ttl: float = 3 * 24 * 3600
    grace: float = 10.0
    tokens: frozenset[str] = field(default=frozenset(), repr=False)

    def __post_init__(self) -> None:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise InvalidOptionError(
                "TLS needs both a certificate and its key: give --tls-cert and --tls-key"
            )
        if self.client_ca is not None and self.tls_cert is None:
            raise InvalidOptionError("--client-ca needs TLS: give --tls-cert and --tls-key too")
        for name in ("port", "http_port"):
            if not 0 <= getattr(self, name) <= 65535:
                raise InvalidOptionError(f"{name} is {getattr(self, name)}: ports go from 0 to 65535")
        if not re.fullmatch(r"[A-Za-z0-9-]{1,64}", self.location):
            raise InvalidOptionError(f"location is {self.location!r}: it must be like US or europe-west3")
        if self.grace < 0:
            raise InvalidOptionError(f"grace is {self.grace}: it must not be less than 0")
        for name in ("request_bytes", "window_bytes", "staged_bytes", "streams", "stream_ttl"):
            if getattr(self, name) <= 0:
                raise InvalidOptionError(f"{name} is {getattr(self, name)}: it must be more than 0")

    def known_hosts(self, address: str) -> tuple[str, ...] | None:
        """The names that HTTP requests to this address may give, besides loopback; None if any will do."""
        if is_loopback(address) or self.allow_hosts:
            return (self.host, *self.allow_hosts)
        return None

    @property
    def unpacked_bytes(self) -> int:
        """How much memory the rows of one append may take."""
        return MAX_EXPANSION * self.request_bytes

    @property
    def is_exposed(self) -> bool:
        """Whether others could reach the server without a secret."""
        return not is_loopback(self.host) and self.client_ca is None and not self.all_tokens()

    def all_tokens(self) -> frozenset[str]:
        """The tokens clients may present; none means that no token is asked for."""
        if self.token_file is None:
            return self.tokens
        try:
            lines = self.token_file.read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidOptionError(f"the token file {self.token_file} cannot be read: {error}") from None
        found = frozenset(line.strip() for line in lines if line.strip() and not line.startswith("#"))
        if not found:
            raise InvalidOptionError(f"the token file {self.token_file} holds no token: put one on each line")
        return found | self.tokens

    def open_root(self) -> Store:
        """The lake's store, which must be able to compare and swap."""
        store = open_store(self.root, **self.store_options)
        if not isinstance(store, SupportsCompareAndSwap):
            raise InvalidOptionError(f"{store.url} cannot compare and swap: a server needs a store that can")
        return store

    def state_directory(self, store: Store) -> Path:
        """Where streams survive."""
        if self.state is not None:
            return self.state
        if isinstance(store, LocalStore):
            return store.root / "ingest-state"
        raise InvalidOptionError(
            f"write streams need a local directory to survive in, as {_scheme(store.url)} is not one: "
            "give --state DIR"
        )


def _scheme(url: str) -> str:
    return f"{urlsplit(url).scheme}://"
