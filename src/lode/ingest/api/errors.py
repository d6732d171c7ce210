"""Refusals and failures as clients receive them, over gRPC and over REST."""

from __future__ import annotations

import logging
import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import grpc
from google.cloud.bigquery_storage_v1 import types
from google.protobuf.message import DecodeError
from google.rpc import status_pb2
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from lode.errors import (
    CommitError,
    ComponentMismatchError,
    DataError,
    LodeError,
    MissingError,
    StoreError,
    UsageError,
)
from lode.ingest.catalog.catalog import DatasetInUse
from lode.ingest.status import REASONS, Code, Refused, invalid

if TYPE_CHECKING:
    from starlette.requests import Request

# Go, Java and Python clients read the first; Node reads only the second.
_STATUS_TRAILER: Final = "grpc-status-details-bin"
_STORAGE_TRAILER: Final = "google.cloud.bigquery.storage.v1.storageerror-bin"
_MAX_MESSAGE_CHARS: Final = 2000
# Clients refuse a response with trailers of more than 8 KB. The trailers have up to four copies of a text,
# two of them in base64 and one with three characters for a byte.
_MAX_TRAILER_TEXT_BYTES: Final = 600

# Signed URLs have a key in the query, others a password before the host.
_URL_SECRETS: Final = re.compile(r"(\w://)(?:[^\s/?#@]*@)?([^\s?#'\")]*)(?:\?[^\s#'\")]*)?")

_StorageError: Any = types.StorageError.pb()
_STATUS_CODES: Final = {code.value[0]: code for code in grpc.StatusCode}

_log = logging.getLogger(__name__)


def internal(error: BaseException) -> Refused:
    """The refusal for an error that is not a refusal: a failure of the lake or of the server.

    Clients try again after UNAVAILABLE and not after DATA_LOSS, which requires a repair of the lake.
    """
    code, message = _meaning(error)
    return Refused(code, without_secrets(message), ends_call=True)


def _meaning(error: BaseException) -> tuple[Code, str]:
    match error:
        case ComponentMismatchError():
            return Code.FAILED_PRECONDITION, str(error)
        case DataError() | MissingError() | FileNotFoundError():
            # Names from requests are checked earlier: this object should exist and be intact.
            return Code.DATA_LOSS, f"The lake is damaged: {error}. Repair it, then try again."
        case StoreError() | CommitError() | OSError():
            return Code.UNAVAILABLE, f"The lake's store failed ({error}): try again."
        case UsageError():
            return Code.INVALID_ARGUMENT, str(error)
        case RecursionError():
            return Code.INVALID_ARGUMENT, "The request is nested too deep: send it with fewer levels."
        case LodeError():
            return Code.INTERNAL, f"The server failed: {error}."
    return Code.INTERNAL, f"The server failed ({type(error).__name__}): see its log for details."


def without_secrets(text: str) -> str:
    """Remove credentials and queries from the URLs in a text."""
    return _URL_SECRETS.sub(r"\1\2", text)


def not_implemented(message: str) -> Refused:
    """The refusal of a feature of BigQuery that Lode does not have."""
    return Refused(Code.UNIMPLEMENTED, message)


def _bounded(message: str) -> str:
    """Cut a long message: it may repeat input."""
    return message if len(message) <= _MAX_MESSAGE_CHARS else f"{message[:_MAX_MESSAGE_CHARS]}…"


# -- gRPC --------------------------------------------------------------------------------------


def parse_request(kind: Any, data: bytes, *, ends_call: bool = False) -> Any:
    """Parse a request of this message type, or refuse the bytes."""
    try:
        return kind.FromString(data)
    except DecodeError:
        name = kind.DESCRIPTOR.name
        article = "an" if name[0] in "AEIOU" else "a"
        raise invalid(f"The request is not {article} {name}.", ends_call=ends_call) from None


def storage_error(refusal: Refused) -> Any | None:
    """The ``StorageError`` of a refusal, if it has one."""
    if refusal.storage is None:
        return None
    return _StorageError(
        code=refusal.storage.value, entity=refusal.entity, error_message=_bounded(refusal.message)
    )


def status_of(refusal: Refused) -> Any:
    """The ``google.rpc.Status`` of a refusal, for ``AppendRowsResponse.error``."""
    status = status_pb2.Status(code=refusal.code.value, message=_bounded(refusal.message))
    detail = storage_error(refusal)
    if detail is not None:
        status.details.add().Pack(detail)
    return status


async def end_call(context: Any, refusal: Refused) -> None:
    """End a call with the refusal's status; does not return."""
    await context.abort(
        _STATUS_CODES[refusal.code.value],
        _trailer_text(refusal.message),
        trailing_metadata=_trailers(refusal),
    )


def _trailers(refusal: Refused) -> tuple[tuple[str, bytes], ...]:
    status = status_pb2.Status(code=refusal.code.value, message=_trailer_text(refusal.message))
    if refusal.storage is None:
        return ((_STATUS_TRAILER, status.SerializeToString()),)
    detail = _StorageError(
        code=refusal.storage.value,
        entity=_trailer_text(refusal.entity),
        error_message=_trailer_text(refusal.message),
    )
    status.details.add().Pack(detail)
    return ((_STATUS_TRAILER, status.SerializeToString()), (_STORAGE_TRAILER, detail.SerializeToString()))


def _trailer_text(text: str) -> str:
    encoded = text.encode()
    if len(encoded) <= _MAX_TRAILER_TEXT_BYTES:
        return text
    return f"{encoded[:_MAX_TRAILER_TEXT_BYTES].decode(errors='ignore')}…"


# -- REST --------------------------------------------------------------------------------------


class _Kind(NamedTuple):
    http: int
    reason: str


_HTTP: Final = {
    Code.CANCELLED: 499,
    Code.INVALID_ARGUMENT: 400,
    Code.OUT_OF_RANGE: 400,
    Code.UNAUTHENTICATED: 401,
    Code.PERMISSION_DENIED: 403,
    Code.NOT_FOUND: 404,
    Code.ALREADY_EXISTS: 409,
    Code.ABORTED: 409,
    Code.FAILED_PRECONDITION: 412,
    Code.RESOURCE_EXHAUSTED: 429,
    Code.UNIMPLEMENTED: 501,
    Code.UNAVAILABLE: 503,
    Code.DEADLINE_EXCEEDED: 503,
    Code.DATA_LOSS: 500,
}


def code_of(error: BaseException) -> Code:
    """The code that an error is answered with."""
    return error.code if isinstance(error, Refused) else _meaning(error)[0]


class TooLarge(Refused):
    """A request with a body above the server's limit."""


def error_response(error: Exception) -> JSONResponse:
    """Return the response for any error, in the JSON shape that Google's clients read."""
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
            reason = refusal.reason or REASONS.get(refusal.code, "internalError")
            kind = _Kind(_HTTP.get(refusal.code, 500), reason)
    return _json_error(kind, refusal.code.name, refusal.message, refusal.location)


def no_route(_request: Request, error: Exception) -> JSONResponse:
    """Return the response for a request that matches no route."""
    code = error.status_code if isinstance(error, HTTPException) else 404
    message = f"Not found: no method of this server has this path ({HTTPStatus(code).phrase})."
    return _json_error(_Kind(code, "notFound"), "NOT_FOUND", message)


def _json_error(kind: _Kind, status: str, message: str, location: str = "") -> JSONResponse:
    # A message may repeat input that UTF-8 cannot encode.
    message = _bounded(message).encode(errors="replace").decode()
    one = {"message": message, "domain": "global", "reason": kind.reason}
    if location:
        one |= {"location": location, "locationType": "parameter"}
    body = {"code": kind.http, "message": message, "errors": [one], "status": status}
    return JSONResponse({"error": body}, kind.http)
