"""The console served by a real server on a port of its own."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

import uvicorn

from lode.ingest.api.listen import listen
from lode.ui import application

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from starlette.middleware import Middleware

    from lode.ingest.core.engine import Engine
    from lode.store import Store


class Served:
    """Serves until it is closed."""

    def __init__(
        self, store: Store, *, engine: Engine | None = None, middleware: Sequence[Middleware] = ()
    ) -> None:
        self.store = store
        app = application(store, engine=engine, middleware=middleware)
        listening = listen("127.0.0.1", 0, "--port")
        self.origin = f"http://127.0.0.1:{listening.getsockname()[1]}"
        self.url = f"{self.origin}/ui/"
        self._server = uvicorn.Server(
            uvicorn.Config(app, log_level="critical", lifespan="off", timeout_graceful_shutdown=1)
        )
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [listening]})
        self._thread.start()

    def ask(self, *segments: str, **parameters: Any) -> Any:
        """The JSON at a place of the API."""
        status, found = self.try_to_ask(*segments, **parameters)
        assert status == 200, found
        return found

    def try_to_ask(self, *segments: str, **parameters: Any) -> tuple[int, Any]:
        """The status and the JSON, whatever the status is."""
        query = f"?{urlencode(parameters)}" if parameters else ""
        path = "/".join(quote(segment, safe="") for segment in segments)
        status, _, body = self.fetch(f"{self.url}api/{path}{query}")
        return status, json.loads(body)

    def fetch(self, url: str, method: str = "GET") -> tuple[int, dict[str, str], bytes]:
        try:
            with urlopen(Request(url, method=method), timeout=120) as response:
                return response.status, dict(response.headers), response.read()
        except HTTPError as error:
            with error:
                return error.code, dict(error.headers), error.read()

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
