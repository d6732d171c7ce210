"""Errors of a query, as BigQuery's API has them: a reason, a location, and a message with a position."""

from __future__ import annotations

from lode.errors import LodeError


class QueryError(LodeError):
    """A query that cannot be answered.

    Attributes:
        reason: The word of the API for it: ``invalidQuery``, ``notFound``, ``duplicate`` and the like.
        location: What the error is about; usually ``query``.
    """

    def __init__(self, message: str, *, reason: str = "invalidQuery", location: str = "query") -> None:
        super().__init__(message)
        self.reason = reason
        self.location = location


class UnsupportedError(QueryError):
    """A statement or a construct that this engine does not have."""

    def __init__(self, construct: str) -> None:
        super().__init__(f"{construct} is not supported by Lode's SQL.", reason="notImplemented")


class LimitError(QueryError):
    """A query that needs more memory or time than it may use, or has a larger result."""

    def __init__(self, message: str, *, reason: str = "resourcesExceeded") -> None:
        super().__init__(message, reason=reason)
