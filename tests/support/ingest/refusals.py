"""Refusals as clients receive them: inside a response, or as status and trailers of an ended call."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.api_core.exceptions import GoogleAPICallError
from google.cloud.bigquery_storage_v1 import types
from google.rpc import status_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator

_StorageError: Any = types.StorageError  # its parts have no types
Codes = types.StorageError.StorageErrorCode
UNKNOWN_TABLE = "projects/p/datasets/d/tables/nobody"
# A valid id of no stream.
UNKNOWN_ID = f"s-{'0' * 32}"
INVALID, NOT_FOUND = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND
OUT_OF_RANGE = grpc.StatusCode.OUT_OF_RANGE


def storage_error(response: Any) -> types.StorageError:
    """Return the detail of an error inside a response."""
    raw = types.AppendRowsResponse.pb(response)
    assert len(raw.error.details) == 1
    return _unpacked(raw.error.details[0])


@contextlib.contextmanager
def ends_with(code: grpc.StatusCode) -> Iterator[list[Any]]:
    """Expect the call to end with this status; yields an object with the error."""
    found: list[Any] = []
    with pytest.raises(GoogleAPICallError) as caught:
        yield found
    assert caught.value.grpc_status_code is code, caught.value
    found.append(caught.value)


def trailer_errors(error: Any) -> list[types.StorageError]:
    """Return the ``StorageError``, which both trailers of an ended call must have."""
    trailers = dict(error.errors[0].trailing_metadata())
    status = status_pb2.Status.FromString(trailers["grpc-status-details-bin"])
    assert status.code == error.grpc_status_code.value[0]
    second = trailers["google.cloud.bigquery.storage.v1.storageerror-bin"]
    return [_unpacked(status.details[0]), _StorageError.wrap(_StorageError.pb().FromString(second))]


def _unpacked(detail: Any) -> types.StorageError:
    found = _StorageError.pb()()
    assert detail.Unpack(found)
    wrapped: types.StorageError = _StorageError.wrap(found)
    return wrapped


def codes(response: types.BatchCommitWriteStreamsResponse) -> list[str]:
    return [error.code.name for error in response.stream_errors]
