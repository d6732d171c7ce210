"""REST v2: jobs.query and jobs.getQueryResults."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

from lode.ingest.api.rest.call import is_whole, page_token, parse_page_token
from lode.ingest.api.rest.cells import page_of_cells
from lode.ingest.api.rest.rows import MAX_PAGE_ROWS, timestamps_of
from lode.ingest.status import Code, Refused, invalid
from lode.ingest.types.rest import to_rest

if TYPE_CHECKING:
    from lode.ingest.api.rest.call import RestCall
    from lode.ingest.api.rest.cells import TimestampFormat
    from lode.ingest.api.rest.contents import ContentCache
    from lode.ingest.jobs.job import Job
    from lode.ingest.jobs.query import Rows
    from lode.ingest.jobs.registry import Jobs

_DEFAULT_TIMEOUT_MS: Final = 10_000
_TIMES: Final = ("creationTime", "startTime", "endTime")
_MAX_TIMEOUT_MS: Final = 200_000
# Fields of jobs.query that are fields of the configuration of a query job.
_OF_QUERY: Final = (
    "query",
    "useLegacySql",
    "useQueryCache",
    "createSession",
    "defaultDataset",
    "queryParameters",
    "parameterMode",
    "maximumBytesBilled",
    "connectionProperties",
    "continuous",
    "destinationTable",
    "writeDisposition",
    "createDisposition",
    "preserveNulls",
)


class QueryMethods:
    """The methods on queries. Each returns the JSON of the answer."""

    def __init__(self, jobs: Jobs, contents: ContentCache) -> None:
        self._jobs = jobs
        self._contents = contents

    def start_query(self, call: RestCall) -> tuple[Job, float]:
        """Start a query; returns it and the seconds to wait for it."""
        body = call.body
        timeout = _timeout(body.get("timeoutMs")) / 1000
        configuration: dict[str, Any] = {"query": {key: body[key] for key in _OF_QUERY if key in body}}
        for key in ("dryRun", "labels", "jobTimeoutMs"):
            if body.get(key):
                configuration[key] = body[key]
        configuration["query"].setdefault("priority", "INTERACTIVE")
        return self._start(call, configuration), timeout

    def query(self, call: RestCall, job: Job, done: bool) -> dict[str, Any]:
        """The answer to jobs.query."""
        answer = {"kind": "bigquery#queryResponse", **self._answer(job, done), **_times(job, done)}
        if done and job.result is not None and not job.is_dry:
            options = call.body.get("formatOptions") or {}
            answer |= self._page(job, 0, call.body.get("maxResults"), _format(options))
        elif done:
            answer |= self._empty(job)
        return answer

    def find(self, call: RestCall) -> tuple[Job, float]:
        """Find a query; returns it and the seconds to wait for it."""
        job = self._jobs.get(call.project, call.params["job"], call.query.get("location"))
        if job.kind != "query":
            raise invalid(f"Job {job.full_id} is not a query: it has no rows.")
        return job, _timeout(call.query.get("timeoutMs")) / 1000

    def results(self, call: RestCall, job: Job, done: bool) -> dict[str, Any]:
        """The answer to jobs.getQueryResults."""
        answer = {"kind": "bigquery#getQueryResultsResponse", "etag": job.etag, **self._answer(job, done)}
        if done and job.result is not None:
            token = call.query.get("pageToken", "")
            start = _position(token, job) if token else call.number("startIndex") or 0
            answer |= self._page(job, start, call.query.get("maxResults"), timestamps_of(call))
        elif done:
            answer |= self._empty(job)
        return answer

    def _start(self, call: RestCall, configuration: dict[str, Any]) -> Job:
        """Start a query. A second request of the same requestId gets the job of the first."""
        request = call.body.get("requestId")
        id = None
        if request:
            text = f"{call.project} {request} {configuration['query'].get('query')}"
            id = "request_" + hashlib.sha256(text.encode()).hexdigest()[:40]
        try:
            return self._jobs.insert(
                call.project,
                configuration,
                id=id,
                location=call.body.get("location") or None,
                client=call.client,
                size=call.size,
            )
        except Refused as refused:
            if id is None or refused.code is not Code.ALREADY_EXISTS:
                raise
            return self._jobs.get(call.project, id)

    def _answer(self, job: Job, done: bool) -> dict[str, Any]:
        if done and job.refusal is not None:
            raise job.refusal
        answer: dict[str, Any] = {"jobReference": job.reference, "jobComplete": done}
        if not done:
            return answer
        query = job.statistics.get("query", {})
        answer |= {"cacheHit": False, "totalBytesProcessed": query.get("totalBytesProcessed", "0")}
        for key in ("numDmlAffectedRows", "dmlStats"):
            if key in query:
                answer[key] = query[key]
        return answer

    def _empty(self, job: Job) -> dict[str, Any]:
        result: Rows | None = job.result
        if result is None:
            return {"totalRows": "0"} if "numDmlAffectedRows" not in job.statistics.get("query", {}) else {}
        return {"schema": to_rest(result.schema)} | ({} if job.is_dry else {"totalRows": "0"})

    def _page(self, job: Job, start: int, most: Any, timestamps: TimestampFormat) -> dict[str, Any]:
        result: Rows = job.result
        limit = MAX_PAGE_ROWS if most in (None, "") else min(MAX_PAGE_ROWS, _number(most, "maxResults"))
        stop = min(result.total, start + limit)
        batches = self._batches(job, result, start, stop)
        rows = page_of_cells(batches, result.schema, timestamps=timestamps)
        answer: dict[str, Any] = {"schema": to_rest(result.schema), "totalRows": str(result.total)}
        if rows:
            answer["rows"] = rows
        reached = start + len(rows)
        if reached < result.total and (rows or not limit):
            answer["pageToken"] = page_token(f"{job.id}:{reached}")
        return answer

    def _batches(self, job: Job, result: Rows, start: int, stop: int) -> Any:
        if start >= stop:
            return ()
        if result.table is not None:
            content = self._contents.of(result.table)
            return self._contents.rows(result.table, content, result.schema, start, stop)
        if result.kept is None:
            raise Refused(
                Code.NOT_FOUND,
                f"Not found: the results of job {job.full_id} have expired: run the query again.",
            )
        # One array for each column, in pages of bounded size.
        page = result.kept.slice(start, stop - start).combine_chunks()
        return page.to_batches(max_chunksize=10_000)


def _times(job: Job, done: bool) -> dict[str, Any]:
    """The fields of the job in the answer of jobs.query, which save clients a request."""
    shown = job.resource("")
    found = {
        "location": job.location,
        **{key: shown["statistics"][key] for key in _TIMES if key in shown["statistics"]},
    }
    if not job.is_dry:
        found |= {"queryId": job.id, "jobCreationReason": shown["jobCreationReason"]}
    if done:
        found["totalBytesBilled"] = job.statistics.get("query", {}).get("totalBytesBilled", "0")
    return found


def _timeout(given: Any) -> int:
    return _DEFAULT_TIMEOUT_MS if given in (None, "") else min(_number(given, "timeoutMs"), _MAX_TIMEOUT_MS)


def _number(given: Any, what: str) -> int:
    text = str(given)
    if not is_whole(text):
        raise invalid(f"Invalid value for {what}: it is not a whole number of 0 or more.")
    return int(text)


def _position(token: str, job: Job) -> int:
    id, _, row = parse_page_token(token).rpartition(":")
    if id != job.id or not is_whole(row):
        raise invalid("Invalid value for pageToken: it is not of this job, start again without one.")
    return int(row)


def _format(options: Any) -> TimestampFormat:
    if isinstance(options, dict):
        form = options.get("timestampOutputFormat")
        if form in ("INT64", "FLOAT64", "ISO8601_STRING"):
            return form  # type: ignore[no-any-return]
        if options.get("useInt64Timestamp") in (True, "true"):
            return "INT64"
    return "FLOAT64"
