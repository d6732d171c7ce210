"""One REST call: its names, its parameters and its body, read and bounded."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec
from starlette.concurrency import run_in_threadpool

from lode.format.ids import is_utf8, shortened
from lode.ingest.api.errors import TooLarge
from lode.ingest.api.rest.fields import parse_fields
from lode.ingest.catalog.dataset import DatasetName
from lode.ingest.names import TableName, check_project, parse_table
from lode.ingest.status import Code, invalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from starlette.requests import Request

    from lode.ingest.api.rest.fields import Mask

MAX_RESULTS: Final = 1000
# The HTTP parser itself refuses 64 KiB, in plain text.
MAX_QUERY_BYTES: Final = 32 << 10
# From this size on a body is read on a thread, so that it does not hold up other calls.
_LARGE_BYTES: Final = 16 << 10
_JSON_TYPE: Final = re.compile(r"application/(?:[\w.+-]+\+)?json\s*(?:;.*)?", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Call:
    """What a handler needs of a request; the body is an object, empty if there was none."""

    params: Mapping[str, str]
    query: Mapping[str, str]
    body: dict[str, Any]
    etag: str | None
    root: str
    fields: Mask

    @property
    def project(self) -> str:
        return check_project(self.params["project"])

    @property
    def dataset(self) -> DatasetName:
        return dataset_name(self.params["project"], self.params["dataset"])

    @property
    def table(self) -> TableName:
        return table_name(self.params["project"], self.params["dataset"], self.params["table"])

    def link(self, path: str) -> str:
        """The ``selfLink`` of a resource."""
        return f"{self.root}bigquery/v2/{quote(path, safe='/:')}"

    def flag(self, key: str) -> bool:
        return self.query.get(key, "").lower() in ("true", "1")

    def number(self, key: str) -> int | None:
        """A parameter that counts something, None if it is not there."""
        text = self.query.get(key)
        if text is None or text == "":
            return None
        if not text.isascii() or not text.isdigit() or len(text) > 18:
            raise invalid(f"Invalid value for {key}: {shortened(text)} is not a whole number of 0 or more.")
        return int(text)

    def choice(self, key: str, choices: tuple[str, ...]) -> str:
        """A parameter that is one of a few words, empty if it is not there."""
        text = self.query.get(key, "")
        if text and text not in choices:
            raise invalid(f"Invalid value for {key}: {shortened(text)} is not one of {', '.join(choices)}.")
        return text

    def page(self) -> tuple[str, int]:
        """Where a page of a listing starts, and how many it may have."""
        limit = self.number("maxResults")
        limit = MAX_RESULTS if limit is None else min(limit, MAX_RESULTS)
        if limit == 0:
            raise invalid("Invalid value for maxResults: a page has at least one.")
        token = self.query.get("pageToken", "")
        return (read_token(token) if token else ""), limit


def dataset_name(project: str, dataset: str) -> DatasetName:
    """A dataset's name, checked."""
    return DatasetName(*table_name(project, dataset, "t")[:2])


def table_name(project: str, dataset: str, table: str) -> TableName:
    """A table's name, checked."""
    return parse_table(str(TableName(project, dataset, table)))


def page_token(position: str) -> str:
    """The token from which a listing goes on behind ``position``."""
    return base64.urlsafe_b64encode(position.encode()).decode()


def read_token(token: str) -> str:
    """The position that a token stands for."""
    try:
        return base64.b64decode(token, altchars=b"-_", validate=True).decode()
    except (ValueError, UnicodeError):
        raise invalid(
            f"Invalid value for pageToken: {shortened(token)} is none of this server's: start again "
            "without one."
        ) from None


def etag_of(records: Iterable[Any]) -> str:
    """The etag of a listing: it changes with any of the records."""
    return hashlib.sha256(" ".join(record.etag for record in records).encode()).hexdigest()[:16]


async def read_body(request: Request, *, limit: int) -> bytes:
    """The body of a request as it was before it was packed, of at most ``limit`` bytes."""
    packing = request.headers.get("content-encoding", "identity").strip().lower()
    if packing not in ("identity", "gzip", ""):
        raise invalid(
            f"Content-Encoding {shortened(packing)} is not understood: send gzip, or the body as it is."
        )
    received = bytearray()
    async for chunk in request.stream():
        received += chunk
        if len(received) > limit:
            raise _too_large(limit)
    body = bytes(received)
    return await run_in_threadpool(_unpacked, body, limit) if packing == "gzip" else body


async def read_call(request: Request, body: bytes) -> Call:
    """Read a request whose body was received."""
    if len(request.scope["query_string"]) > MAX_QUERY_BYTES:
        raise invalid(f"The parameters of the request have more than {MAX_QUERY_BYTES:,} bytes: send fewer.")
    kind = request.headers.get("content-type", "")
    # A web page can send every other type to any server without asking it first.
    if body and _JSON_TYPE.fullmatch(kind.strip()) is None:
        raise invalid(
            f"Parse Error: the Content-Type is {shortened(kind)}: send JSON with the header "
            "'Content-Type: application/json'."
        )
    etag = request.headers.get("if-match")
    return Call(
        params=request.path_params,
        query=request.query_params,
        body=_parsed(body) if len(body) < _LARGE_BYTES else await run_in_threadpool(_parsed, body),
        etag=None if etag is None or etag.strip() == "*" else etag.strip().removeprefix("W/").strip('"'),
        root=str(request.base_url),
        fields=parse_fields(request.query_params.get("fields", "")),
    )


def _unpacked(packed: bytes, limit: int) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)
    try:
        body = unpacker.decompress(packed, limit + 1)
    except zlib.error as error:
        raise invalid(
            f"The body is not gzip, as Content-Encoding says ({error}): send it packed, or "
            "leave that header out."
        ) from None
    if len(body) > limit:
        raise _too_large(limit)
    if not unpacker.eof or unpacker.unused_data:
        raise invalid("The gzip body ends too early, or something follows it: send it as one piece.")
    return body


def _too_large(limit: int) -> TooLarge:
    return TooLarge(
        Code.INVALID_ARGUMENT,
        f"Request payload size exceeds the limit: {limit} bytes. Send fewer rows at once.",
    )


def _parsed(body: bytes) -> dict[str, Any]:
    if not body.strip():
        return {}
    try:
        parsed = _in_parts(body) if len(body) >= _LARGE_BYTES else None
        if parsed is None:
            parsed = _json(body)
    except (ValueError, RecursionError) as error:
        raise invalid(f"Parse Error: the body is not JSON ({error}): send one JSON object.") from None
    if not isinstance(parsed, dict):
        raise invalid("Parse Error: the body must be a JSON object.")
    return parsed


def _in_parts(body: bytes) -> dict[str, Any] | None:
    """Parse long lists in parts; None if the body is not what msgspec takes for an object.

    The parser holds the interpreter's lock: parsing 10 MB at once would stop the event loop for 150 ms.
    """
    try:
        fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        return {name: _field(bytes(field)) for name, field in fields.items()}
    except msgspec.DecodeError:
        return None


def _field(text: bytes) -> Any:
    if not text.startswith(b"["):
        return _json(text)
    elements = msgspec.json.decode(text, type=list[msgspec.Raw])
    # As many at a time as are parsed in a millisecond or so.
    size = max(1, _LARGE_BYTES * len(elements) // len(text))
    parts = (elements[start : start + size] for start in range(0, len(elements), size))
    return [element for part in parts for element in _json(b"[%b]" % b",".join(map(bytes, part)))]


def _json(text: bytes) -> Any:
    return json.loads(text, parse_float=_decimal)


def _decimal(text: str) -> Decimal:
    """Keep every digit of a NUMERIC that was sent as a number.

    In Python, so that other threads get a turn: a body of two million numbers held them up for a second.
    """
    return Decimal(text)


def plain(value: Any, where: str) -> Any:
    """A JSON value as it can be stored: no text that UTF-8 cannot carry, numbers as numbers."""
    match value:
        case str():
            if not is_utf8(value):
                raise invalid(f"{where} holds text that UTF-8 cannot carry: leave out lone surrogates.")
            return value
        case Decimal():
            return float(value)
        case dict():
            return {plain(key, where): plain(item, where) for key, item in value.items()}
        case list():
            return [plain(item, where) for item in value]
    return value
