"""The HTTP port: health, metrics, the streams as JSON, and BigQuery's REST API."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from lode.http_guard import HttpGuard
from lode.ingest.api.auth import TokenMiddleware, Tokens
from lode.ingest.api.errors import no_route
from lode.ingest.api.rest.routes import routes as rest_routes
from lode.ingest.core.metrics import CONTENT_TYPE
from lode.ui import routes as console_routes

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from starlette.requests import Request

    from lode.ingest.api.audit import Audit
    from lode.ingest.api.readiness import Readiness
    from lode.ingest.api.rest.routines import Signatures
    from lode.ingest.core.engine import Engine
    from lode.ingest.jobs.registry import Jobs
    from lode.ingest.jobs.uploads import Uploads
    from lode.ingest.names import TableName


def application(
    engine: Engine,
    jobs: Jobs,
    uploads: Uploads,
    tokens: Tokens,
    readiness: Readiness,
    signatures: Signatures | None = None,
    *,
    hosts: Sequence[str] | None,
    audit: Audit,
) -> Starlette:
    """Return the application of the HTTP port.

    Args:
        engine: The engine.
        jobs: The jobs.
        uploads: The files for load jobs.
        tokens: The valid tokens.
        readiness: Whether the server accepts writes.
        signatures: Reads the signatures of routines; there are no routines if not given.
        hosts: The valid values of the ``Host`` header besides loopback; None for any.
        audit: Records changes and refused tokens.
    """

    async def append(table: TableName, batch: pa.RecordBatch) -> None:
        await asyncio.wrap_future(engine.append(table, batch))

    # On the event loop: all threads may be waiting for a store that hangs.
    async def health(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def ready(_: Request) -> Response:
        problem = await readiness.problem()
        return PlainTextResponse(f"{problem or 'ready'}\n", status_code=503 if problem else 200)

    def metrics(_: Request) -> Response:
        return Response(engine.metrics.text(), media_type=CONTENT_TYPE)

    def streams(_: Request) -> Response:
        return JSONResponse({"streams": [stream.facts() for stream in engine.streams()]})

    return Starlette(
        routes=[
            Route("/healthz", health),
            Route("/readyz", ready),
            Route("/metrics", metrics),
            Route("/streams", streams),
            *rest_routes(engine.catalog, append, jobs, uploads, signatures, audit=audit),
            *console_routes(engine.store, engine=engine, readiness=readiness),
        ],
        exception_handlers={HTTPException: no_route},
        middleware=[
            Middleware(HttpGuard, hosts=hosts),
            Middleware(TokenMiddleware, tokens=tokens, audit=audit),
        ],
    )
