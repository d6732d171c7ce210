"""The names of read sessions and their streams, which say all there is to know about them.

So sessions survive a restart and are served by any server over the same store: there is nothing to remember.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import msgspec

from lode.errors import NotFoundError, PathExistsError
from lode.ingest.api.grpc_read.selection import Outline, shown
from lode.ingest.names import TableName, parse_table
from lode.ingest.status import Code, Refused, invalid

if TYPE_CHECKING:
    from lode.store.protocol import Store

# Clients repeat a stream's name in a header, and the headers of a call may have 8 kB between them.
LONGEST_TOKEN: Final = 2_000
FOLDER: Final = "read-sessions"
EXPIRES: Final = timedelta(hours=24)
# A session may be created again under its name for a day, and is good for EXPIRES from then on.
_KEPT: Final = timedelta(days=1, hours=1) + EXPIRES
_LARGEST_SESSION: Final = 8 << 20

_PROJECT = re.compile(r"projects/([^/\s]{1,255})")
_STREAM = re.compile(
    rf"({_PROJECT.pattern})/locations/([^/\s]{{1,64}})/sessions/([jzs])([A-Za-z0-9_-]{{1,8192}})"
    r"/streams/(\d{1,18})-(\d{1,18})",
    re.ASCII,
)


class Session(msgspec.Struct, frozen=True, array_like=True):
    """What is read: columns and rows of one snapshot of one generation of a table."""

    table: TableName
    generation: Annotated[int, msgspec.Meta(ge=1)]
    # Empty for a table without any snapshot.
    snapshot: str
    columns: tuple[Outline, ...]
    restriction: str = ""
    compression: Annotated[int, msgspec.Meta(ge=0, le=2)] = 0
    # What the restriction's CURRENT_TIMESTAMP() is, so that it stays the same for every stream and offset.
    now_micros: int | None = None


class Span(NamedTuple):
    """Rows of a snapshot by their position in history, before any restriction."""

    start: int
    stop: int

    @property
    def rows(self) -> int:
        return self.stop - self.start


class SessionName(NamedTuple):
    """``projects/{project}/locations/{location}/sessions/{token}``."""

    project: str
    location: str
    token: str

    def __str__(self) -> str:
        return f"projects/{self.project}/locations/{self.location}/sessions/{self.token}"

    def stream(self, span: Span) -> str:
        return f"{self}/streams/{span.start}-{span.stop}"


def parse_project(parent: str) -> str:
    """The project of a request's ``parent``."""
    match = _PROJECT.fullmatch(parent)
    if match is None:
        raise invalid(f"Invalid parent {shown(parent)}: it must be projects/<project>.")
    return match[1]


def parse_read_stream(name: str) -> tuple[SessionName, Span]:
    """Read a stream's name, or refuse it."""
    match = _STREAM.fullmatch(name)
    if match is None or int(match[6]) > int(match[7]):
        raise invalid(f"Invalid read stream name {shown(name)}: use one that CreateReadSession has returned.")
    _, project, location, form, token, start, stop = match.groups()
    return SessionName(project, location, form + token), Span(int(start), int(stop))


def token_of(session: Session, store: Store) -> str:
    """The session as part of a name; one that is too long for that is put on the store, under its digest."""
    plain = msgspec.json.encode(session)
    token = "j" + _text(plain)
    if len(token) > LONGEST_TOKEN // 4:
        token = min(token, "z" + _text(zlib.compress(plain, 9)), key=len)
    if len(token) <= LONGEST_TOKEN:
        return token
    # Another name every day: an object that is created again would otherwise be as old as its first time.
    digest = hashlib.sha256(plain + datetime.now(UTC).date().isoformat().encode()).hexdigest()
    with suppress(PathExistsError):  # the same session, made before
        store.put(f"{FOLDER}/{digest}.json", plain)
    return "s" + digest


def remove_expired(store: Store, now: datetime) -> int:
    """Remove the sessions on the store that nobody can be reading any more; returns how many."""
    expired = [info.path for info in store.list(f"{FOLDER}/") if now - info.modified > _KEPT]
    for path in expired:
        store.delete(path)
    return len(expired)


def session_of(token: str, store: Store) -> Session:
    """The session that a token stands for, or a refusal."""
    try:
        session = msgspec.json.decode(_plain(token, store), type=Session)
    except (msgspec.MsgspecError, ValueError, RecursionError, zlib.error):
        raise invalid("Invalid read session name: use one that CreateReadSession has returned.") from None
    # A token can be made up, and a path must not be.
    if parse_table(str(session.table)) != session.table:
        raise invalid(
            "Invalid read session name: it names no table, use one that CreateReadSession has returned."
        )
    return session


def _plain(token: str, store: Store) -> bytes:
    form, rest = token[0], token[1:]
    if form == "s":
        return _stored(rest, store)
    octets = urlsafe_b64decode(rest + "=" * (-len(rest) % 4))
    if form == "j":
        return octets
    inflate = zlib.decompressobj()
    plain = inflate.decompress(octets, _LARGEST_SESSION)
    if not inflate.eof:
        raise ValueError("cut off, or far too long")
    return plain


def _stored(digest: str, store: Store) -> bytes:
    if not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise ValueError(digest)
    try:
        return store.get(f"{FOLDER}/{digest}.json")
    except NotFoundError:
        raise Refused(Code.NOT_FOUND, "Not found: the read session; create it again.") from None


def _text(octets: bytes) -> str:
    return urlsafe_b64encode(octets).rstrip(b"=").decode()
