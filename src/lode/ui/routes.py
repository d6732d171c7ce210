"""The routes of the console: its page under ``/ui/``, and its JSON API under ``/ui/api/``."""

from __future__ import annotations

import logging
from functools import wraps
from inspect import iscoroutinefunction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.responses import FileResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from lode import __version__
from lode.errors import (
    DataError,
    InvalidOptionError,
    LodeError,
    MissingError,
    PermissionDeniedError,
    UsageError,
)
from lode.format.ids import check_id
from lode.format.manifest import json_text
from lode.ui import live, snapshots, volumes
from lode.ui.datasets import Datasets
from lode.ui.health import Doctor, health, ready_check
from lode.ui.overview import overview
from lode.ui.paging import PageRequest
from lode.ui.pipelines import has_pipelines, pipelines
from lode.ui.sample import newest_sample, sample
from lode.ui.snippets import verify_command

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from starlette.requests import Request
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from lode.store.protocol import Store
    from lode.ui.live import LiveEngine, ServerReadiness

PREFIX: Final = "/ui"
_STATIC: Final = Path(__file__).parent / "static"
POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
_HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}

logger = logging.getLogger("lode.ui")


def routes(
    store: Store, *, engine: LiveEngine | None = None, readiness: ServerReadiness | None = None
) -> list[BaseRoute]:
    """The routes of the console. It answers below ``/ui/``, and redirects ``/`` there.

    Args:
        store: The store it shows.
        engine: The engine of the server that the console is part of, if any.
        readiness: Whether that server takes writes. Belongs to the event loop that runs the routes.
    """
    datasets = Datasets(store)
    doctor = Doctor(store) if engine is not None else None

    def status(_: Request) -> dict[str, Any]:
        live, has = engine is not None, has_pipelines(store)
        return {"store": store.url, "version": __version__, "live": live, "pipelines": has}

    def listed(request: Request) -> dict[str, Any]:
        after = request.query_params.get("after", "")
        return overview(store, datasets, after=after, limit=_number(request, "limit", 50))

    def dataset(request: Request) -> dict[str, Any]:
        return datasets.describe(_name(request), points=_number(request, "points", 120))

    def history(request: Request) -> dict[str, Any]:
        if "sort" in request.query_params:
            return datasets.sorted_history(_name(request), _page(request, "sequence"))
        start = _number(request, "from", 0) if "from" in request.query_params else None
        return datasets.history(_name(request), start=start, limit=_number(request, "limit", 100))

    def newest_rows(request: Request) -> dict[str, Any]:
        return newest_sample(datasets.look(_name(request)), limit=_number(request, "limit", 20))

    def partitions(request: Request) -> dict[str, Any]:
        snapshot = request.query_params.get("snapshot")
        return datasets.partitions(_name(request), snapshot, _page(request, "partition"))

    def verify(request: Request) -> dict[str, Any]:
        return {"command": verify_command(store.url, check_id(_name(request), kind="dataset"))}

    def snapshot(request: Request) -> dict[str, Any]:
        view = datasets.look(_name(request))
        return snapshots.describe(view, view.snapshot(request.path_params["snapshot"]))

    def rows(request: Request) -> dict[str, Any]:
        view = datasets.look(_name(request))
        found = view.snapshot(request.path_params["snapshot"])
        return sample(view.dataset, found, limit=_number(request, "limit", 50))

    def volume(request: Request) -> dict[str, Any]:
        at = request.query_params.get("at")
        return volumes.describe(store, _name(request), at=at, cells=_number(request, "cells", 240))

    async def healthy(_: Request) -> dict[str, Any]:
        found = await run_in_threadpool(health, store, engine, doctor)
        if readiness is not None:
            found["checks"].append(ready_check(await readiness.problem()))
        return found

    def page(_: Request) -> Response:
        return FileResponse(_STATIC / "index.html")

    api = [
        Route("/status", _answer(status)),
        Route("/overview", _answer(listed)),
        Route("/datasets/{name}", _answer(dataset)),
        Route("/datasets/{name}/history", _answer(history)),
        Route("/datasets/{name}/partitions", _answer(partitions)),
        Route("/datasets/{name}/rows", _answer(newest_rows)),
        Route("/datasets/{name}/verify", _answer(verify)),
        Route("/datasets/{name}/snapshots/{snapshot}", _answer(snapshot)),
        Route("/datasets/{name}/snapshots/{snapshot}/rows", _answer(rows)),
        Route("/volumes/{name}", _answer(volume)),
        Route("/pipelines", _answer(lambda _: pipelines(store, datasets))),
        Route("/streams", _answer(lambda _: live.streams(engine))),
        Route("/health", _answer(healthy)),
        Route("/metrics", _answer(lambda _: live.metrics(engine))),
    ]
    return [
        Route("/", lambda _: RedirectResponse(f"{PREFIX.removeprefix('/')}/")),
        Mount(
            PREFIX,
            routes=[
                Route("/", page),
                Mount("/api", routes=api),
                Mount("/static", StaticFiles(directory=_STATIC)),
            ],
            # Inside, so that answers to unknown paths have the headers too.
            middleware=[Middleware(SafeHeaders), Middleware(ExceptionMiddleware)],
        ),
    ]


def application(
    store: Store, *, engine: LiveEngine | None = None, middleware: Sequence[Middleware] = ()
) -> Starlette:
    """The console alone, with a health check."""
    health = Route("/healthz", lambda _: PlainTextResponse("ok\n"))
    return Starlette(routes=[health, *routes(store, engine=engine)], middleware=middleware)


class SafeHeaders:
    """Adds headers that forbid content from other origins and framing to every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                # The files are small, and a stale page may not match a newer server.
                headers.setdefault("cache-control", "no-cache")
            await send(message)

        await self._app(scope, receive, with_headers)


def is_public(path: str) -> bool:
    """Whether a path belongs to the page itself, which has no data and asks for a token if needed."""
    return path in ("/", PREFIX, f"{PREFIX}/") or path.startswith(f"{PREFIX}/static/")


def _answer(
    describe: Callable[[Request], dict[str, Any]] | Callable[[Request], Awaitable[dict[str, Any]]],
) -> Callable[[Request], Awaitable[Response]]:
    """Make an endpoint that always answers in JSON. Blocking functions run in a thread."""

    @wraps(describe)
    async def endpoint(request: Request) -> Response:
        try:
            found: Any = (
                describe(request) if iscoroutinefunction(describe) else run_in_threadpool(describe, request)
            )
            return _json(await found)
        except LodeError as error:
            return _json(_problem(error), _code(error))
        except Exception as error:  # shown on the page, which would otherwise not end its wait
            logger.exception("%s failed", request.url.path)
            return _json(_problem(error), 500)

    return endpoint


def _json(content: dict[str, Any], code: int = 200) -> Response:
    return Response(json_text(content), code, {"cache-control": "no-store"}, "application/json")


def _problem(error: Exception) -> dict[str, Any]:
    damaged = isinstance(error, DataError)
    return {"error": {"kind": type(error).__name__, "message": str(error), "damaged": damaged}}


def _code(error: LodeError) -> int:
    match error:
        case MissingError():
            return 404
        case UsageError():
            return 400
        case PermissionDeniedError():
            return 403
    return 500


def _name(request: Request) -> str:
    return str(request.path_params["name"])


def _page(request: Request, sort: str) -> PageRequest:
    """The requested page of a sorted list."""
    query = request.query_params
    return PageRequest(
        query.get("sort", sort),
        query.get("order", "asc"),
        _number(request, "skip", 0),
        _number(request, "limit", 100),
    )


def _number(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdecimal() or len(text) > 18:
        raise InvalidOptionError(f"{name} is {text[:40]!r}: it must be a number of 0 or more")
    return int(text)
