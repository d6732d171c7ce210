"""A server in its own process, which can be killed and restarted on the same state."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

import grpc
from google.cloud.bigquery_storage_v1 import BigQueryWriteClient
from google.cloud.bigquery_storage_v1.services.big_query_write.transports import BigQueryWriteGrpcTransport

from support.ingest.appending import FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Self


class ServerProcess:
    """``python -m lode.ingest`` on a lake; ``kill`` is SIGKILL."""

    def __init__(self, root: Path | str, *options: str) -> None:
        self.root = root
        self._options = options
        self._channels: list[Any] = []
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "lode.ingest", "--root", str(self.root), "--port", "0"]
        self._process = subprocess.Popen(
            [*command, "--http-port", "0", *self._options], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.stdout.close()
            raise AssertionError(f"the server ended with {self._process.wait()} before it was ready")
        self.addresses: dict[str, str] = json.loads(line)

    @property
    def grpc_address(self) -> str:
        return self.addresses["grpc"]

    @property
    def http_url(self) -> str:
        return f"http://{self.addresses['http']}"

    @property
    def pid(self) -> int:
        return self._process.pid

    def write_client(self) -> BigQueryWriteClient:
        channel = grpc.insecure_channel(self.grpc_address)
        self._channels.append(channel)
        make: Any = BigQueryWriteClient  # its constructor has no types
        client: BigQueryWriteClient = make(transport=BigQueryWriteGrpcTransport(channel=channel))
        return client

    def kill(self) -> None:
        """Kill it without a chance to clean up."""
        self._process.kill()
        self._end()

    def terminate(self) -> int:
        """Send SIGTERM; returns the exit code."""
        self._process.terminate()
        return self._end()

    def _end(self) -> int:
        for channel in self._channels:
            channel.close()
        self._channels.clear()
        code = self._process.wait(300)
        assert self._process.stdout is not None
        self._process.stdout.close()
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._process.poll() is None:
            self.kill()


@contextmanager
def process_with_table(root: Path) -> Iterator[ServerProcess]:
    """A server whose lake has the table ``p.d.t`` with ``FIELDS``."""
    with ServerProcess(root) as process:
        base = f"{process.http_url}/bigquery/v2/projects/p/datasets"
        of_dataset = {"projectId": "p", "datasetId": "d"}
        table = {"tableReference": {**of_dataset, "tableId": "t"}, "schema": {"fields": FIELDS}}
        for url, body in ((base, {"datasetReference": of_dataset}), (f"{base}/d/tables", table)):
            urlopen(Request(url, json.dumps(body).encode(), {"content-type": "application/json"})).close()
        yield process
