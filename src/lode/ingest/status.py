"""Refusals: the error responses of the server.

Most refusals of an append are sent inside its response, and the call continues. Those with ``ends_call`` end
the call with a gRPC status, like every refusal of a unary method.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final


class Code(IntEnum):
    """The codes of google.rpc.Code that this server uses."""

    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


# The reason of an error in REST. Clients decide by it whether to try again: they do for backendError and
# internalError.
REASONS: Final = {
    Code.CANCELLED: "stopped",
    Code.INVALID_ARGUMENT: "invalid",
    Code.OUT_OF_RANGE: "invalid",
    Code.UNAUTHENTICATED: "authError",
    Code.PERMISSION_DENIED: "accessDenied",
    Code.NOT_FOUND: "notFound",
    Code.ALREADY_EXISTS: "duplicate",
    Code.ABORTED: "aborted",
    Code.FAILED_PRECONDITION: "conditionNotMet",
    Code.RESOURCE_EXHAUSTED: "rateLimitExceeded",
    Code.UNIMPLEMENTED: "notImplemented",
    Code.UNAVAILABLE: "backendError",
    Code.DEADLINE_EXCEEDED: "backendError",
    # Not internalError: only a repair of the lake helps.
    Code.DATA_LOSS: "dataLoss",
}


class StorageCode(IntEnum):
    """The codes of ``StorageError``, which the retry logic of clients uses."""

    UNSPECIFIED = 0
    TABLE_NOT_FOUND = 1
    STREAM_ALREADY_COMMITTED = 2
    STREAM_NOT_FOUND = 3
    INVALID_STREAM_TYPE = 4
    INVALID_STREAM_STATE = 5
    STREAM_FINALIZED = 6
    SCHEMA_MISMATCH_EXTRA_FIELDS = 7
    OFFSET_ALREADY_EXISTS = 8
    OFFSET_OUT_OF_RANGE = 9


@dataclass(frozen=True, slots=True)
class RowProblem:
    """One invalid row of a request: its index in the request, and the reason."""

    index: int
    message: str


class Refused(Exception):  # noqa: N818, a response rather than a failure of the server
    """A request that failed with ``code`` and one sentence. Nothing of it was stored.

    Args:
        code: The code of the status.
        message: One sentence that names the problem and the remedy.
        storage: The code of its ``StorageError``, if the service sends one.
        entity: The stream or table of the ``StorageError``.
        ends_call: Whether it ends an append call; otherwise it is sent as a response, and the call continues.
        rows: The invalid rows, if they are the reason.
        reason: The reason in REST; that of the code in ``REASONS`` if not given.
        location: What the error is about, in REST.
    """

    def __init__(
        self,
        code: Code,
        message: str,
        *,
        storage: StorageCode | None = None,
        entity: str = "",
        ends_call: bool = False,
        rows: tuple[RowProblem, ...] = (),
        reason: str = "",
        location: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.storage = storage
        self.entity = entity
        self.ends_call = ends_call
        self.rows = rows
        self.reason = reason
        self.location = location
        # The stream of a refused append, by the name that the client used.
        self.stream = ""


def not_found(entity: str, storage: StorageCode) -> Refused:
    """The refusal for a missing stream or table, in the words of the Storage Write API."""
    return Refused(
        Code.NOT_FOUND,
        f"Requested entity was not found. Entity: {entity}",
        storage=storage,
        entity=entity,
        ends_call=True,
    )


def invalid(message: str, *, ends_call: bool = False) -> Refused:
    """The refusal of an invalid request."""
    return Refused(Code.INVALID_ARGUMENT, message, ends_call=ends_call)


def bad_rows(problems: list[RowProblem] | tuple[RowProblem, ...], *, all_known: bool = True) -> Refused:
    """The refusal of a request with invalid rows: none is appended, and the call continues."""
    return Refused(
        Code.INVALID_ARGUMENT,
        f"Errors found while processing rows: {len(problems)}{'' if all_known else ' or more'} of them bad, "
        "none appended. "
        "Please refer to the row_errors field for details.",
        rows=tuple(problems),
    )
