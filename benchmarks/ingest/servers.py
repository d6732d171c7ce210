"""The servers of the ingest benchmark: each starts as a process of its own and is asked over REST v2."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from contextlib import closing
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit

import pyarrow.parquet as pq

import lode
from benchmarks.ingest.load import DATASET, IDLE, PROJECT, WARM_UP
from benchmarks.ingest.requests import COLUMNS
from benchmarks.peers import bqemulator
from lode.testing.servers import end_process

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

_START_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 10.0
# What takes longer does not count.
_PATIENCE_SECONDS: Final = 190


class Server(ABC):
    """A server with the dataset of the benchmark, from entering the block to leaving it."""

    name: str
    # Whether the rows that it acknowledged can be counted.
    keeps_rows = True

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.grpc = ""
        self.http = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the server

    @abstractmethod
    def count(self, table: str) -> int:
        """The rows that are there, found out on another way than the one they came."""

    @abstractmethod
    def _start(self) -> None:
        """Start the process and learn its addresses."""

    def create_table(self, table: str, **more: Any) -> None:
        fields = [{"name": name, "type": kind} for name, kind in COLUMNS.items()]
        body = {"tableReference": _reference(table), "schema": {"fields": fields}, **more}
        self.post(f"datasets/{DATASET}/tables", body)

    def query(self, text: str) -> list[list[str]]:
        """The rows of a query as texts, when it is done."""
        wait = {"useQueryCache": False, "timeoutMs": _PATIENCE_SECONDS * 1000}
        answer = self.post("queries", {"query": text, "useLegacySql": False, **wait})
        if not answer["jobComplete"]:
            raise RuntimeError(f"a query took more than {_PATIENCE_SECONDS} s")
        return [[cell["v"] for cell in row["f"]] for row in answer.get("rows", [])]

    def load(self, table: str, path: Path, **settings: Any) -> None:
        """Upload a file and load it into the table, which exists."""
        load = {"destinationTable": _reference(table), "writeDisposition": "WRITE_APPEND", **settings}
        body = json.dumps({"configuration": {"load": load}})
        address = self.http.removeprefix("http://")
        upload = f"/upload/bigquery/v2/projects/{PROJECT}/jobs?uploadType=resumable"
        with closing(http.client.HTTPConnection(address, timeout=_PATIENCE_SECONDS)) as connection:
            connection.request("POST", upload, body, {"Content-Type": "application/json"})
            begun = connection.getresponse()
            begun.read()
            session = urlsplit(begun.headers["Location"])
            size = path.stat().st_size
            with path.open("rb") as file:
                headers = {"Content-Length": str(size), "Content-Range": f"bytes 0-{size - 1}/{size}"}
                connection.request("PUT", f"{session.path}?{session.query}", file, headers)
                answer = connection.getresponse()
                job = json.loads(answer.read())
        if answer.status != HTTPStatus.OK:
            raise RuntimeError(f"the upload failed: {job}")
        while job["status"]["state"] != "DONE":
            time.sleep(0.02)
            job = self.get(f"jobs/{job['jobReference']['jobId']}?location={job['jobReference']['location']}")
        if "errorResult" in job["status"]:
            raise RuntimeError(f"the load failed: {job['status']['errorResult']}")

    def peak_mb(self) -> float:
        """The largest resident size of the process and those it started, in MB."""
        return sum(_peak_mb(process) for process in _with_children(self._running.pid))

    def forget_peak(self) -> None:
        """Let ``peak_mb`` count from now on."""
        for process in _with_children(self._running.pid):
            Path(f"/proc/{process}/clear_refs").write_text("5")

    def post(self, path: str, body: dict[str, Any]) -> Any:
        request = urllib.request.Request(
            f"{self.http}/bigquery/v2/projects/{PROJECT}/{path}",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=_PATIENCE_SECONDS) as answer:
            return json.load(answer)

    def get(self, path: str) -> Any:
        url = f"{self.http}/bigquery/v2/projects/{PROJECT}/{path}"
        with urllib.request.urlopen(url, timeout=_PATIENCE_SECONDS) as answer:
            return json.load(answer)

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError(f"{self.name} has not been started")
        return self._process

    def _tail(self) -> str:
        self._log.seek(0)
        return self._log.read()[-2000:].decode(errors="replace").strip()

    def __enter__(self) -> Self:
        try:
            self._start()
            self.post("datasets", {"datasetReference": {"projectId": PROJECT, "datasetId": DATASET}})
            for table in (WARM_UP, IDLE):
                self.create_table(table)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            end_process(process, patience=_STOP_SECONDS)
            if process.stdout is not None:
                process.stdout.close()
        self._log.close()


class LodeServer(Server):
    """Ours, on a local directory, with everything synced before it is acknowledged."""

    name = "Lode"

    def _start(self) -> None:
        where = ["--root", self._root, "--state", str(self.folder / "state"), *self._extra]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "lode.ingest", *where, "--port", "0", "--http-port", "0", "--json"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} did not start:\n{self._tail()}")
        addresses = json.loads(line)
        self.grpc, self.http = addresses["grpc"], f"http://{addresses['http']}"

    def count(self, table: str) -> int:
        """By the footers of the files that the manifests name, read from the directory."""
        reader = lode.DatasetReader(self._root)
        found = 0
        for ref in reader.list_manifests(f"{PROJECT}.{DATASET}.{table}"):
            manifest = reader.get_manifest(ref)
            files = [self.folder / "root" / file.path for file in manifest.files]
            rows = sum(pq.read_metadata(file).num_rows for file in files)
            if rows != manifest.row_count:
                raise RuntimeError(f"{ref} names {manifest.row_count} rows, its files have {rows}")
            found += rows
        return found

    @property
    def _root(self) -> str:
        return f"file://{self.folder / 'root'}"

    @property
    def _extra(self) -> list[str]:
        """More options of its command line."""
        return []


class BqEmulator(Server):
    """bqemulator as it starts by default: its tables are in memory."""

    name: Literal["bqemulator"] = "bqemulator"

    def _start(self) -> None:
        rest, grpc = free_port(), free_port()
        command = bqemulator.command(rest, grpc)
        self._process = subprocess.Popen(
            command,
            env=bqemulator.environment(),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        self.grpc, self.http = f"127.0.0.1:{grpc}", f"http://127.0.0.1:{rest}"
        if not (_answers(rest, self._process) and _answers(grpc, self._process)):
            raise bqemulator.UnavailableError(f"it did not start:\n{self._tail()}")

    def count(self, table: str) -> int:
        return int(self.query(f"SELECT COUNT(*) FROM `{PROJECT}.{DATASET}.{table}`")[0][0])


class Ceiling(Server):
    """Discards the rows: no server on the same gRPC stack gets more out of the client."""

    name = "ceiling"
    keeps_rows = False

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.ingest.ceiling"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        assert self._process.stdout is not None
        port = self._process.stdout.readline()
        if not port:
            raise RuntimeError(f"the {self.name} did not start:\n{self._tail()}")
        self.grpc = f"127.0.0.1:{int(port)}"

    def count(self, table: str) -> int:
        raise NotImplementedError(f"the {self.name} keeps no rows of {table}")

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """It has no tables, so there are none to create."""
        return {}


def _reference(table: str) -> dict[str, str]:
    return {"projectId": PROJECT, "datasetId": DATASET, "tableId": table}


def _answers(port: int, process: subprocess.Popen[bytes]) -> bool:
    deadline = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1):
                return True
        except OSError:
            time.sleep(0.05)
    return False


def free_port() -> int:
    """A free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _with_children(process: int) -> list[int]:
    found = [process]
    for parent in found:
        for thread in Path(f"/proc/{parent}/task").glob("*/children"):
            found += [int(child) for child in thread.read_text().split()]
    return found


def _peak_mb(process: int) -> float:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)
