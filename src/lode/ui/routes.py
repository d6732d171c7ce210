"""The routes of the console: its page under ``/ui/``, and the JSON it asks for under ``/ui/api/``."""

from __future__ import annotations

import logging
from functools import wraps
from inspect import iscoroutinefunction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
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
from lode.ui.headers import SafeHeaders
from lode.ui.health import health, ready_check
from lode.ui.overview import overview
from lode.ui.paging import Wanted
from lode.ui.sample import newest_sample, sample
from lode.ui.snippets import verify_command

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from starlette.requests import Request
    from starlette.routing import BaseRoute

    from lode.ingest.api.readiness import Readiness
    from lode.ingest.core.engine import Engine
    from lode.store.protocol import Store

PREFIX: Final = "/ui"
_STATIC: Final = Path(__file__).parent / "static"

logger = logging.getLogger("lode.ui")


def routes(
    store: Store, *, engine: Engine | None = None, readiness: Readiness | None = None
) -> list[BaseRoute]:
    """The routes of the console. It answers below ``/ui/``, and redirects ``/`` there.

    Args:
        store: The store it shows.
        engine: The engine of the server that it is part of, if it is.
        readiness: Whether that server takes writes. Belongs to the event loop that runs the routes.
    """
    datasets = Datasets(store)

    def status(_: Request) -> dict[str, Any]:
        return {"store": store.url, "version": __version__, "live": engine is not None}

    def listed(request: Request) -> dict[str, Any]:
        after = request.query_params.get("after", "")
        return overview(store, datasets, after=after, limit=_number(request, "limit", 50))

    def dataset(request: Request) -> dict[str, Any]:
        return datasets.describe(_named(request), points=_number(request, "points", 120))

    def history(request: Request) -> dict[str, Any]:
        if "sort" in request.query_params:
            return datasets.sorted_history(_named(request), _wanted(request, "sequence"))
        start = _number(request, "from", 0) if "from" in request.query_params else None
        return datasets.history(_named(request), start=start, limit=_number(request, "limit", 100))

    def newest_rows(request: Request) -> dict[str, Any]:
        return newest_sample(datasets.look(_named(request)), limit=_number(request, "limit", 20))

    def partitions(request: Request) -> dict[str, Any]:
        snapshot = request.query_params.get("snapshot")
        return datasets.partitions(_named(request), snapshot, _wanted(request, "partition"))

    def verify(request: Request) -> dict[str, Any]:
        return {"command": verify_command(store.url, check_id(_named(request), kind="dataset"))}

    def snapshot(request: Request) -> dict[str, Any]:
        view = datasets.look(_named(request))
        return snapshots.describe(view, view.snapshot(request.path_params["snapshot"]))

    def rows(request: Request) -> dict[str, Any]:
        view = datasets.look(_named(request))
        found = view.snapshot(request.path_params["snapshot"])
        return sample(view.dataset, found, limit=_number(request, "limit", 50))

    def volume(request: Request) -> dict[str, Any]:
        at = request.query_params.get("at")
        return volumes.describe(store, _named(request), at=at, cells=_number(request, "cells", 240))

    async def healthy(_: Request) -> dict[str, Any]:
        found = await run_in_threadpool(health, store, engine)
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
            # What is not found, too, is answered inside, and so with the headers.
            middleware=[Middleware(SafeHeaders), Middleware(ExceptionMiddleware)],
        ),
    ]


def application(
    store: Store, *, engine: Engine | None = None, middleware: Sequence[Middleware] = ()
) -> Starlette:
    """The console alone, with a health check beside it."""
    health = Route("/healthz", lambda _: PlainTextResponse("ok\n"))
    return Starlette(routes=[health, *routes(store, engine=engine)], middleware=middleware)


def is_public(path: str) -> bool:
    """Whether a path is of the page itself: it holds nobody's data, and asks for a token where one is due."""
    return path in ("/", PREFIX, f"{PREFIX}/") or path.startswith(f"{PREFIX}/static/")


def _answer(
    tell: Callable[[Request], dict[str, Any]] | Callable[[Request], Awaitable[dict[str, Any]]],
) -> Callable[[Request], Awaitable[Response]]:
    """Make an endpoint that answers in JSON whatever happens. What blocks runs in a thread."""

    @wraps(tell)
    async def endpoint(request: Request) -> Response:
        try:
            found: Any = tell(request) if iscoroutinefunction(tell) else run_in_threadpool(tell, request)
            return _json(await found)
        except LodeError as error:
            return _json(_problem(error), _code(error))
        except Exception as error:  # a page that is told what is wrong beats one that waits for ever
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


def _named(request: Request) -> str:
    return str(request.path_params["name"])


def _wanted(request: Request, sort: str) -> Wanted:
    """The page of a sorted list that is asked for."""
    asked = request.query_params
    return Wanted(
        asked.get("sort", sort),
        asked.get("order", "asc"),
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
