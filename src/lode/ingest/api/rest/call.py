"""One REST call: its names, parameters and body, checked against limits."""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool

from lode.format.ids import shortened
from lode.ingest.api.client import client_of_scope
from lode.ingest.api.errors import TooLarge
from lode.ingest.api.rest.body import INLINE_BYTES, Held, parse_body
from lode.ingest.catalog.dataset import DatasetName
from lode.ingest.jobs.tables import TableRef, parse_reference
from lode.ingest.names import TableName, check_project, parse_table
from lode.ingest.status import Code, invalid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from starlette.datastructures import QueryParams
    from starlette.requests import Request

    from lode.ingest.status import Refused

    # The selected parts, each with its own mask; an empty mask selects everything.
    Mask: TypeAlias = "dict[str, Mask]"

MAX_RESULTS: Final = 1000
PARTITIONS_SUMMARY: Final = "$__PARTITIONS_SUMMARY__"
# The HTTP parser refuses 64 KiB, with an answer in plain text.
MAX_QUERY_BYTES: Final = 32 << 10
MAX_FIELDS_CHARS: Final = 8_192
MAX_FIELDS_DEPTH: Final = 20
_FIELDS_TOKEN: Final = re.compile(r"[A-Za-z0-9_$.*-]+|[,()/]")
_JSON_TYPE: Final = re.compile(r"application/(?:[\w.+-]+\+)?json\s*(?:;.*)?", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class RestCall:
    """A request as handlers need it. The body is a JSON object, empty if the request has none."""

    params: Mapping[str, str]
    query: QueryParams
    body: dict[str, Any]
    etag: str | None
    root: str
    fields: Mask
    # Who sent it; see ``lode.ingest.api.client``.
    client: str = ""
    # The bytes of the body.
    size: int = 0

    @property
    def project(self) -> str:
        return check_project(self.params["project"])

    @property
    def dataset(self) -> DatasetName:
        return dataset_name(self.params["project"], self.params["dataset"])

    @property
    def table(self) -> TableName:
        return table_name(self.params["project"], self.params["dataset"], self.params["table"])

    @property
    def table_ref(self) -> TableRef:
        """The table of the path, perhaps one partition of it: ``t$20240131``."""
        project, dataset, table = (self.params[key] for key in ("project", "dataset", "table"))
        if "$" not in table:
            return TableRef(self.table)
        return parse_reference({"datasetId": dataset, "tableId": table}, project, "the table")

    def summarized(self) -> TableName | None:
        """Return the table whose partitions are asked for; None if the table itself is."""
        table = self.params["table"]
        if not table.endswith(PARTITIONS_SUMMARY):
            return None
        return table_name(
            self.params["project"], self.params["dataset"], table.removesuffix(PARTITIONS_SUMMARY)
        )

    def link(self, path: str) -> str:
        """Return the ``selfLink`` of a resource."""
        return f"{self.root}bigquery/v2/{quote(path, safe='/:')}"

    def values(self, key: str) -> list[str]:
        """Return all values of a parameter that may be repeated."""
        return [value for name, value in self.query.multi_items() if name == key]

    def flag(self, key: str) -> bool:
        return self.query.get(key, "").lower() in ("true", "1")

    def number(self, key: str) -> int | None:
        """Return a parameter that is a number, None if it is missing."""
        text = self.query.get(key)
        if text is None or text == "":
            return None
        if not is_whole(text):
            raise invalid(f"Invalid value for {key}: {shortened(text)} is not a whole number of 0 or more.")
        return int(text)

    def choice(self, key: str, choices: tuple[str, ...]) -> str:
        """Return a parameter that is one of these words, empty if it is missing."""
        text = self.query.get(key, "")
        if text and text not in choices:
            raise invalid(f"Invalid value for {key}: {shortened(text)} is not one of {', '.join(choices)}.")
        return text

    def page(self) -> tuple[str, int]:
        """Return the last name before a page of a list, and the maximum length of the page."""
        limit = self.number("maxResults")
        limit = MAX_RESULTS if limit is None else min(limit, MAX_RESULTS)
        if limit == 0:
            raise invalid("Invalid value for maxResults: a page has at least one result.")
        token = self.query.get("pageToken", "")
        return (parse_page_token(token) if token else ""), limit


def is_whole(text: str) -> bool:
    """Whether a text is a whole number of 0 or more that fits into 64 bits."""
    return text.isascii() and text.isdigit() and len(text) <= 18


def dataset_name(project: str, dataset: str) -> DatasetName:
    """Check a dataset's name."""
    return DatasetName(*table_name(project, dataset, "t")[:2])


def table_name(project: str, dataset: str, table: str) -> TableName:
    """Check a table's name."""
    return parse_table(str(TableName(project, dataset, table)))


def page_token(position: str) -> str:
    """Return the token of the page after ``position``."""
    return base64.urlsafe_b64encode(position.encode()).decode()


def parse_page_token(token: str) -> str:
    """Return the position of a token, or refuse it."""
    try:
        return base64.b64decode(token, altchars=b"-_", validate=True).decode()
    except (ValueError, UnicodeError):
        raise invalid(
            f"Invalid value for pageToken: {shortened(token)} is not from this server: start again "
            "without one."
        ) from None


def etag_of(records: Iterable[Any]) -> str:
    """Return the etag of a list: it changes with any of the records."""
    return hashlib.sha256(" ".join(record.etag for record in records).encode()).hexdigest()[:16]


async def read_body(request: Request, *, limit: int, held: Held | None = None) -> bytes:
    """Receive the body of a request and decompress it; refuse more than ``limit`` bytes.

    Args:
        request: The request.
        limit: The most bytes, before and after decompression.
        held: Counts the bytes, or refuses them.
    """
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip", ""):
        raise invalid(
            f"Content-Encoding {shortened(encoding)} is not supported: send gzip, or the body as it is."
        )
    received = bytearray()
    async for chunk in request.stream():
        received += chunk
        if len(received) > limit:
            raise _too_large(limit)
        if held is not None:
            held.add(len(chunk))
    body = bytes(received)
    if encoding != "gzip":
        return body
    body = await run_in_threadpool(_decompressed, body, limit)
    if held is not None:
        held.add(len(body))
    return body


async def read_call(
    request: Request, body: bytes, parse: Callable[[bytes], dict[str, Any]] = parse_body
) -> RestCall:
    """Parse a request after its body was received."""
    if len(request.scope["query_string"]) > MAX_QUERY_BYTES:
        raise invalid(f"The parameters of the request have more than {MAX_QUERY_BYTES:,} bytes: send fewer.")
    kind = request.headers.get("content-type", "")
    # Browsers let any web page send other types to any server without a preflight request.
    if body and _JSON_TYPE.fullmatch(kind.strip()) is None:
        raise invalid(
            f"Parse Error: the Content-Type is {shortened(kind)}: send JSON with the header "
            "'Content-Type: application/json'."
        )
    etag = request.headers.get("if-match")
    return RestCall(
        params=request.path_params,
        query=request.query_params,
        body=parse(body) if len(body) < INLINE_BYTES else await run_in_threadpool(parse, body),
        etag=None if etag is None or etag.strip() == "*" else etag.strip().removeprefix("W/").strip('"'),
        root=str(request.base_url),
        fields=parse_fields(request.query_params.get("fields", "")),
        client=client_of_scope(request.scope),
        size=len(body),
    )


def _decompressed(compressed: bytes, limit: int) -> bytes:
    decompressor = zlib.decompressobj(wbits=31)
    try:
        body = decompressor.decompress(compressed, limit + 1)
    except zlib.error as error:
        raise invalid(
            f"The body is not gzip, as Content-Encoding says ({error}): compress it, or "
            "leave that header out."
        ) from None
    if len(body) > limit:
        raise _too_large(limit)
    if not decompressor.eof or decompressor.unused_data:
        raise invalid("The gzip body ends too early, or other data follows it: send it as one member.")
    return body


def _too_large(limit: int) -> TooLarge:
    return TooLarge(
        Code.INVALID_ARGUMENT,
        f"Request payload size exceeds the limit: {limit} bytes. Send fewer rows at once.",
    )


# -- partial responses -------------------------------------------------------------------------


def parse_fields(text: str) -> Mask:
    """Parse the parameter ``fields``, which names the parts of an answer that a client wants, or refuse it.

    ``kind,tables(id,tableReference/tableId)`` keeps ``kind``, and for each table its id and its short name.
    ``*`` is every part of a level. Names of missing parts have no effect. Parsing takes linear time.
    """
    if len(text) > MAX_FIELDS_CHARS:
        raise invalid(
            f"Invalid value for fields: it has {len(text):,} characters, the most is {MAX_FIELDS_CHARS:,}."
        )
    whole: Mask = {}
    levels = [whole]  # the mask inside each open parenthesis
    inside, depth = whole, 1
    named: Mask | None = None  # the previous token, if it was a name
    wants_name, at = bool(text), 0
    while at < len(text):
        token = _FIELDS_TOKEN.match(text, at)
        mark = token[0] if token else ""
        if mark in ("/", "("):
            if named is None or depth == MAX_FIELDS_DEPTH:
                raise _bad_fields(text, at)
            inside, named, wants_name, depth = named, None, True, depth + 1
            if mark == "(":
                levels.append(inside)
        elif mark in (",", ")"):
            if wants_name or (mark == ")" and len(levels) == 1):
                raise _bad_fields(text, at)
            if mark == ")":
                levels.pop()
            inside, named, wants_name, depth = levels[-1], None, mark == ",", len(levels)
        else:
            if not mark or not wants_name:
                raise _bad_fields(text, at)
            named, wants_name = inside.setdefault(mark, {}), False
        at += len(mark)
    if wants_name or len(levels) > 1:
        raise _bad_fields(text, at)
    return whole


def apply_mask(value: Any, mask: Mask) -> Any:
    """Return the parts of a JSON value that the mask selects."""
    if not mask or not isinstance(value, dict | list):
        return value
    if isinstance(value, list):
        return [apply_mask(item, mask) for item in value]
    every = mask.get("*")
    return {
        key: apply_mask(item, mask.get(key, every or {}))
        for key, item in value.items()
        if key in mask or every is not None
    }


def _bad_fields(text: str, at: int) -> Refused:
    found = f"{text[at : at + 20]!r} at character {at} is not expected" if text[at:] else "it ends too early"
    return invalid(f"Invalid value for fields: {found}, write it like a,b/c,d(e,f).")
