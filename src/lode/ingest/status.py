"""Refusals: what the server answers when it does not do what was asked.

Two channels lead back to a client. Most refusals of an append travel inside its response and the call goes
on; those with ``ends_call`` end it with a gRPC status, as every refusal of a unary method does.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


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


class StorageCode(IntEnum):
    """The codes of ``StorageError``, which clients' retry logic reads."""

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
    """One bad row of a request, by its index in the request, and what is wrong with it."""

    index: int
    message: str


class Refused(Exception):  # noqa: N818, an answer rather than a failure of ours
    """A request that is answered with ``code`` and one sentence, and of which nothing was stored.

    Args:
        code: The code of the status.
        message: One sentence that names the thing and the remedy.
        storage: The code of the ``StorageError`` that goes with it, if the service sends one.
        entity: The stream or table the ``StorageError`` is about.
        ends_call: Whether an append call ends with it; otherwise it is one response among others.
        rows: The bad rows, when the refusal is about rows.
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
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.storage = storage
        self.entity = entity
        self.ends_call = ends_call
        self.rows = rows
        # The stream a refused append was meant for, as its client calls it.
        self.stream = ""


def not_found(entity: str, storage: StorageCode) -> Refused:
    """A stream or table that does not exist, in the words of the Storage Write API."""
    return Refused(
        Code.NOT_FOUND,
        f"Requested entity was not found. Entity: {entity}",
        storage=storage,
        entity=entity,
        ends_call=True,
    )


def invalid(message: str, *, ends_call: bool = False) -> Refused:
    """A request that cannot be understood."""
    return Refused(Code.INVALID_ARGUMENT, message, ends_call=ends_call)


def bad_rows(problems: list[RowProblem] | tuple[RowProblem, ...], *, all_known: bool = True) -> Refused:
    """A request with bad rows: refused whole, its call goes on."""
    return Refused(
        Code.INVALID_ARGUMENT,
        f"Errors found while processing rows: {len(problems)}{'' if all_known else ' or more'} of them bad, "
        "none appended. "
        "Please refer to the row_errors field for details.",
        rows=tuple(problems),
    )
