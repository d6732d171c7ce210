"""Refusals on the wire: a ``google.rpc.Status`` in a response, or the trailers of a call that ends."""

from __future__ import annotations

import re
from typing import Any, Final

import grpc
from google.cloud.bigquery_storage_v1 import types
from google.protobuf.message import DecodeError
from google.rpc import status_pb2

from lode.errors import (
    CommitError,
    ComponentMismatchError,
    DataError,
    LodeError,
    MissingError,
    StoreError,
    UsageError,
)
from lode.ingest.status import Code, Refused, invalid

# Go, Java and Python read the first; Node reads only the second.
_STATUS_TRAILER: Final = "grpc-status-details-bin"
_STORAGE_TRAILER: Final = "google.cloud.bigquery.storage.v1.storageerror-bin"
_MAX_MESSAGE_CHARS: Final = 2000
# In bytes. Clients refuse trailers of more than 8 KB, and with them the whole answer: of a text of this size
# there are four copies at most, two of them in base64 and one with three characters for a byte.
_MAX_TRAILER_BYTES: Final = 600

# Signed URLs carry their key in the query, others a password before the host.
_URL_SECRETS: Final = re.compile(r"(\w://)(?:[^\s/?#@]*@)?([^\s?#'\")]*)(?:\?[^\s#'\")]*)?")

_StorageError: Any = types.StorageError.pb()
_STATUS_CODES: Final = {code.value[0]: code for code in grpc.StatusCode}


def parsed(kind: Any, data: bytes, *, ends_call: bool = False) -> Any:
    """A request of this kind, or a refusal of bytes that are none."""
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
        code=refusal.storage.value, entity=refusal.entity, error_message=short(refusal.message)
    )


def status_of(refusal: Refused) -> Any:
    """The refusal as it goes into ``AppendRowsResponse.error``."""
    status = status_pb2.Status(code=refusal.code.value, message=short(refusal.message))
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
    """The refusal for an error that is none: the lake's fault, or the server's.

    Clients try again after UNAVAILABLE and not after DATA_LOSS, which only a repair of the lake ends.
    """
    code, message = _meaning(error)
    return Refused(code, without_secrets(message), ends_call=True)


def _meaning(error: BaseException) -> tuple[Code, str]:
    match error:
        case ComponentMismatchError():
            return Code.FAILED_PRECONDITION, str(error)
        case DataError() | MissingError() | FileNotFoundError():
            # What a client named is refused before: this is an object that should be there and whole.
            return Code.DATA_LOSS, f"The lake is damaged: {error}. Repair it, then try again."
        case StoreError() | CommitError() | OSError():
            return Code.UNAVAILABLE, f"The lake's store failed ({error}): try again."
        case UsageError():
            return Code.INVALID_ARGUMENT, str(error)
        case RecursionError():
            return Code.INVALID_ARGUMENT, "The request is nested too deep: send it with fewer levels."
        case LodeError():
            return Code.INTERNAL, f"The server failed: {error}."
    return Code.INTERNAL, f"The server failed ({type(error).__name__}): its log says more."


def without_secrets(text: str) -> str:
    """The text without what the URLs in it have before an @ and behind a question mark."""
    return _URL_SECRETS.sub(r"\1\2", text)


def short(message: str) -> str:
    """A message of bounded length: it may repeat what was sent."""
    return message if len(message) <= _MAX_MESSAGE_CHARS else f"{message[:_MAX_MESSAGE_CHARS]}…"


def _shorter(text: str) -> str:
    encoded = text.encode()
    if len(encoded) <= _MAX_TRAILER_BYTES:
        return text
    return f"{encoded[:_MAX_TRAILER_BYTES].decode(errors='ignore')}…"
