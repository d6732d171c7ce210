"""A process that computes queries for a server, one at a time: ``python -m lode.sql.worker``.

It reads requests from its standard input and ends with it. It has a lower priority than the server, so that
queries wait for ingest and not the other way round.
"""

from __future__ import annotations

import json
import os
import pickle
import queue
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from concurrent.futures import Future
    from importlib.machinery import ModuleSpec

    import pyarrow as pa

    from lode.sql.database import Database, Limits

# Steps of priority below the server's: at the start, and more when it computes.
_NICE: Final = (5, 5)
# The kernel ends this process before the server if the machine has no memory left.
_OOM_SCORE: Final = "500"
_IDLE_SECONDS: Final = 300.0
_STOP_SECONDS: Final = 0.1


class _NoPandas:
    """Hides pandas, which pyarrow would import: more than half of the time of a start."""

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError("a process for queries does without pandas", name=name)
        return None


def main() -> None:
    """Answer requests until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: the server ends this process
    _yield(_NICE[0])
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE, "ascii")
    sys.meta_path.insert(0, _NoPandas())
    answers = os.dup(1)
    os.dup2(2, 1)  # what a library prints is no answer
    worker = _Worker(answers)
    import lode.sql.database  # noqa: F401, takes longer than all else of a start

    _yield(_NICE[1])
    worker.run()
    os._exit(0)  # threads of libraries may still run


def _yield(steps: int) -> None:
    if hasattr(os, "nice"):
        os.nice(steps)


class _Worker:
    """Answers requests. A thread reads them, and notices an interrupt and the end of the server at once."""

    def __init__(self, answers: int) -> None:
        self._answers = answers
        self._requests: queue.SimpleQueue[bytearray] = queue.SimpleQueue()
        self._read_requests = self._answered = self._stopped = 0
        self._database: Database | None = None
        self._numbered: list[Any] = []
        # Opens the database of the next query while the one before runs, and closes those of the past.
        self._beside = ThreadPoolExecutor(1)
        self._next: Future[Database] | None = None
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        from lode.sql.frames import read_frame

        with open(0, "rb", buffering=0, closefd=False) as requests:
            while (frame := read_frame(requests)) is not None:
                if frame[1]:
                    self._read_requests += 1
                    self._requests.put(frame[1])
                elif self._stopped < self._read_requests:
                    self._stopped = self._read_requests
                    threading.Thread(target=self._stop, args=(self._stopped,), daemon=True).start()
        os._exit(0)  # the server has ended

    def _stop(self, number: int) -> None:
        """Interrupt a request until it is answered: DuckDB forgets what comes before a statement runs."""
        while self._answered < number:
            if (database := self._database) is not None:
                database.interrupt()
            time.sleep(_STOP_SECONDS)

    def run(self) -> None:
        """Answer requests until none has come for a while."""
        from lode.sql.frames import DONE, FAILED, write_frame

        while True:
            try:
                request = self._requests.get(timeout=_IDLE_SECONDS if self._database is None else None)
            except queue.Empty:
                return
            try:
                name, *arguments = pickle.loads(request)
                found = getattr(self, name)(*arguments)
            except Exception as error:  # the server raises it
                write_frame(self._answers, FAILED, json.dumps(self._described(error)).encode())
            else:
                if name != "end":
                    write_frame(self._answers, DONE, json.dumps(found).encode())
            self._answered += 1

    # -- requests ------------------------------------------------------------------------------

    def begin(self, limits: Limits) -> None:
        from lode.sql.database import Database

        spare, self._next = self._next, None
        found = Database(limits) if spare is None else spare.result()
        if (found.limits.memory_bytes, found.limits.threads) != (limits.memory_bytes, limits.threads):
            found.close()
            found = Database(limits)
        self._database = found
        self._next = self._beside.submit(Database, limits)

    def end(self) -> None:
        used, self._database = self._database, None
        self._numbered.clear()
        if used is not None:
            self._beside.submit(used.close)

    def view(self, name: str, rows: Any, columns: str) -> None:
        from lode.sql.numbered import NumberedRows

        if isinstance(rows, NumberedRows):
            self._numbered.append(rows)
        self._used.view(name, rows, columns)

    def execute(self, written: str) -> None:
        self._used.execute(written)

    def changed(self, written: str) -> dict[str, int]:
        return self._used.changed(written)

    def schema(self, written: str) -> None:
        self._send_schema(self._used.schema(written))

    def result(self, written: str, schema: pa.Schema | None) -> None:
        from lode.sql.frames import BATCH, write_frame

        shown, batches = self._used.result(written, schema)
        self._send_schema(shown)
        for batch in batches:
            write_frame(self._answers, BATCH, memoryview(batch.serialize()))

    @property
    def _used(self) -> Database:
        assert self._database is not None
        return self._database

    def _send_schema(self, schema: pa.Schema) -> None:
        from lode.sql.frames import SCHEMA, write_frame

        write_frame(self._answers, SCHEMA, memoryview(schema.serialize()))

    def _described(self, error: Exception) -> dict[str, Any]:
        from lode.errors import LodeError, StoreError
        from lode.sql.database import DatabaseError
        from lode.sql.errors import QueryError

        if isinstance(error, DatabaseError):
            failures = [each.failure for each in self._numbered]
            failed = next((each for each in failures if not isinstance(each, ValueError | None)), None)
            of_rows = self._described(failed) if isinstance(failed, Exception) else None
            return {"type": "database", "kind": error.kind, "text": str(error), "failure": of_rows}
        if isinstance(error, QueryError):
            return {"type": "query", "text": str(error), "reason": error.reason, "location": error.location}
        if isinstance(error, StoreError | OSError):
            return {"type": "store", "text": str(error)}
        if isinstance(error, LodeError):
            return {"type": "lode", "text": str(error)}
        return {"type": "other", "text": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    main()
