"""Errors of work in processes: as JSON, as an exception again, and in the words of the API."""

from __future__ import annotations

import logging
import traceback
from typing import TYPE_CHECKING, Any, Final

from lode.errors import LodeError, StoreError
from lode.ingest.catalog.catalog import DatasetInUse
from lode.ingest.status import Code, Refused
from lode.sql.errors import LimitError, QueryError

if TYPE_CHECKING:
    from lode.sandbox.processes import ProcessLostError
    from lode.sql.database import Limits

_MAX_TRACE_CHARS: Final = 4000

logger = logging.getLogger("lode.ingest")


class UnexpectedError(Exception):
    """A fault of Lode itself, found by the bytes of a client."""


def describe(error: Exception) -> dict[str, Any]:
    """An error as JSON."""
    text = str(error)
    match error:
        case QueryError():
            own = {"reason": error.reason, "location": error.location}
            return {"type": "limit" if isinstance(error, LimitError) else "query", "text": text, **own}
        case Refused():
            own = {"reason": error.reason, "location": error.location}
            kind = "in use" if isinstance(error, DatasetInUse) else "refused"
            return {"type": kind, "text": text, "code": error.code.value, **own}
        case MemoryError():
            return {"type": "memory", "text": "There is not enough memory."}
        case StoreError() | OSError():
            return {"type": "store", "text": text}
        case LodeError():
            return {"type": "lode", "text": text}
    trace = "".join(traceback.format_exception(error))[-_MAX_TRACE_CHARS:]
    return {"type": "other", "text": f"{type(error).__name__}: {error}", "trace": trace}


def restore(description: dict[str, Any]) -> Exception:
    """The error that was described."""
    text = str(description.get("text", ""))
    reason, location = str(description.get("reason", "")), str(description.get("location", ""))
    match description.get("type"):
        case "query":
            return QueryError(text, reason=reason, location=location)
        case "limit":
            return LimitError(text, reason=reason)
        case "refused" | "in use" as kind:
            made = DatasetInUse if kind == "in use" else Refused
            return made(Code(description.get("code", 13)), text, reason=reason, location=location)
        case "memory":
            return MemoryError(text)
        case "store":
            return StoreError(text)
        case "lode":
            return LodeError(text)
    logger.error("work in a process failed: %s\n%s", text, description.get("trace", ""))
    return UnexpectedError(text)


def as_error(error: Exception, limits: Limits) -> Exception:
    """An error of the work of a query in the words of the API. No client repeats what fails each time."""
    if isinstance(error, MemoryError):
        return out_of_memory(limits)
    if isinstance(error, UnexpectedError):
        kind = str(error).split(":")[0]
        return QueryError(
            f"The query cannot be run because of a fault of the server ({kind}): its log has details."
        )
    return error


def lost(error: ProcessLostError, limits: Limits) -> Exception:
    """The error of a query whose process has ended."""
    match error.reason:
        case "time":
            return too_late(limits)
        case "stopped":
            return QueryError("Job execution was cancelled: User requested cancellation", reason="stopped")
        case "memory":
            return out_of_memory(limits)
        case "closing":
            return QueryError("The server stops: send the query again.", reason="backendError", location="")
    return QueryError(
        f"{error}, and nothing was changed by it: send the query again. If it ends each time, the machine "
        "may have too little memory for it.",
        reason="backendError",
        location="",
    )


def too_late(limits: Limits) -> LimitError:
    return LimitError(f"Query exceeded the time limit of {limits.seconds:g} seconds", reason="timeout")


def out_of_memory(limits: Limits) -> LimitError:
    return LimitError(
        "Resources exceeded during query execution: the query could not be executed in the allotted memory "
        f"of {limits.memory_bytes:,} bytes"
    )
