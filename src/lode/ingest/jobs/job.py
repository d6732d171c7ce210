"""One job: what it is to do, how far it has come, and its form in REST v2."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

from lode.ingest.status import REASONS, Code, Refused

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

State: TypeAlias = Literal["PENDING", "RUNNING", "DONE"]

# The payload of a dry run of the query of a view: those who read the view filter its partitions.
VIEW: Final = object()
# A message may repeat input.
_MAX_MESSAGE_CHARS: Final = 2000
_MAX_ERRORS: Final = 100


# What is read from the disk again for a finished job with a large record, and what stays.
_SHELVED: Final = ("configuration", "statistics", "errors")
_MAX_KEPT_STATISTICS: Final = 4 << 10
_KEPT: Final = ("created_ms", "started_ms", "ended_ms", "failed", "client")


@dataclass(slots=True)
class _Facts:
    """The parts of a job that may be large."""

    configuration: dict[str, Any]
    statistics: dict[str, Any] = field(default_factory=dict)
    errors: list[dict[str, str]] = field(default_factory=list)


class JobType(Protocol):
    """What jobs of one type do. The key in ``configuration`` selects the type: load, copy, extract, query."""

    @property
    def durable(self) -> bool:
        """Whether a finished job is known after a restart of the server."""

    @property
    def workers(self) -> int:
        """The number of jobs that run at once; others wait. Ingest has threads of its own."""

    def check(self, job: Job) -> None:
        """Refuse a request before there is a job. May complete ``job.configuration``."""

    def run(self, job: Job) -> None:
        """Do the work and set ``job.statistics``. Runs on a thread; a ``Refused`` makes the job fail."""


class Job:
    """One job. Its type changes ``configuration``, ``statistics`` and ``result``; the registry all else.

    Args:
        project: The project that it belongs to.
        id: Its id, unique in the project and location.
        location: Its location.
        configuration: As the client sent it.
        kind: The key of its type in ``configuration``.
    """

    def __init__(
        self, project: str, id: str, location: str, configuration: dict[str, Any], kind: str
    ) -> None:
        self.project = project
        self.id = id
        self.location = location
        self.kind = kind
        # Who sent it; see ``lode.ingest.api.client``.
        self.client = ""
        # The bytes of its request; of a finished job, those of its record.
        self.size = 0
        self.state: State = "PENDING"
        self.created_ms = _now_ms()
        self.started_ms = 0
        self.ended_ms = 0
        self._facts = _Facts(configuration)
        # The file that has the facts of a finished job, if they are large.
        self._shelf: Path | None = None
        self.failed = False
        # What the request brought along for the work, such as an uploaded file. Dropped when it is done.
        self.payload: Any = None
        # What a finished job keeps for other methods, such as the rows of a query.
        self.result: Any = None
        # The refusal of a failed job, for methods that answer with it.
        self.refusal: Refused | None = None
        self._done: Future[None] = Future()
        self._cancelled = threading.Event()

    @property
    def configuration(self) -> dict[str, Any]:
        """As the client sent it, completed by its type."""
        return self._read().configuration

    @property
    def statistics(self) -> dict[str, Any]:
        """Merged into the statistics of the resource, such as ``{"load": {"outputRows": "3"}}``."""
        return self._facts.statistics or self._read().statistics

    @statistics.setter
    def statistics(self, found: dict[str, Any]) -> None:
        self._facts.statistics = found

    @property
    def errors(self) -> list[dict[str, str]]:
        """The errors in the form of REST. The first is the reason of a failure, if the job failed."""
        return self._read().errors

    @property
    def settings(self) -> dict[str, Any]:
        """The configuration of its type."""
        found: dict[str, Any] = self.configuration[self.kind]
        return found

    @property
    def is_dry(self) -> bool:
        """Whether it only checks a query. It is not kept, so answers do not have its id."""
        return self._shelf is None and bool(self.configuration.get("dryRun"))

    @property
    def reference(self) -> dict[str, str]:
        """The ``jobReference`` of answers."""
        id = {} if self.is_dry else {"jobId": self.id}
        return {"projectId": self.project, **id, "location": self.location}

    @property
    def full_id(self) -> str:
        """``project:location.id``."""
        return f"{self.project}:{self.location}.{self.id}"

    @property
    def idempotency_key(self) -> tuple[str, str]:
        """The key of its commit: a job id that is used again after a crash commits nothing again."""
        return ("jobs", f"{self.project}:{self.location}.{self.id}")

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is done; returns whether it is."""
        return bool(wait([self._done], timeout).done)

    async def finished(self, timeout: float) -> bool:
        """Wait until it is done without a thread; returns whether it is."""
        # Not cancelled with the waiting task, which would cancel ``_done`` for others.
        await asyncio.wait([asyncio.wrap_future(self._done)], timeout=timeout)
        return self._done.done()

    def cancel(self) -> None:
        """Ask it to stop. Work that has been committed stays."""
        self._cancelled.set()

    @property
    def is_cancelled(self) -> bool:
        """Whether it was asked to stop."""
        return self._cancelled.is_set()

    def check_cancelled(self) -> None:
        """Raise if it was asked to stop. Types call this between the parts of their work."""
        if self._cancelled.is_set():
            raise Refused(
                Code.CANCELLED,
                "Job execution was cancelled: User requested cancellation",
                reason="stopped",
            )

    def begin(self) -> None:
        self.started_ms = _now_ms()
        self.state = "RUNNING"

    def conclude(self, refusal: Refused | None = None) -> None:
        """Record the outcome, which ``finish`` shows."""
        self.ended_ms = max(_now_ms(), self.started_ms, self.created_ms)
        self.started_ms = self.started_ms or self.ended_ms
        self.payload = None
        if refusal is not None:
            # Not the exception itself: its traceback would keep what the job worked on.
            self.refusal = Refused(
                refusal.code,
                _bounded(refusal.message),
                reason=refusal.reason,
                location=refusal.location,
            )
            self.failed = True
            self.add_errors([error_of(refusal)], first=True)

    def finish(self) -> None:
        """Show the outcome."""
        self.state = "DONE"
        self._done.set_result(None)

    def add_errors(self, errors: Sequence[dict[str, str]], *, first: bool = False) -> None:
        """Add errors, up to a limit. Those of skipped rows do not make the job fail."""
        found = [*errors, *self.errors] if first else [*self.errors, *errors]
        self._facts.errors = found[:_MAX_ERRORS]

    def resource(self, root: str) -> dict[str, Any]:
        """The job as REST v2 writes it; ``root`` is the base of its link."""
        if self._shelf is not None:
            return self.loaded().resource(root)
        return {
            "kind": "bigquery#job",
            "etag": self.etag,
            "id": self.full_id,
            "selfLink": f"{root}bigquery/v2/projects/{self.project}/jobs/{self.id}?location={self.location}",
            "user_email": f"lode@{self.project}.invalid",
            "configuration": {**self.configuration, "jobType": self.kind.upper()},
            "jobReference": self.reference,
            "statistics": self._statistics(),
            "status": self._status(),
            **({} if self.is_dry else {"jobCreationReason": {"code": "REQUESTED"}}),
        }

    def listed(self, *, full: bool) -> dict[str, Any]:
        """The job as a list has it; ``full`` includes its configuration."""
        resource = self.resource("")
        wanted = ("kind", "id", "jobReference", "statistics", "status", "user_email")
        item = {key: resource[key] for key in (*wanted, *(["configuration"] if full else []))}
        item["state"] = self.state
        error = resource["status"].get("errorResult")
        if error is not None:
            item["errorResult"] = error
        return item

    @property
    def etag(self) -> str:
        text = f"{self.full_id} {self.created_ms} {self.state} {self.ended_ms}"
        return sha256(text.encode()).hexdigest()[:16]

    def _statistics(self) -> dict[str, Any]:
        times = {
            "creationTime": self.created_ms,
            "startTime": 0 if self.is_dry else self.started_ms,
            "endTime": self.ended_ms,
        }
        found: dict[str, Any] = {name: str(value) for name, value in times.items() if value}
        if self.ended_ms and not self.is_dry:
            found["totalSlotMs"] = str(self.ended_ms - self.started_ms)
        return found | self.statistics

    def _status(self) -> dict[str, Any]:
        status: dict[str, Any] = {"state": self.state}
        if self.state == "DONE" and self.errors:
            if self.failed:
                status["errorResult"] = self.errors[0]
            status["errors"] = self.errors
        return status

    # -- after a restart -----------------------------------------------------------------------

    def record(self) -> dict[str, Any]:
        """What a finished job is stored as."""
        names = (
            "project",
            "id",
            "location",
            "configuration",
            "kind",
            "created_ms",
            "started_ms",
            "ended_ms",
            "statistics",
            "errors",
            "failed",
            "client",
        )
        return {name: getattr(self, name) for name in names}

    def shelve(self, file: Path) -> None:
        """Keep only the place of its record. What it is asked for is read from there."""
        self._shelf = file
        statistics = self._facts.statistics
        # Clients ask for the statistics again with every page of rows.
        small = len(json.dumps(statistics, default=str)) <= _MAX_KEPT_STATISTICS
        self._facts = _Facts({}, statistics if small else {})

    def loaded(self) -> Job:
        """The job with all facts in memory; of a finished job that is a copy."""
        if self._shelf is None:
            return self
        record = {name: getattr(self, name) for name in ("project", "id", "location", "kind", *_KEPT)}
        facts = self._read()
        return Job.restored({**record, **{name: getattr(facts, name) for name in _SHELVED}})

    def _read(self) -> _Facts:
        shelf = self._shelf
        if shelf is None:
            return self._facts
        try:
            record = json.loads(shelf.read_bytes())
            return _Facts(*(record[name] for name in _SHELVED))
        except (OSError, ValueError, KeyError, TypeError):
            return _Facts({self.kind: {}})  # it was forgotten meanwhile

    @staticmethod
    def restored(record: dict[str, Any]) -> Job:
        """A finished job of an earlier process."""
        made = Job(*(record[name] for name in ("project", "id", "location", "configuration", "kind")))
        for name in ("created_ms", "started_ms", "ended_ms", "failed"):
            setattr(made, name, record[name])
        made.client = record.get("client", "")
        made._facts = _Facts(*(record[name] for name in _SHELVED))
        made.finish()
        return made


def error_of(refusal: Refused) -> dict[str, str]:
    """An error as the status of a job has it."""
    error = {"reason": refusal.reason or REASONS.get(refusal.code, "internalError")}
    if refusal.location:
        error["location"] = refusal.location
    # A message may repeat input that UTF-8 cannot encode.
    error["message"] = _bounded(refusal.message.encode(errors="replace").decode())
    return error


def _bounded(text: str) -> str:
    return text if len(text) <= _MAX_MESSAGE_CHARS else f"{text[:_MAX_MESSAGE_CHARS]}…"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
