"""Bodies of REST requests: how many bytes of them are in memory, and their JSON.

A parser holds the interpreter's lock, and every thread waits for it. So bodies have a limit of values, which
are parsed within some 100 ms, and rows of ``insertAll``, which may have more, are parsed in parts.
"""

from __future__ import annotations

import json
import re
import threading
from contextlib import contextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from lode.format.ids import is_utf8
from lode.ingest.status import Code, Refused, invalid

if TYPE_CHECKING:
    from collections.abc import Iterator

# The values of a body, and of one row of insertAll.
MAX_VALUES: Final = 200_000
MAX_DEPTH: Final = 100
# Larger bodies are parsed on a thread, and in parts of about this size if they can be.
INLINE_BYTES: Final = 16 << 10
# The bodies in memory of all clients, and of one of them.
HELD_BYTES: Final = 256 << 20
CLIENT_HELD_BYTES: Final = 64 << 20
# The limit of the service.
MAX_INSERT_ROWS: Final = 50_000

_STRING: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)


_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


class Bodies:
    """The bytes of the bodies that are received or worked on, for one event loop and its threads."""

    def __init__(self, most: int = HELD_BYTES, of_client: int = CLIENT_HELD_BYTES) -> None:
        self._most, self._of_client = most, of_client
        self._held: dict[str, int] = {}
        self._total = 0
        self._lock = threading.Lock()

    @contextmanager
    def of(self, client: str) -> Iterator[Held]:
        """Count the bytes of one request, until it is answered."""
        held = Held(self, client)
        try:
            yield held
        finally:
            self.change(client, -held.bytes)

    def change(self, client: str, size: int) -> None:
        """Count bytes, or refuse them; less than 0 gives them back."""
        with self._lock:
            own = self._held.get(client, 0) + size
            if size > 0 and (self._total + size > self._most or own > self._of_client):
                raise Refused(
                    Code.RESOURCE_EXHAUSTED,
                    f"The server works on {self._total:,} bytes of requests, {own - size:,} of them of this "
                    f"client; the limits are {self._most:,} and {self._of_client:,}: try again.",
                )
            self._total += size
            if own:
                self._held[client] = own
            else:
                self._held.pop(client, None)


class Held:
    """The bytes of one request."""

    def __init__(self, bodies: Bodies, client: str) -> None:
        self._bodies, self._client = bodies, client
        self.bytes = 0

    def add(self, size: int) -> None:
        self._bodies.change(self._client, size)
        self.bytes += size


def parse_body(body: bytes) -> dict[str, Any]:
    """Return the JSON object of a body, empty if there is none."""
    parsed = _object(body)
    _check_depth(parsed)
    if _SURROGATE.search(body) and not is_utf8(json.dumps(parsed, ensure_ascii=False, default=str)):
        raise invalid("The request holds text that UTF-8 cannot encode: leave out lone surrogates.")
    return parsed


def _object(body: bytes) -> dict[str, Any]:
    if not body.strip():
        return {}
    _check_values(body, "the body")
    try:
        parsed = _json(body)
    except (ValueError, RecursionError) as error:
        raise _not_json(error) from None
    if not isinstance(parsed, dict):
        raise invalid("Parse Error: the body must be a JSON object.")
    return parsed


class _Row(msgspec.Struct, gc=False):
    json: msgspec.Raw | UnsetType = UNSET
    insertId: msgspec.Raw | UnsetType = UNSET  # noqa: N815


class _Rows(msgspec.Struct):
    rows: list[_Row] | None = None
    skipInvalidRows: msgspec.Raw | UnsetType = UNSET  # noqa: N815
    ignoreUnknownValues: msgspec.Raw | UnsetType = UNSET  # noqa: N815
    templateSuffix: msgspec.Raw | UnsetType = UNSET  # noqa: N815


def parse_rows(body: bytes) -> dict[str, Any]:
    """Return the JSON object of an ``insertAll``. Many rows are parsed in parts.

    Their values may be nested as deep as a column of type JSON allows.
    """
    if len(body) < INLINE_BYTES:
        return _object(body)
    try:
        found = msgspec.json.decode(body, type=_Rows)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        # NaN, which msgspec does not accept, or an error with the words for a small body.
        return _object(body)
    rows = found.rows or []
    if len(rows) > MAX_INSERT_ROWS:
        raise invalid(f"The request has {len(rows):,} rows, the limit is {MAX_INSERT_ROWS:,}: send fewer.")
    try:
        parsed: dict[str, Any] = {"rows": _parsed_rows(rows)}
        for name in ("skipInvalidRows", "ignoreUnknownValues", "templateSuffix"):
            given = getattr(found, name)
            if given is not UNSET:
                parsed[name] = _part(bytes(given))
    except (ValueError, RecursionError) as error:
        raise _not_json(error) from None
    return parsed


def _parsed_rows(rows: list[_Row]) -> list[dict[str, Any]]:
    """The rows, parsed in parts of a bounded size."""
    parsed: list[dict[str, Any]] = []
    part: list[bytes] = []
    size = 0
    for row in rows:
        members = [
            b'"%b":%b' % (name, bytes(value))
            for name, value in ((b"json", row.json), (b"insertId", row.insertId))
            if value is not UNSET
        ]
        text = b"{%b}" % b",".join(members)
        if len(text) > INLINE_BYTES:
            _check_values(text, f"row {len(parsed) + len(part)}")
        part.append(text)
        size += len(text)
        if size >= INLINE_BYTES:
            parsed += _json(b"[%b]" % b",".join(part))
            part, size = [], 0
    parsed += _json(b"[%b]" % b",".join(part))
    return parsed


def _part(text: bytes) -> Any:
    _check_values(text, "a property")
    return _json(text)


def _check_values(text: bytes, what: str) -> None:
    """Refuse JSON with more values than are parsed in a short time."""
    if _marks(text) <= MAX_VALUES:
        return
    # Marks in strings are no values. Python code lets other threads run between the strings.
    count = _marks(text) - sum(_marks(found[0]) for found in _STRING.finditer(text))
    if count > MAX_VALUES:
        raise invalid(
            f"The request has more than {MAX_VALUES:,} values in {what}: send fewer, or use a load job."
        )


def _marks(text: bytes) -> int:
    """At least the number of values of a JSON text, without the first."""
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def _check_depth(parsed: Any) -> None:
    level: list[Any] = [parsed]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for each in level
            if isinstance(each, dict | list)
            for child in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return
    raise invalid(f"The request is nested more than {MAX_DEPTH} levels deep: send it with fewer levels.")


def _not_json(error: Exception) -> Refused:
    return invalid(f"Parse Error: the body is not JSON ({error}): send one JSON object.")


def _json(text: bytes) -> Any:
    return json.loads(text, parse_float=_decimal)


def _decimal(text: str) -> Decimal:
    """Keep every digit of a NUMERIC that is written as a number.

    A Python function lets other threads run: a body of two million numbers blocked them for a second.
    """
    return Decimal(text)
