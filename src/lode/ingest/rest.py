"""BigQuery's REST v2 API, as much of it as a client needs around the streaming APIs.

Datasets and tables (``rest_datasets.py``, ``rest_tables.py``) live in the catalog, rows (``rest_rows.py``)
in the datasets behind it. There is no SQL engine: jobs are refused with a sentence that says what to use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from lode.ingest.rest_call import Call, read_call
from lode.ingest.rest_contents import Contents
from lode.ingest.rest_datasets import DatasetMethods
from lode.ingest.rest_errors import error_response, not_implemented
from lode.ingest.rest_rows import RowMethods
from lode.ingest.rest_tables import TableMethods
from lode.ingest.status import Code, Refused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request

    from lode.dataset import Dataset
    from lode.ingest.catalog import Catalog
    from lode.ingest.rest_rows import Append
    from lode.ingest.table_definition import TableDefinition

    Method: TypeAlias = Callable[[Call], dict[str, Any] | None]

MOST_BODY_BYTES: Final = 20 << 20
_ANY: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")
_DATASET: Final = "/projects/{project}/datasets/{dataset}"
_TABLE: Final = _DATASET + "/tables/{table}"


_NO_QUERIES: Final = (
    "Queries are not supported, Lode runs no SQL here: use lode sql, or Spark with the lode data source."
)
_NO_JOBS: Final = (
    "Load, copy and extract jobs are not supported: append rows with the Storage Write API or insertAll, or "
    "use lode sql or Spark."
)
_NO_SUCH_JOB: Final = "Not found: Job. Lode runs no jobs: use lode sql or Spark."
_NO_SUCH_METHOD: Final = "Not found: no method of the REST v2 API has this path here."
_NO_UNDELETE: Final = "Undelete is not supported: read the snapshots, which stay, with the library."
_NO_POLICIES: Final = "Access policies are not supported: who has the server's token may do everything."
_NO_MODELS: Final = "Models are not supported: Lode stores tables only."
_NO_ROUTINES: Final = "Routines are not supported: Lode runs no SQL here."


def routes(
    catalog: Catalog,
    append: Append,
    *,
    open: Callable[[TableDefinition], Dataset] | None = None,  # noqa: A002, what it does
    most_body_bytes: int = MOST_BODY_BYTES,
) -> list[Route]:
    """The routes of REST v2, under ``/bigquery/v2`` and without it.

    Args:
        catalog: Where datasets and tables are defined.
        append: Stores a batch in a table's ``schema.arrow``, and returns when it is visible.
        open: Opens the dataset that holds a table's rows; by default on the catalog's store.
        most_body_bytes: The largest body of a request, also unpacked.
    """
    contents = Contents(open or (lambda definition: definition.open(catalog.store)))
    datasets, tables = DatasetMethods(catalog), TableMethods(catalog, contents)
    rows = RowMethods(catalog, contents, append)

    def blocking(method: Method) -> Callable[[Call], Awaitable[dict[str, Any] | None]]:
        return lambda call: run_in_threadpool(method, call)

    # A route that is more exact comes before the one that would take its path, too.
    methods: list[tuple[str, str, Callable[[Call], Awaitable[dict[str, Any] | None]]]] = [
        ("GET", "/projects", blocking(datasets.projects)),
        ("GET", "/projects/{project}/serviceAccount", blocking(_service_account)),
        ("GET", "/projects/{project}/datasets", blocking(datasets.list)),
        ("POST", "/projects/{project}/datasets", blocking(datasets.insert)),
        ("POST", _DATASET + ":undelete", blocking(_refuse(_NO_UNDELETE))),
        ("GET", _DATASET, blocking(datasets.get)),
        ("PATCH", _DATASET, blocking(datasets.patch)),
        ("PUT", _DATASET, blocking(datasets.update)),
        ("DELETE", _DATASET, blocking(datasets.delete)),
        ("GET", _DATASET + "/tables", blocking(tables.list)),
        ("POST", _DATASET + "/tables", blocking(tables.insert)),
        ("POST", _TABLE + ":getIamPolicy", blocking(_refuse(_NO_POLICIES))),
        ("POST", _TABLE + ":setIamPolicy", blocking(_refuse(_NO_POLICIES))),
        ("POST", _TABLE + ":testIamPermissions", blocking(_refuse(_NO_POLICIES))),
        ("POST", _TABLE + "/insertAll", rows.insert_all),
        ("GET", _TABLE + "/data", blocking(rows.list)),
        ("*", _TABLE + "/rowAccessPolicies", blocking(_refuse(_NO_POLICIES))),
        ("*", _TABLE + "/rowAccessPolicies/{policy}", blocking(_refuse(_NO_POLICIES))),
        ("GET", _TABLE, blocking(tables.get)),
        ("PATCH", _TABLE, blocking(tables.patch)),
        ("PUT", _TABLE, blocking(tables.update)),
        ("DELETE", _TABLE, blocking(tables.delete)),
        ("GET", _DATASET + "/models", blocking(_empty("models", "bigquery#listModelsResponse"))),
        ("GET", _DATASET + "/routines", blocking(_empty("routines", "bigquery#listRoutinesResponse"))),
        ("*", _DATASET + "/models/{model}", blocking(_refuse(_NO_MODELS))),
        ("*", _DATASET + "/routines", blocking(_refuse(_NO_ROUTINES))),
        ("*", _DATASET + "/routines/{routine}", blocking(_refuse(_NO_ROUTINES))),
        ("GET", "/projects/{project}/jobs", blocking(_empty("jobs", "bigquery#jobList"))),
        ("POST", "/projects/{project}/jobs", blocking(_job)),
        ("POST", "/projects/{project}/queries", blocking(_refuse(_NO_QUERIES))),
        ("*", "/projects/{project}/jobs/{job:path}", blocking(_refuse(_NO_SUCH_JOB, Code.NOT_FOUND))),
        ("*", "/projects/{project}/queries/{job}", blocking(_refuse(_NO_SUCH_JOB, Code.NOT_FOUND))),
        ("*", "/projects", blocking(_refuse(_NO_SUCH_METHOD, Code.NOT_FOUND))),
        ("*", "/projects/{rest:path}", blocking(_refuse(_NO_SUCH_METHOD, Code.NOT_FOUND))),
    ]
    own = [
        _route(prefix + path, verb, method, most_body_bytes)
        for prefix in ("/bigquery/v2", "")
        for verb, path, method in methods
    ]
    uploads = [
        _route(f"{prefix}/bigquery/v2/projects/{{project}}/jobs", "*", blocking(_job), most_body_bytes)
        for prefix in ("/upload", "/resumable/upload")
    ]
    elsewhere = [
        _route(path, "*", blocking(_refuse(_NO_SUCH_METHOD, Code.NOT_FOUND)), most_body_bytes)
        for path in ("/bigquery/v2/{rest:path}", "/discovery/{rest:path}", "/$discovery/{rest:path}")
    ]
    return [*own, *uploads, *elsewhere]


def _route(
    path: str, verb: str, method: Callable[[Call], Awaitable[dict[str, Any] | None]], limit: int
) -> Route:
    async def endpoint(request: Request) -> Response:
        try:
            answer = await method(await read_call(request, limit=limit))
        except Exception as error:
            return error_response(error)
        if answer is None:
            return Response(status_code=204)
        headers = {"ETag": answer["etag"]} if "etag" in answer else None
        return JSONResponse(answer, headers=headers)

    return Route(path, endpoint, methods=list(_ANY) if verb == "*" else [verb])


def _service_account(call: Call) -> dict[str, Any]:
    # Clients ask for it to grant it rights; there are none to grant, and so no such address.
    return {"kind": "bigquery#getServiceAccountResponse", "email": f"lode@{call.project}.invalid"}


def _empty(key: str, kind: str) -> Method:
    return lambda _call: {"kind": kind, key: []}


def _refuse(message: str, code: Code = Code.UNIMPLEMENTED) -> Method:
    def refuse(_call: Call) -> NoReturn:
        raise Refused(code, message)

    return refuse


def _job(call: Call) -> NoReturn:
    """Refuse a job by what it would do."""
    configuration = call.body.get("configuration")
    if isinstance(configuration, dict) and "query" in configuration:
        raise not_implemented(_NO_QUERIES)
    raise not_implemented(_NO_JOBS)
