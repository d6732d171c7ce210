"""The settings of a server: all flags of ``lode serve``.

``lode.cli.flags`` creates the flags from the fields and their lines in the docstring.
"""

# No ``from __future__ import annotations``: the flags are created from the types.

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lode.errors import InvalidOptionError
from lode.http_guard import is_loopback
from lode.store.open import open_store
from lode.store.protocol import Store, SupportsCompareAndSwap, SupportsLocalPath
from lode.units import Bytes, Seconds

# The memory of decoded rows, as a multiple of the largest request. Dense rows take two to three times their
# size in Protobuf, integers of one byte eight times.
MAX_EXPANSION = 8
MIN_QUERY_BYTES = 16 << 20
MIN_LOAD_BYTES = 64 << 20
_POSITIVE = (
    "request_bytes",
    "window_bytes",
    "staged_bytes",
    "client_staged_bytes",
    "uploads",
    "client_uploads",
    "loads",
    "load_time",
    "queries",
    "query_threads",
    "query_time",
    "result_bytes",
    "streams",
    "client_streams",
    "stream_ttl",
    "empty_stream_ttl",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of one server.

    Args:
        root: The lake: a URL, a directory or a store.
        store_options: Options of the lake's store, such as its endpoint.
        state: The local directory that keeps write streams over a restart; one server uses it at a time. A
            local lake has it beside the tables if not given.
        host: The address to listen on.
        port: The port of gRPC; 0 takes a free one.
        http_port: The port of REST, metrics and health; 0 takes a free one.
        tls_cert: The certificate chain, a PEM file; with its key both ports use TLS.
        tls_key: The private key of the certificate, a PEM file.
        client_ca: Accept only clients with a certificate of this authority, a PEM file.
        token_file: Accept only clients with one of the bearer tokens in this file, one a line.
        allow_hosts: A name that HTTP requests may use for this host, such as that of a proxy; several are
            fine. A listener on loopback accepts no other name, one on another address any if there is none.
        location: The location of datasets that are created without one.
        request_bytes: The largest append request; its rows may take eight times as much memory.
        window_bytes: The memory for all requests together, and as much again for their decoded rows.
        staged_bytes: The disk space for the rows of all PENDING and BUFFERED streams and the files of load
            jobs together.
        client_staged_bytes: The part of staged_bytes that one client may use.
        uploads: The number of uploads for load jobs that may be open.
        client_uploads: The number of uploads that one client may have open.
        buckets: The directory with the buckets that load jobs read and extract jobs write: gs://bucket/file
            is bucket/file in it. Such jobs are refused if not given.
        loads: The number of load jobs that run at the same time; others wait.
        load_bytes: The memory of the process that reads the files of one load job.
        load_time: The longest time of one load job.
        queries: The number of SQL queries that run at the same time; others wait.
        query_bytes: The memory of one SQL query.
        query_threads: The threads of one SQL query.
        query_time: The longest time of one SQL query.
        result_bytes: The largest result of one SQL query.
        streams: The number of streams that may be open.
        client_streams: The number of streams that one client may have open.
        stream_ttl: The time after which an unused stream is removed with its staged rows.
        empty_stream_ttl: The time after which an unused stream without any row is removed.
        compact: Put small files of the tables that it writes together, in a tenth of one core's time.
        audit_log: The file for the audit log, one line of JSON for each change and each refused token. They
            are logged if not given.
        grace: The time that running calls have to end when the server stops.
        tokens: Bearer tokens, besides those in ``token_file``.
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
    request_bytes: Bytes = 20 << 20
    window_bytes: Bytes = 96 << 20
    staged_bytes: Bytes = 64 << 30
    client_staged_bytes: Bytes = 32 << 30
    uploads: int = 1_000
    client_uploads: int = 100
    buckets: Path | None = None
    loads: int = 2
    load_bytes: Bytes = 1 << 30
    load_time: Seconds = 3600
    queries: int = 4
    query_bytes: Bytes = 1 << 30
    query_threads: int = 1
    query_time: Seconds = 600
    result_bytes: Bytes = 10 << 30
    streams: int = 10_000
    client_streams: int = 2_500
    stream_ttl: Seconds = 3 * 24 * 3600
    empty_stream_ttl: Seconds = 3600
    compact: bool = False
    audit_log: Path | None = None
    grace: Seconds = 10.0
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
        for name in _POSITIVE:
            if getattr(self, name) <= 0:
                raise InvalidOptionError(f"{name} is {getattr(self, name)}: it must be more than 0")
        if self.query_bytes < MIN_QUERY_BYTES:
            raise InvalidOptionError(f"query_bytes is {self.query_bytes}: a query needs at least 16MiB")
        if self.load_bytes < MIN_LOAD_BYTES:
            raise InvalidOptionError(f"load_bytes is {self.load_bytes}: a load job needs at least 64MiB")

    def known_hosts(self, address: str) -> tuple[str, ...] | None:
        """The host names allowed in HTTP requests to this address, besides loopback; None allows all."""
        if is_loopback(address) or self.allow_hosts:
            return (self.host, *self.allow_hosts)
        return None

    @property
    def unpacked_bytes(self) -> int:
        """The memory that the rows of one append may take."""
        return MAX_EXPANSION * self.request_bytes

    @property
    def is_exposed(self) -> bool:
        """Whether other hosts can reach the server without a token or certificate."""
        return not is_loopback(self.host) and self.client_ca is None and not self.all_tokens()

    def all_tokens(self) -> frozenset[str]:
        """The accepted tokens; if there are none, no token is required."""
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
        """Open the lake's store, which must support compare-and-swap."""
        store = open_store(self.root, **self.store_options)
        if not isinstance(store, SupportsCompareAndSwap):
            raise InvalidOptionError(f"{store.url} cannot compare and swap: a server needs a store that can")
        return store

    def state_directory(self, store: Store) -> Path:
        """The local directory for write streams."""
        if self.state is not None:
            return self.state
        if isinstance(store, SupportsLocalPath):
            return store.root / "ingest-state"
        raise InvalidOptionError(
            f"write streams need a local directory to survive in, as {_scheme(store.url)} is not one: "
            "give --state DIR"
        )


def check_buckets(buckets: Path | None, store: Store, state: Path) -> None:
    """Refuse buckets that share a directory with the lake or the state: jobs would write over its files."""
    if buckets is None:
        return
    own = buckets.resolve()
    places = [("the state directory", state)]
    if isinstance(store, SupportsLocalPath):
        places.append(("the lake", store.root))
    for what, place in places:
        other = place.resolve()
        if own.is_relative_to(other) or other.is_relative_to(own):
            raise InvalidOptionError(
                f"--buckets {buckets} is, contains or lies in {what}, {place}: choose a directory of its own"
            )


def _scheme(url: str) -> str:
    return f"{urlsplit(url).scheme}://"
