"""What obstore's errors mean for us."""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

from lode.errors import (
    InvalidPathError,
    LodeError,
    NotFoundError,
    PermissionDeniedError,
    StoreError,
)
from lode.store.object_reasons import is_no_bucket, reason_of, status_of


class Refusal(Enum):
    """Why a conditional write did not report success."""

    CONDITION = auto()
    """The condition did not hold: somebody else's object is there."""

    CONFLICT = auto()
    """Another conditional write was under way at the same moment; this one was not tried."""

    UNSENT = auto()
    """The request was turned away or never left, so it cannot have taken effect."""

    UNKNOWN = auto()
    """The request left and its answer was lost: it may have taken effect, even later."""


class Refused(NamedTuple):
    """A conditional write that did not report success."""

    why: Refusal
    error: Exception


def refusal(error: Exception, path: str, *, creating: bool) -> Refusal:
    """Tell why a conditional write failed. What no second try can mend is raised.

    obstore reports a 412 as ``PreconditionError``, or as ``AlreadyExistsError`` when creating, and a
    409 as ``AlreadyExistsError`` always; so those two are told apart by the status in the message.
    """
    from obstore import exceptions

    if isinstance(error, (exceptions.PreconditionError, exceptions.NotModifiedError)):
        return Refusal.CONDITION
    status = status_of(error)
    if isinstance(error, exceptions.AlreadyExistsError):
        # Azure says 409 for "exists" as well and names it; S3 only for two requests at once.
        conflict = status == 409 and "BlobAlreadyExists" not in str(error)
        return Refusal.CONFLICT if conflict else Refusal.CONDITION
    if isinstance(error, FileNotFoundError):
        if not creating:
            return Refusal.CONDITION
        raise StoreError(
            f"cannot put {path!r}: the bucket or container is not there: check its name, or create it"
        ) from error
    reason = reason_of(error)
    if not isinstance(error, exceptions.GenericError) or reason.lasting:
        raise translated(error, path) from error
    if status == 429 or reason.unsent:
        return Refusal.UNSENT
    if status is None or status >= 500 or status == 408:
        return Refusal.UNKNOWN
    raise translated(error, path) from error


def translated(error: Exception, path: str) -> LodeError:
    """Return the library's error for one of obstore's."""
    from obstore import exceptions

    if isinstance(error, FileNotFoundError) and not is_no_bucket(error):
        return NotFoundError(f"no object {path!r}")
    # obstore refuses a path it cannot parse with a plain ValueError.
    if isinstance(error, (exceptions.InvalidPathError, ValueError)):
        return InvalidPathError(f"path {path!r} cannot be held in object storage: {summary(error)}")
    reason = reason_of(error)
    denied = (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError)
    if reason.denied or isinstance(error, denied):
        return PermissionDeniedError(f"no permission for {path!r}: {reason.text}")
    return StoreError(f"the object store failed on {path!r}: {reason.text}")


def summary(error: Exception) -> str:
    """Return the message without the dump of obstore's own structures below it."""
    return str(error).partition("\n\nDebug source")[0]
