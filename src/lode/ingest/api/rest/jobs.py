"""REST v2: jobs insert, get, list, cancel and delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from lode.ingest.api.rest.call import page_token
from lode.ingest.status import invalid

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lode.ingest.api.rest.call import RestCall
    from lode.ingest.jobs.job import Job
    from lode.ingest.jobs.registry import Jobs

# How long a new job is waited for: clients see short jobs done and need not ask again.
QUICK_SECONDS: Final = 0.5
# The most bytes of a page of jobs, unless it has only one.
MAX_PAGE_BYTES: Final = 4 << 20
_STATES: Final = ("pending", "running", "done")


class JobMethods:
    """The methods on jobs. Each returns the JSON of the answer."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def insert(self, call: RestCall) -> tuple[Job, float]:
        """Start a job; returns it and the seconds to wait for it."""
        return self.start(call, None), QUICK_SECONDS

    def start(self, call: RestCall, payload: Any) -> Job:
        """Start the job of a request, which may have brought a file along."""
        reference = call.body.get("jobReference") or {}
        if not isinstance(reference, dict):
            raise invalid("Invalid value for jobReference: it must be an object.")
        if reference.get("projectId") not in (None, "", call.project):
            raise invalid("The jobReference names another project than the path: give the same in both.")
        configuration = call.body.get("configuration")
        if isinstance(configuration, dict) and isinstance(configuration.get("query"), dict):
            configuration["query"].setdefault("priority", "INTERACTIVE")
        return self._jobs.insert(
            call.project,
            configuration,  # type: ignore[arg-type]  # checked there
            id=reference.get("jobId"),
            location=reference.get("location"),
            payload=payload,
            client=call.client,
            size=call.size,
        )

    @staticmethod
    def answer(call: RestCall, job: Job, _done: bool) -> dict[str, Any]:
        if job.refusal is not None and job.refusal.reason == "bytesBilledLimitExceeded":
            # The service refuses it before it runs. Clients have no HTTP status for this reason.
            raise job.refusal
        return job.resource(call.root)

    def find(self, project: str, id: str, root: object) -> dict[str, Any]:
        """Return a job that an upload has started."""
        return self._jobs.get(project, id).resource(str(root))

    def get(self, call: RestCall) -> dict[str, Any]:
        return self._find(call).resource(call.root)

    def list(self, call: RestCall) -> dict[str, Any]:
        after, limit = call.page()
        full = call.choice("projection", ("full", "minimal", "FULL", "MINIMAL")).lower() == "full"
        found = self._jobs.list(call.project, after=after, limit=limit, keep=_filter(call))
        jobs = _page(found, full=full)
        answer: dict[str, Any] = {
            "kind": "bigquery#jobList",
            "etag": f"{len(jobs)}-{found[0].etag if found else ''}",
            "jobs": jobs,
        }
        if len(jobs) == limit or len(jobs) < len(found):
            answer["nextPageToken"] = page_token(found[len(jobs) - 1].id)
        return answer

    def cancel(self, call: RestCall) -> dict[str, Any]:
        job = self._find(call)
        self._jobs.cancel(job)
        return {"kind": "bigquery#jobCancelResponse", "job": job.resource(call.root)}

    def delete(self, call: RestCall) -> dict[str, Any]:
        self._jobs.delete(self._find(call))
        return {}

    def _find(self, call: RestCall) -> Job:
        return self._jobs.get(call.project, call.params["job"], call.query.get("location"))


def _page(found: Sequence[Job], *, full: bool) -> list[dict[str, Any]]:
    """The first jobs, at least one of them, as many as an answer may have bytes."""
    jobs: list[dict[str, Any]] = []
    size = 0
    for job in found:
        item = job.listed(full=full)
        size += len(msgspec.json.encode(item))
        if jobs and size > MAX_PAGE_BYTES:
            break
        jobs.append(item)
    return jobs


def _filter(call: RestCall) -> Callable[[Job], bool]:
    states = {state.lower() for state in call.values("stateFilter")}
    if not states <= set(_STATES):
        raise invalid(f"Invalid value for stateFilter: it must be one of {', '.join(_STATES)}.")
    # The statements of a script are no jobs of their own.
    parent = call.query.get("parentJobId")
    least, most = call.number("minCreationTime"), call.number("maxCreationTime")

    def keep(job: Job) -> bool:
        return (
            not parent
            and (not states or job.state.lower() in states)
            and (least is None or job.created_ms >= least)
            and (most is None or job.created_ms <= most)
        )

    return keep
