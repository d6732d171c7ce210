"""A lake served over REST by a real server on its own port, and the official client."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import uvicorn
from google.auth.credentials import AnonymousCredentials
from google.cloud import bigquery
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool

from lode.ingest.api.listen import listen
from lode.ingest.api.rest.routes import routes
from lode.ingest.catalog.catalog import Catalog
from lode.ingest.core.limits import StagedBytes
from lode.ingest.jobs.registry import Jobs
from lode.ingest.jobs.uploads import Uploads
from lode.store import MemoryStore
from support.ingest.writing import write_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from lode.ingest.names import TableName
    from lode.store import Store


class RestServed:
    """Serves until it is closed. The next appends raise the errors in ``refuses``."""

    def __init__(self, store: Store | None = None, *, max_body_bytes: int = 1 << 20) -> None:
        self.store = store or MemoryStore()
        self.catalog = Catalog(self.store)
        self.refuses: list[Exception] = []
        self._uploaded = TemporaryDirectory()
        uploads = Uploads(Path(self._uploaded.name), StagedBytes(1 << 20))
        app = Starlette(
            routes=routes(self.catalog, self.append, Jobs("US"), uploads, max_body_bytes=max_body_bytes)
        )
        listening = listen("127.0.0.1", 0, "--http-port")
        self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        self._server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off"))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [listening]})
        self._thread.start()
        self._clients: list[Any] = []  # their close() has no types

    async def append(self, name: TableName, batch: pa.RecordBatch) -> None:
        if self.refuses:
            raise self.refuses.pop(0)

        await run_in_threadpool(lambda: write_rows(self.catalog.table(name), self.store, batch))

    def client(self, project: str = "p") -> bigquery.Client:
        client = bigquery.Client(
            project=project,
            credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call]  # google-auth has no types here
            client_options={"api_endpoint": self.url},
        )
        self._clients.append(client)
        return client

    def call(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """Send a request, with bytes as an unchanged body; return the status and the JSON of the answer."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        given = {"Content-Type": "application/json", **(headers or {})}
        request = Request(self.url + path, data, given, method=method)
        try:
            with urlopen(request, timeout=30) as response:
                text = response.read()
                return response.status, json.loads(text) if text else None
        except HTTPError as error:
            with error:
                return error.code, json.loads(error.read())

    def close(self) -> None:
        for client in self._clients:
            client.close()
        self._server.should_exit = True
        self._thread.join()
        self._uploaded.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
