"""A server in a process of its own with small limits, watched while it gets bombs."""

from __future__ import annotations

import base64
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final
from urllib.parse import quote

from google.cloud.bigquery_storage_v1 import types

from support.bombs import proc
from support.ingest.appending import arrow_request, batch_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

MIB: Final = 1 << 20
QUERIES: Final = 2
QUERY_BYTES: Final = 256 * MIB
QUERY_SECONDS: Final = 3
LOAD_SECONDS: Final = 8
GRACE_SECONDS: Final = 5
FLAGS: Final = (
    *("--queries", str(QUERIES), "--query-bytes", str(QUERY_BYTES), "--query-time", str(QUERY_SECONDS)),
    *("--load-bytes", str(QUERY_BYTES), "--load-time", str(LOAD_SECONDS)),
    *("--result-bytes", str(256 * MIB), "--request-bytes", str(4 * MIB), "--window-bytes", str(32 * MIB)),
    *("--staged-bytes", str(1024 * MIB), "--streams", "200", "--grace", str(GRACE_SECONDS)),
)
BASE: Final = "/bigquery/v2/projects/p"
TABLE: Final = f"{BASE}/datasets/d/tables/t"
FIELDS: Final = [{"name": "id", "type": "INT64"}, {"name": "name", "type": "STRING"}]


@dataclass(frozen=True, slots=True)
class End:
    """How a bomb ended.

    Args:
        status: That of the answer, 0 if nothing answered.
        text: The beginning of the answer.
        fault: What is wrong with it, besides its status.
    """

    status: int
    text: str
    fault: str = ""

    def __str__(self) -> str:
        return f"{self.status or 'no answer'} {self.text}"


@dataclass(frozen=True, slots=True)
class Seen:
    """What the watch saw during a bomb: seconds and bytes."""

    health: float
    insert: float
    append: float
    refused: list[str]
    lag: float
    own: int
    children: int
    largest: int
    count: int
    tree: int
    killed: bool
    probes: int
    inserts: int


class Served:
    """``lode serve`` on a new lake with the table ``p.d.t``, and the watch beside it."""

    def __init__(self, root: Path, *flags: str, guard_bytes: int = 8 << 30) -> None:
        self._log: IO[str] = (root / "server.log").open("w")
        command = [sys.executable, "-m", "lode.ingest", "--root", str(root / "lake")]
        # A session of its own: the guard ends it with all that it has started.
        self._process = subprocess.Popen(
            [*command, "--port", "0", "--http-port", "0", *(flags or FLAGS)],
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise AssertionError(f"the server ended with {self._process.wait()} before it was ready")
        self.addresses: dict[str, str] = json.loads(line)
        named = {"projectId": "p", "datasetId": "d"}
        self.post(f"{BASE}/datasets", {"datasetReference": named})
        self.create_table("t", FIELDS)
        tests = str(Path(__file__).parents[2])
        self._watch = subprocess.Popen(
            [
                *(sys.executable, "-m", "support.bombs.watch"),
                *(str(self.pid), self.addresses["http"], TABLE, str(guard_bytes)),
                *(self.addresses["grpc"], base64.b64encode(_append_request()).decode()),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": tests},
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    @property
    def grpc_address(self) -> str:
        return self.addresses["grpc"]

    def create_table(self, name: str, fields: list[dict[str, Any]], **more: Any) -> End:
        reference = {"projectId": "p", "datasetId": "d", "tableId": name}
        body = {"tableReference": reference, "schema": {"fields": fields}, **more}
        return self.post(f"{BASE}/datasets/d/tables", body)

    # -- the watch -----------------------------------------------------------------------------

    @contextmanager
    def watched(self) -> Iterator[list[Seen]]:
        """Watch the server; the list has what was seen, after the block."""
        seen: list[Seen] = []
        self._tell("begin")
        try:
            yield seen
        finally:
            seen.append(Seen(**self._tell("end")))

    def _tell(self, command: str) -> dict[str, Any]:
        assert self._watch.stdin is not None
        assert self._watch.stdout is not None
        self._watch.stdin.write(f"{command}\n")
        self._watch.stdin.flush()
        answer: dict[str, Any] = json.loads(self._watch.stdout.readline())
        return answer

    # -- calls ---------------------------------------------------------------------------------

    def call(
        self,
        verb: str,
        path: str,
        body: bytes | None = None,
        *,
        timeout: float = 30,
        source: str = "127.0.0.1",
        **headers: str,
    ) -> tuple[int, dict[str, str], bytes]:
        """Send a request; returns the status, the headers and the body. Status 0: no answer.

        ``source`` is the client's address: another one of this machine is another client.
        """
        host, _, port = self.addresses["http"].rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=timeout, source_address=(source, 0))
        sent = {"Content-Type": "application/json"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        try:
            # Sent before the answer is read. The server may refuse a large body before it has all of it.
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.request(verb, path, body, sent)
            answer = connection.getresponse()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        except (OSError, http.client.HTTPException) as error:
            return 0, {}, f"{type(error).__name__} {error}".encode()
        finally:
            connection.close()

    def post(self, path: str, body: Any, *, timeout: float = 30, verb: str = "POST") -> End:
        """Send JSON; bytes are sent as they are."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        status, _, answer = self.call(verb, path, data, timeout=timeout)
        return _end(status, answer)

    def query(self, sql: str, *, timeout: float = 30, **more: Any) -> End:
        """Run a query until it ends or the time is over, as a client does that polls."""
        until = time.monotonic() + timeout
        body = {"query": sql, "useLegacySql": False, "timeoutMs": 2_000, "maxResults": 2, **more}
        status, _, answer = self.call("POST", f"{BASE}/queries", json.dumps(body).encode(), timeout=timeout)
        while status == 200:
            found = json.loads(answer)
            if found.get("jobComplete"):
                return End(200, f"{found.get('totalRows', 'no')} rows")
            if time.monotonic() > until:
                return End(0, f"still running after {timeout:.0f} s")
            job = found["jobReference"]["jobId"]
            status, _, answer = self.call(
                "GET", f"{BASE}/queries/{quote(job)}?timeoutMs=2000&maxResults=2", timeout=timeout
            )
        return _end(status, answer)

    def load(self, data: bytes, kind: str, *, timeout: float = 30, fields: Any = None, **more: Any) -> End:
        """Upload a file in one request, and wait for its job."""
        table = f"l{time.monotonic_ns()}"
        settings: dict[str, Any] = {
            "sourceFormat": kind,
            "destinationTable": {"projectId": "p", "datasetId": "d", "tableId": table},
            **({"schema": {"fields": fields}} if fields else {"autodetect": True}),
            **more,
        }
        mark = b"=bomb=" + os.urandom(8).hex().encode()
        body = b"\r\n".join(
            [
                b"--" + mark,
                b"Content-Type: application/json\r\n",
                json.dumps({"configuration": {"load": settings}}).encode(),
                b"--" + mark,
                b"Content-Type: */*\r\n",
                data,
                b"--" + mark + b"--\r\n",
            ]
        )
        until = time.monotonic() + timeout
        status, _, answer = self.call(
            "POST",
            f"/upload{BASE}/jobs?uploadType=multipart",
            body,
            timeout=timeout,
            Content_Type=f"multipart/related; boundary={mark.decode()}",
        )
        if status != 200:
            return _end(status, answer)
        return self.finished(json.loads(answer)["jobReference"]["jobId"], until)

    def finished(self, job: str, until: float) -> End:
        """Wait for a job until a moment of the monotonic clock."""
        while True:
            wait = max(1.0, until - time.monotonic())
            status, _, answer = self.call("GET", f"{BASE}/jobs/{quote(job)}", timeout=wait)
            if status != 200:
                return _end(status, answer)
            found = json.loads(answer)["status"]
            if found["state"] == "DONE":
                error = found.get("errorResult")
                reasons = {"internalError": 500, "backendError": 503}
                if error is None:
                    return End(200, "loaded")
                return End(reasons.get(error["reason"], 400), error["message"][:160])
            if time.monotonic() > until:
                return End(0, "the job still runs")
            time.sleep(0.1)

    # -- the end -------------------------------------------------------------------------------

    def terminate(self) -> tuple[float, list[int]]:
        """Send SIGTERM; returns the seconds until the server ended, and the processes that it left."""
        started = proc.below(self.pid)
        began = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE_SECONDS + 15)
        seconds = time.monotonic() - began
        known = proc.parents()
        return seconds, [pid for pid in started if pid in known]

    def close(self) -> None:
        """End everything at once."""
        with suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._watch.kill()
        self._watch.wait()
        for pipe in (self._watch.stdin, self._watch.stdout):
            assert pipe is not None
            with suppress(OSError):
                pipe.close()
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _append_request() -> bytes:
    stream = "projects/p/datasets/d/tables/t/streams/_default"
    return bytes(types.AppendRowsRequest.serialize(arrow_request(stream, batch_of([1]))))


def _end(status: int, answer: bytes) -> End:
    try:
        found = json.loads(answer)
        text = found["error"]["message"] if "error" in found else f"{len(answer):,} bytes"
    except (ValueError, TypeError, KeyError):
        text = answer[:160].decode("utf-8", "replace")
    return End(status, text[:160].replace("\n", " "))
