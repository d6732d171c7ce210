"""Refusals and failures as REST v2 answers them: Google's JSON shape, which its clients read."""

from __future__ import annotations

import logging
from typing import Any, Final, NamedTuple

from starlette.responses import JSONResponse

from lode.errors import ComponentMismatchError, LodeError, StoreError
from lode.ingest.catalog.catalog import DatasetInUse
from lode.ingest.status import Code, Refused

_log = logging.getLogger(__name__)


class _Kind(NamedTuple):
    http: int
    reason: str


# Clients decide by the reason whether to try again: backendError and internalError mean that they may.
_KINDS: Final = {
    Code.INVALID_ARGUMENT: _Kind(400, "invalid"),
    Code.OUT_OF_RANGE: _Kind(400, "invalid"),
    Code.UNAUTHENTICATED: _Kind(401, "authError"),
    Code.PERMISSION_DENIED: _Kind(403, "accessDenied"),
    Code.NOT_FOUND: _Kind(404, "notFound"),
    Code.ALREADY_EXISTS: _Kind(409, "duplicate"),
    Code.ABORTED: _Kind(409, "aborted"),
    Code.FAILED_PRECONDITION: _Kind(412, "conditionNotMet"),
    Code.RESOURCE_EXHAUSTED: _Kind(429, "rateLimitExceeded"),
    Code.UNIMPLEMENTED: _Kind(501, "notImplemented"),
    Code.UNAVAILABLE: _Kind(503, "backendError"),
    Code.DEADLINE_EXCEEDED: _Kind(503, "backendError"),
}
_INTERNAL: Final = _Kind(500, "internalError")


class TooLarge(Refused):
    """A request whose body is larger than the server takes."""


def not_implemented(message: str) -> Refused:
    """What BigQuery does and Lode does not, in one sentence."""
    return Refused(Code.UNIMPLEMENTED, message)


def error_response(error: Exception) -> JSONResponse:
    """Answer any error; what is nobody's fault but ours is logged and told in general terms only."""
    match error:
        case TooLarge():
            kind, status, message = _Kind(413, "requestTooLarge"), error.code.name, error.message
        case DatasetInUse():
            kind, status, message = _Kind(400, "resourceInUse"), error.code.name, error.message
        case Refused():
            kind, status, message = _KINDS.get(error.code, _INTERNAL), error.code.name, error.message
        case StoreError():
            _log.warning("the store failed under a REST request: %s", error)
            kind, status, message = _KINDS[Code.UNAVAILABLE], "UNAVAILABLE", f"The store failed: {error}"
        case ComponentMismatchError():
            kind, status, message = _KINDS[Code.FAILED_PRECONDITION], "FAILED_PRECONDITION", str(error)
        case LodeError():
            _log.error("a REST request failed: %s", error)
            kind, status, message = _INTERNAL, "INTERNAL", str(error)
        case _:
            _log.error("a REST request failed", exc_info=error)
            kind, status, message = _INTERNAL, "INTERNAL", "The server failed; its log says why."
    return JSONResponse(_body(kind, status, message), kind.http)


def _body(kind: _Kind, status: str, message: str) -> dict[str, Any]:
    # A message may repeat what was sent, be it text that UTF-8 cannot carry.
    message = message.encode(errors="replace").decode()
    one = {"message": message, "domain": "global", "reason": kind.reason}
    return {"error": {"code": kind.http, "message": message, "errors": [one], "status": status}}
