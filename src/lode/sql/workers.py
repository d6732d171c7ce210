"""The processes that compute queries for a server, and the database of a query in one of them."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from lode.errors import LodeError, StoreError
from lode.lazy import pa
from lode.sql.database import DatabaseError
from lode.sql.errors import QueryError
from lode.sql.frames import BATCH, DONE, FAILED, REQUEST, SCHEMA, read_frame, write_frame
from lode.sql.numbered import NumberedRows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lode.sql.database import Limits

_COMMAND: Final = (sys.executable, "-P", "-m", "lode.sql.worker")
_INTERRUPT: Final = b""
_STOP_SECONDS: Final = 10.0


class WorkerLostError(DatabaseError):
    """The process of a query has ended before the query has."""

    def __init__(self, text: str) -> None:
        super().__init__("WorkerLost", text)


class Workers:
    """Processes for queries, as many as run at once. They are started when they are needed. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Process] = []
        self._all: set[_Process] = set()
        self._is_closed = False

    def open(self, limits: Limits) -> RemoteDatabase:
        """A database for one query."""
        while True:
            with self._lock:
                if self._is_closed:
                    raise WorkerLostError("The server stops: send the query again.")
                known = bool(self._idle)
                process = self._idle.pop() if known else _Process()
                self._all.add(process)
            database = RemoteDatabase(process, self)
            try:
                database.ask("begin", limits)
            except WorkerLostError:
                if not known:  # one that had nothing to do may have ended, a new one has a fault
                    raise
            else:
                return database

    def give_back(self, process: _Process, *, usable: bool) -> None:
        """Take a process after its query."""
        with self._lock:
            if usable and not self._is_closed:
                self._idle.append(process)
                return
            self._all.discard(process)
        process.end()

    def close(self) -> None:
        """End all processes."""
        with self._lock:
            self._is_closed = True
            ending, self._all = self._all, set()
            self._idle.clear()
        for process in ending:
            process.end()


class _Process:
    """One process. It ends with the pipe of its requests, so also if this process is killed."""

    def __init__(self) -> None:
        # Its modules are those of this process.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}
        pipe = subprocess.PIPE
        try:
            self._process = subprocess.Popen(_COMMAND, stdin=pipe, stdout=pipe, bufsize=0, env=environment)
        except OSError as error:
            raise WorkerLostError(f"No process for the query can be started ({error}): try again.") from None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout
        self._writing = threading.Lock()

    def send(self, content: bytes) -> None:
        with self._writing:
            try:
                write_frame(self._requests.fileno(), REQUEST, content)
            except (OSError, ValueError):  # ended, or closed by ``end``
                raise self.lost() from None

    def receive(self) -> tuple[bytes, bytearray]:
        try:
            frame = read_frame(self._answers)  # type: ignore[arg-type]  # not buffered
        except (OSError, ValueError):
            frame = None
        if frame is None:
            raise self.lost()
        return frame

    def kill(self) -> None:
        self._process.kill()

    def lost(self) -> WorkerLostError:
        """The error of a query whose process has ended."""
        self._process.kill()
        code = self._process.wait()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return WorkerLostError(
            f"The process that computed the query has ended ({how}), and nothing was changed by it: send the "
            "query again. If it ends each time, the machine may have too little memory for it."
        )

    def end(self) -> None:
        """End the process, and wait until it has."""
        self._process.kill()
        self._process.wait()
        with self._writing:
            self._requests.close()
        with suppress(OSError):
            self._answers.close()


class RemoteDatabase:
    """A ``Database`` in another process."""

    def __init__(self, process: _Process, workers: Workers) -> None:
        self._process = process
        self._workers = workers
        self._numbered: list[NumberedRows] = []
        # Whether answers are due.
        self._is_busy = False
        # The process computes other queries when this one has ended.
        self._ending = threading.Lock()
        self._is_ended = False

    def close(self) -> None:
        usable = False
        with self._ending:
            self._is_ended = True
        try:
            self._drain()
            self._process.send(pickle.dumps(("end",)))
            usable = True
        except WorkerLostError:
            pass
        finally:
            self._workers.give_back(self._process, usable=usable)

    def interrupt(self) -> None:
        with self._ending, suppress(WorkerLostError):
            if not self._is_ended:
                self._process.send(_INTERRUPT)

    def kill(self) -> None:
        with self._ending:
            if not self._is_ended:
                self._process.kill()

    def view(self, name: str, rows: Any, columns: str) -> None:
        if isinstance(rows, NumberedRows):
            self._numbered.append(rows)
        self.ask("view", name, rows, columns)

    def execute(self, written: str) -> None:
        self.ask("execute", written)

    def changed(self, written: str) -> dict[str, int]:
        counts: dict[str, int] = self.ask("changed", written)
        return counts

    def schema(self, written: str) -> pa.Schema:
        schema = self._described("schema", written)
        self._next(DONE)
        return schema

    def result(
        self, written: str, schema: pa.Schema | None = None
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        schema = self._described("result", written, schema)
        return schema, self._batches(schema)

    def ask(self, *request: Any) -> Any:
        """Send a request and return its answer."""
        self._send(*request)
        return json.loads(self._next(DONE)[1])

    def _described(self, *request: Any) -> pa.Schema:
        self._send(*request)
        return pa.ipc.read_schema(pa.py_buffer(self._next(SCHEMA)[1]))

    def _batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        while (frame := self._next(BATCH, DONE))[0] == BATCH:
            batch = pa.ipc.read_record_batch(pa.py_buffer(frame[1]), schema)
            batch.validate()
            yield batch

    def _send(self, *request: Any) -> None:
        self._drain()
        content = pickle.dumps(request, protocol=5)
        self._is_busy = True
        self._process.send(content)

    def _next(self, *expected: bytes) -> tuple[bytes, bytearray]:
        try:
            kind, content = self._process.receive()
        except WorkerLostError:
            self._is_busy = False
            raise
        self._is_busy = kind not in (DONE, FAILED)
        if kind == FAILED:
            raise self._error(json.loads(content))
        assert kind in expected, kind
        return kind, content

    def _drain(self) -> None:
        """Stop a query whose rows were not all read."""
        if not self._is_busy:
            return
        self._process.send(_INTERRUPT)
        patience = threading.Timer(_STOP_SECONDS, self._process.kill)
        patience.start()
        try:
            while self._is_busy:
                self._is_busy = self._process.receive()[0] not in (DONE, FAILED)
        finally:
            patience.cancel()

    def _error(self, found: dict[str, Any]) -> Exception:
        text = found["text"]
        match found["type"]:
            case "database":
                for rows in self._numbered if found["failure"] else ():
                    rows.failure = self._error(found["failure"])
                return DatabaseError(found["kind"], text)
            case "query":
                return QueryError(text, reason=found["reason"], location=found["location"])
            case "store":
                return StoreError(text)
            case "lode":
                return LodeError(text)
        return RuntimeError(text)
