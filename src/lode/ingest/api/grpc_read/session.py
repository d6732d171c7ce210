"""Read sessions: requests for one, checked, and the names that carry everything about it.

The server keeps no state about sessions. They survive a restart, and every server on the store serves them.
"""

from __future__ import annotations

import hashlib
import os
import re
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import msgspec

from lode.errors import NotFoundError, PathExistsError
from lode.format.ids import shortened
from lode.ingest.names import TableName, parse_table
from lode.ingest.status import Code, Refused, invalid

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.store.protocol import Store

AVRO: Final = 1
ARROW: Final = 2
# None, and LZ4 over a whole response. A server may send any response uncompressed, and this one always does.
RESPONSE_CODECS: Final = (0, 2)
# If the client names no number of streams.
BYTES_PER_STREAM: Final = 16 << 20
STREAMS_PER_CORE: Final = 4
MAX_STREAMS: Final = 1_000
# Clients repeat the stream's name in a header, and the headers of a call may have 8 kB in total.
MAX_TOKEN_CHARS: Final = 2_000
FOLDER: Final = "read-sessions"
EXPIRES: Final = timedelta(hours=24)
# The same name may be given out again for one day, and is then valid for EXPIRES.
_RETENTION: Final = timedelta(days=1, hours=1) + EXPIRES
_MAX_SESSION_BYTES: Final = 8 << 20

_PROJECT = re.compile(r"projects/([^/\s]{1,255})")
_STREAM = re.compile(
    rf"({_PROJECT.pattern})/locations/([^/\s]{{1,64}})/sessions/([jzs])([A-Za-z0-9_-]{{1,8192}})"
    r"/streams/(\d{1,18})-(\d{1,18})",
    re.ASCII,
)


class Outline(msgspec.Struct, frozen=True, array_like=True):
    """The name of a column, and for a struct its selected fields."""

    name: str
    fields: tuple[Outline, ...] = ()


class Session(msgspec.Struct, frozen=True, array_like=True):
    """Columns and rows of one snapshot of one generation of a table."""

    table: TableName
    generation: Annotated[int, msgspec.Meta(ge=1)]
    # Empty for a table without any snapshot.
    snapshot: str
    columns: tuple[Outline, ...]
    restriction: str = ""
    compression: Annotated[int, msgspec.Meta(ge=0, le=2)] = 0
    # The value of CURRENT_TIMESTAMP() in the restriction, the same for every stream and offset.
    now_micros: int | None = None
    format: Annotated[int, msgspec.Meta(ge=AVRO, le=ARROW)] = ARROW


class SnapshotRange(NamedTuple):
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

    def stream(self, rows: SnapshotRange) -> str:
        return f"{self}/streams/{rows.start}-{rows.stop}"


# -- requests ----------------------------------------------------------------------------------


def check_format(wanted: Any) -> None:
    """Refuse data formats and read options that are not supported."""
    if wanted.data_format == 0:
        raise invalid("data_format is not set: it must be ARROW or AVRO.")
    if wanted.data_format not in (ARROW, AVRO):
        raise invalid(f"data_format {wanted.data_format} is not known: it must be ARROW or AVRO.")
    options = wanted.read_options
    if options.response_compression_codec not in RESPONSE_CODECS:
        raise invalid(
            f"response_compression_codec {options.response_compression_codec} is not known: leave it unset."
        )
    if options.HasField("sample_percentage") and options.sample_percentage != 100:
        raise Refused(Code.UNIMPLEMENTED, "Lode does not sample tables: leave sample_percentage unset.")


def stream_count(maximum: int, preferred: int) -> Callable[[int], int]:
    """Return a function from the bytes of a session's files to its number of streams."""
    if maximum < 0 or preferred < 0:
        raise invalid("max_stream_count and preferred_min_stream_count must not be negative.")
    if maximum and preferred > maximum:
        raise invalid(f"preferred_min_stream_count is {preferred}, more than max_stream_count, {maximum}.")

    def count(size: int) -> int:
        if maximum:
            # A client that sets a maximum distributes that many units of work.
            return min(maximum, MAX_STREAMS)
        enough = min(-(-size // BYTES_PER_STREAM), STREAMS_PER_CORE * (os.cpu_count() or 1))
        return min(max(enough, preferred, 1), MAX_STREAMS)

    return count


def parse_snapshot_time(stamp: Any) -> datetime:
    """Convert ``snapshot_time``, or refuse it."""
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=stamp.seconds)
    except OverflowError:
        moment = None
    if moment is None or not 0 <= stamp.nanos < 1_000_000_000:
        raise invalid("snapshot_time is not a valid time.")
    return moment + timedelta(microseconds=stamp.nanos // 1000)


def parse_project(parent: str) -> str:
    """The project of a request's ``parent``."""
    match = _PROJECT.fullmatch(parent)
    if match is None:
        raise invalid(f"Invalid parent {shortened(parent)}: it must be projects/<project>.")
    return match[1]


def parse_read_stream(name: str) -> tuple[SessionName, SnapshotRange]:
    """Parse a stream's name, or refuse it."""
    match = _STREAM.fullmatch(name)
    if match is None or int(match[6]) > int(match[7]):
        raise invalid(
            f"Invalid read stream name {shortened(name)}: use one that CreateReadSession has returned."
        )
    _, project, location, form, token, start, stop = match.groups()
    return SessionName(project, location, form + token), SnapshotRange(int(start), int(stop))


# -- tokens ------------------------------------------------------------------------------------


def encode_session(session: Session, store: Store) -> str:
    """Return the session's token. A session too long for a name is put on the store under its digest."""
    plain = msgspec.json.encode(session)
    token = "j" + _base64(plain)
    if len(token) > MAX_TOKEN_CHARS // 4:
        token = min(token, "z" + _base64(zlib.compress(plain, 9)), key=len)
    if len(token) <= MAX_TOKEN_CHARS:
        return token
    # The date is part of the digest: under an unchanged name the object would keep its first timestamp.
    digest = hashlib.sha256(plain + datetime.now(UTC).date().isoformat().encode()).hexdigest()
    with suppress(PathExistsError):  # the same session was created earlier today
        store.put(f"{FOLDER}/{digest}.json", plain)
    return "s" + digest


def decode_session(token: str, store: Store) -> Session:
    """Return the session of a token, or refuse it."""
    try:
        session = msgspec.json.decode(_plain(token, store), type=Session)
    except (msgspec.MsgspecError, ValueError, RecursionError, zlib.error):
        raise invalid("Invalid read session name: use one that CreateReadSession has returned.") from None
    # Clients can forge a token, and the table's name becomes a path.
    if parse_table(str(session.table)) != session.table:
        raise invalid(
            "Invalid read session name: it names no table, use one that CreateReadSession has returned."
        )
    return session


def remove_expired(store: Store, now: datetime) -> int:
    """Remove expired sessions from the store; returns their number."""
    expired = [info.path for info in store.list(f"{FOLDER}/") if now - info.modified > _RETENTION]
    for path in expired:
        store.delete(path)
    return len(expired)


def _plain(token: str, store: Store) -> bytes:
    form, rest = token[0], token[1:]
    if form == "s":
        return _stored(rest, store)
    octets = urlsafe_b64decode(rest + "=" * (-len(rest) % 4))
    if form == "j":
        return octets
    inflate = zlib.decompressobj()
    plain = inflate.decompress(octets, _MAX_SESSION_BYTES)
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


def _base64(octets: bytes) -> str:
    return urlsafe_b64encode(octets).rstrip(b"=").decode()
