"""The HTTP port: health, metrics, the streams as JSON, and BigQuery's REST API."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from lode.ingest.auth import TokenMiddleware, Tokens
from lode.ingest.metrics import CONTENT_TYPE
from lode.ingest.rest.routes import routes as rest_routes
from lode.ui import routes as console_routes

if TYPE_CHECKING:
    import pyarrow as pa
    from starlette.requests import Request

    from lode.ingest.engine import Engine
    from lode.ingest.names import TableName


def application(engine: Engine, tokens: Tokens, *, ready: Any) -> Starlette:
    """Everything the HTTP port answers; ``ready()`` tells whether the server takes writes."""

    async def append(table: TableName, batch: pa.RecordBatch) -> None:
        await asyncio.wrap_future(engine.append(table, batch))

    def health(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    def readiness(_: Request) -> Response:
        return PlainTextResponse("ready\n") if ready() else PlainTextResponse("stopping\n", status_code=503)

    def metrics(_: Request) -> Response:
        return Response(engine.metrics.text(), media_type=CONTENT_TYPE)

    def streams(_: Request) -> Response:
        return JSONResponse({"streams": [stream.facts() for stream in engine.streams()]})

    return Starlette(
        routes=[
            Route("/healthz", health),
            Route("/readyz", readiness),
            Route("/metrics", metrics),
            Route("/streams", streams),
            *rest_routes(engine.catalog, append),
            *console_routes(engine.store, engine=engine),
        ],
        middleware=[Middleware(TokenMiddleware, tokens=tokens)],
    )
