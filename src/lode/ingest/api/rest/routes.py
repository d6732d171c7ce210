"""The part of BigQuery's REST v2 API that clients need besides the streaming APIs.

The catalog has datasets and tables (``datasets.py``, ``tables.py``), Lode's datasets have the rows
(``rows.py``), and ``lode.ingest.jobs`` runs jobs (``jobs.py``).
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Route

from lode.ingest.api.audit import Audit
from lode.ingest.api.client import client_of_scope
from lode.ingest.api.errors import code_of, error_response
from lode.ingest.api.rest.body import Bodies, parse_rows
from lode.ingest.api.rest.call import RestCall, apply_mask, read_body, read_call
from lode.ingest.api.rest.contents import ContentCache
from lode.ingest.api.rest.datasets import DatasetMethods
from lode.ingest.api.rest.jobs import JobMethods
from lode.ingest.api.rest.queries import QueryMethods
from lode.ingest.api.rest.rows import RowMethods
from lode.ingest.api.rest.tables import TableMethods
from lode.ingest.api.rest.uploads import UploadMethods
from lode.ingest.jobs.registry import CHECK_SECONDS, checked
from lode.ingest.status import Code, Refused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request

    from lode.ingest.api.rest.call import Mask
    from lode.ingest.api.rest.routines import Signatures
    from lode.ingest.api.rest.rows import Append
    from lode.ingest.catalog.catalog import Catalog
    from lode.ingest.jobs.job import Job
    from lode.ingest.jobs.registry import Jobs
    from lode.ingest.jobs.uploads import Uploads

    Method: TypeAlias = Callable[[RestCall], dict[str, Any] | None]
    Start: TypeAlias = Callable[[RestCall], tuple[Job, float]]
    Answer: TypeAlias = Callable[[RestCall, Job, bool], dict[str, Any]]
    Run: TypeAlias = Callable[[Request, bytes], Awaitable[Response]]
    Endpoint: TypeAlias = Callable[[RestCall], Awaitable[Response]]

# The limit of the service.
MAX_BODY_BYTES: Final = 10 << 20
# Parsed JSON takes many times its size in memory, and threads that parse delay all else. So few of them do.
_LARGE_BODY_BYTES: Final = 128 << 10
_MAX_LARGE_BODIES: Final = 2
_READING: Final = ("GET", "HEAD")
_ANY: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")
_DATASET: Final = "/projects/{project}/datasets/{dataset}"
_TABLE: Final = _DATASET + "/tables/{table}"
_ROUTINES: Final = _DATASET + "/routines"
_ROUTINE: Final = _ROUTINES + "/{routine}"


_NO_SUCH_METHOD: Final = "Not found: no method of the REST v2 API has this path here."
_NO_UNDELETE: Final = "Undelete is not supported: read the remaining snapshots with the library."
_NO_POLICIES: Final = "Access policies are not supported: a client with the server's token may do everything."
_NO_ROUTINES: Final = "Routines are not supported by this installation: pip install 'lode-store[server,sql]'."
_NO_MODELS: Final = "Models are not supported: Lode stores tables only."


def routes(
    catalog: Catalog,
    append: Append,
    jobs: Jobs,
    uploads: Uploads,
    signatures: Signatures | None = None,
    *,
    max_body_bytes: int = MAX_BODY_BYTES,
    audit: Audit | None = None,
) -> list[Route]:
    """Return the routes of REST v2, with and without the prefix ``/bigquery/v2``.

    Args:
        catalog: The datasets and tables.
        append: Stores a batch in a table's ``schema.arrow``, and returns when it is visible.
        jobs: The jobs.
        uploads: The files for load jobs.
        signatures: Reads the signatures of routines; there are no routines if not given.
        max_body_bytes: The maximum size of a request's body, before and after decompression.
        audit: Records the requests that may change something.
    """
    contents = ContentCache(catalog.store)
    datasets, tables = DatasetMethods(catalog), TableMethods(catalog, contents, jobs)
    rows, work = RowMethods(catalog, contents, append), JobMethods(jobs)
    queries = QueryMethods(jobs, contents)

    # The first route that matches is used: exact paths precede general ones.
    methods: list[tuple[str, str, Method]] = [
        ("GET", "/projects", datasets.projects),
        ("GET", "/projects/{project}/serviceAccount", _service_account),
        ("GET", "/projects/{project}/datasets", datasets.list),
        ("POST", "/projects/{project}/datasets", datasets.insert),
        ("POST", _DATASET + ":undelete", _refuse(_NO_UNDELETE)),
        ("GET", _DATASET, datasets.get),
        ("PATCH", _DATASET, partial(datasets.change, replace=False)),
        ("PUT", _DATASET, partial(datasets.change, replace=True)),
        ("DELETE", _DATASET, datasets.delete),
        ("GET", _DATASET + "/tables", tables.list),
        ("POST", _DATASET + "/tables", tables.insert),
        ("POST", _TABLE + ":getIamPolicy", _refuse(_NO_POLICIES)),
        ("POST", _TABLE + ":setIamPolicy", _refuse(_NO_POLICIES)),
        ("POST", _TABLE + ":testIamPermissions", tables.test_permissions),
        ("GET", _TABLE + "/data", rows.list),
        ("*", _TABLE + "/rowAccessPolicies", _refuse(_NO_POLICIES)),
        ("*", _TABLE + "/rowAccessPolicies/{policy}", _refuse(_NO_POLICIES)),
        ("GET", _TABLE, tables.get),
        ("PATCH", _TABLE, partial(tables.change, replace=False)),
        ("PUT", _TABLE, partial(tables.change, replace=True)),
        ("DELETE", _TABLE, tables.delete),
        ("GET", _DATASET + "/models", _empty("models", "bigquery#listModelsResponse")),
        *_routine_methods(catalog, signatures),
        ("*", _DATASET + "/models/{model}", _refuse(_NO_MODELS)),
        ("GET", "/projects/{project}/jobs", work.list),
        ("GET", "/projects/{project}/jobs/{job}", work.get),
        ("POST", "/projects/{project}/jobs/{job}/cancel", work.cancel),
        ("DELETE", "/projects/{project}/jobs/{job}/delete", work.delete),
        ("*", "/projects", _refuse(_NO_SUCH_METHOD, Code.NOT_FOUND)),
        ("*", "/projects/{rest:path}", _refuse(_NO_SUCH_METHOD, Code.NOT_FOUND)),
    ]
    # Answered when the job is done or the time is over. They wait on no thread: those serve other calls.
    waiting: list[tuple[str, str, Start, Answer]] = [
        ("POST", "/projects/{project}/jobs", work.insert, work.answer),
        ("POST", "/projects/{project}/queries", queries.start_query, queries.query),
        ("GET", "/projects/{project}/queries/{job}", queries.find, queries.results),
    ]
    large = asyncio.Semaphore(_MAX_LARGE_BODIES)
    bodies = Bodies()
    audit = audit or Audit()

    def parsed(body: bytes) -> contextlib.AbstractAsyncContextManager[Any]:
        return large if len(body) >= _LARGE_BODY_BYTES else contextlib.nullcontext()

    def parse_then(endpoint: Endpoint) -> Run:
        async def run(request: Request, body: bytes) -> Response:
            async with parsed(body):
                call = await read_call(request, body)
            return await endpoint(call)

        return run

    async def insert_all(request: Request, body: bytes) -> Response:
        async with parsed(body):
            call = await read_call(request, body, parse_rows)
            prepared = await rows.prepare(call)
            call.body.clear()  # its values take many times the memory of the body
        return _response(await rows.append(prepared), call.fields)

    def route(verb: str, path: str, run: Run) -> Route:
        async def answer(request: Request) -> Response:
            client, result = client_of_scope(request.scope), "OK"
            try:
                with bodies.of(client) as held:
                    body = await read_body(request, limit=max_body_bytes, held=held)
                    return await run(request, body)
            except ClientDisconnect:
                result = Code.CANCELLED.name
                return Response(status_code=499)  # the client is gone
            except asyncio.CancelledError:  # the server stops, and its grace time is over
                result = Code.UNAVAILABLE.name
                return error_response(Refused(Code.UNAVAILABLE, "The server stops: try again."))
            except Exception as error:
                result = code_of(error).name
                return error_response(error)
            finally:
                if request.method not in _READING:
                    audit.change(client, request.method, request.url.path, result)

        return Route(path, answer, methods=list(_ANY) if verb == "*" else [verb])

    own = [
        made
        for prefix in ("/bigquery/v2", "")
        for made in (
            route("POST", f"{prefix}{_TABLE}/insertAll", insert_all),
            *(
                route(verb, prefix + path, parse_then(_when_done(start, end)))
                for verb, path, start, end in waiting
            ),
            *(route(verb, prefix + path, parse_then(_on_thread(method))) for verb, path, method in methods),
        )
    ]
    elsewhere = [
        route("*", path, parse_then(_on_thread(_refuse(_NO_SUCH_METHOD, Code.NOT_FOUND))))
        for path in ("/bigquery/v2/{rest:path}", "/discovery/{rest:path}", "/$discovery/{rest:path}")
    ]
    upload = UploadMethods(uploads, work, bodies, audit).answer
    sending = [
        Route(f"{prefix}/bigquery/v2/projects/{{project}}/jobs", upload, methods=list(_ANY))
        for prefix in ("/upload", "/resumable/upload")
    ]
    return [*own, *elsewhere, *sending]


def _routine_methods(catalog: Catalog, signatures: Signatures | None) -> list[tuple[str, str, Method]]:
    if signatures is None:  # without the extra sql
        return [
            ("GET", _ROUTINES, _empty("routines", "bigquery#listRoutinesResponse")),
            ("*", _ROUTINES, _refuse(_NO_ROUTINES)),
            ("*", _ROUTINE, _refuse(_NO_ROUTINES)),
        ]
    from lode.ingest.api.rest.routines import RoutineMethods

    routines = RoutineMethods(catalog, signatures)
    return [
        ("GET", _ROUTINES, routines.list),
        ("POST", _ROUTINES, routines.insert),
        ("GET", _ROUTINE, routines.get),
        ("PUT", _ROUTINE, routines.update),
        ("DELETE", _ROUTINE, routines.delete),
    ]


def _on_thread(method: Method) -> Endpoint:
    """Run a method and encode its answer on a thread, so that store and JSON do not delay other calls."""
    return lambda call: run_in_threadpool(lambda: _response(method(call), call.fields))


def _when_done(start: Start, answer: Answer) -> Endpoint:
    """Start or find a job, wait for it, and answer."""

    async def endpoint(call: RestCall) -> Response:
        job, seconds = await run_in_threadpool(start, call)
        done = await job.finished(CHECK_SECONDS if job.is_dry else seconds)
        if job.is_dry:
            checked(job, done=done)
        return await run_in_threadpool(lambda: _response(answer(call, job, done), call.fields))

    return endpoint


def _response(answer: dict[str, Any] | None, fields: Mask) -> Response:
    if answer is None:
        return Response(status_code=204)
    headers = {"ETag": answer["etag"]} if "etag" in answer else None
    body = msgspec.json.encode(apply_mask(answer, fields))
    return Response(body, headers=headers, media_type="application/json")


def _service_account(call: RestCall) -> dict[str, Any]:
    # Clients request it to grant permissions. There are none, so the address does not exist.
    return {"kind": "bigquery#getServiceAccountResponse", "email": f"lode@{call.project}.invalid"}


def _empty(key: str, kind: str) -> Method:
    return lambda _call: {"kind": kind, key: []}


def _refuse(message: str, code: Code = Code.UNIMPLEMENTED) -> Method:
    def refuse(_call: RestCall) -> NoReturn:
        raise Refused(code, message)

    return refuse
