"""Refusals and failures as REST v2 answers them: Google's JSON shape, which its clients read."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from lode.ingest.api.error_details import internal, short
from lode.ingest.catalog.catalog import DatasetInUse
from lode.ingest.status import Code, Refused

if TYPE_CHECKING:
    from starlette.requests import Request

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
    # Not internalError: only a repair of the lake helps.
    Code.DATA_LOSS: _Kind(500, "dataLoss"),
}
_INTERNAL: Final = _Kind(500, "internalError")


class TooLarge(Refused):
    """A request whose body is larger than the server takes."""


def not_implemented(message: str) -> Refused:
    """What BigQuery does and Lode does not, in one sentence."""
    return Refused(Code.UNIMPLEMENTED, message)


def error_response(error: Exception) -> JSONResponse:
    """Answer any error."""
    refusal = error if isinstance(error, Refused) else internal(error)
    if refusal is not error:
        _log.log(
            logging.ERROR if refusal.code is Code.INTERNAL else logging.WARNING,
            "a REST request failed: %s",
            error,
            exc_info=error if refusal.code is Code.INTERNAL else None,
        )
    match refusal:
        case TooLarge():
            kind = _Kind(413, "requestTooLarge")
        case DatasetInUse():
            kind = _Kind(400, "resourceInUse")
        case _:
            kind = _KINDS.get(refusal.code, _INTERNAL)
    return JSONResponse(_body(kind, refusal.code.name, refusal.message), kind.http)


def unrouted(_request: Request, error: Exception) -> JSONResponse:
    """Answer a request that no route takes."""
    code = error.status_code if isinstance(error, HTTPException) else 404
    message = f"Not found: no method of this server has this path ({HTTPStatus(code).phrase})."
    return JSONResponse(_body(_Kind(code, "notFound"), "NOT_FOUND", message), code)


def _body(kind: _Kind, status: str, message: str) -> dict[str, Any]:
    # A message may repeat what was sent, be it text that UTF-8 cannot carry.
    message = short(message).encode(errors="replace").decode()
    one = {"message": message, "domain": "global", "reason": kind.reason}
    return {"error": {"code": kind.http, "message": message, "errors": [one], "status": status}}
