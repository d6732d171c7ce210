"""Refusals on the wire: a ``google.rpc.Status`` in a response, or the trailers of a call that ends."""

from __future__ import annotations

from typing import Any, Final

import grpc
from google.cloud.bigquery_storage_v1 import types
from google.rpc import status_pb2

from lode.ingest.status import Code, Refused

# Go, Java and Python read the first; Node reads only the second.
_STATUS_TRAILER: Final = "grpc-status-details-bin"
_STORAGE_TRAILER: Final = "google.cloud.bigquery.storage.v1.storageerror-bin"
_LONGEST_MESSAGE: Final = 2000
# In bytes. Clients refuse trailers of more than 8 KB, and with them the whole answer: of a text of this size
# there are four copies at most, two of them in base64 and one with three characters for a byte.
_LONGEST_IN_TRAILERS: Final = 600

_StorageError: Any = types.StorageError.pb()
_STATUS_CODES: Final = {code.value[0]: code for code in grpc.StatusCode}


def storage_error(refusal: Refused) -> Any | None:
    """The ``StorageError`` of a refusal, if it has one."""
    if refusal.storage is None:
        return None
    return _StorageError(
        code=refusal.storage.value, entity=refusal.entity, error_message=_short(refusal.message)
    )


def status_of(refusal: Refused) -> Any:
    """The refusal as it goes into ``AppendRowsResponse.error``."""
    status = status_pb2.Status(code=refusal.code.value, message=_short(refusal.message))
    detail = storage_error(refusal)
    if detail is not None:
        status.details.add().Pack(detail)
    return status


def trailers_of(refusal: Refused) -> tuple[tuple[str, bytes], ...]:
    """The refusal as it goes behind a call."""
    status = status_pb2.Status(code=refusal.code.value, message=_shorter(refusal.message))
    if refusal.storage is None:
        return ((_STATUS_TRAILER, status.SerializeToString()),)
    detail = _StorageError(
        code=refusal.storage.value,
        entity=_shorter(refusal.entity),
        error_message=_shorter(refusal.message),
    )
    status.details.add().Pack(detail)
    return (
        (_STATUS_TRAILER, status.SerializeToString()),
        (_STORAGE_TRAILER, detail.SerializeToString()),
    )


async def end_call(context: Any, refusal: Refused) -> None:
    """End a call with the refusal's status; does not return."""
    await context.abort(
        _STATUS_CODES[refusal.code.value], _shorter(refusal.message), trailing_metadata=trailers_of(refusal)
    )


def internal(error: BaseException) -> Refused:
    """What a client hears when the server is at fault."""
    return Refused(
        Code.INTERNAL, f"The server failed ({type(error).__name__}): its log says more.", ends_call=True
    )


def _short(message: str) -> str:
    return message if len(message) <= _LONGEST_MESSAGE else f"{message[:_LONGEST_MESSAGE]}…"


def _shorter(text: str) -> str:
    encoded = text.encode()
    if len(encoded) <= _LONGEST_IN_TRAILERS:
        return text
    return f"{encoded[:_LONGEST_IN_TRAILERS].decode(errors='ignore')}…"
